//! Taking in an existing directory: its documents become rows once, its database is kept.
//!
//! Every step can be repeated. A document counts as taken in when the store has noted its
//! file's hash, which is the last thing that is done for it.

mod pair;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use self::pair::config_pair;
use super::copy::{self, Copied};
use super::error::{DaemonError, Result, io};
use super::export::{databases, left_to_database_copy, prepare};
use super::instance::Instance;
use super::journal::{Doing, Journal, Marker};
use super::whole::{self, Like, write_whole};
use super::writeout::{note, read_plain, sha256, write_out};
use super::{instance, lock, mounts, names};
use crate::documents::live::{SaveError, SaveRequest};
use crate::documents::{Written, missions, quarantine};
use crate::model::{Actor, Basis, Clock, DocId, Rule, Stamp, SystemClock, Via, View};
use crate::store::upkeep::RowCounts;
use crate::store::{DB_NAME, LOCK_NAME, NameRow, Store};

/// What was taken in.
#[derive(Debug, Default)]
pub struct Imported {
    /// The documents that were found as files.
    pub files: Vec<File>,
    /// What is in the database now.
    pub rows: RowCounts,
    /// The lines of `missions.md` that are no missions and are kept as they are: line number and
    /// text.
    pub layout: Vec<(u64, String)>,
    /// A database was there before and was taken over.
    pub database: bool,
    /// Everything else that was copied (`init` only).
    pub copied: Copied,
}

/// One file that was found.
#[derive(Debug)]
pub struct File {
    /// Its name.
    pub view: View,
    /// Its size in bytes.
    pub bytes: u64,
    /// What became of it.
    pub how: How,
    /// It was a symlink to this file, which stays as it is.
    pub link: Option<PathBuf>,
}

impl File {
    fn of(dir: &Path, view: View, bytes: &[u8], how: How) -> File {
        let link = std::fs::read_link(dir.join(view.name())).ok();
        File { view, bytes: bytes.len() as u64, how, link }
    }
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// Taken in as it is.
    Taken,
    /// It was newer than the database: merged with it, and only added.
    Merged,
    /// It was older than the database and was not taken in; its text is in this file.
    Older(String),
    /// Taken in but for lines that the format does not have; its whole text is in this file.
    Partly(String),
    /// It says what the document says already.
    Same,
    /// Nothing is in it.
    Empty,
}

/// `init`: makes the store, with what is in `from`. `None` when the store is there already and
/// an earlier run had done the same.
pub fn init(store: &Path, from: Option<&Path>) -> Result<Option<Imported>> {
    let from = match from {
        Some(from) => Some(from.canonicalize().map_err(io(from, "cannot read"))?),
        None => None,
    };
    if let Some(from) = &from {
        if !from.is_dir() {
            return Err(in_the_way(from, "not a directory"));
        }
        if mounts::containing(from).map_err(io(from, "cannot look for mounts"))?.is_some() {
            return Err(in_the_way(from, "is mounted; `instancefs export` copies it"));
        }
    }
    let journal = Journal::of(Doing::Init, from.as_deref());
    if Journal::read(store)?.is_none() && instance::is_store(store) {
        let marker = Marker::read(store)?;
        return match &from {
            Some(dir) if marker.and_then(|m| m.from).as_ref() != Some(dir) => Err(in_the_way(
                store,
                &format!("is a store already, {} was not taken in", dir.display()),
            )),
            _ => Ok(None),
        };
    }
    if let Some(from) = &from {
        config_pair(from)?;
    }
    let store = match &from {
        None if has_lost_its_database(store) => {
            put_aside_remains(store)?;
            journal.write(store)?;
            store.canonicalize().map_err(io(store, "cannot read"))?
        }
        _ => prepare(store, &journal)?,
    };
    let lock = lock::StoreLock::take(&store)?;
    let mut copied = Copied::default();
    if let Some(from) = &from {
        let choose = |path: &Path, meta: &std::fs::Metadata| {
            let private = path.parent() == Some(Path::new(""))
                && path.file_name().is_some_and(names::is_private);
            if private || left_to_database_copy(&from.join(path), meta) {
                copy::Choice::Leave
            } else {
                copy::Choice::Take
            }
        };
        copied = copy::tree(from, &store, &choose)?;
        // A repeated run finds a database that the first one has worked in.
        if Marker::read(&store)?.is_none() {
            databases(from, &store, &mut copied)?;
        }
    }
    let mut imported = in_place(&store, from.as_deref())?;
    imported.copied = copied;
    whole::sync_all(&store)?;
    Journal::done(&store)?;
    drop(lock);
    Ok(Some(imported))
}

