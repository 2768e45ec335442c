//! The table of nodes: which of the store's files the kernel knows, under which number.
//!
//! A node stands for one inode of the store, whatever its names. It keeps an `O_PATH`
//! descriptor, which stays right over renames and after the last unlink. Descriptors are a
//! limited resource (a `find` over the mount makes the kernel remember every file), so past a
//! budget, which they share with open files and directories, the longest unused are closed and
//! opened again by the name where the node was last seen. A node whose name has gone is pinned: its descriptor is the only way to it.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use rustix::fs::{Mode, OFlags, Statx};
use rustix::io::Errno;

use super::direct::Direct;
use super::{attr, beneath};
use crate::model::Stamp;
use crate::vfs::{FileType, Node};

/// Nodes below this belong to documents and other things that are not the store's files.
pub(super) const FIRST: Node = 1 << 16;
/// Numbers that are given out when the inode's own number cannot be the node's.
const FIRST_MADE_UP: Node = 1 << 48;
/// The mount's root.
pub(super) const ROOT: Node = 1;
/// Deeper than any path can be (`PATH_MAX / 2`): where looking for a parent gives up.
const MAX_DEPTH: usize = 2048;

/// One inode of the store, for as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) born: Stamp,
}

/// An `O_PATH` descriptor that is counted.
pub(super) struct PathFd {
    fd: OwnedFd,
    open: Arc<AtomicUsize>,
}

impl AsFd for PathFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for PathFd {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The content as of a moment: (mtime, ctime, size).
pub(super) type Fingerprint = (Stamp, Stamp, u64);

/// One node.
pub(super) struct Inode {
    pub(super) node: Node,
    pub(super) generation: u64,
    pub(super) key: Key,
    pub(super) kind: FileType,
    /// The kernel's references.
    refs: AtomicU64,
    spot: Mutex<Spot>,
    /// The content that the kernel's page cache was filled from, if that is certain.
    pub(super) cached: Mutex<Option<Fingerprint>>,
    /// What the kernel has written without asking.
    pub(super) direct: Direct,
    shared: Arc<Shared>,
}

struct Spot {
    parent: Option<Arc<Inode>>,
    name: OsString,
    fd: Option<Arc<PathFd>>,
    pinned: bool,
    used: bool,
}

/// What all inodes of a table share.
struct Shared {
    open: Arc<AtomicUsize>,
    budget: usize,
    /// Open files and directories that there may be; the rest of the process's descriptors is for
    /// documents, commands and looking at processes.
    most: usize,
    /// Open files and directories; each takes a descriptor out of the budget.
    handles: AtomicUsize,
    ring: Mutex<VecDeque<Weak<Inode>>>,
    /// Read while a descriptor is opened again by name, written while a name moves.
    moves: RwLock<()>,
}

impl Shared {
    fn count(&self, fd: OwnedFd) -> Arc<PathFd> {
        self.open.fetch_add(1, Ordering::Relaxed);
        Arc::new(PathFd { fd, open: Arc::clone(&self.open) })
    }

    /// How many descriptors nodes may have beside the open files: a few in any case.
    fn allowed(&self) -> usize {
        let left = self.budget.saturating_sub(self.handles.load(Ordering::Relaxed));
        left.max(self.budget / 16)
    }

    /// Notes that `inode` has a descriptor, and closes others past the budget.
    fn opened(&self, inode: &Arc<Inode>) {
        self.ring.lock().push_back(Arc::downgrade(inode));
        self.keep_to_budget();
    }

    /// Closes the longest unused descriptors past the budget.
    fn keep_to_budget(&self) {
        let allowed = self.allowed();
        let mut ring = self.ring.lock();
        if ring.len() > 4 * self.budget.max(256) {
            ring.retain(|w| w.strong_count() > 0);
        }
        let mut looks = 2 * ring.len();
        while self.open.load(Ordering::Relaxed) > allowed && looks > 0 {
            looks -= 1;
            let Some(weak) = ring.pop_front() else { break };
            let Some(other) = weak.upgrade() else { continue };
            // Never waits: whoever holds it is using it.
            let Some(mut spot) = other.spot.try_lock() else {
                ring.push_back(weak);
                continue;
            };
            if spot.pinned || spot.fd.is_none() {
                continue;
            }
            if std::mem::take(&mut spot.used) {
                ring.push_back(weak);
            } else {
                spot.fd = None;
            }
        }
    }
}

/// Room for the descriptor of an open file or directory, as long as it lives.
pub(super) struct Room(Arc<Shared>);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.handles.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inode {
    /// Makes room for the descriptor of an open file or directory; `ENFILE` when there are as many
    /// as may be.
    pub(super) fn room(&self) -> Result<Room, Errno> {
        let before = self.shared.handles.fetch_add(1, Ordering::Relaxed);
        let room = Room(Arc::clone(&self.shared));
        if before >= self.shared.most {
            return Err(Errno::NFILE);
        }
        self.shared.keep_to_budget();
        Ok(room)
    }

