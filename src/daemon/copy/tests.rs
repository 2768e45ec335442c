use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::*;

fn all(_: &Path, _: &Metadata) -> Choice {
    Choice::Take
}

#[test]
fn keeps_what_a_file_system_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir_all(from.join("sub/deep")).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("a"), "hello").unwrap();
    fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::hard_link(from.join("a"), from.join("sub/b")).unwrap();
    symlink("../nowhere", from.join("sub/link")).unwrap();
    let sparse = File::create(from.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 64 << 20).unwrap();
    drop(sparse);
    let fifo = from.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let has_xattrs =
        rustix::fs::lsetxattr(from.join("a"), "user.colour", b"blue", XattrFlags::empty()).is_ok();
    let old = Timestamps {
        last_access: Timespec { tv_sec: 5, tv_nsec: 7 },
        last_modification: Timespec { tv_sec: 1_000_000_000, tv_nsec: 123_456_789 },
    };
    for name in ["a", "sub/link", "sub"] {
        rustix::fs::utimensat(CWD, from.join(name), &old, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
    fs::set_permissions(from.join("sub"), fs::Permissions::from_mode(0o2750)).unwrap();

    let done = tree(&from, &to, &all).unwrap();
    assert_eq!((done.files, done.directories, done.symlinks), (2, 2, 1), "{done:?}");
    assert_eq!(done.warnings, Vec::<String>::new());
    for name in ["a", "sub", "sub/b", "sub/link", "sub/deep", "sparse", "fifo"] {
        let (x, y) = (
            from.join(name).symlink_metadata().unwrap(),
            to.join(name).symlink_metadata().unwrap(),
        );
        assert_eq!(x.mode(), y.mode(), "{name}");
        assert_eq!((x.mtime(), x.mtime_nsec()), (y.mtime(), y.mtime_nsec()), "{name}");
        assert_eq!(x.nlink(), y.nlink(), "{name}");
    }
    assert_eq!(fs::read(to.join("a")).unwrap(), b"hello");
    let (a, b) = (to.join("a").metadata().unwrap(), to.join("sub/b").metadata().unwrap());
    assert_eq!(a.ino(), b.ino());
    assert_eq!(fs::read_link(to.join("sub/link")).unwrap(), Path::new("../nowhere"));
    let sparse = to.join("sparse").metadata().unwrap();
    assert_eq!(sparse.len(), (64 << 20) + 3);
    assert!(sparse.blocks() < 1000, "{} blocks", sparse.blocks());
    if has_xattrs {
        let mut value = [0u8; 10];
        let n = rustix::fs::lgetxattr(to.join("a"), "user.colour", &mut value[..]).unwrap();
        assert_eq!(&value[..n], b"blue");
    }
}

#[test]
fn can_be_repeated_and_leaves_out_what_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir_all(from.join("sub")).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("sub/a"), "whole").unwrap();
    fs::write(from.join("no"), "x").unwrap();
    fs::create_dir(to.join("sub")).unwrap();
    fs::write(to.join("sub/a"), "who").unwrap();
    for _ in 0..2 {
        let choose = |path: &Path, _: &Metadata| {
            if path == Path::new("no") { Choice::Leave } else { Choice::Take }
        };
        let done = tree(&from, &to, &choose).unwrap();
        assert_eq!((done.files, done.bytes), (1, 5));
        assert_eq!(fs::read(to.join("sub/a")).unwrap(), b"whole");
        assert!(!to.join("no").exists());
    }
}

#[test]
fn refuses_a_copy_into_itself() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("inner");
    fs::create_dir(&inner).unwrap();
    assert!(matches!(tree(dir.path(), &inner, &all), Err(DaemonError::InTheWay { .. })));
    assert!(matches!(tree(&inner, dir.path(), &all), Err(DaemonError::InTheWay { .. })));
}

#[test]
fn knows_a_database_and_its_companions() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("x.db");
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch("create table t(a)").unwrap();
    fs::write(dir.path().join("y.db"), "SQLite").unwrap();
    assert!(is_database(&db));
    assert!(!is_database(&dir.path().join("y.db")));
    assert_eq!(companion_of(&dir.path().join("x.db-wal")), Some(db));
    assert_eq!(companion_of(&dir.path().join("x.db")), None);
}
