//! What the daemon asks of the C library's allocator.
//!
//! Reading a large document takes much memory for a short time and leaves it in many small pieces.
//! Left to itself the allocator keeps it all, in a part of its own for every thread that ever asked.

/// Allocations from this size on are given back to the system as soon as they are freed. Without a
/// fixed bound the allocator raises it to the largest one that it has met. An answer to a read is
/// smaller: it would have to be made of new pages each time.
const LARGE: libc::c_int = 2 << 20;
/// Bytes that may lie free at the end of a part.
const KEPT: libc::c_int = 8 << 20;
/// Parts from which threads allocate.
const PARTS: libc::c_int = 2;

/// To be called before other threads run.
pub fn set_bounds() {
    #[cfg(target_env = "gnu")]
    for (what, value) in [
        (libc::M_MMAP_THRESHOLD, LARGE),
        (libc::M_TRIM_THRESHOLD, KEPT),
        (libc::M_ARENA_MAX, PARTS),
    ] {
        // SAFETY: mallopt only sets numbers of the allocator, under its own lock.
        if unsafe { libc::mallopt(what, value) } == 0 {
            log::debug!("the allocator does not know option {what}");
        }
    }
}

/// Gives free memory back to the system, wherever it lies.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes the allocator's own locks and touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
