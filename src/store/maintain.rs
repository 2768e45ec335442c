//! What is done beside the saves: whole archives for the history, forgetting, checkpoints.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::connect::connect;
use super::tables::{rev_in, rev_out};
use super::{Store, StoreError};
use crate::model::{DocId, Rev, Stamp};

/// What the history keeps of each document. It is cut in steps, not at every revision, so it
/// keeps a little more than these say: at most 64 revisions, or an eighth.
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
pub(super) const STEP: i64 = 100;
/// Time between two such transactions, for those who wait to save.
pub(super) const PAUSE: Duration = Duration::from_millis(2);
/// Revisions out of bounds that are not worth a whole archive of their own at the edge.
const SLACK: u64 = 64;
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
        let retention = self.retention()?;
        for doc in DocId::ALL {
            self.keyframe(doc)?;
            while self.prune(doc, now, &retention)? {
                std::thread::sleep(PAUSE);
            }
        }
        self.checkpoint()
    }

    /// Keeps a whole archive of the newest revision when the chain has grown long.
    pub(super) fn keyframe(&self, doc: DocId) -> Result<(), StoreError> {
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
            Ok(Some(Rev(newest as u64)))
        })?;
        match due {
            Some(rev) => self.keep_whole(doc, rev),
            None => Ok(()),
        }
    }

    /// Keeps the whole archive of a revision.
    pub(super) fn keep_whole(&self, doc: DocId, rev: Rev) -> Result<(), StoreError> {
        let Some(bytes) = self.archive(doc, rev)? else { return Ok(()) };
        self.gate(|c| {
            c.execute(
                "INSERT OR IGNORE INTO ifs_keyframes (rev, doc, archive) VALUES (?1, ?2, ?3)",
                params![rev_out(rev), doc.as_str(), bytes],
            )?;
            Ok(())
        })
    }

    /// Forgets a few of the revisions that are too many; whether there are more.
    pub(super) fn prune(
        &self,
        doc: DocId,
        now: Stamp,
        retention: &Retention,
    ) -> Result<bool, StoreError> {
        let cut = self.read(|c| oldest_to_keep(c, doc, now, retention))?;
        let Some(Cut { keep_from, whole }) = cut else { return Ok(false) };
        if !whole {
            self.keep_whole(doc, rev_in(keep_from))?;
        }
        // A file that was written out is merged with what it was: that revision stays, whole.
        for row in self.exports()?.iter().filter(|row| row.view.doc() == doc) {
            self.keep_whole(doc, row.rev)?;
        }
        self.gate(|c| {
            // The newest of them first, so that what is left of them is a chain with its
            // beginning as long as there is any.
            let gone = c.execute(
                "DELETE FROM ifs_revisions WHERE rev IN (SELECT rev FROM ifs_revisions
                 WHERE doc = ?1 AND rev < ?2 AND rev NOT IN (SELECT rev FROM ifs_exports)
                 ORDER BY rev DESC LIMIT ?3)",
                params![doc.as_str(), keep_from, STEP],
            )?;
            if gone as i64 == STEP {
                return Ok(true);
            }
            c.execute(
                "DELETE FROM ifs_keyframes WHERE doc = ?1 AND rev < ?2
                 AND rev NOT IN (SELECT rev FROM ifs_exports)",
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

/// Where the history is cut.
struct Cut {
    /// The revision from which on everything stays.
    keep_from: i64,
    /// A whole archive stands there; else one has to be made first.
    whole: bool,
}

/// The cut: at the newest whole archive that is out of bounds and not newer than what is still
/// needed, or at the edge itself when that would leave too many. `None`: nothing has to go.
fn oldest_to_keep(
    conn: &Connection,
    doc: DocId,
    now: Stamp,
    retention: &Retention,
) -> Result<Option<Cut>, StoreError> {
    // The rows may be those of an older revision while they wait for missions.lock.
    let needed: i64 = conn
        .prepare_cached("SELECT coalesce((SELECT rows_rev FROM ifs_documents WHERE doc = ?1), 0)")?
        .query_row([doc.as_str()], |r| r.get(0))?;
    let age = i64::try_from(retention.max_age.as_nanos()).unwrap_or(i64::MAX);
    let oldest = now.0.saturating_sub(age);
    let slack = SLACK.max(retention.max_count / 8);
    let mut stmt = conn.prepare_cached(
        "SELECT r.rev, r.at, length(r.delta), coalesce(length(k.archive), -1)
         FROM ifs_revisions r LEFT JOIN ifs_keyframes k ON k.rev = r.rev
         WHERE r.doc = ?1 AND r.rev NOT IN (SELECT rev FROM ifs_exports)
         ORDER BY r.rev DESC",
    )?;
    let mut rows = stmt.query([doc.as_str()])?;
    let (mut count, mut bytes) = (0u64, 0u64);
    let mut out_of_bounds = false;
    // The newest revision at which the history may be cut, and how many older ones were met.
    let mut edge: Option<i64> = None;
    let mut beyond = 0;
    let mut whole = None;
    while let Some(row) = rows.next()? {
        let rev: i64 = row.get(0)?;
        let key: i64 = row.get(3)?;
        if let Some(keep_from) = whole {
            return Ok(Some(Cut { keep_from, whole: true }));
        }
        count += 1;
        bytes += (row.get::<_, i64>(2)? + key.max(0)) as u64;
        out_of_bounds |= count >= retention.max_count
            || bytes > retention.max_bytes
            || row.get::<_, i64>(1)? < oldest;
        if !out_of_bounds || rev > needed {
            continue;
        }
        match edge {
            None => edge = Some(rev),
            Some(_) => beyond += 1,
        }
        if key >= 0 {
            whole = Some(rev);
        } else if beyond >= slack {
            return Ok(edge.map(|keep_from| Cut { keep_from, whole: false }));
        }
    }
    Ok(None)
}
