"""Two programs of Kōan's kind that insert, a claimer, a person in vim, another one whose editor saves
in other ways, four agents that append, and one that only adds rows by SQL, all at once.

usage: koan_party.py DIR SECONDS

Every party is a process in a session of its own. Prints one JSON object: counts, and for each
party how often and how long it had to wait (seconds). Exit code 0 if every acknowledged mission is
there once, in the rows and in the file, and no row that nobody replaced has another id.
"""
import collections
import json
import multiprocessing
import os
import random
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import koan_store as koan  # noqa: E402


class Party:
    """What one of them did."""

    def __init__(self, name, directory, until):
        self.name, self.directory, self.until = name, directory, until
        self.added, self.removed, self.trouble, self.waits = [], [], [], []
        # Saves that were said to have failed.
        self.unsure = []

    def going(self):
        return time.time() < self.until

    def timed(self, what, *args, **options):
        start = time.time()
        try:
            return what(*args, **options)
        except (OSError, ValueError, sqlite3.Error) as error:
            self.trouble.append(f"{self.name}: {error!r}")
            return None
        finally:
            self.waits.append(time.time() - start)

    def shows(self, text):
        if not any(shown == text for _, shown in koan.read_file(self.directory)):
            self.trouble.append(f"{self.name}: {text} is not in its next read")

    def pause(self, most):
        time.sleep(random.random() * most)


def bridge(me):
    number = 0
    while me.going():
        number += 1
        text = f"{me.name} {number}."
        me.timed(koan.insert, me.directory, text, urgent=number % 5 == 0)
        me.added.append(text)
        me.shows(text)
        if number % 4 == 0 and me.timed(koan.remove, me.directory, text):
            me.removed.append(text)
        me.pause(0.05)


def loop(me):
    number = 0
    while me.going():
        number += 1
        text = me.timed(koan.pick, me.directory)
        if text is None:
            me.pause(0.05)
            continue
        if me.timed(koan.move, me.directory, text, "in_progress"):
            me.pause(0.05)
            state = "failed" if number % 4 == 0 else "done"
            if not me.timed(koan.move, me.directory, text, state):
                me.trouble.append(f"{me.name}: {text} could not be finished")
        me.pause(0.02)


def by_sql(me):
    """Adds rows and looks whether they keep their ids as long as nobody replaces all rows."""
    number = 0
    while me.going():
        number += 1
        text = f"{me.name} {number}."

        def insert():
            with koan.locked(me.directory), koan.database(me.directory) as db:
                at = db.execute("INSERT INTO missions (text, state, sequence) SELECT ?, 'pending', "
                                "COALESCE(MAX(sequence), 0) + 1 FROM missions", (text,)).lastrowid
                db.commit()
                subprocess.run(["bash", "-c", 'cat missions.md > /dev/null'], cwd=me.directory)
                found = db.execute("SELECT id FROM missions WHERE text = ?", (text,)).fetchall()
            if [row[0] for row in found] != [at]:
                me.trouble.append(f"{me.name}: {text} has the ids {found}, not {at}")

        me.timed(insert)
        me.added.append(text)
        me.shows(text)
        me.pause(0.3)


