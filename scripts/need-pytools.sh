#!/usr/bin/env bash
# Checks that the Python programs are there with which `make format-test` reads WARC and Parquet files. With --install it installs them from PyPI into a virtual environment in bin/pytools.
set -euo pipefail
cd "$(dirname "$0")/.."

packages='warcio==1.8.1 pywb==2.10.0 duckdb==2.0.0'
venv=bin/pytools

have() { [ -x "$venv/bin/python" ] && [ "$(cat "$venv/packages" 2>/dev/null)" = "$packages" ]; }

if [ "${1-}" = --install ] && ! have; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  # shellcheck disable=SC2086
  "$venv/bin/pip" install --quiet --disable-pip-version-check $packages
  echo "$packages" >"$venv/packages"
fi

have || { echo "$packages are not in $venv. The tests of file formats need them: run scripts/need-pytools.sh --install, which needs python3 with venv." >&2; exit 1; }
