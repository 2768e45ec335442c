//! Opening names below the store's directory, and never outside it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

/// Fails unless `name` is one component of a path: not empty, without `/` and NUL, neither
/// `.` nor `..`. Every operation that takes a name goes through this; together with
/// directory handles it is why nothing outside the store can be reached.
pub(super) fn component(name: &OsStr) -> Result<&OsStr, Errno> {
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return Err(Errno::NOENT);
    }
    if bytes == b"." || bytes == b".." || bytes.contains(&b'/') || bytes.contains(&0) {
        return Err(Errno::INVAL);
    }
    if bytes.len() > 255 {
        return Err(Errno::NAMETOOLONG);
    }
    Ok(name)
}

/// Opens `name` in `dir`. A symlink at the name is not followed: it is opened itself with
/// `O_PATH`, and `ELOOP` otherwise.
pub(super) fn open_child(
    dir: impl AsFd,
    name: &OsStr,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let name = component(name)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&dir, name, flags, mode, resolve) {
        // A container's filter may not know openat2. With one component and O_NOFOLLOW,
        // openat cannot leave the directory either.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(&dir, name, flags, mode),
        other => other,
    }
}

/// The attributes of `name` in `dir`; those of a symlink itself.
pub(super) fn stat_child(dir: impl AsFd, name: &OsStr) -> Result<Statx, Errno> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(dir, component(name)?, AtFlags::SYMLINK_NOFOLLOW, mask)
}

/// The attributes of an open file, `O_PATH` included.
pub(super) fn stat_fd(fd: impl AsFd) -> Result<Statx, Errno> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, mask)
}

/// A path that leads to exactly the inode of `fd`, also when that is `O_PATH`, unlinked or
/// a symlink. For the calls that take no `O_PATH` descriptor.
pub(super) fn proc_path(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// Opens the inode of `fd` once more. `flags` must not create.
pub(super) fn reopen(fd: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(proc_path(fd), flags | OFlags::CLOEXEC, Mode::empty())
}
