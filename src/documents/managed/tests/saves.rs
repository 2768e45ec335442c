//! Saves, versions and their history.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;
use crate::model::Reason;

#[test]
fn reading_writes_nothing_and_the_first_save_keeps_what_was_found() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    fs::write(dir.path().join("a.md"), "one\n").unwrap();
    let before = files.current(id("a.md")).unwrap();
    assert_eq!((before.rev, text_of(&before).as_deref()), (Rev(0), Some("one\n")));
    let mtime = fs::metadata(dir.path().join("a.md")).unwrap();
    let mtime = crate::model::Stamp::from_parts(mtime.mtime(), mtime.mtime_nsec() as u32);
    assert_eq!(before.mtime, mtime, "it has the time of the file");
    assert_eq!(files.store().files_on_record().unwrap(), []);

    let saved = append(&files, "a.md", "two\n");
    assert!(saved.changed && saved.version.mtime > before.mtime);
    assert_eq!(fs::read_to_string(dir.path().join("a.md")).unwrap(), "one\ntwo\n");
    let meta = fs::metadata(dir.path().join("a.md")).unwrap();
    let mtime = crate::model::Stamp::from_parts(meta.mtime(), meta.mtime_nsec() as u32);
    assert_eq!(saved.version.mtime, mtime);
    assert_eq!(story(&files, "a.md"), [some(Via::Import, "one\n"), some(Via::Mount, "one\ntwo\n")]);
    let again = files.current(id("a.md")).unwrap();
    assert!(Arc::ptr_eq(&again, &saved.version));
    // Revision 0 is what was there before.
    let files = open(dir.path());
    let first = files.at(id("a.md"), Rev(0)).unwrap().unwrap();
    assert_eq!(text_of(&first).as_deref(), Some("one\n"));
    let now = files.current(id("a.md")).unwrap();
    assert_eq!((now.rev, now.mtime), (saved.version.rev, saved.version.mtime));
    assert_eq!(files.on_record().unwrap(), [id("a.md")]);
}

#[test]
fn a_save_makes_the_file_and_a_removal_takes_it_away() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    assert_eq!(read(&files, "new.md"), None);
    let made = whole(&files, "new.md", None, "text\n");
    let path = dir.path().join("new.md");
    assert_eq!(fs::read_to_string(&path).unwrap(), "text\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
    let gone = files.save(request("new.md", Some(&made.version), Written::Removed)).unwrap();
    assert!(!path.exists() && gone.changed);
    assert_eq!(text_of(&gone.version), None);
    let same = files.save(request("new.md", Some(&made.version), Written::Removed)).unwrap();
    assert!(!same.changed);
    whole(&files, "new.md", None, "again\n");
    let texts: Vec<_> = story(&files, "new.md").into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, [Some("text\n".into()), None, Some("again\n".into())]);
    assert_eq!(names(dir.path()), [".instancefs-swap", "new.md"]);
    let nothing = files.at(id("new.md"), Rev(0)).unwrap().unwrap();
    assert_eq!(text_of(&nothing), None);
    drop(files);
    assert_eq!(names(dir.path()), ["new.md"], "nothing of ours is left at the end");
}

#[test]
fn a_save_equal_to_the_file_makes_no_revision() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    fs::write(dir.path().join("a.md"), "one\n").unwrap();
    let before = files.current(id("a.md")).unwrap();
    let ino = fs::metadata(dir.path().join("a.md")).unwrap().ino();
    let saved = whole(&files, "a.md", Some(&before), "one\n");
    assert!(!saved.changed && Arc::ptr_eq(&saved.version, &before));
    assert_eq!(fs::metadata(dir.path().join("a.md")).unwrap().ino(), ino);
    assert_eq!(story(&files, "a.md"), []);
}

#[test]
fn a_refused_save_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    whole(&files, "a.json", None, "{\"a\": 1}\n");
    let refused = files.save(request("a.json", None, Written::Whole(b"{\"a\": 1")));
    let Err(SaveError::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.reason, Reason::Invalid);
    assert_eq!(read(&files, "a.json").as_deref(), Some("{\"a\": 1}\n"));
    assert_eq!(story(&files, "a.json").len(), 1);
    let mut guarded = request("a.json", None, Written::Whole(b"{\"a\": 2}\n"));
    guarded.expect_sha256 = Some([7; 32]);
    let Err(SaveError::Refused(refusal)) = files.save(guarded) else { panic!() };
    assert_eq!(refusal.reason, Reason::Expectation);
    let mut guarded = request("a.json", None, Written::Whole(b"{\"a\": 2}\n"));
    guarded.expect_sha256 = Some(<sha2::Sha256 as sha2::Digest>::digest(b"{\"a\": 1}\n").into());
    assert!(files.save(guarded).unwrap().changed);
    let checked = files.check(id("a.json"), b"{\"a\": 1");
    assert!(matches!(checked, Err(SaveError::Refused(_))));
    assert!(files.check(id("a.json"), b"{\"a\": 3}\n").unwrap().changed);
    assert_eq!(read(&files, "a.json").as_deref(), Some("{\"a\": 2}\n"));
}

