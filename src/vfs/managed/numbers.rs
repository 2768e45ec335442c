//! `st_ino` of managed files.
//!
//! A save replaces the store's file, and the replacement has another inode number. So from the
//! first save on the number is on record by path, and the file goes on under it. The store may
//! give the number that has become free to any new file, again and again; that one is shown under
//! a number of its own, so that no two files show the same at the same time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use crate::model::{FileId, View};
use crate::store::StoreError;
use crate::vfs::layer::Attr;
use crate::vfs::ports::{KeptName, Memory};

/// Makes another number for a file whose own number another one has. Programs that keep numbers
/// as floating point (Node) can still tell it from others.
const APART: u64 = 1 << 52;
/// What is set in those that are made up, because that one is in use too.
const MADE_UP: u64 = APART | 1 << 51;

#[derive(Default)]
struct Kept {
    /// By path.
    of: HashMap<&'static str, u64>,
    /// Every number that some name has or had since the start.
    used: HashSet<u64>,
    /// What is shown in place of a used number of the store. Not in force any more once it is
    /// used itself.
    instead: HashMap<u64, u64>,
    /// The last one made up.
    last: u64,
}

impl Kept {
    fn use_up(&mut self, ino: u64) {
        self.used.insert(ino);
        if ino & MADE_UP == MADE_UP {
            self.last = self.last.max(ino & !MADE_UP);
        }
    }

    /// What is shown of the file that has the number `real` in the store.
    fn apart(&mut self, real: u64) -> u64 {
        if !self.used.contains(&real) {
            return real;
        }
        if let Some(ino) = self.instead.get(&real).filter(|ino| !self.used.contains(*ino)) {
            return *ino;
        }
        let mut ino = real ^ APART;
        while self.used.contains(&ino) {
            self.last += 1;
            ino = MADE_UP | self.last;
        }
        self.instead.insert(real, ino);
        ino
    }
}

/// The numbers on record.
pub struct Numbers {
    kept: RwLock<Kept>,
    any: AtomicBool,
    memory: Arc<dyn Memory>,
}

impl Numbers {
    /// As the store remembers them.
    pub fn new(memory: Arc<dyn Memory>) -> Result<Numbers, StoreError> {
        let mut kept = Kept::default();
        for name in memory.names()? {
            if name.ino == 0 {
                continue;
            }
            kept.use_up(name.ino);
            if let View::File(file) = name.view {
                kept.of.insert(file.path(), name.ino);
            }
        }
        let any = AtomicBool::new(!kept.used.is_empty());
        Ok(Numbers { kept: RwLock::new(kept), any, memory })
    }

    /// What a managed file shows while its real number is `real`.
    pub fn shown(&self, file: FileId, real: u64) -> u64 {
        if !self.any.load(Ordering::Acquire) {
            return real;
        }
        self.of(file).unwrap_or_else(|| self.apart(real))
    }

    /// The number on record.
    pub fn of(&self, file: FileId) -> Option<u64> {
        self.kept.read().of.get(file.path()).copied()
    }

    /// Whether numbers on record have to be looked for in what is shown.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// What a file shows that has none on record, and this one in the store.
    pub fn apart(&self, real: u64) -> u64 {
        match self.any() && self.kept.read().used.contains(&real) {
            true => self.kept.write().apart(real),
            false => real,
        }
    }

    /// What a name in a directory shows: `path` is that of a regular file.
    pub fn listed(&self, path: &str, real: u64) -> u64 {
        if let Some(ino) = self.kept.read().of.get(path) {
            return *ino;
        }
        self.apart(real)
    }

    /// The same of all attributes. An open file that has no name any more keeps its own.
    pub fn plain(&self, attr: &mut Attr) {
        if attr.nlink > 0 {
            attr.ino = self.apart(attr.ino);
        }
    }

    /// From now on the file has this number, whatever becomes of the store's file.
    pub fn keep(&self, file: FileId, ino: u64) {
        {
            let mut kept = self.kept.write();
            if kept.of.insert(file.path(), ino) == Some(ino) {
                return;
            }
            kept.use_up(ino);
            self.any.store(true, Ordering::Release);
        }
        self.record(file, ino);
    }

    /// The number is that of a name that is no managed file's.
    pub fn taken(&self, ino: u64) {
        self.kept.write().use_up(ino);
        self.any.store(true, Ordering::Release);
    }

    /// There is no such file any more. Handles on it may still show the number.
    pub fn drop(&self, file: FileId) {
        if self.any() && self.kept.write().of.remove(file.path()).is_some() {
            self.record(file, 0);
        }
    }

    /// The files with a number on record whose path `fits`.
    pub fn files(&self, fits: impl Fn(&str) -> bool) -> Vec<FileId> {
        self.kept.read().of.keys().filter(|p| fits(p)).map(|p| FileId::of(p)).collect()
    }

    /// A number that cannot be recorded is one that changes with the next mount.
    fn record(&self, file: FileId, ino: u64) {
        let view = View::File(file);
        // Everything else is the store's file's own.
        let name = KeptName { view, ino, mode: 0, uid: 0, gid: 0, atime: None, mtime: None };
        let done = match ino {
            0 => self.memory.forget_name(view),
            _ => self.memory.keep_name(&name),
        };
        if let Err(e) = done {
            log::warn!("{}: its number could not be recorded: {e}", file.path());
        }
    }
}
