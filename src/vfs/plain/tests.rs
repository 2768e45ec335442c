//! Plain files without a mount.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use super::layer::TTL;
use super::{FIRST_NODE, HANDLE_LIMIT, Plain};
use crate::model::Stamp;
use crate::vfs::layer::Result;
use crate::vfs::{
    Caller, Entry, Error, Fh, FileType, Layer, Node, Renaming, SetAttr, SetTime, XattrFlags,
};

mod budget;

const ROOT: Node = 1;

struct Fixture {
    dir: tempfile::TempDir,
    plain: Plain,
    me: Caller,
}

fn fixture() -> Fixture {
    with_budget(1000)
}

fn with_budget(budget: usize) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let plain = Plain::with_budget(&store, budget).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    Fixture { dir, plain, me: Caller { tid: 0, uid, gid } }
}

impl Fixture {
    fn real(&self, name: &str) -> PathBuf {
        self.dir.path().join("store").join(name)
    }

    fn look(&self, parent: Node, name: &str) -> Result<Entry> {
        self.plain.lookup(&self.me, parent, OsStr::new(name))
    }

    fn create(&self, parent: Node, name: &str) -> (Node, Fh) {
        let flags = libc::O_RDWR;
        let made = self.plain.create(&self.me, parent, OsStr::new(name), 0o666, 0o022, flags);
        let made = made.unwrap();
        (made.entry.node, made.opened.fh)
    }

    fn mkdir(&self, parent: Node, name: &str) -> Node {
        self.plain.mkdir(&self.me, parent, OsStr::new(name), 0o777, 0o022).unwrap().node
    }

    fn write(&self, fh: Fh, offset: u64, text: &str) {
        let n = self.plain.write(&self.me, 0, fh, offset, text.as_bytes(), libc::O_RDWR).unwrap();
        assert_eq!(n as usize, text.len());
    }

    fn read(&self, fh: Fh) -> String {
        String::from_utf8(self.plain.read(&self.me, 0, fh, 0, 1 << 16).unwrap()).unwrap()
    }

    fn rename(&self, from: &str, to: &str, how: Renaming) -> Result<()> {
        self.plain.rename(&self.me, ROOT, OsStr::new(from), ROOT, OsStr::new(to), how)
    }
}

fn errno<T>(result: Result<T>) -> Errno {
    match result {
        Err(Error::Os(errno)) => errno,
        Err(other) => panic!("not an errno: {other:?}"),
        Ok(_) => panic!("no error"),
    }
}

#[test]
fn create_write_read_and_look_up() {
    let f = fixture();
    let (node, fh) = f.create(ROOT, "a");
    assert!(node >= FIRST_NODE && fh < HANDLE_LIMIT);
    f.write(fh, 0, "hello");
    f.write(fh, 5, " world");
    assert_eq!(f.read(fh), "hello world");
    assert_eq!(fs::read_to_string(f.real("a")).unwrap(), "hello world");
    let entry = f.look(ROOT, "a").unwrap();
    assert_eq!((entry.node, entry.attr.size, entry.attr.perm), (node, 11, 0o644));
    assert_eq!(entry.attr.ino, fs::metadata(f.real("a")).unwrap().ino());
    assert_eq!(entry.entry_ttl, Duration::ZERO);
    f.plain.release(node, fh).unwrap();
    assert!(matches!(f.plain.read(&f.me, node, fh, 0, 1), Err(Error::BadHandle)));

    let dir = f.mkdir(ROOT, "d");
    assert_eq!(f.look(ROOT, "d").unwrap().entry_ttl, TTL);
    let (below, _) = f.create(dir, "b");
    let entry = f.look(dir, "b").unwrap();
    assert_eq!((entry.node, entry.entry_ttl), (below, TTL));
    assert_eq!(errno(f.look(dir, "none")), Errno::NOENT);
}

