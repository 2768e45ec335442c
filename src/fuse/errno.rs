//! The errno of every error.

use fuser::Errno;

use crate::model::Reason;
use crate::store::StoreError;
use crate::vfs::Error;

/// What the caller gets (semantics, section 5). `EIO` for whatever was refused: measured on
/// many programs, it is the one that all of them report and none misreads.
pub fn of(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::ENOENT,
        Error::Exists => Errno::EEXIST,
        Error::NotDirectory => Errno::ENOTDIR,
        Error::IsDirectory => Errno::EISDIR,
        Error::ReadOnly => Errno::EROFS,
        Error::NotPermitted => Errno::EPERM,
        Error::BadHandle => Errno::EBADF,
        Error::Invalid => Errno::EINVAL,
        Error::TooBig => Errno::EFBIG,
        Error::Range => Errno::ERANGE,
        Error::NoAttribute => Errno::ENODATA,
        Error::NotSupported => Errno::EOPNOTSUPP,
        Error::NoSys => Errno::ENOSYS,
        Error::CrossDevice => Errno::EXDEV,
        Error::Refused(refusal) => of_refusal(refusal.reason),
        Error::Store(store) => of_store(store),
        Error::Os(errno) => Errno::from_i32(errno.raw_os_error()),
    }
}

fn of_refusal(reason: Reason) -> Errno {
    match reason {
        Reason::TooBig => Errno::EFBIG,
        Reason::Invalid
        | Reason::Empty
        | Reason::Schema
        | Reason::Version
        | Reason::Expectation
        | Reason::LostItem
        | Reason::Merged
        | Reason::Unresolved
        | Reason::Unchanged
        | Reason::Store => Errno::EIO,
    }
}

fn of_store(error: &StoreError) -> Errno {
    match error {
        StoreError::Full => Errno::ENOSPC,
        StoreError::Quota => Errno::EDQUOT,
        StoreError::Busy
        | StoreError::Newer { .. }
        | StoreError::Unusable { .. }
        | StoreError::History { .. }
        | StoreError::Sqlite(_) => Errno::EIO,
        StoreError::Io { source, .. } => match source.raw_os_error() {
            Some(libc::ENOSPC) => Errno::ENOSPC,
            Some(libc::EDQUOT) => Errno::EDQUOT,
            Some(_) | None => Errno::EIO,
        },
    }
}

/// How loud an error is in the log: what programs cause every day is quiet.
pub(super) fn level(error: &Error) -> log::Level {
    match error {
        Error::NotFound
        | Error::Exists
        | Error::NotDirectory
        | Error::IsDirectory
        | Error::ReadOnly
        | Error::NotPermitted
        | Error::BadHandle
        | Error::Invalid
        | Error::TooBig
        | Error::Range
        | Error::NoAttribute
        | Error::NotSupported
        | Error::NoSys
        | Error::CrossDevice
        | Error::Os(_) => log::Level::Trace,
        Error::Refused(_) => log::Level::Info,
        Error::Store(StoreError::Busy) => log::Level::Warn,
        Error::Store(_) => log::Level::Error,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::model::Refusal;

    fn refused(reason: Reason) -> Error {
        Error::Refused(Refusal::new(reason, "x"))
    }

    fn io(errno: i32) -> Error {
        let source = std::io::Error::from_raw_os_error(errno);
        Error::Store(StoreError::Io { path: PathBuf::from("x"), source })
    }

    #[test]
    fn table() {
        let path = || PathBuf::from("x");
        let reason = || "x".to_owned();
        let table = [
            (Error::NotFound, libc::ENOENT),
            (Error::Exists, libc::EEXIST),
            (Error::NotDirectory, libc::ENOTDIR),
            (Error::IsDirectory, libc::EISDIR),
            (Error::ReadOnly, libc::EROFS),
            (Error::NotPermitted, libc::EPERM),
            (Error::BadHandle, libc::EBADF),
            (Error::Invalid, libc::EINVAL),
            (Error::TooBig, libc::EFBIG),
            (Error::Range, libc::ERANGE),
            (Error::NoAttribute, libc::ENODATA),
            (Error::NotSupported, libc::EOPNOTSUPP),
            (Error::NoSys, libc::ENOSYS),
            (Error::CrossDevice, libc::EXDEV),
            (refused(Reason::Invalid), libc::EIO),
            (refused(Reason::Empty), libc::EIO),
            (refused(Reason::Schema), libc::EIO),
            (refused(Reason::Version), libc::EIO),
            (refused(Reason::Expectation), libc::EIO),
            (refused(Reason::LostItem), libc::EIO),
            (refused(Reason::Merged), libc::EIO),
            (refused(Reason::Store), libc::EIO),
            (refused(Reason::TooBig), libc::EFBIG),
            (Error::Store(StoreError::Busy), libc::EIO),
            (Error::Store(StoreError::Full), libc::ENOSPC),
            (Error::Store(StoreError::Quota), libc::EDQUOT),
            (Error::Store(StoreError::Newer { path: path(), found: 9, known: 1 }), libc::EIO),
            (Error::Store(StoreError::Unusable { path: path(), reason: reason() }), libc::EIO),
            (Error::Store(StoreError::History { doc: "x", rev: 1, reason: reason() }), libc::EIO),
            (Error::Store(StoreError::Sqlite(rusqlite::Error::InvalidQuery)), libc::EIO),
            (io(libc::ENOSPC), libc::ENOSPC),
            (io(libc::EDQUOT), libc::EDQUOT),
            (io(libc::EACCES), libc::EIO),
            (Error::Os(rustix::io::Errno::NOTEMPTY), libc::ENOTEMPTY),
            (Error::Os(rustix::io::Errno::STALE), libc::ESTALE),
        ];
        for (error, errno) in table {
            assert_eq!(i32::from(of(&error)), errno, "{error:?}");
        }
    }
}
