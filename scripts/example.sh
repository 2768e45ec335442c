#!/usr/bin/env bash
# Writes the files of an example instance into a directory.
set -euo pipefail
dir=${1:?usage: example.sh DIR}
mkdir -p "$dir"/{memory/projects,journal,events,hooks}

cat > "$dir/missions.md" <<'E'
# Missions

The garden's to-do list. Write one line per mission; anything else is a note.

## Pending
- repot the maple before the first frost [project:greenhouse]
- order two bags of akadama [complexity:trivial]

# Hana says: nothing new for the pond until the pump is back
- [project:pond] find out why the pump hums
  It started after the storm. The fuse was fine.

## In Progress
- label every pot in the greenhouse [project:greenhouse] ▶(2026-07-02T08:15)

## Done
- sharpen the shears ✅ (2026-07-01 17:40)

## Failed
- grow wasabi on the roof ❌ (2026-06-30 12:00)

## Someday
Things that are not missions yet: a second pond, a roof over the compost.
E

cat > "$dir/config.yaml" <<'E'
# How the gardener's assistant works. People edit this file, programs too.
version: 1
name: gardener

# Work on this many missions at once.
limits:
  max_parallel: 2      # more than 3 and the shed gets crowded
  interval: 300        # seconds between two looks at the queue

projects:
  greenhouse:
    path: ~/garden/greenhouse
  pond:
    path: ~/garden/pond
    # the pump is away for repair
    paused: true
E

printf '' > "$dir/outbox.md"
cat > "$dir/memory/summary.md" <<'E'
# What I know
- The tap by the shed drips.
- Hana waters on Tuesdays.
E
cat > "$dir/memory/projects/greenhouse.md" <<'E'
# Greenhouse
- 41 pots, 12 of them without a label.
E
cat > "$dir/journal/2026-07-01.md" <<'E'
## 17:40
Sharpened the shears. The small ones need a new spring.
E
cat > "$dir/events/frost-warning.json" <<'E'
{
  "mission": "bring the lemon tree inside",
  "run_at": "2026-11-01T16:00"
}
E
cat > "$dir/hooks/on-done.sh" <<'E'
#!/bin/sh
# Called with the text of a finished mission.
echo "done: $1"
E
chmod +x "$dir/hooks/on-done.sh"
