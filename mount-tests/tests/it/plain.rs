//! R10: everything else is a normal directory.

use mount_tests::{Instance, eventually, samples};

fn python(it: &Instance, program: &str) {
    it.actor().python(program, &[]).ok();
}

#[test]
fn basic_file_operations() {
    let it = Instance::fresh();
    python(
        &it,
        r#"
import os, stat
open('a', 'w').write('hello\n')
assert open('a').read() == 'hello\n'
open('a', 'a').write('more\n')
assert open('a').read() == 'hello\nmore\n'
os.truncate('a', 3); assert open('a').read() == 'hel'
os.truncate('a', 6); assert open('a', 'rb').read() == b'hel\0\0\0'
os.rename('a', 'b'); assert not os.path.exists('a')
os.mkdir('d'); os.rename('b', 'd/c'); assert os.listdir('d') == ['c']
os.link('d/c', 'hard'); assert os.stat('hard').st_nlink == 2
assert os.stat('hard').st_ino == os.stat('d/c').st_ino
os.symlink('d/c', 'soft'); assert os.readlink('soft') == 'd/c' and open('soft','rb').read(3) == b'hel'
os.chmod('hard', 0o640); assert stat.S_IMODE(os.stat('d/c').st_mode) == 0o640
os.utime('hard', ns=(10**18, 10**18 + 7)); assert os.stat('d/c').st_mtime_ns == 10**18 + 7
os.unlink('hard'); assert os.stat('d/c').st_nlink == 1
try: os.rmdir('d')
except OSError as e: assert e.errno == 39
else: raise SystemExit('rmdir of a full directory')
os.unlink('d/c'); os.rmdir('d'); os.unlink('soft')
try: open('nope')
except FileNotFoundError: pass
try: os.open('x', os.O_CREAT | os.O_EXCL | os.O_WRONLY); os.open('x', os.O_CREAT | os.O_EXCL)
except FileExistsError: pass
else: raise SystemExit('O_EXCL')
try: os.mkdir('x')
except FileExistsError: pass
try: os.listdir('x')
except NotADirectoryError: pass
try: open('n' * 300, 'w')
except OSError as e: assert e.errno == 36, e
"#,
    );
    assert_eq!(
        it.names("."),
        ["missions-quarantine.md", "missions.db", "missions.lock", "missions.md", "x"]
            .map(str::to_owned)
            .into_iter()
            .filter(|n| it.path(n).exists())
            .collect::<Vec<_>>()
    );
}

#[test]
fn an_open_file_outlives_its_name() {
    let it = Instance::fresh();
    python(
        &it,
        r#"
import os
f = open('a', 'w+'); f.write('x'); f.flush(); os.unlink('a')
f.seek(0); assert f.read() == 'x'; f.write('y'); f.flush()
assert os.fstat(f.fileno()).st_size == 2, os.fstat(f.fileno())
open('b', 'w').write('old'); g = open('b'); open('c', 'w').write('new'); os.rename('c', 'b')
assert g.read() == 'old' and open('b').read() == 'new'
"#,
    );
}

#[test]
fn appends_of_several_processes_are_whole() {
    let it = Instance::fresh();
    let script = "for i in $(seq 200); do echo \"w$0 line $i of many\" >> log.txt || exit 1; done";
    let all: Vec<_> =
        (0..4).map(|w| it.actor().spawn("bash", &["-c", script, &w.to_string()])).collect();
    for one in all {
        one.wait().ok();
    }
    let text = it.read("log.txt");
    assert_eq!(text.lines().count(), 800);
    assert!(text.lines().all(|l| l.ends_with("of many") && l.starts_with('w')));
}

#[test]
fn mappings_shared_and_private() {
    let it = Instance::fresh();
    python(
        &it,
        r#"
import mmap, os
open('m', 'wb').write(b'a' * 10000)
fd = os.open('m', os.O_RDWR); m = mmap.mmap(fd, 0)
m[5000:5003] = b'XYZ'; m.flush()
assert os.pread(fd, 3, 5000) == b'XYZ'
os.pwrite(fd, b'Q', 1); assert m[1:2] == b'Q'
m.close(); os.close(fd)
assert open('m', 'rb').read()[5000:5003] == b'XYZ'
fd = os.open('m', os.O_RDONLY); m = mmap.mmap(fd, 0, mmap.MAP_PRIVATE); m[0:1] = b'Z'
assert open('m', 'rb').read(1) == b'a'
"#,
    );
}

