//! Managed files: their current versions, and where a save of one commits.
//!
//! * **The file is the truth.** What [`ManagedFiles::current`] shows is what the file in the
//!   store holds, compared by one `fstatat`. A change made behind the mount is a version like any
//!   other; it is on record soon afterwards, and at the latest before the next save of that file.
//! * **The database has the history**, under the name `file:PATH` and with the revision numbers
//!   that all documents share. A file that nobody has saved through us has no history and is
//!   revision 0: reading writes nothing.
//! * **A save** happens inside the store's gate, under the lock of the file's slot: compare,
//!   plan, replace the file, record, commit. The old file is kept until the commit has worked, and
//!   comes back if it does not; a file that somebody has changed in between is put back, compared
//!   and planned for again. Killed at any step, the file is the old one or the new one, whole,
//!   and the next look puts on record what is not.
//! * **Lock order**: SQLite's write lock, then a slot. A reader takes the slot alone and asks the
//!   database on a connection of its own, so it waits for a commit under way, never for another
//!   program.

mod disk;
mod gate;
mod history;
mod look;
mod maintain;
mod save;
mod slot;
#[cfg(test)]
mod tests;
mod tick;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::{Mutex, RwLock};

pub use self::disk::StoreDisk;
use self::maintain::Maintained;
pub use self::slot::Counts;
use self::slot::Slot;
pub use self::tick::Watched;
use super::files::{Disk, FileDocument, Rules};
use super::live::{Listener, Published};
use super::{Context, Version};
use crate::model::{Clock, DocId, FileId, FileKind, Rev};
use crate::store::{Cursor, Store, StoreError};

/// Versions that were replaced, as many as are kept in memory.
const RECENT: usize = 64;

/// The managed files of a store. See the head of this file.
pub struct ManagedFiles {
    store: Arc<Store>,
    disk: Arc<dyn Disk>,
    rules: Arc<dyn Rules>,
    clock: Arc<dyn Clock>,
    slots: RwLock<HashMap<FileId, Arc<Slot>>>,
    recent: Mutex<VecDeque<Arc<Version>>>,
    /// Where the last reader of older texts stands.
    cursor: Mutex<Option<Cursor>>,
    listener: RwLock<Option<Listener>>,
    maintained: Mutex<Maintained>,
    /// Counts the rounds of [`ManagedFiles::tick`].
    round: AtomicU64,
    /// Where the round over the files that are not in use stands.
    next_idle: AtomicUsize,
}

impl ManagedFiles {
    /// Over the files of `disk`, with the history in `store`.
    ///
    /// Errors: those of the store.
    pub fn open(
        store: Arc<Store>,
        disk: Arc<dyn Disk>,
        rules: Arc<dyn Rules>,
        clock: Arc<dyn Clock>,
    ) -> Result<ManagedFiles, StoreError> {
        store.make_files_table()?;
        Ok(ManagedFiles {
            store,
            disk,
            rules,
            clock,
            slots: RwLock::default(),
            recent: Mutex::default(),
            cursor: Mutex::default(),
            listener: RwLock::default(),
            maintained: Mutex::default(),
            round: AtomicU64::new(0),
            next_idle: AtomicUsize::new(0),
        })
    }

    /// The store behind it.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// From now on `listener` is called for every new version.
    pub fn set_listener(&self, listener: Listener) {
        *self.listener.write() = Some(listener);
    }

    /// Makes all committed work survive power loss (R8): first the files, then the history.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.disk.sync()?;
        self.store.sync()
    }

    /// To be called when no more saves will come: leaves nothing of ours among the files.
    pub fn leave(&self) {
        self.disk.tidy();
    }

    /// Something was committed that may not survive power loss yet.
    pub fn is_dirty(&self) -> bool {
        self.disk.is_dirty()
    }

    fn context(&self) -> Context {
        Context { now: self.clock.now() }
    }

    /// The kind of a file. One that is not managed (any more) but has a history is a text.
    fn kind(&self, file: FileId) -> FileKind {
        self.rules.kind(file.path()).unwrap_or(FileKind::Text)
    }

    /// How the file is read, merged and judged now.
    fn document(&self, file: FileId) -> FileDocument {
        FileDocument::new(file, self.kind(file))
    }

    fn slot(&self, file: FileId) -> Arc<Slot> {
        if let Some(slot) = self.slots.read().get(&file) {
            return Arc::clone(slot);
        }
        let mut slots = self.slots.write();
        Arc::clone(slots.entry(file).or_insert_with(|| Arc::new(Slot::new(file))))
    }

    /// Keeps a version that is not current any more.
    fn remember(&self, version: Arc<Version>) {
        let mut recent = self.recent.lock();
        recent.retain(|v| v.doc != version.doc || v.rev != version.rev);
        recent.push_back(version);
        if recent.len() > RECENT {
            recent.pop_front();
        }
    }

    fn remembered(&self, file: FileId, rev: Rev) -> Option<Arc<Version>> {
        let doc = DocId::File(file);
        self.recent.lock().iter().rev().find(|v| v.doc == doc && v.rev == rev).cloned()
    }

    /// Tells the listener, with no slot held.
    fn tell(&self, news: &[Published]) {
        if news.is_empty() {
            return;
        }
        let listener = self.listener.read().clone();
        if let Some(listener) = listener {
            news.iter().for_each(|n| listener(n));
        }
    }
}
