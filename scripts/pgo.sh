#!/usr/bin/env bash
# Writes cmd/mapwright/default.pgo, a CPU profile of crawls of the synthetic web: one large site, the same full of numbers,
# and many hosts, plain and over TLS. go build reads it and optimises what a page needs most.
# Run it after the path of a page has changed, with nothing else running; commit the file.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-6}
dir=$(mktemp -d "${TMPDIR:-/tmp}/mapwright-pgo.XXXXXX")
web=
cleanup() {
  [ -z "$web" ] || kill "$web" 2>/dev/null || true
  rm -rf "$dir"
}
trap cleanup EXIT
go build -trimpath -pgo=off -o "$dir/mapwright" ./cmd/mapwright
go build -trimpath -pgo=off -o "$dir/testweb" ./internal/test/testweb/cmd/testweb

profile() { # profile NAME FLAGS-OF-TESTWEB...
  local name=$1 metrics=127.0.0.1:$((10000 + RANDOM % 20000)) # below the ports that the system hands out
  shift
  "$dir/testweb" --keep --admin-addr 127.0.0.1:0 "$@" >"$dir/web" &
  web=$!
  until [ -s "$dir/web" ]; do sleep 0.1; done
  field() { sed -E "s/.*\"$1\":\"([^\"]*)\".*/\1/" "$dir/web"; }
  curl -sf "http://$(field admin)/ca.pem" >"$dir/ca.pem" || rm -f "$dir/ca.pem"
  SSL_CERT_FILE=$dir/ca.pem "$dir/mapwright" crawl --start-url "$(field start_url)" --scope any --profile own-site \
    --resolve "$(field resolve)" --allow-private --metrics-addr "$metrics" --data-dir "$dir/$name" >"$dir/out" 2>&1 &
  local crawl=$!
  until curl -sf "http://$metrics/healthz" >/dev/null; do kill -0 "$crawl" || { cat "$dir/out"; exit 1; }; sleep 0.1; done
  curl -sf "http://$metrics/debug/pprof/profile?seconds=$seconds" >"$dir/$name.pprof"
  kill "$crawl" && wait "$crawl" || true
  kill "$web" && wait "$web" || true
  web=
  rm -f "$dir/web"
  echo "$name: $(go tool pprof -top "$dir/$name.pprof" 2>/dev/null | grep Duration)"
}

profile one --pages 500000
profile numbers --pages 500000 --numbers
profile many --hosts 300 --pages 5000 --cross-host 0.2
profile tls --hosts 200 --pages 5000 --cross-host 0.2 --tls --numbers
go tool pprof -proto "$dir"/{one,numbers,many,tls}.pprof >cmd/mapwright/default.pgo 2>/dev/null
ls -l cmd/mapwright/default.pgo