#[test]
fn references_and_generations() {
    let f = fixture();
    fs::write(f.real("a"), "").unwrap();
    let first = f.look(ROOT, "a").unwrap();
    let second = f.look(ROOT, "a").unwrap();
    assert_eq!((first.node, first.generation), (second.node, second.generation));
    f.plain.forget(first.node, 1);
    assert!(f.plain.getattr(&f.me, first.node, None).is_ok());
    f.plain.forget(first.node, 1);
    assert_eq!(errno(f.plain.getattr(&f.me, first.node, None)), Errno::STALE);
    let third = f.look(ROOT, "a").unwrap();
    assert_ne!(third.generation, first.generation);
    // Taken away and made again: another node, though the number may be reused.
    fs::remove_file(f.real("a")).unwrap();
    fs::write(f.real("a"), "").unwrap();
    let fourth = f.look(ROOT, "a").unwrap();
    assert_ne!((fourth.node, fourth.generation), (third.node, third.generation));
    f.plain.forget(ROOT, 1_000_000);
    assert!(f.plain.getattr(&f.me, ROOT, None).is_ok());
}

#[test]
fn nothing_outside_can_be_reached() {
    let f = fixture();
    fs::write(f.dir.path().join("outside"), "secret").unwrap();
    symlink("../outside", f.real("up")).unwrap();
    symlink(f.dir.path(), f.real("abs")).unwrap();
    for name in ["..", ".", "../outside", "a/b", "/etc/passwd"] {
        assert_eq!(errno(f.look(ROOT, name)), Errno::INVAL, "{name}");
        let name = OsStr::new(name);
        assert_eq!(errno(f.plain.mkdir(&f.me, ROOT, name, 0o777, 0)), Errno::INVAL);
        assert_eq!(errno(f.plain.unlink(&f.me, ROOT, name)), Errno::INVAL);
        assert_eq!(errno(f.plain.create(&f.me, ROOT, name, 0o666, 0, 1)), Errno::INVAL);
        assert_eq!(errno(f.plain.real_file(ROOT, name, false)), Errno::INVAL);
        assert_eq!(errno(f.plain.attr_of(ROOT, name)), Errno::INVAL);
    }
    assert_eq!(errno(f.look(ROOT, "")), Errno::NOENT);
    // Symlinks are shown, and never followed.
    for (name, target) in [("up", "../outside".into()), ("abs", f.dir.path().to_owned())] {
        let link = f.look(ROOT, name).unwrap();
        assert_eq!(link.attr.kind, FileType::Symlink);
        assert_eq!(f.plain.readlink(&f.me, link.node).unwrap(), target.into_os_string());
        assert_eq!(errno(f.plain.open(&f.me, link.node, libc::O_RDONLY)), Errno::LOOP);
        assert_eq!(errno(f.plain.real_file(ROOT, OsStr::new(name), false)), Errno::LOOP);
        assert_eq!(errno(f.look(link.node, "outside")), Errno::NOTDIR);
        let made = f.plain.create(&f.me, ROOT, OsStr::new(name), 0o666, 0, libc::O_RDWR);
        assert_eq!(errno(made), Errno::LOOP);
    }
    assert_eq!(fs::read_to_string(f.dir.path().join("outside")).unwrap(), "secret");
    // The root's own parent is not told either.
    let dir = f.plain.opendir(&f.me, ROOT, 0).unwrap().fh;
    let list = f.plain.readdir(&f.me, ROOT, dir, 0).unwrap();
    let up = list.iter().find(|e| e.name == "..").unwrap();
    assert_eq!(up.ino, fs::metadata(f.real("")).unwrap().ino());
}

#[test]
fn setattr_of_everything() {
    let f = fixture();
    let (node, fh) = f.create(ROOT, "a");
    f.write(fh, 0, "0123456789");
    let set = |set: SetAttr| f.plain.setattr(&f.me, node, &set).unwrap().0;
    let none = SetAttr::default();
    assert_eq!(set(SetAttr { mode: Some(0o100_4711), ..none }).perm, 0o4711);
    assert_eq!(set(SetAttr { size: Some(4), ..none }).size, 4);
    assert_eq!(set(SetAttr { size: Some(2), fh: Some(fh), ..none }).size, 2);
    let time = Stamp(981_173_106_123_456_789);
    let mtime = Some(SetTime::To(time));
    let attr = set(SetAttr { mtime, atime: Some(SetTime::To(Stamp(-1_500_000_000))), ..none });
    assert_eq!((attr.mtime, attr.atime), (time, Stamp(-1_500_000_000)));
    let attr = set(SetAttr { atime: Some(SetTime::Now), ..none });
    assert_eq!(attr.mtime, time);
    assert!(attr.atime > time);
    // Through a reader's handle: a size is set by name.
    let reader = f.plain.open(&f.me, node, libc::O_RDONLY).unwrap().fh;
    assert_eq!(set(SetAttr { size: Some(7), fh: Some(reader), ..none }).size, 7);
    if f.me.uid == 0 {
        let attr = set(SetAttr { uid: Some(12), gid: Some(34), ..none });
        assert_eq!((attr.uid, attr.gid), (12, 34));
    }
    // A symlink has times and an owner, but no mode.
    let link = f.plain.symlink(&f.me, ROOT, OsStr::new("l"), OsStr::new("nowhere")).unwrap();
    let changed = f.plain.setattr(&f.me, link.node, &SetAttr { mtime, ..none }).unwrap().0;
    assert_eq!((changed.kind, changed.mtime), (FileType::Symlink, time));
}

