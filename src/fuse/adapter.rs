//! fuser's `Filesystem` on a [`Layer`]: decode, call, reply. Nothing else.
//!
//! What may take long runs in the pool: whatever waits for the disk (fsync, and for plain files
//! rename in the root), and what can commit a save, in order within a handle. Opening, reading,
//! writing and flushing documents are quick as a rule, so up to half of the event loops do that
//! themselves. The rest runs in the event loops. Handles and nodes of plain files are known by their numbers
//! ([`plain::HANDLE_LIMIT`], [`plain::FIRST_NODE`]).

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};

use super::calls::{Place, at_node, for_reading, is_plain, on_handle};
use super::convert;
use super::negotiate::negotiate;
pub use super::parts::Adapter;
use super::reply;
use super::stats::Op;
use crate::vfs::{Layer, SetAttr};

impl<L: Layer + ?Sized + 'static> Filesystem for Adapter<L> {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        if negotiate(config, self.wishes) {
            self.lending.agree();
        }
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let who = convert::caller(req);
        reply::entry(reply)(self.core.call(Op::Lookup, |l| l.lookup(&who, parent.0, name)));
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
        reply::attr(reply)(self.core.call(Op::GetAttr, |l| l.getattr(&who, ino.0, fh)));
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
            None => at_node(ino),
        };
        let work = move |l: &L| l.setattr(&who, ino.0, &set);
        self.core.run(place, Op::SetAttr, work, reply::attr(reply));
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
        self.core.run(at_node(parent), Op::MkNod, work, reply::entry(reply));
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
        self.core.run(at_node(parent), Op::MkDir, work, reply::entry(reply));
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (who, name) = (convert::caller(req), name.to_owned());
        let work = move |l: &L| l.unlink(&who, parent.0, &name);
        self.core.run(at_node(parent), Op::Unlink, work, reply::empty(reply));
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (who, name) = (convert::caller(req), name.to_owned());
        let work = move |l: &L| l.rmdir(&who, parent.0, &name);
        self.core.run(at_node(parent), Op::RmDir, work, reply::empty(reply));
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
        self.core.run(at_node(parent), Op::Symlink, work, reply::entry(reply));
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
        // Below the root a rename hardly ever commits.
        let quick = [parent, newparent].map(at_node) == [Place::Here; 2];
        let place = if quick { Place::Mostly } else { Place::Pool };
        self.core.run(place, Op::Rename, work, reply::empty(reply));
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
        self.core.run(at_node(newparent), Op::Link, work, reply::entry(reply));
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (who, lends) = (convert::caller(req), self.lending.agreed());
        let work = move |l: &L| {
            let opened = l.open(&who, ino.0, flags.0)?;
            let ask = || l.backing(&who, ino.0, opened.fh, flags.0);
            Ok((opened, lends.then(ask).flatten()))
        };
        // Nothing is committed by an open.
        let place = if at_node(ino) == Place::Here { Place::Here } else { Place::Mostly };
        let answer = reply::opened(reply, ino.0, flags, Arc::clone(&self.lending));
        self.core.run(place, Op::Open, work, answer);
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
        let (who, name, lends) = (convert::caller(req), name.to_owned(), self.lending.agreed());
        let work = move |l: &L| {
            let created = l.create(&who, parent.0, &name, mode, umask, flags)?;
            let ask = || l.backing(&who, created.entry.node, created.opened.fh, flags);
            Ok((created, lends.then(ask).flatten()))
        };
        let answer = reply::created(reply, OpenFlags(flags), Arc::clone(&self.lending));
        self.core.run(at_node(parent), Op::Create, work, answer);
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
        let work = move |l: &L| l.read(&who, ino.0, fh.0, offset, size);
        self.core.run(for_reading(fh), Op::Read, work, reply::data(reply, size));
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
        let answer = reply::written(reply);
        // With O_DSYNC it waits for the disk; else the bytes are only kept.
        let here = if flags.0 & libc::O_DSYNC != 0 {
            None
        } else if is_plain(fh) {
            Some(None)
        } else {
            self.core.may_wait().map(Some)
        };
        if let Some(_waiting) = here {
            let work = |l: &L| l.write(&who, ino.0, fh.0, offset, data, flags.0);
            answer(self.core.call(Op::Write, work));
        } else {
            let data = data.to_vec();
            let work = move |l: &L| l.write(&who, ino.0, fh.0, offset, &data, flags.0);
            self.core.run(Place::After(fh.0), Op::Write, work, answer);
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
        // Sent after the answers to the handle's writes, so it needs no place behind them.
        self.core.run(Place::Mostly, Op::Flush, work, reply::empty(reply));
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.polls.forget(fh.0);
        if is_plain(fh) {
            self.lending.released(ino.0);
        }
        // As a rule the flush has left nothing to commit.
        let work = move |l: &L| l.release(ino.0, fh.0);
        self.core.run(for_reading(fh), Op::Release, work, reply::empty(reply));
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
        self.core.run(Place::After(fh.0), Op::Fsync, work, reply::empty(reply));
    }

    fn opendir(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let who = convert::caller(req);
        let answer = self.core.call(Op::OpenDir, |l| l.opendir(&who, ino.0, flags.0));
        reply::opened_dir(reply, answer);
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
            reply::fill(&mut reply, offset, |at| l.readdir(&who, ino.0, fh.0, at))
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
        reply::empty(reply)(self.core.call(Op::ReleaseDir, |l| {
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
        self.core.run(Place::Pool, Op::FsyncDir, work, reply::empty(reply));
    }

    fn statfs(&self, req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let who = convert::caller(req);
        reply::statfs(reply)(self.core.call(Op::StatFs, |l| l.statfs(&who, ino.0)));
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
        reply::empty(reply)(self.core.call(Op::SetXattr, work));
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let (who, name) = (convert::caller(req), name.to_owned());
        let place = if at_node(ino) == Place::Here { Place::Here } else { Place::Mostly };
        let work = move |l: &L| l.getxattr(&who, ino.0, &name);
        self.core.run(place, Op::GetXattr, work, move |answer| reply::xattr(reply, size, answer));
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let who = convert::caller(req);
        reply::xattr(reply, size, self.core.call(Op::ListXattr, |l| l.listxattr(&who, ino.0)));
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let who = convert::caller(req);
        let work = |l: &L| l.removexattr(&who, ino.0, name);
        reply::empty(reply)(self.core.call(Op::RemoveXattr, work));
    }

    fn access(&self, req: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let who = convert::caller(req);
        let work = |l: &L| l.access(&who, ino.0, mask.bits());
        reply::empty(reply)(self.core.call(Op::Access, work));
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
        ino: INodeNo,
        fh: FileHandle,
        ph: PollNotifier,
        _events: PollEvents,
        flags: PollFlags,
        reply: ReplyPoll,
    ) {
        let place = if is_plain(fh) { Place::Here } else { Place::Pool };
        if place == Place::Pool && flags.contains(PollFlags::FUSE_POLL_SCHEDULE_NOTIFY) {
            self.polls.wait(ino.0, fh.0, ph);
        }
        let work = move |l: &L| l.has_news(ino.0, fh.0);
        self.core.run(place, Op::Poll, work, reply::polled(reply));
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
        self.core.run(Place::After(fh.0), Op::Fallocate, work, reply::empty(reply));
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
            for_reading(fh),
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
            reply::written(reply),
        );
    }
}
