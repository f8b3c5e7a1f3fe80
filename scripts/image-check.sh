#!/usr/bin/env bash
# Makes the container image of the commit that is checked out, and runs it with crun: with a read-only root, without
# capabilities, and as an ordinary user where this is not root. RELEASE_TARGETS=linux/amd64 makes only that.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }
command -v crun >/dev/null || { echo 'crun is not installed: apt-get install crun' >&2; exit 1; }

work=$(mktemp -d)
cleanup() {
  crun --root "$work/state" kill mapwright-image-check KILL 2>/dev/null || true
  crun --root "$work/state" delete -f mapwright-image-check 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

step 'make the image'
mkdir -p bin
go run ./scripts/release -pgo "${RELEASE_PGO:-auto}" -targets "${RELEASE_TARGETS:-linux/amd64,linux/arm64}" image bin/mapwright-image.tar
ls -l bin/mapwright-image.tar

step 'unpack it for this machine'
mkdir "$work/image" "$work/root" "$work/data" "$work/state"
tar -xf bin/mapwright-image.tar -C "$work/image"
layer=$(tr -d ' \n' <"$work/image/manifest.json" | sed 's/.*"Layers":\["\([^"]*\)".*/\1/')
tar -xzf "$work/image/$layer" -C "$work/root" --no-same-owner
mkdir -p "$work/root/proc" "$work/root/dev" "$work/root/sys"

# bundle ARGUMENTS... writes the configuration of a container: the user is mapped to 65532, as in the image, the root is
# read-only, /data is a directory of this machine, the network is that of this machine.
bundle() {
  local arguments
  arguments=$(printf ',"%s"' "$@")
  cat >"$work/config.json" <<END
{
  "ociVersion": "1.0.2",
  "process": {
    "terminal": false, "user": {"uid": 65532, "gid": 65532}, "cwd": "/data", "noNewPrivileges": true,
    "args": ["/usr/bin/mapwright"$arguments],
    "env": ["PATH=/usr/bin", "HOME=/data", "MAPWRIGHT_DATA_DIR=/data"],
    "capabilities": {"bounding": [], "effective": [], "permitted": [], "ambient": []}
  },
  "root": {"path": "$work/root", "readonly": true},
  "hostname": "mapwright",
  "mounts": [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
    {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
    {"destination": "/data", "type": "bind", "source": "$work/data", "options": ["bind", "rw", "nosuid", "nodev"]}
  ],
  "linux": {
    "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "user"}],
    "uidMappings": [{"containerID": 65532, "hostID": $(id -u), "size": 1}],
    "gidMappings": [{"containerID": 65532, "hostID": $(id -g), "size": 1}]
  }
}
END
}
run() { # run ARGUMENTS...
  bundle "$@"
  (cd "$work" && crun --root "$work/state" --cgroup-manager=disabled run mapwright-image-check)
}

step 'it runs, without arguments too'
run version || { echo 'crun cannot start a container for this user on this machine: the image is made, and not run' >&2; exit 1; }
run | grep -q 'Crawl web sites'

step 'demo, with a read-only root'
run demo --data-dir /data/demo | tee "$work/demo.txt"
grep -q '^Status  *complete' "$work/demo.txt"
test -s "$work/data/demo/sitemap.xml"
if run demo --data-dir /usr/demo 2>"$work/refused.txt"; then
  echo 'the root can be written to' >&2
  exit 1
fi
grep -q 'read-only' "$work/refused.txt"

step 'serve, its health, and SIGTERM'
run serve --listen 127.0.0.1:0 --data-dir /data/service >"$work/serve.txt" 2>&1 &
server=$!
until address=$(sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$work/serve.txt") && [ -n "$address" ]; do
  kill -0 "$server" || { cat "$work/serve.txt"; exit 1; }
  read -rt 0.1 <> <(:) || true
done
(cd "$work" && crun --root "$work/state" exec mapwright-image-check /usr/bin/mapwright remote health --server "$address")
crun --root "$work/state" kill mapwright-image-check TERM
wait "$server" || { cat "$work/serve.txt"; exit 1; }
cat "$work/serve.txt"
test -s "$work/data/service/service.db"

step 'done; the image is bin/mapwright-image.tar'
