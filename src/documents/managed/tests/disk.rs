//! Replacing files, and what happens when it goes wrong half way.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::documents::Content;
use crate::documents::files::{Print, Swap};
use crate::model::Stamp;

/// A disk on which something happens at a certain moment.
struct Eventful<F> {
    disk: StoreDisk,
    before_replace: F,
}

impl<F: Fn() + Send + Sync> Disk for Eventful<F> {
    fn print(&self, file: FileId) -> Result<Option<Print>, StoreError> {
        self.disk.print(file)
    }
    fn read(&self, file: FileId) -> Result<Option<(Vec<u8>, Print)>, StoreError> {
        self.disk.read(file)
    }
    fn replace<'d>(
        &'d self,
        file: FileId,
        expected: Option<&Print>,
        text: Option<&Content>,
        mtime: Stamp,
    ) -> Result<Option<Box<dyn Swap + 'd>>, StoreError> {
        (self.before_replace)();
        self.disk.replace(file, expected, text, mtime)
    }
    fn is_dirty(&self) -> bool {
        self.disk.is_dirty()
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.disk.sync()
    }
}

fn disk(dir: &Path) -> StoreDisk {
    StoreDisk::open(dir).unwrap()
}

fn content(text: &str) -> Content {
    Content::from(text.as_bytes().to_vec())
}

#[test]
fn a_replacement_that_is_not_kept_is_undone() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path());
    let (file, path) = (id("a.md"), dir.path().join("a.md"));
    fs::write(&path, "old\n").unwrap();
    let print = disk.print(file).unwrap();
    let text = content("new\n");
    let swap = disk.replace(file, print.as_ref(), Some(&text), Stamp(1)).unwrap().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
    assert_eq!(swap.print().unwrap(), disk.print(file).unwrap().unwrap());
    drop(swap);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old\n");
    let print = disk.print(file).unwrap();
    drop(disk.replace(file, print.as_ref(), None, Stamp(1)).unwrap().unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "old\n");
    drop(disk.replace(id("b.md"), None, Some(&text), Stamp(1)).unwrap().unwrap());
    assert!(!dir.path().join("b.md").exists());
    let print = disk.print(file).unwrap();
    disk.replace(file, print.as_ref(), None, Stamp(1)).unwrap().unwrap().keep();
    assert!(!path.exists());
    assert_eq!(names(&dir.path().join(".instancefs-swap")).len(), 1, "the lock alone");
}

#[test]
fn a_file_that_is_not_the_expected_one_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path());
    let (file, path) = (id("a.md"), dir.path().join("a.md"));
    fs::write(&path, "old\n").unwrap();
    let print = disk.print(file).unwrap();
    fs::write(&path, "newer\n").unwrap();
    let text = content("new\n");
    assert!(disk.replace(file, print.as_ref(), Some(&text), Stamp(1)).unwrap().is_none());
    assert!(disk.replace(file, print.as_ref(), None, Stamp(1)).unwrap().is_none());
    assert!(disk.replace(file, None, Some(&text), Stamp(1)).unwrap().is_none());
    assert!(disk.replace(id("b.md"), print.as_ref(), Some(&text), Stamp(1)).unwrap().is_none());
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer\n");
}

#[test]
fn additions_that_are_not_kept_are_cut_off_unless_others_have_added() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path());
    let (file, path) = (id("a.md"), dir.path().join("a.md"));
    let old = "x".repeat(80_000);
    fs::write(&path, &old).unwrap();
    let print = disk.print(file).unwrap().unwrap();
    drop(disk.append(file, &print, b"new\n", Stamp(1)).unwrap().unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), old);
    let print = disk.print(file).unwrap().unwrap();
    let swap = disk.append(file, &print, b"new\n", Stamp(1)).unwrap().unwrap();
    fs::File::options().append(true).open(&path).unwrap().write_all(b"theirs\n").unwrap();
    drop(swap);
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{old}new\ntheirs\n"));
    let print = disk.print(file).unwrap().unwrap();
    assert!(disk.append(file, &print, &[b'y'; 4096], Stamp(1)).unwrap().is_none(), "two pages");
}

