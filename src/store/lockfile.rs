//! `missions.lock`: programs that replace all missions hold an exclusive `flock` on it for
//! their whole read-modify-write, and so do we while we change rows of missions (R9).

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;

use super::connect::{LOCK_NAME, io};
use super::{Store, StoreError};

/// The lock, held until this is dropped.
#[derive(Debug)]
pub struct MissionsLock {
    _file: File,
}

impl Store {
    /// Takes `missions.lock` if it is free; `None` when somebody else holds it. Never waits.
    ///
    /// The file is opened anew each time, because another program may have replaced it, and
    /// closing our descriptor is what releases the lock.
    pub fn try_missions_lock(&self) -> Result<Option<MissionsLock>, StoreError> {
        let path = self.dir().join(LOCK_NAME);
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(io(&path))?;
        use rustix::fs::FlockOperation::NonBlockingLockExclusive;
        match rustix::fs::flock(&file, NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(MissionsLock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(None),
            Err(e) => Err(io(&path)(e.into())),
        }
    }
}
