//! Plain files as the tree above them sees them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use super::Plain;
use crate::vfs::owned::FileId;
use crate::vfs::ports::PlainFiles;
use crate::vfs::{Attr, Fh, Node, Result};

impl PlainFiles for Plain {
    fn real_file(&self, parent: Node, name: &OsStr) -> Result<File> {
        Plain::real_file(self, parent, name, false)
    }

    fn node_of(&self, parent: Node, name: &OsStr) -> Option<Node> {
        Plain::node_of(self, parent, name)
    }

    fn attr_of(&self, parent: Node, name: &OsStr) -> Result<Attr> {
        Plain::attr_of(self, parent, name)
    }

    fn remove(&self, parent: Node, name: &OsStr) -> Result<()> {
        Plain::remove(self, parent, name)
    }

    fn handles_of(&self, ino: u64) -> Vec<Fh> {
        let mut handles = Plain::handles_of(self, ino);
        handles.retain(|fh| PlainFiles::may_write(self, *fh));
        handles
    }

    fn id_of(&self, node: Node) -> Option<FileId> {
        let key = self.nodes.get(node).ok()?.key;
        Some(FileId { ino: key.ino, born: key.born })
    }

    fn path_of(&self, node: Node) -> Option<PathBuf> {
        self.nodes.get(node).ok()?.path()
    }

    fn may_write(&self, fh: Fh) -> bool {
        self.handles.file(fh).is_ok_and(|handle| handle.writes)
    }

    fn written_directly(&self, node: Node) -> bool {
        self.nodes.get(node).is_ok_and(|inode| inode.written_directly())
    }

    fn root_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}
