//! `missions.lock`: programs that replace all missions hold an exclusive `flock` on it for
//! their whole read-modify-write, and so do we while we change rows of missions (R9).

use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use super::connect::{LOCK_NAME, io};
use super::{Store, StoreError};

/// What this process does with the lock.
#[derive(Debug, Default)]
pub(super) struct Locking {
    /// Held for one try, so that two threads that try do not take each other for strangers.
    trying: Mutex<()>,
    /// The lock is ours.
    ours: Arc<AtomicBool>,
    /// Got by a [`Turn`], for whoever tries next.
    kept: Mutex<Option<MissionsLock>>,
}

/// The lock, held until this is dropped.
#[derive(Debug)]
pub struct MissionsLock {
    file: File,
    ours: Arc<AtomicBool>,
}

impl Drop for MissionsLock {
    fn drop(&mut self) {
        // Closing the file unlocks too, but only after this, when it no longer counts as ours.
        if let Err(e) = flock(&self.file, FlockOperation::Unlock) {
            log::warn!("{LOCK_NAME} could not be unlocked before it is closed: {e}");
        }
        self.ours.store(false, Ordering::Release);
    }
}

impl Store {
    /// Takes `missions.lock` if it is free; `None` when somebody else holds it. Never waits.
    ///
    /// The file is opened anew each time, because another program may have replaced it.
    pub fn try_missions_lock(&self) -> Result<Option<MissionsLock>, StoreError> {
        let _one = self.locking.trying.lock();
        if let Some(kept) = self.locking.kept.lock().take() {
            return Ok(Some(kept));
        }
        let Some(file) = self.try_lock_file()? else { return Ok(None) };
        self.locking.ours.store(true, Ordering::Release);
        Ok(Some(MissionsLock { file, ours: self.locking.ours.clone() }))
    }

    /// Whether another process holds `missions.lock` at this moment. Never waits.
    pub fn missions_lock_is_theirs(&self) -> Result<bool, StoreError> {
        let _one = self.locking.trying.lock();
        Ok(!self.locking.ours.load(Ordering::Acquire) && self.try_lock_file()?.is_none())
    }

    /// A place in the queue of those that wait for `missions.lock`.
    pub fn turn(&self) -> Turn {
        Turn { path: self.dir().join(LOCK_NAME), locking: Arc::clone(&self.locking) }
    }

    fn try_lock_file(&self) -> Result<Option<File>, StoreError> {
        let path = self.dir().join(LOCK_NAME);
        let file = open(&path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(None),
            Err(e) => Err(io(&path)(e.into())),
        }
    }
}

fn open(path: &Path) -> Result<File, StoreError> {
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // Whoever may write to the store could have the daemon make a file anywhere.
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(io(path))
}

/// A place in the queue of those that wait for `missions.lock`. Dropped, it unlocks what it has
/// got and nobody has used. It does not keep the store open.
#[derive(Debug)]
pub struct Turn {
    path: PathBuf,
    locking: Arc<Locking>,
}

impl Turn {
    /// Blocks until nobody else holds the lock, for as long as that takes, and takes it. The
    /// next [`Store::try_missions_lock`] gets it; until then nobody else does, so this is to be
    /// dropped soon. For threads that serve nobody and hold nothing.
    pub fn wait(&self) -> Result<(), StoreError> {
        loop {
            let file = open(&self.path)?;
            while let Err(e) = flock(&file, FlockOperation::LockExclusive) {
                if e != rustix::io::Errno::INTR {
                    return Err(io(&self.path)(e.into()));
                }
            }
            // Another program may have replaced the file meanwhile.
            let locked = file.metadata().map_err(io(&self.path))?;
            let named = std::fs::metadata(&self.path).ok();
            if named.is_some_and(|n| (n.dev(), n.ino()) == (locked.dev(), locked.ino())) {
                let _one = self.locking.trying.lock();
                self.locking.ours.store(true, Ordering::Release);
                let lock = MissionsLock { file, ours: self.locking.ours.clone() };
                *self.locking.kept.lock() = Some(lock);
                return Ok(());
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.locking.kept.lock().take());
    }
}