    /// The node's descriptor. `ESTALE` when it had to be closed and the file has since moved
    /// behind our back; the kernel then looks the name up again.
    pub(super) fn fd(self: &Arc<Inode>) -> Result<Arc<PathFd>, Errno> {
        if let Some(fd) = self.open_fd() {
            return Ok(fd);
        }
        let _still = self.shared.moves.read();
        self.reopened(MAX_DEPTH)
    }

    fn open_fd(&self) -> Option<Arc<PathFd>> {
        let mut spot = self.spot.lock();
        spot.used = true;
        spot.fd.clone()
    }

    /// The descriptor, opened by name if need be. No name moves meanwhile by our doing.
    fn reopened(self: &Arc<Inode>, depth: usize) -> Result<Arc<PathFd>, Errno> {
        if let Some(fd) = self.open_fd() {
            return Ok(fd);
        }
        let (parent, name) = {
            let spot = self.spot.lock();
            (spot.parent.clone().ok_or(Errno::STALE)?, spot.name.clone())
        };
        let dir = parent.reopened(depth.checked_sub(1).ok_or(Errno::STALE)?)?;
        let fd = beneath::open_child(&*dir, &name, OFlags::PATH, Mode::empty())
            .map_err(|e| if e == Errno::NOENT { Errno::STALE } else { e })?;
        if attr::key(&beneath::stat_fd(&fd)?) != self.key {
            return Err(Errno::STALE);
        }
        let fd = self.shared.count(fd);
        self.spot.lock().fd = Some(Arc::clone(&fd));
        self.shared.opened(self);
        Ok(fd)
    }

    /// Where it was last seen, relative to the root; `None` when that leads nowhere.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let (mut names, mut next) = (Vec::new(), None);
        for _ in 0..MAX_DEPTH {
            let parent = {
                let inode: &Inode = next.as_deref().unwrap_or(self);
                if inode.node == ROOT {
                    return Some(names.iter().rev().collect());
                }
                let spot = inode.spot.lock();
                names.push(spot.name.clone());
                spot.parent.clone()
            };
            next = Some(parent?);
        }
        None
    }

    /// Whether the kernel has written since the last question.
    pub(super) fn written_directly(self: &Arc<Inode>) -> bool {
        self.direct.any() && self.fd().is_ok_and(|fd| self.direct.written(&*fd))
    }

    /// Keeps the descriptor open from now on: the name is about to go.
    fn pin(self: &Arc<Inode>) {
        if let Ok(fd) = self.fd() {
            let mut spot = self.spot.lock();
            spot.fd = Some(fd);
            spot.pinned = true;
        }
    }

    fn is_at(&self, parent: &Arc<Inode>, name: &OsStr) {
        let mut spot = self.spot.lock();
        let same_parent = spot.parent.as_ref().is_some_and(|p| Arc::ptr_eq(p, parent));
        if !same_parent {
            spot.parent = Some(Arc::clone(parent));
        }
        if spot.name != name {
            spot.name = name.to_owned();
        }
    }
}

#[derive(Default)]
struct Maps {
    by_node: HashMap<Node, Arc<Inode>>,
    by_key: HashMap<Key, Arc<Inode>>,
    made_up: Node,
    generation: u64,
}

/// The table.
pub(super) struct Nodes {
    maps: RwLock<Maps>,
    shared: Arc<Shared>,
    root: Arc<Inode>,
}

impl Nodes {
    /// A table with the root alone. About `budget` descriptors are kept open, those of open files counted in.
    pub(super) fn new(root: OwnedFd, budget: usize, most: usize) -> Result<Nodes, Errno> {
        let st = beneath::stat_fd(&root)?;
        let shared = Arc::new(Shared {
            open: Arc::new(AtomicUsize::new(0)),
            budget,
            most,
            handles: AtomicUsize::new(0),
            ring: Mutex::default(),
            moves: RwLock::default(),
        });
        let root = Arc::new(Inode {
            node: ROOT,
            generation: 0,
            key: attr::key(&st),
            kind: FileType::Directory,
            refs: AtomicU64::new(1),
            spot: Mutex::new(Spot {
                parent: None,
                name: OsString::new(),
                fd: Some(shared.count(root)),
                pinned: true,
                used: true,
            }),
            cached: Mutex::default(),
            direct: Direct::default(),
            shared: Arc::clone(&shared),
        });
        let maps = Maps { made_up: FIRST_MADE_UP, ..Maps::default() };
        Ok(Nodes { maps: RwLock::new(maps), shared, root })
    }

    /// The root.
    pub(super) fn root(&self) -> &Arc<Inode> {
        &self.root
    }

    /// The inode of a node that the kernel holds; `ESTALE` for any other number.
    pub(super) fn get(&self, node: Node) -> Result<Arc<Inode>, Errno> {
        if node == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        self.maps.read().by_node.get(&node).cloned().ok_or(Errno::STALE)
    }

