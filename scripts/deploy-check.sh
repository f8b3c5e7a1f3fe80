#!/usr/bin/env bash
# Lets programs that know the formats check the files in deploy and .github: promtool, systemd-analyze, and the schemas of
# Kubernetes, Compose and GitHub. With --install, Debian's promtool is unpacked into bin/tools, without the server that
# comes with it, and the schemas come from PyPI into bin/tools/schemas.
set -euo pipefail
cd "$(dirname "$0")/.."
schemas=bin/tools/schemas
packages='check-jsonschema==0.39.0 kubernetes-validate==1.37.0'
PATH=$PATH:$PWD/bin/tools/usr/bin:$PWD/$schemas/bin

if [ "${1-}" = --install ]; then
  mkdir -p bin/tools
  command -v promtool >/dev/null ||
    (cd bin/tools && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb)
  if [ "$(cat $schemas/packages 2>/dev/null)" != "$packages" ]; then
    rm -rf $schemas
    python3 -m venv $schemas
    # shellcheck disable=SC2086
    $schemas/bin/pip install --quiet --disable-pip-version-check $packages
    echo "$packages" >$schemas/packages
  fi
fi
for program in promtool check-jsonschema kubernetes-validate; do
  command -v $program >/dev/null || { echo "$program is not installed: run scripts/deploy-check.sh --install" >&2; exit 1; }
done
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

# A field that is not in the schema is an error. The oldest and the newest version that the schemas have.
for version in 1.27 1.37; do
  kubernetes-validate --strict --quiet --kubernetes-version $version deploy/kubernetes/{service,cluster}.yaml
done
check-jsonschema --builtin-schema vendor.compose-spec deploy/compose/compose.yaml
check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
echo 'deploy is right'
