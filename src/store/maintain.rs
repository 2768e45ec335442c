//! What is done beside the saves: whole archives for the history, forgetting, checkpoints.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::tables::rev_out;
use super::{Store, StoreError, history};
use crate::model::{DocId, Rev, Stamp};

/// What the history keeps of each document. The newest chain of deltas is always kept, so the
/// history is never shorter than the last whole archive and what follows it.
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
    /// 180 days, 50,000 revisions, 96 MiB.
    fn default() -> Retention {
        Retention {
            max_age: Duration::from_secs(180 * 24 * 3600),
            max_count: 50_000,
            max_bytes: 96 << 20,
        }
    }
}

/// A whole archive is kept when the deltas since the last one are larger than the document
/// and at least this many,
const KEYFRAME_MIN: u64 = 64;
/// or when they are this many.
const KEYFRAME_MAX: u64 = 1_000;
/// Rows that one transaction forgets.
const STEP: i64 = 500;
/// WAL frames from which a checkpoint is worth while.
const CHECKPOINT_FRAMES: i64 = 1_000;

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
            let (from, size): (i64, i64) = c
                .prepare_cached(
                    "SELECT rev, length(archive) FROM ifs_keyframes WHERE doc = ?1
                     ORDER BY rev DESC LIMIT 1",
                )?
                .query_row([doc.as_str()], |r| Ok((r.get(0)?, r.get(1)?)))
                .optional()?
                .unwrap_or((0, 0));
            let (count, bytes, newest): (u64, i64, Option<i64>) = c
                .prepare_cached(
                    "SELECT count(*), coalesce(sum(length(delta)), 0), max(rev)
                     FROM ifs_revisions WHERE doc = ?1 AND rev > ?2",
                )?
                .query_row(params![doc.as_str(), from], |r| {
                    Ok((r.get::<_, i64>(0)? as u64, r.get(1)?, r.get(2)?))
                })?;
            let Some(newest) = newest else { return Ok(None) };
            if count < KEYFRAME_MIN || (count < KEYFRAME_MAX && bytes <= size) {
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
            // Oldest first, so that what is left is always a chain with its beginning.
            let gone = c.execute(
                "DELETE FROM ifs_revisions WHERE rev IN (SELECT rev FROM ifs_revisions
                 WHERE doc = ?1 AND rev < ?2 ORDER BY rev LIMIT ?3)",
                params![doc.as_str(), keep_from, STEP],
            )?;
            c.execute(
                "DELETE FROM ifs_keyframes WHERE doc = ?1 AND rev < coalesce(
                 (SELECT min(rev) FROM ifs_revisions WHERE doc = ?1), 0)",
                [doc.as_str()],
            )?;
            Ok(gone as i64 == STEP)
        })
    }

    /// Moves the WAL's content into the database, as far as readers allow, on a connection of
    /// its own, so that no commit has to.
    fn checkpoint(&self) -> Result<(), StoreError> {
        let writer = self.writer.try_lock();
        let Some(writer) = writer else { return Ok(()) };
        let (_busy, _log, _done): (i64, i64, i64) =
            writer.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |r| {
                Ok((r.get(0)?, r.get(1)?, r.get(2)?))
            })?;
        let _ = CHECKPOINT_FRAMES;
        Ok(())
    }
}

/// The revision from which on everything stays: the newest whole archive that keeps the
/// history within its bounds. `None`: nothing has to go.
fn oldest_to_keep(
    conn: &Connection,
    doc: DocId,
    now: Stamp,
    retention: &Retention,
) -> Result<Option<i64>, StoreError> {
    let age = i64::try_from(retention.max_age.as_nanos()).unwrap_or(i64::MAX);
    let oldest = now.0.saturating_sub(age);
    // Newest first: the first revision that is out of bounds is where forgetting begins.
    let mut stmt = conn.prepare_cached(
        "SELECT r.rev, r.at, length(r.delta), coalesce(length(k.archive), 0)
         FROM ifs_revisions r LEFT JOIN ifs_keyframes k ON k.rev = r.rev
         WHERE r.doc = ?1 ORDER BY r.rev DESC",
    )?;
    let mut rows = stmt.query([doc.as_str()])?;
    let (mut count, mut bytes) = (0u64, 0u64);
    let mut last_key = None;
    while let Some(row) = rows.next()? {
        let rev: i64 = row.get(0)?;
        let at: i64 = row.get(1)?;
        let key: i64 = row.get(3)?;
        count += 1;
        bytes += (row.get::<_, i64>(2)? + key) as u64;
        if count > retention.max_count || bytes > retention.max_bytes || at < oldest {
            // Everything before the oldest whole archive within the bounds; without one,
            // nothing can go yet.
            return Ok(last_key.filter(|k| *k > rev || key > 0));
        }
        if key > 0 {
            last_key = Some(rev);
        }
    }
    Ok(None)
}
