#!/usr/bin/env python3
"""Drives an editor on a pseudo terminal: loads the file $T, replaces $OLD by $NEW, waits for the
test (`pause`), saves and quits.

Nothing waits for a time: each key is sent when the screen shows what the key answers. If the
editor says that the save failed, its words go to standard error, the buffer is written to
$SCRATCH/rescued where the editor can do that, and the exit code is 1. nano with an empty $OLD
saves the text as it is.
"""
import errno
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

PATIENCE = 15.0
# The exit code when the editor does something that this program does not expect.
LOST = 70
SCRATCH = os.environ["SCRATCH"]
OLD = os.environ["OLD"]
NEW = os.environ["NEW"]
PLUGINS = "autoclose", "comment", "diff", "ftoptions", "linter", "literate", "status"
RESCUED = os.path.join(SCRATCH, "rescued")
ESCAPES = re.compile(
    rb"\x1b\[[0-9;?<>=!]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()*+][0-9A-Za-z]"
    rb"|\x1bP[^\x1b]*\x1b\\|\x1b[ -/]*[0-~]|[\x00-\x08\x0e-\x1a]"
)
FIRST_LINE = re.compile(rb"\x1b\[1;\d+H(?:\x1b\[[0-9;]*m|\x0f)*")


class Screen:
    """A program on a pseudo terminal of 30 lines and 100 columns."""

    def __init__(self, *command, term="vt100"):
        self.command = command
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            os.environ["TERM"] = term
            os.environ["COLUMNS"], os.environ["LINES"] = "100", "30"
            os.execvp(command[0], command)
        self.raw = b""
        self.from_ = 0
        self.status = None

    def text(self):
        """What was drawn since the last key, without the escape sequences. What is drawn on
        the first line, somewhere to the right, begins with FLAG."""
        drawn = FIRST_LINE.sub(b" FLAG", self.raw[self.from_ :])
        return ESCAPES.sub(b" ", drawn).decode("utf-8", "replace")

    def pump(self, wait):
        """Takes what the program has drawn; False when it has gone."""
        ready, _, _ = select.select([self.fd], [], [], wait)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""
        self.raw += data
        return bool(data)

    def expect(self, *patterns):
        """Waits until one of the patterns is drawn; gives its number and the text."""
        end = time.monotonic() + PATIENCE
        while True:
            text = self.text()
            for number, pattern in enumerate(patterns):
                if re.search(pattern, text, re.S):
                    return number, text
            if not self.pump(0.5) or time.monotonic() > end:
                self.give_up(patterns)

    def give_up(self, patterns):
        os.kill(self.pid, 9)
        print(f"pty_drive: {self.command[0]} did not show {patterns}: {self.text()[-3000:]!r}")
        sys.exit(LOST)

    def send(self, keys):
        self.from_ = len(self.raw)
        os.write(self.fd, keys.encode())

    def answer(self, pattern, keys):
        """Waits for a question and answers it."""
        self.expect(pattern)
        self.send(keys)

    def knock(self, key, pattern):
        """Sends a harmless key until it is answered: nano throws away what is typed while it
        sets up the terminal."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.text(), re.S):
            self.send(key)
            until = time.monotonic() + 1
            while time.monotonic() < min(until, end):
                if re.search(pattern, self.text(), re.S):
                    break
                self.pump(0.1)
            if time.monotonic() > end:
                self.give_up([pattern])
        self.quiet()

    def until_rescued(self):
        """Waits until the buffer is in the other file, and drawn as saved."""
        end = time.monotonic() + PATIENCE
        while not (os.path.exists(RESCUED) and os.path.getsize(RESCUED)):
            self.pump(0.05)
            if time.monotonic() > end:
                self.give_up(["its buffer saved elsewhere"])
        self.quiet()

    def quiet(self):
        """Waits until nothing has been drawn for a moment: for what shows no text."""
        size = -1
        while size != len(self.raw):
            size = len(self.raw)
            self.pump(0.05)

    def ends_or_asks(self, pattern):
        """Waits for a question, or for the end of all drawing; whether there is a question."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.text(), re.S):
            if not self.pump(0.5):
                return False
            if time.monotonic() > end:
                self.give_up([pattern, "its end"])
        return True

    def end(self, keys=""):
        """Waits for the program's end; its exit code. Draws nothing more but is read on."""
        if keys:
            self.send(keys)
        end = time.monotonic() + PATIENCE
        while self.pump(0.5):
            if time.monotonic() > end:
                self.give_up(["its end"])
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


def pause():
    subprocess.run(["pause"], check=True)


def said(text, pattern):
    """The line of the screen with the editor's complaint."""
    found = re.search(pattern, text)
    words = (found.group(0) if found else text).replace("FLAG", " ")
    return re.sub(r"\s+", " ", words).strip()


