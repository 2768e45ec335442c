"""koan_bench.py MISSIONS_MD FLOOR DIRECTORY ROUNDS: appends a line to a mounted missions.md, in
turns with an insertion by a program that replaces all rows in DIRECTORY and exports them there, and
with an append to the file FLOOR. Prints the medians in microseconds and the median of the ratios as
JSON."""
import json
import statistics
import sys
import time

import koan_store


def timed(work):
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e6


def main(mounted, floor, directory, rounds):
    def append(path, number):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"- appended {number}\n")

    appends, floors, replaces = [], [], []
    for number in range(rounds):
        appends.append(timed(lambda: append(mounted, number)))
        floors.append(timed(lambda: append(floor, number)))
        replaces.append(timed(lambda: koan_store.insert(directory, f"inserted {number}")))
    ratios = [replaced / appended for replaced, appended in zip(replaces, appends)]
    print(json.dumps({"append": statistics.median(appends),
                      "floor": statistics.median(floors),
                      "replace": statistics.median(replaces),
                      "ratio": statistics.median(ratios)}))


main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
