"""What several users may do in a directory and what becomes of it, one line per step.

Run as root in a directory of its own: the lines must be the same on the disk and in the mount.
"""
import os
import stat
import struct
import sys

os.umask(0)
OWNER, OTHER, GROUP, EXTRA = 1234, 2345, 1235, 777


def acl(*entries):
    """The kernel's form of an ACL: tag, permissions, id."""
    out = struct.pack("<I", 2)
    for tag, perm, who in entries:
        out += struct.pack("<HHI", tag, perm, who & 0xFFFFFFFF)
    return out


USER_OBJ, USER, GROUP_OBJ, ACL_GROUP, MASK, REST = 1, 2, 4, 8, 16, 32


def shown(name):
    st = os.lstat(name)
    return f"{st.st_uid}:{st.st_gid} {stat.filemode(st.st_mode)}"


def errno(action):
    try:
        action()
    except OSError as e:
        return f"errno {e.errno}"
    return "done"


def as_user(uid, gid, groups, action):
    """Runs the action in a child of these ids and returns what it returns."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            os.write(w, str(action()).encode())
        except BaseException as e:
            os.write(w, repr(e).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        text = f.read()
    os.waitpid(pid, 0)
    return text


def make(name, mode, kind="file"):
    if kind == "dir":
        os.mkdir(name, mode)
    elif kind == "fifo":
        os.mkfifo(name, mode)
    else:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    return shown(name)


def say(*words):
    print(*words, flush=True)


os.mkdir("open", 0o1777)
os.chmod("open", 0o1777)
os.mkdir("shared")
os.chown("shared", 0, EXTRA)
os.chmod("shared", 0o2770)
os.mkdir("loose")
os.chown("loose", 0, EXTRA)
os.chmod("loose", 0o2777)

for mode in (0o2775, 0o2765, 0o6755, 0o644):
    for kind in ("file", "dir", "fifo"):
        for directory in ("shared", "loose", "open"):
            for groups in ([], [EXTRA], [5, EXTRA, 9]):
                name = f"{directory}/{mode:o}{kind}{len(groups)}"
                got = as_user(OWNER, GROUP, groups, lambda: make(name, mode, kind))
                say("make", name, got)

make("mine", 0o6777)
os.chown("mine", OWNER, GROUP)
os.chmod("mine", 0o6777)
say("chgrp foreign", as_user(OWNER, GROUP, [], lambda: errno(lambda: os.chown("mine", -1, EXTRA))))
say("chgrp own", as_user(OWNER, GROUP, [EXTRA], lambda: errno(lambda: os.chown("mine", -1, EXTRA))))
say(shown("mine"))
os.chmod("mine", 0o777)
say("chmod g+s outside", as_user(OWNER, GROUP, [], lambda: errno(lambda: os.chmod("mine", 0o2777))), shown("mine"))
say("chmod g+s inside", as_user(OWNER, GROUP, [EXTRA], lambda: errno(lambda: os.chmod("mine", 0o2777))), shown("mine"))
say("chmod by other", as_user(OTHER, OTHER, [], lambda: errno(lambda: os.chmod("mine", 0o700))))


def write(name, flags=0):
    fd = os.open(name, os.O_WRONLY | flags)
    os.write(fd, b"x")
    os.close(fd)


for mode in (0o6777, 0o2767, 0o4711):
    for how, flags in (("write", 0), ("append", os.O_APPEND), ("truncate", os.O_TRUNC)):
        for uid in (0, OWNER):
            name = f"priv{mode:o}{how}{uid}"
            make(name, 0o777)
            os.chown(name, OWNER, GROUP)
            os.chmod(name, mode)
            say(how, name, as_user(uid, GROUP, [], lambda: errno(lambda: write(name, flags))), shown(name))
    name = f"cut{mode:o}"
    make(name, 0o777)
    os.chown(name, OWNER, GROUP)
    os.chmod(name, mode)
    say(name, as_user(OWNER, GROUP, [], lambda: errno(lambda: os.truncate(name, 3))), shown(name))

say("unlink in sticky", as_user(OTHER, OTHER, [], lambda: errno(lambda: os.unlink("open/644file0"))))
say("rename in sticky", as_user(OTHER, OTHER, [], lambda: errno(lambda: os.rename("open/644file0", "open/z"))))
say("unlink own in sticky", as_user(OWNER, GROUP, [], lambda: errno(lambda: os.unlink("open/644file0"))))
say("group enters", as_user(OWNER, GROUP, [EXTRA], lambda: errno(lambda: os.listdir("shared"))))
say("others do not", as_user(OWNER, GROUP, [], lambda: errno(lambda: os.listdir("shared"))))

# Access control lists: granted, denied, inherited, masked.
with open("listed", "w") as f:
    f.write("text")
os.chmod("listed", 0o600)
try:
    os.setxattr("listed", "system.posix_acl_access", acl(
        (USER_OBJ, 6, -1), (USER, 4, OWNER), (GROUP_OBJ, 0, -1), (ACL_GROUP, 6, EXTRA), (MASK, 6, -1), (REST, 0, -1)))
    say("acl set", shown("listed"))
except OSError as e:
    say("acl errno", e.errno)
    sys.exit(0)
read = lambda: errno(lambda: open("listed").read())
change = lambda: errno(lambda: write("listed"))
for who in ((OWNER, GROUP, []), (OTHER, OTHER, []), (OTHER, OTHER, [EXTRA])):
    say("acl", who, as_user(*who, read), as_user(*who, change))
os.chmod("listed", 0o640)
say("acl masked", shown("listed"), os.getxattr("listed", "system.posix_acl_access").hex())
for who in ((OWNER, GROUP, []), (OTHER, OTHER, [EXTRA])):
    say("acl", who, as_user(*who, read), as_user(*who, change))
os.removexattr("listed", "system.posix_acl_access")
say("acl removed", shown("listed"), as_user(OWNER, GROUP, [], read))
os.mkdir("heirs", 0o777)
os.chmod("heirs", 0o777)
os.setxattr("heirs", "system.posix_acl_default", acl(
    (USER_OBJ, 7, -1), (USER, 7, OTHER), (GROUP_OBJ, 5, -1), (MASK, 7, -1), (REST, 0, -1)))
for umask in (0, 0o022, 0o077):
    os.umask(umask)
    for kind, mode in (("file", 0o666), ("dir", 0o777), ("fifo", 0o600)):
        name = f"heirs/{kind}{umask:o}"
        say("heir", name, as_user(OWNER, GROUP, [], lambda: make(name, mode, kind)),
            os.getxattr(name, "system.posix_acl_access").hex(), sorted(os.listxattr(name)))
say("heir write", as_user(OTHER, OTHER, [], lambda: errno(lambda: write("heirs/file0"))))
os.umask(0)
make("sgid", 0o777)
os.chown("sgid", OWNER, EXTRA)
os.chmod("sgid", 0o2770)
rights = acl((USER_OBJ, 7, -1), (USER, 7, OTHER), (GROUP_OBJ, 7, -1), (MASK, 7, -1), (REST, 0, -1))
for groups in ([EXTRA], []):
    say("acl on setgid", as_user(OWNER, GROUP, groups, lambda: errno(
        lambda: os.setxattr("sgid", "system.posix_acl_access", rights))), shown("sgid"))
