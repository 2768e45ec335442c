//! Document kinds: how rows become a text and how a saved text becomes rows.
//!
//! A kind implements [`Document`]. It knows nothing of handles, processes or transactions:
//! [`live::Live`] keeps the current version of each document, opens the gate, calls
//! [`Document::refresh`] (what did other programs do to the rows?), [`Document::plan`] (what
//! does this save change?) and [`Document::apply`] (write it), and keeps the history.
//!
//! A [`State`] is one immutable version in the kind's own form. It shares structure with its
//! predecessors, renders itself as a [`Content`] per view, and as an *archive*: the bytes that
//! the history keeps, from which [`Document::decode`] makes an equal state again.

pub mod config;
mod content;
pub mod entries;
pub mod files;
pub mod hopeless;
pub mod live;
pub mod managed;
pub mod missions;
pub mod quarantine;
pub mod settings;
pub mod unresolved;

use std::any::Any;
use std::sync::Arc;

use rusqlite::Connection;

pub use content::Content;

use crate::model::{DocId, Overlap, Reason, Refusal, Rev, Stamp, View};
use crate::store::StoreError;

/// One version of a document in the form of its kind.
pub trait DocState: Any + Send + Sync {
    /// The bytes shown under this name; `None` when the name does not exist in this version
    /// (a store without a config shows neither `config.json` nor `config.yaml`).
    fn view(&self, view: View) -> Option<Content>;

    /// What the history keeps of this version. Shares chunks with the archives of the
    /// versions that it was made from.
    fn archive(&self) -> Content;

    /// The name that holds what somebody wrote, when there are several; the others follow it.
    fn source(&self) -> Option<View> {
        None
    }

    /// The same without what can be made again from it, where that takes much memory.
    fn bare(&self) -> Option<State> {
        None
    }

    /// For downcasts by the kind itself.
    fn as_any(&self) -> &dyn Any;
}

/// A shared, immutable [`DocState`].
pub type State = Arc<dyn DocState>;

/// What a writer handed over.
#[derive(Debug, Clone, Copy)]
pub enum Written<'a> {
    /// The whole file as it should be.
    Whole(&'a [u8]),
    /// Bytes for the end of the file (R5): an append adds, it never edits.
    Fragment(&'a [u8]),
    /// The file is to go (`unlink`). Only of managed files: other documents go on (section 6).
    Removed,
}

/// The three versions of a save.
pub struct Save<'a> {
    /// The name that was saved.
    pub view: View,
    /// What the writer had seen; `None`: nothing, the save is blind and only adds (R3).
    pub seen: Option<&'a State>,
    /// What it wrote.
    pub written: Written<'a>,
    /// The version current in this transaction.
    pub current: &'a State,
    /// Rows were changed by another program's SQL after `seen` was current (merge.md: an
    /// export by that program does not delete people's layout lines).
    pub outside_since_seen: bool,
    /// The rows as they stand, without the saves that wait for `missions.lock`; only for a
    /// writer that holds it. Such a writer may be showing what it has just put there (R9).
    pub rows: Option<&'a State>,
}

/// Why a document with rows is not removed: an unlink of its name touches no row (section 6).
pub fn never_removed(view: View) -> Refusal {
    Refusal::new(Reason::Invalid, format!("{} cannot be removed", view.name()))
}

/// What does not come from the three versions.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// Now; the same for everything in one transaction.
    pub now: Stamp,
}

/// What a save changes. Made by a pure function, applied by [`Document::apply`].
pub struct Plan {
    /// The version after the save. The same `Arc` as `current` when nothing changes; then
    /// there is no revision.
    pub next: State,
    /// What the writer believes to be there now: what it wrote, with the identities that the
    /// merge found (after an append: what it had seen plus its own lines). The same `Arc` as
    /// `next` when the two are equal.
    pub believed: State,
    /// Where it met other changes (R4).
    pub overlaps: Vec<Overlap>,
    /// One line for the history, such as `2 added, 1 done`.
    pub summary: String,
}

/// What other programs did to the rows.
pub struct Refreshed {
    /// The version with their changes merged in, row bookkeeping (ids, sequences) up to date.
    pub next: State,
    /// The text or anything that the archive keeps is different from before. `false` means
    /// that only bookkeeping was renewed.
    pub changed: bool,
    /// Where their changes met ours.
    pub overlaps: Vec<Overlap>,
    /// One line for the history.
    pub summary: String,
}

