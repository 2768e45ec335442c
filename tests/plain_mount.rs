//! Plain files through a real mount. Needs `/dev/fuse`; fails without it.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use instancefs::fuse::{FSTYPE, Mount, MountError, MountOptions, detach_dead, mounted_at};
use instancefs::vfs::Layer;
use instancefs::vfs::plain::Plain;

/// A mounted store. A watchdog ends the whole test when it takes longer than a minute: it
/// aborts the connection, so that nothing stays hung in the kernel.
struct Mounted {
    store: tempfile::TempDir,
    point: tempfile::TempDir,
    mount: Option<Mount>,
    _alive: Sender<()>,
}

fn is_root() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() == 0 }
}

fn options() -> MountOptions {
    MountOptions {
        allow_other: is_root(),
        read_only: false,
        passthrough: true,
        stacked: false,
        fsname: "test".to_owned(),
    }
}

impl Mounted {
    fn new() -> Mounted {
        let store = tempfile::tempdir().unwrap();
        let plain = Arc::new(Plain::new(store.path()).unwrap());
        Mounted::with(store, plain)
    }

    fn with(store: tempfile::TempDir, layer: Arc<dyn Layer>) -> Mounted {
        let point = tempfile::tempdir().unwrap();
        let mount = Mount::new(layer, point.path(), &options()).expect("a mount");
        let (alive, watch) = channel::<()>();
        let path = point.path().to_owned();
        std::thread::spawn(move || {
            use std::sync::mpsc::RecvTimeoutError::Timeout;
            if watch.recv_timeout(Duration::from_secs(60)) == Err(Timeout) {
                eprintln!("{}: took too long", path.display());
                let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
                // SAFETY: the path is a C string.
                unsafe { libc::umount2(path.as_ptr(), libc::MNT_FORCE | libc::MNT_DETACH) };
                std::process::exit(99);
            }
        });
        mount.ready(Duration::from_secs(10)).expect("an answer");
        Mounted { store, point, mount: Some(mount), _alive: alive }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.point.path().join(name)
    }

    fn real(&self, name: &str) -> PathBuf {
        self.store.path().join(name)
    }

    /// Runs a script in the mount and returns what it prints.
    fn sh(&self, script: &str) -> String {
        run("bash", &["-ec", script], self.point.path())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            let _ = mount.abort();
            mount.wait_for(Duration::from_secs(10));
        }
    }
}

fn run(program: &str, args: &[&str], dir: &Path) -> String {
    let out = Command::new(program).args(args).current_dir(dir).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {args:?}: {}\n{text}\n{errors}", out.status);
    text
}

#[test]
fn shell_work() {
    let m = Mounted::new();
    let out = m.sh(r#"
        mkdir -p a/b; echo one > a/b/f; echo two >> a/b/f; cat a/b/f
        cp a/b/f g; mv g h; ln h i; ln -s a/b/f s; cat s; readlink s
        stat -c '%h %s' h; rm h; cat i
        chmod 640 i; touch -d 2001-02-03T04:05:06Z i; TZ=UTC stat -c '%a %y' i
        truncate -s 3 i; cat i; echo; : > i; stat -c %s i
        seq 1 1000 > n; sort -rn n -o n; head -1 n; sed -i s/1000/x/ n; head -1 n
        mkfifo p; test -p p; rm p; rmdir a 2>/dev/null && exit 1
        rm -r a; ls -a
    "#);
    assert_eq!(
        out,
        "one\ntwo\none\ntwo\na/b/f\n2 8\none\ntwo\n640 2001-02-03 04:05:06.000000000 +0000\n\
         one\n0\n1000\nx\n.\n..\ni\nn\ns\n"
    );
    assert_eq!(fs::read_to_string(m.real("n")).unwrap().lines().count(), 1000);
}

#[test]
fn inode_numbers_are_the_stores() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    fs::write(m.path("d/f"), "x").unwrap();
    let (ours, real) = (fs::metadata(m.path("d/f")).unwrap(), fs::metadata(m.real("d/f")).unwrap());
    assert_eq!(ours.ino(), real.ino());
    assert_eq!(ours.mtime_nsec(), real.mtime_nsec());
    let listed = m.sh("find d/f -printf %i");
    assert_eq!(listed, real.ino().to_string());
    // Opened, made and looked up: one number each time.
    let file = fs::File::create(m.path("d/g")).unwrap();
    assert_eq!(file.metadata().unwrap().ino(), fs::metadata(m.real("d/g")).unwrap().ino());
}