#[test]
fn locks_of_both_kinds() {
    let it = Instance::fresh();
    it.sh("echo > f");
    let (mut a, mut b) = (it.python(), it.python());
    a.run("f = open('f', 'r+')\nfcntl.flock(f, fcntl.LOCK_EX)");
    b.run("f = open('f', 'r+')");
    assert_eq!(b.errno("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"), libc::EAGAIN);
    a.run("fcntl.flock(f, fcntl.LOCK_UN)\nfcntl.lockf(f, fcntl.LOCK_EX, 10, 5)");
    assert!(
        [libc::EAGAIN, libc::EACCES]
            .contains(&b.errno("fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 8)"))
    );
    b.run("fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)");
    a.kill();
    b.run("fcntl.lockf(f, fcntl.LOCK_EX, 10, 5)\nfcntl.flock(f, fcntl.LOCK_EX)");
}

#[test]
fn extended_attributes_sparse_files_and_fallocate() {
    let it = Instance::fresh();
    python(
        &it,
        r#"
import ctypes, os, errno
open('f', 'w').write('x')
try:
    os.setxattr('f', 'user.k', b'v')
    assert os.getxattr('f', 'user.k') == b'v' and 'user.k' in os.listxattr('f')
    os.removexattr('f', 'user.k'); assert 'user.k' not in os.listxattr('f')
except OSError as e:
    # What the store's file system cannot do fails as it does there.
    assert e.errno == errno.EOPNOTSUPP
    try: os.setxattr(os.environ['STORE'] + '/f', 'user.k', b'v')
    except OSError as s: assert s.errno == e.errno
    else: raise SystemExit('the store can, the mount cannot')
fd = os.open('sparse', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'end', 1 << 24)
assert os.fstat(fd).st_size == (1 << 24) + 3 and os.fstat(fd).st_blocks < 1000
assert os.lseek(fd, 0, os.SEEK_DATA) > 0
os.posix_fallocate(fd, 0, 8192); assert os.fstat(fd).st_blocks >= 16
os.close(fd)
v = os.statvfs('.'); assert v.f_bavail > 0 and v.f_namemax == 255, v
"#,
    );
}

#[test]
fn copies_within_and_across_the_mount() {
    let it = Instance::fresh();
    it.sh("head -c 3000000 /dev/urandom > big; cp big copy; cmp big copy; cp big $SCRATCH/out; cmp big $SCRATCH/out; \
           cp $SCRATCH/out back; cmp back big; mv $SCRATCH/out moved; cmp moved big; cp -a big kept; cmp kept big; dd if=big of=dd bs=77777 status=none; cmp dd big");
    python(
        &it,
        "import os\na=os.open('big',os.O_RDONLY); b=os.open('cfr',os.O_RDWR|os.O_CREAT)\n\
         n=0\nwhile True:\n  k=os.copy_file_range(a,b,1<<20)\n  if not k: break\n  n+=k\n\
         assert n==3000000 and os.sendfile(os.open('sf',os.O_RDWR|os.O_CREAT),a,0,1000)==1000",
    );
    it.sh("cmp cfr big");
}

#[test]
fn rename_flags() {
    let it = Instance::fresh();
    python(
        &it,
        r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def r(a, b, f):
    if libc.renameat2(-100, a, -100, b, f): return ctypes.get_errno()
    return 0
open('a', 'w').write('A'); open('b', 'w').write('B')
assert r(b'a', b'b', 1) == 17
assert r(b'a', b'b', 2) == 0 and open('a').read() == 'B' and open('b').read() == 'A'
os.mkdir('d'); assert r(b'a', b'd', 2) == 0 and os.path.isdir('a')
assert r(b'missing', b'x', 0) == 2
os.mkdir('e'); assert r(b'a', b'e', 0) == 0
assert r(b'e', b'e/sub', 0) == 22
"#,
    );
}

