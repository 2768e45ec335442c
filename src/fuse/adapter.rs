//! fuser's `Filesystem` on a [`Layer`]: decode, call, reply. Nothing else.
//!
//! What may take long runs in the pool: whatever can commit a save (everything on documents,
//! and for plain files flush, fsync and rename), in order within a handle. The rest runs in
//! the event loops. Handles and nodes of plain files are known by their numbers
//! ([`plain::HANDLE_LIMIT`], [`plain::FIRST_NODE`]).

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags,
    PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::calls::{Answer, Core, Place};
use super::convert;
use super::pool::Pool;
use super::stats::{Op, Stats};
use crate::vfs::{Entry, Layer, Opened, SetAttr, plain};

/// Largest single write and read.
const MAX_WRITE: u32 = 1 << 20;

/// What we ask the kernel for, where it can.
///
/// Left out on purpose: the write-back cache (it keeps writes from us, and is for the whole
/// connection), remote locks (the kernel's own do better, and fuser does not tell flock from
/// fcntl), readdirplus (fuser cannot show a `d_ino` that is not the node's number), symlink
/// caching, `ABORT_ERROR` (fuser takes only `ENODEV` for an orderly end).
const WANTED: &[InitFlags] = &[
    // Else a truncation arrives without its handle.
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_ASYNC_READ,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_BIG_WRITES,
    InitFlags::FUSE_PARALLEL_DIROPS,
    // Pages go when a file changed behind the mount.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    // The store's file system applies the umask, or a default ACL instead.
    InitFlags::FUSE_DONT_MASK,
    // Else every write asks for `security.capability` first.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];

/// A layer as fuser's file system.
pub struct Adapter<L: Layer + ?Sized> {
    core: Arc<Core<L>>,
}

impl<L: Layer + ?Sized + 'static> Adapter<L> {
    pub(super) fn new(layer: Arc<L>, stats: Arc<Stats>, pool: Pool) -> Adapter<L> {
        Adapter { core: Arc::new(Core { stats, pool, layer }) }
    }
}

/// Operations below a plain directory: nothing there is a document.
fn in_parent(parent: INodeNo) -> Place {
    if parent.0 < plain::FIRST_NODE { Place::Pool } else { Place::Here }
}

fn on_handle(fh: FileHandle) -> Place {
    if is_plain(fh) { Place::Here } else { Place::After(fh.0) }
}

fn is_plain(fh: FileHandle) -> bool {
    fh.0 < plain::HANDLE_LIMIT
}

fn empty(reply: ReplyEmpty) -> impl FnOnce(Answer<()>) + Send + 'static {
    move |answer| match answer {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

fn entry(reply: ReplyEntry) -> impl FnOnce(Answer<Entry>) + Send + 'static {
    move |answer| match answer {
        Ok(entry) => {
            let (attr, ttl) = convert::entry_attr(&entry);
            reply.entry_with_ttls(&ttl, &entry.entry_ttl, &attr, Generation(entry.generation));
        }
        Err(e) => reply.error(e),
    }
}

fn xattr(reply: ReplyXattr, size: u32, answer: Answer<Vec<u8>>) {
    match answer {
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(e) => reply.error(e),
    }
}

