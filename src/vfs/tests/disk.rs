//! Plain files of one flat directory, as far as the tests of the tree need them.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::Stamp;
use crate::vfs::ports::PlainFiles;
use crate::vfs::*;

pub struct Disk {
    root: PathBuf,
    dir: File,
    nodes: Mutex<HashMap<OsString, Node>>,
    files: Mutex<HashMap<Fh, (File, u64)>>,
    next: AtomicU64,
}

fn os(e: std::io::Error) -> Error {
    match e.raw_os_error() {
        Some(libc::ENOENT) => Error::NotFound,
        Some(libc::EEXIST) => Error::Exists,
        _ => Error::Os(rustix::io::Errno::from_io_error(&e).unwrap()),
    }
}

fn attr(m: &fs::Metadata) -> Attr {
    let stamp = Stamp::from_parts(m.mtime(), m.mtime_nsec() as u32);
    let kind = match m.file_type() {
        t if t.is_dir() => FileType::Directory,
        t if t.is_symlink() => FileType::Symlink,
        _ => FileType::Regular,
    };
    Attr {
        ino: m.ino(),
        size: m.size(),
        blocks: m.blocks(),
        atime: stamp,
        mtime: stamp,
        ctime: stamp,
        kind,
        perm: (m.mode() & 0o7777) as u16,
        nlink: m.nlink() as u32,
        uid: m.uid(),
        gid: m.gid(),
        rdev: 0,
        blksize: 4096,
    }
}

