//! Where new files are made, and what is left there by processes that were killed.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// The directory in the root of the store; no mount shows it, no copy takes it along.
pub(super) const DIR: &str = ".instancefs-swap";
/// Between the token of a process and the rest of a name.
const MARK: char = '-';
/// Others may be tidying up at the same time.
const TRIES: usize = 20;

/// A process's own part of the directory; dropped, it is given up.
pub(super) struct Place {
    root: OwnedFd,
    pub(super) dir: OwnedFd,
    token: String,
    /// Locked as long as the process lives.
    _lock: OwnedFd,
}

impl Place {
    /// Makes one.
    pub(super) fn make(root: BorrowedFd<'_>) -> Result<Place, Errno> {
        for _ in 0..TRIES {
            match Place::try_make(root) {
                Err(Errno::NOENT | Errno::WOULDBLOCK | Errno::EXIST) => {}
                other => return other,
            }
        }
        Err(Errno::BUSY)
    }

    fn try_make(root: BorrowedFd<'_>) -> Result<Place, Errno> {
        match rustix::fs::mkdirat(root, DIR, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e),
        }
        let dir = open(root)?;
        let token = format!("{:016x}", RandomState::new().build_hasher().finish());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(&dir, &token, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        // It may have been taken for a leftover before it was locked.
        if rustix::fs::fstat(&lock)?.st_nlink == 0 {
            return Err(Errno::NOENT);
        }
        let root = rustix::fs::openat(root, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Place { root, dir, token, _lock: lock })
    }

    /// A name in it.
    pub(super) fn name(&self, number: u64) -> String {
        format!("{}{MARK}{number}", self.token)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.dir, &self.token, AtFlags::empty());
        let _ = rustix::fs::unlinkat(&self.root, DIR, AtFlags::REMOVEDIR);
    }
}

/// Removes what belongs to no living process.
pub(super) fn leftovers(root: BorrowedFd<'_>) -> Result<(), Errno> {
    let dir = match open(root) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(()),
        Err(e) => return Err(e),
    };
    let mut by_token: HashMap<String, Vec<String>> = HashMap::new();
    for entry in Dir::read_from(&dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if !matches!(name, "." | "..") {
            let token = name.split(MARK).next().unwrap_or(name).to_owned();
            by_token.entry(token).or_default().push(name.to_owned());
        }
    }
    for (token, names) in by_token {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = match rustix::fs::openat(&dir, &token, flags, Mode::empty()) {
            Ok(lock) => Some(lock),
            Err(Errno::NOENT) => None,
            Err(e) => return Err(e),
        };
        if let Some(lock) = &lock
            && rustix::fs::flock(lock.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err()
        {
            continue;
        }
        for name in names.iter().filter(|name| **name != token) {
            log::info!("{DIR}/{name}: left behind by a process that was killed, removed");
            let _ = rustix::fs::unlinkat(&dir, name, AtFlags::empty());
        }
        let _ = rustix::fs::unlinkat(&dir, &token, AtFlags::empty());
    }
    let _ = rustix::fs::unlinkat(root, DIR, AtFlags::REMOVEDIR);
    Ok(())
}

fn open(root: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(root, DIR, flags, Mode::empty())
}
