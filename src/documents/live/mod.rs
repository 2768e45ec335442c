//! The current version of every document, and where a save commits.

mod absent;
mod group;
mod history;
mod later;
mod save;
mod slot;
#[cfg(test)]
mod tests;
mod watch;
mod work;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, RwLock};

use self::absent::Absent;
use self::group::Group;
pub use self::history::BlamedLine;
pub(in crate::documents) use self::history::restored;
use self::later::Later;
use self::slot::{PLACES, Recent, Shown, Slot};
use super::{Context, Document, Version, Written};
use crate::model::{Actor, Basis, Clock, DocId, FileId, Overlap, Refusal, Rev, View};
use crate::store::{Cursor, Store, StoreError};

/// One document for each place.
fn places() -> [DocId; PLACES] {
    let [missions, quarantine, config] = DocId::ALL;
    [missions, quarantine, config, DocId::File(FileId::of(""))]
}

/// A save on its way to the gate.
pub struct SaveRequest<'a> {
    /// The name that was saved.
    pub view: View,
    /// The merge base, committed or believed; `None`: blind.
    pub base: Option<Arc<Version>>,
    /// How it was found.
    pub basis: Basis,
    /// What it wrote.
    pub written: Written<'a>,
    /// What of a managed file was unlinked a moment ago, and that this text takes the place of.
    pub instead_of: Option<InsteadOf>,
    /// Who.
    pub actor: Actor,
    /// The writer or one of its ancestors holds `missions.lock` (R9): commit under it.
    pub under_their_lock: bool,
    /// Commit only while the view's current bytes hash to this.
    pub expect_sha256: Option<[u8; 32]>,
}

/// What was unlinked. As long as there is nothing but what was left, a save is merged with it.
#[derive(Debug, Clone)]
pub struct InsteadOf {
    /// What was there.
    pub was: Arc<Version>,
    /// What was left of it: the lines of a queue that the remover had not read.
    pub left: Option<Arc<Version>>,
}

/// A committed save.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The version after it.
    pub version: Arc<Version>,
    /// What the writer has written (a belief, or `version` itself).
    pub believed: Arc<Version>,
    /// It made a revision; `false`: it was equal to what was there.
    pub changed: bool,
    /// How the merge base was found, and what the text did not have.
    pub basis: Basis,
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

/// The current version of every document that has rows. Managed files are not among them.
pub struct Live {
    store: Arc<Store>,
    /// By [`slot::place`].
    documents: [Arc<dyn Document>; PLACES],
    clock: Arc<dyn Clock>,
    shown: RwLock<Shown>,
    recent: Mutex<Recent>,
    /// Where the last reader of older texts stands.
    cursor: Mutex<Option<Cursor>>,
    listener: RwLock<Option<Listener>>,
    /// Since when a change by the holder of `missions.lock` is kept back.
    half_way_since: Mutex<Option<Instant>>,
    /// The newest version with waiting rows that the holder of `missions.lock` has read.
    read_by_holder: Mutex<Option<Arc<Version>>>,
    /// A save has just had to leave its rows for later.
    rows_wait: (Mutex<bool>, Condvar),
    /// Appends that wait for the one that is being committed.
    group: Group,
    /// Old versions and what they were made of.
    later: Later,
}

impl Live {
    /// Reads the newest versions from the history and compares them with the rows. Documents
    /// whose kind is not given have no names and refuse every save.
    ///
    /// Errors: those of the store; [`StoreError::History`] when a newest version cannot be
    /// read back.
    pub fn open(
        store: Arc<Store>,
        documents: Vec<Arc<dyn Document>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Live, StoreError> {
        let documents = places().map(|doc| {
            let given = documents.iter().find(|d| d.id() == doc).cloned();
            given.unwrap_or_else(|| Arc::new(Absent(doc)))
        });
        if !store.read_only() {
            store.gate(|c| documents.iter().try_for_each(|d| Ok(c.execute_batch(d.schema())?)))?;
        }
        let created = store.created()?;
        let slots = places().map(|doc| {
            let state = documents[slot::place(doc)].fresh();
            let (rows, mtime) = (state.clone(), created);
            let version = Version { doc, rev: Rev(0), mtime, state, belief: false };
            Slot::fresh(Arc::new(version), rows)
        });
        let shown = RwLock::new(Shown { slots, generation: 0, inside: false });
        let (recent, listener) = (Mutex::default(), RwLock::default());
        let live = Live {
            store,
            documents,
            clock,
            shown,
            recent,
            cursor: Mutex::default(),
            listener,
            half_way_since: Mutex::default(),
            read_by_holder: Mutex::default(),
            rows_wait: Default::default(),
            group: Group::default(),
            later: Later::default(),
        };
        live.current(DocId::Missions)?;
        Ok(live)
    }

    /// The store behind it.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// From now on `listener` is called for every new version.
    pub fn set_listener(&self, listener: Listener) {
        *self.listener.write() = Some(listener);
    }

    /// The version that was last published, without asking the database.
    pub fn cached(&self, doc: DocId) -> Arc<Version> {
        self.shown.read().slots[slot::place(doc)].version.clone()
    }

    /// The version of exactly this revision of this document: from memory, else from the
    /// history. Revision 0 is the fresh document. `None`: not (or no longer) on record.
    pub fn at(&self, doc: DocId, rev: Rev) -> Result<Option<Arc<Version>>, StoreError> {
        let now = self.cached(doc);
        if now.rev == rev {
            return Ok(Some(now));
        }
        if let Some(version) = self.recent.lock().get(doc, rev) {
            return Ok(Some(version));
        }
        let kind = &self.documents[slot::place(doc)];
        let (state, mtime) = if rev == Rev(0) {
            (kind.fresh(), self.store.created()?)
        } else {
            let Some(on_record) = self.store.revision(doc, rev)? else { return Ok(None) };
            let Some(bytes) = self.store.archive(doc, rev)? else { return Ok(None) };
            let state = kind
                .decode_near(&bytes, &now.state)
                .map_err(|reason| StoreError::History { doc: doc.as_str(), rev: rev.0, reason })?;
            (state, on_record.at)
        };
        let version = Arc::new(Version { doc, rev, mtime, state, belief: false });
        let old = self.recent.lock().put(version.clone());
        self.later.free(old);
        Ok(Some(version))
    }

    /// A writer's belief, recalled after a restart: `text` under `view` as a version, with the
    /// identities of revision `rev` (of the current version when that is not on record).
    pub fn believe(&self, view: View, text: &[u8], rev: Rev) -> Result<Arc<Version>, SaveError> {
        let doc = view.doc();
        let near = self.at(doc, rev)?.unwrap_or_else(|| self.cached(doc));
        let kind = &self.documents[slot::place(doc)];
        let state = kind.believe(view, text, &near.state, &self.context())?;
        Ok(Arc::new(Version { doc, rev, mtime: near.mtime, state, belief: true }))
    }

    /// Makes all committed work survive power loss (R8); waits for the device, not for other
    /// writers. Ticks call it while [`Store::is_dirty`].
    pub fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }

    /// Housekeeping of the store ([`Store::maintain`]), for a thread that serves nobody.
    pub fn maintain(&self) -> Result<(), StoreError> {
        self.store.maintain(self.clock.now())
    }

    fn context(&self) -> Context {
        Context { now: self.clock.now() }
    }
}
