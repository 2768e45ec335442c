//! Looking through the history: lists of revisions, their numbers, and walks from one to the
//! next.

use rusqlite::{OptionalExtension, params};

use super::history::{COLUMNS, archive, revision};
use super::tables::{rev_in, rev_out};
use super::{Store, StoreError, delta};
use crate::model::{DocId, Rev, Stamp};
use crate::store::Revision;

/// What is on record of one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The oldest revision on record.
    pub oldest: Rev,
    /// The newest.
    pub newest: Rev,
    /// How many.
    pub count: u64,
    /// There were older ones; retention has taken them.
    pub pruned: bool,
}

/// Where a reader of one revision after the other stands.
pub struct Cursor {
    doc: DocId,
    rev: Rev,
    replay: delta::Replay,
}

impl Store {
    /// Revisions with numbers above `after` and below `before`, of one document or of all, the
    /// newest first, at most `limit`.
    pub fn history(
        &self,
        doc: Option<DocId>,
        after: Rev,
        before: Option<Rev>,
        limit: usize,
    ) -> Result<Vec<Revision>, StoreError> {
        self.list(doc, after, before, limit, "DESC")
    }

    /// The same, the oldest first.
    pub fn history_from(
        &self,
        doc: Option<DocId>,
        after: Rev,
        limit: usize,
    ) -> Result<Vec<Revision>, StoreError> {
        self.list(doc, after, None, limit, "ASC")
    }

    fn list(
        &self,
        doc: Option<DocId>,
        after: Rev,
        before: Option<Rev>,
        limit: usize,
        order: &str,
    ) -> Result<Vec<Revision>, StoreError> {
        if self.bare {
            return Ok(Vec::new());
        }
        let which = if doc.is_some() { "doc = ?1" } else { "?1 IS NULL" };
        let sql = format!(
            "SELECT {COLUMNS}, doc FROM ifs_revisions WHERE {which} AND rev > ?2 AND rev < ?3
             ORDER BY rev {order} LIMIT ?4"
        );
        self.read(|c| {
            let before = before.map_or(i64::MAX, rev_out);
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let name = doc.map(DocId::as_str);
            let mut stmt = c.prepare_cached(&sql)?;
            let rows = stmt.query_map(params![name, rev_out(after), before, limit], |r| {
                // A document of a kind that this version does not have is left out.
                let Some(doc) = DocId::parse(&r.get::<_, String>(12)?) else { return Ok(None) };
                revision(doc, r).map(Some)
            })?;
            Ok(rows.filter_map(Result::transpose).collect::<Result<_, _>>()?)
        })
    }

