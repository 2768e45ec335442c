//! Copies a directory tree with everything that a file system keeps of it: modes, owners,
//! times, symlinks, hard links, extended attributes, holes, special files.
//!
//! A copy can be repeated: what an interrupted one left is replaced. It reads and never
//! changes the source, and does not follow symlinks.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::{DirBuilder, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, SeekFrom, Timespec, Timestamps, XattrFlags};

use super::error::{DaemonError, Result, io};

/// What was copied.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Regular files, each counted once however many names it has.
    pub files: u64,
    /// Directories below the root.
    pub directories: u64,
    /// Symlinks.
    pub symlinks: u64,
    /// Bytes of content, holes included.
    pub bytes: u64,
    /// What could not be copied as it is, one line each.
    pub warnings: Vec<String>,
}

/// What to do with an entry of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Copy it (a directory with all below).
    Take,
    /// Leave it out.
    Leave,
}

/// Copies what is in directory `from` into the existing directory `to`. `choose` is asked for
/// each entry with its path relative to `from`. The two must not lie in each other.
pub fn tree(from: &Path, to: &Path, choose: &dyn Fn(&Path, &Metadata) -> Choice) -> Result<Copied> {
    let from = from.canonicalize().map_err(io(from, "cannot read"))?;
    let to = to.canonicalize().map_err(io(to, "cannot read"))?;
    if from.starts_with(&to) || to.starts_with(&from) {
        return Err(DaemonError::InTheWay {
            path: to,
            reason: format!("it and {} must not lie in each other", from.display()),
        });
    }
    let mut copy = Copy { choose, linked: HashMap::new(), done: Copied::default() };
    copy.directory(&from, &to, Path::new(""))?;
    Ok(copy.done)
}

/// Copies one regular file with all that belongs to it; an existing target is replaced.
pub fn file(from: &Path, to: &Path) -> Result<u64> {
    let meta = from.symlink_metadata().map_err(io(from, "cannot read"))?;
    let mut copy =
        Copy { choose: &|_, _| Choice::Take, linked: HashMap::new(), done: Copied::default() };
    copy.regular(from, to, &meta)?;
    Ok(meta.len())
}

struct Copy<'a> {
    choose: &'a dyn Fn(&Path, &Metadata) -> Choice,
    /// First copied name of each source file with several names.
    linked: HashMap<(u64, u64), PathBuf>,
    done: Copied,
}

impl Copy<'_> {
    fn directory(&mut self, from: &Path, to: &Path, below: &Path) -> Result<()> {
        let mut names: Vec<_> = std::fs::read_dir(from)
            .and_then(|entries| entries.map(|e| e.map(|e| e.file_name())).collect())
            .map_err(io(from, "cannot read"))?;
        names.sort();
        for name in names {
            let (source, target, path) = (from.join(&name), to.join(&name), below.join(&name));
            let meta = source.symlink_metadata().map_err(io(&source, "cannot read"))?;
            if (self.choose)(&path, &meta) == Choice::Take {
                self.entry(&source, &target, &path, &meta)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, from: &Path, to: &Path, below: &Path, meta: &Metadata) -> Result<()> {
        let kind = meta.file_type();
        if kind.is_dir() {
            match DirBuilder::new().mode(0o700).create(to) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && to.is_dir() => {}
                made => made.map_err(io(to, "cannot create"))?,
            }
            self.directory(from, to, below)?;
            self.attributes(from, to, meta)?;
            self.done.directories += 1;
            return Ok(());
        }
        remove(to)?;
        if meta.nlink() > 1 {
            if let Some(first) = self.linked.get(&(meta.dev(), meta.ino())) {
                return std::fs::hard_link(first, to).map_err(io(to, "cannot link"));
            }
            self.linked.insert((meta.dev(), meta.ino()), to.to_owned());
        }
        if kind.is_file() {
            self.regular(from, to, meta)?;
            self.done.files += 1;
            self.done.bytes += meta.len();
        } else if kind.is_symlink() {
            let target = std::fs::read_link(from).map_err(io(from, "cannot read"))?;
            std::os::unix::fs::symlink(target, to).map_err(io(to, "cannot create"))?;
            self.attributes(from, to, meta)?;
            self.done.symlinks += 1;
        } else if kind.is_socket() {
            self.warn(from, "a socket belongs to its program and was left out");
        } else {
            let kind = rustix::fs::FileType::from_raw_mode(meta.mode());
            let mode = rustix::fs::Mode::from_raw_mode(meta.mode() & 0o777);
            match rustix::fs::mknodat(CWD, to, kind, mode, meta.rdev()) {
                Ok(()) => self.attributes(from, to, meta)?,
                Err(e) => self.warn(from, &format!("left out, cannot be made: {e}")),
            }
        }
        Ok(())
    }

    fn regular(&mut self, from: &Path, to: &Path, meta: &Metadata) -> Result<()> {
        remove(to)?;
        let source = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(from)
            .map_err(io(from, "cannot read"))?;
        let target = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(to)
            .map_err(io(to, "cannot create"))?;
        content(&source, &target).map_err(io(to, "cannot copy to"))?;
        drop(target);
        self.attributes(from, to, meta)
    }

    /// Owner, mode, extended attributes and, last, times.
    fn attributes(&mut self, from: &Path, to: &Path, meta: &Metadata) -> Result<()> {
        let symlink = meta.file_type().is_symlink();
        let now = to.symlink_metadata().map_err(io(to, "cannot read"))?;
        if (now.uid(), now.gid()) != (meta.uid(), meta.gid())
            && let Err(e) = std::os::unix::fs::lchown(to, Some(meta.uid()), Some(meta.gid()))
            && rustix::process::geteuid().is_root()
        {
            self.warn(to, &format!("the owner could not be kept: {e}"));
        }
        if !symlink {
            let mode = rustix::fs::Mode::from_raw_mode(meta.mode() & 0o7777);
            rustix::fs::chmod(to, mode).map_err(io(to, "cannot set the mode of"))?;
        }
        for name in xattr_names(from) {
            if let Err(e) = copy_xattr(from, to, &name) {
                let name = name.to_string_lossy();
                // Labels of the security module are set by itself.
                if !name.starts_with("security.") {
                    self.warn(to, &format!("extended attribute {name} could not be kept: {e}"));
                }
            }
        }
        let times = Timestamps {
            last_access: Timespec { tv_sec: meta.atime(), tv_nsec: meta.atime_nsec() as _ },
            last_modification: Timespec { tv_sec: meta.mtime(), tv_nsec: meta.mtime_nsec() as _ },
        };
        rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(io(to, "cannot set the times of"))
    }

    fn warn(&mut self, path: &Path, message: &str) {
        self.done.warnings.push(format!("{}: {message}", path.display()));
    }
}

