//! Reading the rows of a store, one or a few at a time, while the program that owns them writes.
//!
//! Every read is a new statement, so it sees what is committed at that moment. A connection is
//! opened with the right to write, because only such a one tidies up when it is the last that
//! leaves (a `-wal` stays behind otherwise), but changes nothing (`query_only`). A reader that is
//! read-only does not even take a `-wal` into its database: it tidies up only an empty one. It is closed when
//! it has not been used for a while, and when the file is another one than it was.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, Row, Statement};

use super::error::{Result, sql};
use super::{Database, Part, schema, snapshot};
use crate::model::Stamp;

/// How long a reader waits: it answers a request. Readers wait only while a database is locked as
/// a whole.
const PATIENCE: Duration = Duration::from_millis(200);
const NO_CHECKPOINT: DbConfig = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;

/// What a row is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// Of sessions and tasks; may be any bytes.
    Text(Vec<u8>),
    /// Of notes.
    Number(i64),
}

impl ToSql for Id {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Id::Text(bytes) => ToSqlOutput::Borrowed(ValueRef::Text(bytes)),
            Id::Number(n) => ToSqlOutput::Borrowed(ValueRef::Integer(*n)),
        })
    }
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs)]
pub enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

/// A row: its columns in their order, with their names.
pub type Cells = Vec<(String, Cell)>;

/// The three databases of a store, opened when they are needed.
pub struct Reader {
    files: [File; 3],
}

struct File {
    database: Database,
    path: PathBuf,
    read_only: bool,
    open: Mutex<Option<Open>>,
}

struct Open {
    conn: Connection,
    /// Device and inode.
    file: (u64, u64),
    used: bool,
    /// The `-wal` that is not to be taken into the database at the close unless it is empty.
    keep: Option<PathBuf>,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(wal) = &self.keep
            && wal.metadata().is_ok_and(|m| m.len() == 0)
            && let Err(e) = self.conn.set_db_config(NO_CHECKPOINT, false)
        {
            log::debug!("{}: stays: {e}", wal.display());
        }
    }
}

impl Reader {
    /// A reader of the databases in this directory. Nothing is opened yet. `read_only`: the
    /// databases stay as they are, byte by byte.
    pub fn new(store: &Path, read_only: bool) -> Reader {
        let files = Database::ALL.map(|database| File {
            database,
            path: store.join(database.file_name()),
            read_only,
            open: Mutex::default(),
        });
        Reader { files }
    }

    /// Whether there are such rows: the database exists and has the table. One that is locked
    /// just now counts.
    pub fn has(&self, part: Part) -> bool {
        let file = self.file(part);
        if !file.path.metadata().is_ok_and(|m| m.is_file() && m.len() > 0) {
            return false;
        }
        let found = file.with(|conn, path| schema::columns(conn, path, part.table()));
        match found {
            Ok(Some(columns)) => !columns.is_empty(),
            Err(super::ForeignError::Busy { .. }) => true,
            Ok(None) | Err(_) => false,
        }
    }

    /// Permission bits, owner and group of the database: who may read it may read its rows.
    pub fn access(&self, part: Part) -> Option<(u32, u32, u32)> {
        let meta = self.file(part).path.metadata().ok()?;
        Some((meta.mode() & 0o777, meta.uid(), meta.gid()))
    }

    /// When the rows last changed, as far as files tell.
    pub fn changed(&self, part: Part) -> Option<Stamp> {
        let path = &self.file(part).path;
        let time = |path: &Path| {
            let meta = path.metadata().ok()?;
            Some(Stamp::from_parts(meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap_or(0)))
        };
        time(path).max(time(&snapshot::beside(path, "-wal")))
    }

    /// The ids after `after` in their order, at most `limit`. Rows whose id is of another kind
    /// (none at all, say) cannot be named and are left out.
    pub fn ids(&self, part: Part, after: Option<&Id>, limit: usize) -> Result<Vec<Id>> {
        let (table, kind) = (part.table(), kind(part));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(part, |conn, path| match after {
            Some(after) => {
                let text = format!(
                    "SELECT id FROM {table} WHERE id > ?1 AND typeof(id) = '{kind}'
                     ORDER BY id LIMIT ?2"
                );
                collect(conn, path, &text, &[after, &limit])
            }
            None => {
                let text = format!(
                    "SELECT id FROM {table} WHERE typeof(id) = '{kind}' ORDER BY id LIMIT ?1"
                );
                collect(conn, path, &text, &[&limit])
            }
        })
    }

    /// The ids from `from` to before `to`, at most `limit`.
    pub fn ids_between(&self, part: Part, from: &Id, to: &Id, limit: usize) -> Result<Vec<Id>> {
        let (table, kind) = (part.table(), kind(part));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let text = format!(
            "SELECT id FROM {table} WHERE id >= ?1 AND id < ?2 AND typeof(id) = '{kind}'
             ORDER BY id LIMIT ?3"
        );
        self.read(part, |conn, path| collect(conn, path, &text, &[from, to, &limit]))
    }