/// A store whose database is gone: `init` makes a new one of the documents that lie there.
fn has_lost_its_database(store: &Path) -> bool {
    let gone = std::fs::symlink_metadata(store.join(DB_NAME))
        .is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
    gone && instance::is_marked(store)
}

/// A new database must not take in what belonged to the one that is gone.
fn put_aside_remains(store: &Path) -> Result<()> {
    for end in ["wal", "shm"] {
        let from = store.join(format!("{DB_NAME}-{end}"));
        let to = store.join(format!("{DB_NAME}.lost-{end}"));
        match std::fs::rename(&from, to) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(io(&from, "cannot put aside")(e));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes a store of a directory as it stands. The caller holds the lock and has written the
/// journal. `from`: the directory of which this is a copy.
pub fn in_place(dir: &Path, from: Option<&Path>) -> Result<Imported> {
    config_pair(dir)?;
    let database = dir.join(DB_NAME);
    if std::fs::symlink_metadata(&database).is_ok_and(|m| !m.is_file()) {
        return Err(in_the_way(&database, "not a regular file, so it cannot be taken over"));
    }
    let marker = match Marker::read(dir)? {
        Some(marker) => marker,
        None => Marker {
            made: SystemClock.now().iso(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            from: from.map(Path::to_owned),
            foreign_database: copy::is_database(&database),
            foreign_lock: dir.join(LOCK_NAME).exists(),
        },
    };
    let newer = newer_than_database(dir)?;
    marker.write(dir)?;
    let store = Store::create(dir)?;
    if !marker.foreign_database {
        store.claim()?;
    }
    let mut files = Vec::new();
    // Before the documents are opened: they find the rows there.
    files.extend(quarantined(&store, dir)?);
    let instance = Instance::with(dir, store)?;
    if !files.is_empty() {
        settle_file(&instance, View::QuarantineMd)?;
    }
    // Of two equal configs the YAML is the source: it may have comments.
    for view in [View::MissionsMd, View::ConfigYaml, View::ConfigJson] {
        let Some(bytes) = read_document(dir, view)? else { continue };
        let how = one(&instance, view, &bytes, marker.foreign_database, newer)?;
        keep_looks(&instance, view)?;
        files.push(File::of(dir, view, &bytes, how));
    }
    keep_siblings(&instance)?;
    write_out(&instance)?;
    instance.live.sync()?;
    let rows = instance.store.row_counts()?;
    let missions = instance.live.current(DocId::Missions)?;
    let layout = missions::report(&missions.state).map(|r| r.layout).unwrap_or_default();
    let database = marker.foreign_database;
    Ok(Imported { files, rows, layout, database, copied: Copied::default() })
}

fn one(instance: &Instance, view: View, bytes: &[u8], database: bool, newer: bool) -> Result<How> {
    let path = instance.dir.join(view.name());
    let hash = sha256(bytes);
    let current = instance.live.current(view.doc())?;
    let exported = instance.store.exports()?.into_iter().find(|row| row.view == view);
    if exported.as_ref().is_some_and(|row| row.sha256 == hash) {
        return Ok(How::Same);
    }
    if bytes.trim_ascii().is_empty() {
        note(instance, view, hash, &current)?;
        return Ok(How::Empty);
    }
    let fresh = current.rev.0 == 0;
    if current.view(view).is_some_and(|c| c.equals(bytes)) {
        note(instance, view, hash, &current)?;
        return Ok(How::Same);
    }
    // After an `eject` the text that was written out is what the editor of the file has seen.
    let written_out = match &exported {
        Some(row) => instance.live.at(view.doc(), row.rev)?,
        None => None,
    };
    let second_config = view == View::ConfigJson && !fresh && !database && written_out.is_none();
    if second_config {
        // Equal in content, see `config_pair`: the file stands for this version as it is.
        note(instance, view, hash, &current)?;
        return Ok(How::Same);
    }
    if !fresh && view == View::MissionsMd && database && !newer && written_out.is_none() {
        let name = format!("{}.older", view.name());
        write_whole(&instance.dir, &name, bytes, Like { mode: 0o600, owner: None, mtime: None })?;
        return Ok(How::Older(name));
    }
    // A new document is what the file says, byte for byte; beside rows it only adds.
    let base = written_out.or_else(|| fresh.then(|| Arc::clone(&current)));
    let request = SaveRequest {
        view,
        basis: Basis::by(if base.is_some() { Rule::Handle } else { Rule::Blind }),
        base,
        written: Written::Whole(bytes),
        instead_of: None,
        actor: Actor::this_process(Via::Import),
        under_their_lock: false,
        expect_sha256: None,
    };
    let saved = instance.live.save(request).map_err(|e| match e {
        SaveError::Refused(refusal) => DaemonError::Refused { path, refusal },
        SaveError::Store(e) => e.into(),
    })?;
    if saved.version.view(view).is_some_and(|c| c.equals(bytes)) {
        note(instance, view, hash, &saved.version)?;
    }
    Ok(if fresh { How::Taken } else { How::Merged })
}

/// Mode, owner and time of the file become those of the document, unless it has some already.
fn keep_looks(instance: &Instance, view: View) -> Result<()> {
    if instance.store.names()?.iter().any(|name| name.view == view) {
        return Ok(());
    }
    let path = instance.dir.join(view.name());
    let meta = path.metadata().map_err(io(&path, "cannot read"))?;
    let mtime = Stamp::from_parts(meta.mtime(), meta.mtime_nsec() as u32);
    let rev = instance.live.current(view.doc())?.rev;
    instance.store.save_name(&NameRow {
        view,
        // The tree gives it one of its own.
        ino: 0,
        mode: Some(meta.mode() & 0o7777),
        uid: Some(meta.uid()),
        gid: Some(meta.gid()),
        atime: None,
        mtime: Some((mtime, rev)),
    })?;
    Ok(())
}

/// A name that was not there looks like the other one of its document: the JSON view of a
/// private config.yaml is private.
fn keep_siblings(instance: &Instance) -> Result<()> {
    let names = instance.store.names()?;
    let known = |view: View| names.iter().find(|name| name.view == view);
    for view in View::ALL {
        let sibling = view.doc().views().filter(|other| *other != view).find_map(known);
        if let (None, Some(sibling)) = (known(view), sibling) {
            let row = NameRow { view, ino: 0, atime: None, mtime: None, ..sibling.clone() };
            instance.store.save_name(&row)?;
        }
    }
    Ok(())
}

/// Makes rows of a `missions-quarantine.md`. Rows that are there already are the truth. Lines
/// that are no rows are kept with the whole text in a file beside it.
fn quarantined(store: &Store, dir: &Path) -> Result<Option<File>> {
    let view = View::QuarantineMd;
    let Some(bytes) = read_document(dir, view)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    let how = match store.gate(|c| quarantine::import(c, &text))? {
        Some(others) if others.is_empty() => How::Taken,
        Some(_) => {
            let name = format!("{}.before", view.name());
            write_whole(dir, &name, &bytes, Like::PRIVATE)?;
            How::Partly(name)
        }
        None => How::Same,
    };
    Ok(Some(File::of(dir, view, &bytes, how)))
}

/// The file stands for the current version as it is.
fn settle_file(instance: &Instance, view: View) -> Result<()> {
    if let Some(bytes) = read_document(&instance.dir, view)? {
        let current = instance.live.current(view.doc())?;
        note(instance, view, sha256(&bytes), &current)?;
        keep_looks(instance, view)?;
    }
    Ok(())
}

/// Whether `missions.md` was written after the last change of the database, or in the same tick
/// of the file system's clock.
fn newer_than_database(dir: &Path) -> Result<bool> {
    let time = |name: &str| -> Option<SystemTime> {
        std::fs::metadata(dir.join(name)).and_then(|m| m.modified()).ok()
    };
    let database =
        [DB_NAME.to_owned(), format!("{DB_NAME}-wal")].iter().filter_map(|n| time(n)).max();
    Ok(time(View::MissionsMd.name()) >= database)
}

/// A document's file; a symlink is followed here: what it leads to becomes the document.
fn read_document(dir: &Path, view: View) -> Result<Option<Vec<u8>>> {
    let path = dir.join(view.name());
    match std::fs::symlink_metadata(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io(&path, "cannot read")(e)),
        Ok(meta) if meta.is_symlink() => {
            let real = path.canonicalize().map_err(io(&path, "cannot follow"))?;
            if !real.is_file() {
                return Err(in_the_way(&path, "not a regular file"));
            }
            std::fs::read(&real).map(Some).map_err(io(&real, "cannot read"))
        }
        Ok(meta) if !meta.is_file() => Err(in_the_way(&path, "not a regular file")),
        Ok(_) => read_plain(dir, view),
    }
}

fn in_the_way(path: &Path, reason: &str) -> DaemonError {
    DaemonError::InTheWay { path: path.to_owned(), reason: reason.to_owned() }
}
