//! Unmounted, a store is a complete ordinary directory (R11).
//!
//! At unmount every document is written out as a plain file, and the store notes the SHA-256
//! and the revision of what was written. At the next opening a file with another hash was
//! edited meanwhile; it is merged as a save whose writer had seen the revision noted. A daemon
//! that was killed wrote nothing out, so its files are older but still have the noted hash:
//! an old file is never taken for an edit.
//!
//! Nobody else changes the store meanwhile: the caller holds its lock.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::error::{Result, io};
use super::instance::Instance;
use super::whole::{self, Like, write_whole};
use crate::documents::live::{SaveError, SaveRequest};
use crate::documents::{Version, Written};
use crate::fs::observed::Who;
use crate::model::{Actor, Basis, Clock, Refusal, Rule, SystemClock, Via, View};
use crate::store::{ExportRow, KeptRefusal, NameRow, StoreError};
use crate::vfs::rescue::{Refused, Rescue};

/// The mode of a document that nobody has given one.
const MODE: u32 = 0o644;

/// What became of a file that was edited while the store was not mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenIn {
    /// Merged; the number of overlaps with other changes.
    Merged {
        /// The file.
        view: View,
        /// Where it met other changes.
        overlaps: usize,
    },
    /// Refused; the text is in another file beside it.
    Refused {
        /// The file.
        view: View,
        /// Why.
        refusal: Refusal,
        /// The name of the file with the text.
        kept_as: String,
    },
}

impl std::fmt::Display for TakenIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TakenIn::Merged { view, overlaps: 0 } => {
                write!(f, "{} was edited in the store: merged", view.name())
            }
            TakenIn::Merged { view, overlaps } => write!(
                f,
                "{} was edited in the store: merged, {overlaps} overlapping changes are in the history",
                view.name()
            ),
            TakenIn::Refused { view, refusal, kept_as } => write!(
                f,
                "{} was edited in the store and is refused: {refusal}; kept as {kept_as}",
                view.name()
            ),
        }
    }
}

/// Merges files that were edited since they were written out. A refused one is kept under
/// another name. Errors: the store failed; files not yet merged stay as they are.
pub fn take_in(instance: &Instance) -> Result<Vec<TakenIn>> {
    let noted = noted(instance)?;
    let mut done = Vec::new();
    for view in View::ALL {
        whole::finish(&instance.dir, view.name())?;
        let Some(bytes) = read_plain(&instance.dir, view)? else { continue };
        let noted = noted.get(&view);
        if noted.is_some_and(|row| row.sha256 == sha256(&bytes)) {
            continue;
        }
        let current = instance.live.current(view.doc())?;
        if current.view(view).is_some_and(|content| content.equals(&bytes)) {
            continue;
        }
        let seen = noted.and_then(|row| match instance.live.at(view.doc(), row.rev) {
            Ok(Some(version)) => Some(version),
            Ok(None) => {
                log::warn!("{}: the version written out is not on record", view.name());
                None
            }
            Err(e) => {
                log::warn!("{}: the version written out cannot be read: {e}", view.name());
                None
            }
        });
        done.extend(merge(instance, view, &bytes, seen)?);
    }
    Ok(done)
}

fn merge(
    instance: &Instance,
    view: View,
    bytes: &[u8],
    base: Option<Arc<Version>>,
) -> Result<Option<TakenIn>> {
    let actor = Actor::this_process(Via::Import);
    let request = SaveRequest {
        view,
        basis: Basis::by(if base.is_some() { Rule::Handle } else { Rule::Blind }),
        base,
        written: Written::Whole(bytes),
        instead_of: None,
        actor: actor.clone(),
        under_their_lock: false,
        expect_sha256: None,
    };
    match instance.live.save(request) {
        Ok(saved) if saved.changed => {
            Ok(Some(TakenIn::Merged { view, overlaps: saved.overlaps.len() }))
        }
        Ok(_) => Ok(None),
        Err(SaveError::Refused(refusal)) => {
            let kept_as = keep_refused(instance, view, bytes, &refusal, &actor)?;
            let now = SystemClock.now();
            instance.store.record_refusal(&KeptRefusal {
                at: now,
                view,
                actor: &actor,
                refusal: &refusal,
                kept_as: Some(&kept_as),
                base: None,
                append: false,
            })?;
            Ok(Some(TakenIn::Refused { view, refusal, kept_as }))
        }
        Err(SaveError::Store(e)) => Err(e.into()),
    }
}

/// Writes every document out as a plain file, each replaced whole, and notes what was written.
/// A file that already is what it should be is not touched. All documents are tried; the first
/// failure is returned.
pub fn write_out(instance: &Instance) -> Result<()> {
    let noted = noted(instance)?;
    let names: HashMap<View, NameRow> =
        instance.store.names()?.into_iter().map(|row| (row.view, row)).collect();
    let mut result = Ok(());
    for view in View::ALL {
        let one = write_one(instance, view, &noted, names.get(&view));
        if let Err(e) = one {
            log::error!("{}: not written out: {e}", view.name());
            if result.is_ok() {
                result = Err(e);
            }
        }
    }
    result
}

