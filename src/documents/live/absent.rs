//! Stands in for a document kind that is not served: it has no names and no content.

use std::any::Any;
use std::sync::Arc;

use rusqlite::Connection;

use crate::documents::{Content, Context, DocState, Document, Plan, Refreshed, Save, State};
use crate::model::{DocId, Reason, Refusal, View};
use crate::store::StoreError;

/// The stand-in for this document.
pub(super) struct Absent(pub(super) DocId);

/// Its only version. The archive is that of the newest revision on record, kept as it is.
struct Nothing(Content);

impl DocState for Nothing {
    fn view(&self, _: View) -> Option<Content> {
        None
    }
    fn archive(&self) -> Content {
        self.0.clone()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn refusal() -> Refusal {
    Refusal::new(Reason::Invalid, "this document is not served here")
}

impl Document for Absent {
    fn id(&self) -> DocId {
        self.0
    }
    fn fresh(&self) -> State {
        Arc::new(Nothing(Content::from_chunks([])))
    }
    fn decode(&self, archive: &[u8]) -> Result<State, String> {
        Ok(Arc::new(Nothing(Content::from(archive.to_vec()))))
    }
    fn believe(&self, _: View, _: &[u8], _: &State, _: &Context) -> Result<State, Refusal> {
        Err(refusal())
    }
    fn refresh(
        &self,
        _: &Connection,
        _: &State,
        last: &State,
        _: &Context,
    ) -> Result<Refreshed, StoreError> {
        let next = last.clone();
        Ok(Refreshed { next, changed: false, overlaps: Vec::new(), summary: String::new() })
    }
    fn plan(&self, _: &Save<'_>, _: &Context) -> Result<Plan, Refusal> {
        Err(refusal())
    }
    fn apply(
        &self,
        _: &Connection,
        _: &State,
        after: &State,
        _: &Context,
    ) -> Result<State, StoreError> {
        Ok(after.clone())
    }
}