#[test]
fn a_big_directory_lists_every_name_once() {
    let it = Instance::fresh();
    python(
        &it,
        "import os\nos.mkdir('d')\nfor i in range(3000): open(f'd/file-{i:05}-with-a-long-name','w').close()\n\
         n=os.listdir('d'); assert len(n)==3000==len(set(n)), len(n)\n\
         for i,e in enumerate(os.scandir('d')):\n  os.unlink(e.path)\n\
         assert os.listdir('d')==[]",
    );
}

#[test]
fn git_works_in_the_mount() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.sh("git init -q -b main . && echo '*.db' > .gitignore && git add -A && git commit -qm one && \
           echo '- more' >> missions.md && git diff --stat | grep -q missions.md && git commit -qam two && \
           git log --oneline | wc -l | grep -qx 2 && git fsck --strict && git gc -q && git status --porcelain | wc -l | grep -qx 0");
    it.sh("git checkout -q HEAD~1 -- missions.md; git stash -q; git checkout -q -b other; git checkout -q main");
    assert_eq!(it.rows().len(), 7, "a checkout over the document removed only what git had seen");
}

#[test]
fn sqlite_in_wal_and_rollback_mode_works_in_the_mount() {
    let it = Instance::fresh();
    it.sh("sqlite3 own.db 'pragma journal_mode=wal; create table t(x); insert into t values(1);' && \
           sqlite3 roll.db 'pragma journal_mode=delete; create table t(x); insert into t values(1);'");
    let script = "for i in $(seq 25); do sqlite3 -cmd '.timeout 20000' $0 'insert into t values(2)' || exit 1; done";
    let all: Vec<_> = ["own.db", "roll.db", "own.db", "roll.db"]
        .iter()
        .map(|db| it.actor().spawn("bash", &["-c", script, db]))
        .collect();
    for one in all {
        one.wait().ok();
    }
    for db in ["own.db", "roll.db"] {
        assert_eq!(
            it.sh(&format!("sqlite3 {db} 'select count(*) from t; pragma integrity_check'")),
            "51\nok\n"
        );
    }
}

#[test]
fn what_is_in_the_store_is_what_is_in_the_mount() {
    let it = Instance::fresh();
    it.sh("mkdir -p a/b; echo one > a/b/f; chmod 600 a/b/f");
    assert_eq!(std::fs::read(it.store().join("a/b/f")).expect("store"), b"one\n");
    std::fs::write(it.store().join("a/b/g"), "two\n").expect("store");
    assert_eq!(it.read("a/b/g"), "two\n");
    std::fs::write(it.store().join("a/b/f"), "three!\n").expect("store");
    eventually("a change under the mount", || (it.read("a/b/f") == "three!\n").then_some(()));
}

#[test]
fn tar_rsync_like_tools_and_permissions_keep_metadata() {
    let it = Instance::fresh();
    it.sh("mkdir t; echo x > t/x; chmod 751 t/x; touch -d '2020-01-02 03:04:05.5 UTC' t/x; ln -s x t/l; \
           tar cf $SCRATCH/t.tar t; rm -r t; tar xf $SCRATCH/t.tar; stat -c '%a %y' t/x | grep -q '^751 2020-01-02 03:04:05'; \
           test \"$(readlink t/l)\" = x; find t -type f | wc -l | grep -qx 1; rm -rf t; test ! -e t");
}

#[test]
fn fifos_and_sockets_work() {
    let it = Instance::fresh();
    it.sh("mkfifo p; (echo through > p) & cat p | grep -qx through; rm p");
    python(
        &it,
        "import socket,threading\ns=socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen()\n\
         c=socket.socket(socket.AF_UNIX); c.connect('sock'); s.accept()[0].send(b'hi'); assert c.recv(2)==b'hi'",
    );
}

#[test]
fn permissions_are_checked_for_an_ordinary_directory() {
    let it = Instance::fresh();
    it.sh("mkdir d; chmod 000 d; mkdir e; echo x > e/f; chmod 400 e/f; test \"$(stat -c %a d)\" = 0; test \"$(stat -c %a e/f)\" = 400; chmod 755 d");
    it.sh("umask 077; echo x > private; test \"$(stat -c %a private)\" = 600; mkdir pd; test \"$(stat -c %a pd)\" = 700");
}
