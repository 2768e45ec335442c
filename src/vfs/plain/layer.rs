//! The operations.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::fs::{AtFlags, FallocateFlags, OFlags, RenameFlags, SeekFrom, Statx};
use rustix::io::{Errno, ReadWriteFlags};

use super::creds::{AsCaller, KillingPrivileges, with_umask};
use super::handles::{DirHandle, FileHandle};
use super::nodes::{Inode, ROOT};
use super::{Plain, attr, beneath, dirs, xattr};
use crate::model::{Clock, Stamp, SystemClock};
use crate::vfs::layer::Result;
use crate::vfs::{
    Attr, Backing, Caller, Created, DirEntry, Entry, Error, Fh, FileType, Layer, Node, Opened,
    Renaming, SetAttr, StatFs, XattrFlags,
};

/// How long the kernel may believe an answer: changes behind our back show within a second.
pub(super) const TTL: Duration = Duration::from_millis(900);

/// A change this close to its predecessor may carry the same time stamp (the clock of a file
/// system ticks every 1 to 10 ms), so younger content is not trusted to be the cached one.
const TICK: i64 = 50_000_000;

/// What of `open`'s flags concerns the store. Not `O_APPEND`: every write says whether it
/// appends, and a page written back through an appending handle must not. Not `O_DIRECT`: our
/// buffers are not aligned.
const PASSED_ON: i32 =
    libc::O_ACCMODE | libc::O_TRUNC | libc::O_SYNC | libc::O_DSYNC | libc::O_NOATIME;

impl Plain {
    fn entry(&self, parent: Node, inode: &Inode, st: &Statx) -> Entry {
        Entry {
            node: inode.node,
            generation: inode.generation,
            attr: attr::of(st),
            attr_ttl: self.attr_ttl(st),
            // Documents come and go in the root without the kernel's doing; a directory's name
            // is never a document's.
            entry_ttl: if parent == ROOT && inode.kind != FileType::Directory {
                Duration::ZERO
            } else {
                self.ttl()
            },
        }
    }

    fn ttl(&self) -> Duration {
        if self.strict { Duration::ZERO } else { TTL }
    }

    /// How long the kernel may believe the attributes. A write takes setuid and setgid bits
    /// away, and the kernel forgets only size and times then: it asks for such a mode each time.
    fn attr_ttl(&self, st: &Statx) -> Duration {
        if attr::has_set_ids(st) { Duration::ZERO } else { self.ttl() }
    }

    /// Runs `make`, which makes `name` in `parent` with `mode` as the caller, and looks it up.
    fn making(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        make: impl FnOnce(&OwnedFd, &OsStr) -> std::result::Result<(), Errno>,
    ) -> Result<Entry> {
        let name = beneath::component(name)?;
        let (dir, fd) = self.dir(parent)?;
        {
            let _caller = AsCaller::making(self.privileged, who, mode);
            make(&fd, name)?;
        }
        let (inode, st) = self.nodes.look_up(&dir, name)?;
        Ok(self.entry(parent, &inode, &st))
    }

    /// Takes an opened file in. The kernel's pages stay valid if the content is the one that
    /// they were read from.
    fn opened(&self, inode: Arc<Inode>, file: File, flags: i32, fresh: bool) -> Result<Opened> {
        let truncated = fresh || flags & libc::O_TRUNC != 0;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let st = beneath::stat_fd(&file)?;
        let now = (attr::mtime(&st), attr::ctime(&st), st.stx_size);
        let settled = attr::ctime(&st) < Stamp(SystemClock.now().0 - TICK);
        let known = settled && !truncated;
        let before = std::mem::replace(&mut *inode.cached.lock(), known.then_some(now));
        // Bits that a write takes away only from some callers need our looking at each write.
        let lendable = !attr::has_set_ids(&st);
        let (lent, _room) = (AtomicBool::new(false), inode.room()?);
        let fh = self.handles.add_file(FileHandle { file, writes, lendable, lent, inode, _room });
        let keep_cache = known && !self.strict && before == Some(now);
        Ok(Opened { fh, direct_io: self.strict, keep_cache, cache_dir: false })
    }

    fn told(&self, st: &Statx) -> (Attr, Duration) {
        (attr::of(st), self.attr_ttl(st))
    }

    fn fresh(&self, inode: &Arc<Inode>) -> Result<(Attr, Duration)> {
        Ok(self.told(&beneath::stat_fd(&*inode.fd()?)?))
    }
}

impl Layer for Plain {
    fn lookup(&self, _who: &Caller, parent: Node, name: &OsStr) -> Result<Entry> {
        let dir = self.nodes.get(parent)?;
        let (inode, st) = self.nodes.look_up(&dir, name)?;
        Ok(self.entry(parent, &inode, &st))
    }

