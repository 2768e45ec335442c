//! Room for texts that are written and not saved: each is bounded by the size limit, all of them
//! together by this.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::handle::{DocHandle, State};
use super::layer::{Error, Result};
use super::tree::Tree;
use crate::model::{Reason, Refusal};

/// Texts up to this size, in bytes, may use the last quarter of the room.
const SMALL: u64 = 1 << 20;

/// How much there is, in bytes, and how much is taken.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    taken: AtomicU64,
}

/// What one handle takes of it. Given back when dropped.
#[derive(Debug, Default)]
pub struct Held {
    of: Option<Arc<Budget>>,
    bytes: u64,
}

impl Budget {
    /// Room for `most` bytes.
    pub fn new(most: u64) -> Arc<Budget> {
        Arc::new(Budget { most, taken: AtomicU64::new(0) })
    }

    /// Makes it `bytes` that the handle takes.
    ///
    /// Errors: `ENOMEM` when there is no room for more; nothing has changed.
    pub fn hold(self: &Arc<Self>, held: &mut Held, bytes: u64) -> Result<()> {
        let more = bytes.saturating_sub(held.bytes);
        if more > 0 {
            let most = if bytes <= SMALL { self.most } else { self.most / 4 * 3 };
            let fits = |taken: u64| taken.checked_add(more).filter(|sum| *sum <= most);
            let taken = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits);
            if taken.is_err() {
                return Err(Error::Os(rustix::io::Errno::NOMEM));
            }
        } else {
            self.taken.fetch_sub(held.bytes - bytes, Ordering::AcqRel);
        }
        held.bytes = bytes;
        held.of.get_or_insert_with(|| Arc::clone(self));
        Ok(())
    }

    /// What all handles take together.
    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(budget) = &self.of {
            budget.taken.fetch_sub(self.bytes, Ordering::AcqRel);
        }
    }
}

impl Tree {
    /// Makes it `bytes` that the whole text of a handle takes. Where there is no room, what the
    /// handle has is a part of a text, and nothing that may be saved.
    pub(super) fn hold(&self, h: &DocHandle, state: &mut State, bytes: u64) -> Result<()> {
        self.buffers.hold(&mut state.held, bytes).inspect_err(|_| {
            log::warn!("{}: no room for {bytes} bytes that are not saved yet", h.view().name());
            (state.overflow, state.cramped) = (true, true);
            h.soil(state, self.now());
        })
    }
}

/// Why a text for which there was no room is refused.
pub fn no_room() -> Refusal {
    Refusal::new(Reason::TooBig, "there was no room in memory for all of it")
        .hint("other programs hold large texts that they have not saved")
}

/// Makes room for `more` bytes at the end.
///
/// Errors: `ENOMEM`.
pub fn reserve(bytes: &mut Vec<u8>, more: usize) -> Result<()> {
    bytes.try_reserve(more).map_err(|_| Error::Os(rustix::io::Errno::NOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_texts_leave_room_for_small_ones() {
        let budget = Budget::new(40 << 20);
        let (mut one, mut two, mut small) = Default::default();
        budget.hold(&mut one, 20 << 20).unwrap();
        budget.hold(&mut two, 10 << 20).unwrap();
        let full = budget.hold(&mut two, 11 << 20);
        assert!(matches!(full, Err(Error::Os(rustix::io::Errno::NOMEM))), "{full:?}");
        budget.hold(&mut small, 1 << 20).unwrap();
        assert_eq!(budget.taken(), 31 << 20);
        drop(one);
        budget.hold(&mut two, 11 << 20).unwrap();
        budget.hold(&mut two, 0).unwrap();
        drop((two, small));
        assert_eq!(budget.taken(), 0);
    }
}
