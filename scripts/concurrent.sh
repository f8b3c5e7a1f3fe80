#!/usr/bin/env bash
# Lists the packages that start goroutines or servers or have locks, in their tests too: the race detector can find nothing in the others.
set -euo pipefail
cd "$(dirname "$0")/.."
"${GO:-go}" list -f '{{.Dir}}' ./... | while read -r dir; do
  if grep -qE '"sync(/atomic)?"|^\s*go (func\b|[a-zA-Z_.]+\()|\.Go\(func|t\.Parallel\(|httptest\.New(TLS)?Server' "$dir"/*.go; then
    echo ".${dir#"$PWD"}"
  fi
done
