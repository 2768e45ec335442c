//! One process at a time changes a store: `flock` on a private file in it.
//!
//! The kernel gives the lock back when the holder ends in whatever way, so a lock is never
//! stale. The file says who holds it, for messages only; the lock itself is what counts.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::error::{DaemonError, Result, io};
use super::names;
use crate::model::proc_text;

/// Who holds a store, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// What it does: `served` or `being changed`, to be read with "by process N".
    pub what: String,
    /// Where the store is mounted by it, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mountpoint: Option<String>,
}

/// The right to change a store. Given back when dropped.
#[derive(Debug)]
pub struct StoreLock {
    file: File,
    store: PathBuf,
    /// Device and inode number of the store.
    dir: Option<(u64, u64)>,
}

impl StoreLock {
    /// Takes the lock, or says at once who has it ([`DaemonError::Held`]).
    pub fn take(store: &Path) -> Result<StoreLock> {
        StoreLock::take_within(store, Duration::ZERO)
    }

    /// Takes the lock, waiting at most this long for another command to finish.
    pub fn take_within(store: &Path, patience: Duration) -> Result<StoreLock> {
        let until = Instant::now() + patience;
        let path = store.join(names::LOCK);
        loop {
            let file = open(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // `eject` removes the file: a lock on a file without a name protects nothing.
                Ok(()) if same_file(&file, &path) => {
                    let mut lock = StoreLock { file, store: store.to_owned(), dir: id(store) };
                    lock.announce("being changed", None)?;
                    return Ok(lock);
                }
                Ok(()) => continue,
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let now = Instant::now();
                    if now >= until && (now >= until + DYING || !dying(read_holder(&path).pid)) {
                        return Err(held(store, &path));
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(e) => return Err(io(&path, "cannot lock")(e)),
            }
        }
    }

    /// Says in the file what the holder, this process, does with the store.
    pub fn announce(&mut self, what: &str, mountpoint: Option<&Path>) -> Result<()> {
        let holder = Holder {
            pid: std::process::id(),
            what: what.to_owned(),
            mountpoint: mountpoint.map(|m| m.to_string_lossy().into_owned()),
        };
        let path = self.store.join(names::LOCK);
        let mut line = serde_json::to_vec(&holder).unwrap_or_default();
        line.push(b'\n');
        self.file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .and_then(|_| self.file.write_all(&line))
            .map_err(io(&path, "cannot write"))
    }

    /// Whether the store that it is for still has its name. Nothing may be written by a path that
    /// leads elsewhere by now.
    pub fn is_in_place(&self) -> bool {
        self.dir.is_some() && self.dir == id(&self.store)
    }

    /// The store it is for.
    pub fn store(&self) -> &Path {
        &self.store
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // Nobody holds it any more, so nobody should read that somebody does.
        let _ = self.file.set_len(0);
    }
}

/// Who holds the store now; `None` when nobody does. Waits a while for one that is dying.
pub fn holder(store: &Path) -> Option<Holder> {
    let path = store.join(names::LOCK);
    let file = File::open(&path).ok()?;
    let until = Instant::now() + DYING;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let holder = read_holder(&path);
                if Instant::now() >= until || !dying(holder.pid) {
                    return Some(holder);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => return None,
        }
    }
}

/// How long a holder may take from the signal that kills it to its end: its open files, and so
/// the lock, are given back last.
const DYING: Duration = Duration::from_secs(10);

/// Whether a process is killed but not gone. Reads only what can be read at any time.
fn dying(pid: u32) -> bool {
    if pid == 0 {
        return false;
    }
    let Ok(status) = proc_text(format!("/proc/{pid}/status")) else {
        return true;
    };
    let field = |name: &str| {
        status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).unwrap_or("").trim()
    };
    let kill = 1u64 << (libc::SIGKILL - 1);
    let pending =
        |name: &str| u64::from_str_radix(field(name), 16).is_ok_and(|set| set & kill != 0);
    field("State").starts_with(['Z', 'X']) || pending("ShdPnd") || pending("SigPnd")
}

fn open(path: &Path) -> Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(io(path, "cannot open"))
}

fn id(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

fn held(store: &Path, path: &Path) -> DaemonError {
    let holder = read_holder(path);
    DaemonError::Held {
        store: store.to_owned(),
        what: holder.what,
        pid: holder.pid,
        mountpoint: holder.mountpoint.map(PathBuf::from),
    }
}

/// The holder's own words. It writes them just after it has the lock, so look a few times.
fn read_holder(path: &Path) -> Holder {
    for _ in 0..20 {
        let mut text = String::new();
        if let Ok(mut file) = File::open(path)
            && file.read_to_string(&mut text).is_ok()
            && let Ok(holder) = serde_json::from_str(&text)
        {
            return holder;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Holder { pid: 0, what: "held".into(), mountpoint: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_is_first() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path()), None);
        let mut first = StoreLock::take(dir.path()).unwrap();
        first.announce("served", Some(Path::new("/m"))).unwrap();
        let Err(DaemonError::Held { pid, mountpoint, .. }) = StoreLock::take(dir.path()) else {
            panic!("two holders");
        };
        assert_eq!(pid, std::process::id());
        assert_eq!(mountpoint.as_deref(), Some(Path::new("/m")));
        assert_eq!(holder(dir.path()).map(|h| h.what).as_deref(), Some("served"));
        drop(first);
        assert_eq!(holder(dir.path()), None);
        StoreLock::take(dir.path()).unwrap();
    }

    #[test]
    fn a_waiter_gets_it_when_it_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let first = StoreLock::take(dir.path()).unwrap();
        let path = dir.path().to_owned();
        let waiter = std::thread::spawn(move || {
            StoreLock::take_within(&path, Duration::from_secs(10)).map(|_| ())
        });
        std::thread::sleep(Duration::from_millis(60));
        drop(first);
        waiter.join().unwrap().unwrap();
    }

    #[test]
    fn a_lock_file_without_a_name_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let first = StoreLock::take(dir.path()).unwrap();
        std::fs::remove_file(dir.path().join(names::LOCK)).unwrap();
        drop(first);
        let second = StoreLock::take(dir.path()).unwrap();
        assert!(same_file(&second.file, &dir.path().join(names::LOCK)));
    }

    #[test]
    fn a_symlink_in_place_of_the_lock_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "precious").unwrap();
        let store = dir.path().join("s");
        std::fs::create_dir(&store).unwrap();
        std::os::unix::fs::symlink(&outside, store.join(names::LOCK)).unwrap();
        assert!(matches!(StoreLock::take(&store), Err(DaemonError::Io { .. })));
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "precious");
    }
}
