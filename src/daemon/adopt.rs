//! `adopt` and `eject`: an existing directory becomes a store in place, and back.
//!
//! Both first only add to the directory and then swap it with an empty one in a single
//! `renameat2`; that rename is the commit point. The journal travels inside the directory, so
//! a repeated command sees on which side of the rename it is.

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};

use super::error::{DaemonError, MountpointProblem, Result, io};
use super::import::{self, Imported};
use super::instance::{Instance, is_store};
use super::journal::{Doing, Journal, Marker, remove};
use super::lock::StoreLock;
use super::{copy, mounts, names, users, whole, writeout};

/// What `adopt` did.
#[derive(Debug)]
pub struct Adopted {
    /// `DIR`, the mount point.
    pub dir: PathBuf,
    /// `DIR.store`.
    pub store: PathBuf,
    /// What was taken in; `None` when an earlier run had done so.
    pub imported: Option<Imported>,
    /// Processes that still use the directory, which is now the store.
    pub users: Vec<(u32, String)>,
}

/// The store of an adopted directory: `DIR.store`.
pub fn store_beside(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().map(OsString::from).unwrap_or_default();
    name.push(".store");
    dir.with_file_name(name)
}

/// Makes `dir` a store named `DIR.store`, with an empty `dir` in its place. `dir` is absolute
/// and without symlinks ([`mounts::resolve`], [`plain_path`]). Can be repeated.
pub fn adopt(dir: &Path) -> Result<Adopted> {
    let store = store_beside(dir);
    let done =
        |imported, users| Adopted { dir: dir.to_owned(), store: store.clone(), imported, users };
    if let Some(mount) = mounts::at(dir).map_err(io(dir, "cannot look for mounts"))? {
        if mount.store == store {
            return Ok(done(None, Vec::new()));
        }
        let problem = MountpointProblem::InUse(mount.store.display().to_string());
        return Err(DaemonError::Mountpoint { path: dir.to_owned(), problem });
    }
    match look(dir)? {
        Side::Missing | Side::Empty if is_store(&store) => {
            finish_adopt(dir, &store)?;
            return Ok(done(None, Vec::new()));
        }
        Side::Missing => return Err(missing(dir)),
        Side::Empty | Side::Filled => {}
    }
    let beside = look(&store)?;
    let journal = Journal::read(dir)?;
    match (&journal, beside) {
        (_, Side::Missing) => {}
        (Some(Journal { doing: Doing::Adopt, .. }), Side::Empty) => {}
        _ => return Err(in_the_way(&store, "it is in the way of the new store")),
    }
    if journal.is_none() && Marker::read(dir)?.is_some() && is_store(dir) {
        return Err(in_the_way(dir, "is a store already; mount it at another directory"));
    }

    let lock = StoreLock::take(dir)?;
    let users = users::of(dir);
    let before = std::fs::symlink_metadata(dir.join(names::DATABASE)).is_ok();
    Journal::of(Doing::Adopt, Some(&store)).write(dir)?;
    let imported = match import::in_place(dir, None) {
        Ok(imported) => imported,
        Err(e) => {
            // What an interrupted run made goes as well: nothing of it was used.
            let ours = Marker::read(dir)?.map_or(!before, |m| !m.foreign_database);
            clear(dir, ours)?;
            return Err(e);
        }
    };
    swap_in_empty(dir, &store)?;
    finish_adopt(dir, &store)?;
    drop(lock);
    Ok(done(Some(imported), users))
}

/// `dir` (full) and `store` (missing or empty) change places. `dir` is never without a
/// directory where the file system can exchange names.
fn swap_in_empty(dir: &Path, store: &Path) -> Result<()> {
    let meta = dir.metadata().map_err(io(dir, "cannot read"))?;
    if !store.exists() {
        make_like(store, &meta)?;
    }
    match rustix::fs::renameat_with(CWD, dir, CWD, store, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
            // A directory may replace an empty one; the journal tells a repeated run the rest.
            std::fs::rename(dir, store).map_err(io(dir, "cannot rename"))?;
            make_like(dir, &meta)?;
        }
        Err(e) => return Err(io(dir, "cannot rename")(e)),
    }
    sync_parent(dir)
}

/// The part of `adopt` after the rename.
fn finish_adopt(dir: &Path, store: &Path) -> Result<()> {
    if !dir.exists() {
        make_like(dir, &store.metadata().map_err(io(store, "cannot read"))?)?;
    }
    if matches!(Journal::read(store)?, Some(Journal { doing: Doing::Adopt, .. })) {
        sync_parent(dir)?;
        Journal::done(store)?;
    }
    Ok(())
}

/// What `eject` did.
#[derive(Debug)]
pub struct Ejected {
    /// The ordinary directory.
    pub dir: PathBuf,
    /// Files that had been edited while not mounted.
    pub taken_in: Vec<writeout::TakenIn>,
    /// An earlier run had done everything.
    pub already: bool,
}