#[test]
fn appends_ignore_the_offset_and_others_do_not() {
    let f = fixture();
    let (node, plain) = f.create(ROOT, "a");
    let log = f.plain.open(&f.me, node, libc::O_WRONLY | libc::O_APPEND).unwrap().fh;
    let append = |text: &str| {
        let flags = libc::O_WRONLY | libc::O_APPEND;
        f.plain.write(&f.me, node, log, 0, text.as_bytes(), flags).unwrap();
    };
    append("one ");
    fs::write(f.real("a"), "one and more ").unwrap();
    append("two");
    assert_eq!(f.read(plain), "one and more two");
    // A page that is written back through the appending handle goes where it belongs.
    f.plain.write(&f.me, node, log, 0, b"ONE", 0).unwrap();
    assert_eq!(f.read(plain), "ONE and more two");
}

#[test]
fn unlinked_but_open() {
    let f = fixture();
    let (node, fh) = f.create(ROOT, "a");
    f.write(fh, 0, "text");
    f.plain.unlink(&f.me, ROOT, OsStr::new("a")).unwrap();
    assert!(!f.real("a").exists());
    assert_eq!(f.read(fh), "text");
    let attr = f.plain.getattr(&f.me, node, None).unwrap().0;
    assert_eq!((attr.nlink, attr.size), (0, 4));
    let again = f.plain.open(&f.me, node, libc::O_RDWR).unwrap().fh;
    assert_eq!(f.read(again), "text");
    let (other, _) = f.create(ROOT, "a");
    assert_ne!(other, node);
}

#[test]
fn directories_come_and_go() {
    let f = fixture();
    let d = f.mkdir(ROOT, "d");
    f.create(d, "x");
    let rmdir = |name: &str| f.plain.rmdir(&f.me, ROOT, OsStr::new(name));
    assert_eq!(errno(rmdir("d")), Errno::NOTEMPTY);
    assert_eq!(errno(f.plain.unlink(&f.me, ROOT, OsStr::new("d"))), Errno::ISDIR);
    f.plain.unlink(&f.me, d, OsStr::new("x")).unwrap();
    rmdir("d").unwrap();
    assert_eq!(errno(f.look(ROOT, "d")), Errno::NOENT);
    assert_eq!(f.plain.getattr(&f.me, d, None).unwrap().0.kind, FileType::Directory);
}

#[test]
fn special_files_are_made_but_not_opened() {
    let f = fixture();
    let name = OsStr::new("p");
    let fifo = f.plain.mknod(&f.me, ROOT, name, libc::S_IFIFO | 0o666, 0o077, 0).unwrap();
    assert_eq!((fifo.attr.kind, fifo.attr.perm), (FileType::Fifo, 0o600));
    assert_eq!(errno(f.plain.open(&f.me, fifo.node, libc::O_RDONLY)), Errno::NXIO);
    assert!(matches!(f.plain.real_file(ROOT, name, false), Err(Error::Invalid)));
    let made = f.plain.create(&f.me, ROOT, name, 0o666, 0, libc::O_RDWR);
    assert!(matches!(made, Err(Error::Exists)));
}

