#!/usr/bin/env bash
# Runs every fuzz target of the module, or of the given directories, one after the other, for the given time each (30s) or
# the given number of inputs (5000x).
#
# Go before 1.27 sometimes calls the end of the given time a failure, "context deadline exceeded" (golang/go#75804).
# A number of inputs has no such end, so CI gives one. With a time, that message without a failing input is no failure.
set -euo pipefail
cd "$(dirname "$0")/.."
limit=${1:-30s}
shift || true
status=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT

only_the_end_of_time() {
  [[ $limit != *x ]] && grep -q '^ *context deadline exceeded$' "$output" && ! grep -qE 'Failing input written|panic' "$output"
}

for dir in $(if (($#)); then printf '%s\n' "$@"; else git ls-files '*_test.go' | xargs grep -lE '^func Fuzz' | xargs -n1 dirname | sort -u; fi); do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | awk '{print $2}' | sort -u); do
    echo "== $dir $target ($limit)"
    go test -run "^\$" -fuzzminimizetime 20x -fuzz "^${target}\$" -fuzztime "$limit" "./$dir" 2>&1 | tee "$output" ||
      only_the_end_of_time || status=1
  done
done
exit $status