/// Removes what an earlier, interrupted copy left under this name. A directory is an error.
fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(io(path, "cannot replace")),
    }
}

/// Copies the data and leaves holes where the source has holes.
fn content(from: &File, to: &File) -> std::io::Result<()> {
    let size = from.metadata()?.len();
    to.set_len(size)?;
    let mut at = 0u64;
    while at < size {
        let data = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            // A file system that knows no holes.
            Err(rustix::io::Errno::INVAL) => at,
            Err(e) => return Err(e.into()),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(data)).unwrap_or(size).min(size);
        if end <= data {
            break;
        }
        copy_range(from, to, data, end)?;
        at = end;
    }
    Ok(())
}

fn copy_range(from: &File, to: &File, start: u64, end: u64) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut at = start;
    let mut buffer = vec![0u8; 1 << 18];
    while at < end {
        let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        let got = from.read_at(&mut buffer[..want], at)?;
        if got == 0 {
            break;
        }
        to.write_all_at(&buffer[..got], at)?;
        at += got as u64;
    }
    Ok(())
}

/// Names of extended attributes; none where they cannot be read.
fn xattr_names(path: &Path) -> Vec<CString> {
    let mut buffer = vec![0u8; 1 << 16];
    let Ok(n) = rustix::fs::llistxattr(path, &mut buffer[..]) else { return Vec::new() };
    buffer[..n]
        .split(|b| *b == 0)
        .filter(|n| !n.is_empty())
        .filter_map(|n| CString::new(n).ok())
        .collect()
}

fn copy_xattr(from: &Path, to: &Path, name: &CString) -> rustix::io::Result<()> {
    let mut value = vec![0u8; 1 << 16];
    let n = rustix::fs::lgetxattr(from, name, &mut value[..])?;
    rustix::fs::lsetxattr(to, name, &value[..n], XattrFlags::empty())
}

/// Whether the file begins like an SQLite database.
pub fn is_database(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0u8; 16];
    File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .and_then(|mut f| f.read_exact(&mut magic))
        .is_ok_and(|()| &magic == b"SQLite format 3\0")
}

/// The database that a file accompanies: `x.db` for `x.db-wal`, `-shm` and `-journal`.
pub fn companion_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.as_bytes();
    let base = [b"-wal".as_slice(), b"-shm", b"-journal"]
        .iter()
        .find_map(|ending| name.strip_suffix(*ending))?;
    Some(path.with_file_name(OsStr::from_bytes(base)))
}

#[cfg(test)]
mod tests;
