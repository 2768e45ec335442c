//! What has become of the last saves, for their writers: `user.instancefs.last-save`.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::documents::live::Saved;
use crate::fs::observed::Who;
use crate::model::{DocId, Refusal, View};

/// Saves that are remembered, one for each writer and document.
const KEPT: usize = 256;

struct Last {
    writer: Who,
    doc: DocId,
    said: Value,
}

/// The last save of each writer.
#[derive(Default)]
pub struct LastSaves(Mutex<VecDeque<Last>>);

impl LastSaves {
    fn note(&self, writer: &Who, view: View, said: Value) {
        let doc = view.doc();
        let mut all = self.0.lock();
        all.retain(|last| last.doc != doc || last.writer != *writer);
        if all.len() >= KEPT {
            all.pop_front();
        }
        all.push_back(Last { writer: writer.clone(), doc, said });
    }

    /// It was committed, or was no change.
    pub(super) fn saved(&self, writer: &Who, view: View, saved: &Saved) {
        let result = if saved.changed { "saved" } else { "unchanged" };
        self.note(
            writer,
            view,
            json!({
                "file": view.name(),
                "result": result,
                "rev": saved.version.rev.0,
                "basis": saved.basis,
                "overlaps": saved.overlaps,
            }),
        );
    }

    /// It was refused.
    pub(super) fn refused(
        &self,
        writer: &Who,
        view: View,
        refusal: &Refusal,
        kept_as: Option<&str>,
    ) {
        self.note(
            writer,
            view,
            json!({
                "file": view.name(),
                "result": "refused",
                "reason": refusal.reason.as_str(),
                "line": refusal.line,
                "key": refusal.key,
                "message": refusal.message,
                "hint": refusal.hint,
                "kept_as": kept_as,
            }),
        );
    }

    /// The newest one of a document by a writer that `is_kin`, as JSON.
    pub(super) fn of(&self, view: View, is_kin: &dyn Fn(&Who) -> bool) -> Option<Vec<u8>> {
        let of_doc: Vec<(Who, Value)> = {
            let all = self.0.lock();
            let of_doc = all.iter().rev().filter(|last| last.doc == view.doc());
            of_doc.map(|last| (last.writer.clone(), last.said.clone())).collect()
        };
        let (_, said) = of_doc.into_iter().find(|(writer, _)| is_kin(writer))?;
        serde_json::to_vec(&said).ok()
    }
}
