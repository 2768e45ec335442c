//! The work inside one transaction (or, for readers, on one snapshot): slots are taken out,
//! changed, and put back when it is committed.

use std::sync::Arc;

use rusqlite::Connection;

use super::slot::{Notes, PLACES, Slot, Unrecorded, place};
use super::{Live, Published, Saved};
use crate::documents::{Content, Context, Document, Plan, State, Version};
use crate::model::{Actor, Basis, DocId, Rev, Rule, Stamp};
use crate::store::{DocumentRow, NewRevision, StoreError, delta, ledger};

/// The slots of all documents on their way from one published state to the next.
pub(super) struct Work<'l> {
    live: &'l Live,
    pub(super) slots: [Slot; PLACES],
    pub(super) cx: Context,
    /// New versions, in order.
    pub(super) news: Vec<Published>,
}

/// How a change came about, for the history.
pub(super) struct Cause<'a> {
    pub(super) actor: &'a Actor,
    pub(super) base: Option<Rev>,
    pub(super) basis: Basis,
    /// It may be one that no text shows.
    pub(super) unseen: bool,
}

impl<'l> Work<'l> {
    pub(super) fn new(live: &'l Live, slots: [Slot; PLACES], now: Stamp) -> Work<'l> {
        Work { live, slots, cx: Context { now }, news: Vec::new() }
    }

    fn kind(&self, doc: DocId) -> &'l dyn Document {
        &*self.live.documents[place(doc)]
    }

    pub(super) fn slot(&self, doc: DocId) -> &Slot {
        &self.slots[place(doc)]
    }

    /// Later than every version before it (R1).
    fn next_mtime(&self, doc: DocId) -> Stamp {
        let last = self.slot(doc).version.mtime.0;
        Stamp(self.cx.now.0.max(last.saturating_add(1)))
    }

    /// The time of a version with this state. It moves with the text alone: a change of a column
    /// that is not shown leaves it (R1).
    fn mtime_of(&self, doc: DocId, state: &State) -> Stamp {
        let current = &self.slot(doc).version;
        // Only what stands in rows has columns that no text shows.
        let rows = self.kind(doc).under_missions_lock();
        match rows && doc.views().all(|view| state.view(view) == current.view(view)) {
            true => current.mtime,
            false => self.next_mtime(doc),
        }
    }

