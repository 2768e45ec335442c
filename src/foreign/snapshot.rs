//! A private copy of a database that another program may be using.
//!
//! Nothing is ever written beside the source, not even SQLite's `-shm`, so the source is not
//! opened with SQLite at all: without a live `-shm` such a connection would make one, and with a
//! read-only one it may see nothing. Instead the files are copied while the locks that SQLite's
//! own readers take keep them still, and SQLite recovers the copy:
//!
//! * A shared lock on the database keeps a writer in rollback mode, and the conversion of the
//!   journal mode, away. A `-journal` is copied too: played back onto pages that were not changed
//!   yet it does nothing, and that of a crash is played back in the copy.
//! * A shared lock on the checkpoint byte of the `-shm` keeps the database as it is; one on a
//!   reader's byte keeps the `-wal` from starting over, so that it only grows. Database first,
//!   then `-wal`, is then one state of both; an unfinished transaction at its end is left out by
//!   the recovery. Readers and writers go on meanwhile.
//! * Without a `-shm` nobody has the `-wal` open. If something changed during the copy, or a file
//!   came or went, it is done again.
//!
//! Locks are of the open file, not of the process, and need no permission to write.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::{ForeignError, Result, io, unusable};

/// How long a database that is being changed is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// The range of a database file that SQLite's readers lock (`SHARED_FIRST`, `SHARED_SIZE`).
const SHARED: (i64, i64) = (0x4000_0002, 510);
/// The byte of a `-shm` that a checkpoint locks (`WAL_CKPT_LOCK`).
const CHECKPOINT: (i64, i64) = (121, 1);
/// The byte of a `-shm` of the first reader that reads the `-wal` (`WAL_READ_LOCK(1)`).
const READER: (i64, i64) = (124, 1);

/// Copies one state of the database `from` to the new file `to`, perhaps with a `-wal` or
/// `-journal` beside it that SQLite takes in at the first open. `false`: there is none.
///
/// Errors: [`ForeignError::Busy`] when it did not keep still in 60 s; those of the file system.
pub fn take(from: &Path, to: &Path) -> Result<bool> {
    // SQLite keeps its files beside the real one.
    let from = match from.canonicalize() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        path => path.map_err(io(from))?,
    };
    if !from.metadata().map_err(io(&from))?.is_file() {
        return Err(unusable(&from, "not a file"));
    }
    let until = Instant::now() + PATIENCE;
    while !attempt(&from, to)? {
        if Instant::now() > until {
            return Err(ForeignError::Busy { path: from });
        }
        std::thread::sleep(PAUSE);
    }
    Ok(true)
}

/// The path of a file that SQLite keeps beside a database.
pub fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = database.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// One try. `false`: something was in motion.
fn attempt(from: &Path, to: &Path) -> Result<bool> {
    let Some(database) = open(from)? else { return Ok(false) };
    let before = State::of(from)?;
    if !lock(&database, SHARED).map_err(io(from))? {
        return Ok(false);
    }
    let shm = beside(from, "-shm");
    let mut still = false;
    let _index = match (before.wal.is_some(), open(&shm)?) {
        (true, Some(index)) => {
            if !lock(&index, CHECKPOINT).map_err(io(&shm))?
                || !lock(&index, READER).map_err(io(&shm))?
            {
                return Ok(false);
            }
            // The locks count only if this is the -shm that the programs use now.
            let now = State::of(from)?;
            if now.shm != before.shm || id(&now.wal) != id(&before.wal) {
                return Ok(false);
            }
            still = true;
            Some(index)
        }
        (true, None) | (false, _) => None,
    };
    copy(from, &database, to)?;
    for ending in ["-wal", "-journal"] {
        let target = beside(to, ending);
        match std::fs::remove_file(&target) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(io(&target)(e)),
            _ => {}
        }
        let source = beside(from, ending);
        if let Some(file) = open(&source)? {
            copy(&source, &file, &target)?;
        }
    }
    let after = State::of(from)?;
    Ok(if still {
        id(&after.database) == id(&before.database) && id(&after.wal) == id(&before.wal)
    } else {
        after == before
    })
}

/// What can be seen of the files from outside.
#[derive(PartialEq, Eq)]
struct State {
    database: Seen,
    wal: Seen,
    /// Device and inode alone: its content changes all the time.
    shm: Option<(u64, u64)>,
}

/// Device, inode, size, and times of content and inode.
type Seen = Option<(u64, u64, u64, (i64, i64), (i64, i64))>;

fn id(seen: &Seen) -> Option<(u64, u64)> {
    seen.map(|(dev, ino, ..)| (dev, ino))
}

impl State {
    fn of(database: &Path) -> Result<State> {
        let look = |path: &Path| -> Result<Seen> {
            match path.metadata() {
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
                Err(e) => Err(io(path)(e)),
                Ok(m) => Ok(Some((
                    m.dev(),
                    m.ino(),
                    m.size(),
                    (m.mtime(), m.mtime_nsec()),
                    (m.ctime(), m.ctime_nsec()),
                ))),
            }
        };
        Ok(State {
            database: look(database)?,
            wal: look(&beside(database, "-wal"))?,
            shm: id(&look(&beside(database, "-shm"))?),
        })
    }
}

/// Opens a regular file to read it.
fn open(path: &Path) -> Result<Option<File>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io(path)(e)),
    }
}

/// Takes a shared lock until the file is closed; `false` when somebody has it exclusively. A file
/// system without locks has no two programs that SQLite could keep apart.
fn lock(file: &File, (start, len): (i64, i64)) -> std::io::Result<bool> {
    let range = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open and `range` is a whole flock structure.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } == 0 {
        return Ok(true);
    }
    let e = std::io::Error::last_os_error();
    match e.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        Some(libc::ENOLCK | libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => Ok(true),
        _ => Err(e),
    }
}

/// Copies what the file holds now to a private file.
fn copy(from: &Path, source: &File, to: &Path) -> Result<()> {
    let size = source.metadata().map_err(io(from))?.len();
    let mut target = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(to)
        .map_err(io(to))?;
    std::io::copy(&mut source.take(size), &mut target).map_err(io(to))?;
    Ok(())
}
