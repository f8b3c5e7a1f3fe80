#!/usr/bin/env bash
# Runs `make test` RUNS times (default 20), every second time beside four busy loops and a writer to the disk.
# Each run has an empty build cache of its own, as on a new clone: packages compile while others are tested, and four
# times as many test programs run at once. Vet, which finds the same each time, is for make lint, and tables for
# debuggers are not made: that saves a seventh of the time to compile.
# Stops at the first failure and keeps its output in OUT (default: a new temporary directory).
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-20}
out=${OUT:-$(mktemp -d "${TMPDIR:-/tmp}/mapwright-test-hard.XXXXXX")}
mkdir -p "$out"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/mapwright-load.XXXXXX")
programs=$((4 * $(getconf _NPROCESSORS_ONLN))) # compilers and test programs at once; make test has one for each processor
load=()
tests=

# The load ends with this script whatever happens to it: each process looks whether it is still there.
busy() { while kill -0 "$1" 2>/dev/null; do for _ in {1..100000}; do :; done; done; }
fill() {
  while kill -0 "$1" 2>/dev/null; do
    dd if=/dev/zero of="$scratch/fill" bs=1M count=64 conv=fsync status=none || return 0
  done
}

begin_load() {
  for _ in 1 2 3 4; do busy $$ & load+=($!); done
  fill $$ & load+=($!)
}

end_load() {
  [ ${#load[@]} -eq 0 ] || { kill "${load[@]}" 2>/dev/null || true; wait "${load[@]}" 2>/dev/null || true; }
  load=()
}

cleanup() {
  if [ -n "$tests" ]; then
    kill -- "-$tests" 2>/dev/null || true # the whole group: compilers and tests too
    wait "$tests" 2>/dev/null || true
  fi
  end_load
  rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

for ((run = 1; run <= runs; run++)); do
  how=alone
  if ((run % 2 == 0)); then
    how='beside four busy loops and a disk writer'
    begin_load
  fi
  began=$SECONDS
  set -m # the tests run in a process group of their own, beside the script, which a signal then ends at once
  GOFLAGS="${GOFLAGS:-} -gcflags=all=-dwarf=false" GOCACHE=$scratch/cache make test TESTFLAGS="-count=1 -vet=off -p=$programs" >"$out/run-$run.log" 2>&1 &
  tests=$!
  set +m
  if ! wait "$tests"; then
    echo "run $run of $runs failed, $how, after $((SECONDS - began)) s; its output is in $out/run-$run.log:" >&2
    grep -E '^(---|panic|FAIL|\s+--- FAIL)|_test\.go:' "$out/run-$run.log" | head -40 >&2 || true
    exit 1
  fi
  tests=
  end_load
  rm -rf "$out/run-$run.log" "$scratch/cache"
  echo "run $run of $runs passed, $how, in $((SECONDS - began)) s"
done
rmdir "$out" 2>/dev/null || true
