//! A look at the head of the WAL index, without a system call.
//!
//! Every commit of any program writes a new head into the shared memory beside the database
//! (`-shm`; the layout is documented in SQLite's "WAL-mode File Format"): a counter, the last
//! frame, checksums and salts, twice. SQLite itself tells by comparing it whether anything was
//! committed. Asking it (`PRAGMA data_version`) takes and gives back a file lock each time;
//! comparing the head that SQLite has mapped anyway does not.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use rusqlite::Connection;
use rusqlite::ffi;

/// Words of one copy of the head.
const WORDS: usize = 12;
/// Bytes of the first part of the WAL index.
const REGION: i32 = 32 * 1024;

/// The head at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark([u32; WORDS]);

/// The head as it is now. `None` when it cannot be had in this way: no shared memory, or a head
/// that is being written at this moment. To be asked of connections in WAL mode alone: for
/// another one SQLite would make the file.
pub(super) fn mark(conn: &Connection) -> Option<Mark> {
    let words = head(conn)?;
    // SAFETY: SQLite keeps the region mapped, aligned to pages and larger than two heads, for
    // as long as the connection is open and in WAL mode, and `conn` is borrowed for the whole
    // call. Other processes write to it, hence atomic reads.
    let read = |at: usize| unsafe { (*words.add(at)).load(Ordering::Relaxed) };
    let first: [u32; WORDS] = std::array::from_fn(read);
    // The second copy is written first: when both are equal, neither is half written.
    fence(Ordering::Acquire);
    let second: [u32; WORDS] = std::array::from_fn(|at| read(WORDS + at));
    let is_set = first[0] != 0;
    (is_set && first == second).then_some(Mark(first))
}

/// Where SQLite has the head mapped.
fn head(conn: &Connection) -> Option<*const AtomicU32> {
    let mut file: *mut ffi::sqlite3_file = std::ptr::null_mut();
    // SAFETY: the handle is valid while `conn` is borrowed and used by one thread at a time (it
    // is behind a mutex). FILE_POINTER stores a pointer to the file object of the database,
    // which lives as long as the connection.
    let asked = unsafe {
        ffi::sqlite3_file_control(
            conn.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_FILE_POINTER,
            (&raw mut file).cast(),
        )
    };
    if asked != ffi::SQLITE_OK || file.is_null() {
        return None;
    }
    let mut region: *mut std::ffi::c_void = std::ptr::null_mut();
    // SAFETY: an open file has its methods until it is closed; `xShmMap` exists from version 2
    // on. Without `extend` it maps nothing that is not there, and the region stays where it is.
    let mapped = unsafe {
        let methods = (*file).pMethods.as_ref()?;
        if methods.iVersion < 2 {
            return None;
        }
        methods.xShmMap?(file, 0, REGION, 0, (&raw mut region).cast())
    };
    (mapped == ffi::SQLITE_OK && !region.is_null()).then_some(region.cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &std::path::Path) -> Connection {
        let conn = Connection::open(path).unwrap();
        conn.pragma_update(None, "journal_mode", "WAL").unwrap();
        conn
    }

    fn version(conn: &Connection) -> i64 {
        conn.query_row("PRAGMA data_version", [], |r| r.get(0)).unwrap()
    }

    #[test]
    fn it_moves_with_every_commit_of_anybody_and_with_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let (ours, theirs) = (open(&path), open(&path));
        ours.execute_batch("create table t(a); insert into t values (1)").unwrap();
        assert_eq!(version(&ours), version(&ours));
        let mut last = mark(&ours).expect("a mark in WAL mode");
        assert_eq!(mark(&ours), Some(last));
        for i in 0..300 {
            let conn = if i % 2 == 0 { &theirs } else { &ours };
            // A large one, a checkpoint that makes the log begin anew, or a row that becomes
            // what it was.
            let sql = match i % 5 {
                0 => "update t set a = hex(randomblob(40000)); update t set a = 1",
                1 => "pragma wal_checkpoint(TRUNCATE); update t set a = 0",
                _ => "update t set a = 1 - a",
            };
            conn.execute_batch(sql).unwrap();
            let now = mark(&ours).expect("a mark");
            assert_ne!(now, last, "round {i}");
            last = now;
        }
        let before = version(&ours);
        theirs.query_row("select count(*) from t", [], |r| r.get::<_, i64>(0)).unwrap();
        theirs.execute_batch("begin immediate; insert into t values (2); rollback").unwrap();
        assert_eq!((mark(&ours), version(&ours)), (Some(last), before), "nothing was committed");
    }

    #[test]
    fn a_database_without_shared_memory_has_none() {
        assert_eq!(mark(&Connection::open_in_memory().unwrap()), None);
    }
}
