//! What is agreed with the kernel when the mount is made.

use fuser::{InitFlags, KernelConfig};

/// Read-ahead and write-back requests in flight before the kernel holds more back.
const MAX_BACKGROUND: u16 = 64;

/// Largest single write and read, in bytes.
const MAX_WRITE: u32 = 1 << 20;

/// What we ask the kernel for, where it can.
///
/// Left out on purpose: the write-back cache (it keeps writes from us, and is for the whole
/// connection), remote locks (the kernel's own do better, and fuser does not tell flock from
/// fcntl), readdirplus (fuser cannot show a `d_ino` that is not the node's number), symlink
/// caching, `ABORT_ERROR` (fuser takes only `ENODEV` for an orderly end).
const WANTED: &[InitFlags] = &[
    // Else a truncation arrives without its handle.
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_ASYNC_READ,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_BIG_WRITES,
    InitFlags::FUSE_PARALLEL_DIROPS,
    // Pages go when a file changed behind the mount.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    // The store's file system applies the umask, or a default ACL instead.
    InitFlags::FUSE_DONT_MASK,
    // The kernel checks access control lists too. They are ours to inherit and to keep.
    InitFlags::FUSE_POSIX_ACL,
    // Else every write asks for `security.capability` first.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];

/// What is asked for only if it is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wishes {
    /// The kernel reads and writes plain files itself, where it can. For root only.
    pub(super) passthrough: bool,
    /// The store's file system is itself stacked on others (overlayfs).
    pub(super) stacked: bool,
}

/// Asks for everything that we want and this kernel has. Returns whether plain files are lent.
pub(super) fn negotiate(config: &mut KernelConfig, wishes: Wishes) -> bool {
    for &flag in WANTED {
        if config.add_capabilities(flag).is_err() {
            log::info!("this kernel does not offer {flag:?}");
        }
    }
    // An error names the nearest value that would do; these are within all limits.
    let _ = config.set_max_write(MAX_WRITE);
    let _ = config.set_max_background(MAX_BACKGROUND);
    // So many file systems may be below ours; the kernel allows two, and those stacked on ours
    // count too.
    let _ = config.set_max_stack_depth(if wishes.stacked { 2 } else { 1 });
    wishes.passthrough && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
}
