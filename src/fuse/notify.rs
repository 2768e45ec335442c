//! Notifications to the kernel.
//!
//! The kernel may hold a page lock that only a request to us will free, so whoever notifies
//! may wait for a handler. Notifications are therefore sent by a thread of their own; telling
//! it never waits. Names are never invalidated: where documents come and go the kernel does
//! not believe names in the first place (TTL 0), and a notification to a dying mount can hang.

use std::sync::mpsc::{Receiver, Sender, channel};

use fuser::INodeNo;

use crate::vfs::Node;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Invalidation {
    node: Node,
    offset: i64,
    len: i64,
}

/// Tells the kernel that what it believes about a node is out of date. Clones share the
/// thread; it ends with the last of them.
#[derive(Debug, Clone)]
pub struct Notifier(Sender<Invalidation>);

impl Notifier {
    /// Drops the kernel's attributes of `node`, and its pages from `offset` on: `len` bytes, all
    /// for 0. A negative `offset` leaves the pages alone. Returns at once.
    pub fn inval_inode(&self, node: Node, offset: i64, len: i64) {
        // Fails only when the thread is gone, and then so is the mount.
        let _ = self.0.send(Invalidation { node, offset, len });
    }

    pub(super) fn start(kernel: fuser::Notifier) -> std::io::Result<Notifier> {
        let (send, receive) = channel();
        std::thread::Builder::new()
            .name("ifs-notify".to_owned())
            .spawn(move || serve(&receive, &kernel))?;
        Ok(Notifier(send))
    }
}

fn serve(receive: &Receiver<Invalidation>, kernel: &fuser::Notifier) {
    while let Ok(first) = receive.recv() {
        let mut batch = vec![first];
        for more in receive.try_iter().take(1024) {
            if !batch.contains(&more) {
                batch.push(more);
            }
        }
        for Invalidation { node, offset, len } in batch {
            if let Err(e) = kernel.inval_inode(INodeNo(node), offset, len) {
                log::debug!("the kernel does not take an invalidation of node {node}: {e}");
            }
        }
    }
}
