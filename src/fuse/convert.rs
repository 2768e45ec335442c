//! Between fuser's types and ours.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FopenFlags, INodeNo, RenameFlags, Request, TimeOrNow};

use crate::model::Stamp;
use crate::vfs::{Attr, Caller, Entry, FileType, Opened, Renaming, SetTime, XattrFlags};

pub(super) fn caller(request: &Request) -> Caller {
    Caller { tid: request.pid(), uid: request.uid(), gid: request.gid() }
}

pub(super) fn file_type(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Regular => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
    }
}

/// Attributes as GETATTR and SETATTR answer them.
pub(super) fn attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino),
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(attr.kind),
        perm: attr.perm,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.blksize,
        flags: 0,
    }
}

/// Attributes as an entry: fuser takes the node's number from `ino`. Where the two differ,
/// the attributes must not be believed (TTL 0), so that the kernel asks for the real ones.
pub(super) fn entry_attr(entry: &Entry) -> (FileAttr, Duration) {
    let mut out = attr(&entry.attr);
    out.ino = INodeNo(entry.node);
    (out, if entry.attr.ino == entry.node { entry.attr_ttl } else { Duration::ZERO })
}

pub(super) fn open_flags(opened: &Opened) -> FopenFlags {
    let mut flags = FopenFlags::empty();
    flags.set(FopenFlags::FOPEN_DIRECT_IO, opened.direct_io);
    flags.set(FopenFlags::FOPEN_KEEP_CACHE, opened.keep_cache);
    flags.set(FopenFlags::FOPEN_CACHE_DIR, opened.cache_dir);
    flags
}

pub(super) fn renaming(flags: RenameFlags) -> Renaming {
    if flags.is_empty() {
        Renaming::Replace
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Renaming::NoReplace
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Renaming::Exchange
    } else {
        Renaming::Other(flags.bits())
    }
}

/// `None` for flags that `setxattr` does not know.
pub(super) fn xattr_flags(flags: i32) -> Option<XattrFlags> {
    match flags {
        0 => Some(XattrFlags::Any),
        libc::XATTR_CREATE => Some(XattrFlags::Create),
        libc::XATTR_REPLACE => Some(XattrFlags::Replace),
        _ => None,
    }
}

pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(t) => SetTime::To(stamp(t)),
    }
}

fn time(stamp: Stamp) -> SystemTime {
    let (seconds, nanos) = stamp.parts();
    let nanos = Duration::from_nanos(nanos.into());
    match u64::try_from(seconds) {
        Ok(after) => UNIX_EPOCH + Duration::from_secs(after) + nanos,
        Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + nanos,
    }
}

/// What the kernel sent. For a time before 1970 fuser takes the nanoseconds, which count forwards
/// in every `timespec`, as counting backwards with the seconds; this turns them round again.
fn stamp(time: SystemTime) -> Stamp {
    let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Stamp::from_parts(signed(after.as_secs()), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            Stamp::from_parts(-signed(before.as_secs()), before.subsec_nanos())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As fuser reads what the kernel sends.
    fn sent(stamp: Stamp) -> SystemTime {
        let (seconds, nanos) = stamp.parts();
        match u64::try_from(seconds) {
            Ok(after) => UNIX_EPOCH + Duration::new(after, nanos),
            Err(_) => UNIX_EPOCH - Duration::new(seconds.unsigned_abs(), nanos),
        }
    }

    #[test]
    fn times_are_what_the_kernel_sent() {
        for nanos in [0, 1, -1, 1_700_000_000_123_456_789, -5_000_000_001, -999_999_999, i64::MAX] {
            assert_eq!(stamp(sent(Stamp(nanos))), Stamp(nanos));
        }
    }

    #[test]
    fn times_are_told_as_they_are() {
        assert_eq!(time(Stamp(-1)), UNIX_EPOCH - Duration::from_nanos(1));
        assert_eq!(time(Stamp(-2_500_000_000)), UNIX_EPOCH - Duration::from_millis(2500));
        assert_eq!(time(Stamp(1_000_000_001)), UNIX_EPOCH + Duration::new(1, 1));
    }

    #[test]
    fn a_number_that_is_not_the_node_is_not_believed() {
        let st = Attr {
            ino: 70_000,
            size: 0,
            blocks: 0,
            atime: Stamp(0),
            mtime: Stamp(0),
            ctime: Stamp(0),
            kind: FileType::Regular,
            perm: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
        };
        let ttl = Duration::from_secs(1);
        let entry = |node| Entry { node, generation: 0, attr: st, attr_ttl: ttl, entry_ttl: ttl };
        assert_eq!(entry_attr(&entry(70_000)).1, ttl);
        let (attr, believed) = entry_attr(&entry(5));
        assert_eq!((attr.ino, believed), (INodeNo(5), Duration::ZERO));
    }
}
