"""Makes a lock, ends, and looks for it, again and again.

usage: vanish.py LOCK ROUNDS

Every third owner is killed. Prints a line for each round after which the lock is still there when
the owner has been waited for, and at the end how many rounds there were.
"""
import os
import signal
import sys

LOCK, ROUNDS = sys.argv[1], int(sys.argv[2])

for number in range(ROUNDS):
    ready, tell = os.pipe()
    owner = os.fork()
    if owner == 0:
        lock = os.open(LOCK, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        if number % 2:
            os.write(lock, b"%d" % os.getpid())
        os.close(lock)
        os.write(tell, b".")
        if number % 3 == 0:
            signal.pause()
        os._exit(0)
    os.close(tell)
    os.read(ready, 1)
    os.close(ready)
    if number % 3 == 0:
        os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    if os.path.lexists(LOCK):
        print(f"round {number}: still there")
    if os.path.basename(LOCK) in os.listdir(os.path.dirname(LOCK)):
        print(f"round {number}: still listed")
print(f"{ROUNDS} rounds")
