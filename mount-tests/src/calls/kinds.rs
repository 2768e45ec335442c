//! What the calls are: numbers, arguments, files.

use super::listener::Asked;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Writes bytes.
    Write {
        /// At a place of its own, not at that of the descriptor.
        at_offset: bool,
        /// From several pieces of memory.
        vector: bool,
    },
    /// Cuts or extends a file.
    Truncate,
    /// Makes content durable.
    Sync {
        /// Of the whole file system.
        all: bool,
    },
    /// Begins to write content out, without waiting for it.
    StartWriting,
    /// Opens a file that it makes if it is not there.
    Create {
        /// It must not be there.
        exclusive: bool,
        /// It is emptied.
        truncate: bool,
    },
    /// Makes a directory.
    Mkdir,
    /// Removes a name.
    Unlink,
    /// Removes a directory.
    Rmdir,
    /// Gives a file another name.
    Rename {
        /// Nothing may have the new name.
        no_replace: bool,
        /// Both names change places.
        exchange: bool,
    },
    /// Gives a file a second name.
    Link,
    /// Makes a symlink.
    Symlink,
    /// Changes attributes: mode, owner, times, extended ones, room on the disk.
    Attributes,
    /// Copies between files inside the kernel.
    Copy,
    /// Opens a file that is there.
    Open,
    /// Reads bytes.
    Read,
    /// Asks about a file or lists a directory.
    Ask,
}

impl Kind {
    /// It changes what is on the disk, or when it is there.
    pub fn changes(self) -> bool {
        !matches!(self, Kind::Open | Kind::Read | Kind::Ask)
    }

    /// It needs room on the disk.
    pub fn takes_room(self) -> bool {
        use Kind::{Create, Link, Mkdir, Rename, Symlink, Truncate, Write};
        matches!(
            self,
            Write { .. } | Truncate | Create { .. } | Mkdir | Rename { .. } | Link | Symlink
        )
    }
}

/// Where a file is named.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Descriptor(i32),
    /// `dir` may be `AT_FDCWD`; `path` is an address.
    Path {
        dir: i32,
        path: u64,
    },
}

pub(super) struct Shape {
    pub kind: Kind,
    pub file: Place,
    pub to: Option<Place>,
}

/// Calls that change something.
pub(super) const CHANGES: &[i64] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_fallocate,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_fsetxattr,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
];

/// Calls that only look.
pub(super) const LOOKS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_flock,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
];

/// What is asked about, if we know such calls.
pub(super) fn shape(asked: &Asked) -> Option<Shape> {
    let a = asked.args;
    let fd = |n: usize| Place::Descriptor(a[n] as i32);
    let at = |dir: usize, path: usize| Place::Path { dir: a[dir] as i32, path: a[path] };
    let cwd = |path: usize| Place::Path { dir: libc::AT_FDCWD, path: a[path] };
    let one = |kind, file| Some(Shape { kind, file, to: None });
    let two = |kind, file, to| Some(Shape { kind, file, to: Some(to) });
    let rename = |flags: u64| Kind::Rename {
        no_replace: flags & u64::from(libc::RENAME_NOREPLACE) != 0,
        exchange: flags & u64::from(libc::RENAME_EXCHANGE) != 0,
    };
    let open = |flags: u64| {
        let flags = flags as i32;
        if flags & libc::O_CREAT == 0 && flags & libc::O_TRUNC == 0 {
            return Kind::Open;
        }
        let exclusive = flags & libc::O_EXCL != 0;
        Kind::Create { exclusive, truncate: flags & libc::O_TRUNC != 0 }
    };
    let write = |at_offset, vector| Kind::Write { at_offset, vector };
    #[cfg(target_arch = "x86_64")]
    match asked.number {
        libc::SYS_open => return one(open(a[1]), cwd(0)),
        libc::SYS_creat => return one(Kind::Create { exclusive: false, truncate: true }, cwd(0)),
        libc::SYS_mkdir => return one(Kind::Mkdir, cwd(0)),
        libc::SYS_rmdir => return one(Kind::Rmdir, cwd(0)),
        libc::SYS_unlink => return one(Kind::Unlink, cwd(0)),
        libc::SYS_rename => return two(rename(0), cwd(0), cwd(1)),
        libc::SYS_renameat => return two(rename(0), at(0, 1), at(2, 3)),
        libc::SYS_link => return two(Kind::Link, cwd(0), cwd(1)),
        libc::SYS_symlink => return one(Kind::Symlink, cwd(1)),
        libc::SYS_chmod | libc::SYS_chown => return one(Kind::Attributes, cwd(0)),
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => {
            return one(Kind::Ask, cwd(0));
        }
        _ => {}
    }
    match asked.number {
        libc::SYS_write => one(write(false, false), fd(0)),
        libc::SYS_pwrite64 => one(write(true, false), fd(0)),
        libc::SYS_writev => one(write(false, true), fd(0)),
        libc::SYS_pwritev | libc::SYS_pwritev2 => one(write(true, true), fd(0)),
        libc::SYS_ftruncate => one(Kind::Truncate, fd(0)),
        libc::SYS_truncate => one(Kind::Truncate, cwd(0)),
        libc::SYS_fsync | libc::SYS_fdatasync => one(Kind::Sync { all: false }, fd(0)),
        libc::SYS_syncfs => one(Kind::Sync { all: true }, fd(0)),
        libc::SYS_sync_file_range => one(Kind::StartWriting, fd(0)),
        libc::SYS_openat => one(open(a[2]), at(0, 1)),
        libc::SYS_openat2 => {
            let how = super::listener::memory(asked.pid, a[2], 8);
            let flags = how.try_into().map_or(0, u64::from_ne_bytes);
            one(open(flags), at(0, 1))
        }
        libc::SYS_mkdirat => one(Kind::Mkdir, at(0, 1)),
        libc::SYS_unlinkat if a[2] as i32 & libc::AT_REMOVEDIR != 0 => one(Kind::Rmdir, at(0, 1)),
        libc::SYS_unlinkat => one(Kind::Unlink, at(0, 1)),
        libc::SYS_renameat2 => two(rename(a[4]), at(0, 1), at(2, 3)),
        libc::SYS_linkat => two(Kind::Link, at(0, 1), at(2, 3)),
        libc::SYS_symlinkat => one(Kind::Symlink, at(1, 2)),
        libc::SYS_fchmod | libc::SYS_fchown | libc::SYS_fsetxattr | libc::SYS_fallocate => {
            one(Kind::Attributes, fd(0))
        }
        // Of a descriptor, the path is null.
        libc::SYS_utimensat if a[1] == 0 => one(Kind::Attributes, fd(0)),
        libc::SYS_fchmodat | libc::SYS_fchownat | libc::SYS_utimensat => {
            one(Kind::Attributes, at(0, 1))
        }
        libc::SYS_copy_file_range => one(Kind::Copy, fd(2)),
        libc::SYS_sendfile => one(Kind::Copy, fd(0)),
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_readv => one(Kind::Read, fd(0)),
        libc::SYS_fstat | libc::SYS_getdents64 | libc::SYS_flock => one(Kind::Ask, fd(0)),
        libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_readlinkat => one(Kind::Ask, at(0, 1)),
        _ => None,
    }
}