#[test]
fn renames() {
    let f = fixture();
    let (a, fa) = f.create(ROOT, "a");
    let (b, fb) = f.create(ROOT, "b");
    f.write(fa, 0, "A");
    f.write(fb, 0, "B");
    assert_eq!(errno(f.rename("a", "b", Renaming::NoReplace)), Errno::EXIST);
    f.rename("a", "b", Renaming::Exchange).unwrap();
    assert_eq!(f.look(ROOT, "a").unwrap().node, b);
    f.rename("a", "b", Renaming::Replace).unwrap();
    assert_eq!(f.look(ROOT, "b").unwrap().node, b);
    assert_eq!(errno(f.look(ROOT, "a")), Errno::NOENT);
    // What was replaced lives on in its handle and its node.
    assert_eq!(f.read(fa), "A");
    assert_eq!(f.plain.getattr(&f.me, a, None).unwrap().0.nlink, 0);
    f.rename("b", "c", Renaming::NoReplace).unwrap();
    assert_eq!(errno(f.rename("b", "c", Renaming::Replace)), Errno::NOENT);
    assert_eq!(errno(f.rename("c", "..", Renaming::Replace)), Errno::INVAL);
    assert_eq!(errno(f.rename("c", "d", Renaming::Other(0xff00))), Errno::INVAL);
}

#[test]
fn hard_links_are_one_node() {
    let f = fixture();
    let (node, fh) = f.create(ROOT, "a");
    f.write(fh, 0, "x");
    let d = f.mkdir(ROOT, "d");
    let link = f.plain.link(&f.me, node, d, OsStr::new("b")).unwrap();
    assert_eq!((link.node, link.attr.nlink), (node, 2));
    assert_eq!(errno(f.plain.link(&f.me, node, d, OsStr::new("b"))), Errno::EXIST);
    let symbolic = f.plain.symlink(&f.me, ROOT, OsStr::new("s"), OsStr::new("a")).unwrap();
    let link = f.plain.link(&f.me, symbolic.node, d, OsStr::new("s")).unwrap();
    assert_eq!((link.node, link.attr.kind), (symbolic.node, FileType::Symlink));
}

#[test]
fn a_hundred_thousand_entries() {
    let f = fixture();
    let d = f.mkdir(ROOT, "d");
    let count = 100_000;
    // Hard links are quicker to make than files; ext4 allows 65,000 of each.
    fs::write(f.real("a"), "").unwrap();
    fs::write(f.real("b"), "").unwrap();
    for i in 0..count {
        let from = if i % 2 == 0 { "a" } else { "b" };
        fs::hard_link(f.real(from), f.real(&format!("d/{i}"))).unwrap();
    }
    let fh = f.plain.opendir(&f.me, d, 0).unwrap().fh;
    let mut seen = HashSet::new();
    let (mut at, mut cookies) = (0, Vec::new());
    loop {
        let some = f.plain.readdir(&f.me, d, fh, at).unwrap();
        let Some(last) = some.last() else { break };
        at = last.next;
        cookies.extend(some.iter().map(|e| e.next));
        seen.extend(some.into_iter().map(|e| e.name));
        // Removed and added while it is being read.
        if seen.len() > 5000 {
            let _ = fs::remove_file(f.real("d/99999"));
            fs::write(f.real("d/new"), "").unwrap();
        }
    }
    assert_eq!(seen.len(), count + 2);
    assert!(cookies.is_sorted_by(|a, b| a < b));
    // A cookie leads to the same place again; from the start the directory is read anew.
    let third = f.plain.readdir(&f.me, d, fh, cookies[2]).unwrap();
    assert_eq!(third[0].next, cookies[3]);
    let mut names = HashSet::new();
    at = 0;
    while let Some(last) = {
        let some = f.plain.readdir(&f.me, d, fh, at).unwrap();
        names.extend(some.iter().map(|e| e.name.clone()));
        some.last().map(|e| e.next)
    } {
        at = last;
    }
    assert!(names.contains(OsStr::new("new")) && !names.contains(OsStr::new("99999")));
    f.plain.releasedir(d, fh);
    assert!(matches!(f.plain.readdir(&f.me, d, fh, 0), Err(Error::BadHandle)));
}

#[test]
fn extended_attributes() {
    let f = fixture();
    let (node, _) = f.create(ROOT, "a");
    let name = OsStr::new("user.x");
    let big = vec![b'v'; 2000];
    let set = |value: &[u8], flags| f.plain.setxattr(&f.me, node, name, value, flags);
    assert_eq!(errno(f.plain.getxattr(&f.me, node, name)), Errno::NODATA);
    assert_eq!(errno(set(b"", XattrFlags::Replace)), Errno::NODATA);
    set(&big, XattrFlags::Create).unwrap();
    assert_eq!(errno(set(b"", XattrFlags::Create)), Errno::EXIST);
    assert_eq!(f.plain.getxattr(&f.me, node, name).unwrap(), big);
    set(b"", XattrFlags::Any).unwrap();
    assert_eq!(f.plain.getxattr(&f.me, node, name).unwrap(), b"");
    assert_eq!(f.plain.listxattr(&f.me, node).unwrap(), b"user.x\0");
    f.plain.removexattr(&f.me, node, name).unwrap();
    assert_eq!(f.plain.listxattr(&f.me, node).unwrap(), b"");
    let capability = OsStr::new("security.capability");
    assert_eq!(errno(f.plain.getxattr(&f.me, node, capability)), Errno::NODATA);
}

