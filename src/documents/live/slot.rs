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
    /// What is to be recorded of `version` when it is not on record yet.
    pub(super) unrecorded: Option<Notes>,
    /// The row in the database has to be written.
    pub(super) dirty: bool,
}

/// What the history says of a change by another program.
#[derive(Clone, Default)]
pub(super) struct Notes {
    pub(super) summary: String,
    pub(super) overlaps: Vec<Overlap>,
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
            unrecorded: None,
            dirty: false,
        }
    }

    /// The newest revision on record, 0 when there is none.
    pub(super) fn recorded(&self) -> Rev {
        self.row.as_ref().map_or(Rev(0), |r| r.rev)
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
        if self.versions.len() > Self::KEPT {
            old.extend(self.versions.pop_front());
        }
        old
    }
}
