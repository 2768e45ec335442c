"""Read-modify-write under a lock on the document itself, while others save it by rename and by SQL.

usage: koan_counter.py DIR KIND WORKERS ROUNDS

KIND is flock, posix or ofd. Each of WORKERS processes adds 1 to the counter in missions.md and to
the one in config.json, ROUNDS times each, inside an exclusive lock; two others replace missions.md
by rename with a line more, and one inserts rows. Prints one JSON object; exit code 0 if nothing
was lost.
"""
import fcntl
import json
import multiprocessing
import os
import re
import sqlite3
import struct
import sys
import time

F_OFD_SETLKW = 38
COUNTER = re.compile(r"^- counter (\d+)\.", re.MULTILINE)


def lock(file, kind, how):
    if kind == "flock":
        fcntl.flock(file, how)
    elif kind == "posix":
        fcntl.lockf(file, how)
    else:
        types = {fcntl.LOCK_EX: fcntl.F_WRLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}
        fcntl.fcntl(file, F_OFD_SETLKW, struct.pack("hhqqi", types[how], 0, 0, 0, 0))


def one_more(path, kind, change, unlock):
    with open(path, "r+", encoding="utf-8") as file:
        lock(file, kind, fcntl.LOCK_EX)
        text = change(file.read())
        file.seek(0)
        file.write(text)
        file.truncate()
        file.flush()
        if unlock:
            lock(file, kind, fcntl.LOCK_UN)


def in_text(text):
    return COUNTER.sub(lambda found: f"- counter {int(found[1]) + 1}.", text, count=1)


def in_config(text):
    config = json.loads(text)
    config["counter"] += 1
    return json.dumps(config, indent=2) + "\n"


def worker(directory, kind, me, rounds):
    for number in range(rounds):
        unlock = (number + me) % 2 == 0
        one_more(os.path.join(directory, "missions.md"), kind, in_text, unlock)
        one_more(os.path.join(directory, "config.json"), kind, in_config, unlock)


def renamer(directory, kind, me, rounds):
    path = os.path.join(directory, "missions.md")
    for number in range(rounds):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        time.sleep(0.005)
        temporary = f"{path}.{me}~"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text.replace("## Pending\n", f"## Pending\n- {me} {number}.\n", 1))
        os.rename(temporary, path)


def by_sql(directory, kind, me, rounds):
    for number in range(rounds):
        db = sqlite3.connect(os.path.join(directory, "missions.db"), timeout=20)
        with db:
            db.execute("INSERT INTO missions (text, state, sequence) SELECT ?, 'pending', "
                       "COALESCE(MAX(sequence), 0) + 1 FROM missions", (f"{me} {number}.",))
        db.close()
        time.sleep(0.005)


def run(what, *args):
    os.setsid()
    what(*args)


def main():
    directory, kind, workers, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    fork = multiprocessing.get_context("fork")
    parties = [(worker, n) for n in range(workers)]
    others = [(renamer, "renamer-a"), (renamer, "renamer-b"), (by_sql, "sql")]
    processes = [fork.Process(target=run, args=(what, directory, kind, me, rounds))
                 for what, me in parties + others]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with open(os.path.join(directory, "missions.md"), encoding="utf-8") as file:
        text = file.read()
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    lines = text.splitlines()
    found = COUNTER.search(text)
    result = {
        "want": workers * rounds,
        "missions": int(found[1]) if found else text,
        "config": config["counter"],
        "ended": [process.exitcode for process in processes if process.exitcode],
        "wrong": [f"{me} {number}." for _, me in others for number in range(rounds)
                  if sum(line.startswith(f"- {me} {number}.") for line in lines) != 1],
    }
    print(json.dumps(result))
    good = result["missions"] == result["config"] == result["want"]
    sys.exit(0 if good and not result["ended"] and not result["wrong"] else 1)


if __name__ == "__main__":
    main()