impl Disk {
    pub fn new(root: &Path) -> Disk {
        Disk {
            root: root.to_owned(),
            dir: File::open(root).unwrap(),
            nodes: Mutex::default(),
            files: Mutex::default(),
            next: AtomicU64::new(1 << 16),
        }
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    fn node(&self, name: &OsStr) -> Node {
        *self.nodes.lock().entry(name.to_owned()).or_insert_with(|| self.number())
    }

    fn path_of(&self, node: Node) -> Result<PathBuf> {
        if node == 1 {
            return Ok(self.root.clone());
        }
        let nodes = self.nodes.lock();
        let found = nodes.iter().find(|(_, n)| **n == node);
        found.map(|(name, _)| self.root.join(name)).ok_or(Error::NotFound)
    }

    fn entry(&self, name: &OsStr) -> Result<Entry> {
        let attr = attr(&fs::symlink_metadata(self.root.join(name)).map_err(os)?);
        let ttl = Duration::from_secs(1);
        Ok(Entry { node: self.node(name), generation: 0, attr, attr_ttl: ttl, entry_ttl: ttl })
    }

    fn opened(&self, file: File) -> Result<Opened> {
        let ino = file.metadata().map_err(os)?.ino();
        let fh = self.number();
        self.files.lock().insert(fh, (file, ino));
        Ok(Opened { fh, direct_io: false, keep_cache: false, cache_dir: false })
    }

    fn with<T>(&self, fh: Fh, f: impl FnOnce(&File) -> std::io::Result<T>) -> Result<T> {
        f(&self.files.lock().get(&fh).ok_or(Error::BadHandle)?.0).map_err(os)
    }
}

impl PlainFiles for Disk {
    fn real_file(&self, _: Node, name: &OsStr) -> Result<File> {
        File::open(self.root.join(name)).map_err(os)
    }
    fn node_of(&self, _: Node, name: &OsStr) -> Option<Node> {
        self.nodes.lock().get(name).copied()
    }
    fn attr_of(&self, _: Node, name: &OsStr) -> Result<Attr> {
        Ok(attr(&fs::symlink_metadata(self.root.join(name)).map_err(os)?))
    }
    fn remove(&self, _: Node, name: &OsStr) -> Result<()> {
        self.nodes.lock().remove(name);
        fs::remove_file(self.root.join(name)).map_err(os)
    }
    fn handles_of(&self, ino: u64) -> Vec<Fh> {
        let files = self.files.lock();
        let writes = |f: &File| rustix::fs::fcntl_getfl(f).unwrap().bits() & 3 != 0;
        files.iter().filter(|(_, (f, i))| *i == ino && writes(f)).map(|(fh, _)| *fh).collect()
    }
    fn root_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

#[rustfmt::skip]
impl Layer for Disk {
    fn lookup(&self, _: &Caller, _: Node, name: &OsStr) -> Result<Entry> { self.entry(name) }
    fn forget(&self, _: Node, _: u64) {}
    fn getattr(&self, _: &Caller, node: Node, fh: Option<Fh>) -> Result<(Attr, Duration)> {
        let meta = match fh {
            Some(fh) => self.with(fh, |f| f.metadata())?,
            None => fs::symlink_metadata(self.path_of(node)?).map_err(os)?,
        };
        Ok((attr(&meta), Duration::from_secs(1)))
    }
    fn setattr(&self, who: &Caller, node: Node, set: &SetAttr) -> Result<(Attr, Duration)> {
        if let Some(size) = set.size {
            File::options().write(true).open(self.path_of(node)?).map_err(os)?.set_len(size).map_err(os)?;
        }
        self.getattr(who, node, None)
    }
    fn readlink(&self, _: &Caller, node: Node) -> Result<OsString> {
        Ok(fs::read_link(self.path_of(node)?).map_err(os)?.into_os_string())
    }
    fn mknod(&self, _: &Caller, _: Node, _: &OsStr, _: u32, _: u32, _: u32) -> Result<Entry> { Err(Error::NotSupported) }
    fn mkdir(&self, _: &Caller, _: Node, name: &OsStr, _: u32, _: u32) -> Result<Entry> {
        fs::create_dir(self.root.join(name)).map_err(os)?;
        self.entry(name)
    }
    fn unlink(&self, _: &Caller, parent: Node, name: &OsStr) -> Result<()> { self.remove(parent, name) }
    fn rmdir(&self, _: &Caller, _: Node, name: &OsStr) -> Result<()> { fs::remove_dir(self.root.join(name)).map_err(os) }
    fn symlink(&self, _: &Caller, _: Node, name: &OsStr, target: &OsStr) -> Result<Entry> {
        std::os::unix::fs::symlink(target, self.root.join(name)).map_err(os)?;
        self.entry(name)
    }
    fn rename(&self, _: &Caller, _: Node, name: &OsStr, _: Node, to: &OsStr, how: Renaming) -> Result<()> {
        if how == Renaming::NoReplace && self.root.join(to).exists() {
            return Err(Error::Exists);
        }
        fs::rename(self.root.join(name), self.root.join(to)).map_err(os)?;
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.remove(name) {
            nodes.insert(to.to_owned(), node);
        }
        Ok(())
    }
    fn link(&self, _: &Caller, node: Node, _: Node, name: &OsStr) -> Result<Entry> {
        fs::hard_link(self.path_of(node)?, self.root.join(name)).map_err(os)?;
        self.entry(name)
    }
    fn open(&self, _: &Caller, node: Node, flags: i32) -> Result<Opened> {
        let access = flags & libc::O_ACCMODE;
        let file = File::options()
            .read(access != libc::O_WRONLY)
            .write(access != libc::O_RDONLY)
            .truncate(flags & libc::O_TRUNC != 0)
            .open(self.path_of(node)?).map_err(os)?;
        self.opened(file)
    }
    fn create(&self, _: &Caller, _: Node, name: &OsStr, mode: u32, _: u32, flags: i32) -> Result<Created> {
        let file = File::options().read(true).write(true).mode(mode)
            .create(true).create_new(flags & libc::O_EXCL != 0)
            .open(self.root.join(name)).map_err(os)?;
        Ok(Created { entry: self.entry(name)?, opened: self.opened(file)? })
    }
    fn read(&self, _: &Caller, _: Node, fh: Fh, offset: u64, size: u32) -> Result<Vec<u8>> {
        let mut out = vec![0; size as usize];
        let n = self.with(fh, |f| f.read_at(&mut out, offset))?;
        out.truncate(n);
        Ok(out)
    }
    fn write(&self, _: &Caller, _: Node, fh: Fh, offset: u64, data: &[u8], _: i32) -> Result<u32> {
        self.with(fh, |f| f.write_at(data, offset)).map(|n| n as u32)
    }
    fn flush(&self, _: &Caller, _: Node, _: Fh) -> Result<()> { Ok(()) }
    fn release(&self, _: Node, fh: Fh) -> Result<()> { self.files.lock().remove(&fh); Ok(()) }
    fn fsync(&self, _: &Caller, _: Node, _: Fh, _: bool) -> Result<()> { Ok(()) }
    fn opendir(&self, _: &Caller, _: Node, _: i32) -> Result<Opened> {
        Ok(Opened { fh: self.number(), direct_io: false, keep_cache: false, cache_dir: false })
    }
    fn readdir(&self, _: &Caller, _: Node, _: Fh, offset: i64) -> Result<Vec<DirEntry>> {
        let mut names: Vec<OsString> = fs::read_dir(&self.root).map_err(os)?.map(|e| e.unwrap().file_name()).collect();
        names.sort();
        let all = [".", ".."].map(OsString::from).into_iter().chain(names).enumerate();
        Ok(all.skip(offset as usize).take(3).map(|(i, name)| {
            let kind = if self.root.join(&name).is_dir() { FileType::Directory } else { FileType::Regular };
            DirEntry { ino: 1, kind, name, next: i as i64 + 1 }
        }).collect())
    }
    fn releasedir(&self, _: Node, _: Fh) {}
    fn fsyncdir(&self, _: &Caller, _: Node, _: Fh, _: bool) -> Result<()> { Ok(()) }
    fn statfs(&self, _: &Caller, _: Node) -> Result<StatFs> { Err(Error::NotSupported) }
    fn setxattr(&self, _: &Caller, _: Node, _: &OsStr, _: &[u8], _: XattrFlags) -> Result<()> { Err(Error::NotSupported) }
    fn getxattr(&self, _: &Caller, _: Node, _: &OsStr) -> Result<Vec<u8>> { Err(Error::NotSupported) }
    fn listxattr(&self, _: &Caller, _: Node) -> Result<Vec<u8>> { Err(Error::NotSupported) }
    fn removexattr(&self, _: &Caller, _: Node, _: &OsStr) -> Result<()> { Err(Error::NotSupported) }
    fn fallocate(&self, _: &Caller, _: Node, _: Fh, _: u64, _: u64, _: i32) -> Result<()> { Err(Error::NotSupported) }
    fn lseek(&self, _: &Caller, _: Node, _: Fh, _: i64, _: i32) -> Result<i64> { Err(Error::NotSupported) }
    fn copy_file_range(&self, _: &Caller, _: Node, _: Fh, _: u64, _: Node, _: Fh, _: u64, _: u64) -> Result<u32> { Err(Error::NotSupported) }
}
