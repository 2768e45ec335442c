//! What is kept in memory of each document.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::documents::{Content, State, Version};
use crate::model::{DocId, Overlap, Rev};
use crate::store::DocumentRow;

/// One document. Cheap to clone: everything large is shared.
#[derive(Clone)]
pub(super) struct Slot {
    /// What readers get.
    pub(super) version: Arc<Version>,
    /// The document's row in the database as it was last read or written; `None`: never saved.
    pub(super) row: Option<DocumentRow>,
    /// What the history holds for the newest revision on record: the next delta starts there.
    /// (The state's own archive may have newer row bookkeeping.)
    pub(super) archive: Content,
    /// The rows as they were last seen or made.
    pub(super) rows: State,
    /// The revision that `rows` is, unless `rows_apart`.
    pub(super) rows_rev: Rev,
    /// `rows` equals no revision: another program changed rows while ours waited for
    /// `missions.lock`.
    pub(super) rows_apart: bool,
    /// The newest revision that came from another program's SQL.
    pub(super) outside: Rev,
    /// Versions that were shown and are not on record yet, in order; the last one is `version`.
    pub(super) unrecorded: Vec<Unrecorded>,
    /// The row in the database has to be written.
    pub(super) dirty: bool,
}

/// A version that another program's change has made.
#[derive(Clone)]
pub(super) struct Unrecorded {
    pub(super) version: Arc<Version>,
    pub(super) notes: Notes,
}

/// What the history says of a change by another program.
#[derive(Clone, Default)]
pub(super) struct Notes {
    pub(super) summary: String,
    pub(super) overlaps: Vec<Overlap>,
}

/// So many versions at most wait to be recorded; of more only the newest is.
const KEPT_BACK: usize = 64;

impl Notes {
    /// Of one change and the next.
    fn and(&mut self, next: Notes) {
        self.overlaps.extend(next.overlaps);
        if self.summary.is_empty() {
            self.summary = next.summary;
        } else if !next.summary.is_empty() {
            self.summary = format!("{}; {}", self.summary, next.summary);
        }
    }
}

impl Slot {
    /// A document that was never saved.
    pub(super) fn fresh(version: Arc<Version>, rows: State) -> Slot {
        Slot {
            version,
            row: None,
            archive: Content::from_chunks([]),
            rows,
            rows_rev: Rev(0),
            rows_apart: false,
            outside: Rev(0),
            unrecorded: Vec::new(),
            dirty: false,
        }
    }

    /// The newest revision on record, 0 when there is none.
    pub(super) fn recorded(&self) -> Rev {
        self.row.as_ref().map_or(Rev(0), |r| r.rev)
    }

    /// `version` was made by another program and is shown from now on.
    pub(super) fn show(&mut self, notes: Notes) {
        let version = self.version.clone();
        let full = self.unrecorded.len() == KEPT_BACK;
        match self.unrecorded.last_mut().filter(|_| full) {
            None => self.unrecorded.push(Unrecorded { version, notes }),
            Some(last) => {
                last.version = version;
                last.notes.and(notes);
            }
        }
    }

    /// Rows wait for `missions.lock`.
    pub(super) fn waits(&self) -> bool {
        !Arc::ptr_eq(&self.rows, &self.version.state)
    }
}

/// What readers see of all documents.
pub(super) struct Shown {
    /// By [`place`].
    pub(super) slots: [Slot; PLACES],
    /// Grows with every change of `slots`.
    pub(super) generation: u64,
    /// A gate has taken `slots` and will put changed ones back. Others must not touch them.
    pub(super) inside: bool,
}

/// The place of a document in the array of kinds. That of managed files, which are not kept
/// here, is taken by a kind that refuses everything.
pub(super) fn place(doc: DocId) -> usize {
    match doc {
        DocId::Missions => 0,
        DocId::Quarantine => 1,
        DocId::Config => 2,
        DocId::File(_) => 3,
    }
}

/// How many places there are.
pub(super) const PLACES: usize = DocId::ALL.len() + 1;

/// Versions that were used last.
#[derive(Default)]
pub(super) struct Recent {
    versions: VecDeque<Arc<Version>>,
}

impl Recent {
    const KEPT: usize = 64;
    /// As many with all that was made from them.
    const READY: usize = 16;

    pub(super) fn get(&self, doc: DocId, rev: Rev) -> Option<Arc<Version>> {
        self.versions.iter().rev().find(|v| v.doc == doc && v.rev == rev).cloned()
    }

    /// The answer is no longer kept.
    pub(super) fn put(&mut self, version: Arc<Version>) -> Vec<Arc<Version>> {
        let same = |v: &Arc<Version>| v.doc == version.doc && v.rev == version.rev;
        let mut old = Vec::new();
        if let Some(at) = self.versions.iter().position(same) {
            old.extend(self.versions.remove(at));
        }
        self.versions.push_back(version);
        if let Some(older) = self.versions.len().checked_sub(Self::READY + 1) {
            let bare = self.versions[older].bare();
            old.push(std::mem::replace(&mut self.versions[older], bare));
        }
        if self.versions.len() > Self::KEPT {
            old.extend(self.versions.pop_front());
        }
        old
    }
}
