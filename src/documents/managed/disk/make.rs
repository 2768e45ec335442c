//! Making the file that is to take the place of another.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use super::StoreDisk;
use super::clean::Place;
use crate::documents::Content;
use crate::model::Stamp;

/// The mode of a file that there was none of.
const MODE: u32 = 0o644;
/// The longest value of an extended attribute.
const XATTR_MAX: usize = 64 << 10;

/// A file under a name of ours; dropped, it is removed.
pub(super) struct Temporary {
    pub(super) dir: OwnedFd,
    pub(super) name: String,
    /// The name is somebody else's now, or nobody's.
    pub(super) gone: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.gone
            && let Err(e) = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty())
        {
            log::warn!("{}: not removed: {e}", self.name);
        }
    }
}

/// A free name of ours on the file system of `parent`.
pub(super) fn free_name(disk: &StoreDisk, parent: BorrowedFd<'_>) -> Result<Temporary, Errno> {
    let number = disk.unique();
    let mut place = disk.place.lock();
    if place.is_none() {
        *place = Some(Place::make(disk.dir.as_fd())?);
    }
    let Some(place) = place.as_ref() else { return Err(Errno::IO) };
    let (ours, theirs) = (rustix::fs::fstat(&place.dir)?, rustix::fs::fstat(parent)?);
    let name = place.name(number);
    // A directory where something else is mounted: the name has to be made there.
    if ours.st_dev != theirs.st_dev {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(parent, ".", flags, Mode::empty())?;
        return Ok(Temporary { dir, name: format!("{}-{name}", super::clean::DIR), gone: true });
    }
    let dir = rustix::io::fcntl_dupfd_cloexec(&place.dir, 0)?;
    Ok(Temporary { dir, name, gone: true })
}

/// Makes a file with this text and, as far as that is allowed, the owner, the mode and the
/// extended attributes of `like`: a descriptor of the old file and what it says. Without one, it
/// is what a new file in `parent` would be.
pub(super) fn make(
    disk: &StoreDisk,
    parent: BorrowedFd<'_>,
    like: Option<(BorrowedFd<'_>, &Stat)>,
    text: &Content,
    mtime: Stamp,
) -> Result<(Temporary, OwnedFd), Errno> {
    let mut temporary = free_name(disk, parent)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&temporary.dir, &temporary.name, flags, Mode::RUSR | Mode::WUSR)?;
    temporary.gone = false;
    let mut file = std::fs::File::from(fd);
    for chunk in text.chunks() {
        file.write_all(chunk).map_err(|e| super::errno(&e))?;
    }
    let (seconds, nanos) = mtime.parts();
    let last_modification = Timespec { tv_sec: seconds, tv_nsec: i64::from(nanos) as _ };
    // That we have made it is no access: nothing has been read of it yet.
    let mut atime = last_modification;
    match like {
        Some((old, stat)) => {
            let (uid, gid) = (own(stat.st_uid), group(stat.st_gid));
            if rustix::fs::fchown(&file, Some(uid), Some(gid)).is_err() {
                let _ = rustix::fs::fchown(&file, None, Some(gid));
            }
            copy_xattrs(old, file.as_fd());
            rustix::fs::fchmod(&file, Mode::from_raw_mode(without_set_ids(stat.st_mode)))?;
            atime = Timespec { tv_sec: stat.st_atime as _, tv_nsec: stat.st_atime_nsec as _ };
        }
        None => as_new(parent, file.as_fd())?,
    }
    rustix::fs::futimens(&file, &Timestamps { last_access: atime, last_modification })?;
    // Before it gets its name: a file system that writes names before data could otherwise, after
    // a power loss, have an empty file in the place of the old one (R8).
    rustix::fs::fdatasync(&file)?;
    Ok((temporary, file.into()))
}

/// The permission bits of a file whose text has changed: like any write, a save takes away what
/// would let the text run as somebody else.
pub(super) fn without_set_ids(mode: u32) -> u32 {
    let set_group = if mode & 0o010 != 0 { 0o2000 } else { 0 };
    mode & 0o7777 & !(0o4000 | set_group)
}

fn own(uid: u32) -> rustix::fs::Uid {
    rustix::fs::Uid::from_raw(uid)
}

fn group(gid: u32) -> rustix::fs::Gid {
    rustix::fs::Gid::from_raw(gid)
}

/// Owner and group of the directory as far as a new file there would have them: the owner because
/// whoever has the directory has what is in it, and the daemon may be root.
fn as_new(parent: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<(), Errno> {
    let dir = rustix::fs::fstat(parent)?;
    let uid = rustix::process::geteuid().is_root().then(|| own(dir.st_uid));
    let set_group = dir.st_mode & 0o2000 != 0 || uid.is_some();
    let _ = rustix::fs::fchown(file, uid, set_group.then(|| group(dir.st_gid)));
    rustix::fs::fchmod(file, Mode::from_raw_mode(MODE))
}

/// Copies all extended attributes, access lists among them, that may be copied.
fn copy_xattrs(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    // Works for a descriptor that is no more than a path, too.
    let from = format!("/proc/self/fd/{}", from.as_raw_fd());
    let mut names = vec![0; XATTR_MAX];
    let Ok(len) = rustix::fs::listxattr(&from, &mut names[..]) else { return };
    names.truncate(len);
    let mut value = vec![0; XATTR_MAX];
    // Those that would let the text run with more rights go, as with any write.
    let copied = |name: &&[u8]| !name.is_empty() && *name != b"security.capability";
    for name in names.split(|b| *b == 0).filter(copied) {
        let copied = rustix::fs::getxattr(&from, name, &mut value[..])
            .and_then(|len| rustix::fs::fsetxattr(to, name, &value[..len], XattrFlags::empty()));
        if let Err(e) = copied {
            log::debug!("attribute {} is not copied: {e}", String::from_utf8_lossy(name));
        }
    }
}