    /// One row; `None` when there is none.
    pub fn row(&self, part: Part, id: &Id) -> Result<Option<Cells>> {
        let text = format!(
            "SELECT * FROM {} WHERE id = ?1 AND typeof(id) = '{}' LIMIT 1",
            part.table(),
            kind(part)
        );
        let rows = self.read(part, |conn, path| {
            let failed = sql(path);
            let mut select = conn.prepare_cached(&text).map_err(&failed)?;
            rows(&mut select, path, &[id])
        })?;
        Ok(rows.into_iter().next())
    }

    /// The facts of the profile that hold now, in the order of their keys.
    pub fn facts(&self) -> Result<Vec<Cells>> {
        self.read(Part::Profile, |conn, path| {
            let columns = schema::columns(conn, path, Part::Profile.table())?;
            let history = columns.iter().any(|c| c.name == "superseded_by");
            let filter = if history { "WHERE superseded_by IS NULL" } else { "" };
            let text = format!("SELECT * FROM profile_facts {filter} ORDER BY key");
            let mut select = conn.prepare_cached(&text).map_err(sql(path))?;
            rows(&mut select, path, &[])
        })
    }

    /// To be called now and then: closes what was not used since the last call.
    pub fn rest(&self) {
        for file in &self.files {
            // Whoever holds it uses it.
            if let Some(mut open) = file.open.try_lock()
                && open.as_mut().is_some_and(|open| !std::mem::take(&mut open.used))
            {
                *open = None;
            }
        }
    }

    /// Closes everything.
    pub fn close(&self) {
        self.files.iter().for_each(|file| *file.open.lock() = None);
    }

    fn file(&self, part: Part) -> &File {
        let at = Database::ALL.iter().position(|d| *d == part.database()).unwrap_or(0);
        &self.files[at]
    }

    /// Reads; a database that is not there has no rows.
    fn read<T: Default>(
        &self,
        part: Part,
        f: impl FnOnce(&Connection, &Path) -> Result<T>,
    ) -> Result<T> {
        Ok(self.file(part).with(f)?.unwrap_or_default())
    }
}

impl File {
    /// Calls `f` with an open connection; `None` when there is no file.
    fn with<T>(&self, f: impl FnOnce(&Connection, &Path) -> Result<T>) -> Result<Option<T>> {
        let mut open = self.open.lock();
        match self.opened(&mut open)? {
            Some(conn) => f(conn, &self.path).map(Some),
            None => Ok(None),
        }
    }

    fn opened<'a>(
        &self,
        open: &'a mut MutexGuard<'_, Option<Open>>,
    ) -> Result<Option<&'a Connection>> {
        let Ok(meta) = self.path.metadata() else {
            **open = None;
            return Ok(None);
        };
        let file = (meta.dev(), meta.ino());
        if open.as_ref().is_none_or(|open| open.file != file) {
            **open = None;
            log::debug!("{} is read for a view", self.database.file_name());
            let conn = connect(&self.path).map_err(sql(&self.path))?;
            let keep = self.read_only.then(|| snapshot::beside(&self.path, "-wal"));
            if keep.is_some() {
                conn.set_db_config(NO_CHECKPOINT, true).map_err(sql(&self.path))?;
            }
            **open = Some(Open { conn, file, used: true, keep });
        }
        Ok(open.as_mut().map(|open| {
            open.used = true;
            &open.conn
        }))
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)
        .or_else(|_| Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_READ_ONLY))?;
    conn.busy_timeout(PATIENCE)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

/// The type that an id of the part has.
fn kind(part: Part) -> &'static str {
    match part {
        Part::Sessions | Part::Tasks => "text",
        Part::Notes | Part::Profile => "integer",
    }
}

fn collect(conn: &Connection, path: &Path, text: &str, with: &[&dyn ToSql]) -> Result<Vec<Id>> {
    let failed = sql(path);
    let mut select = conn.prepare_cached(text).map_err(&failed)?;
    let mut rows = select.query(with).map_err(&failed)?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next().map_err(&failed)? {
        match row.get_ref(0).map_err(&failed)? {
            ValueRef::Text(bytes) => ids.push(Id::Text(bytes.to_vec())),
            ValueRef::Integer(n) => ids.push(Id::Number(n)),
            _ => {}
        }
    }
    Ok(ids)
}

fn rows(select: &mut Statement<'_>, path: &Path, with: &[&dyn ToSql]) -> Result<Vec<Cells>> {
    let failed = sql(path);
    let mut rows = select.query(with).map_err(&failed)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(&failed)? {
        all.push(cells(row).map_err(&failed)?);
    }
    Ok(all)
}

fn cells(row: &Row<'_>) -> rusqlite::Result<Cells> {
    // Asked after the step: the schema may have changed since the statement was prepared.
    let select = row.as_ref();
    (0..select.column_count())
        .map(|at| {
            let cell = match row.get_ref(at)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(n) => Cell::Integer(n),
                ValueRef::Real(x) => Cell::Real(x),
                ValueRef::Text(bytes) => Cell::Text(bytes.to_vec()),
                ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
            };
            Ok((select.column_name(at)?.to_owned(), cell))
        })
        .collect()
}