#[test]
fn changes_behind_the_mount_show() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    for round in 0..3 {
        let text = format!("round {round} {}", "x".repeat(round));
        fs::write(m.real("d/f"), &text).unwrap();
        let start = Instant::now();
        while fs::read_to_string(m.path("d/f")).ok().as_deref() != Some(&text) {
            assert!(start.elapsed() < Duration::from_millis(1500), "round {round}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // The same length, and read again at once through one descriptor.
    let file = fs::File::open(m.path("d/f")).unwrap();
    let mut buf = [0; 7];
    file.read_exact_at(&mut buf, 0).unwrap();
    fs::write(m.real("d/f"), "ROUND 2 xx").unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"ROUND 2");
    // In the root a name is never believed.
    fs::write(m.real("r"), "1").unwrap();
    assert_eq!(fs::read(m.path("r")).unwrap(), b"1");
    fs::remove_file(m.real("r")).unwrap();
    assert!(!m.path("r").exists());
}

#[test]
fn appends_go_to_the_end() {
    let m = Mounted::new();
    let mut log = fs::OpenOptions::new().append(true).create(true).open(m.path("log")).unwrap();
    log.write_all(b"a\n").unwrap();
    // The kernel does not know of this yet.
    fs::OpenOptions::new().append(true).open(m.real("log")).unwrap().write_all(b"b\n").unwrap();
    log.write_all(b"c\n").unwrap();
    assert_eq!(fs::read_to_string(m.real("log")).unwrap(), "a\nb\nc\n");
    assert_eq!(fs::read_to_string(m.path("log")).unwrap(), "a\nb\nc\n");

    std::thread::scope(|s| {
        for t in 0..8 {
            let path = m.path("many");
            s.spawn(move || {
                let open = || fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
                let mut file = open();
                for i in 0..100 {
                    if i % 10 == 0 {
                        file = open();
                    }
                    file.write_all(format!("{t} {i}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(m.real("many")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 800);
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 800);
}

#[test]
fn unlinked_files_live_on() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    let mut f =
        fs::OpenOptions::new().read(true).write(true).create_new(true).open(m.path("d/f")).unwrap();
    f.write_all(b"kept").unwrap();
    fs::remove_file(m.path("d/f")).unwrap();
    fs::remove_dir(m.path("d")).unwrap();
    f.write_all(b" on").unwrap();
    f.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    f.read_to_string(&mut text).unwrap();
    assert_eq!(text, "kept on");
    assert_eq!(f.metadata().unwrap().nlink(), 0);
    f.set_len(2).unwrap();
    f.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(f.metadata().unwrap().len(), 2);
}

#[test]
fn python_git_and_sqlite() {
    let m = Mounted::new();
    let out = run(
        "python3",
        &[
            "-c",
            r#"
import mmap, os, fcntl, sqlite3, tempfile, shutil
with open("m", "w+b") as f:
    f.truncate(10000)
    with mmap.mmap(f.fileno(), 0) as mm:
        mm[0:5] = b"hello"; mm[9000:9003] = b"end"; mm.flush()
        os.pwrite(f.fileno(), b"J", 0)
        assert mm[0:5] == b"Jello", mm[0:5]
assert open("m","rb").read()[:5] == b"Jello"
with open("l", "w") as f:
    fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)
os.setxattr("l", "user.note", b"v" * 1000)
assert os.getxattr("l", "user.note") == b"v" * 1000 and os.listxattr("l") == ["user.note"]
os.removexattr("l", "user.note")
try: os.getxattr("l", "user.note")
except OSError as e: assert e.errno == 61, e
f = os.open("sparse", os.O_RDWR | os.O_CREAT)
os.pwrite(f, b"x", 1 << 20); os.posix_fallocate(f, 0, 4096)
assert os.lseek(f, 8192, os.SEEK_HOLE) == 8192 and os.lseek(f, 8192, os.SEEK_DATA) == 1 << 20
assert os.copy_file_range(f, f, 10, 100, (1 << 20) + 1) == 10
os.fsync(f)
d = os.open(".", os.O_RDONLY); os.fsync(d)
assert os.statvfs(".").f_bsize > 0
for journal in ("delete", "wal"):
    c = sqlite3.connect(journal + ".db"); c.execute("pragma journal_mode=" + journal)
    c.execute("create table t(a)")
    for i in range(20):
        c.execute("insert into t values(?)", (i,)); c.commit()
    assert c.execute("select sum(a) from t").fetchone() == (190,)
    assert c.execute("pragma integrity_check").fetchone() == ("ok",)
    c.close()
shutil.copytree("/usr/share/doc/fuse3" if os.path.isdir("/usr/share/doc/fuse3") else "/etc/ssl", "copied")
shutil.rmtree("copied")
print("done")
"#,
        ],
        m.point.path(),
    );
    assert_eq!(out, "done\n");
    let out =
        m.sh("mkdir w; cd w; git init -q .; git config user.name n; git config user.email e@x
         for i in $(seq 1 60); do echo $i > f$i; done; git add -A; git commit -qm one
         mv f1 g1; echo new > f2; git add -A; git commit -qm two; git fsck --full
         git status --porcelain; git log --oneline | wc -l; git clone -q . ../c; ls ../c | wc -l");
    assert_eq!(out, "2\n60\n");
}

#[test]
fn flags_of_open_and_rename() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    for dir in ["", "d/"] {
        let (a, b) = (m.path(&format!("{dir}a")), m.path(&format!("{dir}b")));
        fs::write(&a, "A").unwrap();
        fs::write(&b, "B").unwrap();
        let exclusive = fs::OpenOptions::new().write(true).create_new(true).open(&a);
        assert_eq!(exclusive.unwrap_err().raw_os_error(), Some(libc::EEXIST));
        let rename = |flags| {
            let c = |p: &Path| std::ffi::CString::new(p.as_os_str().as_bytes()).unwrap();
            let at = libc::AT_FDCWD;
            // SAFETY: both paths are C strings.
            match unsafe { libc::renameat2(at, c(&a).as_ptr(), at, c(&b).as_ptr(), flags) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
            }
        };
        assert_eq!(rename(libc::RENAME_NOREPLACE), Err(libc::EEXIST));
        rename(libc::RENAME_EXCHANGE).unwrap();
        assert_eq!(fs::read(&a).unwrap(), b"B");
        rename(0).unwrap();
        assert_eq!(fs::read(&b).unwrap(), b"B");
        assert!(!a.exists());
        let mut temporary = fs::OpenOptions::new();
        temporary.write(true).custom_flags(libc::O_TMPFILE);
        let refused = temporary.open(m.path("d")).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP));
    }
}

#[test]
fn many_threads() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    std::thread::scope(|s| {
        for t in 0..16 {
            let dir = m.path("d");
            s.spawn(move || {
                for i in 0..40 {
                    let (a, b) = (dir.join(format!("{t}-{i}")), dir.join(format!("{t}-{i}.new")));
                    let text = format!("{t} {i} ").repeat(200);
                    fs::write(&a, &text).unwrap();
                    fs::write(&b, &text).unwrap();
                    fs::rename(&b, &a).unwrap();
                    assert_eq!(fs::read_to_string(&a).unwrap(), text);
                    if i % 2 == 0 {
                        fs::remove_file(&a).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(fs::read_dir(m.path("d")).unwrap().count(), 16 * 20);
}

#[test]
fn a_large_directory() {
    let m = Mounted::new();
    fs::create_dir(m.real("big")).unwrap();
    for i in 0..20_000 {
        fs::File::create(m.real(&format!("big/{i:05}"))).unwrap();
    }
    let names = |path: PathBuf| -> Vec<_> {
        let mut all: Vec<_> = fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect();
        all.sort();
        all
    };
    assert_eq!(names(m.path("big")), names(m.real("big")));
    // Removing while reading, as `rm -r` does.
    assert_eq!(m.sh("ls -f big | wc -l; rm -r big; ls"), "20002\n");
}

#[test]
fn files_belong_to_who_made_them() {
    let m = Mounted::new();
    fs::set_permissions(m.point.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir(m.path("open")).unwrap();
    fs::set_permissions(m.path("open"), fs::Permissions::from_mode(0o1777)).unwrap();
    if !is_root() {
        return;
    }
    fs::set_permissions(m.store.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(m.path("shared")).unwrap();
    std::os::unix::fs::chown(m.path("shared"), Some(0), Some(777)).unwrap();
    fs::set_permissions(m.path("shared"), fs::Permissions::from_mode(0o2770)).unwrap();
    fs::write(m.path("secret"), "s").unwrap();
    fs::set_permissions(m.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(m.path("suid"), "s").unwrap();
    fs::set_permissions(m.path("suid"), fs::Permissions::from_mode(0o4777)).unwrap();
    let script = "umask 027; cd open; echo x > f; mkdir d; ln -s f l; mkfifo p
        stat -c '%u %g %a' f d p; stat -c '%u %g' l
        cat ../secret 2>/dev/null && exit 1
        echo y > ../shared/g; stat -c '%u %g' ../shared/g
        echo y >> ../suid; stat -c %a ../suid";
    let ids = ["--reuid", "1234", "--regid", "1235", "--groups", "777", "bash", "-ec", script];
    let out = run("setpriv", &ids, m.point.path());
    assert_eq!(out, "1234 1235 640\n1234 1235 750\n1234 1235 640\n1234 1235\n1234 777\n777\n");
}

/// A layer of which some operations panic, and some take long.
struct Panicking(Plain);

macro_rules! pass {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, $($arg: $type),*) -> $out { self.0.$name($($arg),*) })*
    };
}

mod panicking {
    use std::ffi::OsString;

    use instancefs::vfs::layer::*;

    use super::{OsStr, Panicking};

    #[allow(clippy::too_many_arguments)]
    impl Layer for Panicking {
        fn read(&self, w: &Caller, n: Node, fh: Fh, offset: u64, size: u32) -> Result<Vec<u8>> {
            let data = self.0.read(w, n, fh, offset, size)?;
            assert!(!data.starts_with(b"bomb"), "a bomb in the read");
            Ok(data)
        }
        fn flush(&self, w: &Caller, n: Node, fh: Fh) -> Result<()> {
            let size = self.0.getattr(w, n, Some(fh))?.0.size;
            assert!(size != 13, "thirteen");
            if size == 14 {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
            self.0.flush(w, n, fh)
        }
        pass! {
            lookup(w: &Caller, p: Node, name: &OsStr) -> Result<Entry>;
            forget(n: Node, count: u64) -> ();
            getattr(w: &Caller, n: Node, fh: Option<Fh>) -> Result<(Attr, std::time::Duration)>;
            setattr(w: &Caller, n: Node, s: &SetAttr) -> Result<(Attr, std::time::Duration)>;
            readlink(w: &Caller, n: Node) -> Result<OsString>;
            mknod(w: &Caller, p: Node, name: &OsStr, m: u32, u: u32, r: u32) -> Result<Entry>;
            mkdir(w: &Caller, p: Node, name: &OsStr, m: u32, u: u32) -> Result<Entry>;
            unlink(w: &Caller, p: Node, name: &OsStr) -> Result<()>;
            rmdir(w: &Caller, p: Node, name: &OsStr) -> Result<()>;
            symlink(w: &Caller, p: Node, name: &OsStr, t: &OsStr) -> Result<Entry>;
            rename(w: &Caller, p: Node, a: &OsStr, q: Node, b: &OsStr, how: Renaming) -> Result<()>;
            link(w: &Caller, n: Node, p: Node, name: &OsStr) -> Result<Entry>;
            open(w: &Caller, n: Node, flags: i32) -> Result<Opened>;
            create(w: &Caller, p: Node, name: &OsStr, m: u32, u: u32, f: i32) -> Result<Created>;
            write(w: &Caller, n: Node, fh: Fh, o: u64, d: &[u8], f: i32) -> Result<u32>;
            release(n: Node, fh: Fh) -> Result<()>;
            fsync(w: &Caller, n: Node, fh: Fh, d: bool) -> Result<()>;
            opendir(w: &Caller, n: Node, f: i32) -> Result<Opened>;
            readdir(w: &Caller, n: Node, fh: Fh, o: i64) -> Result<Vec<DirEntry>>;
            releasedir(n: Node, fh: Fh) -> ();
            fsyncdir(w: &Caller, n: Node, fh: Fh, d: bool) -> Result<()>;
            statfs(w: &Caller, n: Node) -> Result<StatFs>;
            setxattr(w: &Caller, n: Node, a: &OsStr, v: &[u8], f: XattrFlags) -> Result<()>;
            getxattr(w: &Caller, n: Node, a: &OsStr) -> Result<Vec<u8>>;
            listxattr(w: &Caller, n: Node) -> Result<Vec<u8>>;
            removexattr(w: &Caller, n: Node, a: &OsStr) -> Result<()>;
            fallocate(w: &Caller, n: Node, fh: Fh, o: u64, l: u64, m: i32) -> Result<()>;
            lseek(w: &Caller, n: Node, fh: Fh, o: i64, whence: i32) -> Result<i64>;
            copy_file_range(
                w: &Caller, a: Node, b: Fh, c: u64, d: Node, e: Fh, f: u64, l: u64
            ) -> Result<u32>;
        }
    }
}

#[test]
fn a_panic_is_eio_and_the_mount_lives_on() {
    let store = tempfile::tempdir().unwrap();
    let layer = Arc::new(Panicking(Plain::new(store.path()).unwrap()));
    let m = Mounted::with(store, layer);
    for _ in 0..20 {
        fs::write(m.path("bomb"), "bomb!").unwrap();
        let read = fs::read(m.path("bomb")).unwrap_err();
        assert_eq!(read.raw_os_error(), Some(libc::EIO));
        let close = Command::new("python3")
            .args(["-c", "f = open('t','w'); f.write('x'*13); f.close()"])
            .current_dir(m.point.path())
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&close.stderr).contains("[Errno 5]"), "{close:?}");
        fs::write(m.path("fine"), "fine").unwrap();
        assert_eq!(fs::read(m.path("fine")).unwrap(), b"fine");
    }
    let stats = m.mount.as_ref().unwrap().stats();
    assert!(stats.panics() >= 40);
    assert!(stats.snapshot().iter().any(|s| s.op.name() == "read" && s.errors >= 20));
}

#[test]
fn a_long_commit_holds_nobody_up() {
    let store = tempfile::tempdir().unwrap();
    let layer = Arc::new(Panicking(Plain::new(store.path()).unwrap()));
    let m = Mounted::with(store, layer);
    let start = Instant::now();
    std::thread::scope(|s| {
        let writers: Vec<_> = (0..20)
            .map(|i| {
                let path = m.path(&i.to_string());
                s.spawn(move || fs::write(path, "x".repeat(14)).unwrap())
            })
            .collect();
        let mut longest = Duration::ZERO;
        while !writers.iter().all(|w| w.is_finished()) {
            let start = Instant::now();
            fs::write(m.path("other"), "quick").unwrap();
            assert_eq!(fs::read(m.path("other")).unwrap(), b"quick");
            longest = longest.max(start.elapsed());
        }
        assert!(longest < Duration::from_millis(700), "{longest:?}");
    });
    let took = start.elapsed();
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(4), "{took:?}");
    assert!(m.mount.as_ref().unwrap().drain(Duration::from_secs(5)));
}

#[test]
fn the_kernel_is_told() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    fs::write(m.path("d/f"), "old").unwrap();
    let file = fs::File::open(m.path("d/f")).unwrap();
    let ino = file.metadata().unwrap().ino();
    let read = || {
        let mut buf = [0; 3];
        file.read_exact_at(&mut buf, 0).unwrap();
        buf
    };
    let notifier = m.mount.as_ref().unwrap().notifier();
    for new in [b"NEW", b"two", b"six"] {
        read();
        fs::write(m.real("d/f"), new).unwrap();
        notifier.inval_inode(ino, 0, 0);
        let start = Instant::now();
        while read() != *new {
            assert!(start.elapsed() < Duration::from_millis(500));
        }
    }
}

/// Not a test of its own: the process that `dead_mounts_are_taken_away` kills.
#[test]
fn server_to_be_killed() {
    let Some(point) = std::env::var_os("INSTANCEFS_TEST_SERVE") else { return };
    let store = tempfile::tempdir().unwrap();
    let plain = Arc::new(Plain::new(store.path()).unwrap());
    let mount = Mount::new(plain, Path::new(&point), &options()).unwrap();
    mount.wait();
}

#[test]
fn dead_mounts_are_taken_away() {
    let point = tempfile::tempdir().unwrap();
    assert!(!detach_dead(point.path()).unwrap());
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server_to_be_killed"])
        .env("INSTANCEFS_TEST_SERVE", point.path())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while mounted_at(point.path()).unwrap().is_none() || fs::read_dir(point.path()).is_err() {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(10));
    }
    server.kill().unwrap();
    server.wait().unwrap();
    let store = tempfile::tempdir().unwrap();
    let again =
        || Mount::new(Arc::new(Plain::new(store.path()).unwrap()), point.path(), &options());
    assert!(matches!(again(), Err(MountError::Dead(_))));
    assert!(detach_dead(point.path()).unwrap());
    assert!(mounted_at(point.path()).unwrap().is_none());
    let mount = again().unwrap();
    mount.ready(Duration::from_secs(5)).unwrap();
    mount.unmount(Duration::from_secs(5)).unwrap();
}

#[test]
fn made_seen_and_gone() {
    let mut m = Mounted::new();
    let mount = m.mount.take().unwrap();
    let info = mounted_at(m.point.path()).unwrap().unwrap();
    assert_eq!((info.fstype.as_str(), info.source.to_str()), (FSTYPE, Some("test")));
    assert_eq!(info.device.1, mount.connection_id());
    let dev = fs::metadata(m.point.path()).unwrap().dev();
    assert_eq!(libc::minor(dev), mount.connection_id());

    // A second one on top is refused, a live one is not "dead".
    let again =
        Mount::new(Arc::new(Plain::new(m.store.path()).unwrap()), m.point.path(), &options());
    assert!(matches!(again, Err(MountError::Mounted { .. })));
    assert!(!detach_dead(m.point.path()).unwrap());

    let open = fs::File::create(m.path("open")).unwrap();
    assert!(matches!(mount.unmount(Duration::ZERO), Err(MountError::Busy)));
    assert!(!mount.is_over());
    drop(open);
    mount.unmount(Duration::from_secs(5)).unwrap();
    assert!(mount.wait_for(Duration::from_secs(10)));
    assert!(mounted_at(m.point.path()).unwrap().is_none());
    assert_eq!(fs::read_dir(m.point.path()).unwrap().count(), 0);
    assert!(m.real("open").exists());
}

#[test]
fn unmounted_from_outside() {
    let mut m = Mounted::new();
    let mount = m.mount.take().unwrap();
    assert!(!mount.wait_for(Duration::from_millis(50)));
    run("fusermount3", &["-u", m.point.path().to_str().unwrap()], Path::new("/"));
    assert!(mount.wait_for(Duration::from_secs(10)));
}

#[test]
fn unfit_mount_points() {
    let store = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let try_at = |path: &Path| {
        Mount::new(Arc::new(Plain::new(store.path()).unwrap()), path, &options()).err().unwrap()
    };
    assert!(matches!(try_at(dir.path()), MountError::NotEmpty(_)));
    assert!(matches!(try_at(&dir.path().join("file")), MountError::NotDirectory(_)));
    assert!(matches!(try_at(&dir.path().join("none")), MountError::NoMountPoint(_)));
    assert!(matches!(try_at(&dir.path().join("none/x")), MountError::NoMountPoint(_)));
}

#[test]
fn read_only() {
    let store = tempfile::tempdir().unwrap();
    let point = tempfile::tempdir().unwrap();
    fs::write(store.path().join("f"), "text").unwrap();
    let plain = Arc::new(Plain::new(store.path()).unwrap());
    let options = MountOptions { read_only: true, ..options() };
    let mount = Mount::new(plain, point.path(), &options).unwrap();
    assert_eq!(fs::read(point.path().join("f")).unwrap(), b"text");
    let mut open = fs::OpenOptions::new();
    open.write(true).custom_flags(libc::O_TRUNC);
    let write = open.open(point.path().join("f")).unwrap_err();
    assert_eq!(write.raw_os_error(), Some(libc::EROFS));
    assert_eq!(fs::read(store.path().join("f")).unwrap(), b"text");
    mount.abort().unwrap();
}
