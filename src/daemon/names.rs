//! The private files of a store. The mount shows none of them, a copy of the instance
//! (`export`) takes none of them along.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What all private names begin with.
pub const PREFIX: &str = ".instancefs-";

/// Locked with `flock` by the one process that may change the store; says who that is.
pub const LOCK: &str = ".instancefs-lock";

/// The daemon's control socket, mode 0600.
pub const SOCKET: &str = ".instancefs-sock";

/// The daemon's log, bounded.
pub const LOG: &str = ".instancefs-log";

/// That this directory is a store, and since when.
pub const MARKER: &str = ".instancefs-store";

/// Locked with `flock` while a command takes or gives back a lease without a mount.
pub const LEASES: &str = ".instancefs-leases";

/// The step at which `init`, `adopt` or `eject` stands; gone when it is done.
pub const JOURNAL: &str = ".instancefs-step";

/// The database. It is not private: other programs open it.
pub use crate::store::DB_NAME as DATABASE;

/// Whether this is the name of a private file in the root of a store.
pub fn is_private(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes())
}
