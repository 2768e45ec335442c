//! What is written inside the store's gate: the history of a managed file.

use std::sync::Arc;

use super::look::{Record, file_row, stranger};
use super::slot::{Inner, Notes, Slot};
use super::{FileDocument, ManagedFiles, Published};
use crate::documents::{Content, Version};
use crate::model::{Actor, Basis, DocId, FileId, Rev, Rule, Stamp, Via};
use crate::store::{DocumentRow, Gate, NewRevision, OnRecord, StoreError, delta, ledger};

/// Asks inside the open transaction.
pub(super) struct Inside<'g>(pub(super) &'g Gate<'g>);

impl Record for Inside<'_> {
    fn on_record(&self, file: FileId) -> Result<OnRecord, StoreError> {
        ledger::on_record(self.0.conn(), file)
    }
    fn archive(&self, file: FileId, rev: Rev) -> Result<Option<Vec<u8>>, StoreError> {
        ledger::archive(self.0.conn(), DocId::File(file), rev)
    }
    fn actor(&self, file: FileId, rev: Rev) -> Result<Option<Actor>, StoreError> {
        ledger::actor(self.0.conn(), DocId::File(file), rev)
    }
}

/// How a change came about, for the history.
pub(super) struct Cause<'a> {
    pub(super) actor: &'a Actor,
    pub(super) base: Option<Rev>,
    pub(super) basis: Basis,
}

impl ManagedFiles {
    /// Looks at the file, and puts a change made behind the mount on record. `inner` is a copy:
    /// it counts when the transaction has been committed. Whether anything was written.
    pub(super) fn catch_up(
        &self,
        gate: &Gate<'_>,
        slot: &Slot,
        inner: &mut Inner,
        news: &mut Vec<Published>,
    ) -> Result<bool, StoreError> {
        let record = Inside(gate);
        let version = self.look(slot, inner, &record, news)?;
        let texts = self.document(slot.file);
        let row = record.on_record(slot.file)?.row;
        let newest = row.map_or(Rev(0), |row| row.rev);
        if newest != inner.recorded {
            self.meet(slot.file, inner, newest, &version, texts, &record, news);
        }
        self.record_outside(gate, slot.file, inner, news)
    }

    /// Another process has put a revision on record since the file was looked at; it is this
    /// very version, or older than it.
    #[expect(clippy::too_many_arguments, reason = "what is shown, what is on record")]
    fn meet(
        &self,
        file: FileId,
        inner: &mut Inner,
        newest: Rev,
        version: &Arc<Version>,
        texts: FileDocument,
        record: &dyn Record,
        news: &mut Vec<Published>,
    ) {
        inner.archive = None;
        inner.recorded = newest;
        inner.found = None;
        if newest != Rev(0) && self.is_archived(file, newest, &version.state, texts, record) {
            inner.unrecorded = None;
            inner.archive = Some(version.state.archive());
            self.renumber(file, inner, newest, news);
        } else if newest == Rev(0) && version.doc.views().all(|v| version.view(v).is_none()) {
            // Its history was taken away, as it is gone.
            inner.unrecorded = None;
        } else {
            // Its history was taken away, or ends with something else.
            inner.unrecorded.get_or_insert_default();
        }
    }

    /// The current version has another number than was thought.
    fn renumber(&self, file: FileId, inner: &mut Inner, rev: Rev, news: &mut Vec<Published>) {
        if inner.rev == rev {
            return;
        }
        inner.rev = rev;
        let Some(shown) = inner.version.take() else { return };
        let version = Arc::new(Version { rev, ..(*shown).clone() });
        let mut told = false;
        for n in news.iter_mut().filter(|n| Arc::ptr_eq(&n.version, &shown)) {
            n.version = Arc::clone(&version);
            told = true;
        }
        if !told {
            news.push(Published {
                version: Arc::clone(&version),
                actor: stranger(),
                doc: DocId::File(file),
                before: shown.rev,
            });
        }
        inner.version = Some(version);
    }

    /// Puts what was found in the file on record. Whether there was anything.
    fn record_outside(
        &self,
        gate: &Gate<'_>,
        file: FileId,
        inner: &mut Inner,
        news: &mut Vec<Published>,
    ) -> Result<bool, StoreError> {
        let Some(notes) = inner.unrecorded.take() else { return Ok(false) };
        let Some(shown) = inner.version.clone() else { return Ok(false) };
        self.record_found(gate, file, inner)?;
        let actor = notes.actor.clone().unwrap_or_else(stranger);
        let basis = Basis::by(Rule::Outside);
        let cause = Cause { actor: &actor, base: None, basis };
        let rev = self.record(gate, file, inner, &shown, Some(shown.rev), &cause, &notes)?;
        self.renumber(file, inner, rev, news);
        Ok(true)
    }

    /// Puts on record what was there before the first change.
    pub(super) fn record_found(
        &self,
        gate: &Gate<'_>,
        file: FileId,
        inner: &mut Inner,
    ) -> Result<(), StoreError> {
        let Some(found) = inner.found.take() else { return Ok(()) };
        let empty = found.doc.views().all(|v| found.view(v).is_none_or(|c| c.is_empty()));
        // A file is made empty before it is written: that is no history.
        if inner.recorded != Rev(0) || empty {
            return Ok(());
        }
        let actor = Actor { via: Via::Import, ..Actor::outside() };
        let basis = Basis::by(Rule::Outside);
        let cause = Cause { actor: &actor, base: None, basis };
        let notes =
            Notes { summary: "as it was found".to_owned(), overlaps: Vec::new(), actor: None };
        self.record(gate, file, inner, &found, None, &cause, &notes)?;
        Ok(())
    }

    /// Writes the history of `version`. What is recorded of the slot follows.
    #[expect(clippy::too_many_arguments, reason = "a revision has that many sides")]
    pub(super) fn record(
        &self,
        gate: &Gate<'_>,
        file: FileId,
        inner: &mut Inner,
        version: &Version,
        rev: Option<Rev>,
        cause: &Cause<'_>,
        notes: &Notes,
    ) -> Result<Rev, StoreError> {
        let doc = DocId::File(file);
        let before = match inner.archive.take() {
            Some(archive) => archive,
            None if inner.recorded == Rev(0) => Content::from_chunks([]),
            None => {
                let bytes = ledger::archive(gate.conn(), doc, inner.recorded)?;
                Content::from(bytes.ok_or_else(|| StoreError::History {
                    doc: doc.as_str(),
                    rev: inner.recorded.0,
                    reason: "it is missing".to_owned(),
                })?)
            }
        };
        let archive = version.state.archive();
        let (old, new): (Vec<_>, Vec<_>) = (before.chunks().collect(), archive.chunks().collect());
        let delta = delta::between(&old, &new);
        let rev = ledger::insert(
            gate.conn(),
            &NewRevision {
                doc,
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
        let mtime = version.mtime;
        ledger::set_document(
            gate.conn(),
            &DocumentRow { doc, rev, rows_rev: rev, rows: None, mtime },
        )?;
        let row = inner.print.as_ref().map(|print| file_row(rev, print, inner.fresh));
        ledger::set_file(gate.conn(), file, row.as_ref())?;
        (inner.recorded, inner.archive) = (rev, Some(archive));
        Ok(rev)
    }

    /// Later than every version before it (R1).
    pub(super) fn next_mtime(&self, inner: &Inner) -> Stamp {
        Stamp(self.clock.now().0.max(inner.mtime.0.saturating_add(1)))
    }
}
