#!/usr/bin/env bash
# Checks that nginx, curl and jq are there for `make service-test`. With --install it installs Debian's packages if not.
set -euo pipefail
PATH=$PATH:/usr/sbin

have() { command -v nginx >/dev/null && command -v curl >/dev/null && command -v jq >/dev/null; }

have && exit 0
if [ "${1-}" = --install ]; then
  sudo=
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  $sudo apt-get update -qq
  # The package would start a server of its own, which is not needed.
  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 $sudo apt-get install -y -qq --no-install-recommends nginx-light curl jq >/dev/null
  have && exit 0
fi
echo 'nginx, curl or jq is not installed. The tests of the service start an nginx of their own and run the commands of docs/service.md: run scripts/need-nginx.sh --install, or apt-get install nginx-light curl jq.' >&2
exit 1
