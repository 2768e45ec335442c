#!/usr/bin/env python3
"""One party at the queue `outbox.md` of the current directory.

    outbox.py PARTY NAME COUNT

Writers (`append`, `keep`, `edit`, `overwrite`) put COUNT messages there; `drain`, `move` and
`reread` take messages out and print them, until there is a file `stop` and nothing is left.
"""

import fcntl
import os
import sys
import time

BOX = "outbox.md"


def append(name, count):
    """A short-lived handle for each message."""
    for n in range(count):
        with open(BOX, "a") as box:
            box.write(f"{name} {n}\n")


def keep(name, count):
    """One handle for all messages."""
    with open(BOX, "a") as box:
        for n in range(count):
            box.write(f"{name} {n}\n")
            box.flush()
            time.sleep(0.002)


def edit(name, count):
    """An editor that replaces the file by a temporary."""
    for n in range(count):
        try:
            with open(BOX) as box:
                text = box.read()
        except FileNotFoundError:
            text = ""
        with open(f"{BOX}.{name}.tmp", "w") as new:
            new.write(text + f"{name} {n}\n")
        os.replace(f"{BOX}.{name}.tmp", BOX)
        time.sleep(0.005)


def overwrite(name, count):
    """An agent that writes without looking: a new process for each message."""
    for n in range(count):
        if os.fork() == 0:
            with open(BOX, "w") as box:
                box.write(f"{name} {n}\n")
            os._exit(0)
        os.wait()
        time.sleep(0.005)


def deliver(take):
    while True:
        last = os.path.exists("stop")
        text = take()
        sys.stdout.write(text)
        sys.stdout.flush()
        if last and not text:
            return
        time.sleep(0.003)


def take_in_place():
    try:
        box = open(BOX, "r+")
    except FileNotFoundError:
        return ""
    with box:
        fcntl.flock(box, fcntl.LOCK_EX)
        text = box.read()
        if text:
            box.seek(0)
            box.truncate()
    return text


def take_by_rename():
    try:
        os.rename(BOX, "outbox.sending")
    except FileNotFoundError:
        return ""
    with open("outbox.sending") as box:
        text = box.read()
    os.unlink("outbox.sending")
    return text


def take_by_overwriting():
    try:
        with open(BOX) as box:
            text = box.read()
    except FileNotFoundError:
        return ""
    if text:
        open(BOX, "w").close()
    return text


def take_by_unlink():
    try:
        with open(BOX) as box:
            text = box.read()
        if text:
            os.unlink(BOX)
    except FileNotFoundError:
        return ""
    return text


if __name__ == "__main__":
    party, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    takers = {
        "drain": take_in_place,
        "move": take_by_rename,
        "reread": take_by_overwriting,
        "unlink": take_by_unlink,
    }
    if party in takers:
        deliver(takers[party])
    else:
        {"append": append, "keep": keep, "edit": edit, "overwrite": overwrite}[party](name, count)
