//! What wraps every handler: one panic boundary, one latency probe, one choice of errno, and
//! the choice of the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use fuser::{Errno, FileHandle, INodeNo, OpenAccMode, OpenFlags};

use super::errno;
use super::pool::{Inline, Pool};
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
    /// In the event loop, or in the pool while too many event loops are busy with the like: it
    /// is quick as a rule, but may have to wait for a commit.
    Mostly,
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

/// The place of reading through a handle. Beside what else the handle does: a read that must
/// see a write is sent after the write's answer.
pub(super) fn for_reading(fh: FileHandle) -> Place {
    if is_plain(fh) { Place::Here } else { Place::Mostly }
}

/// Whether a handle that was opened with these flags only reads.
pub(super) fn is_reader(flags: OpenFlags) -> bool {
    flags.acc_mode() == OpenAccMode::O_RDONLY && flags.0 & libc::O_TRUNC == 0
}

/// Event loops. Several, so that a slow disk read does not hold up everybody else.
pub(super) const EVENT_LOOPS: usize = 6;

/// So many of them may be in an operation that could wait; the others stay free.
const MAY_WAIT: usize = EVENT_LOOPS / 2;

/// The parts that all handlers share.
pub(super) struct Core<L: Layer + ?Sized> {
    stats: Arc<Stats>,
    pool: Pool,
    layer: Arc<L>,
}

impl<L: Layer + ?Sized> Core<L> {
    pub(super) fn new(layer: Arc<L>, stats: Arc<Stats>, pool: Pool) -> Core<L> {
        Core { stats, pool, layer }
    }

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
    /// Lets the calling event loop do what could wait, unless too many of them do.
    pub(super) fn may_wait(&self) -> Option<Inline<'_>> {
        self.pool.inline(MAY_WAIT)
    }

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
            Place::Mostly => {
                if let Some(_waiting) = self.may_wait() {
                    return answer(self.call(op, work));
                }
                None
            }
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use super::*;
    use crate::vfs::Error;
    use crate::vfs::plain::Plain;

    fn core() -> Arc<Core<Plain>> {
        let store = tempfile::tempdir().unwrap();
        let layer = Arc::new(Plain::new(store.path()).unwrap());
        Arc::new(Core::new(layer, Arc::default(), Pool::default()))
    }

    #[test]
    fn a_panic_becomes_eio_and_an_error_its_errno() {
        let core = core();
        let answer: Answer<()> = core.call(Op::Read, |_| panic!("on purpose"));
        assert_eq!(answer.unwrap_err().code(), libc::EIO);
        let answer: Answer<()> = core.call(Op::Read, |_| Err(Error::TooBig));
        assert_eq!(answer.unwrap_err().code(), libc::EFBIG);
        assert_eq!(core.call(Op::Read, |_| Ok(7)).unwrap(), 7);
        let row = core.stats.snapshot()[0];
        assert_eq!((row.count, row.errors, core.stats.panics()), (3, 2, 1));
    }

    #[test]
    fn only_some_event_loops_may_wait() {
        let core = core();
        let (entered, wait_entered) = channel();
        let mut gates = Vec::new();
        let mut loops = Vec::new();
        for _ in 0..MAY_WAIT {
            let (open, gate) = channel::<()>();
            gates.push(open);
            let (core, entered) = (Arc::clone(&core), entered.clone());
            loops.push(thread::spawn(move || {
                let work = move |_: &Plain| {
                    let _ = entered.send(thread::current().id());
                    let _ = gate.recv();
                    Ok(())
                };
                core.run(Place::Mostly, Op::Read, work, |_| {});
            }));
        }
        let inside: Vec<ThreadId> = wait_entered.iter().take(MAY_WAIT).collect();
        assert!(loops.iter().all(|l| inside.contains(&l.thread().id())));
        let ask = |place| {
            let (tell, told) = channel();
            let work = move |_: &Plain| Ok(thread::current().id());
            core.run(place, Op::Read, work, move |id| {
                let _ = tell.send(id);
            });
            told.recv_timeout(Duration::from_secs(10)).unwrap().unwrap()
        };
        assert_ne!(ask(Place::Mostly), thread::current().id());
        assert_eq!(ask(Place::Here), thread::current().id());
        drop(gates);
        loops.into_iter().for_each(|l| l.join().unwrap());
        assert_eq!(ask(Place::Mostly), thread::current().id());
    }
}
