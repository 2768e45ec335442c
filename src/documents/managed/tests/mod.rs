//! Tests of the managed files: versions, history, disk. How texts are merged is tested with the
//! kinds.

mod crash;
mod disk;
mod outside;
mod random;
mod retention;
mod saves;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::documents::Written;
use crate::documents::files::Judged;
use crate::documents::live::{SaveError, SaveRequest, Saved};
use crate::model::{Actor, Basis, Clock, DocId, Rule, SystemClock, Via, View};
use crate::store::{DB_NAME, Options};

struct Everything;

impl Rules for Everything {
    fn kind(&self, path: &str) -> Option<FileKind> {
        match path {
            "outbox.md" => Some(FileKind::Queue),
            _ if path.ends_with(".json") => Some(FileKind::Json),
            _ => Some(FileKind::Text),
        }
    }
    fn judge(&self, path: &str) -> Judged {
        Judged { kind: self.kind(path), why: String::new() }
    }
}

fn options() -> Options {
    Options { patience: Duration::from_millis(300), ..Options::default() }
}

fn new_store(dir: &Path) -> ManagedFiles {
    drop(Store::create(dir).unwrap());
    open(dir)
}

fn open(dir: &Path) -> ManagedFiles {
    open_with(dir, options())
}

fn open_with(dir: &Path, options: Options) -> ManagedFiles {
    let disk = StoreDisk::open(dir).unwrap();
    if !options.read_only {
        disk.clean().unwrap();
    }
    open_on(dir, options, Arc::new(disk))
}

fn open_on(dir: &Path, options: Options, disk: Arc<dyn Disk>) -> ManagedFiles {
    open_at(dir, options, disk, Arc::new(SystemClock))
}

fn open_at(
    dir: &Path,
    options: Options,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
) -> ManagedFiles {
    let store = Arc::new(Store::open(dir, options).unwrap());
    ManagedFiles::open(store, disk, Arc::new(Everything), clock).unwrap()
}

fn id(path: &str) -> FileId {
    FileId::of(path)
}

fn actor() -> Actor {
    Actor { pid: 7, uid: 8, session: 9, program: "prog".into(), via: Via::Mount }
}

fn request<'a>(path: &str, seen: Option<&Arc<Version>>, written: Written<'a>) -> SaveRequest<'a> {
    SaveRequest {
        view: View::File(id(path)),
        base: seen.cloned(),
        basis: Basis::by(Rule::Own),
        instead_of: None,
        written,
        actor: actor(),
        under_their_lock: false,
        expect_sha256: None,
    }
}

fn append(files: &ManagedFiles, path: &str, text: &str) -> Saved {
    files.save(request(path, None, Written::Fragment(text.as_bytes()))).unwrap()
}

fn whole(files: &ManagedFiles, path: &str, seen: Option<&Arc<Version>>, text: &str) -> Saved {
    files.save(request(path, seen, Written::Whole(text.as_bytes()))).unwrap()
}

fn text_of(version: &Version) -> Option<String> {
    let view = version.doc.views().next().unwrap();
    version.view(view).map(|c| String::from_utf8(c.to_vec()).unwrap())
}

fn read(files: &ManagedFiles, path: &str) -> Option<String> {
    text_of(&files.current(id(path)).unwrap())
}

/// The history of a file, the oldest first: who, what it was then.
fn story(files: &ManagedFiles, path: &str) -> Vec<(Via, Option<String>)> {
    let file = id(path);
    let doc = DocId::File(file);
    let all = files.store().history_from(Some(doc), Rev(0), 10_000).unwrap();
    let text = |rev| files.text_at(file, rev).unwrap();
    all.iter()
        .map(|r| {
            let text = text(r.rev).map(|c| String::from_utf8(c.to_vec()).unwrap());
            (r.actor.via, text)
        })
        .collect()
}

fn some(via: Via, text: &str) -> (Via, Option<String>) {
    (via, Some(text.to_owned()))
}

/// Waits for a condition that is bound to come true.
fn eventually(mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < until, "it never came true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| !n.starts_with("missions."))
        .collect();
    names.sort();
    names
}