    /// Takes in what others did to the rows and to the history. New versions are not on record
    /// yet.
    pub(super) fn refresh(&mut self, conn: &Connection) -> Result<(), StoreError> {
        for doc in DocId::ALL {
            let row = if self.live.store.bare() { None } else { ledger::document(conn, doc)? };
            if row.is_some() && row != self.slot(doc).row {
                self.reload(conn, doc, row)?;
            }
            match self.refresh_rows(conn, doc) {
                // A database that was never ours, looked at: a kind whose tables are not there
                // has no content.
                Err(StoreError::Sqlite(e)) if self.live.store.bare() => {
                    log::warn!("{} has no rows to show: {e}", doc.as_str());
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Another process has committed a revision, or this one has just started.
    fn reload(
        &mut self,
        conn: &Connection,
        doc: DocId,
        row: Option<DocumentRow>,
    ) -> Result<(), StoreError> {
        let Some(row) = row else { return Ok(()) };
        let kind = self.kind(doc);
        let decode =
            |bytes: &[u8], rev: Rev| kind.decode(bytes).map_err(|reason| history(doc, rev, reason));
        let on_record = |rev: Rev| {
            ledger::archive(conn, doc, rev)?
                .ok_or_else(|| history(doc, rev, "it is missing".to_owned()))
        };
        let bytes = on_record(row.rev)?;
        let state = decode(&bytes, row.rev)?;
        let rows = match &row.rows {
            Some(rows) => decode(rows, row.rows_rev)?,
            None if row.rows_rev == row.rev => state.clone(),
            None if row.rows_rev == Rev(0) => kind.fresh(),
            None => decode(&on_record(row.rows_rev)?, row.rows_rev)?,
        };
        let outside = ledger::last_outside(conn, doc)?;
        let slot = &mut self.slots[place(doc)];
        let before = slot.version.rev;
        // The same version as the one that is shown keeps its mtime; so does a newer one,
        // unless another clock is behind ours.
        let mtime = if row.rev == before {
            slot.version.mtime
        } else if before == Rev(0) {
            row.mtime
        } else {
            row.mtime.max(Stamp(slot.version.mtime.0.saturating_add(1)))
        };
        // With the chunks of the version, if it is the same: the next delta finds them shared.
        let archive = Some(state.archive()).filter(|archive| archive.equals(&bytes));
        let archive = archive.unwrap_or_else(|| Content::from(bytes));
        let version = Arc::new(Version { doc, rev: row.rev, mtime, state, belief: false });
        *slot = Slot {
            version: version.clone(),
            archive,
            rows,
            rows_rev: row.rows_rev,
            rows_apart: row.rows.is_some(),
            outside,
            unrecorded: Vec::new(),
            dirty: false,
            row: Some(row),
        };
        if version.rev != before {
            let actor = ledger::actor(conn, doc, version.rev)?.unwrap_or_else(Actor::outside);
            self.news.push(Published { version, actor, doc, before });
        }
        Ok(())
    }

    fn refresh_rows(&mut self, conn: &Connection, doc: DocId) -> Result<(), StoreError> {
        let kind = self.kind(doc);
        let slot = self.slot(doc);
        let waits = slot.waits();
        let (rows, last) = (slot.rows.clone(), slot.version.state.clone());
        let read = match waits {
            true => self.live.read_by_holder.lock().clone().filter(|v| v.doc == doc),
            false => None,
        };
        let found = match read {
            Some(read) => kind.refresh_after_read(conn, &rows, &last, &read.state, &self.cx)?,
            None => kind.refresh(conn, &rows, &last, &self.cx)?,
        };
        // While ours wait, the rows are a version of their own.
        let rows = match waits {
            true => Some(kind.refresh(conn, &rows, &rows, &self.cx)?),
            false => None,
        };
        let mtime = match found.changed {
            true => self.mtime_of(doc, &found.next),
            false => self.slot(doc).version.mtime,
        };
        let rev = self.provisional(conn)?;
        let slot = &mut self.slots[place(doc)];
        let before = slot.version.clone();
        let rev = if found.changed { rev } else { before.rev };
        let state = found.next;
        slot.rows = match rows {
            Some(rows) => {
                slot.rows_apart |= rows.changed;
                slot.dirty |= rows.changed;
                rows.next
            }
            None => state.clone(),
        };
        if found.changed || !Arc::ptr_eq(&state, &before.state) {
            slot.version = Arc::new(Version { doc, rev, mtime, state, belief: false });
        }
        if found.changed {
            slot.show(Notes { summary: found.summary, overlaps: found.overlaps });
            let version = slot.version.clone();
            let actor = Actor::outside();
            self.news.push(Published { version, actor, doc, before: before.rev });
        }
        Ok(())
    }

    /// The number that the next revision will have, if no other process is faster.
    fn provisional(&self, conn: &Connection) -> Result<Rev, StoreError> {
        let on_record = match self.live.store.bare() {
            true => Rev(0),
            false => ledger::last_rev(conn)?,
        };
        let shown = self.slots.iter().map(|s| s.version.rev).max().unwrap_or_default();
        Ok(Rev(on_record.max(shown).0 + 1))
    }

    /// Records the versions that other programs' changes have made.
    pub(super) fn record_outside(&mut self, conn: &Connection) -> Result<(), StoreError> {
        let mut all: Vec<(Unrecorded, bool)> = Vec::new();
        for slot in &mut self.slots {
            let waiting = std::mem::take(&mut slot.unrecorded);
            let last = waiting.len().saturating_sub(1);
            all.extend(waiting.into_iter().enumerate().map(|(n, one)| (one, n == last)));
        }
        all.sort_by_key(|(one, _)| one.version.rev);
        for (Unrecorded { version, notes }, last) in all {
            let doc = version.doc;
            // The rows of the current one are kept better account of by now.
            let shown = if last { self.slot(doc).version.clone() } else { version };
            let basis = Basis::by(Rule::Outside);
            let cause = Cause { actor: &Actor::outside(), base: None, basis, unseen: false };
            let rev = self.record(conn, &shown, Some(shown.rev), &cause, &notes)?;
            self.slots[place(doc)].outside = rev;
            if rev != shown.rev {
                let version = Arc::new(Version { rev, ..(*shown).clone() });
                if last {
                    self.slots[place(doc)].version = version.clone();
                }
                for n in self.news.iter_mut().filter(|n| Arc::ptr_eq(&n.version, &shown)) {
                    n.version = version.clone();
                }
            }
        }
        Ok(())
    }

    /// Writes the history of `version`. The slot's row follows.
    fn record(
        &mut self,
        conn: &Connection,
        version: &Version,
        rev: Option<Rev>,
        cause: &Cause<'_>,
        notes: &Notes,
    ) -> Result<Rev, StoreError> {
        let archive = version.state.archive();
        let slot = &mut self.slots[place(version.doc)];
        let (old, new): (Vec<_>, Vec<_>) =
            (slot.archive.chunks().collect(), archive.chunks().collect());
        let delta = delta::between(&old, &new);
        let rev = ledger::insert(
            conn,
            &NewRevision {
                doc: version.doc,
                rev,
                at: version.mtime,
                actor: cause.actor,
                base: cause.base,
                basis: &cause.basis,
                summary: &notes.summary,
                overlaps: &notes.overlaps,
                delta: &delta,
            },
        )?;
        self.live.later.free(std::mem::replace(&mut slot.archive, archive));
        if Arc::ptr_eq(&slot.rows, &version.state) {
            slot.rows_rev = rev;
            slot.rows_apart = false;
        }
        slot.row = Some(DocumentRow {
            doc: version.doc,
            rev,
            rows_rev: slot.rows_rev,
            rows: None,
            mtime: version.mtime,
        });
        slot.dirty = true;
        Ok(rev)
    }

    /// Commits a planned change. `rows`: the rows may be changed now; else they wait for
    /// `missions.lock`.
    pub(super) fn change(
        &mut self,
        conn: &Connection,
        doc: DocId,
        plan: Plan,
        cause: &Cause<'_>,
        rows: bool,
    ) -> Result<Saved, StoreError> {
        let Plan { next, believed, overlaps, summary } = plan;
        let current = self.slot(doc).version.clone();
        let changed = !Arc::ptr_eq(&next, &current.state);
        let same_belief = Arc::ptr_eq(&next, &believed);
        let version = if changed {
            let state = match rows {
                true if self.slot(doc).waits() => {
                    // The saver holds `missions.lock`. Rows that nobody could read there must
                    // not appear meanwhile: its next replace-all would remove them unseen.
                    let (kind, slot) = (self.kind(doc), self.slot(doc));
                    let own = kind.carry(&current.state, &next, &slot.rows, &self.cx)?;
                    let own = kind.apply(conn, &slot.rows, &own, &self.cx)?;
                    let slot = &mut self.slots[place(doc)];
                    (slot.rows, slot.rows_apart) = (own, true);
                    next
                }
                true => {
                    let state =
                        self.kind(doc).apply(conn, &self.slot(doc).rows, &next, &self.cx)?;
                    self.slots[place(doc)].rows = state.clone();
                    self.live.later.free(next);
                    state
                }
                false => next,
            };
            let mtime = match cause.unseen {
                true => self.mtime_of(doc, &state),
                false => self.next_mtime(doc),
            };
            let mut version = Version { doc, rev: Rev(0), mtime, state, belief: false };
            let notes = Notes { summary, overlaps: overlaps.clone() };
            version.rev = self.record(conn, &version, None, cause, &notes)?;
            let version = Arc::new(version);
            self.slots[place(doc)].version = version.clone();
            self.news.push(Published {
                version: version.clone(),
                actor: cause.actor.clone(),
                doc,
                before: current.rev,
            });
            version
        } else {
            current
        };
        let believed = match same_belief {
            true => version.clone(),
            false => Arc::new(Version { state: believed, belief: true, ..(*version).clone() }),
        };
        Ok(Saved { version, believed, changed, basis: cause.basis.clone(), overlaps })
    }

    /// Makes rows of what waits for `missions.lock`, which somebody has to hold.
    pub(super) fn settle(&mut self, conn: &Connection, doc: DocId) -> Result<(), StoreError> {
        let slot = self.slot(doc);
        if !slot.waits() {
            return Ok(());
        }
        let state = self.kind(doc).apply(conn, &slot.rows, &slot.version.state, &self.cx)?;
        let recorded = slot.recorded();
        let slot = &mut self.slots[place(doc)];
        slot.version = Arc::new(Version { state: state.clone(), ..(*slot.version).clone() });
        slot.rows = state;
        slot.rows_rev = recorded;
        slot.rows_apart = false;
        slot.dirty = true;
        Ok(())
    }

    /// Writes the documents' rows where they have changed.
    pub(super) fn write_rows(&mut self, conn: &Connection) -> Result<(), StoreError> {
        for slot in self.slots.iter_mut().filter(|s| s.dirty) {
            let rows = slot.rows_apart.then(|| slot.rows.archive().to_vec());
            let row = DocumentRow {
                doc: slot.version.doc,
                rev: slot.recorded(),
                rows_rev: slot.rows_rev,
                rows,
                mtime: slot.version.mtime,
            };
            if row.rev != Rev(0) {
                ledger::set_document(conn, &row)?;
                slot.row = Some(row);
            }
            slot.dirty = false;
        }
        Ok(())
    }
}

fn history(doc: DocId, rev: Rev, reason: String) -> StoreError {
    StoreError::History { doc: doc.as_str(), rev: rev.0, reason }
}
