"""koan_bench.py MISSIONS_MD DIRECTORY ROUNDS: appends a line to a mounted missions.md, in turns
with an insertion by a program that replaces all rows in DIRECTORY and exports them there.
Prints the medians in microseconds and the median of the ratios as JSON."""
import json
import statistics
import sys
import time

import koan_store


def timed(work):
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e6


def main(path, directory, rounds):
    def append(number):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"- appended {number}\n")

    appends, replaces = [], []
    for number in range(rounds):
        appends.append(timed(lambda: append(number)))
        replaces.append(timed(lambda: koan_store.insert(directory, f"inserted {number}")))
    ratios = [replaced / appended for replaced, appended in zip(replaces, appends)]
    print(json.dumps({"append": statistics.median(appends),
                      "replace": statistics.median(replaces),
                      "ratio": statistics.median(ratios)}))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
