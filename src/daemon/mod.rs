//! The life of the serving process and of the store that it serves: lock, ready, signals,
//! outside changes, unmount; and what commands do to a store: import, adopt, eject, export.

pub mod adopt;
pub mod background;
pub mod config;
pub mod control;
pub mod copy;
pub mod doctor;
mod error;
pub mod export;
pub mod history;
pub mod import;
pub mod instance;
pub mod journal;
pub mod leases;
pub mod leave;
pub mod lock;
pub mod logging;
mod memory;
pub mod mounted;
pub mod mounts;
pub mod named;
pub mod names;
mod outside;
mod owners;
mod ports;
mod probe;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
pub mod ready;
pub mod scratch;
pub mod serve;
mod service;
mod settling;
pub mod status;
#[cfg(test)]
mod tests;
pub mod users;
mod watchers;
pub mod watching;
pub mod whole;
pub mod writeout;

pub use error::{DaemonError, MountpointProblem, Result};
pub use instance::{Instance, is_marked, is_store};
pub use named::name_writer;
