//! The missions document: `missions.md` as a view of Kōan's rows.
//!
//! The text is kept as typed (R6); what it means is kept beside it, entry by entry. Every
//! mission has a stable number. Formats: `docs/STORE.md`; merge rules: R3 to R6, R9.

mod apart;
mod apply;
mod archive;
mod batch;
mod books;
mod carry;
mod changed;
mod chunk;
mod compare;
pub(in crate::documents) mod entry;
mod gone;
mod insert;
pub(in crate::documents) mod marker;
mod matching;
mod merge;
mod numbers;
mod order;
mod parse;
mod plan;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod readback;
mod refresh;
mod rematch;
mod render;
mod renew;
mod report;
mod rows;
mod sequence;
mod settle;
mod tally;
mod theirs;
mod tree;

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

pub use entry::{Ci, Entry, Idea, Kind, Mission, Section};
pub use marker::Markers;
pub use report::{ImportReport, report};
pub use tree::MissionsState;

use super::{Context, Document, Plan, Refreshed, Save, State};
use crate::model::{DocId, Reason, Refusal, View};
use crate::store::StoreError;

/// The text of a store in which nothing was ever saved (missions-format section 2).
pub const FRESH: &str = "# Missions\n\n## Pending\n\n## In Progress\n\n## Done\n\n## Failed\n";

/// Why this text is refused, whatever is there now and whatever its writer has seen.
pub fn refusal(text: &[u8]) -> Option<Refusal> {
    compare::checked(text).err()
}

/// The missions document.
#[derive(Default)]
pub struct Missions {
    nested: NestedBullets,
    /// Numbers that the last refresh with waiting rows gave out: the rows alone, refreshed
    /// from the same base right after it, get the same.
    given: Mutex<Option<(State, refresh::Given)>>,
    /// The leaves of the rows with a version that is equal to them.
    followed: Mutex<Option<changed::Followed>>,
}

/// The setting `missions.nested_bullets`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NestedBullets {
    /// Items where Kōan shares the database, else text of the item above.
    #[default]
    Auto,
    /// Always items of their own.
    Item,
    /// Always text of the item above.
    Text,
}

impl NestedBullets {
    /// The value of this name; `None` when there is none.
    pub fn named(name: &str) -> Option<NestedBullets> {
        NestedBullets::ALL.into_iter().find(|value| value.name() == name)
    }

    /// All values.
    pub const ALL: [NestedBullets; 3] =
        [NestedBullets::Auto, NestedBullets::Item, NestedBullets::Text];

    /// What the setting calls it: `auto`, `item`, `text`.
    pub fn name(self) -> &'static str {
        match self {
            NestedBullets::Auto => "auto",
            NestedBullets::Item => "item",
            NestedBullets::Text => "text",
        }
    }
}

impl Missions {
    /// With this setting for indented bullets.
    pub fn new(nested: NestedBullets) -> Missions {
        Missions { nested, ..Missions::default() }
    }

    fn state<'s>(&self, state: &'s State) -> Result<&'s MissionsState, StoreError> {
        MissionsState::of(state).ok_or_else(|| StoreError::Unusable {
            path: "missions.db".into(),
            reason: "a version of another document where missions were expected".to_owned(),
        })
    }

    fn compare_rows(
        &self,
        conn: &Connection,
        base: &State,
        last: &State,
        read: Option<&State>,
        cx: &Context,
    ) -> Result<Refreshed, StoreError> {
        let (base_state, last_state) = (self.state(base)?, self.state(last)?);
        let nested = match self.nested {
            NestedBullets::Auto => rows::shared_with_koan(conn)?,
            NestedBullets::Item => true,
            NestedBullets::Text => false,
        };
        let waiting = !Arc::ptr_eq(base, last);
        let known = self.given.lock().take().filter(|(b, _)| !waiting && Arc::ptr_eq(b, base));
        let known = known.map(|(_, given)| given).unwrap_or_default();
        let read = read.map(|s| self.state(s)).transpose()?;
        if !waiting && read.is_none() {
            return self.compare_part(conn, base, nested, cx, known);
        }
        let rows = rows::read(conn)?;
        let out = refresh::refresh(rows, nested, base_state, last_state, read, cx.now, known);
        if waiting {
            *self.given.lock() = Some((base.clone(), out.given));
        }
        Ok(Refreshed {
            next: Arc::new(out.next),
            changed: out.changed,
            overlaps: out.overlaps,
            summary: out.tally.summary(),
        })
    }
}

impl Document for Missions {
    fn id(&self) -> DocId {
        DocId::Missions
    }

    fn schema(&self) -> &'static str {
        include_str!("shared.sql")
    }

    fn fresh(&self) -> State {
        Arc::new(plan::read(FRESH, self.nested == NestedBullets::Item))
    }

    fn decode(&self, archive: &[u8]) -> Result<State, String> {
        Ok(Arc::new(archive::decode(archive)?))
    }

    fn decode_near(&self, archive: &[u8], near: &State) -> Result<State, String> {
        match MissionsState::of(near) {
            Some(near) => Ok(Arc::new(archive::decode_near(archive, near)?)),
            None => self.decode(archive),
        }
    }

    fn believe(
        &self,
        _view: View,
        text: &[u8],
        near: &State,
        cx: &Context,
    ) -> Result<State, Refusal> {
        let text = compare::checked(text)?;
        let near = MissionsState::of(near)
            .ok_or_else(|| Refusal::new(Reason::Store, "not a version of missions.md"))?;
        Ok(Arc::new(plan::believe(text, near, &cx.now.local_minute())))
    }

    fn refresh(
        &self,
        conn: &Connection,
        base: &State,
        last: &State,
        cx: &Context,
    ) -> Result<Refreshed, StoreError> {
        self.compare_rows(conn, base, last, None, cx)
    }

    fn refresh_after_read(
        &self,
        conn: &Connection,
        base: &State,
        last: &State,
        read: &State,
        cx: &Context,
    ) -> Result<Refreshed, StoreError> {
        self.compare_rows(conn, base, last, Some(read), cx)
    }

    fn plan(&self, save: &Save<'_>, cx: &Context) -> Result<Plan, Refusal> {
        plan::plan(save, cx)
    }

    fn apply(
        &self,
        conn: &Connection,
        before: &State,
        after: &State,
        _cx: &Context,
    ) -> Result<State, StoreError> {
        Ok(Arc::new(apply::apply(conn, self.state(before)?, self.state(after)?)?))
    }

    fn carry(
        &self,
        before: &State,
        after: &State,
        rows: &State,
        cx: &Context,
    ) -> Result<State, StoreError> {
        let (before, after) = (self.state(before)?, self.state(after)?);
        Ok(Arc::new(carry::carry(before, after, self.state(rows)?, cx.now)))
    }

    fn archived_text(&self, view: View, archive: &[u8]) -> Option<Vec<u8>> {
        (view == View::MissionsMd).then(|| archive::text(archive)).flatten()
    }

    fn lost(&self, before: &State, after: &State) -> bool {
        let lines = |state| {
            let state = MissionsState::of(state)?;
            Some(state.slots.iter().map(|s| u64::from(s.core.lines)).sum::<u64>())
        };
        lines(after) < lines(before)
    }

    fn under_missions_lock(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod conformance_tests;
