//! `export` and the copying half of `init`: an instance as an ordinary directory.
//!
//! The database is copied in one read transaction, so the copy is one state of it, also while
//! a daemon and other programs write. The documents are then written out from the copy.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use super::copy::{self, Choice, Copied};
use super::error::{DaemonError, Result, io};
use super::instance::{Instance, expect_store};
use super::journal::{Doing, Journal};
use super::{names, whole, writeout};
use crate::model::View;

/// Copies the instance in `store` to `to`, a directory that is missing, empty, or left by an
/// interrupted export of the same store.
pub fn export(store: &Path, to: &Path) -> Result<Copied> {
    expect_store(store)?;
    let to = prepare(to, &Journal::of(Doing::Export, Some(store)))?;
    let choose = |path: &Path, meta: &Metadata| {
        let at_root = path.parent() == Some(Path::new(""));
        let name = path.file_name().unwrap_or_default();
        let ours = at_root
            && (names::is_private(name)
                || View::ALL.iter().any(|v| name == v.name())
                || name == crate::store::LOCK_NAME);
        if ours || left_to_database_copy(&store.join(path), meta) {
            Choice::Leave
        } else {
            Choice::Take
        }
    };
    let mut copied = copy::tree(store, &to, &choose)?;
    databases(store, &to, &mut copied)?;
    let instance = Instance::open(&to)?;
    keep_files_of_names(store, &to)?;
    writeout::write_out(&instance)?;
    drop(instance);
    whole::sync_all(&to)?;
    Journal::done(&to)?;
    Ok(copied)
}

/// The plain files of the documents are the pattern for mode and owner of the new ones.
fn keep_files_of_names(store: &Path, to: &Path) -> Result<()> {
    for view in View::ALL {
        let (from, to) = (store.join(view.name()), to.join(view.name()));
        if std::fs::symlink_metadata(&from).is_ok_and(|m| m.is_file()) {
            copy::file(&from, &to)?;
        }
    }
    Ok(())
}

/// Makes the directory, or accepts an empty one or what the same command left. Its real path.
pub(super) fn prepare(dir: &Path, journal: &Journal) -> Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {
            let private = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(dir, private).map_err(io(dir, "cannot set the mode of"))?;
        }
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            let found = Journal::read(dir)?;
            let reason = match &found {
                Some(found) if found == journal => None,
                Some(found) => Some(found.unfinished(dir)),
                None => holds_files(dir)?.then(|| "the directory is not empty".to_owned()),
            };
            if let Some(reason) = reason {
                return Err(DaemonError::InTheWay { path: dir.to_owned(), reason });
            }
        }
        Err(e) => return Err(io(dir, "cannot create")(e)),
    }
    journal.write(dir)?;
    dir.canonicalize().map_err(io(dir, "cannot read"))
}

/// Whether there is anything but a private file, which a run that was interrupted before its
/// first step was on record may have left.
fn holds_files(dir: &Path) -> Result<bool> {
    let entries = std::fs::read_dir(dir).map_err(io(dir, "cannot use"))?;
    Ok(entries.flatten().any(|entry| !names::is_private(&entry.file_name())))
}

/// Databases are copied through SQLite, what accompanies them is made anew by it.
pub(super) fn left_to_database_copy(path: &Path, meta: &Metadata) -> bool {
    if !meta.is_file() {
        return false;
    }
    let database = copy::companion_of(path).unwrap_or_else(|| path.to_owned());
    copy::is_database(&database)
}

/// Copies every database below `from` to its place below `to`.
pub(super) fn databases(from: &Path, to: &Path, copied: &mut Copied) -> Result<()> {
    let mut left = vec![PathBuf::new()];
    while let Some(below) = left.pop() {
        let dir = from.join(&below);
        for entry in std::fs::read_dir(&dir).map_err(io(&dir, "cannot read"))? {
            let name = entry.map_err(io(&dir, "cannot read"))?.file_name();
            let path = from.join(&below).join(&name);
            let meta = path.symlink_metadata().map_err(io(&path, "cannot read"))?;
            if meta.is_dir() {
                left.push(below.join(&name));
            } else if meta.is_file()
                && copy::companion_of(&path).is_none()
                && copy::is_database(&path)
            {
                database(&path, &to.join(&below).join(&name))?;
                copied.files += 1;
                copied.bytes += meta.len();
            }
        }
    }
    Ok(())
}

/// One database: byte for byte when nobody has it open and nothing is pending beside it, else
/// one state of it.
fn database(from: &Path, to: &Path) -> Result<()> {
    let pending = ["-wal", "-journal"].iter().any(|ending| {
        let mut name = from.as_os_str().to_owned();
        name.push(ending);
        std::fs::symlink_metadata(name).is_ok()
    });
    copy::file(from, to)?;
    if pending {
        for ending in ["-wal", "-shm", "-journal"] {
            let mut name = to.as_os_str().to_owned();
            name.push(ending);
            super::journal::remove(Path::new(&name))?;
        }
        std::fs::File::options()
            .write(true)
            .truncate(true)
            .open(to)
            .map_err(io(to, "cannot replace"))?;
        crate::store::upkeep::copy_database(from, to)?;
    }
    Ok(())
}
