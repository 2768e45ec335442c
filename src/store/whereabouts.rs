//! Whether the database still is the one that was opened.
//!
//! A database, or the WAL beside it, that somebody removes or replaces while it is open goes on
//! without a name: SQLite would take every commit and lose all of them with the last descriptor.
//! So every gate asks first, and what is committed stays acknowledged only where it can be found.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, ErrorCode};

use super::StoreError;
use super::connect::{Store, io};

/// Device and inode number.
type Id = (u64, u64);

/// The files of one open database.
#[derive(Debug)]
pub(super) struct Whereabouts {
    db: (PathBuf, Id),
    /// What SQLite keeps beside it, from the first time on that it is there. It stays the same
    /// file as long as any connection is open.
    beside: [(PathBuf, OnceLock<Id>); 2],
    /// SQLite has found the database damaged at the last look.
    damaged: AtomicBool,
}

impl Whereabouts {
    /// Of the database at this path, which has just been opened.
    pub(super) fn of(db: &Path) -> Result<Whereabouts, StoreError> {
        let meta = std::fs::symlink_metadata(db).map_err(io(db))?;
        let beside = ["-wal", "-shm"].map(|end| {
            let mut path = db.as_os_str().to_owned();
            path.push(end);
            (PathBuf::from(path), OnceLock::new())
        });
        Ok(Whereabouts {
            db: (db.to_owned(), (meta.dev(), meta.ino())),
            beside,
            damaged: AtomicBool::new(false),
        })
    }

    /// Whether a commit would go into the files that have the names.
    ///
    /// Errors: [`StoreError::Unusable`], which says what has happened.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let (path, opened) = &self.db;
        match std::fs::symlink_metadata(path) {
            Ok(meta) if (meta.dev(), meta.ino()) == *opened => {}
            Ok(_) => return Err(lost(path, "was replaced while in use")),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(lost(path, "was removed while in use"));
            }
            Err(e) => return Err(io(path)(e)),
        }
        for (path, opened) in &self.beside {
            match std::fs::symlink_metadata(path) {
                Ok(meta) => {
                    let id = (meta.dev(), meta.ino());
                    if *opened.get_or_init(|| id) != id {
                        return Err(lost(path, "was replaced while in use"));
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                    if opened.get().is_some() {
                        return Err(lost(path, "was removed while in use"));
                    }
                }
                Err(e) => return Err(io(path)(e)),
            }
        }
        if self.damaged.load(Ordering::Acquire) {
            return Err(lost(&self.db.0, "is damaged"));
        }
        Ok(())
    }

    /// Where damage was found, whether it is still there: an answer of SQLite that says so may
    /// come of one failed read.
    pub(super) fn look_again(&self, conn: &Connection) {
        if !self.damaged.load(Ordering::Acquire) {
            return;
        }
        // From the file, not from what is still in memory of it.
        let _emptied = conn.execute_batch("PRAGMA shrink_memory");
        let sound = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        if sound.is_ok_and(|said| said == "ok") {
            self.damaged.store(false, Ordering::Release);
        }
    }

    /// The WAL has lost its name, and nobody has made another one yet.
    fn wal_is_removed(&self) -> bool {
        let (path, opened) = &self.beside[0];
        opened.get().is_some() && !path.exists() && self.db.0.exists()
    }

    /// Takes note of how a look at the database ended: damage that was found stays until a look
    /// finds none.
    pub(super) fn looked<T>(&self, answer: &Result<T, StoreError>) {
        match answer {
            Ok(_) => self.damaged.store(false, Ordering::Release),
            Err(e) if is_damage(e) => self.damaged.store(true, Ordering::Release),
            Err(_) => {}
        }
    }
}

