//! The missions document: `missions.md` as a view of Kōan's rows.
//!
//! The text is kept as typed (R6); what it means is kept beside it, entry by entry. Every
//! mission has a stable number. Formats: `docs/STORE.md`; merge rules: R3 to R6, R9.

mod apply;
mod archive;
mod compare;
mod entry;
mod insert;
mod marker;
mod matching;
mod merge;
mod parse;
mod plan;
mod refresh;
mod render;
mod report;
mod rows;
mod sequence;
mod tree;

use std::sync::Arc;

use rusqlite::Connection;

pub use entry::{Ci, Entry, Idea, Kind, Mission, Section};
pub use marker::Markers;
pub use report::{ImportReport, report};
pub use rows::migrate;
pub use tree::MissionsState;

use super::{Context, Document, Plan, Refreshed, Save, State};
use crate::model::{DocId, Reason, Refusal, View};
use crate::store::StoreError;

/// The text of a store in which nothing was ever saved (missions-format section 2).
pub const FRESH: &str = "# Missions\n\n## Pending\n\n## In Progress\n\n## Done\n\n## Failed\n";

/// The missions document.
#[derive(Debug, Clone, Copy, Default)]
pub struct Missions {
    /// Whether indented bullets are items of their own (`missions.nested_bullets`).
    pub nested: NestedBullets,
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

impl Missions {
    fn state<'s>(&self, state: &'s State) -> Result<&'s MissionsState, StoreError> {
        MissionsState::of(state).ok_or_else(|| StoreError::Unusable {
            path: "missions.db".into(),
            reason: "a version of another document where missions were expected".to_owned(),
        })
    }
}

impl Document for Missions {
    fn id(&self) -> DocId {
        DocId::Missions
    }

    fn schema(&self) -> &'static str {
        include_str!("schema.sql")
    }

    fn fresh(&self) -> State {
        Arc::new(plan::read(FRESH, self.nested == NestedBullets::Item))
    }

    fn decode(&self, archive: &[u8]) -> Result<State, String> {
        Ok(Arc::new(archive::decode(archive)?))
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
        let (base, last_state) = (self.state(base)?, self.state(last)?);
        let nested = match self.nested {
            NestedBullets::Auto => rows::shared_with_koan(conn)?,
            NestedBullets::Item => true,
            NestedBullets::Text => false,
        };
        let out = refresh::refresh(rows::read(conn)?, nested, base, last_state, cx.now);
        Ok(Refreshed {
            next: Arc::new(out.next),
            changed: out.changed,
            overlaps: out.overlaps,
            summary: out.tally.summary(),
        })
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

    fn archived_text(&self, view: View, archive: &[u8]) -> Option<Vec<u8>> {
        (view == View::MissionsMd).then(|| archive::text(archive)).flatten()
    }

    fn under_missions_lock(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod conformance;
