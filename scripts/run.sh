#!/usr/bin/env bash
# Installs what is missing, builds, makes an example instance and mounts it at ./instance.
# Run it as often as you like: it goes on with the instance that is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh
need_rust
need_fuse
need sqlite3:sqlite3 jq:jq
# Release: what is tried here should be as fast as what is installed.
cargo build --release --bin instancefs
binary=$(target_dir)/release/instancefs

if [ ! -d instance.store ]; then
  example=$(mktemp -d)
  trap 'rm -rf "$example"' EXIT
  scripts/example.sh "$example"
  "$binary" init instance.store --from "$example"
fi
mkdir -p instance 2>/dev/null || true
if cat instance/missions.md >/dev/null 2>&1 && grep -q " $PWD/instance fuse" /proc/self/mounts; then
  say "already mounted"
else
  "$binary" mount instance.store instance
fi

cat <<END

./instance is mounted from ./instance.store. Three things to try:

1. Queue a mission with the shell, see its row, finish it in SQL, see the file:
     echo "- water the bonsai" >> instance/missions.md
     sqlite3 instance/missions.db "select id, state, text from missions order by sequence desc limit 1"
     sqlite3 instance/missions.db "update missions set state='done' where text='water the bonsai'"
     cat instance/missions.md

2. Change a key through JSON; the YAML keeps its comments:
     jq '.limits.max_parallel = 4' instance/config.json > instance/config.json
     cat instance/config.yaml

3. Save nonsense; nothing breaks, and what you typed is kept with the reason:
     echo "limits: [" > instance/config.yaml
     cat instance/config.yaml.refused

Leave with: $binary unmount instance
END
