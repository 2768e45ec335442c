//! Attributes: from the store's file system to ours and back.

use std::sync::Arc;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Statx, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::beneath;
use super::creds::KillingPrivileges;
use super::nodes::{Inode, Key};
use crate::model::Stamp;
use crate::vfs::{Attr, Caller, FileType, SetAttr, SetTime};

/// The kind in a `st_mode`.
pub(super) fn kind(mode: u32) -> FileType {
    match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::Fifo,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::Regular,
    }
}

/// What `stat` shows.
pub(super) fn of(st: &Statx) -> Attr {
    Attr {
        ino: st.stx_ino,
        size: st.stx_size,
        blocks: st.stx_blocks,
        atime: Stamp::from_parts(st.stx_atime.tv_sec, st.stx_atime.tv_nsec),
        mtime: mtime(st),
        ctime: ctime(st),
        kind: kind(u32::from(st.stx_mode)),
        perm: st.stx_mode & 0o7777,
        nlink: st.stx_nlink,
        uid: st.stx_uid,
        gid: st.stx_gid,
        rdev: kernel_dev(st.stx_rdev_major, st.stx_rdev_minor),
        blksize: st.stx_blksize,
    }
}

/// Whether it is a regular file with a setuid or setgid bit, which a write may take away.
pub(super) fn has_set_ids(st: &Statx) -> bool {
    let mode = u32::from(st.stx_mode);
    kind(mode) == FileType::Regular && mode & (libc::S_ISUID | libc::S_ISGID) != 0
}

/// Device numbers travel over FUSE in the kernel's 32-bit form.
fn kernel_dev(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The reverse of what the kernel sends for `mknod`.
pub(super) fn dev_of(rdev: u32) -> rustix::fs::Dev {
    rustix::fs::makedev((rdev & 0xfff00) >> 8, (rdev & 0xff) | ((rdev >> 12) & 0xfff00))
}

pub(super) fn mtime(st: &Statx) -> Stamp {
    Stamp::from_parts(st.stx_mtime.tv_sec, st.stx_mtime.tv_nsec)
}

pub(super) fn ctime(st: &Statx) -> Stamp {
    Stamp::from_parts(st.stx_ctime.tv_sec, st.stx_ctime.tv_nsec)
}

/// Which inode it is. The time of birth tells a reused number from its predecessor.
pub(super) fn key(st: &Statx) -> Key {
    Key {
        dev: (u64::from(st.stx_dev_major) << 32) | u64::from(st.stx_dev_minor),
        ino: st.stx_ino,
        born: Stamp::from_parts(st.stx_btime.tv_sec, st.stx_btime.tv_nsec),
    }
}

/// Changes what `set` says: owner, then mode (a change of owner clears setuid), then size,
/// then times (the change of size moves them). `handle` is the open file of `set.fh`.
pub(super) fn change(
    inode: &Arc<Inode>,
    handle: Option<&std::fs::File>,
    set: &SetAttr,
    privileged: bool,
    who: &Caller,
) -> Result<(), Errno> {
    let fd = inode.fd()?;
    // A change of nothing is a `chown` to nobody else, which still takes setuid away.
    let nothing =
        set.mode.is_none() && set.size.is_none() && set.atime.is_none() && set.mtime.is_none();
    if nothing || set.uid.is_some() || set.gid.is_some() {
        let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
        rustix::fs::chownat(&*fd, c"", uid, gid, AtFlags::EMPTY_PATH)?;
    }
    if let Some(mode) = set.mode {
        rustix::fs::chmod(beneath::proc_path(&*fd), Mode::from_raw_mode(mode & 0o7777))?;
    }
    if let Some(size) = set.size {
        let mode = || beneath::stat_fd(&*fd).map_or(u32::MAX, |st| st.stx_mode.into());
        let _kill = KillingPrivileges::of_mode(privileged, who, mode);
        let through_handle = handle.map(|f| rustix::fs::ftruncate(f, size));
        match through_handle {
            // Not open for writing: the kernel asks by name (truncate) with another's handle.
            None | Some(Err(Errno::BADF | Errno::INVAL)) => {
                let file = beneath::reopen(&*fd, OFlags::WRONLY | OFlags::NONBLOCK)?;
                rustix::fs::ftruncate(file, size)?;
            }
            Some(done) => done?,
        }
    }
    if set.atime.is_some() || set.mtime.is_some() {
        let times =
            Timestamps { last_access: timespec(set.atime), last_modification: timespec(set.mtime) };
        match rustix::fs::utimensat(&*fd, c"", &times, AtFlags::EMPTY_PATH) {
            // Before Linux 5.8.
            Err(Errno::INVAL | Errno::NOENT) => {
                let path = beneath::proc_path(&*fd);
                rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::empty())?;
            }
            done => done?,
        }
    }
    Ok(())
}

fn timespec(time: Option<SetTime>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        Some(SetTime::To(stamp)) => {
            let (tv_sec, nanos) = stamp.parts();
            Timespec { tv_sec, tv_nsec: nanos.into() }
        }
    }
}
