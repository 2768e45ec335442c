//! Files that the kernel reads, writes and maps itself (FUSE passthrough).
//!
//! Facts of the kernel (6.9 and later) that this keeps to. All open handles of one node are of
//! one kind: either the kernel uses the file behind all of them, under one backing number, or
//! behind none; a mixture fails with `EIO`. The number must live until the kernel has taken it,
//! which nobody tells, so it lives until the node's last handle is released. Of the flags of an
//! open only `FOPEN_NOFLUSH` goes with it. Registering a file takes `CAP_SYS_ADMIN`, and writes
//! are made with the credentials of the thread that registered it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::BackingId;
use parking_lot::Mutex;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::vfs::{Backing, Node};

/// What is lent in one mount.
#[derive(Default)]
pub(super) struct Lending {
    /// Agreed with the kernel.
    agreed: AtomicBool,
    /// The kernel has said that we may not.
    forbidden: AtomicBool,
    nodes: Mutex<HashMap<Node, Open>>,
}

/// The open handles of a node.
struct Open {
    handles: usize,
    /// The file's number with the kernel; `None`: it asks us.
    id: Option<Arc<BackingId>>,
}

impl Lending {
    /// The kernel has agreed to it. Before the first request.
    pub(super) fn agree(&self) {
        self.agreed.store(true, Ordering::Relaxed);
    }

    /// Whether handles are to be announced at all.
    pub(super) fn agreed(&self) -> bool {
        self.agreed.load(Ordering::Relaxed)
    }

    /// A handle on `node` is about to be answered: the number to answer with, or `None` for an
    /// ordinary one. `register` asks the kernel for a number.
    pub(super) fn open(
        &self,
        node: Node,
        backing: &Backing,
        register: impl FnOnce(BorrowedFd<'_>) -> io::Result<BackingId>,
    ) -> Option<Arc<BackingId>> {
        match self.nodes.lock().entry(node) {
            Entry::Occupied(mut there) => {
                there.get_mut().handles += 1;
                there.get().id.clone()
            }
            Entry::Vacant(new) => {
                let wanted = backing.wanted && !self.forbidden.load(Ordering::Relaxed);
                let id = wanted.then(|| self.register(backing, register)).flatten();
                new.insert(Open { handles: 1, id }).id.clone()
            }
        }
    }

    fn register(
        &self,
        backing: &Backing,
        register: impl FnOnce(BorrowedFd<'_>) -> io::Result<BackingId>,
    ) -> Option<Arc<BackingId>> {
        let _as_anybody = WithoutFsetid::enter();
        match register(backing.file.as_fd()) {
            Ok(id) => Some(Arc::new(id)),
            Err(e) => {
                if e.raw_os_error() == Some(libc::EPERM) {
                    self.forbidden.store(true, Ordering::Relaxed);
                    log::info!("the kernel does not read and write files itself: {e}");
                } else {
                    log::debug!("a file is not lent: {e}");
                }
                None
            }
        }
    }

    /// A handle that was announced is released. The kernel has given the file back by then.
    pub(super) fn released(&self, node: Node) {
        if !self.agreed() {
            return;
        }
        let gone = {
            let mut nodes = self.nodes.lock();
            let Some(open) = nodes.get_mut(&node) else { return };
            open.handles -= 1;
            if open.handles == 0 { nodes.remove(&node) } else { None }
        };
        // Telling the kernel is a system call.
        drop(gone);
    }
}

/// While it lives, this thread is without `CAP_FSETID`, so that a write to what it registers
/// takes setuid and setgid bits away.
struct WithoutFsetid(Option<CapabilitySets>);

impl WithoutFsetid {
    fn enter() -> WithoutFsetid {
        let Ok(before) = rustix::thread::capabilities(None) else { return WithoutFsetid(None) };
        let effective = before.effective.difference(CapabilitySet::FSETID);
        let set = rustix::thread::set_capabilities(None, CapabilitySets { effective, ..before });
        WithoutFsetid(set.is_ok().then_some(before))
    }
}

impl Drop for WithoutFsetid {
    fn drop(&mut self) {
        if let Some(before) = self.0
            && let Err(e) = rustix::thread::set_capabilities(None, before)
        {
            log::error!("capabilities are not back: {e}");
        }
    }
}
