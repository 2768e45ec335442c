//! Changes made behind the mount (R9), and what is in the way of a save.

use std::os::unix::fs::symlink;

use parking_lot::Mutex as Guarded;
use rusqlite::Connection;

use super::*;
use crate::model::Stamp;

/// Puts a text in place of another, as programs do.
fn outside(dir: &Path, path: &str, text: &str) {
    let temporary = dir.join("temporary");
    fs::write(&temporary, text).unwrap();
    fs::rename(temporary, dir.join(path)).unwrap();
}

#[test]
fn the_next_look_has_what_was_written_behind_the_mount() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    fs::write(dir.path().join("a.md"), "one\n").unwrap();
    let found = files.current(id("a.md")).unwrap();
    fs::write(dir.path().join("a.md"), "two\n").unwrap();
    let two = files.current(id("a.md")).unwrap();
    assert_eq!(text_of(&two).as_deref(), Some("two\n"), "same size, same moment");
    assert!(two.rev > found.rev && two.mtime > found.mtime);
    assert_eq!(story(&files, "a.md"), [], "a look writes nothing");
    assert!(files.settle().unwrap());
    assert_eq!(story(&files, "a.md"), [some(Via::Import, "one\n"), some(Via::Store, "two\n")]);
    let now = files.current(id("a.md")).unwrap();
    assert_eq!(now.rev, two.rev, "it is the number that it was shown with");
    assert_eq!(files.at(id("a.md"), two.rev).unwrap().unwrap().mtime, two.mtime);
}

#[test]
fn a_save_merges_with_what_was_written_behind_the_mount() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let seen = whole(&files, "a.md", None, "one\n").version;
    fs::write(dir.path().join("a.md"), "one\ntheirs\n").unwrap();
    whole(&files, "a.md", Some(&seen), "one\nmine\n");
    let merged = "one\ntheirs\nmine\n";
    assert_eq!(fs::read_to_string(dir.path().join("a.md")).unwrap(), merged);
    assert_eq!(
        story(&files, "a.md"),
        [some(Via::Mount, "one\n"), some(Via::Store, "one\ntheirs\n"), some(Via::Mount, merged)]
    );
}

#[test]
fn a_removal_behind_the_mount_is_a_version() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    whole(&files, "a.md", None, "one\n");
    fs::remove_file(dir.path().join("a.md")).unwrap();
    assert_eq!(read(&files, "a.md"), None);
    files.settle().unwrap();
    assert_eq!(story(&files, "a.md"), [some(Via::Mount, "one\n"), (Via::Store, None)]);
    fs::write(dir.path().join("a.md"), "back\n").unwrap();
    assert_eq!(read(&files, "a.md").as_deref(), Some("back\n"));
    append(&files, "a.md", "more\n");
    assert_eq!(story(&files, "a.md").len(), 4);
}

#[test]
fn touching_a_file_makes_no_version() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let one = whole(&files, "a.md", None, "one\n").version;
    outside(dir.path(), "a.md", "one\n");
    assert!(Arc::ptr_eq(&files.current(id("a.md")).unwrap(), &one));
    let files = open(dir.path());
    let now = files.current(id("a.md")).unwrap();
    assert_eq!((now.rev, now.mtime), (one.rev, one.mtime), "also after a restart");
    assert!(files.settle().unwrap());
    assert_eq!(story(&files, "a.md").len(), 1);
}

#[test]
fn what_was_changed_while_nobody_looked_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let one = whole(&new_store(dir.path()), "a.md", None, "one\n").version;
    outside(dir.path(), "a.md", "two\n");
    let files = open(dir.path());
    let two = files.current(id("a.md")).unwrap();
    assert!(two.rev > one.rev && two.mtime > one.mtime);
    files.tick();
    assert_eq!(story(&files, "a.md"), [some(Via::Mount, "one\n"), some(Via::Store, "two\n")]);
}

