//! Managed files in the database: what their file was when the newest revision was committed, and
//! which of them have a history. The files come and go; so do their rows.

use rusqlite::{Connection, OptionalExtension, params};

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
