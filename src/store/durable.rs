//! What `fsync` needs: committed work on the device (R8).

use std::sync::atomic::Ordering;

use rusqlite::{Connection, ffi};

use super::StoreError;
use super::connect::{Store, io};

impl Store {
    /// Something was committed that may not survive power loss yet. The daemon calls
    /// [`Store::sync`] about every second while this holds.
    pub fn is_dirty(&self) -> bool {
        self.synced.load(Ordering::Acquire) < self.commits.load(Ordering::Acquire)
    }

    /// Makes everything that was committed before this call survive power loss. Waits for the
    /// device, but holds no lock that a reader or writer needs. Callers that come together
    /// share one sync.
    ///
    /// With `synchronous=NORMAL` a commit is in the WAL but not forced out, so the WAL is
    /// synced, through SQLite's own handle: opening and closing the file by other means would
    /// drop this process's locks. What a checkpoint has moved out of the WAL meanwhile, the
    /// checkpoint has synced.
    pub fn sync(&self) -> Result<(), StoreError> {
        let wanted = self.commits.load(Ordering::Acquire);
        let conn = self.syncer.lock();
        if self.synced.load(Ordering::Acquire) >= wanted {
            return Ok(());
        }
        let covers = self.commits.load(Ordering::Acquire);
        // A read transaction opens the WAL if it is not open yet.
        let read = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        let read = read.map_err(StoreError::from);
        self.whereabouts.looked(&read);
        read?;
        if let Err(e) = self.in_place() {
            self.rescue_wal();
            return Err(e);
        }
        let code = sync_wal(&conn);
        if code != ffi::SQLITE_OK {
            let e = std::io::Error::other(format!("cannot be synced: {}", ffi::code_to_str(code)));
            return Err(io(&self.db)(e));
        }
        self.synced.fetch_max(covers, Ordering::AcqRel);
        Ok(())
    }
}

/// Syncs the data of the connection's WAL file; an SQLite result code.
fn sync_wal(conn: &Connection) -> i32 {
    let mut file: *mut ffi::sqlite3_file = std::ptr::null_mut();
    // SAFETY: the handle is valid while `conn` is borrowed, and its mutex guard is held, so
    // nobody else uses the connection. SQLITE_FCNTL_JOURNAL_POINTER stores the address of the
    // connection's journal file object into the pointer that it is given. In WAL mode that
    // object lives as long as the connection stays open; its methods table is static, and may
    // be null when the file was never opened, which is checked.
    unsafe {
        let code = ffi::sqlite3_file_control(
            conn.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_JOURNAL_POINTER,
            (&raw mut file).cast(),
        );
        if code != ffi::SQLITE_OK {
            return code;
        }
        if file.is_null() || (*file).pMethods.is_null() {
            return ffi::SQLITE_MISUSE;
        }
        match (*(*file).pMethods).xSync {
            Some(sync) => sync(file, ffi::SQLITE_SYNC_NORMAL | ffi::SQLITE_SYNC_DATAONLY),
            None => ffi::SQLITE_MISUSE,
        }
    }
}
