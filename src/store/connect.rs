//! Opening a store: its directory, its connections, their settings.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::lockfile::Locking;
use super::whereabouts::Whereabouts;
use super::{Retention, StoreError, migrate, walindex};

/// The database's name in the store.
pub const DB_NAME: &str = "missions.db";
/// The name of the file that programs lock while they change missions (R9).
pub const LOCK_NAME: &str = "missions.lock";

/// Idle reader connections that are kept.
const READERS: usize = 4;
/// Pages in the WAL at which a commit itself checkpoints; ordinarily [`Store::maintain`] has
/// done so long before.
const BACKSTOP_PAGES: u32 = 16_000;
/// Bytes to which the WAL file is cut when it starts over.
const WAL_KEPT: u32 = 16 << 20;

/// How to open a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Nothing is written: no migration, no history, no rows. A database that we have never
    /// written to can be read too; it then has no history.
    pub read_only: bool,
    /// How long a commit waits for another program's lock before [`StoreError::Busy`].
    pub patience: Duration,
    /// What the history keeps.
    pub retention: Retention,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            read_only: false,
            patience: Duration::from_secs(5),
            retention: Retention::default(),
        }
    }
}

/// The writer connection.
pub(super) struct Writer {
    pub(super) conn: Connection,
    /// Its `data_version` when the documents were last compared with the rows; `None`: never.
    pub(super) seen: Option<i64>,
    /// A head of the WAL index, and the `data_version` that belongs to it.
    pub(super) mark: Option<(walindex::Mark, i64)>,
}

/// A reader that only watches.
pub(super) struct Probe {
    pub(super) conn: Connection,
    /// Its `data_version` at a moment when the documents were known to be up to date.
    pub(super) known: Option<i64>,
    /// When a reader last asked it.
    pub(super) asked: Option<Instant>,
}

/// An open store.
pub struct Store {
    dir: PathBuf,
    pub(super) db: PathBuf,
    pub(super) options: Options,
    /// A database without our tables, opened read-only.
    pub(super) bare: bool,
    pub(super) probe: Mutex<Probe>,
    pub(super) syncer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    /// Closed last (fields are dropped in this order): only a connection that may write
    /// removes the WAL when it is the last one.
    pub(super) writer: Mutex<Writer>,
    pub(super) locking: Arc<Locking>,
    /// A gate waits for another program's lock, with the writer mutex held.
    pub(super) waiting: AtomicBool,
    /// Commits of this process.
    pub(super) commits: AtomicU64,
    /// How many of them are on the device.
    pub(super) synced: AtomicU64,
    pub(super) whereabouts: Whereabouts,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// Makes a store: the directory (0700, if it is missing), the database (0600, if it is
    /// missing) and our tables in it. An existing database is taken over as it is.
    ///
    /// Errors: as [`Store::open`].
    pub fn create(dir: &Path) -> Result<Store, StoreError> {
        if !dir.exists() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io(dir))?;
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
                .map_err(io(dir))?;
        }
        let db = dir.join(DB_NAME);
        // SQLite gives -wal and -shm the database's own mode, so it has to exist with the
        // right one first. Only a file that we make is ever opened here: opening and closing a
        // database by other means drops SQLite's locks of this process.
        match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&db) {
            Ok(_) => {
                let d = std::fs::File::open(dir).map_err(io(dir))?;
                d.sync_all().map_err(io(dir))?;
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(io(&db)(e)),
        }
        Store::open(dir, Options::default())
    }

    /// Opens a store whose database exists, and brings our tables up to date.
    ///
    /// Errors: [`StoreError::Unusable`] when there is no database, it is none, it is of
    /// another shape, or WAL does not work there; [`StoreError::Newer`];
    /// [`StoreError::Busy`] when somebody kept it locked.
    pub fn open(dir: &Path, options: Options) -> Result<Store, StoreError> {
        let db = dir.join(DB_NAME);
        // Not through a symlink: whoever may write to the directory could make the daemon write
        // anywhere.
        match std::fs::symlink_metadata(&db) {
            Ok(m) if m.is_file() => {}
            Ok(m) if m.is_symlink() => return Err(unusable(&db, "a symlink is not followed")),
            Ok(_) => return Err(unusable(&db, "not a file")),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(unusable(&db, "no such database; `instancefs init` makes a store"));
            }
            Err(e) => return Err(io(&db)(e)),
        }
        let writer = connect(&db, &options).map_err(|e| at_open(&db, e))?;
        // Not before: a layered file system may give a file another number when it is first
        // opened for writing.
        let whereabouts = Whereabouts::of(&db)?;
        let bare = migrate::run(&writer, &db, options.read_only).map_err(|e| refine(&db, e))?;
        let reader = Options { read_only: true, ..options.clone() };
        let probe = connect(&db, &reader).map_err(|e| at_open(&db, e))?;
        let syncer = connect(&db, &reader).map_err(|e| at_open(&db, e))?;
        Ok(Store {
            dir: dir.to_owned(),
            db,
            options,
            bare,
            writer: Mutex::new(Writer { conn: writer, seen: None, mark: None }),
            probe: Mutex::new(Probe { conn: probe, known: None, asked: None }),
            syncer: Mutex::new(syncer),
            readers: Mutex::new(Vec::new()),
            locking: Arc::default(),
            waiting: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            whereabouts,
        })
    }

    /// The store's directory, as it was given.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How long a commit waits for another program's lock.
    pub fn patience(&self) -> Duration {
        self.options.patience
    }

    /// Opened read-only.
    pub fn read_only(&self) -> bool {
        self.options.read_only
    }

    /// A database without our tables (only possible read-only): it has no history.
    pub fn bare(&self) -> bool {
        self.bare
    }

    /// Runs `f` on a reader connection, inside one read transaction: all that it reads is of
    /// one moment.
    pub fn read<T>(
        &self,
        f: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.readers.lock().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => {
                let reader = Options { read_only: true, ..self.options.clone() };
                connect(&self.db, &reader)?
            }
        };
        let tx = conn.unchecked_transaction()?;
        let out = f(&tx);
        tx.finish()?;
        let mut readers = self.readers.lock();
        if readers.len() < READERS {
            readers.push(conn);
        }
        out
    }
}

