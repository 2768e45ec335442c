#!/usr/bin/env bash
# Runs the commands of "Thirty seconds of it at work" on a new example and prints them with what
# they answered; --write puts that into README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh
need_rust
need_fuse
need sqlite3:sqlite3 jq:jq python3:python3
cargo build --quiet --bin instancefs
repo=$PWD
PATH=$(realpath "$(target_dir)")/debug:$PATH

place=$(mktemp -d)
leave() {
  cd /
  timeout 20 instancefs unmount "$place/instance" 2>/dev/null || true
  mountpoint -q "$place/instance" || rm -rf "$place"
}
trap leave EXIT
cd "$place"
"$repo/scripts/example.sh" instance

# One command a line; a comment goes into the session as it is.
session() {
  local command
  while IFS= read -r command; do
    printf '%s\n' "${command:+\$ $command}"
    [ -z "$command" ] || timeout 30 bash -c "$command" 2>&1 || true
  done | sed "s|$place/||g"
}
session > session.txt <<'END'
instancefs adopt instance --mount    # an existing directory, in place
echo "- water the bonsai" >> instance/missions.md
sqlite3 instance/missions.db "select id, state, text from missions order by id desc limit 1"
sqlite3 instance/missions.db "update missions set state = 'done' where text = 'water the bonsai'"
grep -A 2 '## Done' instance/missions.md    # the file follows the rows
jq '.limits.max_parallel = 4' instance/config.json > instance/config.json
grep max_parallel instance/config.yaml    # the same config; comments stay
echo 'limits: [' > instance/config.yaml    # nonsense changes nothing, and is not lost
cat instance/config.yaml.refused
instancefs -C instance log -n 3
instancefs eject instance    # the way back: an ordinary directory again
END

if [ "${1:-}" != --write ]; then
  cat session.txt
  exit 0
fi
python3 - "$repo/README.md" session.txt <<'END'
import re
import sys

page, session = sys.argv[1:]
with open(session) as file:
    block = "```console\n" + file.read() + "```\n"
with open(page) as file:
    text = file.read()
mark = r"(<!-- session: [^\n]* -->\n).*?(<!-- end of session -->)"
new, found = re.subn(mark, lambda m: m[1] + block + m[2], text, flags=re.S)
if found != 1:
    sys.exit(f"{page}: no marks of a session")
with open(page, "w") as file:
    file.write(new)
END
