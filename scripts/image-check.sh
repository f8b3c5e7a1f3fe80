#!/usr/bin/env bash
# Makes the container image of the commit that is checked out, and runs it with runc: with a read-only root, without
# capabilities, as the user of the image, in a name space in which this user is root. RELEASE_TARGETS=linux/amd64 makes
# only that; RELEASE_PGO=off builds without the profile.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }
command -v runc >/dev/null || { echo 'runc is not installed: apt-get install runc uidmap' >&2; exit 1; }

work=$(mktemp -d)
chmod 755 "$work"
container() { (cd "$work" && runc --rootless=true --root "$work/state" "$@"); }
cleanup() {
  container delete --force mapwright-image-check 2>/dev/null || true
  chmod -R u+rwX "$work" 2>/dev/null || true
  rm -rf "$work" 2>/dev/null || unshare --map-root-user --map-auto rm -rf "$work"
}
trap cleanup EXIT

step 'make the image'
mkdir -p bin
go run ./scripts/release -pgo "${RELEASE_PGO:-auto}" -targets "${RELEASE_TARGETS:-linux/amd64,linux/arm64}" image bin/mapwright-image.tar
ls -l bin/mapwright-image.tar

step 'unpack it for this machine'
mkdir "$work/image" "$work/root" "$work/data" "$work/state"
chmod 777 "$work/data" # a volume that the user of the image may write to
tar -xf bin/mapwright-image.tar -C "$work/image"
layer=$(tr -d ' \n' <"$work/image/manifest.json" | sed 's/.*"Layers":\["\([^"]*\)".*/\1/')
tar -xzf "$work/image/$layer" -C "$work/root" --no-same-owner
mkdir -p "$work/root/proc" "$work/root/dev" "$work/root/sys" "$work/root/open"
chmod 777 "$work/root/open" # only the mount keeps files from being made here

# Users of a container are this user, who is root there, and those that /etc/subuid gives to this user.
subordinate() { # subordinate FILE
  local range
  range=$(awk -F: -v name="$(id -un)" -v id="$(id -u)" '$1 == name || $1 == id {print $2; exit}' "$1")
  [ "$(id -u)" -eq 0 ] && range=${range:-100000}
  echo "${range:?$1 has no range for this user}"
}
users=$(subordinate /etc/subuid)
groups=$(subordinate /etc/subgid)

# bundle ARGUMENTS... writes the configuration of a container: the user is that of the image, the root is read-only,
# /data is a directory of this machine, the network is that of this machine.
bundle() {
  local arguments=
  [ $# -eq 0 ] || arguments=$(printf ',"%s"' "$@")
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
    "uidMappings": [{"containerID": 0, "hostID": $(id -u), "size": 1}, {"containerID": 1, "hostID": $users, "size": 65535}],
    "gidMappings": [{"containerID": 0, "hostID": $(id -g), "size": 1}, {"containerID": 1, "hostID": $groups, "size": 65535}]
  }
}
END
}
run() { # run ARGUMENTS...
  bundle "$@"
  container run mapwright-image-check
}

step 'it runs, without arguments too'
run version || { echo 'runc cannot start a container for this user on this machine: the image is made, and not run' >&2; exit 1; }
run | grep 'Crawl web sites'

step 'demo, with a read-only root'
run demo --data-dir /data/demo | tee "$work/demo.txt"
grep -q '^Status  *complete' "$work/demo.txt"
run status --data-dir /data/demo | grep complete >/dev/null # the files belong to the user of the image
if run demo --data-dir /open/demo 2>"$work/refused.txt"; then
  echo 'the root can be written to' >&2
  exit 1
fi
cat "$work/refused.txt"
grep -q 'read-only file system' "$work/refused.txt"

step 'serve, its health, and SIGTERM'
run serve --listen 127.0.0.1:0 --data-dir /data/service >"$work/serve.txt" 2>&1 &
server=$!
until address=$(sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$work/serve.txt") && [ -n "$address" ]; do
  kill -0 "$server" || { cat "$work/serve.txt"; exit 1; }
  read -rt 0.1 <> <(:) || true
done
container exec mapwright-image-check /usr/bin/mapwright remote health --server "$address"
container kill mapwright-image-check TERM
wait "$server" || { cat "$work/serve.txt"; exit 1; }
cat "$work/serve.txt"
run keys list --data-dir /data/service

step 'done; the image is bin/mapwright-image.tar'
