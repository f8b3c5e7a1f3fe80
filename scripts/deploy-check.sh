#!/usr/bin/env bash
# Lets the programs that read the files in deploy check them: promtool and systemd-analyze. With --install, Debian's
# promtool is unpacked into bin/tools; the server that comes with it is not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:$PWD/bin/tools/usr/bin

if [ "${1-}" = --install ] && ! command -v promtool >/dev/null; then
  mkdir -p bin/tools
  (cd bin/tools && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb)
fi
command -v promtool >/dev/null || { echo 'promtool is not installed: run scripts/deploy-check.sh --install, or apt-get install prometheus' >&2; exit 1; }
command -v systemd-analyze >/dev/null || { echo 'systemd-analyze is not installed: apt-get install systemd' >&2; exit 1; }

promtool check rules deploy/prometheus/alerts.yml
promtool check config --syntax-only deploy/prometheus/prometheus.yml
promtool test rules deploy/prometheus/alerts-test.yml

# The units of a machine on which the program is installed: its path is replaced by one that exists.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for unit in deploy/systemd/*.service; do
  sed 's|/usr/bin/mapwright|/bin/true|; /^Documentation=/d' "$unit" >"$work/${unit##*/}"
done
systemd-analyze verify "$work"/*.service
echo 'deploy is right'