/// One connection with our settings.
pub(super) fn connect(db: &Path, options: &Options) -> Result<Connection, rusqlite::Error> {
    let mode = if options.read_only {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    };
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let conn = Connection::open_with_flags(db, flags)?;
    conn.busy_timeout(options.patience)?;
    conn.set_prepared_statement_cache_capacity(64);
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "foreign_keys", false)?;
    if !options.read_only {
        let mode: String =
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |r| r.get(0))?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOLFS),
                Some(format!("journal mode is {mode}, WAL does not work here")),
            ));
        }
        conn.pragma_update(None, "synchronous", "NORMAL")?;
        conn.pragma_update(None, "wal_autocheckpoint", BACKSTOP_PAGES)?;
        conn.pragma_update(None, "journal_size_limit", WAL_KEPT)?;
    } else {
        // The first read is where SQLite finds out what the file is.
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    }
    Ok(conn)
}

/// What a failure to open means.
fn at_open(db: &Path, e: rusqlite::Error) -> StoreError {
    let what = match e.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => "not an SQLite database".to_owned(),
        Some(ErrorCode::DatabaseCorrupt) => format!("damaged: {e}"),
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::NoLargeFileSupport,
        ) => format!("cannot be opened: {e}"),
        _ => return StoreError::from(e),
    };
    StoreError::Unusable { path: db.to_owned(), reason: what }
}

/// The same for an error that is one of ours already.
fn refine(db: &Path, e: StoreError) -> StoreError {
    match e {
        StoreError::Sqlite(e) => at_open(db, e),
        other => other,
    }
}

fn unusable(path: &Path, reason: &str) -> StoreError {
    StoreError::Unusable { path: path.to_owned(), reason: reason.to_owned() }
}

pub(super) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> StoreError + '_ {
    move |source| match source.raw_os_error() {
        Some(libc::ENOSPC) => StoreError::Full,
        Some(libc::EDQUOT) => StoreError::Quota,
        _ => StoreError::Io { path: path.to_owned(), source },
    }
}
