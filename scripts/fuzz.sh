#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
status=0
for dir in $(git ls-files '*_test.go' | xargs grep -lE '^func Fuzz' | xargs -n1 dirname | sort -u); do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | awk '{print $2}' | sort -u); do
    echo "== $dir $target ($time)"
    go test -run "^\$" -fuzzminimizetime 20x -fuzz "^${target}\$" -fuzztime "$time" "./$dir" || status=1
  done
done
exit $status