    fn forget(&self, node: Node, count: u64) {
        self.nodes.forget(node, count);
    }

    fn getattr(&self, _who: &Caller, node: Node, fh: Option<Fh>) -> Result<(Attr, Duration)> {
        if let Some(handle) = fh.and_then(|fh| self.handles.file(fh).ok()) {
            return Ok(self.told(&beneath::stat_fd(&handle.file)?));
        }
        self.fresh(&self.nodes.get(node)?)
    }

    fn setattr(&self, who: &Caller, node: Node, set: &SetAttr) -> Result<(Attr, Duration)> {
        let inode = self.nodes.get(node)?;
        let handle = set.fh.and_then(|fh| self.handles.file(fh).ok());
        attr::change(&inode, handle.as_ref().map(|h| &h.file), set, self.privileged, who)?;
        inode.direct.by_us(&*inode.fd()?);
        self.fresh(&inode)
    }

    fn readlink(&self, _who: &Caller, node: Node) -> Result<OsString> {
        let fd = self.nodes.get(node)?.fd()?;
        // An empty path means the O_PATH descriptor's own symlink.
        let target = rustix::fs::readlinkat(&*fd, c"", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    fn mknod(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
    ) -> Result<Entry> {
        let kind = rustix::fs::FileType::from_raw_mode(mode);
        let dev = attr::dev_of(rdev);
        self.making(who, parent, name, mode, |dir, name| {
            with_umask(mode, umask, |mode| rustix::fs::mknodat(dir, name, kind, mode, dev))
        })
    }

    fn mkdir(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        umask: u32,
    ) -> Result<Entry> {
        self.making(who, parent, name, mode, |dir, name| {
            with_umask(mode, umask, |mode| rustix::fs::mkdirat(dir, name, mode))
        })
    }

    fn unlink(&self, _who: &Caller, parent: Node, name: &OsStr) -> Result<()> {
        self.remove(parent, name)
    }

    fn rmdir(&self, _who: &Caller, parent: Node, name: &OsStr) -> Result<()> {
        let name = beneath::component(name)?;
        let (_, dir) = self.dir(parent)?;
        let rmdir = || rustix::fs::unlinkat(&*dir, name, AtFlags::REMOVEDIR);
        Ok(self.nodes.removing(&dir, name, rmdir)?)
    }

    fn symlink(&self, who: &Caller, parent: Node, name: &OsStr, target: &OsStr) -> Result<Entry> {
        self.making(who, parent, name, 0, |dir, name| rustix::fs::symlinkat(target, dir, name))
    }

    fn rename(
        &self,
        _who: &Caller,
        parent: Node,
        name: &OsStr,
        new_parent: Node,
        new_name: &OsStr,
        how: Renaming,
    ) -> Result<()> {
        let (name, new_name) = (beneath::component(name)?, beneath::component(new_name)?);
        let flags = match how {
            Renaming::Replace => RenameFlags::empty(),
            Renaming::NoReplace => RenameFlags::NOREPLACE,
            Renaming::Exchange => RenameFlags::EXCHANGE,
            Renaming::Other(bits) => RenameFlags::from_bits_retain(bits),
        };
        let (from, to) = (self.nodes.get(parent)?, self.nodes.get(new_parent)?);
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        Ok(self.nodes.moving((&from, name), (&to, new_name), exchange, |from, to| {
            if flags.is_empty() {
                rustix::fs::renameat(from, name, to, new_name)
            } else {
                rustix::fs::renameat_with(from, name, to, new_name, flags)
            }
        })?)
    }

    fn link(&self, _who: &Caller, node: Node, new_parent: Node, new_name: &OsStr) -> Result<Entry> {
        let new_name = beneath::component(new_name)?;
        let file = self.nodes.get(node)?.fd()?;
        let (dir, dir_fd) = self.dir(new_parent)?;
        let path = beneath::proc_path(&*file);
        let follow = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(rustix::fs::CWD, path, &*dir_fd, new_name, follow)?;
        let (inode, st) = self.nodes.look_up(&dir, new_name)?;
        Ok(self.entry(new_parent, &inode, &st))
    }

    fn open(&self, who: &Caller, node: Node, flags: i32) -> Result<Opened> {
        let inode = self.nodes.get(node)?;
        match inode.kind {
            FileType::Regular => {}
            FileType::Directory => return Err(Error::IsDirectory),
            FileType::Symlink => return Err(Error::Os(Errno::LOOP)),
            // The kernel opens these itself.
            FileType::Fifo | FileType::Socket | FileType::CharDevice | FileType::BlockDevice => {
                return Err(Error::Os(Errno::NXIO));
            }
        }
        let truncate = flags & libc::O_TRUNC != 0;
        let passed = OFlags::from_bits_retain((flags & PASSED_ON) as u32);
        let path = inode.fd()?;
        let fd = {
            let mode = || beneath::stat_fd(&*path).map_or(u32::MAX, |st| st.stx_mode.into());
            let _kill = truncate.then(|| KillingPrivileges::of_mode(self.privileged, who, mode));
            beneath::reopen(&*path, passed)?
        };
        self.opened(inode, File::from(fd), flags, false)
    }

    fn create(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
    ) -> Result<Created> {
        let name = beneath::component(name)?;
        let (dir, dir_fd) = self.dir(parent)?;
        // Else the file would be there and could not be opened.
        drop(dir.room()?);
        let passed = (flags & (PASSED_ON | libc::O_EXCL) | libc::O_CREAT) as u32;
        // Not blocking: the name may be a FIFO by now.
        let passed = OFlags::from_bits_retain(passed) | OFlags::NONBLOCK;
        let file = {
            let _caller = AsCaller::making(self.privileged, who, mode);
            with_umask(mode, umask, |mode| beneath::open_child(&*dir_fd, name, passed, mode))?
        };
        let st = beneath::stat_fd(&file)?;
        if attr::kind(u32::from(st.stx_mode)) != FileType::Regular {
            return Err(Error::Exists);
        }
        let path = beneath::reopen(&file, OFlags::PATH)?;
        let inode = self.nodes.enter(&st, path, &dir, name);
        let entry = self.entry(parent, &inode, &st);
        match self.opened(Arc::clone(&inode), File::from(file), flags, true) {
            Ok(opened) => Ok(Created { entry, opened }),
            Err(e) => {
                self.nodes.forget(inode.node, 1);
                Err(e)
            }
        }
    }

    fn read(&self, _who: &Caller, _node: Node, fh: Fh, offset: u64, size: u32) -> Result<Vec<u8>> {
        let handle = self.handles.file(fh)?;
        let mut out = Vec::with_capacity(size as usize);
        // A short answer means end of file to the kernel, so a short read is not enough.
        while out.len() < out.capacity() {
            let at = offset + out.len() as u64;
            let spare = rustix::buffer::spare_capacity(&mut out);
            match rustix::io::pread(&handle.file, spare, at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) if !out.is_empty() => break,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(out)
    }

    fn write(
        &self,
        who: &Caller,
        _node: Node,
        fh: Fh,
        offset: u64,
        data: &[u8],
        flags: i32,
    ) -> Result<u32> {
        let handle = self.handles.file(fh)?;
        let _kill = KillingPrivileges::enter(self.privileged, who, &handle.file);
        // The kernel's offset for an append is the size that it believes; the store's is true.
        let append = flags & libc::O_APPEND != 0;
        let how = if append { ReadWriteFlags::APPEND } else { ReadWriteFlags::empty() };
        let mut done = 0;
        while done < data.len() {
            let rest = IoSlice::new(&data[done..]);
            match rustix::io::pwritev2(&handle.file, &[rest], offset + done as u64, how) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(_) if done > 0 => break,
                Err(e) => return Err(e.into()),
            }
        }
        handle.inode.direct.by_us(&handle.file);
        Ok(u32::try_from(done).unwrap_or(u32::MAX))
    }

    fn backing(&self, _who: &Caller, _node: Node, fh: Fh, _flags: i32) -> Option<Backing> {
        let handle = self.handles.file(fh).ok()?;
        handle.lend();
        Some(Backing { wanted: handle.lendable, file: handle })
    }

    fn flush(&self, _who: &Caller, _node: Node, _fh: Fh) -> Result<()> {
        // Everything written is in the store already.
        Ok(())
    }

    fn release(&self, _node: Node, fh: Fh) -> Result<()> {
        self.handles.close_file(fh);
        Ok(())
    }

    fn fsync(&self, _who: &Caller, _node: Node, fh: Fh, data_only: bool) -> Result<()> {
        sync(&self.handles.file(fh)?.file, data_only)
    }

    fn opendir(&self, _who: &Caller, node: Node, _flags: i32) -> Result<Opened> {
        let inode = self.nodes.get(node)?;
        if inode.kind != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        let _room = inode.room()?;
        let file = File::from(beneath::reopen(&*inode.fd()?, OFlags::DIRECTORY)?);
        let names = parking_lot::Mutex::default();
        let fh = self.handles.add_dir(DirHandle { inode, file, names, _room });
        Ok(Opened { fh, direct_io: false, keep_cache: false, cache_dir: false })
    }

    fn readdir(&self, _who: &Caller, _node: Node, fh: Fh, offset: i64) -> Result<Vec<DirEntry>> {
        Ok(dirs::read(&*self.handles.dir(fh)?, offset)?)
    }

    fn releasedir(&self, _node: Node, fh: Fh) {
        self.handles.close_dir(fh);
    }

    fn fsyncdir(&self, _who: &Caller, _node: Node, fh: Fh, data_only: bool) -> Result<()> {
        sync(&self.handles.dir(fh)?.file, data_only)
    }

    fn statfs(&self, _who: &Caller, node: Node) -> Result<StatFs> {
        let s = rustix::fs::fstatvfs(&*self.nodes.get(node)?.fd()?)?;
        Ok(StatFs {
            blocks: s.f_blocks,
            bfree: s.f_bfree,
            bavail: s.f_bavail,
            files: s.f_files,
            ffree: s.f_ffree,
            bsize: u32::try_from(s.f_bsize).unwrap_or(4096),
            namelen: u32::try_from(s.f_namemax).unwrap_or(255),
            frsize: u32::try_from(s.f_frsize).unwrap_or(4096),
        })
    }

    fn setxattr(
        &self,
        who: &Caller,
        node: Node,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        // Setting an ACL is like chmod: a setgid bit stays only if the caller is in the group.
        let acl = xattr::is_acl(name);
        let _caller = acl.then(|| AsCaller::in_groups(self.privileged, who));
        Ok(xattr::set(&*self.nodes.get(node)?.fd()?, name, value, flags)?)
    }

    fn getxattr(&self, _who: &Caller, node: Node, name: &OsStr) -> Result<Vec<u8>> {
        match xattr::get(&*self.nodes.get(node)?.fd()?, name) {
            // The kernel asks for the ACL when it checks a permission, and then any other error
            // than "there is none" would be what the caller gets.
            Err(Errno::OPNOTSUPP) if xattr::is_acl(name) => Err(Error::NoAttribute),
            done => Ok(done?),
        }
    }

    fn listxattr(&self, _who: &Caller, node: Node) -> Result<Vec<u8>> {
        Ok(xattr::list(&*self.nodes.get(node)?.fd()?)?)
    }

    fn removexattr(&self, _who: &Caller, node: Node, name: &OsStr) -> Result<()> {
        Ok(xattr::remove(&*self.nodes.get(node)?.fd()?, name)?)
    }

    fn fallocate(
        &self,
        who: &Caller,
        _node: Node,
        fh: Fh,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<()> {
        let handle = self.handles.file(fh)?;
        let _kill = KillingPrivileges::enter(self.privileged, who, &handle.file);
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let done = rustix::fs::fallocate(&handle.file, mode, offset, length);
        handle.inode.direct.by_us(&handle.file);
        Ok(done?)
    }

    fn lseek(&self, _who: &Caller, _node: Node, fh: Fh, offset: i64, whence: i32) -> Result<i64> {
        let handle = self.handles.file(fh)?;
        let start = u64::try_from(offset).map_err(|_| Error::Os(Errno::NXIO))?;
        let to = match whence {
            libc::SEEK_DATA => SeekFrom::Data(start),
            libc::SEEK_HOLE => SeekFrom::Hole(start),
            // The kernel does the others itself.
            _ => return Err(Error::Invalid),
        };
        let at = rustix::fs::seek(&handle.file, to)?;
        i64::try_from(at).map_err(|_| Error::Os(Errno::OVERFLOW))
    }

    fn copy_file_range(
        &self,
        who: &Caller,
        _node_in: Node,
        fh_in: Fh,
        mut offset_in: u64,
        _node_out: Node,
        fh_out: Fh,
        mut offset_out: u64,
        length: u64,
    ) -> Result<u32> {
        let (from, to) = (self.handles.file(fh_in)?, self.handles.file(fh_out)?);
        let _kill = KillingPrivileges::enter(self.privileged, who, &to.file);
        // The answer has 32 bits.
        let length = usize::try_from(length.min(1 << 30)).unwrap_or(1 << 30);
        let n = rustix::fs::copy_file_range(
            &from.file,
            Some(&mut offset_in),
            &to.file,
            Some(&mut offset_out),
            length,
        )?;
        to.inode.direct.by_us(&to.file);
        Ok(u32::try_from(n).unwrap_or(u32::MAX))
    }
}

fn sync(file: &File, data_only: bool) -> Result<()> {
    let done = if data_only { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) };
    Ok(done?)
}
