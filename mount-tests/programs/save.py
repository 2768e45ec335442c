#!/usr/bin/env python3
"""Saves the file $T with $OLD replaced by $NEW, in the way that the argument names.

What a library does in one call is one call here. A save that the program hears to be refused
ends with a traceback's last line and exit code 1.
"""
import fcntl
import mmap
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading

T = os.environ["T"]
SCRATCH = os.environ["SCRATCH"]
OLD = os.environ["OLD"].encode()
NEW = os.environ["NEW"].replace("\\x00", "\0").encode()
ELSEWHERE = os.path.join(SCRATCH, "n")


def pause():
    subprocess.run(["pause"], check=True)


def edited(text):
    assert OLD in text, "nothing to edit"
    return text.replace(OLD, NEW, 1)


def read():
    with open(T, "rb") as file:
        text = edited(file.read())
    pause()
    return text


def elsewhere(text):
    with open(ELSEWHERE, "wb") as file:
        file.write(text)
    return ELSEWHERE


def write():
    text = read().decode()
    with open(T, "w", newline="") as file:
        file.write(text)


def lines():
    text = read()
    with open(T, "wb", buffering=0) as file:
        for line in text.splitlines(keepends=True):
            file.write(line)


def write_read():
    text = read().decode()
    with open(T, "w+", newline="") as file:
        file.write(text)
        file.seek(0)
        assert file.read() == text, "reads something else than it wrote"


def read_write():
    with open(T, "r+b") as file:
        text = edited(file.read())
        pause()
        file.seek(0)
        file.write(text)
        file.truncate()


def truncate_first():
    with open(T, "r+b") as file:
        text = edited(file.read())
        pause()
        file.seek(0)
        file.truncate()
        file.write(text)


def append():
    pause()
    with open(T, "a") as file:
        file.write(os.environ["LINE"] + "\n")


def path():
    target = pathlib.Path(T)
    text = edited(target.read_bytes())
    pause()
    target.write_text(text.decode(), newline="")


def not_closed():
    text = read()
    global forgotten
    forgotten = open(T, "wb")
    forgotten.write(text)


def replace():
    text = read()
    with open(T + ".tmp", "wb") as file:
        file.write(text)
    os.replace(T + ".tmp", T)


def temporary():
    text = read()
    with tempfile.NamedTemporaryFile(dir=".", prefix=f".{T}.", delete=False) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, os.stat(T).st_mode & 0o777)
    os.replace(file.name, T)
    directory = os.open(".", os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def file_input(backup=""):
    import fileinput

    with fileinput.input(T, inplace=True, backup=backup, encoding="utf-8") as file:
        for line in file:
            if file.isfirstline():
                pause()
            sys.stdout.write(line.replace(OLD.decode(), NEW.decode(), 1))


def mapped():
    with open(T, "r+b") as file:
        with mmap.mmap(file.fileno(), 0) as memory:
            text = edited(memory[:])
            pause()
            if len(text) > len(memory):
                memory.resize(len(text))
            memory[:] = text.ljust(len(memory))
            memory.flush()


def locked():
    with open(T, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = edited(file.read())
        pause()
        file.seek(0)
        file.truncate()
        file.write(text)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_UN)


def agent_temp():
    text = read()
    mode = os.stat(T).st_mode & 0o777
    name = f"{T}.tmp.{os.getpid()}.{secrets.token_hex(6)}"
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, text)
        os.fchmod(fd, mode)
        os.fsync(fd)
        inode = os.fstat(fd).st_ino
        os.close(fd)
        os.rename(name, T)
    except OSError:
        os.unlink(name)
        raise
    after = os.stat(T)
    # The size is that of the newest version, which is another one after a merge.
    if not os.path.exists(os.path.join(SCRATCH, "changed")):
        assert after.st_size == len(text), (after.st_size, len(text))
    assert after.st_ino == inode, (after.st_ino, inode)


def on_a_thread(step):
    result = []
    thread = threading.Thread(target=lambda: result.append(step()))
    thread.start()
    thread.join()
    return result[0] if result else None


def agent_threads():
    text = on_a_thread(read)
    fd = on_a_thread(lambda: os.open(T, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666))
    on_a_thread(lambda: os.write(fd, text))

    def close():
        try:
            os.close(fd)
        except OSError:
            pass

    on_a_thread(close)


def jetbrains():
    text = read()
    with open(T + "___jb_tmp___", "wb") as file:
        file.write(text)
    os.rename(T, T + "___jb_old___")
    os.rename(T + "___jb_tmp___", T)
    os.unlink(T + "___jb_old___")


def vscode():
    text = read()
    fd = os.open(T, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        os.write(fd, text)
        os.fdatasync(fd)
    finally:
        os.close(fd)
    os.stat(T)


def gio():
    text = read()
    try:
        os.open(T, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        raise AssertionError("the document was not there")
    except FileExistsError:
        pass
    old = os.open(T, os.O_WRONLY | os.O_NOFOLLOW)
    name = f".goutputstream-{secrets.token_hex(3)}"
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.fchmod(fd, os.fstat(old).st_mode & 0o777)
    os.close(old)
    os.write(fd, text)
    os.fsync(fd)
    os.rename(name, T)
    os.close(fd)


WAYS = {
    "write": write,
    "lines": lines,
    "write_read": write_read,
    "read_write": read_write,
    "truncate_first": truncate_first,
    "append": append,
    "pathlib": path,
    "not_closed": not_closed,
    "replace": replace,
    "tempfile": temporary,
    "copy": lambda: shutil.copy(elsewhere(read()), T),
    "copy2": lambda: shutil.copy2(elsewhere(read()), T),
    "move": lambda: shutil.move(elsewhere(read()), T),
    "fileinput": file_input,
    "fileinput_backup": lambda: file_input(".bak"),
    "mmap": mapped,
    "flock": locked,
    "agent_temp": agent_temp,
    "agent_threads": agent_threads,
    "jetbrains": jetbrains,
    "vscode": vscode,
    "gio": gio,
}

try:
    WAYS[sys.argv[1]]()
except (OSError, AssertionError) as error:
    sys.exit(f"{type(error).__name__}: {error}")
