//! Extended attributes, passed through.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::XattrFlags as Flags;
use rustix::io::Errno;

use super::beneath::proc_path;
use super::nodes::PathFd;
use crate::vfs::XattrFlags;

/// Whether it is an access control list.
pub(super) fn is_acl(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"system.posix_acl_")
}

/// The value of an attribute.
pub(super) fn get(fd: &PathFd, name: &OsStr) -> Result<Vec<u8>, Errno> {
    let path = proc_path(fd);
    // Most are small; `security.capability` is asked for before every first write.
    let mut value = Vec::with_capacity(256);
    match rustix::fs::getxattr(&path, name, rustix::buffer::spare_capacity(&mut value)) {
        Ok(_) => return Ok(value),
        Err(Errno::RANGE) => {}
        Err(e) => return Err(e),
    }
    grown(
        || rustix::fs::getxattr_query(&path, name),
        |buf| rustix::fs::getxattr(&path, name, rustix::buffer::spare_capacity(buf)),
    )
}

/// The names, each followed by a NUL byte.
pub(super) fn list(fd: &PathFd) -> Result<Vec<u8>, Errno> {
    let path = proc_path(fd);
    grown(
        || rustix::fs::listxattr_query(&path),
        |buf| rustix::fs::listxattr(&path, rustix::buffer::spare_capacity(buf)),
    )
}

/// Sets an attribute.
pub(super) fn set(fd: &PathFd, name: &OsStr, value: &[u8], flags: XattrFlags) -> Result<(), Errno> {
    let flags = match flags {
        XattrFlags::Any => Flags::empty(),
        XattrFlags::Create => Flags::CREATE,
        XattrFlags::Replace => Flags::REPLACE,
    };
    rustix::fs::setxattr(proc_path(fd), name, value, flags)
}

/// Removes an attribute.
pub(super) fn remove(fd: &PathFd, name: &OsStr) -> Result<(), Errno> {
    rustix::fs::removexattr(proc_path(fd), name)
}

/// Asks for the length, then for the value; again while it grows in between.
fn grown<T>(
    length: impl Fn() -> Result<usize, Errno>,
    fill: impl Fn(&mut Vec<u8>) -> Result<T, Errno>,
) -> Result<Vec<u8>, Errno> {
    for _ in 0..8 {
        let len = length()?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let mut buf = Vec::with_capacity(len);
        match fill(&mut buf) {
            Ok(_) => return Ok(buf),
            Err(Errno::RANGE) => {}
            Err(e) => return Err(e),
        }
    }
    Err(Errno::RANGE)
}