/// Makes the store of `dir` an ordinary directory at `dir`. Nothing is mounted there. With
/// `purge` our tables go, and the database if we made it. Can be repeated.
pub fn eject(dir: &Path, purge: bool) -> Result<Ejected> {
    let beside = store_beside(dir);
    let mut ejected = Ejected { dir: dir.to_owned(), taken_in: Vec::new(), already: false };
    let store = match look(dir)? {
        Side::Missing | Side::Empty if is_store(&beside) => beside,
        // Interrupted before `purge` was through, or after everything but the last file.
        Side::Missing | Side::Empty if Journal::read(&beside)?.is_some() => beside,
        Side::Filled if Journal::read(dir)?.is_some() || Marker::read(dir)?.is_some() => dir.into(),
        Side::Filled if is_store(dir) => {
            ejected.already = !purge;
            dir.into()
        }
        Side::Missing => return Err(missing(dir)),
        Side::Filled if beside.exists() && is_store(&beside) => {
            return Err(in_the_way(dir, "is not empty, so its store cannot take its place"));
        }
        Side::Empty | Side::Filled => {
            let reason = "neither a store nor the mount point of one".to_owned();
            return Err(DaemonError::NotAStore { path: dir.to_owned(), reason });
        }
    };
    if ejected.already {
        return Ok(ejected);
    }
    let lock = StoreLock::take(&store)?;
    let journal = Journal::read(&store)?;
    match &journal {
        Some(Journal { doing: Doing::Eject | Doing::Adopt, .. }) | None => {}
        Some(_) => {
            return Err(in_the_way(&store, "an interrupted command is to be repeated first"));
        }
    }
    let purge = purge || journal.is_some_and(|j| j.doing == Doing::Eject && j.purge);
    Journal { doing: Doing::Eject, other: Some(dir.to_owned()), purge }.write(&store)?;
    if is_store(&store) {
        ejected.taken_in = write_out(&store)?;
    }
    if purge {
        purge_tables(&store)?;
    }
    whole::sync_all(&store)?;
    if store != dir {
        // A directory may take the place of an empty one: `dir` exists all the time.
        std::fs::rename(&store, dir).map_err(io(dir, "cannot rename the store to"))?;
        sync_parent(dir)?;
    }
    clear(dir, false)?;
    drop(lock);
    Ok(ejected)
}

fn write_out(store: &Path) -> Result<Vec<writeout::TakenIn>> {
    let instance = Instance::open(store)?;
    let taken_in = writeout::take_in(&instance)?;
    super::serve::settle_rows(&instance.live);
    writeout::write_out(&instance)?;
    Ok(taken_in)
}

fn purge_tables(store: &Path) -> Result<()> {
    let database = store.join(names::DATABASE);
    // After an earlier `eject` only the database itself knows who made it.
    let ours = Marker::read(store)?.is_some_and(|m| !m.foreign_database)
        || (is_store(store) && Instance::look(store)?.store.claimed()?);
    if !ours {
        if copy::is_database(&database) {
            crate::store::upkeep::drop_own_tables(&database)?;
        }
        return Ok(());
    }
    remove_database(store)
}

/// Removes our database with what accompanies it.
fn remove_database(dir: &Path) -> Result<()> {
    for ending in ["", "-wal", "-shm", "-journal"] {
        remove(&dir.join(format!("{}{ending}", names::DATABASE)))?;
    }
    let lock = dir.join(crate::store::LOCK_NAME);
    let ours = !Marker::read(dir)?.is_some_and(|m| m.foreign_lock);
    if ours && std::fs::symlink_metadata(&lock).is_ok_and(|m| m.is_file() && m.len() == 0) {
        remove(&lock)?;
    }
    Ok(())
}

/// Removes our private files; the journal last, so that an interrupted run can be repeated.
fn clear(dir: &Path, database: bool) -> Result<()> {
    if database {
        remove_database(dir)?;
    }
    let entries = std::fs::read_dir(dir).map_err(io(dir, "cannot read"))?;
    for entry in entries {
        let name = entry.map_err(io(dir, "cannot read"))?.file_name();
        if !names::is_private(&name) || name == names::JOURNAL {
            continue;
        }
        let path = dir.join(&name);
        if path.symlink_metadata().is_ok_and(|m| m.is_dir()) {
            std::fs::remove_dir_all(&path).map_err(io(&path, "cannot remove"))?;
        } else {
            remove(&path)?;
        }
    }
    Journal::done(dir)
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Missing,
    Empty,
    Filled,
}

fn look(dir: &Path) -> Result<Side> {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => Ok(if entries.next().is_none() { Side::Empty } else { Side::Filled }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Side::Missing),
        Err(e) => Err(io(dir, "cannot read")(e)),
    }
}

/// The absolute path, without symlinks, of a directory that may be missing or a dead mount.
pub fn plain_path(dir: &Path) -> Result<PathBuf> {
    match mounts::resolve(dir) {
        Ok(path) => Ok(path),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let absolute = std::path::absolute(dir).map_err(io(dir, "cannot find"))?;
            let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
                return Err(missing(dir));
            };
            Ok(parent.canonicalize().map_err(io(parent, "cannot find"))?.join(name))
        }
        Err(e) => Err(io(dir, "cannot find")(e)),
    }
}

fn make_like(dir: &Path, meta: &std::fs::Metadata) -> Result<()> {
    std::fs::create_dir(dir).map_err(io(dir, "cannot create"))?;
    let _ = std::os::unix::fs::chown(dir, Some(meta.uid()), Some(meta.gid()));
    let mode = std::fs::Permissions::from_mode(meta.mode() & 0o7777);
    std::fs::set_permissions(dir, mode).map_err(io(dir, "cannot set the mode of"))
}

fn sync_parent(dir: &Path) -> Result<()> {
    whole::sync_dir(dir.parent().unwrap_or(Path::new("/")))
}

fn missing(dir: &Path) -> DaemonError {
    in_the_way(dir, "no such directory")
}

fn in_the_way(path: &Path, reason: &str) -> DaemonError {
    DaemonError::InTheWay { path: path.to_owned(), reason: reason.to_owned() }
}
