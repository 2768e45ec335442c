//! The store's own files, as they are.
//!
//! [`Plain`] implements [`Layer`](crate::vfs::Layer) on a real directory. It shows what is there, and every
//! operation is the same operation on the store: nothing is kept back, so what another
//! process does to the store shows within a second (the time for which the kernel may believe
//! an answer), and what has been written is there when the mount dies.
//!
//! It never leaves the store's directory: names are single components opened relative to
//! descriptors, and symlinks are shown, not followed (the kernel follows them, in the
//! caller's view of the world).
//!
//! Below are the ways by which the documents' layer reaches into the store: none of them
//! takes a kernel reference, and all act as the daemon, not as a caller.

mod attr;
mod beneath;
mod creds;
mod direct;
mod dirs;
mod handles;
mod layer;
mod nodes;
mod ports;
#[cfg(test)]
mod tests;
mod xattr;

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};

use self::handles::Handles;
use self::nodes::{Inode, Nodes};
use crate::vfs::layer::Result;
use crate::vfs::{Attr, Fh, FileType, Node};

/// Handles of plain files have numbers below this; a layer above may use those from here on.
pub const HANDLE_LIMIT: Fh = 1 << 62;

/// Plain files have node numbers from here on (and 1 for the root); a layer above may use the
/// numbers in between.
pub const FIRST_NODE: Node = nodes::FIRST;

/// The files of a directory.
pub struct Plain {
    /// The store's directory (`O_PATH`).
    root: OwnedFd,
    nodes: Nodes,
    handles: Handles,
    /// The daemon is root: files are made as the caller.
    privileged: bool,
    /// The kernel believes no answer for longer than it takes to use it.
    strict: bool,
}

impl Plain {
    /// The files of `store`. Half of the process's descriptor limit (`RLIMIT_NOFILE` at this
    /// moment) is used for open files and to keep known ones at hand; open files alone may take
    /// almost all of it.
    ///
    /// # Errors
    /// `store` is not a directory that can be opened.
    pub fn new(store: &Path) -> Result<Plain> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let limit = limit.current.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let budget = (limit / 2).clamp(64, 100_000);
        let kept_back = (limit / 8).clamp(64, 1024) + budget / 16;
        Plain::with_limits(store, budget, limit.saturating_sub(kept_back).max(16))
    }

    /// The same with at most about `budget` descriptors for open and known files together, but
    /// always a 16th of it for known ones; nodes whose name is gone come on top, and so do open
    /// files past the budget.
    ///
    /// # Errors
    /// `store` is not a directory that can be opened.
    pub fn with_budget(store: &Path, budget: usize) -> Result<Plain> {
        Plain::with_limits(store, budget, usize::MAX)
    }

    /// The same with at most `most` open files and directories: more are `ENFILE`.
    fn with_limits(store: &Path, budget: usize, most: usize) -> Result<Plain> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(store, flags, Mode::empty())?;
        Ok(Plain {
            root: rustix::io::fcntl_dupfd_cloexec(&root, 3)?,
            nodes: Nodes::new(root, budget, most)?,
            handles: Handles::default(),
            privileged: rustix::process::geteuid().is_root(),
            strict: false,
        })
    }

    /// The same; `strict`: changes behind our back show at once instead of within a second.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Plain {
        self.strict = strict;
        self
    }

    /// A descriptor (`O_PATH`) of the store's directory.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn root_fd(&self) -> Result<std::os::fd::OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&*self.nodes.root().fd()?, 3)?)
    }

    /// The store's file at `name`, opened by the daemon; for writing too if `write`.
    ///
    /// # Errors
    /// Those of `open`; `ELOOP` for a symlink, `Invalid` for anything but a regular file.
    pub fn real_file(&self, parent: Node, name: &OsStr, write: bool) -> Result<File> {
        let dir = self.nodes.get(parent)?.fd()?;
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        // Not blocking: a FIFO must not hold the daemon up. That we read it leaves no access time
        // where that is ours to say.
        let open = |more| {
            let flags = access | OFlags::NONBLOCK | more;
            beneath::open_child(&*dir, name, flags, Mode::empty())
        };
        let fd = match open(OFlags::NOATIME) {
            Err(rustix::io::Errno::PERM) => open(OFlags::empty())?,
            other => other?,
        };
        if attr::of(&beneath::stat_fd(&fd)?).kind != FileType::Regular {
            return Err(crate::vfs::Error::Invalid);
        }
        Ok(File::from(fd))
    }

    /// What `stat` says about a name; about a symlink itself.
    ///
    /// # Errors
    /// Those of `stat`.
    pub fn attr_of(&self, parent: Node, name: &OsStr) -> Result<Attr> {
        let dir = self.nodes.get(parent)?.fd()?;
        Ok(attr::of(&beneath::stat_child(&*dir, name)?))
    }

    /// The node at a name, if there is a file and the kernel knows it.
    pub fn node_of(&self, parent: Node, name: &OsStr) -> Option<Node> {
        let dir = self.nodes.get(parent).ok()?.fd().ok()?;
        let st = beneath::stat_child(&*dir, name).ok()?;
        self.nodes.find(&attr::key(&st)).map(|inode| inode.node)
    }

    /// Removes a name that is not a directory's. Open handles go on.
    ///
    /// # Errors
    /// Those of `unlink`.
    pub fn remove(&self, parent: Node, name: &OsStr) -> Result<()> {
        let name = beneath::component(name)?;
        let dir = self.nodes.get(parent)?.fd()?;
        let unlink = || rustix::fs::unlinkat(&*dir, name, AtFlags::empty());
        Ok(self.nodes.removing(&dir, name, unlink)?)
    }

    /// A second descriptor of an open file: the same access, never `O_APPEND`.
    pub fn handle_file(&self, fh: Fh) -> Option<File> {
        self.handles.file(fh).ok()?.file.try_clone().ok()
    }

    /// `st_ino` of an open file.
    pub fn handle_ino(&self, fh: Fh) -> Option<u64> {
        Some(self.handles.file(fh).ok()?.inode.key.ino)
    }

    /// The open handles on the file with this `st_ino`.
    pub fn handles_of(&self, ino: u64) -> Vec<Fh> {
        self.handles.of_ino(ino)
    }

    /// How much is open, for `status`.
    pub fn usage(&self) -> Usage {
        let (descriptors, nodes) = self.nodes.counts();
        Usage { descriptors, nodes, handles: self.handles.count() }
    }

    fn dir(&self, node: Node) -> Result<(Arc<Inode>, Arc<nodes::PathFd>)> {
        let inode = self.nodes.get(node)?;
        let fd = inode.fd()?;
        Ok((inode, fd))
    }
}

/// How much a [`Plain`] has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Descriptors of known files.
    pub descriptors: usize,
    /// Files that the kernel knows, besides the root.
    pub nodes: usize,
    /// Open files and directories.
    pub handles: usize,
}

impl AsFd for handles::FileHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
