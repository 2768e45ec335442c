//! The operations of a file system as values, in the kernel's terms but without its types.
//! [`Layer`] is implemented by the plain files, by the whole tree, and called by the FUSE
//! adapter and by tests without a mount.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use crate::model::{Refusal, Stamp};

/// A node id as the kernel sees it (FUSE's nodeid, not `st_ino`). 1 is the root.
pub type Node = u64;

/// A handle number.
pub type Fh = u64;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The kernel's id of the asking *thread*; 0 when unknown (RELEASE, write-back, a foreign
    /// pid namespace).
    pub tid: u32,
    /// Its file system user id.
    pub uid: u32,
    /// Its file system group id.
    pub gid: u32,
}

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum FileType {
    Regular,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

/// What `stat` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct Attr {
    /// `st_ino`.
    pub ino: u64,
    pub size: u64,
    /// In units of 512 bytes.
    pub blocks: u64,
    pub atime: Stamp,
    pub mtime: Stamp,
    pub ctime: Stamp,
    pub kind: FileType,
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub perm: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub blksize: u32,
}

/// The answer to a lookup.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The node, whose count of kernel references this answer raises by one.
    pub node: Node,
    /// Its generation.
    pub generation: u64,
    /// Its attributes.
    pub attr: Attr,
    /// How long the kernel may believe `attr`.
    pub attr_ttl: Duration,
    /// How long the kernel may believe that the name leads here.
    pub entry_ttl: Duration,
}

/// The answer to an open.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    /// The handle.
    pub fh: Fh,
    /// `FOPEN_DIRECT_IO`: every read and write comes here.
    pub direct_io: bool,
    /// `FOPEN_KEEP_CACHE`: pages of an earlier open stay valid.
    pub keep_cache: bool,
    /// `FOPEN_NONSEEKABLE` / `FOPEN_STREAM` are never set; `FOPEN_CACHE_DIR` for directories.
    pub cache_dir: bool,
}

/// A file that the kernel may use itself.
#[derive(Clone)]
pub struct Backing {
    /// The file, open for reading at least if the handle is.
    pub file: Arc<dyn AsFd + Send + Sync>,
    /// `false`: only if the kernel does so already through another handle on the node, because
    /// all handles on one node have to be of one kind.
    pub wanted: bool,
}

/// The answer to a create.
#[derive(Debug, Clone, Copy)]
pub struct Created {
    /// The new name.
    pub entry: Entry,
    /// The handle on it.
    pub opened: Opened,
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// Now (`UTIME_NOW`).
    Now,
    /// This time.
    To(Stamp),
}

/// What `setattr` changes.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs)]
pub struct SetAttr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
    /// The handle through which it is asked (ftruncate).
    pub fh: Option<Fh>,
}

/// A name in a directory.
#[derive(Debug, Clone)]
#[expect(missing_docs)]
pub struct DirEntry {
    /// `d_ino`.
    pub ino: u64,
    pub kind: FileType,
    pub name: OsString,
    /// The cookie at which reading goes on after this entry.
    pub next: i64,
}

/// What `statfs` shows.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs)]
pub struct StatFs {
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub bsize: u32,
    pub namelen: u32,
    pub frsize: u32,
}

/// The flags of `renameat2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renaming {
    /// No flag: the target is replaced.
    Replace,
    /// `RENAME_NOREPLACE`.
    NoReplace,
    /// `RENAME_EXCHANGE`.
    Exchange,
    /// `RENAME_WHITEOUT`, or a combination that the kernel knows and we pass on.
    Other(u32),
}

/// The flags of `setxattr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum XattrFlags {
    Any,
    Create,
    Replace,
}

