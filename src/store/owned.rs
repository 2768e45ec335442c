//! Rows of files that belong to processes (markers and leases), and of who waits for a lease.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, params};

use super::{Store, StoreError, Wait};
use crate::model::Stamp;

/// Makes the tables where they are missing.
const TABLES: &str = include_str!("owned.sql");

/// The series of the fencing numbers.
const TOKENS: &str = "lease";

/// A process, as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRow {
    /// Its pid.
    pub pid: u32,
    /// The inode number of its pidfd.
    pub ident: u64,
    /// The boot id.
    pub boot: String,
    /// The inode number of the pid namespace in which `pid` counts.
    pub pidns: u64,
}

/// A marker or a lease on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRow {
    /// Where, relative to the store.
    pub path: PathBuf,
    /// A lease, otherwise a marker.
    pub lease: bool,
    /// `st_ino` of the file.
    pub ino: u64,
    /// Its time of birth, 0 where the file system has none.
    pub born: Stamp,
    /// Whose it is; pid 0: an ordinary file in spite of its name.
    pub owner: ProcessRow,
    /// The fencing number of a lease, else 0.
    pub token: u64,
    /// Since when.
    pub at: Stamp,
}

/// A process that waits for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaiterRow {
    /// Its place in the queue: lower is earlier.
    pub ticket: i64,
    /// The process.
    pub process: ProcessRow,
    /// Since when.
    pub at: Stamp,
}

impl Store {
    /// Makes the tables of this file where they are missing.
    ///
    /// # Errors
    /// Those of the database.
    pub fn prepare_owned(&self) -> Result<(), StoreError> {
        self.gate(|c| Ok(c.execute_batch(TABLES)?))
    }

