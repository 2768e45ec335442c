//! Notifications to the kernel.
//!
//! The kernel may hold a page lock that only a request to us will free, so whoever notifies
//! may wait for a handler. Notifications are therefore sent by a thread of their own; telling
//! it never waits. Names are never invalidated: where documents come and go the kernel does
//! not believe names in the first place (TTL 0), and a notification to a dying mount can hang.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use fuser::INodeNo;

use super::polls::Polls;
use crate::vfs::Node;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    /// What the kernel believes about the node is out of date.
    Outdated { node: Node, offset: i64, len: i64 },
    /// Who polls a handle on the node has to look again.
    Wake(Node),
}

/// Tells the kernel that something changed. Clones share the thread; it ends with the last of
/// them.
#[derive(Debug, Clone)]
pub struct Notifier(Sender<News>);

impl Notifier {
    /// Drops the kernel's attributes of `node`, and its pages from `offset` on: `len` bytes, all
    /// for 0. A negative `offset` leaves the pages alone. Returns at once.
    pub fn inval_inode(&self, node: Node, offset: i64, len: i64) {
        // Fails only when the thread is gone, and then so is the mount.
        let _ = self.0.send(News::Outdated { node, offset, len });
    }

    /// Makes everybody who polls a handle on `node` look again. Returns at once.
    pub fn wake(&self, node: Node) {
        let _ = self.0.send(News::Wake(node));
    }

    pub(super) fn start(kernel: fuser::Notifier, polls: Arc<Polls>) -> std::io::Result<Notifier> {
        let (send, receive) = channel();
        std::thread::Builder::new()
            .name("ifs-notify".to_owned())
            .spawn(move || serve(&receive, &kernel, &polls))?;
        Ok(Notifier(send))
    }
}

fn serve(receive: &Receiver<News>, kernel: &fuser::Notifier, polls: &Polls) {
    while let Ok(first) = receive.recv() {
        let mut batch = vec![first];
        for more in receive.try_iter().take(1024) {
            if !batch.contains(&more) {
                batch.push(more);
            }
        }
        for news in batch {
            match news {
                News::Outdated { node, offset, len } => {
                    if let Err(e) = kernel.inval_inode(INodeNo(node), offset, len) {
                        log::debug!("the kernel does not take an invalidation of {node}: {e}");
                    }
                }
                News::Wake(node) => {
                    for waiting in polls.take(node) {
                        if let Err(e) = waiting.notify() {
                            log::debug!("a poll of node {node} could not be woken: {e}");
                        }
                    }
                }
            }
        }
    }
}
