//! Managed files in the database: what their file was when the newest revision was committed, and
//! which of them have a history. The files come and go; so do their rows.

use rusqlite::{Connection, OptionalExtension, params};

use super::maintain::{PAUSE, STEP};
use super::tables::{document, rev_in, rev_out};
use super::{DocumentRow, Store, StoreError};
use crate::model::{DocId, FileId, Rev, Stamp};

/// One row for each managed file with a history, while it exists: what the file in the store was
/// when revision `rev` was committed. Whatever has these numbers needs no comparison.
const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS ifs_files (
    doc TEXT PRIMARY KEY,
    rev INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    ctime INTEGER NOT NULL
) WITHOUT ROWID";

/// What a file was when a revision of it was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRow {
    /// The revision.
    pub rev: Rev,
    /// `st_ino`.
    pub ino: u64,
    /// `st_size`, in bytes.
    pub size: u64,
    /// `st_mtime`.
    pub mtime: Stamp,
    /// `st_ctime`.
    pub ctime: Stamp,
}

/// What is on record of a managed file, all of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OnRecord {
    /// Its newest revision; `None`: it has no history.
    pub row: Option<DocumentRow>,
    /// What the file was then.
    pub file: Option<FileRow>,
    /// The newest revision of any document.
    pub last: Rev,
}

/// Reads it on any connection.
pub(crate) fn on_record(conn: &Connection, file: FileId) -> Result<OnRecord, StoreError> {
    let doc = DocId::File(file);
    let row = document(conn, doc)?;
    let file = match &row {
        Some(_) => file_row(conn, doc)?,
        None => None,
    };
    Ok(OnRecord { row, file, last: super::history::last_rev(conn)? })
}

fn file_row(conn: &Connection, doc: DocId) -> Result<Option<FileRow>, StoreError> {
    let sql = "SELECT rev, ino, size, mtime, ctime FROM ifs_files WHERE doc = ?1";
    let mut stmt = match conn.prepare_cached(sql) {
        Ok(stmt) => stmt,
        // A store that was only ever looked at since this table is known.
        Err(_) if !has_table(conn)? => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let row = stmt.query_row([doc.as_str()], |r| {
        Ok(FileRow {
            rev: rev_in(r.get(0)?),
            ino: r.get::<_, i64>(1)? as u64,
            size: r.get::<_, i64>(2)? as u64,
            mtime: Stamp(r.get(3)?),
            ctime: Stamp(r.get(4)?),
        })
    });
    Ok(row.optional()?)
}

fn has_table(conn: &Connection) -> Result<bool, StoreError> {
    let found = conn
        .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'ifs_files'", [], |_| Ok(()))
        .optional()?;
    Ok(found.is_some())
}

/// Writes what the file is now; `None`: there is none.
pub(crate) fn set_file(
    conn: &Connection,
    file: FileId,
    row: Option<&FileRow>,
) -> Result<(), StoreError> {
    let doc = DocId::File(file);
    let Some(row) = row else {
        conn.prepare_cached("DELETE FROM ifs_files WHERE doc = ?1")?.execute([doc.as_str()])?;
        return Ok(());
    };
    conn.prepare_cached(
        "INSERT OR REPLACE INTO ifs_files (doc, rev, ino, size, mtime, ctime)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        doc.as_str(),
        rev_out(row.rev),
        row.ino as i64,
        row.size as i64,
        row.mtime.0,
        row.ctime.0,
    ])?;
    Ok(())
}

impl Store {
    /// Makes the table of managed files where it is missing. Does nothing in a read-only store.
    pub(crate) fn make_files_table(&self) -> Result<(), StoreError> {
        if self.read_only() || self.read(has_table)? {
            return Ok(());
        }
        self.gate(|c| Ok(c.execute_batch(SCHEMA)?))
    }

    /// What is on record of a managed file. Waits for no writer.
    pub(crate) fn file_on_record(&self, file: FileId) -> Result<OnRecord, StoreError> {
        if self.bare {
            return Ok(OnRecord::default());
        }
        self.read(|c| on_record(c, file))
    }

    /// The managed files that have a history, by path.
    pub fn files_on_record(&self) -> Result<Vec<FileId>, StoreError> {
        if self.bare {
            return Ok(Vec::new());
        }
        self.read(|c| {
            let sql = "SELECT doc FROM ifs_documents WHERE doc >= 'file:' AND doc < 'file;'
                       ORDER BY doc";
            let mut stmt = c.prepare_cached(sql)?;
            let rows = stmt.query_map([], |r| r.get::<_, String>(0))?;
            let names = rows.collect::<Result<Vec<String>, _>>()?;
            Ok(names.iter().filter_map(|name| FileId::from_name(name)).collect())
        })
    }
}

/// Files that are gone whose history is kept, at most.
const GONE_KEPT: usize = 1_000;
/// How long, in nanoseconds: 30 days.
const GONE_FOR: i64 = 30 * 24 * 3_600 * 1_000_000_000;