#[test]
fn old_times_of_files_do_not_turn_back_those_of_versions() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let one = whole(&files, "a.md", None, "one\n").version;
    let path = dir.path().join("a.md");
    fs::write(&path, "two\n").unwrap();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1))
        .unwrap();
    let two = files.current(id("a.md")).unwrap();
    assert_eq!(two.mtime, Stamp(one.mtime.0 + 1));
    let three = append(&files, "a.md", "three\n").version;
    assert!(three.mtime > two.mtime);
}

#[test]
fn a_locked_database_keeps_nobody_from_reading() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    whole(&files, "a.md", None, "one\n");
    let other = Connection::open(dir.path().join(DB_NAME)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    outside(dir.path(), "a.md", "two\n");
    let two = files.current(id("a.md")).unwrap();
    assert_eq!(text_of(&two).as_deref(), Some("two\n"));
    files.tick();
    assert_eq!(story(&files, "a.md").len(), 1, "nothing can be recorded now");
    let failed = files.save(request("a.md", None, Written::Fragment(b"x\n")));
    assert!(matches!(failed, Err(SaveError::Store(StoreError::Busy))), "{failed:?}");
    assert_eq!(fs::read_to_string(dir.path().join("a.md")).unwrap(), "two\n");
    other.execute_batch("COMMIT").unwrap();
    files.tick();
    assert_eq!(story(&files, "a.md").len(), 2);
}

#[test]
fn listeners_are_told_of_both_sorts_of_changes() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    fs::write(dir.path().join("a.md"), "one\n").unwrap();
    let held = files.current(id("a.md")).unwrap();
    let told = Arc::new(Guarded::new(Vec::new()));
    let telling = Arc::clone(&told);
    files.set_listener(Arc::new(move |p: &Published| {
        telling.lock().push((p.doc, text_of(&p.version), p.actor.via));
    }));
    outside(dir.path(), "a.md", "two\n");
    eventually(|| {
        files.tick();
        !told.lock().is_empty()
    });
    append(&files, "a.md", "three\n");
    let doc = DocId::File(id("a.md"));
    assert_eq!(
        *told.lock(),
        [(doc, Some("two\n".into()), Via::Store), (doc, Some("two\nthree\n".into()), Via::Mount)]
    );
    drop(held);
}

#[test]
fn another_process_with_a_history_of_its_own_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let one = whole(&files, "a.md", None, "one\n").version;
    let other = open(dir.path());
    let theirs = whole(&other, "a.md", Some(&one), "two\n").version;
    let now = files.current(id("a.md")).unwrap();
    assert_eq!((now.rev, now.mtime), (theirs.rev, theirs.mtime));
    let three = append(&files, "a.md", "three\n").version;
    assert_eq!(other.current(id("a.md")).unwrap().rev, three.rev);
    // Both have seen a change by a third.
    outside(dir.path(), "a.md", "four\n");
    let (a, b) = (files.current(id("a.md")).unwrap(), other.current(id("a.md")).unwrap());
    assert_eq!(a.rev, b.rev);
    files.settle().unwrap();
    other.settle().unwrap();
    assert_eq!(story(&files, "a.md").len(), 4, "it is recorded once");
    assert_eq!(other.current(id("a.md")).unwrap().rev, a.rev);
}

