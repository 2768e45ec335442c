//! Revisions: who changed what, when, from which version; and the archive of each, kept as a
//! chain of deltas with a whole archive now and then.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::tables::{rev_in, rev_out};
use super::{Store, StoreError, delta};
use crate::model::{Actor, Basis, DocId, Overlap, Rev, Stamp, Via};

/// A revision to be recorded.
#[derive(Debug)]
pub struct NewRevision<'a> {
    /// The document.
    pub doc: DocId,
    /// The number, when it was given out before; else the next one is taken.
    pub rev: Option<Rev>,
    /// When; also the mtime of the version.
    pub at: Stamp,
    /// Who.
    pub actor: &'a Actor,
    /// What the writer had seen; `None`: nothing.
    pub base: Option<Rev>,
    /// How the merge base was found (SEMANTICS, section 4).
    pub basis: &'a Basis,
    /// One line.
    pub summary: &'a str,
    /// Where it met other changes.
    pub overlaps: &'a [Overlap],
    /// From the archive of the document's revision before ([`delta::between`]).
    pub delta: &'a [u8],
}

/// A revision on record, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Its number.
    pub rev: Rev,
    /// The document.
    pub doc: DocId,
    /// When; also the mtime of the version.
    pub at: Stamp,
    /// Who.
    pub actor: Actor,
    /// What the writer had seen; `None`: nothing.
    pub base: Option<Rev>,
    /// How the merge base was found; `None`: an append, another program's change, or a revision of a
    /// version before 0.2.
    pub basis: Option<Basis>,
    /// One line.
    pub summary: String,
    /// Where it met other changes (R4).
    pub overlaps: Vec<Overlap>,
    /// Size of the change on record, in bytes.
    pub delta_bytes: u64,
}

pub(super) const COLUMNS: &str =
    "rev, at, pid, uid, session, program, via, base_rev, basis, summary,
    overlaps, length(delta)";

/// Records a revision, inside the caller's transaction. A number that is taken already
/// (by another process) is replaced by the next free one.
pub(crate) fn insert(conn: &Connection, new: &NewRevision<'_>) -> Result<Rev, StoreError> {
    let overlaps = match new.overlaps {
        [] => None,
        some => serde_json::to_string(some).ok(),
    };
    let rev = match new.rev {
        Some(rev) if rev > last_rev(conn)? => Some(rev_out(rev)),
        _ => None,
    };
    conn.prepare_cached(
        "INSERT INTO ifs_revisions (rev, doc, at, pid, uid, session, program, via, base_rev,
         basis, summary, overlaps, delta)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        rev,
        new.doc.as_str(),
        new.at.0,
        new.actor.pid,
        new.actor.uid,
        new.actor.session,
        new.actor.program,
        new.actor.via.as_str(),
        new.base.map(rev_out),
        new.basis.on_record(),
        new.summary,
        overlaps,
        new.delta,
    ])?;
    Ok(rev_in(conn.last_insert_rowid()))
}

/// The newest revision number of any document, 0 when there is none.
pub(crate) fn last_rev(conn: &Connection) -> Result<Rev, StoreError> {
    let last: Option<i64> = conn
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'ifs_revisions'")?
        .query_row([], |r| r.get(0))
        .optional()?;
    Ok(rev_in(last.unwrap_or(0)))
}

/// The newest revision of the document that came from another program's SQL.
pub(crate) fn last_outside(conn: &Connection, doc: DocId) -> Result<Rev, StoreError> {
    let last: Option<i64> = conn
        .prepare_cached(
            "SELECT rev FROM ifs_revisions WHERE doc = ?1 AND via = 'sql'
             ORDER BY rev DESC LIMIT 1",
        )?
        .query_row([doc.as_str()], |r| r.get(0))
        .optional()?;
    Ok(rev_in(last.unwrap_or(0)))
}

/// When the revision was made, `None` when it is not (or no longer) on record.
pub(crate) fn stamp(conn: &Connection, doc: DocId, rev: Rev) -> Result<Option<Stamp>, StoreError> {
    let at = conn
        .prepare_cached("SELECT at FROM ifs_revisions WHERE doc = ?1 AND rev = ?2")?
        .query_row(params![doc.as_str(), rev_out(rev)], |r| r.get(0))
        .optional()?;
    Ok(at.map(Stamp))
}

/// Who made the revision, `None` when it is not on record.
pub(crate) fn actor(conn: &Connection, doc: DocId, rev: Rev) -> Result<Option<Actor>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM ifs_revisions WHERE doc = ?1 AND rev = ?2");
    let found = conn
        .prepare_cached(&sql)?
        .query_row(params![doc.as_str(), rev_out(rev)], |r| revision(doc, r))
        .optional()?;
    Ok(found.map(|r| r.actor))
}

