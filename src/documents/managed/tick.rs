//! Noticing changes made behind the mount without being asked, and letting go of what nobody uses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::look::Beside;
use super::slot::{Counts, Slot};
use super::{ManagedFiles, Published};
use crate::model::FileId;
use crate::store::{StoreError, Wait};

/// Rounds for which a file that was asked for counts as in use.
const IN_USE: u64 = 40;
/// Every so many rounds files that are not in use are looked at,
const IDLE_EVERY: u64 = 10;
/// this many of them.
const IDLE_AT_ONCE: usize = 128;
/// Contents that are kept in memory although nobody uses them, as many
const KEPT: usize = 256;
/// and as many bytes.
const KEPT_BYTES: u64 = 64 << 20;

impl ManagedFiles {
    /// To be called some 20 times a second: files in use are compared with what was shown, others
    /// now and then; changes by others are put on record if the database is free; contents that
    /// nobody has used lately are let go when they are many. Never waits for another program.
    pub fn tick(&self) {
        let round = self.round.fetch_add(1, Ordering::Relaxed) + 1;
        let all: Vec<Arc<Slot>> = self.slots.read().values().cloned().collect();
        let idle_too = round.is_multiple_of(IDLE_EVERY);
        let mut idle = Vec::new();
        for slot in &all {
            if self.in_use(slot, round) {
                self.glance(slot);
            } else if idle_too {
                idle.push(slot);
            }
        }
        if !idle.is_empty() {
            let from = self.next_idle.fetch_add(IDLE_AT_ONCE, Ordering::Relaxed) % idle.len();
            let turn = idle.iter().cycle().skip(from).take(IDLE_AT_ONCE.min(idle.len()));
            turn.for_each(|slot| self.glance(slot));
        }
        if let Err(e) = self.settle() {
            log::debug!("managed files: not on record yet: {e}");
        }
        if idle_too {
            self.let_go(&all);
        }
    }

    /// Puts on record what was found changed. Never waits; whether nothing is left.
    ///
    /// Errors: those of the store, except that it is busy.
    pub fn settle(&self) -> Result<bool, StoreError> {
        if self.store.read_only() {
            return Ok(true);
        }
        let due = |slot: &Arc<Slot>| {
            let inner = slot.inner.try_lock();
            inner.is_none_or(|inner| inner.unrecorded.is_some())
        };
        let all: Vec<Arc<Slot>> = self.slots.read().values().filter(|s| due(s)).cloned().collect();
        if all.is_empty() {
            return Ok(true);
        }
        let mut gate = match self.store.begin(Wait::Never, false) {
            Ok(gate) => gate,
            Err(StoreError::Busy) => return Ok(false),
            Err(e) => return Err(e),
        };
        let mut news: Vec<Published> = Vec::new();
        let mut done = Vec::new();
        for slot in &all {
            let shown = slot.inner.lock();
            if shown.unrecorded.is_none() {
                continue;
            }
            let mut inner = shown.clone();
            match self.catch_up(&gate, slot, &mut inner, &mut news) {
                Ok(_) => done.push((shown, inner)),
                // One file that cannot be read is no reason to leave the others out.
                Err(StoreError::Io { path, source }) => {
                    log::debug!("{}: {source}", path.display());
                }
                Err(e) => return Err(gate.explain(e)),
            }
        }
        if done.is_empty() {
            return Ok(true);
        }
        gate.commit()?;
        for (mut shown, inner) in done {
            *shown = inner;
        }
        self.tell(&news);
        drop(gate);
        Ok(true)
    }

    /// How many files are known and in memory.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for slot in self.slots.read().values() {
            let Some(inner) = slot.inner.try_lock() else {
                counts.known += 1;
                counts.in_memory += 1;
                continue;
            };
            counts.known += usize::from(inner.known);
            counts.unrecorded += usize::from(inner.unrecorded.is_some());
            if let Some(version) = &inner.version {
                counts.in_memory += 1;
                counts.bytes += size(version);
            }
        }
        counts
    }

    /// The file is in use until the answer is dropped: a change behind the mount is noticed soon.
    pub fn watch(&self, file: FileId) -> Watched {
        if let Err(e) = self.current(file) {
            log::debug!("{}: {e}", file.path());
        }
        let slot = self.slot(file);
        slot.watched.fetch_add(1, Ordering::Relaxed);
        Watched(slot)
    }

    pub(super) fn use_of(&self, slot: &Slot) {
        slot.used.store(self.round.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn in_use(&self, slot: &Slot, round: u64) -> bool {
        let used = round.saturating_sub(slot.used.load(Ordering::Relaxed)) <= IN_USE;
        if used || slot.watched.load(Ordering::Relaxed) > 0 {
            return true;
        }
        // Somebody is at work on it right now.
        slot.inner.try_lock().is_none_or(|inner| inner.held())
    }

    /// Looks at the file, unless somebody is at work on it.
    fn glance(&self, slot: &Slot) {
        let Some(mut inner) = slot.inner.try_lock() else { return };
        if inner.version.is_none() && !self.has_changed(slot, inner.print.as_ref()) {
            return;
        }
        let mut news = Vec::new();
        let looked = self.look(slot, &mut inner, &Beside(&self.store), &mut news);
        drop(inner);
        if let Err(e) = looked {
            log::debug!("{}: {e}", slot.file.path());
        }
        self.tell(&news);
    }

    fn has_changed(&self, slot: &Slot, print: Option<&crate::documents::files::Print>) -> bool {
        self.disk.print(slot.file).is_ok_and(|now| now.as_ref() != print)
    }

    /// Lets go of the contents that were used the longest time ago.
    fn let_go(&self, all: &[Arc<Slot>]) {
        let mut idle = Vec::new();
        let (mut count, mut bytes) = (0, 0);
        for slot in all {
            let Some(inner) = slot.inner.try_lock() else { continue };
            let Some(version) = &inner.version else { continue };
            count += 1;
            bytes += size(version);
            if inner.idle() {
                idle.push((slot.used.load(Ordering::Relaxed), size(version), slot));
            }
        }
        idle.sort_by_key(|(used, _, _)| *used);
        for (_, size, slot) in idle {
            if count <= KEPT && bytes <= KEPT_BYTES {
                return;
            }
            if let Some(mut inner) = slot.inner.try_lock()
                && inner.idle()
            {
                (inner.version, inner.archive) = (None, None);
                count -= 1;
                bytes = bytes.saturating_sub(size);
            }
        }
    }
}

/// Somebody waits for news of a file. Keeps nothing of the store alive.
pub struct Watched(Arc<Slot>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.watched.fetch_sub(1, Ordering::Relaxed);
    }
}

fn size(version: &crate::documents::Version) -> u64 {
    version.doc.views().filter_map(|v| version.view(v)).map(|c| c.len()).sum()
}