#[test]
fn holes_allocation_and_copies() {
    let f = fixture();
    let (node, fh) = f.create(ROOT, "a");
    f.write(fh, 1 << 20, "end");
    let seek = |at, whence| f.plain.lseek(&f.me, node, fh, at, whence).unwrap();
    assert_eq!(seek(0, libc::SEEK_DATA), 1 << 20);
    assert_eq!(seek(0, libc::SEEK_HOLE), 0);
    assert!(f.plain.lseek(&f.me, node, fh, 1 << 30, libc::SEEK_DATA).is_err());
    f.plain.fallocate(&f.me, node, fh, 0, 4096, 0).unwrap();
    assert_eq!(seek(4096, libc::SEEK_DATA), 1 << 20);
    let (other, to) = f.create(ROOT, "b");
    let copied = f.plain.copy_file_range(&f.me, node, fh, 1 << 20, other, to, 2, u64::MAX);
    assert_eq!(copied.unwrap(), 3);
    assert_eq!(f.read(to), "\0\0end");
    f.plain.fsync(&f.me, node, fh, false).unwrap();
    f.plain.fsync(&f.me, node, fh, true).unwrap();
    f.plain.flush(&f.me, node, fh).unwrap();
    assert!(f.plain.statfs(&f.me, ROOT).unwrap().blocks > 0);
}

#[test]
fn pages_are_kept_only_while_the_content_is_the_same() {
    let f = fixture();
    fs::write(f.real("a"), "text").unwrap();
    std::thread::sleep(Duration::from_millis(80));
    let node = f.look(ROOT, "a").unwrap().node;
    let open = |flags| f.plain.open(&f.me, node, flags).unwrap();
    assert!(!open(libc::O_RDONLY).keep_cache);
    assert!(open(libc::O_RDONLY).keep_cache);
    fs::write(f.real("a"), "TEXT").unwrap();
    assert!(!open(libc::O_RDONLY).keep_cache);
    // Changed just now: another change could carry the same time.
    assert!(!open(libc::O_RDONLY).keep_cache);
    std::thread::sleep(Duration::from_millis(80));
    assert!(!open(libc::O_RDONLY).keep_cache);
    assert!(open(libc::O_RDONLY).keep_cache);
    assert!(!open(libc::O_RDWR | libc::O_TRUNC).keep_cache);
    assert_eq!(fs::read(f.real("a")).unwrap(), b"");
}

#[test]
fn a_small_budget_of_descriptors_is_enough() {
    let f = with_budget(64);
    let mut nodes = Vec::new();
    for d in 0..20 {
        let dir = f.mkdir(ROOT, &format!("d{d}"));
        for i in 0..50 {
            let name = format!("f{i}");
            let (node, fh) = f.create(dir, &name);
            f.write(fh, 0, &format!("{d} {i}"));
            f.plain.release(node, fh).unwrap();
            nodes.push((d, i, node));
        }
    }
    let usage = f.plain.usage();
    assert_eq!((usage.nodes, usage.handles), (20 + 1000, 0));
    assert!(usage.descriptors <= 64 + 2, "{usage:?}");
    // A directory that moved, by us; and names that went while the kernel holds the node.
    f.rename("d3", "moved", Renaming::Replace).unwrap();
    let d5 = f.look(ROOT, "d5").unwrap().node;
    f.plain.unlink(&f.me, d5, OsStr::new("f7")).unwrap();
    for (d, i, node) in nodes {
        let fh = f.plain.open(&f.me, node, libc::O_RDONLY).unwrap().fh;
        assert_eq!(f.read(fh), format!("{d} {i}"));
        f.plain.release(node, fh).unwrap();
    }
    assert!(f.plain.usage().descriptors <= 64 + 3);
    // One that was replaced behind our back is not taken for the old one.
    let d8 = f.look(ROOT, "d8").unwrap().node;
    let old = f.look(d8, "f1").unwrap().node;
    for d in 10..14 {
        let dir = f.look(ROOT, &format!("d{d}")).unwrap().node;
        for i in 0..50 {
            let node = f.look(dir, &format!("f{i}")).unwrap().node;
            f.plain.getattr(&f.me, node, None).unwrap();
        }
    }
    fs::rename(f.real("d8/f2"), f.real("d8/f1")).unwrap();
    assert_eq!(errno(f.plain.getattr(&f.me, old, None)), Errno::STALE);
    assert_ne!(f.look(d8, "f1").unwrap().node, old);
}