    /// Numbers and times of a document's revisions above `after`, the oldest first, at most
    /// `limit`.
    pub fn numbers(
        &self,
        doc: DocId,
        after: Rev,
        limit: usize,
    ) -> Result<Vec<(Rev, Stamp)>, StoreError> {
        if self.bare {
            return Ok(Vec::new());
        }
        self.read(|c| {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut stmt = c.prepare_cached(
                "SELECT rev, at FROM ifs_revisions WHERE doc = ?1 AND rev > ?2
                 ORDER BY rev LIMIT ?3",
            )?;
            let rows = stmt.query_map(params![doc.as_str(), rev_out(after), limit], |r| {
                Ok((rev_in(r.get(0)?), Stamp(r.get(1)?)))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// When a document's revision was made; `None` when it is not (or no longer) on record.
    pub fn made(&self, doc: DocId, rev: Rev) -> Result<Option<Stamp>, StoreError> {
        if self.bare {
            return Ok(None);
        }
        self.read(|c| super::history::stamp(c, doc, rev))
    }

    /// Which revisions of a document are on record; `None`: none.
    pub fn span(&self, doc: DocId) -> Result<Option<Span>, StoreError> {
        if self.bare {
            return Ok(None);
        }
        self.read(|c| {
            let (oldest, newest, count): (Option<i64>, Option<i64>, i64) = c
                .prepare_cached(
                    "SELECT min(rev), max(rev), count(*) FROM ifs_revisions WHERE doc = ?1",
                )?
                .query_row([doc.as_str()], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
            let (Some(oldest), Some(newest)) = (oldest, newest) else { return Ok(None) };
            // Only a history that was cut begins with a whole archive.
            let pruned = c
                .prepare_cached("SELECT 1 FROM ifs_keyframes WHERE rev = ?1")?
                .query_row([oldest], |_| Ok(()))
                .optional()?
                .is_some();
            let count = u64::try_from(count).unwrap_or(0);
            Ok(Some(Span { oldest: rev_in(oldest), newest: rev_in(newest), count, pruned }))
        })
    }

    /// The archive of a document at exactly this revision, found from where `cursor` stands if
    /// that is nearer: reading one revision after the other costs one delta each. `None` when
    /// it is not on record.
    ///
    /// Errors: [`StoreError::History`] when the chain does not fit together.
    pub fn archive_from(
        &self,
        cursor: &mut Option<Cursor>,
        doc: DocId,
        rev: Rev,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if self.bare {
            return Ok(None);
        }
        self.read(|c| {
            if super::history::stamp(c, doc, rev)?.is_none() {
                return Ok(None);
            }
            let near = cursor.take().filter(|cu| cu.doc == doc && cu.rev <= rev);
            let stands = near.as_ref().map_or(Rev(0), |cu| cu.rev);
            // A whole archive in between is nearer, and the deltas before it may be gone.
            let key: Option<(i64, Vec<u8>)> = c
                .prepare_cached(
                    "SELECT rev, archive FROM ifs_keyframes
                     WHERE doc = ?1 AND rev > ?2 AND rev <= ?3 ORDER BY rev DESC LIMIT 1",
                )?
                .query_row(params![doc.as_str(), rev_out(stands), rev_out(rev)], |r| {
                    Ok((r.get(0)?, r.get(1)?))
                })
                .optional()?;
            let (from, mut replay) = match (key, near) {
                (Some((from, bytes)), _) => (rev_in(from), delta::Replay::new(bytes)),
                (None, Some(near)) => (near.rev, near.replay),
                (None, None) => (Rev(0), delta::Replay::new(Vec::new())),
            };
            let mut stmt = c.prepare_cached(
                "SELECT rev, delta FROM ifs_revisions WHERE doc = ?1 AND rev > ?2 AND rev <= ?3
                 ORDER BY rev",
            )?;
            let mut rows = stmt.query(params![doc.as_str(), rev_out(from), rev_out(rev)])?;
            while let Some(row) = rows.next()? {
                replay.then(row.get(1)?).map_err(|e| StoreError::History {
                    doc: doc.as_str(),
                    rev: rev.0,
                    reason: e.to_string(),
                })?;
            }
            let bytes = replay.bytes();
            *cursor = Some(Cursor { doc, rev, replay });
            Ok(Some(bytes))
        })
    }

    /// Calls `each` with the archive of the revision `from` and of every later one of the
    /// document, the oldest first, all as of one moment. `each` answers whether to go on.
    /// Nothing is called when `from` is not on record.
    ///
    /// Errors: [`StoreError::History`] when the chain does not fit together.
    pub fn walk(
        &self,
        doc: DocId,
        from: Rev,
        mut each: impl FnMut(Rev, Vec<u8>) -> bool,
    ) -> Result<(), StoreError> {
        if self.bare {
            return Ok(());
        }
        self.read(|c| {
            let Some(first) = archive(c, doc, from)? else { return Ok(()) };
            let mut replay = delta::Replay::new(first);
            if !each(from, replay.bytes()) {
                return Ok(());
            }
            let mut stmt = c.prepare_cached(
                "SELECT r.rev, r.delta, k.archive
                 FROM ifs_revisions r LEFT JOIN ifs_keyframes k ON k.rev = r.rev
                 WHERE r.doc = ?1 AND r.rev > ?2 ORDER BY r.rev",
            )?;
            let mut rows = stmt.query(params![doc.as_str(), rev_out(from)])?;
            while let Some(row) = rows.next()? {
                let rev = rev_in(row.get(0)?);
                // Revisions may be missing before a whole archive.
                if let Some(whole) = row.get(2)? {
                    replay = delta::Replay::new(whole);
                    if !each(rev, replay.bytes()) {
                        break;
                    }
                    continue;
                }
                replay.then(row.get(1)?).map_err(|e| StoreError::History {
                    doc: doc.as_str(),
                    rev: rev.0,
                    reason: e.to_string(),
                })?;
                if !each(rev, replay.bytes()) {
                    break;
                }
            }
            Ok(())
        })
    }
}
