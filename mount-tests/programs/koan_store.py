"""A small stand-in for a program of Kōan's kind, written from the published facts about how it
keeps its missions: rows in missions.db that every write replaces whole, under an exclusive
flock on missions.lock, and missions.md exported from them by temporary, fsync and rename.

Used as a module by koan_party.py and by steps.py.
"""
import contextlib
import fcntl
import os
import re
import sqlite3
import tempfile
import time

STATES = [("pending", "Pending"), ("in_progress", "In Progress"), ("done", "Done"),
          ("failed", "Failed")]
MARKERS = re.compile(r"(?: [⏳▶]\([0-9T:-]+\)| [✅❌] \([0-9: -]+\))+$")
COLUMNS = "text, state, project, sequence, queued_at, started_at, completed_at"


def now():
    return time.strftime("%Y-%m-%dT%H:%M")


@contextlib.contextmanager
def locked(directory):
    with open(os.path.join(directory, "missions.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)


@contextlib.contextmanager
def database(directory):
    db = sqlite3.connect(os.path.join(directory, "missions.db"), timeout=5)
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA busy_timeout=5000")
        yield db
        db.commit()
    finally:
        db.close()


def missions(directory):
    """All rows as dicts, pending and running ones in the order of the queue."""
    with database(directory) as db:
        rows = db.execute(f"SELECT {COLUMNS} FROM missions ORDER BY sequence, id").fetchall()
    return [dict(row) for row in rows]


def replace_all(directory, rows):
    """Deletes all rows and inserts these with new ids, in one transaction."""
    with database(directory) as db:
        top = db.execute("SELECT COALESCE(MAX(id), 0) FROM missions").fetchone()[0]
        db.execute("DELETE FROM missions")
        for number, row in enumerate(rows, 1):
            db.execute(
                f"INSERT INTO missions (id, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (top + number, row["text"], row["state"], row["project"], number,
                 row["queued_at"], row["started_at"], row["completed_at"]))


def beside(directory):
    """The lines of the other two tables: CI and ideas."""
    def tag(name, value):
        return f" {name}:{value}" if value else ""

    with database(directory) as db:
        ci = db.execute("SELECT * FROM ci_queue ORDER BY sequence, id").fetchall()
        ideas = db.execute("SELECT text FROM ideas ORDER BY sequence, id").fetchall()
    project = [f"[project:{row['project']}] " if row["project"] else "" for row in ci]
    lines = [f"- {where}{row['pr_url']}" + tag("branch", row["branch"])
             + tag("repo", row["full_repo"]) + tag("queued", row["queued"])
             + f" (attempt {row['attempt']}/{row['max_attempts']})"
             for where, row in zip(project, ci)]
    return lines, [row["text"] for row in ideas]


def render(rows, newest_first=True, others=((), ())):
    ci, ideas = others
    out = ["# Missions", "", "## CI", *ci, ""]
    if ideas:
        out += ["## Ideas", *ideas, ""]
    for state, title in STATES:
        out.append(f"## {title}")
        here = [row for row in rows if row["state"] == state]
        if newest_first and state in ("done", "failed"):
            here.reverse()
        for row in here:
            block = row["text"].lstrip().startswith("### ")
            line = row["text"] if block else "- " + row["text"]
            if row["queued_at"]:
                line += f" ⏳({row['queued_at']})"
            if row["started_at"]:
                line += f" ▶({row['started_at']})"
            if row["completed_at"]:
                glyph = "❌" if state == "failed" else "✅"
                line += f" {glyph} ({row['completed_at'].replace('T', ' ')})"
            out.append(line)
            if block:
                out.append("")
        out.append("")
    return "\n".join(out).rstrip() + "\n"


def export(directory, text=None):
    if text is None:
        text = render(missions(directory), others=beside(directory))
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=".export-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, os.path.join(directory, "missions.md"))


def modify(directory, change):
    """`change` gets the rows and gives the new ones; all of it under the lock."""
    with locked(directory):
        rows = change(missions(directory))
        replace_all(directory, rows)
        export(directory)


def insert(directory, text, urgent=False):
    row = {"text": text, "state": "pending", "project": "default", "queued_at": now(),
           "started_at": None, "completed_at": None}
    modify(directory, lambda rows: [row, *rows] if urgent else [*rows, row])


def read_file(directory):
    """What the file says: (state, text) in its order, markers taken off."""
    names = {"## " + title: state for state, title in STATES}
    out, state = [], None
    with open(os.path.join(directory, "missions.md"), encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\n")
            if line.startswith("## "):
                state = names.get(line)
            elif line.startswith("- ") and state:
                out.append((state, MARKERS.sub("", line[2:])))
    return out


def pick(directory):
    """The first pending mission of the file."""
    return next((text for state, text in read_file(directory) if state == "pending"), None)


def move(directory, text, state):
    """The first live mission of this text to another state; whether there was one."""
    moved = []

    def change(rows):
        moved.clear()
        for row in rows:
            if row["text"] == text and row["state"] in ("pending", "in_progress") and not moved:
                row["state"] = state
                row["started_at" if state == "in_progress" else "completed_at"] = now()
                moved.append(row)
        return rows

    modify(directory, change)
    return bool(moved)


def remove(directory, text):
    """Cancels a pending mission; whether there was one."""
    gone = []

    def change(rows):
        gone[:] = [row for row in rows if row["text"] == text and row["state"] == "pending"][:1]
        return [row for row in rows if row not in gone]

    modify(directory, change)
    return bool(gone)
