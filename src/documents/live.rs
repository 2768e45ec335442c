//! The current version of every document, and where a save commits.

use std::sync::Arc;

use super::{Version, Written};
use crate::model::{Actor, DocId, Overlap, Refusal, Rev, View};
use crate::store::StoreError;

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
