#!/usr/bin/env bash
# Runs the tests that are marked by long.Test(t), and no others. Arguments are flags of go test.
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(git grep -l '^	long\.Test(t)$' -- '*_test.go')
names=$(awk '/^func Test/ { sub(/^func /, ""); sub(/\(.*/, ""); name = $0 } /^\tlong\.Test\(t\)$/ { print name }' $files | sort -u | paste -sd '|')
MAPWRIGHT_LONG=1 go test -count=1 -timeout 30m -run "^($names)\$" "$@" $(dirname $files | sort -u | sed 's|^|./|')
