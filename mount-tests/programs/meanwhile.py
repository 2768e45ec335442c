#!/usr/bin/env python3
"""Edits $T as coding agents' tools do: replaces $OLD by $NEW, and reads the file once more, for a
diff. The argument says when the test (`pause`) does its own: `early` between the two reads,
`late` after them; `newest` makes the edit in the text that was read last; `rename` is `early`
with a temporary that is renamed."""
import os
import subprocess
import sys

T, OLD, NEW = (os.environ[name] for name in ("T", "OLD", "NEW"))
WHEN = sys.argv[1]


def read():
    with open(T, newline="") as file:
        return file.read()


def pause():
    subprocess.run(["pause"], check=True)


text = read()
if WHEN != "late":
    pause()
again = read()
if WHEN == "late":
    pause()
text = (again if WHEN == "newest" else text).replace(OLD, NEW, 1)
where = T + ".tmp" if WHEN == "rename" else T
with open(where, "w", newline="") as file:
    file.write(text)
if WHEN == "rename":
    os.replace(where, T)
