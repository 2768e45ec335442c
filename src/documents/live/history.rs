//! Going back to an older version, and who wrote which line.

use std::sync::Arc;

use super::slot::place;
use super::{Live, SaveError, Saved};
use crate::documents::{Content, Plan, Version};
use crate::model::{Actor, Reason, Refusal, Rev, View};
use crate::store::StoreError;
use crate::text::Blame;

/// A line of a document and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlamedLine {
    /// The revision that last touched it.
    pub rev: Rev,
    /// It may be older: the walk began with this revision.
    pub older: bool,
    /// The line with its end.
    pub text: Vec<u8>,
}

/// The plan of going back to `wanted` (`None`: there was no such file), a text of revision `rev`:
/// refused when it would not be that text, byte for byte.
pub(in crate::documents) fn restored(
    plan: Plan,
    view: View,
    wanted: Option<&[u8]>,
    rev: Rev,
) -> Result<Plan, Refusal> {
    let same = match (plan.next.view(view), wanted) {
        (Some(got), Some(wanted)) => got.len() == wanted.len() as u64 && got.equals(wanted),
        (got, wanted) => got.is_none() && wanted.is_none(),
    };
    if !same {
        let what = format!("revision {rev} cannot be brought back byte for byte");
        return Err(Refusal::new(Reason::Merged, what)
            .hint("take its text with `instancefs show` and save what you need of it"));
    }
    let summary = match plan.summary.as_str() {
        "" => format!("restored from {rev}"),
        what => format!("restored from {rev}: {what}"),
    };
    // The restorer has seen everything that is there.
    Ok(Plan { believed: plan.next.clone(), summary, ..plan })
}

impl Live {
    /// Makes the text under `view` what it was in `old`, byte for byte, as one more revision.
    /// What was changed since then, also by others at the very moment, is undone by it and
    /// stays in the history. Without any difference there is no revision.
    ///
    /// Errors: as [`Live::save`]; refused when that text is not allowed any more, or the name
    /// did not exist then.
    pub fn restore(
        &self,
        view: View,
        old: &Arc<Version>,
        actor: &Actor,
    ) -> Result<Saved, SaveError> {
        let kind = &self.documents[place(view.doc())];
        let missing = || {
            let what = format!("there was no {} in revision {}", view.name(), old.rev);
            Refusal::new(Reason::Invalid, what)
        };
        let wanted = old.view(view).ok_or_else(missing)?;
        self.change(view.doc(), actor, |current, cx| {
            let plan = kind.restore(view, &old.state, current, cx)?;
            restored(plan, view, Some(&wanted.to_vec()), old.rev)
        })
    }

    /// The text under `view` in a revision, for readers of the history: nothing else is made of
    /// it, and reading one after the other is cheap. `None`: not (or no longer) on record, or
    /// the name did not exist.
    ///
    /// Errors: those of the store.
    pub fn text_at(&self, view: View, rev: Rev) -> Result<Option<Content>, StoreError> {
        let doc = view.doc();
        let now = self.cached(doc);
        if now.rev == rev {
            return Ok(now.view(view));
        }
        let archive = self.store.archive_from(&mut self.cursor.lock(), doc, rev)?;
        let Some(archive) = archive else { return Ok(None) };
        let kind = &self.documents[place(doc)];
        if let Some(text) = kind.archived_text(view, &archive) {
            return Ok(Some(Content::from(text)));
        }
        let state = kind.decode(&archive).map_err(|reason| StoreError::History {
            doc: doc.as_str(),
            rev: rev.0,
            reason,
        })?;
        Ok(state.view(view))
    }

    /// Which revision last touched each line of `view`, by its text in the newest revision on
    /// record. At most the newest `limit` revisions are walked through; lines that were there
    /// before are marked [`BlamedLine::older`]. Empty when nothing is on record or the name
    /// does not exist.
    ///
    /// Errors: those of the store.
    pub fn blame(&self, view: View, limit: usize) -> Result<Vec<BlamedLine>, StoreError> {
        let doc = view.doc();
        let kind = &self.documents[place(doc)];
        let newest = self.store.history(Some(doc), Rev(0), None, limit.max(1))?;
        let (Some(first), Some(span)) = (newest.last(), self.store.span(doc)?) else {
            return Ok(Vec::new());
        };
        let cut = span.pruned || first.rev > span.oldest;
        let mut blame = Blame::default();
        let mut failed = None;
        self.store.walk(doc, first.rev, |rev, archive| {
            let lines = match kind.archived_text(view, &archive) {
                Some(lines) => lines,
                None => match kind.decode(&archive) {
                    Ok(state) => state.view(view).map(|c| c.to_vec()).unwrap_or_default(),
                    Err(reason) => {
                        failed = Some((rev, reason));
                        return false;
                    }
                },
            };
            blame.next(rev.0, lines);
            true
        })?;
        if let Some((rev, reason)) = failed {
            return Err(StoreError::History { doc: doc.as_str(), rev: rev.0, reason });
        }
        let line = |(rev, text): (u64, &[u8])| BlamedLine {
            rev: Rev(rev),
            older: cut && rev == first.rev.0,
            text: text.to_vec(),
        };
        Ok(blame.lines().map(line).collect())
    }
}
