//! Writes that do not come through us: the kernel writes a file that it was lent (passthrough).
//! They show in the file's time of modification and its size.

use std::os::fd::AsFd;

use parking_lot::Mutex;

use super::{attr, beneath};
use crate::model::Stamp;

/// (mtime, size). Nothing else: a change of mode or owner writes no bytes.
type Mark = (Stamp, u64);

/// What is known of one inode.
#[derive(Default)]
pub(super) struct Direct(Mutex<State>);

#[derive(Default)]
struct State {
    /// Handles open for writing that the kernel uses itself.
    writers: usize,
    /// The file when all writes to it were last known; `None` before it is lent for writing.
    known: Option<Mark>,
}

fn mark(file: impl AsFd) -> Option<Mark> {
    beneath::stat_fd(file).ok().map(|st| (attr::mtime(&st), st.stx_size))
}

impl Direct {
    /// One more handle for writing is lent. What was done to the file while none was is nobody's.
    pub(super) fn lent(&self, file: impl AsFd) {
        let mut state = self.0.lock();
        if state.writers == 0 {
            state.known = mark(file);
        }
        state.writers += 1;
    }

    /// One of them is closed. A mapping may live on, so changes are still looked for.
    pub(super) fn back(&self) {
        let mut state = self.0.lock();
        state.writers = state.writers.saturating_sub(1);
    }

    /// Whether the file was ever lent for writing.
    pub(super) fn any(&self) -> bool {
        self.0.lock().known.is_some()
    }

    /// Whether `file` has changed since it was last known; it is known from now on.
    pub(super) fn written(&self, file: impl AsFd) -> bool {
        let mut state = self.0.lock();
        let Some(known) = state.known else { return false };
        let Some(now) = mark(file) else { return false };
        state.known = Some(now);
        now != known
    }

    /// We have changed the file ourselves.
    pub(super) fn by_us(&self, file: impl AsFd) {
        let mut state = self.0.lock();
        if state.known.is_some() {
            state.known = mark(file);
        }
    }
}
