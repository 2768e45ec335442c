"""Contenders for a lock whose owner is killed, round after round.

usage: contend.py LOCK ROUNDS CONTENDERS

Before each round the contenders are started and wait; then the owner is killed and waited for,
and all of them create the lock exclusively at the same time, once. The winner is the owner of the
next round. Prints one line for each round that has not exactly one winner, and at the end how
many rounds there were.
"""
import os
import signal
import sys

LOCK, ROUNDS, CONTENDERS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def contender(start, result):
    """Waits for its start, tries once, says how it went, and holds on to what it has won."""
    os.read(start, 1)
    try:
        lock = os.open(LOCK, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        os.write(result, b"lost %d\n" % os.getpid())
        os._exit(0)
    os.write(lock, b"%d\n" % os.getpid())
    os.close(lock)
    os.write(result, b"won %d\n" % os.getpid())
    while True:
        signal.pause()


owner = None
for number in range(ROUNDS):
    start, go = os.pipe()
    results, result = os.pipe()
    children = []
    for _ in range(CONTENDERS):
        child = os.fork()
        if child == 0:
            os.close(go)
            contender(start, result)
        children.append(child)
    os.close(start)
    os.close(result)
    if owner is not None:
        os.kill(owner, signal.SIGKILL)
        os.waitpid(owner, 0)
    os.write(go, b"." * CONTENDERS)
    os.close(go)
    told = b""
    while told.count(b"\n") < CONTENDERS:
        told += os.read(results, 4096)
    os.close(results)
    lines = told.decode().split()
    won = [int(pid) for how, pid in zip(lines[::2], lines[1::2]) if how == "won"]
    if len(won) != 1:
        print(f"round {number}: {len(won)} winners")
    for child in children:
        if child not in won[:1]:
            if child in won:
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    owner = won[0] if won else None
if owner is not None:
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
print(f"{ROUNDS} rounds")
