#!/usr/bin/env bash
# Holds this tree against the newest recorded results: BENCH (which benchmarks, as in go test -bench) is run COUNT times, and benchstat
# compares. Results of another machine or hour differ by that alone: look at bare, which does not change, first.
set -euo pipefail
cd "$(dirname "$0")/.."
last=$(go run ./bench/record -last)
this=$(mktemp)
trap 'rm -f "$this"' EXIT
go test -run '^$' -bench "${BENCH:-Crawl}" -benchtime 1x -count "${COUNT:-3}" -timeout 0 ./bench | tee "$this"
# Commit, date and run differ by nature; only the package makes a table of its own.
go tool benchstat -table pkg -ignore run,date,commit,/turn "$(basename "$last" .txt)=$last" "now=$this"
