//! Open files and directories.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::nodes::{Inode, Room};
use crate::vfs::layer::Result;
use crate::vfs::{DirEntry, Error, Fh};

/// An open file.
pub(super) struct FileHandle {
    pub(super) file: File,
    /// It was opened for writing.
    pub(super) writes: bool,
    /// The kernel may be lent the file.
    pub(super) lendable: bool,
    /// The kernel uses the file itself.
    pub(super) lent: AtomicBool,
    /// Keeps the node's record alive for as long as the handle.
    pub(super) inode: Arc<Inode>,
    /// That of `file`.
    pub(super) _room: Room,
}

impl FileHandle {
    /// The kernel gets the file for itself.
    pub(super) fn lend(&self) {
        if !self.lent.swap(true, Ordering::AcqRel) && self.writes {
            self.inode.direct.lent(&self.file);
        }
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        if self.writes && *self.lent.get_mut() {
            self.inode.direct.back();
        }
    }
}

/// An open directory.
pub(super) struct DirHandle {
    pub(super) inode: Arc<Inode>,
    pub(super) file: File,
    /// Its names as of the last read from the start; `None` before the first.
    pub(super) names: Mutex<Option<Arc<Vec<DirEntry>>>>,
    /// That of `file`.
    pub(super) _room: Room,
}

/// The handles of both kinds; their numbers do not overlap.
#[derive(Default)]
pub(super) struct Handles {
    last: AtomicU64,
    files: RwLock<HashMap<Fh, Arc<FileHandle>>>,
    dirs: RwLock<HashMap<Fh, Arc<DirHandle>>>,
}

impl Handles {
    fn next(&self) -> Fh {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn add_file(&self, handle: FileHandle) -> Fh {
        let fh = self.next();
        self.files.write().insert(fh, Arc::new(handle));
        fh
    }

    pub(super) fn add_dir(&self, handle: DirHandle) -> Fh {
        let fh = self.next();
        self.dirs.write().insert(fh, Arc::new(handle));
        fh
    }

    pub(super) fn file(&self, fh: Fh) -> Result<Arc<FileHandle>> {
        self.files.read().get(&fh).cloned().ok_or(Error::BadHandle)
    }

    pub(super) fn dir(&self, fh: Fh) -> Result<Arc<DirHandle>> {
        self.dirs.read().get(&fh).cloned().ok_or(Error::BadHandle)
    }

    pub(super) fn close_file(&self, fh: Fh) {
        // Closed outside the lock: the last close of a file may write.
        let handle = self.files.write().remove(&fh);
        drop(handle);
    }

    pub(super) fn close_dir(&self, fh: Fh) {
        let handle = self.dirs.write().remove(&fh);
        drop(handle);
    }

    pub(super) fn of_ino(&self, ino: u64) -> Vec<Fh> {
        let files = self.files.read();
        files.iter().filter(|(_, h)| h.inode.key.ino == ino).map(|(fh, _)| *fh).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.files.read().len() + self.dirs.read().len()
    }
}