/// Why an operation failed. The errno is chosen in one place, `fuse/errno.rs`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such name or node.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("the name exists")]
    Exists,
    /// Not a directory.
    #[error("not a directory")]
    NotDirectory,
    /// A directory.
    #[error("is a directory")]
    IsDirectory,
    /// Write-open of a read-only document or mount.
    #[error("read-only")]
    ReadOnly,
    /// The name may not be touched that way (`EPERM`).
    #[error("not permitted")]
    NotPermitted,
    /// The handle was not opened for this (`EBADF`).
    #[error("bad handle")]
    BadHandle,
    /// Bad argument (`EINVAL`).
    #[error("invalid argument")]
    Invalid,
    /// Over the size limit (`EFBIG`).
    #[error("file too large")]
    TooBig,
    /// Result does not fit the caller's buffer (`ERANGE`).
    #[error("result too large")]
    Range,
    /// No such attribute (`ENODATA`).
    #[error("no such attribute")]
    NoAttribute,
    /// The kind of operation is not supported here (`EOPNOTSUPP`).
    #[error("not supported")]
    NotSupported,
    /// The kernel need not ask again (`ENOSYS`).
    #[error("not implemented")]
    NoSys,
    /// Two file systems (`EXDEV`).
    #[error("cross-device")]
    CrossDevice,
    /// A save was refused (`EIO`).
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed (`EIO`, `ENOSPC` when full).
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// What the store's file system says: passed on as it is.
    #[error("{0}")]
    Os(#[from] rustix::io::Errno),
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A file system. All methods may be called from several threads at once, and may block as
/// long as a commit takes; none may block on another process.
#[expect(unused_variables, missing_docs, reason = "names and meanings are those of FUSE")]
pub trait Layer: Send + Sync {
    fn lookup(&self, who: &Caller, parent: Node, name: &OsStr) -> Result<Entry>;
    fn forget(&self, node: Node, count: u64);
    fn getattr(&self, who: &Caller, node: Node, fh: Option<Fh>) -> Result<(Attr, Duration)>;
    fn setattr(&self, who: &Caller, node: Node, set: &SetAttr) -> Result<(Attr, Duration)>;
    fn readlink(&self, who: &Caller, node: Node) -> Result<OsString>;
    fn mknod(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
    ) -> Result<Entry>;
    fn mkdir(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        umask: u32,
    ) -> Result<Entry>;
    fn unlink(&self, who: &Caller, parent: Node, name: &OsStr) -> Result<()>;
    fn rmdir(&self, who: &Caller, parent: Node, name: &OsStr) -> Result<()>;
    fn symlink(&self, who: &Caller, parent: Node, name: &OsStr, target: &OsStr) -> Result<Entry>;
    fn rename(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        new_parent: Node,
        new_name: &OsStr,
        how: Renaming,
    ) -> Result<()>;
    fn link(&self, who: &Caller, node: Node, new_parent: Node, new_name: &OsStr) -> Result<Entry>;
    fn open(&self, who: &Caller, node: Node, flags: i32) -> Result<Opened>;
    fn create(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
    ) -> Result<Created>;
    fn read(&self, who: &Caller, node: Node, fh: Fh, offset: u64, size: u32) -> Result<Vec<u8>>;
    fn write(
        &self,
        who: &Caller,
        node: Node,
        fh: Fh,
        offset: u64,
        data: &[u8],
        flags: i32,
    ) -> Result<u32>;
    /// The store's own file behind a handle that the caller has just opened with `flags`, for
    /// the kernel to read, write and map it without asking (passthrough): from now on no READ
    /// and no WRITE may come through the handle. `None`: all of them must.
    fn backing(&self, who: &Caller, node: Node, fh: Fh, flags: i32) -> Option<Backing> {
        None
    }
    /// One descriptor of the handle was closed.
    fn flush(&self, who: &Caller, node: Node, fh: Fh) -> Result<()>;
    /// The last one was.
    fn release(&self, node: Node, fh: Fh) -> Result<()>;
    fn fsync(&self, who: &Caller, node: Node, fh: Fh, data_only: bool) -> Result<()>;
    fn opendir(&self, who: &Caller, node: Node, flags: i32) -> Result<Opened>;
    /// Entries from cookie `offset` on, at least one if there is any; the adapter stops taking
    /// when its buffer is full and asks again from the last cookie it took.
    fn readdir(&self, who: &Caller, node: Node, fh: Fh, offset: i64) -> Result<Vec<DirEntry>>;
    fn releasedir(&self, node: Node, fh: Fh);
    fn fsyncdir(&self, who: &Caller, node: Node, fh: Fh, data_only: bool) -> Result<()>;
    fn statfs(&self, who: &Caller, node: Node) -> Result<StatFs>;
    fn setxattr(
        &self,
        who: &Caller,
        node: Node,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()>;
    fn getxattr(&self, who: &Caller, node: Node, name: &OsStr) -> Result<Vec<u8>>;
    /// Names, each followed by a NUL byte.
    fn listxattr(&self, who: &Caller, node: Node) -> Result<Vec<u8>>;
    fn removexattr(&self, who: &Caller, node: Node, name: &OsStr) -> Result<()>;
    fn access(&self, who: &Caller, node: Node, mask: i32) -> Result<()> {
        Err(Error::NoSys)
    }
    fn fallocate(
        &self,
        who: &Caller,
        node: Node,
        fh: Fh,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<()>;
    /// `poll`: whether there is something newer behind the handle than what it has read. Reading
    /// and writing never wait, so that much is always ready.
    fn has_news(&self, node: Node, fh: Fh) -> Result<bool> {
        Ok(false)
    }
    fn lseek(&self, who: &Caller, node: Node, fh: Fh, offset: i64, whence: i32) -> Result<i64>;
    #[expect(clippy::too_many_arguments, reason = "the kernel's call")]
    fn copy_file_range(
        &self,
        who: &Caller,
        node_in: Node,
        fh_in: Fh,
        offset_in: u64,
        node_out: Node,
        fh_out: Fh,
        offset_out: u64,
        length: u64,
    ) -> Result<u32>;
}
