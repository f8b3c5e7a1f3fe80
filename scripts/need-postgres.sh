#!/usr/bin/env bash
# Checks that PostgreSQL's server is there for `make cluster-test`. With --install it installs Debian's package if not.
set -euo pipefail

have() { compgen -G '/usr/lib/postgresql/*/bin/pg_ctl' >/dev/null || command -v pg_ctl >/dev/null; }

have && exit 0
if [ "${1-}" = --install ]; then
  sudo=
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  $sudo apt-get update -qq
  # The package would start a server of its own, which is not needed.
  $sudo mkdir -p /etc/postgresql-common
  [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' | $sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq postgresql >/dev/null
  have && exit 0
fi
echo 'PostgreSQL is not installed. The tests of several machines start a server of their own and need its programs: run scripts/need-postgres.sh --install, or apt-get install postgresql.' >&2
exit 1
