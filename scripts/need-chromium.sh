#!/usr/bin/env bash
# Checks that Chromium and axe-core are there for `make browser-test`. With --install it installs Debian's Chromium, and fetches axe-core from npm into bin/axe-core.
# With BROWSER=short in the environment, axe-core is not needed.
set -euo pipefail
cd "$(dirname "$0")/.."

version=4.14.0
sum=20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878 # of axe.min.js
axe=bin/axe-core/axe.min.js

have_chromium() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; }
have_axe() { [ "${BROWSER-full}" = short ] || { [ -f "$axe" ] && echo "$sum  $axe" | sha256sum --check --quiet - 2>/dev/null; }; }

if [ "${1-}" = --install ]; then
  if ! have_chromium; then
    sudo=
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq chromium >/dev/null
  fi
  if ! have_axe; then
    mkdir -p "$(dirname "$axe")"
    temp=$(mktemp -d)
    trap 'rm -rf "$temp"' EXIT
    if command -v npm >/dev/null; then
      npm pack "axe-core@$version" --silent --pack-destination "$temp" >/dev/null
    else
      curl -fsSL --max-time 60 -o "$temp/axe-core-$version.tgz" "https://registry.npmjs.org/axe-core/-/axe-core-$version.tgz"
    fi
    tar -xzf "$temp/axe-core-$version.tgz" -C "$temp" package/axe.min.js
    echo "$sum  $temp/package/axe.min.js" | sha256sum --check --quiet -
    mv "$temp/package/axe.min.js" "$axe"
  fi
fi

have_chromium || { echo 'Chromium is not installed. The browser tests need it: run scripts/need-chromium.sh --install, or apt-get install chromium.' >&2; exit 1; }
have_axe || { echo "axe-core $version is not in bin/axe-core. The browser tests need it: run scripts/need-chromium.sh --install." >&2; exit 1; }
