#!/usr/bin/env bash
# Makes the release of the commit that is checked out, twice: in two clones at different paths, the second time from an
# empty build cache. Both must have the same bytes. Then it installs, runs and removes the packages, below directories of
# its own, and runs what this machine can run of the other targets. RELEASE_TARGETS=linux/amd64 makes only that,
# RELEASE_AGAIN=linux/amd64 makes only that a second time, and RELEASE_PGO=off builds without the profile, which is
# faster and makes a slower program.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }
missing() { echo "$1 is not installed: apt-get install $2" >&2; exit 1; }
command -v dpkg >/dev/null || missing dpkg dpkg
command -v rpm >/dev/null || missing rpm rpm

out=$PWD/bin/release
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
commit=$(git rev-parse HEAD)
if [ -n "$(git status --porcelain)" ]; then
  echo "changes that are not committed are not in the release, which is that of $commit"
fi
tag=$(git describe --tags --exact-match 2>/dev/null || true)
if [ -n "$tag" ] && ! grep -qF "## [${tag#v}]" CHANGELOG.md; then
  echo "CHANGELOG.md has no section for $tag" >&2
  exit 1
fi
root= # as root in a name space of its own, where this is not root already
[ "$(id -u)" -eq 0 ] || root='unshare -r'

release() { # release CLONE DIRECTORY TARGETS
  git clone -q "$PWD" "$1"
  git -C "$1" checkout -q --detach "$commit"
  (cd "$1" && go run ./scripts/release -pgo "${RELEASE_PGO:-auto}" ${3:+-targets "$3"} build "$2")
}

step 'first build'
release "$work/first" "$work/release" "${RELEASE_TARGETS-}"
step 'second build, at another path and from an empty cache'
mkdir "$work/another"
GOCACHE=$work/cache release "$work/another/place" "$work/again" "${RELEASE_AGAIN-${RELEASE_TARGETS-}}"
step 'the two have the same bytes'
(cd "$work/again" && sha256sum --check SHA256SUMS)
(cd "$work/release" && sha256sum --check "$work/again/SHA256SUMS")
rm -rf "$work/again" "$work/cache" "$work/another"
mkdir -p "$(dirname "$out")"
rm -rf "$out"
cp -r "$work/release" "$out"
(cd "$out" && sha256sum --check --quiet SHA256SUMS)
ls -l "$out"

try() { # try COMMAND...: the program works: it says its version, and crawls its own site
  "$@" version
  "$@" demo --data-dir "$work/demo" >"$work/demo.txt" 2>&1 || { cat "$work/demo.txt"; exit 1; }
  grep -q '^Status  *complete' "$work/demo.txt"
  test -s "$work/demo/sitemap.xml"
  rm -rf "$work/demo"
}

processor=$(go env GOHOSTARCH)
deb=$(echo "$out"/*_"$processor".deb)
if [ -e "$deb" ]; then
  step "install, run and remove ${deb##*/}"
  mkdir -p "$work/deb/var/lib/dpkg/updates" "$work/deb/var/lib/dpkg/info"
  touch "$work/deb/var/lib/dpkg/status" "$work/deb/var/lib/dpkg/available"
  $root dpkg --root="$work/deb" --log="$work/dpkg.log" --force-not-root --force-depends --force-architecture -i "$deb"
  $root dpkg --root="$work/deb" --verify mapwright
  try "$work/deb/usr/bin/mapwright"
  bash -n "$work/deb/usr/share/bash-completion/completions/mapwright"
  gzip -dc "$work/deb/usr/share/man/man1/mapwright-crawl.1.gz" | grep -F "start\\-url" >/dev/null
  $root dpkg --root="$work/deb" --log="$work/dpkg.log" --force-not-root -P mapwright
  test -z "$(find "$work/deb/usr" -name '*mapwright*' 2>/dev/null)"
fi

rpm=$(echo "$out"/*."$(uname -m)".rpm)
if [ -e "$rpm" ]; then
  step "install, run and remove ${rpm##*/}"
  rpm -Kv --nosignature "$rpm"
  mkdir "$work/rpm"
  rpm="rpm --root $work/rpm"
  $root $rpm --initdb
  $root $rpm -i "$out"/*."$(uname -m)".rpm
  $root $rpm -V mapwright
  try "$work/rpm/usr/bin/mapwright"
  $root $rpm -e mapwright
  test -z "$(find "$work/rpm/usr" -name '*mapwright*' 2>/dev/null)"
fi

step 'other processors and systems'
for archive in "$out"/*.tar.gz "$out"/*.zip; do
  [ -e "$archive" ] || continue
  name=$(basename "$archive" | sed 's/\.tar\.gz$//; s/\.zip$//')
  mkdir "$work/$name"
  case $name in
    *_linux_"$processor") run= ;;
    *_linux_arm64) run=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || run=no ;;
    *) run=no ;;
  esac
  if [ "$run" = no ]; then
    echo "$name: built, not run"
    continue
  fi
  tar -xzf "$archive" -C "$work/$name"
  echo "$name: runs${run:+ under $run}"
  try $run "$work/$name/$name/mapwright"
done

step 'go install of a version'
# A module proxy in a directory that has this commit as a version of its own: Go remembers the files of a version.
version=0.98.$(git log -1 --format=%ct "$commit")
proxy=$work/proxy/github.com/mapwright/mapwright/@v
mkdir -p "$proxy"
cp go.mod "$proxy/v$version.mod"
echo "{\"Version\":\"v$version\"}" >"$proxy/v$version.info"
echo "v$version" >"$proxy/list"
git archive --format=zip --prefix=github.com/mapwright/mapwright@v$version/ -o "$proxy/v$version.zip" "$commit" \
  -- . ':!examples' ':!bench/peers' # which are modules of their own
(cd "$work" && GOPROXY=file://$work/proxy,$(go env GOPROXY) GONOSUMDB=github.com/mapwright/* GOFLAGS='-trimpath -pgo=off' \
  GOMODCACHE=$(go env GOMODCACHE) GOBIN=$work/gobin go install github.com/mapwright/mapwright/cmd/mapwright@latest)
"$work/gobin/mapwright" version | grep -F "mapwright $version "
# The version is not a real one: it does not stay in the cache of modules.
chmod -R u+w "$(go env GOMODCACHE)/github.com/mapwright/mapwright@v$version"
rm -rf "$(go env GOMODCACHE)/github.com/mapwright/mapwright@v$version" \
  "$(go env GOMODCACHE)/cache/download/github.com/mapwright/mapwright"

step "done; the release is in bin/release"
