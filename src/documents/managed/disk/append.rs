//! Adding to the end of a large file without making it anew.
//!
//! A `write` is cut short by a kill only between two pages of the page cache, so what lies in one
//! page is there whole or not at all.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::{StoreDisk, print, regular, untouched};
use crate::documents::files::{Print, Swap};
use crate::model::{FileId, Stamp};

/// Files smaller than this are made anew.
const LARGE: u64 = 64 << 10;
/// The smallest page there is.
const PAGE: u64 = 4 << 10;

/// Bytes that were added.
pub(super) struct Appended<'d> {
    disk: &'d StoreDisk,
    id: FileId,
    file: File,
    before: u64,
    /// `st_size` with what was added.
    size: u64,
    /// What the file is since then; `None` while that is not known.
    new: Option<Print>,
    kept: bool,
}

/// See [`crate::documents::files::Disk::append`].
pub(super) fn append<'d>(
    disk: &'d StoreDisk,
    id: FileId,
    expected: &Print,
    bytes: &[u8],
    mtime: Stamp,
) -> Result<Option<Appended<'d>>, Errno> {
    let len = bytes.len() as u64;
    if expected.size < LARGE || bytes.is_empty() || expected.size % PAGE + len > PAGE {
        return Ok(None);
    }
    let (parent, name) = disk.parent(id)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let fd = match rustix::fs::openat(&parent, name, flags | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => fd,
        // It cannot be written to, but it may be possible to replace it.
        Err(_) => return Ok(None),
    };
    let stat = rustix::fs::fstat(&fd)?;
    if !regular(&stat) || !untouched(&print(&stat), expected) {
        return Ok(None);
    }
    let mut file = File::from(fd);
    let mut appended = match file.write(bytes) {
        Ok(n) if n == bytes.len() => {
            let size = expected.size + len;
            Appended { disk, id, file, before: expected.size, size, new: None, kept: false }
        }
        done => {
            if done.is_ok_and(|n| n > 0) {
                let _ = rustix::fs::ftruncate(&file, expected.size);
            }
            // Making it anew fails with the reason.
            return Ok(None);
        }
    };
    let (tv_sec, nanos) = mtime.parts();
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec, tv_nsec: i64::from(nanos) as _ },
    };
    rustix::fs::futimens(&appended.file, &times)?;
    let mode = super::make::without_set_ids(stat.st_mode);
    if mode != stat.st_mode & 0o7777 {
        rustix::fs::fchmod(&appended.file, Mode::from_raw_mode(mode))?;
    }
    let mut new = print(&rustix::fs::fstat(appended.file.as_fd())?);
    // When somebody else has added something at the same moment, this is not what is there, and
    // the next look finds both.
    new.size = appended.size;
    appended.new = Some(new);
    disk.mark(id);
    Ok(Some(appended))
}

impl Swap for Appended<'_> {
    fn print(&self) -> Option<Print> {
        self.new
    }

    fn keep(mut self: Box<Self>) {
        self.kept = true;
        self.disk.mark(self.id);
    }
}

impl Drop for Appended<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // What somebody else has added after it stays.
        let untouched = rustix::fs::fstat(&self.file).map(|s| match self.new {
            Some(new) => print(&s) == new,
            None => s.st_size as u64 == self.size,
        });
        let cut = match untouched {
            Ok(true) => rustix::fs::ftruncate(&self.file, self.before),
            Ok(false) => Ok(()),
            Err(e) => Err(e),
        };
        if let Err(e) = cut {
            log::error!("{}: not cut back: {e}", self.id.path());
        }
    }
}
