"""Saves in many ways until the mount goes away, and writes down what it tried (`t`), what was
acknowledged (`a`) and what was acknowledged by an fsync (`f`), each with the time.

usage: crash_worker.py LOG NAME SEED      in the mount
"""
import errno
import json
import os
import random
import sys
import time

LOG, NAME, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3])
GONE = (errno.ENOTCONN, errno.ECONNABORTED, errno.ENODEV)
log = open(LOG, 'a')
dice = random.Random(SEED)


def note(what, word):
    log.write(f'{what} {time.monotonic_ns()} {word}\n')
    log.flush()


def put(path, flags, text, sync):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    try:
        os.write(fd, text.encode())
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def read(path):
    with open(path, newline='') as f:
        return f.read()


def beside(text, word):
    return text.replace('## Pending\n', f'## Pending\n- {word}\n', 1)


def append(word, sync):
    put('missions.md', os.O_APPEND, f'- {word}\n', sync)


def whole(word, sync):
    put('missions.md', os.O_TRUNC, beside(read('missions.md'), word), sync)


def rename(word, sync):
    temporary = f'missions.md.tmp.{os.getpid()}'
    put(temporary, os.O_TRUNC, beside(read('missions.md'), word), sync)
    os.rename(temporary, 'missions.md')


def config(word, sync):
    keys = json.loads(read('config.json'))
    keys[word] = 1
    put('config.json', os.O_TRUNC, json.dumps(keys, indent=1) + '\n', sync)


def queue(word, sync):
    put('outbox.md', os.O_APPEND, f'{word}\n', sync)


def notes(word, sync):
    put('memory/notes.md', os.O_TRUNC, read('memory/notes.md') + f'{word}\n', sync)


WAYS = {'m': [append, whole, rename], 'c': [config], 'o': [queue], 'n': [notes]}
number = 0
while True:
    number += 1
    kind = dice.choice('mmmcon')
    word, sync = f'{kind}{NAME}-{number}.', dice.random() < 0.4
    note('t', word)
    try:
        dice.choice(WAYS[kind])(word, sync)
        note('f' if sync else 'a', word)
    except OSError as e:
        if e.errno in GONE:
            sys.exit(0)
        time.sleep(0.002)