#[test]
fn what_the_documents_layer_uses() {
    let f = fixture();
    let name = OsStr::new("a");
    assert!(f.plain.node_of(ROOT, name).is_none());
    fs::write(f.real("a"), "text").unwrap();
    assert!(f.plain.node_of(ROOT, name).is_none());
    assert_eq!(f.plain.attr_of(ROOT, name).unwrap().size, 4);
    assert_eq!(f.plain.usage().nodes, 0);
    let file = f.plain.real_file(ROOT, name, true).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 4);

    let node = f.look(ROOT, "a").unwrap().node;
    assert_eq!(f.plain.node_of(ROOT, name), Some(node));
    let fh = f.plain.open(&f.me, node, libc::O_RDWR).unwrap().fh;
    let ino = fs::metadata(f.real("a")).unwrap().ino();
    assert_eq!(f.plain.handle_ino(fh), Some(ino));
    assert_eq!(f.plain.handles_of(ino), [fh]);
    assert_eq!(f.plain.handle_file(fh).unwrap().metadata().unwrap().ino(), ino);
    f.plain.remove(ROOT, name).unwrap();
    assert_eq!(f.read(fh), "text");
    f.plain.release(node, fh).unwrap();
    assert!(f.plain.handles_of(ino).is_empty() && f.plain.handle_file(fh).is_none());
    assert!(rustix::fs::fstat(f.plain.root_fd().unwrap()).is_ok());
}

#[test]
fn files_are_the_callers() {
    let f = fixture();
    if f.me.uid != 0 {
        return;
    }
    let other = Caller { tid: 0, uid: 4321, gid: 4322 };
    // Not even allowed to search it: the kernel has let the caller in by other means.
    fs::set_permissions(f.real(""), fs::Permissions::from_mode(0o700)).unwrap();
    let made = f.plain.create(&other, ROOT, OsStr::new("a"), 0o666, 0o002, libc::O_RDWR).unwrap();
    let attr = made.entry.attr;
    assert_eq!((attr.uid, attr.gid, attr.perm), (4321, 4322, 0o664));
    let dir = f.plain.mkdir(&other, ROOT, OsStr::new("d"), 0o2777, 0).unwrap();
    assert_eq!((dir.attr.uid, dir.attr.gid), (4321, 4322));
    // The thread is itself again.
    let (mine, _) = f.create(ROOT, "mine");
    let attr = f.plain.getattr(&f.me, mine, None).unwrap().0;
    assert_eq!((attr.uid, attr.gid, attr.perm), (0, f.me.gid, 0o644));
    // In a setgid directory the group is the directory's.
    let shared = f.mkdir(ROOT, "shared");
    let none = SetAttr::default();
    let set = SetAttr { gid: Some(99), mode: Some(0o2777), ..none };
    f.plain.setattr(&f.me, shared, &set).unwrap();
    let sub = f.plain.mkdir(&other, shared, OsStr::new("s"), 0o755, 0).unwrap();
    assert_eq!((sub.attr.uid, sub.attr.gid, sub.attr.perm), (4321, 99, 0o2755));
    // A write by others takes setuid away, one by root does not.
    let (node, fh) = f.create(ROOT, "suid");
    f.plain.setattr(&f.me, node, &SetAttr { mode: Some(0o4755), ..none }).unwrap();
    f.write(fh, 0, "x");
    assert_eq!(f.plain.getattr(&f.me, node, None).unwrap().0.perm, 0o4755);
    f.plain.write(&other, node, fh, 0, b"y", libc::O_RDWR).unwrap();
    assert_eq!(f.plain.getattr(&f.me, node, None).unwrap().0.perm, 0o755);
}
