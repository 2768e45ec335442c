//! Sending the outcome of a handler.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use fuser::{
    Errno, FileHandle, FopenFlags, Generation, INodeNo, OpenFlags, PollEvents, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyPoll,
    ReplyStatfs, ReplyWrite, ReplyXattr,
};

use super::calls::{Answer, is_reader};
use super::convert;
use super::lending::Lending;
use crate::vfs::{Attr, Backing, Created, DirEntry, Entry, Node, Opened, Result, StatFs};

pub(super) fn empty(reply: ReplyEmpty) -> impl FnOnce(Answer<()>) + Send + 'static {
    move |answer| match answer {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

pub(super) fn entry(reply: ReplyEntry) -> impl FnOnce(Answer<Entry>) + Send + 'static {
    move |answer| match answer {
        Ok(entry) => {
            let (attr, ttl) = convert::entry_attr(&entry);
            reply.entry_with_ttls(&ttl, &entry.entry_ttl, &attr, Generation(entry.generation));
        }
        Err(e) => reply.error(e),
    }
}

pub(super) fn attr(reply: ReplyAttr) -> impl FnOnce(Answer<(Attr, Duration)>) + Send + 'static {
    move |answer| match answer {
        Ok((attr, ttl)) => reply.attr(&ttl, &convert::attr(&attr)),
        Err(e) => reply.error(e),
    }
}

pub(super) fn data(reply: ReplyData, size: u32) -> impl FnOnce(Answer<Vec<u8>>) + Send + 'static {
    move |answer| match answer {
        // More than was asked for would be refused by the kernel.
        Ok(data) => reply.data(data.get(..size as usize).unwrap_or(&data)),
        Err(e) => reply.error(e),
    }
}

pub(super) fn written(reply: ReplyWrite) -> impl FnOnce(Answer<u32>) + Send + 'static {
    move |answer| match answer {
        Ok(count) => reply.written(count),
        Err(e) => reply.error(e),
    }
}

/// For a directory.
pub(super) fn opened_dir(reply: ReplyOpen, answer: Answer<Opened>) {
    match answer {
        Ok(opened) => reply.opened(FileHandle(opened.fh), convert::open_flags(&opened)),
        Err(e) => reply.error(e),
    }
}

pub(super) fn opened(
    reply: ReplyOpen,
    node: Node,
    flags: OpenFlags,
    lending: Arc<Lending>,
) -> impl FnOnce(Answer<(Opened, Option<Backing>)>) + Send + 'static {
    move |answer| match answer {
        Ok((opened, backing)) => {
            let fh = FileHandle(opened.fh);
            let lent = backing.and_then(|b| lending.open(node, &b, |fd| reply.open_backing(fd)));
            match lent {
                Some(id) => reply.opened_passthrough(fh, lent_flags(flags), &id),
                None => reply.opened(fh, file_flags(&opened, flags)),
            }
        }
        Err(e) => reply.error(e),
    }
}

pub(super) fn created(
    reply: ReplyCreate,
    flags: OpenFlags,
    lending: Arc<Lending>,
) -> impl FnOnce(Answer<(Created, Option<Backing>)>) + Send + 'static {
    move |answer| match answer {
        Ok((Created { entry, opened }, backing)) => {
            let (attr, ttl) = convert::entry_attr(&entry);
            // One time for both, the name and the attributes.
            let ttl = ttl.min(entry.entry_ttl);
            let (generation, fh) = (Generation(entry.generation), FileHandle(opened.fh));
            let register = |fd: BorrowedFd<'_>| reply.open_backing(fd);
            match backing.and_then(|b| lending.open(entry.node, &b, register)) {
                Some(id) => {
                    let flags = lent_flags(flags);
                    reply.created_passthrough(&ttl, &attr, generation, fh, flags, &id);
                }
                None => reply.created(&ttl, &attr, generation, fh, file_flags(&opened, flags)),
            }
        }
        Err(e) => reply.error(e),
    }
}

pub(super) fn xattr(reply: ReplyXattr, size: u32, answer: Answer<Vec<u8>>) {
    match answer {
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(e) => reply.error(e),
    }
}

/// Takes entries from cookie `from` on until there are none or the kernel's buffer is full.
pub(super) fn fill(
    reply: &mut ReplyDirectory,
    from: u64,
    mut entries: impl FnMut(i64) -> Result<Vec<DirEntry>>,
) -> Result<()> {
    let mut at = from.cast_signed();
    loop {
        let page = entries(at)?;
        if page.is_empty() {
            return Ok(());
        }
        for e in &page {
            let kind = convert::file_type(e.kind);
            if reply.add(INodeNo(e.ino), e.next.cast_unsigned(), kind, &e.name) {
                return Ok(());
            }
            at = e.next;
        }
    }
}

pub(super) fn statfs(reply: ReplyStatfs) -> impl FnOnce(Answer<StatFs>) + Send + 'static {
    move |answer| match answer {
        Ok(s) => reply
            .statfs(s.blocks, s.bfree, s.bavail, s.files, s.ffree, s.bsize, s.namelen, s.frsize),
        Err(e) => reply.error(e),
    }
}

/// Files are always ready for reading and writing; news are exceptional.
pub(super) fn polled(reply: ReplyPoll) -> impl FnOnce(Answer<bool>) + Send + 'static {
    move |answer| match answer {
        Ok(news) => {
            let mut ready = PollEvents::POLLIN | PollEvents::POLLRDNORM;
            ready |= PollEvents::POLLOUT | PollEvents::POLLWRNORM;
            ready.set(PollEvents::POLLPRI, news);
            reply.poll(ready);
        }
        Err(e) => reply.error(e),
    }
}

/// What goes with a file that the kernel uses itself.
fn lent_flags(flags: OpenFlags) -> FopenFlags {
    let mut out = FopenFlags::empty();
    out.set(FopenFlags::FOPEN_NOFLUSH, is_reader(flags));
    out
}

/// A reader has nothing to flush: its `close` needs no request.
fn file_flags(opened: &Opened, flags: OpenFlags) -> FopenFlags {
    let mut out = convert::open_flags(opened);
    out.set(FopenFlags::FOPEN_NOFLUSH, is_reader(flags));
    out
}
