//! FUSE: the only room that knows fuser and errno numbers.
//!
//! [`Mount`] mounts a [`Layer`](crate::vfs::Layer) and serves it; the adapter decodes each
//! request, calls the layer and replies. No handler holds any logic.

mod adapter;
mod calls;
mod convert;
mod detached;
mod errno;
mod lending;
mod mount;
mod negotiate;
mod notify;
mod parts;
mod polls;
mod pool;
mod reply;
mod stats;

pub use detached::detach_descriptors;
pub use errno::of as errno_of;
pub use mount::{Load, Mount, MountError, MountOptions, detach_by_force, detach_dead, mounted_at};
pub use notify::Notifier;
pub use stats::{Op, OpStat, Stats};

/// The file system type in `/proc/mounts`.
pub const FSTYPE: &str = "fuse.instancefs";
