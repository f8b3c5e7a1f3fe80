#!/usr/bin/env bash
# Checks that a Redis or Valkey server is there for `make cluster-test`. With --install it installs Debian's package if not.
set -euo pipefail

have() { command -v redis-server >/dev/null || command -v valkey-server >/dev/null; }

have && exit 0
if [ "${1-}" = --install ]; then
  sudo=
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  $sudo apt-get update -qq
  # The package would start a server of its own, which is not needed. Links to nowhere keep its services from starting.
  for unit in redis-server redis; do
    [ -e "/etc/systemd/system/$unit.service" ] || $sudo systemctl mask "$unit.service" >/dev/null 2>&1 || true
  done
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends redis-server >/dev/null
  have && exit 0
fi
echo 'Redis is not installed. The tests of several machines start a server of their own and need its program: run scripts/need-redis.sh --install, or apt-get install redis-server.' >&2
exit 1
