//! What the history keeps of files, and of those that are gone.

use super::*;
use crate::model::{Clock, Stamp};
use crate::store::Retention;

const DAY: i64 = 24 * 3_600 * 1_000_000_000;

fn remove(files: &ManagedFiles, path: &str) {
    let seen = files.current(id(path)).unwrap();
    files.save(request(path, Some(&seen), Written::Removed)).unwrap();
}

#[test]
fn long_histories_are_cut_and_stay_readable() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let kept = Retention { max_count: 50, ..Retention::default() };
    files.store().set_retention(&kept).unwrap();
    for n in 0..300 {
        append(&files, "a.md", &format!("line {n}\n"));
        if n % 40 == 0 {
            files.maintain().unwrap();
        }
    }
    files.maintain().unwrap();
    let doc = DocId::File(id("a.md"));
    let count = files.store().revision_count(doc).unwrap();
    assert!((50..=130).contains(&count), "{count}");
    let all = story(&files, "a.md");
    assert!(all.last().unwrap().1.as_ref().unwrap().ends_with("line 299\n"));
    assert!(all[0].1.as_ref().unwrap().starts_with("line 0\n"));
    assert!(files.at(id("a.md"), Rev(0)).unwrap().is_none(), "the beginning is gone");
    append(&files, "a.md", "more\n");
    let blamed = files.blame(id("a.md"), 10_000).unwrap();
    assert!(blamed[0].older && !blamed[300].older);
}

#[test]
fn files_that_are_gone_are_forgotten_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    for path in ["gone.md", "stays.md", "back.md", "outside.md"] {
        (0..5).for_each(|n| drop(append(&files, path, &format!("{n}\n"))));
    }
    remove(&files, "gone.md");
    remove(&files, "back.md");
    append(&files, "back.md", "again\n");
    fs::remove_file(dir.path().join("outside.md")).unwrap();
    files.maintain().unwrap();
    files.tick();
    let now = SystemClock.now();
    assert_eq!(files.store().forget_gone(Stamp(now.0 + 29 * DAY)).unwrap(), []);
    let mut gone = files.store().forget_gone(Stamp(now.0 + 31 * DAY)).unwrap();
    gone.sort_by_key(|file| file.path());
    assert_eq!(gone, [id("gone.md"), id("outside.md")]);
    assert_eq!(files.on_record().unwrap(), [id("back.md"), id("stays.md")]);
    assert_eq!((story(&files, "gone.md"), story(&files, "back.md").len()), (vec![], 7));
    // It can come back, with a history that begins anew.
    assert_eq!(read(&files, "gone.md"), None);
    append(&files, "gone.md", "new\n");
    assert_eq!(story(&files, "gone.md"), [some(Via::Mount, "new\n")]);
}

#[test]
fn many_short_lived_files_do_not_fill_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let kept = Retention { max_bytes: 20_000, ..Retention::default() };
    files.store().set_retention(&kept).unwrap();
    let text = "0123456789\n".repeat(200);
    for n in 0..40 {
        whole(&files, &format!("{n}.md"), None, &text);
        remove(&files, &format!("{n}.md"));
    }
    files.maintain().unwrap();
    let left = files.on_record().unwrap();
    assert!((4..12).contains(&left.len()), "{left:?}");
    assert!(left.contains(&id("39.md")), "the last ones stay");
}