#[test]
fn a_save_that_cannot_be_recorded_leaves_the_file_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    let one = whole(&files, "a.md", None, "one\n").version;
    let limit = |pages: i64| {
        files.store().gate(|c| Ok(c.pragma_update(None, "max_page_count", pages)?)).unwrap();
    };
    limit(1);
    let text = (0..20_000).map(|n| format!("{n}\n")).collect::<String>();
    let failed = files.save(request("a.md", Some(&one), Written::Whole(text.as_bytes())));
    assert!(matches!(failed, Err(SaveError::Store(StoreError::Full))), "{failed:?}");
    assert_eq!(fs::read_to_string(dir.path().join("a.md")).unwrap(), "one\n");
    assert_eq!(files.current(id("a.md")).unwrap().rev, one.rev);
    let failed = files.save(request("b.md", None, Written::Whole(text.as_bytes())));
    assert!(failed.is_err() && !dir.path().join("b.md").exists());
    fs::write(dir.path().join("a.md"), &text).unwrap();
    assert_eq!(read(&files, "a.md").as_deref(), Some(&text[..]), "it is shown all the same");
    files.tick();
    limit(1_000_000);
    files.tick();
    assert_eq!(story(&files, "a.md"), [some(Via::Mount, "one\n"), some(Via::Store, &text)]);
}

#[test]
fn a_change_at_the_very_moment_of_a_save_is_merged() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let path = dir.path().join("a.md");
    let times = Arc::new(AtomicUsize::new(0));
    let (changed, count) = (path.clone(), Arc::clone(&times));
    let eventful = Eventful {
        disk: disk(dir.path()),
        before_replace: move || {
            let n = count.fetch_add(1, Ordering::Relaxed);
            if n > 0 && n < 4 {
                let mut file = fs::File::options().append(true).open(&changed).unwrap();
                writeln!(file, "outside {n}").unwrap();
            }
        },
    };
    let files = open_on(dir.path(), options(), Arc::new(eventful));
    let seen = whole(&files, "a.md", None, "one\n").version;
    whole(&files, "a.md", Some(&seen), "one\nmine\n");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, "one\noutside 1\noutside 2\noutside 3\nmine\n");
    assert_eq!(read(&files, "a.md"), Some(text));
    assert_eq!(times.load(Ordering::Relaxed), 5);
    assert_eq!(names(&dir.path().join(".instancefs-swap")).len(), 1);
}

#[test]
fn what_is_replaced_is_synced_once() {
    let dir = tempfile::tempdir().unwrap();
    let files = new_store(dir.path());
    assert!(!files.is_dirty());
    append(&files, "a.md", "one\n");
    fs::create_dir(dir.path().join("gone")).unwrap();
    append(&files, "gone/b.md", "one\n");
    fs::remove_dir_all(dir.path().join("gone")).unwrap();
    assert!(files.is_dirty());
    files.sync().unwrap();
    assert!(!files.is_dirty());
}

#[test]
fn only_what_belongs_to_nobody_is_tidied_up() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path());
    let (file, path) = (id("a.md"), dir.path().join("a.md"));
    fs::write(&path, "old\n").unwrap();
    let print = disk.print(file).unwrap();
    let text = content("new\n");
    let swap = disk.replace(file, print.as_ref(), Some(&text), Stamp(1)).unwrap().unwrap();
    let swaps = dir.path().join(".instancefs-swap");
    for name in ["dead", "dead-1", "dead-2", "without-3"] {
        fs::write(swaps.join(name), "x").unwrap();
    }
    StoreDisk::open(dir.path()).unwrap().clean().unwrap();
    assert_eq!(names(&swaps).len(), 2, "the lock and the old file of the one that lives");
    drop(swap);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old\n");
    drop(disk);
    StoreDisk::open(dir.path()).unwrap().clean().unwrap();
    assert_eq!(names(dir.path()), ["a.md"]);
}
