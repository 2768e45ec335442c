//! Who waits in `poll` for a new version of a document.

use std::collections::HashMap;

use fuser::PollNotifier;
use parking_lot::Mutex;

use crate::vfs::{Fh, Node};

/// The handles that somebody polls, and how the kernel wants to be told. Registering comes
/// before the question whether there is news already, so that nothing is missed between the two.
#[derive(Debug, Default)]
pub(super) struct Polls(Mutex<HashMap<Fh, (Node, PollNotifier)>>);

impl Polls {
    /// Somebody waits for news behind this handle.
    pub(super) fn wait(&self, node: Node, fh: Fh, notifier: PollNotifier) {
        self.0.lock().insert(fh, (node, notifier));
    }

    /// The handle is gone.
    pub(super) fn forget(&self, fh: Fh) {
        self.0.lock().remove(&fh);
    }

    /// Those to be told now. Who still waits afterwards asks, and so registers, again.
    pub(super) fn take(&self, node: Node) -> Vec<PollNotifier> {
        let mut waiting = self.0.lock();
        waiting.extract_if(|_, (of, _)| *of == node).map(|(_, (_, notifier))| notifier).collect()
    }
}
