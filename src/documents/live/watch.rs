//! Reading the current version, whatever other programs do to the database meanwhile (R9).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::slot::{Shown, Slot, place};
use super::work::Work;
use super::{Live, Published, SaveError};
use crate::documents::Version;
use crate::model::DocId;
use crate::store::{Gate, Idle, Look, StoreError};

/// How long one look waits for a commit of ours that is under way.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a reader goes on looking before it takes what was last published.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a change that may be half done is kept back (merge rules, missions).
const HALF_WAY: Duration = Duration::from_secs(1);

impl Live {
    /// The current version, with everything that other programs have committed to the rows.
    /// When nothing has changed this asks one `data_version` and takes no lock that a writer
    /// waits for longer than that.
    ///
    /// A change by others is recorded at once as a revision of its own if the database is
    /// free; otherwise the new version is published and recorded by the next gate, as are those
    /// that come after it.
    ///
    /// Errors: the database cannot be read.
    pub fn current(&self, doc: DocId) -> Result<Arc<Version>, StoreError> {
        match self.store.look() {
            Ok(Look::Same | Look::Busy { known: true }) | Err(StoreError::Busy) => {}
            Ok(Look::Changed(idle)) => self.catch_up(idle)?,
            Ok(Look::Busy { known: false }) => self.catch_up_beside()?,
            Err(e) => return Err(e),
        }
        Ok(self.cached(doc))
    }

    /// Takes in what other programs have committed, for whoever wants no version: a gate of ours
    /// that is at work does it itself, as long as it does not wait for another program.
    ///
    /// Errors: the database cannot be read.
    pub fn notice(&self) -> Result<(), StoreError> {
        match self.store.look_when_idle()? {
            Some(Look::Changed(idle)) => self.catch_up(idle),
            Some(Look::Same | Look::Busy { .. }) => Ok(()),
            None if self.store.is_waiting() => self.current(DocId::Missions).map(drop),
            None => Ok(()),
        }
    }

    /// Takes in what others did. No gate is open: the writer is in our hands. The rows are
    /// compared on a snapshot, so that nobody's writing waits for it; only recording the result
    /// needs the write lock, and if that is not free at once, the next gate does it.
    fn catch_up(&self, mut idle: Idle<'_>) -> Result<(), StoreError> {
        self.snapshot(&mut idle)?;
        let unrecorded = |s: &Slot| !s.unrecorded.is_empty();
        if self.store.read_only() || !self.shown.read().slots.iter().any(unrecorded) {
            return Ok(());
        }
        let Ok(gate) = idle.begin_now(self.anything_waits()) else { return Ok(()) };
        if let Err(e) = self.inside(gate, false, |_, _| Ok(())) {
            // A full disk must not keep anybody from reading.
            log::warn!("a change by another program could not be recorded: {e}");
        }
        Ok(())
    }

    /// The comparison: new versions are published, but not recorded.
    fn snapshot(&self, idle: &mut Idle<'_>) -> Result<(), StoreError> {
        let held = self.lock_is_held();
        idle.snapshot(|conn| {
            let slots = self.shown.read().slots.clone();
            let mut work = Work::new(self, slots, self.clock.now());
            work.refresh(conn)?;
            if self.half_way(&work, held) {
                return Ok(false);
            }
            let news = self.publish(&mut self.shown.write(), work);
            self.tell(&news);
            Ok(true)
        })
    }