def vim(me):
    """A person in vim: looks, thinks, adds a line, writes."""
    number = 0
    while me.going():
        number += 1
        text = f"{me.name} {number}."
        command = ["vim", "-Nu", "NONE", "-n", "-es", "-V1", "-c", "set backupcopy=auto writebackup",
                   "-c", f"g/^## Pending$/normal! o- {text}", "-c", "sleep 150m",
                   "-c", "write", "-c", "quit!", "missions.md"]
        # Asked whether to write a file that others have changed, this one says yes.
        done = me.timed(subprocess.run, command, cwd=me.directory, timeout=60, input=b"y\n",
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done and b"E949: File changed while writing" in done.stdout:
            # It found the file renamed over between its look and its write, and says that it has
            # failed, as anywhere; the person will see what became of it.
            me.unsure.append(text)
            continue
        if done is None or done.returncode:
            me.trouble.append(f"{me.name}: {text}: {done and done.stdout}")
            continue
        me.added.append(text)
        me.shows(text)
        me.pause(0.5)


def agent(me):
    number = 0
    while me.going():
        number += 1
        text = f"{me.name} {number}."
        command = ["bash", "-c", 'echo "- $1" >> missions.md', "bash", text]
        done = me.timed(subprocess.run, command, cwd=me.directory, timeout=30)
        if done is None or done.returncode:
            me.trouble.append(f"{me.name}: append of {text} failed")
            continue
        me.added.append(text)
        me.shows(text)
        me.pause(0.1)


def person(me):
    path = os.path.join(me.directory, "missions.md")
    number = 0
    while me.going():
        number += 1
        text = f"{me.name} {number}."
        with open(path) as file:
            old = file.read()
        me.pause(0.15)
        new = old.replace("## Pending\n", f"## Pending\n- {text}\n", 1)

        def save():
            if number % 2:
                with open(path, "w") as file:
                    file.write(new)
            else:
                # Not the name of vim's backup.
                with open(path + ".new", "w") as file:
                    file.write(new)
                os.replace(path + ".new", path)

        me.timed(save)
        me.added.append(text)
        me.shows(text)
        me.pause(0.15)


def summary(waits):
    """How often, the middle one, the one that 99 of 100 do not exceed, the longest."""
    waits = sorted(waits) or [0.0]
    at = [len(waits) // 2, len(waits) * 99 // 100, len(waits) - 1]
    return [len(waits)] + [round(waits[n], 3) for n in at]


def run(what, name, directory, until, results):
    os.setsid()
    random.seed(name)
    me = Party(name, directory, until)
    try:
        what(me)
    except Exception as error:  # reported by the parent
        me.trouble.append(f"{name}: {error!r}")
    results.put((me.name, me.added, me.removed, me.trouble, me.waits, me.unsure))


def main():
    directory, seconds = sys.argv[1], float(sys.argv[2])
    # The first write of such a program, before people and agents come.
    koan.insert(directory, "first.")
    fork = multiprocessing.get_context("fork")
    results, until = fork.Queue(), time.time() + seconds
    parties = [(bridge, "bridge"), (bridge, "web"), (loop, "loop"), (person, "person")]
    parties += [(vim, "vim"), (by_sql, "sql")]
    parties += [(agent, f"agent{n}") for n in range(4)]
    processes = [
        fork.Process(target=run, args=(what, name, directory, until, results))
        for what, name in parties
    ]
    for process in processes:
        process.start()
    added, removed, trouble, waits, unsure = ["first."], [], [], {}, []
    for _ in processes:
        name, its_added, its_removed, its_trouble, its_waits, its_unsure = results.get(
            timeout=seconds + 60)
        unsure += its_unsure
        added += its_added
        removed += its_removed
        trouble += its_trouble
        waits[name] = summary(its_waits)
    for process in processes:
        process.join(20)
    want = collections.Counter(added)
    want.subtract(removed)
    want = +want

    def compared():
        rows = collections.Counter(row["text"] for row in koan.missions(directory))
        shown = collections.Counter(text for _, text in koan.read_file(directory))
        for text in unsure:
            want[text] = min(rows[text], 1)
        return +rows, +shown

    rows, shown = compared()
    end = time.time() + 10
    while (rows != +want or shown != +want) and time.time() < end:
        time.sleep(0.05)
        rows, shown = compared()
    result = {
        "added": len(added),
        "removed": len(removed),
        "lost": sorted((want - rows).keys())[:10],
        "unsure": len(unsure),
        "doubled": sorted((rows - want).keys())[:10],
        "view_differs": sorted(((rows - shown) + (shown - rows)).keys())[:10],
        "trouble": trouble[:10],
        "waits": waits,
    }
    print(json.dumps(result))
    sys.exit(1 if any(result[k] for k in ("lost", "doubled", "view_differs", "trouble")) else 0)


if __name__ == "__main__":
    main()
