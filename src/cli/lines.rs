//! `instancefs watch --lines`: the lines of a document as they come, change and go.

use serde_json::json;

use super::doc::Doc;
use super::failure::Result;
use super::follow::Follower;
use super::log::who;
use super::output::shown;
use crate::documents::Version;
use crate::model::Rev;
use crate::store::Revision;
use crate::text::{Change, changes};

/// A document whose lines are followed from one revision to the next.
pub struct Lines {
    doc: Doc,
    text: Vec<u8>,
    json: bool,
}

impl Lines {
    /// Begins at the version after the revision `since`, else at the current one. Answers with the
    /// revision that this is, too.
    pub fn open(
        doc: Doc,
        since: Option<Rev>,
        follower: &Follower,
        json: bool,
    ) -> Result<(Lines, Rev)> {
        let start = match (since, doc.rev) {
            (Some(since), _) => follower.as_of(&doc, since)?,
            (None, Some(rev)) => follower.at(&doc, rev)?,
            (None, None) => follower.current(&doc)?,
        };
        let lines = Lines { text: text(&doc, &start), doc, json };
        Ok((lines, since.unwrap_or(start.rev)))
    }

    /// What a revision has done to the lines, one printed line for each. Nothing when its text is
    /// not kept any more: then the next one that is says it all.
    pub fn of(&mut self, revision: &Revision, follower: &Follower) -> Result<Vec<String>> {
        let Some(version) = follower.version(revision)? else { return Ok(Vec::new()) };
        let new = text(&self.doc, &version);
        let printed = changes(&self.text, &new)
            .into_iter()
            .map(|(change, line)| {
                let line = String::from_utf8_lossy(line);
                if self.json {
                    let change = match change {
                        Change::Added => "added",
                        Change::Changed => "changed",
                        Change::Removed => "removed",
                    };
                    let (rev, at, by) = (revision.rev.0, revision.at.iso(), who(&revision.actor));
                    json!({"rev": rev, "at": at, "change": change, "line": line, "by": by})
                        .to_string()
                } else {
                    let sign = match change {
                        Change::Added => '+',
                        Change::Changed => '~',
                        Change::Removed => '-',
                    };
                    format!("{sign} {}", shown(&line))
                }
            })
            .collect();
        self.text = new;
        Ok(printed)
    }
}

/// The text under the name that is meant; none when the document is not there.
fn text(doc: &Doc, version: &Version) -> Vec<u8> {
    version.view(doc.view_in(version)).map(|content| content.to_vec()).unwrap_or_default()
}