/// The archive of the document at exactly this revision, `None` when that is not on record.
///
/// Errors: [`StoreError::History`] when the chain does not fit together.
pub(crate) fn archive(
    conn: &Connection,
    doc: DocId,
    rev: Rev,
) -> Result<Option<Vec<u8>>, StoreError> {
    if stamp(conn, doc, rev)?.is_none() {
        return Ok(None);
    }
    let key: Option<(i64, Vec<u8>)> = conn
        .prepare_cached(
            "SELECT rev, archive FROM ifs_keyframes WHERE doc = ?1 AND rev <= ?2
             ORDER BY rev DESC LIMIT 1",
        )?
        .query_row(params![doc.as_str(), rev_out(rev)], |r| Ok((r.get(0)?, r.get(1)?)))
        .optional()?;
    let (from, bytes) = key.unwrap_or((0, Vec::new()));
    let mut replay = delta::Replay::new(bytes);
    let mut stmt = conn.prepare_cached(
        "SELECT rev, delta FROM ifs_revisions WHERE doc = ?1 AND rev > ?2 AND rev <= ?3
         ORDER BY rev",
    )?;
    let mut rows = stmt.query(params![doc.as_str(), from, rev_out(rev)])?;
    while let Some(row) = rows.next()? {
        let at: i64 = row.get(0)?;
        replay.then(row.get(1)?).map_err(|e| StoreError::History {
            doc: doc.as_str(),
            rev: rev_in(at).0,
            reason: e.to_string(),
        })?;
    }
    Ok(Some(replay.bytes()))
}

impl Store {
    /// Revisions of a document, newest first, at most `limit`, only those older than `before`
    /// when given.
    pub fn revisions(
        &self,
        doc: DocId,
        before: Option<Rev>,
        limit: usize,
    ) -> Result<Vec<Revision>, StoreError> {
        if self.bare {
            return Ok(Vec::new());
        }
        self.read(|c| {
            let sql = format!(
                "SELECT {COLUMNS} FROM ifs_revisions WHERE doc = ?1 AND rev < ?2
                 ORDER BY rev DESC LIMIT ?3"
            );
            let mut stmt = c.prepare_cached(&sql)?;
            let before = before.map_or(i64::MAX, rev_out);
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = stmt
                .query_map(params![doc.as_str(), before, limit], |r| revision(doc, r))?
                .collect::<Result<_, _>>()?;
            Ok(rows)
        })
    }

    /// One revision of a document, `None` when it is not on record.
    pub fn revision(&self, doc: DocId, rev: Rev) -> Result<Option<Revision>, StoreError> {
        let next = Rev(rev.0.saturating_add(1));
        let found = self.revisions(doc, Some(next), 1)?.into_iter().next();
        Ok(found.filter(|r| r.rev == rev))
    }

    /// The newest revision of a document.
    pub fn newest(&self, doc: DocId) -> Result<Option<Revision>, StoreError> {
        Ok(self.revisions(doc, None, 1)?.into_iter().next())
    }

    /// How many revisions of a document are on record.
    pub fn revision_count(&self, doc: DocId) -> Result<u64, StoreError> {
        if self.bare {
            return Ok(0);
        }
        self.read(|c| {
            let n: i64 = c
                .prepare_cached("SELECT count(*) FROM ifs_revisions WHERE doc = ?1")?
                .query_row([doc.as_str()], |r| r.get(0))?;
            Ok(u64::try_from(n).unwrap_or(0))
        })
    }

    /// The archive of a document at exactly this revision; `None` when it is not on record.
    pub fn archive(&self, doc: DocId, rev: Rev) -> Result<Option<Vec<u8>>, StoreError> {
        if self.bare {
            return Ok(None);
        }
        self.read(|c| archive(c, doc, rev))
    }
}

pub(super) fn revision(doc: DocId, r: &Row<'_>) -> Result<Revision, rusqlite::Error> {
    let overlaps: Option<String> = r.get(10)?;
    Ok(Revision {
        rev: rev_in(r.get(0)?),
        doc,
        at: Stamp(r.get(1)?),
        actor: Actor {
            pid: r.get(2)?,
            uid: r.get(3)?,
            session: r.get(4)?,
            program: r.get(5)?,
            via: Via::parse(&r.get::<_, String>(6)?),
        },
        base: r.get::<_, Option<i64>>(7)?.map(rev_in),
        basis: r.get::<_, Option<String>>(8)?.as_deref().and_then(Basis::recorded),
        summary: r.get(9)?,
        overlaps: overlaps.and_then(|o| serde_json::from_str(&o).ok()).unwrap_or_default(),
        delta_bytes: u64::try_from(r.get::<_, i64>(11)?).unwrap_or(0),
    })
}