/// SQLite cannot make sense of the file.
fn is_damage(e: &StoreError) -> bool {
    let StoreError::Sqlite(e) = e else { return false };
    matches!(e.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn lost(path: &Path, what: &str) -> StoreError {
    let reason = format!("{what}: no save can be kept; unmount and see `instancefs doctor`");
    StoreError::Unusable { path: path.to_owned(), reason }
}

impl Store {
    /// Whether saves still reach the database that was opened, under its name, undamaged. Asked by
    /// every gate; costs three `stat`.
    ///
    /// Errors: [`StoreError::Unusable`].
    pub fn in_place(&self) -> Result<(), StoreError> {
        self.whereabouts.check()
    }

    /// Reads something that the connection does not know by heart when others have committed.
    pub(super) fn look_at(&self, conn: &Connection) -> Result<(), StoreError> {
        let read = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        let read = read.map_err(StoreError::from);
        if read.is_err() {
            self.whereabouts.looked(&read);
        }
        read
    }

    /// What is in a WAL that was removed would be lost with this process: brings it into the
    /// database while its descriptor is still open.
    pub(super) fn rescue_wal(&self) {
        if !self.whereabouts.wal_is_removed() || self.read_only() {
            return;
        }
        let Some(writer) = self.writer.try_lock() else { return };
        let done = writer.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(e) = done {
            log::warn!("{}: not brought back from its removed WAL: {e}", self.db.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Options, Wait};

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        drop(Store::create(dir.path()).unwrap());
        let store = Store::open(dir.path(), Options::default()).unwrap();
        store.gate(|_| Ok(())).unwrap();
        (dir, store)
    }

    fn complaint(store: &Store) -> String {
        match store.begin(Wait::Patiently, false) {
            Ok(_) => panic!("a gate without a database"),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn nothing_is_committed_into_files_without_a_name() {
        for (name, by) in [
            ("missions.db", "replaced"),
            ("missions.db", "removed"),
            ("missions.db-wal", "replaced"),
            ("missions.db-wal", "removed"),
            ("missions.db-shm", "removed"),
        ] {
            let (dir, store) = store();
            let (path, away) = (dir.path().join(name), dir.path().join("away"));
            std::fs::rename(&path, &away).unwrap();
            if by == "replaced" {
                std::fs::copy(&away, &path).unwrap();
            }
            let said = complaint(&store);
            assert!(said.contains(name) && said.contains(by), "{said}");
            // It goes on when the file is back.
            std::fs::rename(&away, &path).unwrap();
            store.gate(|_| Ok(())).unwrap();
        }
    }

    /// A file of a lower layer with two names, as some images have them, gets another number
    /// when it is first opened for writing.
    #[test]
    fn a_database_of_a_lower_layer_is_the_one_that_writing_makes_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (lower, upper, work, merged) = (at("lower"), at("upper"), at("work"), at("merged"));
        drop(Store::create(&lower).unwrap());
        std::fs::hard_link(lower.join("missions.db"), dir.path().join("other")).unwrap();
        let c = |text: String| std::ffi::CString::new(text).unwrap();
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            lower.display(),
            upper.display(),
            work.display()
        );
        let (target, options) = (c(merged.display().to_string()), c(options));
        let (nothing, private) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
        // SAFETY: calls with strings that outlive them. The mounts are this thread's alone, and
        // end with it.
        let mounted = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(nothing, c"/".as_ptr(), nothing, private, nothing.cast()) == 0
                && libc::mount(
                    c"overlay".as_ptr(),
                    target.as_ptr(),
                    c"overlay".as_ptr(),
                    0,
                    options.as_ptr().cast(),
                ) == 0
        };
        if !mounted {
            // Not everybody may do that.
            return;
        }
        let store = Store::open(&merged, Options::default()).unwrap();
        store.gate(|_| Ok(())).unwrap();
        drop(store);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }, 0);
    }

    #[test]
    fn what_is_in_a_removed_wal_comes_into_the_database() {
        let (dir, store) = store();
        store
            .gate(|c| Ok(c.execute_batch("CREATE TABLE kept (x); INSERT INTO kept VALUES (7)")?))
            .unwrap();
        std::fs::remove_file(dir.path().join("missions.db-wal")).unwrap();
        assert!(store.sync().is_err());
        // As after a kill: only the database is left.
        let copy = dir.path().join("copy.db");
        std::fs::copy(dir.path().join("missions.db"), &copy).unwrap();
        let kept = rusqlite::Connection::open(&copy).unwrap();
        let x: i64 = kept.query_row("SELECT x FROM kept", [], |r| r.get(0)).unwrap();
        assert_eq!(x, 7);
    }

    #[test]
    fn damage_that_was_found_stops_commits_until_none_is_found() {
        use std::os::unix::fs::FileExt;
        let (dir, store) = store();
        let fill = "CREATE TABLE filled AS SELECT hex(randomblob(30000)) AS x";
        store.gate(|conn| Ok(conn.execute_batch(fill)?)).unwrap();
        let writer = store.writer.lock();
        writer.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        drop(writer);
        let found = || {
            let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            let damage = rusqlite::Error::SqliteFailure(corrupt, None);
            store.whereabouts.looked::<()>(&Err(StoreError::Sqlite(damage)));
        };
        let path = dir.path().join("missions.db");
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let good = std::fs::read(&path).unwrap();
        file.write_all_at(&vec![0x5a; good.len() - 8192], 8192).unwrap();
        found();
        assert!(complaint(&store).contains("is damaged"));
        store.whereabouts.looked::<()>(&Err(StoreError::Busy));
        assert!(complaint(&store).contains("is damaged"));
        file.write_all_at(&good, 0).unwrap();
        store.gate(|_| Ok(())).unwrap();
        // One read that failed is no damage.
        found();
        store.gate(|_| Ok(())).unwrap();
    }
}