/// A document kind.
pub trait Document: Send + Sync + 'static {
    /// Which document.
    fn id(&self) -> DocId;

    /// SQL that makes the kind's own tables (prefix `ifs_`) where they are missing; run at
    /// every start, inside a transaction. The tables shared with other programs are made by
    /// the store.
    fn schema(&self) -> &'static str {
        ""
    }

    /// The version of a store in which nothing was ever saved.
    fn fresh(&self) -> State;

    /// The version whose archive these bytes are. `Err` says what is wrong with them.
    fn decode(&self, archive: &[u8]) -> Result<State, String>;

    /// The same, sharing with `near` what is equal, so that old versions take little memory.
    fn decode_near(&self, archive: &[u8], near: &State) -> Result<State, String> {
        let _ = near;
        self.decode(archive)
    }

    /// The text of `view` as a version of its own, with the identities of `near` wherever
    /// they match: a writer's belief, recalled from the store after a restart.
    fn believe(
        &self,
        view: View,
        text: &[u8],
        near: &State,
        cx: &Context,
    ) -> Result<State, Refusal>;

    /// Compares the rows with `base`, the version that they were last made equal to, and
    /// carries the differences over to `last`, the newest version (`last` differs from `base`
    /// only while rows wait for `missions.lock`, R9). Called inside a transaction or on a read
    /// snapshot. A bad row becomes a visible line, never an error (architecture rule 6).
    fn refresh(
        &self,
        conn: &Connection,
        base: &State,
        last: &State,
        cx: &Context,
    ) -> Result<Refreshed, StoreError>;

    /// The same after a program that holds `missions.lock` has read `read`, a version with
    /// changes that wait for the lock: it may have made rows of what it read there, and these
    /// are the same missions (R9).
    fn refresh_after_read(
        &self,
        conn: &Connection,
        base: &State,
        last: &State,
        read: &State,
        cx: &Context,
    ) -> Result<Refreshed, StoreError> {
        let _ = read;
        self.refresh(conn, base, last, cx)
    }

    /// What the save changes, or why it is refused. Pure; cost by the size of the change once
    /// the texts have been compared. A `Fragment` costs by its own size.
    fn plan(&self, save: &Save<'_>, cx: &Context) -> Result<Plan, Refusal>;

    /// The change that makes `view` what it is in `old`, byte for byte; refused when that text
    /// would be. The default saves that text as a writer who has seen `current`.
    fn restore(
        &self,
        view: View,
        old: &State,
        current: &State,
        cx: &Context,
    ) -> Result<Plan, Refusal> {
        let text = old.view(view).map(|c| c.to_vec()).unwrap_or_default();
        let save = Save {
            view,
            seen: Some(current),
            written: Written::Whole(&text),
            current,
            outside_since_seen: false,
            rows: None,
        };
        self.plan(&save, cx)
    }

    /// The text of `view` in an archive, when that can be had without reading the whole state.
    fn archived_text(&self, view: View, archive: &[u8]) -> Option<Vec<u8>> {
        let _ = (view, archive);
        None
    }

    /// Makes the rows, which are equal to `before`, equal to `after`, touching only rows that
    /// differ. Returns `after` with its row bookkeeping filled in. The cost follows the
    /// difference: chunks shared by the two are skipped by pointer.
    fn apply(
        &self,
        conn: &Connection,
        before: &State,
        after: &State,
        cx: &Context,
    ) -> Result<State, StoreError>;

    /// `rows` with what is different between `before` and `after`: the change of a writer that
    /// holds `missions.lock` while earlier saves wait for it. Those are in `before` and `after`
    /// and do not become rows by this (R9). Only for kinds whose rows can wait.
    fn carry(
        &self,
        before: &State,
        after: &State,
        rows: &State,
        cx: &Context,
    ) -> Result<State, StoreError> {
        let _ = (before, rows, cx);
        Ok(after.clone())
    }

    /// Whether something of `before` is gone in `after`, rather than moved, edited or added. Asked
    /// only after a change by another program that holds `missions.lock`: it may be half way
    /// through replacing everything. The default compares the number of lines.
    fn lost(&self, before: &State, after: &State) -> bool {
        let lines = |state: &State| -> usize {
            let contents = self.id().views().filter_map(|v| state.view(v));
            let count = |c: &[u8]| c.iter().filter(|b| **b == b'\n').count();
            contents.map(|c| c.chunks().map(|chunk| count(chunk)).sum::<usize>()).sum()
        };
        lines(after) < lines(before)
    }

    /// Whether its rows are shared with programs that lock `missions.lock` (R9).
    fn under_missions_lock(&self) -> bool {
        false
    }
}

/// One version of one document, committed or believed.
#[derive(Clone)]
pub struct Version {
    /// The document.
    pub doc: DocId,
    /// The revision that made it; of a belief: the newest revision that it takes into account.
    pub rev: Rev,
    /// Its modification time. No two versions of a document have the same.
    pub mtime: Stamp,
    /// Its content.
    pub state: State,
    /// It is what a writer believes, not what was committed.
    pub belief: bool,
}

impl Version {
    /// The bytes under this name, `None` when the name does not exist in this version.
    pub fn view(&self, view: View) -> Option<Content> {
        self.state.view(view)
    }

    /// For who keeps it for long: the same without what can be made again from it.
    pub fn bare(self: &Arc<Version>) -> Arc<Version> {
        match self.state.bare() {
            Some(state) => Arc::new(Version { state, ..Version::clone(self) }),
            None => Arc::clone(self),
        }
    }
}

impl std::fmt::Debug for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {}{}",
            self.doc.as_str(),
            self.rev,
            if self.belief { " (belief)" } else { "" }
        )
    }
}
