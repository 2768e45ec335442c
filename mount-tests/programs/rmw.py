"""Naive concurrent writers on one directory, and what became of their work.

usage: rmw.py DIR PROCS ROUNDS

DIR holds missions.md and config.json. Each of PROCS processes adds ROUNDS missions and ROUNDS
config keys; it reads the whole file, adds its own, writes the whole file back, without any
lock, by turns through truncation, a temporary and rename, editing in place, and (missions)
appending. After each save it reads back and looks for its own work. Two readers look for
versions that nobody saved. Prints one JSON object of counts; exit code 0 if all is well.
"""
import json
import multiprocessing
import os
import queue
import random
import sys
import time


def text_of(path):
    with open(path) as file:
        return file.read()


def by_truncation(path, text):
    with open(path, "w") as file:
        file.write(text)


def by_rename(path, text):
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)


def edit_in_place(path, change):
    with open(path, "r+") as file:
        text = change(file.read())
        pause()
        file.seek(0)
        file.write(text)
        file.truncate()


def edit_whole(path, change, write):
    text = change(text_of(path))
    pause()
    write(path, text)


def pause():
    time.sleep(random.random() * 0.003)


def edit(style, path, change):
    if style == 0:
        edit_whole(path, change, by_truncation)
    elif style == 1:
        edit_whole(path, change, by_rename)
    else:
        edit_in_place(path, change)


def writer(directory, me, rounds, results):
    os.setsid()
    random.seed(me)
    missions = os.path.join(directory, "missions.md")
    config = os.path.join(directory, "config.json")
    errors, stale = [], 0
    for number in range(rounds):
        line = f"- mission of {me}, number {number}."
        key = f"key-{me}-{number}"

        def with_line(text):
            return text.replace("## Pending\n", f"## Pending\n{line}\n", 1)

        def with_key(text):
            data = json.loads(text)
            data[key] = number
            return json.dumps(data, indent=2) + "\n"

        try:
            if number % 4 == 3:
                with open(missions, "a") as file:
                    file.write(line + "\n")
            else:
                edit(number % 4, missions, with_line)
            stale += line not in text_of(missions)
            edit(number % 3, config, with_key)
            stale += key not in text_of(config)
        except (OSError, ValueError) as error:
            errors.append(repr(error))
    results.put((errors, stale))


def reader(directory, stop, results):
    os.setsid()
    reads = torn = 0
    while not stop.is_set():
        try:
            text = text_of(os.path.join(directory, "missions.md"))
            whole = all(
                line.endswith(".") for line in text.split("\n") if line.startswith("- ")
            )
            torn += "## Pending\n" not in text or not whole
            json.loads(text_of(os.path.join(directory, "config.json")))
        except (OSError, ValueError):
            torn += 1
        reads += 1
    results.put((reads, torn))


def main():
    directory, procs, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    fork = multiprocessing.get_context("fork")
    written, read, stop = fork.Queue(), fork.Queue(), fork.Event()
    readers = [fork.Process(target=reader, args=(directory, stop, read)) for _ in range(2)]
    writers = [
        fork.Process(target=writer, args=(directory, me, rounds, written)) for me in range(procs)
    ]
    begin = time.time()
    for process in readers + writers:
        process.start()
    errors, stale = [], 0
    try:
        for _ in writers:
            its_errors, its_stale = written.get(timeout=150)
            errors += its_errors
            stale += its_stale
    except queue.Empty:
        errors.append("a writer did not end")
    seconds = time.time() - begin
    stop.set()
    counts = [read.get(timeout=20) for _ in readers]
    for process in readers + writers:
        process.join(20)
    lines = text_of(os.path.join(directory, "missions.md")).split("\n")
    try:
        config = json.loads(text_of(os.path.join(directory, "config.json")))
    except ValueError:
        config = {}
    lost = doubled = 0
    for me in range(procs):
        for number in range(rounds):
            times = sum(1 for line in lines if line == f"- mission of {me}, number {number}.")
            lost += times == 0
            doubled += times > 1
            lost += config.get(f"key-{me}-{number}") != number
    result = {
        "saves": 2 * procs * rounds,
        "lost": lost,
        "doubled": doubled,
        "torn": sum(torn for _, torn in counts),
        "reads": sum(reads for reads, _ in counts),
        "stale": stale,
        "errors": len(errors),
        "first_errors": errors[:3],
        "seconds": round(seconds, 2),
    }
    print(json.dumps(result))
    bad = lost or doubled or result["torn"] or errors or stale
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