#[test]
fn what_is_no_file_is_in_the_way_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    fs::create_dir(dir.path().join("dir.md")).unwrap();
    fs::write(dir.path().join("target"), "secret\n").unwrap();
    symlink("target", dir.path().join("link.md")).unwrap();
    symlink(".", dir.path().join("loop")).unwrap();
    fs::write(dir.path().join("real.md"), "real\n").unwrap();
    for path in ["dir.md", "link.md", "missing/a.md", "loop/real.md"] {
        assert_eq!(read(&files, path), None, "{path}");
        let failed = files.save(request(path, None, Written::Whole(b"x\n")));
        let Err(SaveError::Store(StoreError::Io { path: at, .. })) = failed else {
            panic!("{path}: {failed:?}")
        };
        assert!(at.ends_with(path));
        assert_eq!(story(&files, path), []);
    }
    assert_eq!(fs::read_to_string(dir.path().join("target")).unwrap(), "secret\n");
    // A file that becomes one is gone, and comes back with the next save after that.
    whole(&files, "a.md", None, "one\n");
    fs::remove_file(dir.path().join("a.md")).unwrap();
    symlink("target", dir.path().join("a.md")).unwrap();
    assert_eq!(read(&files, "a.md"), None);
    assert!(files.save(request("a.md", None, Written::Whole(b"x\n"))).is_err());
    fs::remove_file(dir.path().join("a.md")).unwrap();
    whole(&files, "a.md", None, "two\n");
    assert_eq!(read(&files, "a.md").as_deref(), Some("two\n"));
}

#[test]
fn a_read_only_store_shows_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let one = whole(&new_store(dir.path()), "a.md", None, "one\n").version;
    let files = open_with(dir.path(), Options { read_only: true, ..options() });
    assert_eq!(files.current(id("a.md")).unwrap().rev, one.rev);
    outside(dir.path(), "a.md", "two\n");
    assert_eq!(read(&files, "a.md").as_deref(), Some("two\n"));
    assert!(files.settle().unwrap());
    files.tick();
    assert!(files.save(request("a.md", None, Written::Fragment(b"x\n"))).is_err());
    assert_eq!(fs::read_to_string(dir.path().join("a.md")).unwrap(), "two\n");
    assert_eq!(story(&files, "a.md").len(), 1);
}

#[test]
fn contents_that_nobody_uses_are_let_go_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let count = 400;
    let path = |n: usize| format!("{n}.md");
    (0..count).for_each(|n| fs::write(dir.path().join(path(n)), format!("{n}\n")).unwrap());
    let changed = append(&files, "7.md", "more\n").version;
    // From now on their times tell whether they were changed.
    std::thread::sleep(Duration::from_millis(30));
    let held: Vec<_> = (0..10).map(|n| files.current(id(&path(n))).unwrap()).collect();
    (0..count).for_each(|n| drop(files.current(id(&path(n))).unwrap()));
    assert_eq!(files.counts().in_memory, count);
    (0..10).for_each(|_| files.tick());
    let counts = files.counts();
    assert_eq!((counts.known, counts.in_memory), (count, 256));
    for (n, held) in held.iter().enumerate() {
        assert!(Arc::ptr_eq(held, &files.cached(id(&path(n)))), "those in use stay");
    }
    assert_eq!(files.current(id("7.md")).unwrap().rev, changed.rev);
    for n in 10..count {
        let version = files.current(id(&path(n))).unwrap();
        assert_eq!((version.rev, text_of(&version)), (Rev(0), Some(format!("{n}\n"))));
    }
}

/// A time before any file was written: each is newer than it was when it was read.
struct Early;

impl Clock for Early {
    fn now(&self) -> Stamp {
        Stamp(0)
    }
}

#[test]
fn a_content_that_its_times_do_not_tell_from_the_next_is_not_let_go() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let disk = Arc::new(StoreDisk::open(dir.path()).unwrap());
    let files = open_at(dir.path(), options(), disk, Arc::new(Early));
    let count = 300;
    let path = |n: usize| format!("{n}.md");
    (0..count).for_each(|n| fs::write(dir.path().join(path(n)), format!("{n}\n")).unwrap());
    (0..count).for_each(|n| drop(files.current(id(&path(n))).unwrap()));
    (0..10).for_each(|_| files.tick());
    assert_eq!(files.counts().in_memory, count);
    for n in 0..count {
        assert_eq!(files.current(id(&path(n))).unwrap().rev, Rev(0), "{n}: nobody has changed it");
    }
}