    /// All markers and leases on record.
    ///
    /// # Errors
    /// Those of the database.
    pub fn owned(&self) -> Result<Vec<OwnedRow>, StoreError> {
        let sql =
            "SELECT path, lease, ino, born, token, at, pid, ident, boot, pidns FROM ifs_owned";
        self.rows_if_there("ifs_owned", |c| {
            let mut stmt = c.prepare_cached(sql)?;
            let rows = stmt.query_map([], |r| {
                Ok(OwnedRow {
                    path: path_at(r, 0)?,
                    lease: r.get(1)?,
                    ino: r.get::<_, i64>(2)?.cast_unsigned(),
                    born: Stamp(r.get(3)?),
                    owner: process_at(r, 6)?,
                    token: r.get::<_, i64>(4)?.cast_unsigned(),
                    at: Stamp(r.get(5)?),
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Puts markers and leases on record, and forgets those at the paths of `gone`. With
    /// [`Wait::Never`] it fails at once while the database is used.
    ///
    /// # Errors
    /// [`StoreError::Busy`], others of the database.
    pub fn keep_owned(
        &self,
        rows: &[OwnedRow],
        gone: &[PathBuf],
        wait: Wait,
    ) -> Result<(), StoreError> {
        let mut gate = self.begin(wait, false)?;
        let put = |c: &Connection| {
            let mut forget = c.prepare_cached("DELETE FROM ifs_owned WHERE path = ?1")?;
            for path in gone {
                forget.execute([bytes(path)])?;
            }
            let mut put = c.prepare_cached(
                "INSERT OR REPLACE INTO ifs_owned
                 (path, lease, ino, born, pid, ident, boot, pidns, token, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?;
            for row in rows {
                put.execute(params![
                    bytes(&row.path),
                    row.lease,
                    row.ino.cast_signed(),
                    row.born.0,
                    row.owner.pid,
                    row.owner.ident.cast_signed(),
                    row.owner.boot,
                    row.owner.pidns.cast_signed(),
                    row.token.cast_signed(),
                    row.at.0,
                ])?;
            }
            Ok(())
        };
        put(gate.conn()).map_err(|e: StoreError| gate.explain(e))?;
        gate.commit()
    }

    /// Reserves fencing numbers: the first of `count`. They only grow, whatever happens.
    ///
    /// # Errors
    /// Those of the database.
    pub fn reserve_tokens(&self, count: u64) -> Result<u64, StoreError> {
        self.reserve(TOKENS, count)
    }

    /// Puts a process at the end of the queue for a lease: its ticket.
    ///
    /// # Errors
    /// Those of the database.
    pub fn enqueue(&self, path: &Path, process: &ProcessRow, at: Stamp) -> Result<i64, StoreError> {
        self.gate(|c| {
            c.execute(
                "INSERT INTO ifs_waiters (path, pid, ident, boot, pidns, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    bytes(path),
                    process.pid,
                    process.ident.cast_signed(),
                    process.boot,
                    process.pidns.cast_signed(),
                    at.0
                ],
            )?;
            Ok(c.last_insert_rowid())
        })
    }

    /// Takes tickets out of the queue.
    ///
    /// # Errors
    /// Those of the database.
    pub fn dequeue(&self, tickets: &[i64]) -> Result<(), StoreError> {
        self.gate(|c| {
            let mut forget = c.prepare_cached("DELETE FROM ifs_waiters WHERE ticket = ?1")?;
            tickets.iter().try_for_each(|t| forget.execute([t]).map(drop))?;
            Ok(())
        })
    }

    /// The queue for a lease, the first in it first.
    ///
    /// # Errors
    /// Those of the database.
    pub fn waiters(&self, path: &Path) -> Result<Vec<WaiterRow>, StoreError> {
        let sql = "SELECT ticket, at, pid, ident, boot, pidns FROM ifs_waiters
                   WHERE path = ?1 ORDER BY ticket";
        self.rows_if_there("ifs_waiters", |c| {
            let mut stmt = c.prepare_cached(sql)?;
            let rows = stmt.query_map([bytes(path)], |r| {
                let at = Stamp(r.get(1)?);
                Ok(WaiterRow { ticket: r.get(0)?, process: process_at(r, 2)?, at })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Reads rows of a table that may not have been made yet.
    fn rows_if_there<T>(
        &self,
        table: &str,
        read: impl FnOnce(&Connection) -> Result<Vec<T>, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.read(|c| {
            let mut stmt = c.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = ?1")?;
            if stmt.exists([table])? { read(c) } else { Ok(Vec::new()) }
        })
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn path_at(row: &Row<'_>, column: usize) -> rusqlite::Result<PathBuf> {
    let bytes: Vec<u8> = row.get(column)?;
    Ok(OsStr::from_bytes(&bytes).into())
}

fn process_at(row: &Row<'_>, first: usize) -> rusqlite::Result<ProcessRow> {
    Ok(ProcessRow {
        pid: row.get(first)?,
        ident: row.get::<_, i64>(first + 1)?.cast_unsigned(),
        boot: row.get(first + 2)?,
        pidns: row.get::<_, i64>(first + 3)?.cast_unsigned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> ProcessRow {
        ProcessRow { pid, ident: u64::MAX - 1, boot: "b".into(), pidns: 7 }
    }

    #[test]
    fn what_is_kept_comes_back_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        assert_eq!(store.owned().unwrap(), [], "before the tables are there");
        store.prepare_owned().unwrap();
        store.prepare_owned().unwrap();
        let row = OwnedRow {
            path: OsStr::from_bytes(b"a/\xff.lock").into(),
            lease: true,
            ino: u64::MAX,
            born: Stamp(-1),
            owner: process(3),
            token: 9,
            at: Stamp(5),
        };
        store.keep_owned(std::slice::from_ref(&row), &[], Wait::Never).unwrap();
        let later = OwnedRow { token: 10, ..row.clone() };
        store.keep_owned(std::slice::from_ref(&later), &[], Wait::Patiently).unwrap();
        assert_eq!(store.owned().unwrap(), [later]);
        store.keep_owned(&[], &[row.path], Wait::Patiently).unwrap();
        assert_eq!(store.owned().unwrap(), []);
    }

    #[test]
    fn tickets_and_tokens_only_grow() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        store.prepare_owned().unwrap();
        let (a, b) = (Path::new("a"), Path::new("b"));
        let first = store.enqueue(a, &process(1), Stamp(1)).unwrap();
        let second = store.enqueue(a, &process(2), Stamp(2)).unwrap();
        store.enqueue(b, &process(3), Stamp(3)).unwrap();
        assert_eq!(
            store.waiters(a).unwrap().iter().map(|w| w.ticket).collect::<Vec<_>>(),
            [first, second]
        );
        store.dequeue(&[second]).unwrap();
        assert!(store.enqueue(a, &process(4), Stamp(4)).unwrap() > second, "never used again");
        let token = store.reserve_tokens(64).unwrap();
        drop(store);
        let store = Store::open(dir.path(), crate::store::Options::default()).unwrap();
        assert_eq!(store.reserve_tokens(1).unwrap(), token + 64);
    }
}
