//! Following the history: what `wait` and `watch` have in common.
//!
//! A daemon says over its socket that there may be news; the news themselves are read from the
//! history. Without a daemon the database is looked at now and then.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::doc::Doc;
use super::failure::{Failure, Result};
use crate::daemon::control::{Answer, Connection, Request};
use crate::daemon::{Instance, history};
use crate::documents::Version;
use crate::model::{Actor, DocId, FileId, Rev, Via};
use crate::store::{RefusalRow, Revision};
use crate::vfs::ports::Documents;

/// How long the daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time between two looks with a daemon.
const LOOK: Duration = Duration::from_secs(1);
/// The time between two looks without one.
const POLL: Duration = Duration::from_millis(20);
/// A version is published a moment before it is on record: first and longest time to the next
/// look after news of which nothing was found.
const EARLY: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(256));
/// Revisions that are read at once.
const PAGE: usize = 500;

/// Follows the history of one store.
pub struct Follower {
    instance: Instance,
    daemon: Option<Connection>,
    early: Option<Duration>,
    /// The number of the last refusal that was told of.
    refused: i64,
}

impl Follower {
    /// Begins. From here on nothing is missed. `file`: the managed file that is of interest.
    pub fn open(store: &Path, file: Option<FileId>) -> Result<Follower> {
        let daemon = match Connection::open(store) {
            Some(mut daemon) => {
                daemon.ask(&Request::Watch { file: file.map(|f| f.path().to_owned()) })?;
                match daemon.answer(PATIENCE)? {
                    Some(Answer::Watching) => Some(daemon),
                    Some(Answer::Failed { message }) => return Err(Failure::new(message)),
                    _ => None,
                }
            }
            None => None,
        };
        let instance = match file {
            // What was done to the file until now is no news.
            Some(_) => history::look(store, file)?,
            None => Instance::look(store)?,
        };
        let refused = instance.store.refusals(1)?.first().map_or(0, |row| row.id);
        Ok(Follower { instance, daemon, early: None, refused })
    }

    /// The newest revision of the document, or of all.
    pub fn newest(&self, doc: Option<DocId>) -> Result<Rev> {
        let on_record = match doc {
            Some(_) => None,
            None => self.instance.store.history(None, Rev(0), None, 1)?.pop(),
        };
        let mut newest = on_record.map_or(Rev(0), |r| r.rev);
        for doc in looked_at(doc) {
            newest = newest.max(self.instance.documents.current(doc)?.rev);
        }
        Ok(newest)
    }

    /// Revisions after this one, the oldest first; not all at once when they are many.
    pub fn after(&mut self, doc: Option<DocId>, after: Rev) -> Result<Vec<Revision>> {
        let mut found = self.instance.store.history_from(doc, after, PAGE)?;
        if self.daemon.is_none() && found.len() < PAGE {
            self.unrecorded(doc, after, &mut found)?;
        }
        if !found.is_empty() {
            self.early = None;
        }
        Ok(found)
    }

    /// Refusals since the last question, of saves of the document or of all; the oldest first.
    pub fn refusals(&mut self, doc: Option<DocId>) -> Result<Vec<RefusalRow>> {
        let mut found = self.instance.store.refusals_after(self.refused, PAGE)?;
        if let Some(last) = found.last() {
            (self.refused, self.early) = (last.id, None);
        }
        found.retain(|row| doc.is_none_or(|doc| row.view.doc() == doc));
        Ok(found)
    }

    /// The version of a revision that [`Follower::after`] has told of; `None`: it is not kept any
    /// more.
    pub fn version(&self, revision: &Revision) -> Result<Option<Arc<Version>>> {
        let documents = &self.instance.documents;
        if let Some(version) = documents.at(revision.doc, revision.rev)? {
            return Ok(Some(version));
        }
        // Not on record yet.
        let current = documents.current(revision.doc)?;
        Ok(Some(current).filter(|current| current.rev == revision.rev))
    }

    /// The version of this revision of the document.
    pub fn at(&self, doc: &Doc, rev: Rev) -> Result<Arc<Version>> {
        doc.at(&self.instance, rev)
    }

    /// The version that the document had when `rev` was made, be it a revision of another one.
    pub fn as_of(&self, doc: &Doc, rev: Rev) -> Result<Arc<Version>> {
        let store = &self.instance.store;
        let before = Some(Rev(rev.0.saturating_add(1)));
        match store.history(Some(doc.id), Rev(0), before, 1)?.first() {
            Some(newest) => self.at(doc, newest.rev),
            // Older than all that is kept.
            None if store.span(doc.id)?.is_some_and(|span| span.pruned) => self.at(doc, rev),
            None => self.at(doc, Rev(0)),
        }
    }

    /// Its current version.
    pub fn current(&self, doc: &Doc) -> Result<Arc<Version>> {
        Ok(self.instance.documents.current(doc.id)?)
    }

    /// What another program has changed while no daemon puts it on record.
    fn unrecorded(&self, doc: Option<DocId>, after: Rev, found: &mut Vec<Revision>) -> Result<()> {
        for id in looked_at(doc) {
            let version = self.instance.documents.current(id)?;
            if version.rev <= after || self.instance.store.made(id, version.rev)?.is_some() {
                continue;
            }
            found.push(Revision {
                rev: version.rev,
                doc: id,
                at: version.mtime,
                actor: Actor {
                    via: if id.file().is_some() { Via::Store } else { Via::Sql },
                    ..Actor::outside()
                },
                base: None,
                basis: None,
                summary: "changed by another program, not yet on record".to_owned(),
                overlaps: Vec::new(),
                delta_bytes: 0,
            });
        }
        found.sort_by_key(|r| r.rev);
        found.dedup_by_key(|r| r.rev);
        Ok(())
    }

    /// Waits until there may be news, at most this long. `false`: the daemon has ended.
    pub fn pause(&mut self, limit: Duration) -> Result<bool> {
        if let Some(early) = self.early {
            std::thread::sleep(early.min(limit));
            self.early = Some(early * 2).filter(|next| *next <= EARLY.1);
            return Ok(true);
        }
        let Some(daemon) = &mut self.daemon else {
            std::thread::sleep(POLL.min(limit));
            return Ok(true);
        };
        match daemon.news(LOOK.min(limit))? {
            Some(news) => {
                if news {
                    self.early = Some(EARLY.0);
                }
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

/// The documents whose current version is asked for: the one that is meant, else all that every
/// store has.
fn looked_at(doc: Option<DocId>) -> Vec<DocId> {
    doc.map_or_else(|| DocId::ALL.to_vec(), |doc| vec![doc])
}