    /// The node of this inode, if the kernel holds it.
    pub(super) fn find(&self, key: &Key) -> Option<Arc<Inode>> {
        self.maps.read().by_key.get(key).cloned()
    }

    /// The inode at a name with one more reference.
    pub(super) fn look_up(
        &self,
        parent: &Arc<Inode>,
        name: &OsStr,
    ) -> Result<(Arc<Inode>, Statx), Errno> {
        let dir = parent.fd()?;
        let st = beneath::stat_child(&*dir, name)?;
        if let Some(inode) = self.take(&attr::key(&st)) {
            inode.is_at(parent, name);
            return Ok((inode, st));
        }
        let fd = beneath::open_child(&*dir, name, OFlags::PATH, Mode::empty())?;
        let st = beneath::stat_fd(&fd)?;
        Ok((self.enter(&st, fd, parent, name), st))
    }

    /// The inode of a path descriptor with one more reference; a new node unless it is known.
    pub(super) fn enter(
        &self,
        st: &Statx,
        fd: OwnedFd,
        parent: &Arc<Inode>,
        name: &OsStr,
    ) -> Arc<Inode> {
        let key = attr::key(st);
        let mut maps = self.maps.write();
        if let Some(inode) = maps.by_key.get(&key).cloned() {
            inode.refs.fetch_add(1, Ordering::Relaxed);
            drop(maps);
            inode.is_at(parent, name);
            return inode;
        }
        let own = (FIRST..FIRST_MADE_UP).contains(&key.ino);
        let node = if own && !maps.by_node.contains_key(&key.ino) {
            key.ino
        } else {
            maps.made_up += 1;
            maps.made_up
        };
        maps.generation += 1;
        let inode = Arc::new(Inode {
            node,
            generation: maps.generation,
            key,
            kind: attr::kind(u32::from(st.stx_mode)),
            refs: AtomicU64::new(1),
            spot: Mutex::new(Spot {
                parent: Some(Arc::clone(parent)),
                name: name.to_owned(),
                fd: Some(self.shared.count(fd)),
                pinned: false,
                used: true,
            }),
            cached: Mutex::default(),
            direct: Direct::default(),
            shared: Arc::clone(&self.shared),
        });
        maps.by_node.insert(node, Arc::clone(&inode));
        maps.by_key.insert(key, Arc::clone(&inode));
        drop(maps);
        self.shared.opened(&inode);
        inode
    }

    fn take(&self, key: &Key) -> Option<Arc<Inode>> {
        let maps = self.maps.read();
        let inode = maps.by_key.get(key)?;
        // Under the lock: `forget` removes under the write lock, so the count cannot be zero.
        inode.refs.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(inode))
    }

    /// Takes `count` references away, and the node when none is left.
    pub(super) fn forget(&self, node: Node, count: u64) {
        if node == ROOT {
            return;
        }
        let mut maps = self.maps.write();
        let Some(inode) = maps.by_node.get(&node).cloned() else { return };
        let left = inode.refs.load(Ordering::Relaxed).saturating_sub(count);
        inode.refs.store(left, Ordering::Relaxed);
        if left == 0 {
            maps.by_node.remove(&node);
            maps.by_key.remove(&inode.key);
        }
    }

    /// Runs `remove`, which takes the name away; the node that was there stays usable.
    pub(super) fn removing<T>(
        &self,
        dir: &PathFd,
        name: &OsStr,
        remove: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.pin_at(dir, name);
        remove()
    }

    /// Runs `rename`, which moves `from` to `to` (and back, if `exchange`), and follows it.
    pub(super) fn moving(
        &self,
        from: (&Arc<Inode>, &OsStr),
        to: (&Arc<Inode>, &OsStr),
        exchange: bool,
        rename: impl FnOnce(&PathFd, &PathFd) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (from_dir, to_dir) = (from.0.fd()?, to.0.fd()?);
        if !exchange {
            self.pin_at(&to_dir, to.1);
        }
        let _alone = self.shared.moves.write();
        rename(&from_dir, &to_dir)?;
        self.follow(&to_dir, to);
        if exchange {
            self.follow(&from_dir, from);
        }
        Ok(())
    }

    fn pin_at(&self, dir: &PathFd, name: &OsStr) {
        if let Ok(st) = beneath::stat_child(dir, name)
            && let Some(inode) = self.find(&attr::key(&st))
        {
            inode.pin();
        }
    }

    fn follow(&self, dir: &PathFd, place: (&Arc<Inode>, &OsStr)) {
        if let Ok(st) = beneath::stat_child(dir, place.1)
            && let Some(inode) = self.find(&attr::key(&st))
        {
            inode.is_at(place.0, place.1);
        }
    }

    /// Open path descriptors, and known nodes besides the root.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.shared.open.load(Ordering::Relaxed), self.maps.read().by_node.len())
    }
}

impl Deref for PathFd {
    type Target = OwnedFd;
    fn deref(&self) -> &OwnedFd {
        &self.fd
    }
}
