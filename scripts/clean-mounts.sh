#!/usr/bin/env bash
# Unmounts the instances that a test run left mounted under a directory; exit code 1 if any were.
set -uo pipefail
under=${1:?usage: clean-mounts.sh DIR}
left=0
while read -r _ _ _ _ at _; do
  case $at in
    "$under"/*instancefs-test-*)
      left=$((left + 1))
      printf 'left mounted: %s\n' "$at" >&2
      umount -l "$at" 2>/dev/null || fusermount3 -uz "$at" || true
      ;;
  esac
done < /proc/self/mountinfo
[ $left = 0 ]