fn write_one(
    instance: &Instance,
    view: View,
    noted: &HashMap<View, ExportRow>,
    name: Option<&NameRow>,
) -> Result<()> {
    let version = instance.live.current(view.doc())?;
    let Some(content) = version.view(view) else { return Ok(()) };
    let stands_for_it = |view: View| noted.get(&view).is_some_and(|n| n.rev == version.rev);
    let on_disk = read_plain(&instance.dir, view)?;
    let hash_on_disk = on_disk.as_deref().map(sha256);
    if stands_for_it(view) && noted.get(&view).map(|n| n.sha256) == hash_on_disk {
        return Ok(());
    }
    // An ordinary directory has no file for a document that was never saved, and no second
    // view of a config that is as it was taken in.
    let never_there = on_disk.is_none() && !noted.contains_key(&view);
    if never_there && (version.rev.0 == 0 || view.doc().views().any(stands_for_it)) {
        return Ok(());
    }
    let bytes = content.to_vec();
    if on_disk.as_deref() != Some(&bytes[..]) {
        let like = like(&instance.dir.join(view.name()), &version, name);
        write_whole(&instance.dir, view.name(), &bytes, like)?;
    }
    note(instance, view, sha256(&bytes), &version)
}

/// Notes that the file, which has this hash, stands for this version.
pub(super) fn note(
    instance: &Instance,
    view: View,
    sha256: [u8; 32],
    version: &Version,
) -> Result<()> {
    let row = ExportRow { view, sha256, rev: version.rev, at: SystemClock.now() };
    Ok(instance.store.set_export(&row)?)
}

fn noted(instance: &Instance) -> std::result::Result<HashMap<View, ExportRow>, StoreError> {
    Ok(instance.store.exports()?.into_iter().map(|row| (row.view, row)).collect())
}

fn like(path: &Path, version: &Version, name: Option<&NameRow>) -> Like {
    let there = std::fs::symlink_metadata(path).ok();
    let mode =
        name.and_then(|n| n.mode).or(there.as_ref().map(|m| m.mode() & 0o7777)).unwrap_or(MODE);
    let uid = name.and_then(|n| n.uid).or(there.as_ref().map(|m| m.uid()));
    let gid = name.and_then(|n| n.gid).or(there.as_ref().map(|m| m.gid()));
    let set = name.and_then(|n| n.mtime).filter(|(_, rev)| *rev == version.rev);
    Like { mode, owner: uid.zip(gid), mtime: Some(set.map_or(version.mtime, |(mtime, _)| mtime)) }
}

/// The plain file behind a document's name; `None` when there is none or it is no regular
/// file. Symlinks are not followed.
pub(super) fn read_plain(dir: &Path, view: View) -> Result<Option<Vec<u8>>> {
    let path = dir.join(view.name());
    match std::fs::symlink_metadata(&path) {
        Ok(meta) if meta.is_file() => {}
        Ok(_) => return Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io(&path, "cannot read")(e)),
    }
    let mut bytes = Vec::new();
    File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(&path)
        .and_then(|mut f| f.read_to_end(&mut bytes))
        .map_err(io(&path, "cannot read"))?;
    Ok(Some(bytes))
}

/// What the plain files were when they were last known to say what the documents say.
#[derive(Debug, Default)]
pub struct Untouched(HashMap<View, Option<Stat>>);

/// Inode number, size and modification time.
type Stat = (u64, u64, i64, i64);

impl Untouched {
    /// As they are now, after [`write_out`].
    pub fn now(dir: &Path) -> Untouched {
        Untouched(View::ALL.into_iter().map(|view| (view, stat(dir, view))).collect())
    }
}

fn stat(dir: &Path, view: View) -> Option<Stat> {
    let meta = std::fs::symlink_metadata(dir.join(view.name())).ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// Writes out what is in memory when the database cannot be asked any more: over the plain file if
/// nobody has touched that, else beside it. What was done, one line each.
pub fn rescue(instance: &Instance, untouched: &Untouched) -> Vec<String> {
    let mut done = Vec::new();
    for view in View::ALL {
        let version = instance.live.cached(view.doc());
        let Some(content) = version.view(view) else { continue };
        let path = instance.dir.join(view.name());
        let bytes = content.to_vec();
        let on_disk = read_plain(&instance.dir, view);
        let shown_once = view.doc().views().all(|v| stat(&instance.dir, v).is_none());
        let same = matches!(&on_disk, Ok(Some(there)) if *there == bytes);
        // Neither what nobody ever saved nor the other view of a config needs a file.
        if same || (stat(&instance.dir, view).is_none() && (version.rev.0 == 0 || !shown_once)) {
            continue;
        }
        let ours = untouched.0.get(&view) == Some(&stat(&instance.dir, view));
        let name = match ours {
            true => view.name().to_owned(),
            false => format!("{}.unsaved-{}", view.name(), std::process::id()),
        };
        let like = like(&path, &version, None);
        done.push(match write_whole(&instance.dir, &name, &bytes, like) {
            Ok(()) => format!("{}: written out from memory to {name}", view.name()),
            Err(e) => format!("{}: not written out: {e}", view.name()),
        });
    }
    done
}

/// Keeps a refused text beside the document, reason on top; the name of the file.
fn keep_refused(
    instance: &Instance,
    view: View,
    bytes: &[u8],
    refusal: &Refusal,
    actor: &Actor,
) -> Result<String> {
    let dir = File::open(&instance.dir).map_err(io(&instance.dir, "cannot open"))?;
    let refused = Refused {
        view,
        text: bytes,
        refusal,
        actor,
        writer: &Who::of(None, actor.uid),
        base: None,
        append: false,
        now: SystemClock.now(),
    };
    let kept = Rescue::default().refuse(dir.as_fd(), &refused, None);
    kept.map_err(io(&instance.dir.join(view.name()), "cannot keep the refused text of"))
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests;
