"""The first change of each of the files that argv names, made in the way that argv[1] names."""
import os
import sys
import time

way, *names = sys.argv[1:]
for name in names:
    text = (
        b'# note\nfresh\n'
        if name.endswith('.md')
        else b'{"mission": "- fresh", "run_at": "2026-12-01T09:00"}\n'
    )
    if way != 'blind':
        open(name).read()
    if way in ('truncate', 'blind'):
        with open(name, 'wb') as f:
            f.write(text)
    elif way == 'slow':
        with open(name, 'wb', buffering=0) as f:
            f.write(text[:7])
            time.sleep(0.03)
            f.write(text[7:])
            time.sleep(0.03)
    elif way == 'append':
        with open(name, 'ab') as f:
            f.write(b'fresh\n')
    elif way == 'in_place':
        fd = os.open(name, os.O_RDWR)
        os.write(fd, text)
        os.ftruncate(fd, len(text))
        os.close(fd)
    elif way == 'fsync':
        fd = os.open(name, os.O_WRONLY | os.O_TRUNC)
        os.write(fd, text)
        os.fsync(fd)
        time.sleep(0.15)
        os.close(fd)
    elif way == 'rename':
        with open(name + '.tmp', 'wb') as f:
            f.write(text)
        os.rename(name + '.tmp', name)
    elif way == 'unlink':
        os.unlink(name)
        with open(name, 'wb') as f:
            f.write(text)
    time.sleep(0.01)
