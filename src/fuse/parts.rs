//! What the handlers in `adapter.rs` work with.

use std::sync::Arc;

use super::calls::Core;
use super::lending::Lending;
use super::negotiate::Wishes;
use super::polls::Polls;
use super::pool::Pool;
use super::stats::Stats;
use crate::vfs::Layer;

/// A layer as fuser's file system.
pub struct Adapter<L: Layer + ?Sized> {
    pub(super) core: Arc<Core<L>>,
    pub(super) polls: Arc<Polls>,
    pub(super) lending: Arc<Lending>,
    pub(super) wishes: Wishes,
}

impl<L: Layer + ?Sized + 'static> Adapter<L> {
    pub(super) fn new(
        layer: Arc<L>,
        stats: Arc<Stats>,
        pool: Pool,
        polls: Arc<Polls>,
        wishes: Wishes,
    ) -> Self {
        let core = Arc::new(Core::new(layer, stats, pool));
        Adapter { core, polls, lending: Arc::default(), wishes }
    }
}