#[test]
fn two_writers_who_saw_the_same_version_both_keep_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    fs::create_dir(dir.path().join("journal")).unwrap();
    let base = append(&files, "journal/a.md", "one\n").version;
    whole(&files, "journal/a.md", Some(&base), "one\nmine\n");
    let other = whole(&files, "journal/a.md", Some(&base), "one\nyours\n");
    assert_eq!(read(&files, "journal/a.md").as_deref(), Some("one\nmine\nyours\n"));
    assert_eq!(text_of(&other.believed).as_deref(), Some("one\nyours\n"));
    assert!(other.believed.belief && other.believed.rev == other.version.rev);
    assert_eq!(names(&dir.path().join("journal")), ["a.md"]);
}

#[test]
fn restoring_is_one_more_revision() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let one = whole(&files, "a.md", None, "one\n").version;
    let two = whole(&files, "a.md", Some(&one), "two\n").version;
    let back = files.restore(id("a.md"), &one, &actor()).unwrap();
    assert!(back.changed && back.version.rev > two.rev);
    assert_eq!(read(&files, "a.md").as_deref(), Some("one\n"));
    let newest = files.store().newest(DocId::File(id("a.md"))).unwrap().unwrap();
    assert!(newest.summary.starts_with(&format!("restored from {}: ", one.rev)));
    assert!(!files.restore(id("a.md"), &one, &actor()).unwrap().changed);
    let blamed = files.blame(id("a.md"), 100).unwrap();
    assert_eq!(blamed.len(), 1);
    assert_eq!((blamed[0].rev, &blamed[0].text[..]), (back.version.rev, &b"one\n"[..]));
    let nothing = files.at(id("a.md"), Rev(0)).unwrap().unwrap();
    files.restore(id("a.md"), &nothing, &actor()).unwrap();
    assert!(!dir.path().join("a.md").exists());
}

#[test]
fn what_a_writer_believed_comes_back_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let one = whole(&files, "a.md", None, "one\n").version;
    append(&files, "a.md", "more\n");
    let files = open(dir.path());
    let believed = files.believe(id("a.md"), b"own\n", one.rev).unwrap();
    assert!(believed.belief && believed.rev == one.rev);
    assert_eq!(text_of(&believed).as_deref(), Some("own\n"));
    let at = files.at(id("a.md"), one.rev).unwrap().unwrap();
    assert_eq!((text_of(&at).as_deref(), at.mtime), (Some("one\n"), one.mtime));
    assert!(files.at(id("a.md"), Rev(99)).unwrap().is_none());
    assert!(files.at(id("b.md"), one.rev).unwrap().is_none(), "it is one of another file");
}

#[test]
fn mode_and_attributes_stay_when_a_file_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let path = dir.path().join("a.md");
    fs::write(&path, "one\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let tagged =
        rustix::fs::setxattr(&path, "user.tag", b"value", rustix::fs::XattrFlags::empty()).is_ok();
    let before = fs::metadata(&path).unwrap();
    append(&files, "a.md", "two\n");
    let after = fs::metadata(&path).unwrap();
    assert_ne!(after.ino(), before.ino(), "it was replaced, not rewritten");
    assert_eq!(after.mode(), before.mode());
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    if tagged {
        let mut value = [0; 16];
        let len = rustix::fs::getxattr(&path, "user.tag", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"value");
    }
}

#[test]
fn large_files_are_added_to_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let path = dir.path().join("a.md");
    let mut text = "0123456789\n".repeat(7_000);
    fs::write(&path, &text).unwrap();
    let mut kept = 0;
    for n in 0..50 {
        let ino = fs::metadata(&path).unwrap().ino();
        let line = format!("line {n:20}\n").repeat(10);
        let saved = append(&files, "a.md", &line);
        text.push_str(&line);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let meta = fs::metadata(&path).unwrap();
        let mtime = crate::model::Stamp::from_parts(meta.mtime(), meta.mtime_nsec() as u32);
        assert_eq!(saved.version.mtime, mtime);
        kept += u32::from(meta.ino() == ino);
        assert!(Arc::ptr_eq(&files.current(id("a.md")).unwrap(), &saved.version));
    }
    assert!((30..50).contains(&kept), "most were added in place, {kept}");
    assert_eq!(story(&files, "a.md").len(), 51);
    assert_eq!(read(&open(dir.path()), "a.md"), Some(text));
}
