#!/usr/bin/env bash
# Takes a CPU profile of crawls like those of the benchmarks and leaves it where go build finds it, so that the compiler knows what is
# called most. The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
go build -o "$work/mapwright" ./cmd/mapwright
go build -o "$work/testweb" ./internal/testweb/cmd/testweb

# profile NAME SECONDS FLAGS... crawls the web that the flags make, and profiles it from its first second on.
profile() {
  local name=$1 seconds=$2
  shift 2
  "$work/testweb" -keep -admin-addr 127.0.0.1:0 "$@" >"$work/web" &
  local web=$!
  until [ -s "$work/web" ]; do sleep 0.1; done
  "$work/mapwright" crawl --start-url http://h0.test/ --profile own-site --scope any --allow-private --data-dir "$work/data" \
    --resolve "$(sed 's/.*"resolve":"\([^"]*\)".*/\1/' "$work/web")" --metrics-addr 127.0.0.1:6061 --log-level warn >"$work/out" 2>&1 &
  local crawl=$!
  sleep 1
  curl -fsS -o "$work/$name.prof" "http://127.0.0.1:6061/debug/pprof/profile?seconds=$seconds"
  wait "$crawl"
  grep 'This run' "$work/out"
  kill "$web"
  rm -rf "$work/data" "$work/web"
}

profile one-host 8 -hosts 1 -pages 200000
profile hosts 7 -hosts 500 -pages 300 -cross-host 0.2
profile large 4 -hosts 1 -pages 40000 -page-size 204800 -links 200
go tool pprof -proto "$work"/*.prof >cmd/mapwright/default.pgo
