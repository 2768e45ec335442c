"""Prints `N passed, N failed, N skipped` from what cargo-nextest printed.

usage: count.py LOG
"""
import re
import sys


def main():
    text = re.sub(r"\x1b\[[0-9;]*m", "", open(sys.argv[1], errors="replace").read())
    summaries = re.findall(r"^\s*Summary \[.*?\] +(.*)$", text, re.M)
    if not summaries:
        print("no summary of the tests: they did not run to their end", file=sys.stderr)
        print("0 passed, 1 failed, 0 skipped")
        return 1
    count = {"passed": 0, "failed": 0, "skipped": 0}
    # Such as `466/470 tests run: 450 passed (1 flaky), 14 failed, 2 timed out, 1 skipped`.
    ran, results = summaries[-1].split(":", 1)
    for number, what in re.findall(r"(\d+) (passed|failed|timed out|exec failed|skipped)", results):
        count[what if what in count else "failed"] += int(number)
    done = re.match(r"(\d+)/(\d+)", ran.strip())
    if done:
        count["failed"] += int(done[2]) - int(done[1])
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**count))
    return 1 if count["failed"] or not count["passed"] else 0


sys.exit(main())