def nano(*args):
    s = Screen("nano", "-I", *args)
    s.expect(r"Read \d+ line")
    s.knock("\x03", r"line +\d+/\d+")
    if OLD:
        s.send("\x1c")
        s.answer(r"Search \(to replace\)", OLD + "\r")
        s.answer(r"Replace with", NEW + "\r")
        s.answer(r"this instance", "y")
        s.expect(r"Replaced 1")
    pause()
    s.send("\x0f")
    s.answer(r"Write to File|File Name to Write", "\r")
    number, text = s.expect(r"Wrote \d+ line", r"(changed|modified).*\?", r"Error [^\]]*\]")
    if number == 1:
        s.send("y")
        number, text = s.expect(r"Wrote \d+ line", r"\0never", r"Error [^\]]*\]")
    if number == 0:
        return s.end("\x18"), ""
    words = said(text, r"Error [^\]]*")
    s.send("\x0f")
    s.answer(r"Write to File|File Name to Write", "\x7f" * 60 + RESCUED + "\r")
    s.answer(r"DIFFERENT", "y")
    s.expect(r"Wrote \d+ line")
    s.end("\x18")
    return 1, words


def vim(command, *args):
    s = Screen(command, *args)
    asked = s.ends_or_asks(r"\(y/n\)")
    return s.end("y" if asked else ""), ""


def emacs():
    s = Screen("emacs", "-Q", "-nw", "-l", os.path.join(os.environ["PROGRAMS"], "edit.el"))
    return s.end(), ""


def micro(name):
    home = os.path.join(SCRATCH, "micro")
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "settings.json"), "w") as file:
        json.dump({"syntax": False} | {plugin: False for plugin in PLUGINS}, file)
    s = Screen("micro", "-config-dir", home, name)
    s.expect(re.escape(name))
    s.send("\x05")
    s.answer(r">", f"replaceall '{OLD}' '{NEW}'\r")
    s.expect(r"Replaced 1")
    pause()
    s.send("\x13")
    outcome = (r"Saved ", r"on disk.*\(y,n", r"(?i)(error|sync|close|write|open|input)[^\n]*: [^\n]{5,80}")
    number, text = s.expect(*outcome)
    if number == 1:
        s.send("n")
        s.quiet()
        s.send("\x13")
        number, text = s.expect(*outcome)
    if number == 0:
        return s.end("\x11"), ""
    words = said(text, outcome[2])
    s.send("\x05")
    s.answer(r">", f"save '{RESCUED}'\r")
    s.until_rescued()
    s.end("\x11")
    return 1, words


def joe(name):
    s = Screen("joe", name)
    s.expect(re.escape(name))
    # It begins where the last session ended.
    s.send("\x0bu")
    s.quiet()
    s.send("\x0bf")
    s.answer(r"Find", OLD + "\r")
    s.answer(r"\(I\)gnore", "r\r")
    s.answer(r"Replace with", NEW + "\r")
    s.answer(r"\(Y\)es \(N\)o \(R\)est", "y")
    s.quiet()
    pause()
    s.send("\x0bd")
    s.answer(r"Name of file to save", "\r")
    outcome = (r"saved", r"\(y,n|\(Y,N|[Oo]verwrite", r"(Error|Could)[^\n]*")
    number, text = s.expect(*outcome)
    if number == 1:
        s.send("y")
        number, text = s.expect(*outcome)
    if number == 0:
        return s.end("\x0bx"), ""
    words = said(text, outcome[2])
    s.send("\x0bd")
    s.answer(r"Name of file to save", "\x7f" * 60 + RESCUED + "\r")
    s.expect(r"saved")
    s.quiet()
    s.end("\x0bx")
    return 1, words


def mcedit(name):
    s = Screen("mcedit", "-a", "-b", "+1", name)
    s.expect(r"Quit")
    s.send("\x1b4")
    s.answer(r"Enter replacement", OLD + "\t" + NEW + "\r")
    s.answer(r"Replace with", "\r")
    s.expect(r"FLAGM")
    pause()
    s.send("\x1b2")
    s.answer(r"Confirm save file", "s")
    # The flag for "modified" on the first line goes when the file is saved.
    outcome = (r"FLAG-", r"meantime", r"Save As")
    number, text = s.expect(*outcome)
    if number == 1:
        s.send("y")
        number, text = s.expect(*outcome)
    if number == 0:
        return s.end("\x1b0"), ""
    s.answer(r"ancel \]", RESCUED + "\r")
    s.until_rescued()
    s.end("\x1b0")
    return 1, "(asks for another name: Save As)"


def busybox_vi(name):
    s = Screen("busybox", "vi", name)
    s.expect(re.escape(name))
    s.send(f":%s/{OLD}/{NEW}/\r")
    s.quiet()
    pause()
    s.send(":w\r")
    number, text = s.expect(r"\d+L, \d+C", r"[^\n]*(?i:error)[^\n]*")
    if number == 1:
        words = said(text, r"[^\n']*(?i:error)[^\n]*")
        s.send(f":w! {RESCUED}\r")
        s.expect(r"\d+L, \d+C")
        s.end(":q!\r")
        return 1, words
    return s.end(":q\r"), ""


EDITORS = {
    "vim": vim,
    "nano": nano,
    "emacs": emacs,
    "micro": micro,
    "joe": joe,
    "mcedit": mcedit,
    "busybox_vi": busybox_vi,
}
code, words = EDITORS[sys.argv[1]](*sys.argv[2:])
if code and words:
    print(words, file=sys.stderr)
sys.exit(code)