/// A file that is gone and its history.
struct Gone {
    file: FileId,
    newest: Rev,
    since: Stamp,
    bytes: u64,
}

impl Store {
    /// Managed files with revisions above `after`, and the newest revision of any document.
    pub(crate) fn files_since(&self, after: Rev) -> Result<(Vec<FileId>, Rev), StoreError> {
        if self.bare {
            return Ok((Vec::new(), Rev(0)));
        }
        self.read(|c| {
            let sql = "SELECT DISTINCT doc FROM ifs_revisions
                       WHERE rev > ?1 AND doc >= 'file:' AND doc < 'file;'";
            let mut stmt = c.prepare_cached(sql)?;
            let rows = stmt.query_map([rev_out(after)], |r| r.get::<_, String>(0))?;
            let names = rows.collect::<Result<Vec<String>, _>>()?;
            let files = names.iter().filter_map(|name| FileId::from_name(name)).collect();
            Ok((files, super::history::last_rev(c)?))
        })
    }

    /// Housekeeping for the history of one managed file; see [`Store::maintain`].
    pub(crate) fn maintain_file(&self, file: FileId, now: Stamp) -> Result<(), StoreError> {
        let doc = DocId::File(file);
        let retention = self.retention()?;
        self.keyframe(doc)?;
        while self.prune(doc, now, &retention)? {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Forgets the history of files that are gone: of those that are so for 30 days (or the age
    /// up to which revisions are kept, if that is less), of all but 1,000 of them, and of what is
    /// more than one document may have. Whose went.
    pub(crate) fn forget_gone(&self, now: Stamp) -> Result<Vec<FileId>, StoreError> {
        let retention = self.retention()?;
        let age = i64::try_from(retention.max_age.as_nanos()).unwrap_or(i64::MAX).min(GONE_FOR);
        let mut bytes = 0;
        let mut forgotten = Vec::new();
        for (n, gone) in self.gone()?.into_iter().enumerate() {
            bytes += gone.bytes;
            let old = gone.since.0 < now.0.saturating_sub(age);
            if (old || n >= GONE_KEPT || bytes > retention.max_bytes) && self.forget(&gone)? {
                forgotten.push(gone.file);
            }
        }
        Ok(forgotten)
    }

    /// The files that are gone, the last one first.
    fn gone(&self) -> Result<Vec<Gone>, StoreError> {
        if self.bare {
            return Ok(Vec::new());
        }
        self.read(|c| {
            if !has_table(c)? {
                return Ok(Vec::new());
            }
            let mut stmt = c.prepare_cached(
                "SELECT doc, rev, mtime,
                     (SELECT coalesce(sum(length(delta)), 0) FROM ifs_revisions r
                      WHERE r.doc = d.doc)
                     + (SELECT coalesce(sum(length(archive)), 0) FROM ifs_keyframes k
                        WHERE k.doc = d.doc)
                 FROM ifs_documents d
                 WHERE doc >= 'file:' AND doc < 'file;'
                     AND NOT EXISTS (SELECT 1 FROM ifs_files f WHERE f.doc = d.doc)
                 ORDER BY mtime DESC",
            )?;
            let rows = stmt.query_map([], |r| {
                let Some(file) = FileId::from_name(&r.get::<_, String>(0)?) else {
                    return Ok(None);
                };
                let newest = rev_in(r.get(1)?);
                let bytes = u64::try_from(r.get::<_, i64>(3)?).unwrap_or(0);
                Ok(Some(Gone { file, newest, since: Stamp(r.get(2)?), bytes }))
            })?;
            Ok(rows.filter_map(Result::transpose).collect::<Result<_, _>>()?)
        })
    }

    /// Forgets one of them, a few revisions at a time. Whether it did: the file may have come
    /// back meanwhile.
    fn forget(&self, gone: &Gone) -> Result<bool, StoreError> {
        let doc = DocId::File(gone.file);
        // What is left stays a history with its beginning all the time.
        self.keep_whole(doc, gone.newest)?;
        loop {
            let more = self.gate(|c| {
                let count = c.execute(
                    "DELETE FROM ifs_revisions WHERE rev IN (SELECT rev FROM ifs_revisions
                     WHERE doc = ?1 AND rev < ?2 ORDER BY rev DESC LIMIT ?3)",
                    params![doc.as_str(), rev_out(gone.newest), STEP],
                )?;
                Ok(count as i64 == STEP)
            })?;
            if !more {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        self.gate(|c| {
            let still = document(c, doc)?.is_some_and(|row| row.rev == gone.newest);
            if !still || file_row(c, doc)?.is_some() {
                return Ok(false);
            }
            for table in ["ifs_revisions", "ifs_keyframes", "ifs_documents", "ifs_observed"] {
                c.execute(&format!("DELETE FROM {table} WHERE doc = ?1"), [doc.as_str()])?;
            }
            Ok(true)
        })
    }
}
