//! Removing a directory with all below it: relative to descriptors, no symlink followed, no other
//! file system entered.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

/// Directories that are open at the same time. Deeper ones are moved up and done afterwards.
const DEPTH: usize = 48;

/// Removes what has this name in `parent`. That it is gone already is no error.
pub(super) fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
    let Some(top) = open(parent, &name)? else { return Ok(()) };
    let device = rustix::fs::fstat(&top)?.st_dev;
    let mut removal = Removal { top: top.as_fd(), device, moved: VecDeque::new(), number: 0 };
    removal.empty(&top, 1)?;
    while let Some(name) = removal.moved.pop_front() {
        removal.one(top.as_fd(), &name, 1)?;
    }
    match rustix::fs::unlinkat(parent, &name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// Sets the mode of what a descriptor without access (`O_PATH`) leads to.
pub(super) fn chmod(fd: &OwnedFd, mode: u32) -> rustix::io::Result<()> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty())
}

struct Removal<'a> {
    top: BorrowedFd<'a>,
    device: u64,
    moved: VecDeque<CString>,
    number: u64,
}

impl Removal<'_> {
    fn empty(&mut self, dir: &OwnedFd, depth: usize) -> rustix::io::Result<()> {
        let mut names = Vec::new();
        for entry in Dir::read_from(dir)? {
            let name = entry?.file_name().to_owned();
            if name.as_bytes() != b"." && name.as_bytes() != b".." {
                names.push(name);
            }
        }
        names.iter().try_for_each(|name| self.one(dir.as_fd(), name, depth))
    }

    fn one(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CString,
        depth: usize,
    ) -> rustix::io::Result<()> {
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // What Linux and POSIX say of a directory.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(e) => return Err(e),
        }
        if depth >= DEPTH {
            self.number += 1;
            let up = CString::new(format!(".deep-{}", self.number)).map_err(|_| Errno::INVAL)?;
            rustix::fs::renameat(parent, name, self.top, &up)?;
            self.moved.push_back(up);
            return Ok(());
        }
        let Some(dir) = open(parent, name)? else { return Ok(()) };
        if rustix::fs::fstat(&dir)?.st_dev != self.device {
            return Err(Errno::XDEV);
        }
        self.empty(&dir, depth + 1)?;
        match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        }
    }
}

/// Opens a directory of ours so that it can be emptied, whatever its mode was.
fn open(parent: BorrowedFd<'_>, name: &CString) -> rustix::io::Result<Option<OwnedFd>> {
    let look = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match rustix::fs::openat(parent, name, look, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        found => found?,
    };
    if rustix::fs::fstat(&found)?.st_mode & 0o700 != 0o700 {
        chmod(&found, 0o700)?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&found, c".", flags, Mode::empty()).map(Some)
}
