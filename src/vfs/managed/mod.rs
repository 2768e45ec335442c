//! Managed files in the tree (semantics section 2, state contracts section 6).
//!
//! A managed file is a regular file of the store with one name, not larger than the limit, whose
//! path fits a rule and is UTF-8. In the tree it is a document: opened, read and saved as one,
//! by [`DocHandle`](super::handle::DocHandle)s under [`View::File`]. What is different is its
//! name, which is real: it is created, removed and renamed in the store, for everybody; and its
//! attributes, which are those of the store's file.
//!
//! * `files`: what `stat` shows and what `chmod` and its like change;
//! * `create`: making, opening and removing names;
//! * `moving`: renames;
//! * `numbers`: `st_ino`.
//!
//! The node of a managed file stands for its path, so that locks and open files stay with it
//! when it is replaced. A handle belongs to a path as well: when somebody else renames the file
//! away, an append handle goes on with whatever has that path (R5), creating the file if need
//! be; other handles go with the file.

mod create;
mod files;
mod moving;
mod numbers;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use self::numbers::Numbers;
use super::layer::{Attr, Caller, Error, FileType, Node, Result};
use super::ports::Memory;
use super::tree::{ROOT, Tree};
use rustix::io::Errno;

use crate::documents::files::Rules;
use crate::model::{DocId, FileId, FileKind, View};
use crate::store::StoreError;

/// Nodes of managed files have this bit and none above.
const NODES: Node = 1 << 61;
/// Saves and renames of so many files can be under way at once.
const TURNS: usize = 64;
/// The kernel may believe for so long, in nanoseconds, that the files below a directory that was
/// renamed are what they were; longer than it is told to believe names of plain files.
const BELIEVED: i64 = 3_000_000_000;
/// A name being renamed is remembered until it is looked up again; so many at once.
const FRESH: usize = 1024;

/// The node of a managed file.
pub(super) fn node_of(file: FileId) -> Node {
    NODES | Node::from(file.number())
}

/// The managed file with this node.
pub(super) fn file_of(node: Node) -> Option<FileId> {
    let number = u32::try_from(node.checked_sub(NODES)?).ok()?;
    FileId::from_number(number)
}

/// Where the kernel has last looked a file up.
struct Spot {
    parent: Node,
    name: OsString,
    /// What it was told then.
    attr: Attr,
    /// The kernel's references.
    refs: u64,
    /// Where the file was moved, until the name is looked up again.
    moved: Option<FileId>,
}

/// What the tree knows of managed files.
pub struct Files {
    rules: Option<Arc<dyn Rules>>,
    pub(super) numbers: Numbers,
    spots: Mutex<HashMap<FileId, Spot>>,
    turns: [Mutex<()>; TURNS],
    /// Names that have to be looked up again before they are renamed.
    fresh: Mutex<HashSet<(Node, OsString)>>,
    fresh_count: AtomicUsize,
    /// Plain nodes of files that were renamed away, the oldest first.
    away: Mutex<VecDeque<Node>>,
    /// When a directory was last renamed, in nanoseconds.
    moved_at: AtomicI64,
}

/// What a name that fits a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fits {
    /// A managed file.
    File(FileId, Attr),
    /// Nothing is there: a file that is made here is managed.
    Free,
    /// Something else is there: a directory, a symlink, a file with two names, one too large.
    Other,
    /// It cannot be told now. To take it for something else would save past its document.
    Unknown(Errno),
}

impl Files {
    /// With the numbers on record.
    pub fn new(
        rules: Option<Arc<dyn Rules>>,
        memory: Arc<dyn Memory>,
    ) -> std::result::Result<Files, StoreError> {
        Ok(Files {
            rules,
            numbers: Numbers::new(memory)?,
            spots: Mutex::default(),
            turns: std::array::from_fn(|_| Mutex::default()),
            fresh: Mutex::default(),
            fresh_count: AtomicUsize::new(0),
            away: Mutex::default(),
            moved_at: AtomicI64::new(i64::MIN),
        })
    }