    /// The same while a gate of ours is at work. If that gate waits for another program, what
    /// is there is read beside it; else it is about to publish.
    fn catch_up_beside(&self) -> Result<(), StoreError> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.store.is_waiting() {
                if self.read_beside()? {
                    return Ok(());
                }
                continue;
            }
            match self.store.look_within(GLANCE)? {
                Look::Changed(idle) => return self.catch_up(idle),
                Look::Same | Look::Busy { known: true } => return Ok(()),
                Look::Busy { known: false } => {}
            }
        }
        Ok(())
    }

    /// Publishes what a reader's snapshot holds, unless a gate has begun meanwhile.
    fn read_beside(&self) -> Result<bool, StoreError> {
        // Taken before the snapshot: if they are still the published ones afterwards, the
        // snapshot is not older than they are.
        let (slots, generation) = {
            let shown = self.shown.read();
            (shown.slots.clone(), shown.generation)
        };
        let held = self.lock_is_held();
        let mut half_way = false;
        let published = self.store.watch(|conn| {
            let mut work = Work::new(self, slots, self.clock.now());
            work.refresh(conn)?;
            half_way = self.half_way(&work, held);
            let mut shown = self.shown.write();
            if half_way || shown.inside || shown.generation != generation {
                return Ok(false);
            }
            let news = self.publish(&mut shown, work);
            drop(shown);
            self.tell(&news);
            Ok(true)
        })?;
        Ok(published || half_way)
    }

    pub(super) fn lock_is_held(&self) -> bool {
        !self.store.read_only() && self.store.missions_lock_is_theirs().unwrap_or(false)
    }

    /// Another program holds `missions.lock` and something is gone since it began: it replaces
    /// one table after the other, or one row after the other. What it has done so far is not
    /// shown until it lets go, but not for longer than [`HALF_WAY`]. `held`: it was held before
    /// the rows were read; outside a gate they may be older than the unlocking.
    fn half_way(&self, work: &Work<'_>, held: bool) -> bool {
        let gone = work.news.iter().any(|news| {
            let kind = &self.documents[place(news.doc)];
            let before = self.cached(news.doc);
            kind.under_missions_lock() && kind.lost(&before.state, &news.version.state)
        });
        let mut since = self.half_way_since.lock();
        if gone && (held || self.lock_is_held()) {
            let began = *since.get_or_insert_with(Instant::now);
            if began.elapsed() < HALF_WAY {
                return true;
            }
        }
        *since = None;
        false
    }

    /// Rows wait for `missions.lock`.
    pub(super) fn anything_waits(&self) -> bool {
        self.shown.read().slots.iter().any(Slot::waits)
    }

    /// Everything that is done with an open gate: take in what others did, record it, make rows
    /// of what waits, do `work`, commit, publish. When `work` refuses, the rest is committed
    /// all the same; it must not have written anything then. `their_own`: it is done for the
    /// holder of `missions.lock`, who knows what it did.
    pub(super) fn inside<T>(
        &self,
        mut gate: Gate<'_>,
        their_own: bool,
        work: impl FnOnce(&mut Work<'_>, &Gate<'_>) -> Result<T, SaveError>,
    ) -> Result<T, SaveError> {
        let inside = Inside::enter(self);
        let slots = self.shown.read().slots.clone();
        let mut w = Work::new(self, slots, self.clock.now());
        let out = (|| {
            if gate.outside_change() {
                w.refresh(gate.conn())?;
                if !their_own && !gate.has_missions_lock() && self.half_way(&w, false) {
                    let slots = self.shown.read().slots.clone();
                    w = Work::new(self, slots, w.cx.now);
                } else {
                    gate.refreshed();
                    *self.half_way_since.lock() = None;
                }
            }
            w.record_outside(gate.conn())?;
            if gate.has_missions_lock() {
                DocId::ALL.into_iter().try_for_each(|d| w.settle(gate.conn(), d))?;
            }
            let out = match work(&mut w, &gate) {
                Err(SaveError::Store(e)) => return Err(e),
                Err(SaveError::Refused(r)) => Err(r),
                Ok(out) => Ok(out),
            };
            w.write_rows(gate.conn())?;
            Ok(out)
        })();
        let out = out.map_err(|e| gate.explain(e))?;
        gate.commit()?;
        let news = inside.leave(|shown| self.publish(shown, w));
        self.tell(&news);
        drop(gate);
        Ok(out?)
    }

    /// Makes the slots of `work` the published ones; the answer is for [`Live::tell`].
    fn publish(&self, shown: &mut Shown, work: Work<'_>) -> Vec<Published> {
        let old = std::mem::replace(&mut shown.slots, work.slots);
        shown.generation += 1;
        let mut recent = self.recent.lock();
        let gone: Vec<_> =
            work.news.iter().flat_map(|news| recent.put(news.version.clone())).collect();
        drop(recent);
        self.later.free((old, gone));
        work.news
    }

    /// Tells the listener, with no lock of this room held.
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

/// While it lives, only the gate's owner may change what is shown.
struct Inside<'l> {
    live: &'l Live,
    left: bool,
}

impl<'l> Inside<'l> {
    fn enter(live: &'l Live) -> Inside<'l> {
        live.shown.write().inside = true;
        Inside { live, left: false }
    }

    fn leave<T>(mut self, publish: impl FnOnce(&mut Shown) -> T) -> T {
        let mut shown = self.live.shown.write();
        shown.inside = false;
        self.left = true;
        publish(&mut shown)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if !self.left {
            self.live.shown.write().inside = false;
        }
    }
}
