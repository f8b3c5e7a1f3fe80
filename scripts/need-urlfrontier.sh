#!/usr/bin/env bash
# Builds the official client and test suite of URLFrontier in bin/url-frontier for `make urlfrontier-test`, from the source in URLFRONTIER_SRC (a directory or an archive). With --install it installs Debian's Java and Maven if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

src=${URLFRONTIER_SRC:-${CONFORMANCE_DIR:-../shared/conformance}/urlfrontier/url-frontier-2.6.tar.gz}
built=bin/url-frontier

have() { command -v javac >/dev/null && command -v mvn >/dev/null; }

if ! have && [ "${1-}" = --install ]; then
  sudo=
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless maven >/dev/null
fi
have || { echo 'Java or Maven is not installed. The official tests of URLFrontier need them: run scripts/need-urlfrontier.sh --install, or apt-get install openjdk-17-jdk-headless maven.' >&2; exit 1; }
[ -e "$src" ] || { echo "there is no $src: set URLFRONTIER_SRC to the source of URLFrontier 2.6, as a directory or an archive (https://github.com/crawler-commons/url-frontier)" >&2; exit 1; }

[ "$(cat "$built/.built" 2>/dev/null)" != "$src" ] || exit 0
rm -rf "$built"
mkdir -p "$built"
if [ -d "$src" ]; then cp -r "$src/." "$built"; else tar xf "$src" -C "$built"; fi
cd "$built"
[ -d .git ] || git init -q # its build wants a git directory
mvn -q -DskipTests -Dgpg.skip install -pl API,client -am
echo "$src" >.built
