//! What is done beside the saves: whole archives for the history, forgetting, checkpoints.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::connect::connect;
use super::tables::rev_out;
use super::{Store, StoreError, history};
use crate::model::{DocId, Rev, Stamp, View};

/// What the history keeps of each document. It is cut only where a whole archive stands, at
/// the newest one that is out of bounds, so it keeps a little more than these say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Revisions older than this go.
    pub max_age: Duration,
    /// More revisions than this go, the oldest first.
    pub max_count: u64,
    /// More bytes than this (deltas and archives) go, the oldest first.
    pub max_bytes: u64,
}

impl Default for Retention {
    /// 180 days, 50,000 revisions, 80 MiB.
    fn default() -> Retention {
        Retention {
            max_age: Duration::from_secs(180 * 24 * 3600),
            max_count: 50_000,
            max_bytes: 80 << 20,
        }
    }
}

/// A whole archive is kept when the deltas since the last one are larger than the document
/// and at least this many,
const KEYFRAME_MIN: u64 = 64;
/// or when they are this many,
const KEYFRAME_MAX: u64 = 1_000;
/// or when they are this many times as large as the document.
const KEYFRAME_TIMES: u64 = 8;
/// Rows that one transaction forgets.
const STEP: i64 = 500;
/// Size of the WAL from which a checkpoint is worth while.
const CHECKPOINT_BYTES: u64 = 4 << 20;

impl Store {
    /// Housekeeping, to be called now and then from a thread that serves nobody (and by
    /// commands before they end): each part is a short transaction of its own. Does nothing
    /// in a read-only store.
    pub fn maintain(&self, now: Stamp) -> Result<(), StoreError> {
        if self.read_only() {
            return Ok(());
        }
        for doc in DocId::ALL {
            self.keyframe(doc)?;
            while self.prune(doc, now)? {}
        }
        self.checkpoint()
    }

    /// Keeps a whole archive of the newest revision when the chain has grown long.
    fn keyframe(&self, doc: DocId) -> Result<(), StoreError> {
        let due = self.read(|c| {
            let (from, size): (i64, u64) = c
                .prepare_cached(
                    "SELECT rev, length(archive) FROM ifs_keyframes WHERE doc = ?1
                     ORDER BY rev DESC LIMIT 1",
                )?
                .query_row([doc.as_str()], |r| Ok((r.get(0)?, r.get::<_, i64>(1)? as u64)))
                .optional()?
                .unwrap_or((0, 0));
            let (count, bytes, newest): (u64, u64, Option<i64>) = c
                .prepare_cached(
                    "SELECT count(*), coalesce(sum(length(delta)), 0), max(rev)
                     FROM ifs_revisions WHERE doc = ?1 AND rev > ?2",
                )?
                .query_row(params![doc.as_str(), from], |r| {
                    Ok((r.get::<_, i64>(0)? as u64, r.get::<_, i64>(1)? as u64, r.get(2)?))
                })?;
            let Some(newest) = newest else { return Ok(None) };
            let many = count >= KEYFRAME_MIN && bytes > size;
            if !many && count < KEYFRAME_MAX && bytes <= size.max(1 << 16) * KEYFRAME_TIMES {
                return Ok(None);
            }
            let rev = Rev(newest as u64);
            Ok(history::archive(c, doc, rev)?.map(|bytes| (rev, bytes)))
        })?;
        let Some((rev, bytes)) = due else { return Ok(()) };
        self.gate(|c| {
            c.execute(
                "INSERT OR IGNORE INTO ifs_keyframes (rev, doc, archive) VALUES (?1, ?2, ?3)",
                params![rev_out(rev), doc.as_str(), bytes],
            )?;
            Ok(())
        })
    }

    /// Forgets a few of the revisions that are too many; whether there are more.
    fn prune(&self, doc: DocId, now: Stamp) -> Result<bool, StoreError> {
        let keep_from = self.read(|c| oldest_to_keep(c, doc, now, &self.options.retention))?;
        let Some(keep_from) = keep_from else { return Ok(false) };
        self.gate(|c| {
            // The newest of them first, so that what is left of them is a chain with its
            // beginning as long as there is any.
            let gone = c.execute(
                "DELETE FROM ifs_revisions WHERE rev IN (SELECT rev FROM ifs_revisions
                 WHERE doc = ?1 AND rev < ?2 ORDER BY rev DESC LIMIT ?3)",
                params![doc.as_str(), keep_from, STEP],
            )?;
            if gone as i64 == STEP {
                return Ok(true);
            }
            c.execute(
                "DELETE FROM ifs_keyframes WHERE doc = ?1 AND rev < ?2",
                params![doc.as_str(), keep_from],
            )?;
            Ok(false)
        })
    }

    /// Moves the WAL's content into the database as far as readers allow, once it has grown, on
    /// a connection of its own: commits go on meanwhile and never have to do it themselves.
    fn checkpoint(&self) -> Result<(), StoreError> {
        let mut wal = self.db.clone().into_os_string();
        wal.push("-wal");
        if std::fs::metadata(&wal).map_or(0, |m| m.len()) < CHECKPOINT_BYTES {
            return Ok(());
        }
        let conn = connect(&self.db, &self.options)?;
        conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        Ok(())
    }
}

/// The revision from which on everything stays: the newest whole archive that is out of
/// bounds and not newer than what is still needed. `None`: nothing has to go.
fn oldest_to_keep(
    conn: &Connection,
    doc: DocId,
    now: Stamp,
    retention: &Retention,
) -> Result<Option<i64>, StoreError> {
    // Rows that wait for missions.lock, and files written out at the last unmount.
    let mut views = doc.views().map(View::name);
    let needed: i64 = conn
        .prepare_cached(
            "SELECT min(coalesce((SELECT rows_rev FROM ifs_documents WHERE doc = ?1), 0),
             coalesce((SELECT min(rev) FROM ifs_exports WHERE view IN (?2, ?3)), ?4))",
        )?
        .query_row(params![doc.as_str(), views.next(), views.next(), i64::MAX], |r| r.get(0))?;
    let age = i64::try_from(retention.max_age.as_nanos()).unwrap_or(i64::MAX);
    let oldest = now.0.saturating_sub(age);
    let mut stmt = conn.prepare_cached(
        "SELECT r.rev, r.at, length(r.delta), coalesce(length(k.archive), -1)
         FROM ifs_revisions r LEFT JOIN ifs_keyframes k ON k.rev = r.rev
         WHERE r.doc = ?1 ORDER BY r.rev DESC",
    )?;
    let mut rows = stmt.query([doc.as_str()])?;
    let (mut count, mut bytes) = (0u64, 0u64);
    let mut out_of_bounds = false;
    let mut keep_from = None;
    while let Some(row) = rows.next()? {
        let rev: i64 = row.get(0)?;
        let key: i64 = row.get(3)?;
        if keep_from.is_some() {
            return Ok(keep_from);
        }
        count += 1;
        bytes += (row.get::<_, i64>(2)? + key.max(0)) as u64;
        out_of_bounds |= count >= retention.max_count
            || bytes > retention.max_bytes
            || row.get::<_, i64>(1)? < oldest;
        if out_of_bounds && key >= 0 && rev <= needed {
            keep_from = Some(rev);
        }
    }
    Ok(None)
}
