//! Threads of the daemon that ask its own mount.

use std::io;

/// Gives the calling thread a table of descriptors of its own, and an empty one.
///
/// A thread that waits for an answer of our own mount cannot be killed until the connection ends,
/// and the connection ends when the last descriptor of the device is closed: when all threads that
/// share the table are gone. With the shared table such a thread would keep a killed daemon, and
/// the mount with everybody who uses it, for good.
///
/// Descriptors are of no use to the thread any more, not even those of others that it was given.
/// Record locks of the process stay: they belong to the other table.
///
/// # Errors
/// Those of `close_range(2)`; then the thread must not ask the mount.
pub fn detach_descriptors() -> io::Result<()> {
    // SAFETY: the descriptors that are closed are copies in a table that only this thread has;
    // it holds no owned descriptor and opens none before this.
    let done =
        unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE.cast_signed()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