    /// Held while a file is saved or moved: a save must not take what it has read back to a name
    /// that was renamed meanwhile.
    pub(super) fn turn(&self, file: FileId) -> MutexGuard<'_, ()> {
        self.turns[file.number() as usize % TURNS].lock()
    }

    /// The kind of a file by its path.
    pub(super) fn kind(&self, file: FileId) -> Option<FileKind> {
        self.rules.as_ref()?.kind(file.path())
    }

    /// The turns of two files.
    pub(super) fn both_turns(
        &self,
        a: FileId,
        b: FileId,
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let place = |f: FileId| f.number() as usize % TURNS;
        let (low, high) = (place(a).min(place(b)), place(a).max(place(b)));
        let first = self.turns[low].lock();
        (first, (low != high).then(|| self.turns[high].lock()))
    }

    /// One more file that was renamed away; answers with those over `most`.
    fn keep_away(&self, node: Node, most: usize) -> Vec<Node> {
        let mut away = self.away.lock();
        away.push_back(node);
        let over = away.len().saturating_sub(most);
        away.drain(..over).collect()
    }

    /// The kernel has been told of the file here, with these attributes.
    fn looked_up(&self, file: FileId, parent: Node, name: &OsStr, attr: Attr) {
        let mut spots = self.spots.lock();
        let name = name.to_owned();
        let spot = spots.entry(file).or_insert(Spot { parent, name, attr, refs: 0, moved: None });
        spot.refs += 1;
        (spot.parent, spot.attr, spot.moved) = (parent, attr, None);
    }

    /// The file that has this one's node: it, or what it was moved to since the kernel looked.
    pub(super) fn now(&self, file: FileId) -> FileId {
        self.spots.lock().get(&file).and_then(|s| s.moved).unwrap_or(file)
    }

    /// Whoever has a file open by its old node means what it is now. All moves at once.
    fn follow(&self, moves: &[(FileId, FileId)]) {
        for (file, spot) in self.spots.lock().iter_mut() {
            let now = spot.moved.unwrap_or(*file);
            if let Some((_, to)) = moves.iter().find(|(from, _)| *from == now) {
                spot.moved = Some(*to).filter(|to| to != file);
            }
        }
    }

    /// The kernel has forgotten `count` of what it was told.
    pub(super) fn forget(&self, file: FileId, count: u64) {
        let mut spots = self.spots.lock();
        if let Some(spot) = spots.get_mut(&file) {
            spot.refs = spot.refs.saturating_sub(count);
            if spot.refs == 0 {
                spots.remove(&file);
            }
        }
    }

    /// What the kernel was told of the file.
    fn told(&self, file: FileId) -> Option<Attr> {
        self.spots.lock().get(&file).map(|s| s.attr)
    }

    fn spot(&self, file: FileId) -> Option<(Node, OsString)> {
        let spots = self.spots.lock();
        spots.get(&file).map(|s| (s.parent, s.name.clone()))
    }

    /// Whether the name has to be looked up again, because it is about to be renamed onto a
    /// managed file.
    pub(super) fn is_fresh(&self, parent: Node, name: &OsStr) -> bool {
        self.fresh_count.load(Ordering::Acquire) > 0
            && self.fresh.lock().contains(&(parent, name.to_owned()))
    }

    /// The kernel moves what it knows of a renamed name to the new name, and believes it for as
    /// long as it believed the old one. For a managed file that would be the wrong file, which
    /// is gone. `ESTALE` makes it look every name up again and then send the rename once more;
    /// this time the name is not believed for any time. In the root nothing ever is.
    pub(super) fn freshen(&self, parent: Node, name: &OsStr) -> Result<()> {
        if parent == ROOT {
            return Ok(());
        }
        let mut fresh = self.fresh.lock();
        let key = (parent, name.to_owned());
        let again = fresh.remove(&key);
        if !again {
            if fresh.len() >= FRESH {
                fresh.clear();
            }
            fresh.insert(key);
        }
        self.fresh_count.store(fresh.len(), Ordering::Release);
        if again { Ok(()) } else { Err(Error::Os(rustix::io::Errno::STALE)) }
    }
}

/// Whether it is a text that was kept beside a file: an ordinary file (R7).
fn is_kept_text(name: &str) -> bool {
    name.contains(".refused") || name.contains(".unsaved-")
}

/// Whether there is nothing under the name.
pub(super) fn is_absent<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(Error::NotFound | Error::Os(rustix::io::Errno::NOENT)))
}

impl Tree {
    /// The path of a name that fits a rule.
    pub(super) fn ruled(&self, parent: Node, name: &OsStr) -> Option<String> {
        let rules = self.files.rules.as_ref()?;
        let name = name.to_str().filter(|n| !is_kept_text(n))?;
        let path = match parent {
            ROOT => name.to_owned(),
            _ => {
                let mut path = self.directory_path(parent)?;
                path.push('/');
                path.push_str(name);
                path
            }
        };
        rules.kind(&path)?;
        Some(path)
    }

    /// Where a directory is, below the root; not the root itself.
    pub(super) fn directory_path(&self, directory: Node) -> Option<String> {
        self.plain.path_of(directory)?.into_os_string().into_string().ok()
    }

    /// What the name is, if it fits a rule.
    pub(super) fn fits(&self, parent: Node, name: &OsStr) -> Option<Fits> {
        let path = self.ruled(parent, name)?;
        let attr = self.plain.attr_of(parent, name);
        if is_absent(&attr) {
            return Some(Fits::Free);
        }
        Some(match attr {
            Ok(attr) if self.manageable(&attr) => Fits::File(FileId::of(&path), attr),
            Err(Error::Os(e @ (Errno::IO | Errno::NOMEM | Errno::MFILE | Errno::NFILE))) => {
                log::error!("{path}: cannot be looked at: {e}");
                Fits::Unknown(e)
            }
            _ => Fits::Other,
        })
    }

    /// Does `work`, which creates, removes or renames files in the store, so that the history says
    /// who it was.
    pub(super) fn by_hand<T>(&self, who: &Caller, files: &[FileId], work: impl FnOnce() -> T) -> T {
        let process = self.process(who);
        for file in files {
            let actor = self.saver(process.as_ref(), who.uid, View::File(*file)).actor;
            self.docs.attribute(*file, Some(actor));
        }
        let done = work();
        for file in files {
            if let Err(e) = self.docs.current(DocId::File(*file)) {
                log::debug!("{}: {e}", file.path());
            }
            self.docs.attribute(*file, None);
        }
        done
    }

    /// Whether the store's file can be a managed one.
    fn manageable(&self, attr: &Attr) -> bool {
        attr.kind == FileType::Regular && attr.nlink == 1 && attr.size <= self.options.size_limit
    }
}
