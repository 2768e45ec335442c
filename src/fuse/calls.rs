//! What wraps every handler: one panic boundary, one latency probe, one choice of errno, and
//! the choice of the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use fuser::{Errno, FileHandle, INodeNo};

use super::errno;
use super::pool::Pool;
use super::stats::{Op, Stats};
use crate::vfs::layer::Result;
use crate::vfs::{Layer, plain};

/// The result of a handler, as it is sent.
pub(super) type Answer<T> = std::result::Result<T, Errno>;

/// Where a handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the event loop: it never waits for long.
    Here,
    /// In a thread of the pool.
    Pool,
    /// In a thread of the pool, after all earlier ones with this number (a handle's).
    After(u64),
}

/// Whether a handle is a plain file's.
pub(super) fn is_plain(fh: FileHandle) -> bool {
    fh.0 < plain::HANDLE_LIMIT
}

/// The place of an operation in a directory or on a node: documents are in the root, and
/// nothing below a plain directory is one.
pub(super) fn at_node(node: INodeNo) -> Place {
    if node.0 < plain::FIRST_NODE { Place::Pool } else { Place::Here }
}

/// The place of an operation on a handle that is quick on a plain file.
pub(super) fn on_handle(fh: FileHandle) -> Place {
    if is_plain(fh) { Place::Here } else { Place::After(fh.0) }
}

/// The parts that all handlers share.
pub(super) struct Core<L: Layer + ?Sized> {
    pub(super) stats: Arc<Stats>,
    pub(super) pool: Pool,
    pub(super) layer: Arc<L>,
}

impl<L: Layer + ?Sized> Core<L> {
    /// Calls the layer. A panic in it becomes `EIO`; locks that it held are free again
    /// (`parking_lot`).
    pub(super) fn call<T>(&self, op: Op, work: impl FnOnce(&L) -> Result<T>) -> Answer<T> {
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&self.layer)));
        let answer = match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                let number = errno::of(&error);
                log::log!(errno::level(&error), "{}: {error}", op.name());
                Err(number)
            }
            Err(payload) => {
                self.stats.panicked();
                log::error!("{}: a handler panicked: {}", op.name(), message(&*payload));
                Err(Errno::EIO)
            }
        };
        self.stats.record(op, start.elapsed(), answer.is_err());
        answer
    }
}

impl<L: Layer + ?Sized + 'static> Core<L> {
    /// Calls the layer at `place` and gives the outcome to `answer` there.
    pub(super) fn run<T>(
        self: &Arc<Self>,
        place: Place,
        op: Op,
        work: impl FnOnce(&L) -> Result<T> + Send + 'static,
        answer: impl FnOnce(Answer<T>) + Send + 'static,
    ) {
        let key = match place {
            Place::Here => return answer(self.call(op, work)),
            Place::Pool => None,
            Place::After(handle) => Some(handle),
        };
        let core = Arc::clone(self);
        self.pool.run(key, Box::new(move || answer(core.call(op, work))));
    }
}

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