impl<L: Layer + ?Sized + 'static> Filesystem for Adapter<L> {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for &flag in WANTED {
            if config.add_capabilities(flag).is_err() {
                log::info!("this kernel does not offer {flag:?}");
            }
        }
        // An error names the nearest value that would do; these are within all limits.
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let who = convert::caller(req);
        entry(reply)(self.core.call(Op::Lookup, |l| l.lookup(&who, parent.0, name)));
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        // Nobody waits for an answer.
        let _ = self.core.call(Op::Forget, |l| {
            l.forget(ino.0, nlookup);
            Ok(())
        });
    }

    fn getattr(&self, req: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        let (who, fh) = (convert::caller(req), fh.map(|fh| fh.0));
        match self.core.call(Op::GetAttr, |l| l.getattr(&who, ino.0, fh)) {
            Ok((attr, ttl)) => reply.attr(&ttl, &convert::attr(&attr)),
            Err(e) => reply.error(e),
        }
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let who = convert::caller(req);
        let (atime, mtime) = (atime.map(convert::set_time), mtime.map(convert::set_time));
        let set = SetAttr { mode, uid, gid, size, atime, mtime, fh: fh.map(|fh| fh.0) };
        let place = match fh {
            Some(fh) => on_handle(fh),
            None => in_parent(ino),
        };
        self.core.run(
            place,
            Op::SetAttr,
            move |l| l.setattr(&who, ino.0, &set),
            move |answer| match answer {
                Ok((attr, ttl)) => reply.attr(&ttl, &convert::attr(&attr)),
                Err(e) => reply.error(e),
            },
        );
    }

    fn readlink(&self, req: &Request, ino: INodeNo, reply: ReplyData) {
        let who = convert::caller(req);
        match self.core.call(Op::ReadLink, |l| l.readlink(&who, ino.0)) {
            Ok(target) => reply.data(target.as_encoded_bytes()),
            Err(e) => reply.error(e),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let (who, name) = (convert::caller(req), name.to_owned());
        let work = move |l: &L| l.mknod(&who, parent.0, &name, mode, umask, rdev);
        self.core.run(in_parent(parent), Op::MkNod, work, entry(reply));
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let (who, name) = (convert::caller(req), name.to_owned());
        let work = move |l: &L| l.mkdir(&who, parent.0, &name, mode, umask);
        self.core.run(in_parent(parent), Op::MkDir, work, entry(reply));
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (who, name) = (convert::caller(req), name.to_owned());
        let work = move |l: &L| l.unlink(&who, parent.0, &name);
        self.core.run(in_parent(parent), Op::Unlink, work, empty(reply));
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (who, name) = (convert::caller(req), name.to_owned());
        let work = move |l: &L| l.rmdir(&who, parent.0, &name);
        self.core.run(in_parent(parent), Op::RmDir, work, empty(reply));
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (who, name) = (convert::caller(req), link_name.to_owned());
        let target = target.as_os_str().to_owned();
        let work = move |l: &L| l.symlink(&who, parent.0, &name, &target);
        self.core.run(in_parent(parent), Op::Symlink, work, entry(reply));
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let who = convert::caller(req);
        let (name, newname) = (name.to_owned(), newname.to_owned());
        let how = convert::renaming(flags);
        let work = move |l: &L| l.rename(&who, parent.0, &name, newparent.0, &newname, how);
        self.core.run(Place::Pool, Op::Rename, work, empty(reply));
    }

    fn link(
        &self,
        req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let (who, name) = (convert::caller(req), newname.to_owned());
        let work = move |l: &L| l.link(&who, ino.0, newparent.0, &name);
        self.core.run(in_parent(newparent), Op::Link, work, entry(reply));
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let who = convert::caller(req);
        self.core.run(
            in_parent(ino),
            Op::Open,
            move |l| l.open(&who, ino.0, flags.0),
            move |answer| match answer {
                Ok(opened) => reply.opened(FileHandle(opened.fh), file_flags(&opened, flags)),
                Err(e) => reply.error(e),
            },
        );
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (who, name) = (convert::caller(req), name.to_owned());
        self.core.run(
            in_parent(parent),
            Op::Create,
            move |l| l.create(&who, parent.0, &name, mode, umask, flags),
            move |answer| match answer {
                Ok(created) => {
                    let (attr, ttl) = convert::entry_attr(&created.entry);
                    reply.created(
                        &ttl.min(created.entry.entry_ttl),
                        &attr,
                        Generation(created.entry.generation),
                        FileHandle(created.opened.fh),
                        file_flags(&created.opened, OpenFlags(flags)),
                    );
                }
                Err(e) => reply.error(e),
            },
        );
    }

    fn read(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let who = convert::caller(req);
        self.core.run(
            on_handle(fh),
            Op::Read,
            move |l| l.read(&who, ino.0, fh.0, offset, size),
            move |answer| match answer {
                Ok(data) => reply.data(data.get(..size as usize).unwrap_or(&data)),
                Err(e) => reply.error(e),
            },
        );
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let who = convert::caller(req);
        let answer = move |answer: Answer<u32>| match answer {
            Ok(written) => reply.written(written),
            Err(e) => reply.error(e),
        };
        let place = on_handle(fh);
        if place == Place::Here {
            let work = |l: &L| l.write(&who, ino.0, fh.0, offset, data, flags.0);
            answer(self.core.call(Op::Write, work));
        } else {
            let data = data.to_vec();
            let work = move |l: &L| l.write(&who, ino.0, fh.0, offset, &data, flags.0);
            self.core.run(place, Op::Write, work, answer);
        }
    }

    fn flush(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let who = convert::caller(req);
        let work = move |l: &L| l.flush(&who, ino.0, fh.0);
        self.core.run(Place::After(fh.0), Op::Flush, work, empty(reply));
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        // A reader of a plain file has nothing pending (its flush is not even sent).
        let reader = is_plain(fh) && flags.acc_mode() == OpenAccMode::O_RDONLY;
        let place = if reader { Place::Here } else { Place::After(fh.0) };
        self.core.run(place, Op::Release, move |l| l.release(ino.0, fh.0), empty(reply));
    }

    fn fsync(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let who = convert::caller(req);
        let work = move |l: &L| l.fsync(&who, ino.0, fh.0, datasync);
        self.core.run(Place::After(fh.0), Op::Fsync, work, empty(reply));
    }

    fn opendir(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let who = convert::caller(req);
        match self.core.call(Op::OpenDir, |l| l.opendir(&who, ino.0, flags.0)) {
            Ok(opened) => reply.opened(FileHandle(opened.fh), convert::open_flags(&opened)),
            Err(e) => reply.error(e),
        }
    }

    fn readdir(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let who = convert::caller(req);
        let filled = self.core.call(Op::ReadDir, |l| {
            let mut at = offset.cast_signed();
            loop {
                let entries = l.readdir(&who, ino.0, fh.0, at)?;
                if entries.is_empty() {
                    return Ok(());
                }
                for e in &entries {
                    let kind = convert::file_type(e.kind);
                    if reply.add(INodeNo(e.ino), e.next.cast_unsigned(), kind, &e.name) {
                        return Ok(());
                    }
                    at = e.next;
                }
            }
        });
        match filled {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        }
    }

    fn releasedir(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        empty(reply)(self.core.call(Op::ReleaseDir, |l| {
            l.releasedir(ino.0, fh.0);
            Ok(())
        }));
    }

    fn fsyncdir(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let who = convert::caller(req);
        let work = move |l: &L| l.fsyncdir(&who, ino.0, fh.0, datasync);
        self.core.run(Place::Pool, Op::FsyncDir, work, empty(reply));
    }

    fn statfs(&self, req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let who = convert::caller(req);
        match self.core.call(Op::StatFs, |l| l.statfs(&who, ino.0)) {
            Ok(s) => reply.statfs(
                s.blocks, s.bfree, s.bavail, s.files, s.ffree, s.bsize, s.namelen, s.frsize,
            ),
            Err(e) => reply.error(e),
        }
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let Some(flags) = convert::xattr_flags(flags) else { return reply.error(Errno::EINVAL) };
        let who = convert::caller(req);
        let work = |l: &L| l.setxattr(&who, ino.0, name, value, flags);
        empty(reply)(self.core.call(Op::SetXattr, work));
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let who = convert::caller(req);
        xattr(reply, size, self.core.call(Op::GetXattr, |l| l.getxattr(&who, ino.0, name)));
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let who = convert::caller(req);
        xattr(reply, size, self.core.call(Op::ListXattr, |l| l.listxattr(&who, ino.0)));
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let who = convert::caller(req);
        let work = |l: &L| l.removexattr(&who, ino.0, name);
        empty(reply)(self.core.call(Op::RemoveXattr, work));
    }

    fn access(&self, req: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let who = convert::caller(req);
        let work = |l: &L| l.access(&who, ino.0, mask.bits());
        empty(reply)(self.core.call(Op::Access, work));
    }

    fn ioctl(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        // What a regular file says to "are you a terminal".
        reply.error(Errno::ENOTTY);
    }

    fn poll(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _ph: PollNotifier,
        _events: PollEvents,
        _flags: PollFlags,
        reply: ReplyPoll,
    ) {
        // The kernel stops asking and says "ready", as for any regular file.
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let who = convert::caller(req);
        let work = move |l: &L| l.fallocate(&who, ino.0, fh.0, offset, length, mode);
        self.core.run(Place::After(fh.0), Op::Fallocate, work, empty(reply));
    }

    fn lseek(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let who = convert::caller(req);
        self.core.run(
            on_handle(fh),
            Op::Lseek,
            move |l| l.lseek(&who, ino.0, fh.0, offset, whence),
            move |answer| match answer {
                Ok(at) => reply.offset(at),
                Err(e) => reply.error(e),
            },
        );
    }

    fn copy_file_range(
        &self,
        req: &Request,
        ino_in: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let who = convert::caller(req);
        self.core.run(
            Place::After(fh_out.0),
            Op::CopyFileRange,
            move |l| {
                let (from, to) = ((ino_in.0, fh_in.0), (ino_out.0, fh_out.0));
                l.copy_file_range(&who, from.0, from.1, offset_in, to.0, to.1, offset_out, len)
            },
            move |answer| match answer {
                Ok(copied) => reply.written(copied),
                Err(e) => reply.error(e),
            },
        );
    }
}

/// A reader of a plain file has nothing to flush: its `close` needs no request.
fn file_flags(opened: &Opened, flags: OpenFlags) -> FopenFlags {
    let mut out = convert::open_flags(opened);
    let reader = flags.acc_mode() == OpenAccMode::O_RDONLY;
    if reader && is_plain(FileHandle(opened.fh)) {
        out |= FopenFlags::FOPEN_NOFLUSH;
    }
    out
}
