//! Harness for tests of instancefs on a real FUSE mount with real programs.
//!
//! * [`Instance`]: a store made by `instancefs init` and mounted by `instancefs mount`, with a
//!   watchdog, and taken down at drop whatever happened.
//! * [`Actor`]: runs programs, each in a session of its own, with an environment that does not
//!   depend on whoever runs the tests.
//! * [`Python`] and [`Shell`]: one process that is told step by step what to do, so that a
//!   test decides what happens between its `open`, `read`, `write` and `close`.
//!
//! Nothing here knows how instancefs is built: the binary, the mount and plain SQLite are all
//! that tests touch.

mod actor;
mod binary;
pub mod budgets;
pub mod calls;
pub mod crashes;
pub mod floor;
mod instance;
mod kernel;
pub mod machine;
pub mod measure;
pub mod model;
pub mod plain_load;
pub mod programs;
mod python;
pub mod samples;
pub mod sequences;
mod shell;
mod stranger;
pub mod told;
pub mod trio;

pub use actor::{Actor, Ran, Running};
pub use binary::{instancefs, programs_dir, require_fuse};
pub use instance::{Builder, Instance};
pub use kernel::{abort_connection, detach, is_mounted, is_root};
pub use python::{PyError, Python};
pub use shell::Shell;

use std::time::{Duration, Instant};

/// How long anything that "arrives" may take on a busy machine before a test gives up.
pub const ARRIVES: Duration = Duration::from_secs(10);

/// Polls `probe` until it gives a value, or panics with `what` after [`ARRIVES`].
pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < ARRIVES, "did not happen within {ARRIVES:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
