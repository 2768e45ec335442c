//! The files of the store themselves.
//!
//! A replaced file is made in a directory of our own in the root of the store,
//! `.instancefs-swap`, and exchanged with the old one: nobody ever sees a part, and what comes
//! out of the exchange is what was really there. The entries of one process begin with a token of
//! its own, and a file with that name is locked while the process lives, so that whoever opens the
//! store next can tell what was left behind.

mod append;
mod clean;
mod make;
mod swap;

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use self::clean::Place;
use crate::documents::Content;
use crate::documents::files::{Disk, Print, Swap};
use crate::model::{FileId, Stamp};
use crate::store::StoreError;

/// How often a file is read again because it was changed meanwhile.
const READS: usize = 10;

/// The files of one store.
pub struct StoreDisk {
    root: PathBuf,
    dir: OwnedFd,
    /// Where new files are made; there from the first one on.
    place: Mutex<Option<Place>>,
    next: AtomicU64,
    /// Held while files are synced: who comes meanwhile waits for what it is about.
    syncing: Mutex<()>,
    /// Files that were replaced and may not survive power loss.
    dirty: Mutex<HashSet<FileId>>,
}

impl StoreDisk {
    /// The files below `root`.
    ///
    /// Errors: the directory cannot be opened.
    pub fn open(root: &Path) -> Result<StoreDisk, StoreError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(root, flags, Mode::empty()).map_err(|e| io(root, e))?;
        Ok(StoreDisk {
            root: root.to_owned(),
            dir,
            place: Mutex::new(None),
            next: AtomicU64::new(0),
            syncing: Mutex::default(),
            dirty: Mutex::default(),
        })
    }

    /// Removes what processes that were killed have left behind.
    ///
    /// Errors: the store cannot be written.
    pub fn clean(&self) -> Result<(), StoreError> {
        clean::leftovers(self.dir.as_fd()).map_err(|e| io(&self.root.join(clean::DIR), e))
    }

    fn path(&self, file: FileId) -> PathBuf {
        self.root.join(file.path())
    }

    fn failed(&self, file: FileId) -> impl Fn(Errno) -> StoreError + '_ {
        move |e| io(&self.path(file), e)
    }

    /// The directory of a file and its name there.
    fn parent(&self, file: FileId) -> Result<(OwnedFd, &'static str), Errno> {
        let (dir, name) = file.path().rsplit_once('/').unwrap_or((".", file.path()));
        if matches!(name, "" | "." | "..") {
            return Err(Errno::INVAL);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok((self.open_below(dir, flags)?, name))
    }

    /// Opens a path below the root without following any symlink.
    fn open_below(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(&self.dir, path, flags, Mode::empty(), resolve) {
            // A container's filter may not know openat2.
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return other,
        }
        let mut names = path.split('/').filter(|n| !n.is_empty() && *n != ".").peekable();
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = rustix::fs::openat(&self.dir, ".", step, Mode::empty())?;
        while let Some(name) = names.next() {
            if name == ".." {
                return Err(Errno::XDEV);
            }
            let last = names.peek().is_none();
            let flags = if last { flags | OFlags::NOFOLLOW } else { step };
            at = rustix::fs::openat(&at, name, flags, Mode::empty())?;
        }
        Ok(at)
    }

    /// What has the name; `None`: nothing, or no regular file.
    fn stat(&self, file: FileId) -> Result<Option<Stat>, Errno> {
        let at = match self.parent(file) {
            Ok((dir, name)) => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW),
            Err(e) => Err(e),
        };
        match at {
            Ok(stat) => Ok(regular(&stat).then_some(stat)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn unique(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn mark(&self, file: FileId) {
        self.dirty.lock().insert(file);
    }
}

impl Disk for StoreDisk {
    fn print(&self, file: FileId) -> Result<Option<Print>, StoreError> {
        // In the root there is no directory to be opened first.
        if !file.path().contains('/') {
            return match rustix::fs::statat(&self.dir, file.path(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Ok(regular(&stat).then(|| print(&stat))),
                Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(None),
                Err(e) => Err(self.failed(file)(e)),
            };
        }
        Ok(self.stat(file).map_err(self.failed(file))?.map(|stat| print(&stat)))
    }

    fn read(&self, file: FileId) -> Result<Option<(Vec<u8>, Print)>, StoreError> {
        let failed = self.failed(file);
        // A fifo or a device must not be opened, however it got there.
        if self.print(file)?.is_none() {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = self.parent(file).and_then(|(dir, name)| open_unseen(&dir, name, flags));
        let fd = match opened {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let mut before = rustix::fs::fstat(&fd).map_err(&failed)?;
        if !regular(&before) {
            return Ok(None);
        }
        let mut text = Vec::new();
        for _ in 0..READS {
            text.clear();
            read_all(&fd, before.st_size, &mut text).map_err(|e| failed(errno(&e)))?;
            let after = rustix::fs::fstat(&fd).map_err(&failed)?;
            let quiet =
                print(&after) == print(&before) && after.st_size as u64 == text.len() as u64;
            before = after;
            if quiet {
                break;
            }
        }
        // Somebody who never stops writing: what was read is not what the print says, so that the
        // next look reads again.
        let mut print = print(&before);
        print.size = text.len() as u64;
        Ok(Some((text, print)))
    }

    fn replace<'d>(
        &'d self,
        file: FileId,
        expected: Option<&Print>,
        text: Option<&Content>,
        mtime: Stamp,
    ) -> Result<Option<Box<dyn Swap + 'd>>, StoreError> {
        let done = swap::replace(self, file, expected, text, mtime).map_err(self.failed(file))?;
        Ok(done.map(|swap| Box::new(swap) as Box<dyn Swap>))
    }

    fn append<'d>(
        &'d self,
        file: FileId,
        expected: &Print,
        bytes: &[u8],
        mtime: Stamp,
    ) -> Result<Option<Box<dyn Swap + 'd>>, StoreError> {
        let done = append::append(self, file, expected, bytes, mtime).map_err(self.failed(file))?;
        Ok(done.map(|swap| Box::new(swap) as Box<dyn Swap>))
    }

    fn tidy(&self) {
        self.place.lock().take();
    }

    fn is_dirty(&self) -> bool {
        !self.dirty.lock().is_empty()
    }

    fn sync(&self) -> Result<(), StoreError> {
        let _turn = self.syncing.lock();
        let due = std::mem::take(&mut *self.dirty.lock());
        let mut dirs = HashSet::new();
        let mut failed = None;
        for file in &due {
            let done = self.sync_one(*file, &mut dirs);
            if let Err(e) = done {
                self.mark(*file);
                failed = Some(self.failed(*file)(e));
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl StoreDisk {
    /// Syncs the file and, if that was not done yet, its directory.
    fn sync_one(&self, file: FileId, dirs: &mut HashSet<&'static str>) -> Result<(), Errno> {
        let (dir, name) = match self.parent(file) {
            Ok(parent) => parent,
            // The whole directory is gone by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(e) => return Err(e),
        };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match self.stat(file)?.map(|_| rustix::fs::openat(&dir, name, flags, Mode::empty())) {
            Some(Ok(fd)) => rustix::fs::fsync(&fd)?,
            None | Some(Err(Errno::NOENT | Errno::LOOP)) => {}
            Some(Err(e)) => return Err(e),
        }
        let of = file.path().rsplit_once('/').map_or("", |(dir, _)| dir);
        if dirs.insert(of) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::fsync(rustix::fs::openat(&dir, ".", flags, Mode::empty())?)?;
        }
        Ok(())
    }
}

/// Opens a file so that reading it leaves no access time: watchers take a file whose access time
/// is the newer one for one that was only read. Only its owner may do that (or who has the
/// capability); for others it is an ordinary read.
fn open_unseen(dir: &OwnedFd, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat(dir, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(dir, name, flags, Mode::empty()),
        other => other,
    }
}

fn read_all(file: &File, size: i64, into: &mut Vec<u8>) -> std::io::Result<()> {
    let size = usize::try_from(size).unwrap_or(0);
    into.resize(size, 0);
    let mut at = 0;
    while at < size {
        match file.read_at(&mut into[at..], at as u64) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    into.truncate(at);
    if at == size {
        // It may have grown.
        let mut rest = After { file, at: at as u64 };
        rest.read_to_end(into)?;
    }
    Ok(())
}

/// Reads from a place on, whatever the position of the descriptor is.
struct After<'f> {
    file: &'f File,
    at: u64,
}

impl Read for After<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

fn regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn print(stat: &Stat) -> Print {
    let stamp = |s: i64, n: i64| Stamp::from_parts(s, u32::try_from(n).unwrap_or(0));
    Print {
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: stat.st_size as u64,
        mtime: stamp(stat.st_mtime, stat.st_mtime_nsec as i64),
        ctime: stamp(stat.st_ctime, stat.st_ctime_nsec as i64),
    }
}

/// Whether it is the same file with the same content; a rename alone moves the ctime.
fn untouched(a: &Print, b: &Print) -> bool {
    (a.dev, a.ino, a.size, a.mtime) == (b.dev, b.ino, b.size, b.mtime)
}

fn errno(e: &std::io::Error) -> Errno {
    Errno::from_io_error(e).unwrap_or(Errno::IO)
}

fn io(path: &Path, e: Errno) -> StoreError {
    match e {
        Errno::NOSPC | Errno::DQUOT => StoreError::Full,
        _ => StoreError::Io { path: path.to_owned(), source: e.into() },
    }
}
