//! The calls: chosen at random, done in one directory, with what they returned as a text.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Dice;

/// Largest offset and length.
const REACH: usize = 20_000;
/// A time before and one after the present, in seconds, with nanoseconds.
const TIMES: &[(i64, i64)] = &[(1, 2), (1_000_000_000, 123_456_789), (4_000_000_000, 999_999_999)];
const ATTRIBUTES: &[&str] = &["user.a", "user.b", "user.long-name-of-an-attribute"];
const MODES: &[u32] = &[0o644, 0o600, 0o755, 0o400, 0o777, 0o000, 0o2755, 0o4711, 0o1777, 0o6666];

type Name = &'static str;

/// One system call, with everything that is said to the kernel but the directory.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Open { slot: usize, path: Name, flags: i32, mode: u32 },
    Close { slot: usize },
    Read { slot: usize, at: usize, len: usize },
    Write { slot: usize, at: usize, len: usize, byte: u8 },
    Append { slot: usize, len: usize, byte: u8 },
    Map { slot: usize, at: usize, len: usize, byte: u8 },
    Resize { slot: usize, len: usize },
    Truncate { path: Name, len: usize },
    Seek { slot: usize, at: usize, whence: i32 },
    Allocate { slot: usize, mode: i32, at: usize, len: usize },
    Copy { from: usize, to: usize, at: usize, onto: usize, len: usize },
    Sync { slot: usize },
    Stat { path: Name },
    StatOpen { slot: usize },
    List { path: Name },
    MakeDir { path: Name, mode: u32 },
    RemoveDir { path: Name },
    Unlink { path: Name },
    Rename { from: Name, to: Name, flags: u32 },
    Link { from: Name, to: Name },
    Symlink { path: Name, target: Name },
    ReadLink { path: Name },
    Node { path: Name, mode: u32 },
    Mode { path: Name, mode: u32 },
    ModeOpen { slot: usize, mode: u32 },
    Owner { path: Name, uid: u32, gid: u32 },
    Times { path: Name, atime: (i64, i64), mtime: (i64, i64) },
    SetAttribute { path: Name, name: Name, len: usize, flags: i32 },
    GetAttribute { path: Name, name: Name },
    DropAttribute { path: Name, name: Name },
    Access { path: Name, mode: i32 },
}

impl Call {
    pub(super) fn random(dice: &mut Dice, paths: &[Name], slots: usize) -> Call {
        let path = dice.of(paths);
        let (slot, other) = (dice.below(slots), dice.below(slots));
        let (at, len) = (dice.below(REACH), dice.below(REACH / 4));
        let byte = b'a' + dice.below(26) as u8;
        let mode = dice.of(MODES);
        match dice.below(50) {
            0..=9 => {
                let mut flags =
                    dice.of(&[libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_RDWR]);
                let more = [
                    (libc::O_CREAT, 3),
                    (libc::O_EXCL, 8),
                    (libc::O_TRUNC, 5),
                    (libc::O_APPEND, 5),
                    (libc::O_NOFOLLOW, 8),
                    (libc::O_DIRECTORY, 12),
                    (libc::O_SYNC, 30),
                ];
                for (flag, one_in) in more {
                    if dice.below(one_in) == 0 {
                        flags |= flag;
                    }
                }
                // POSIX leaves truncation without writing open.
                if flags & libc::O_ACCMODE == libc::O_RDONLY {
                    flags &= !libc::O_TRUNC;
                }
                // And the combination of these is refused since Linux 6.5 only.
                if flags & libc::O_CREAT != 0 {
                    flags &= !libc::O_DIRECTORY;
                }
                Call::Open { slot, path, flags: flags | libc::O_NONBLOCK, mode }
            }
            10..=11 => Call::Close { slot },
            12..=15 => Call::Read { slot, at, len },
            16..=20 => Call::Write { slot, at, len, byte },
            21 => Call::Append { slot, len, byte },
            22..=23 => Call::Map { slot, at, len: len + 1, byte },
            24 => Call::Resize { slot, len: at },
            25 => Call::Truncate { path, len: at },
            26 => Call::Seek {
                slot,
                at,
                whence: dice.of(&[
                    libc::SEEK_SET,
                    libc::SEEK_END,
                    libc::SEEK_HOLE,
                    libc::SEEK_DATA,
                ]),
            },
            27 => {
                let keep = libc::FALLOC_FL_KEEP_SIZE;
                let modes = [
                    0,
                    keep,
                    libc::FALLOC_FL_PUNCH_HOLE | keep,
                    libc::FALLOC_FL_ZERO_RANGE,
                    libc::FALLOC_FL_ZERO_RANGE | keep,
                ];
                Call::Allocate { slot, mode: dice.of(&modes), at, len }
            }
            28 => Call::Copy { from: slot, to: other, at, onto: dice.below(REACH), len },
            29 => Call::Sync { slot },
            30..=31 => Call::Stat { path },
            32 => Call::StatOpen { slot },
            33 => Call::List { path },
            34..=35 => Call::MakeDir { path, mode: mode | 0o700 },
            36 => Call::RemoveDir { path },
            37..=38 => Call::Unlink { path },
            39..=41 => {
                let flags = [0, 0, 0, libc::RENAME_NOREPLACE, libc::RENAME_EXCHANGE, 3];
                Call::Rename { from: path, to: dice.of(paths), flags: dice.of(&flags) }
            }
            42 => Call::Link { from: path, to: dice.of(paths) },
            43 => match dice.below(3) {
                0 => Call::ReadLink { path },
                _ => Call::Symlink { path, target: dice.of(paths) },
            },
            44 => Call::Node {
                path,
                mode: mode | dice.of(&[libc::S_IFIFO, libc::S_IFSOCK, libc::S_IFREG]),
            },
            // Not setuid and setgid: on a file that the kernel has already been lent, a write
            // by root takes them away (docs/TESTING.md).
            45 => match dice.below(2) {
                0 => Call::Mode { path, mode: (mode | 0o700) & 0o1777 },
                _ => Call::ModeOpen { slot, mode: mode & 0o1777 },
            },
            46 => Call::Owner {
                path,
                uid: dice.of(&[0, 7, u32::MAX]),
                gid: dice.of(&[0, 9, u32::MAX]),
            },
            47 => {
                let special = [(0, libc::UTIME_NOW), (0, libc::UTIME_OMIT)];
                let atime = if dice.below(3) == 0 { dice.of(&special) } else { dice.of(TIMES) };
                let mtime = if dice.below(3) == 0 { special[1] } else { dice.of(TIMES) };
                Call::Times { path, atime, mtime }
            }
            48 => {
                let name = dice.of(ATTRIBUTES);
                match dice.below(4) {
                    0 => Call::GetAttribute { path, name },
                    1 => Call::DropAttribute { path, name },
                    _ => {
                        let flags = dice.of(&[0, libc::XATTR_CREATE, libc::XATTR_REPLACE]);
                        Call::SetAttribute { path, name, len: dice.below(300), flags }
                    }
                }
            }
            _ => Call::Access {
                path,
                mode: dice.of(&[libc::F_OK, libc::R_OK, libc::W_OK, libc::X_OK]),
            },
        }
    }
}

/// A directory in which calls are done, and the files that they opened.
pub(super) struct Place {
    dir: OwnedFd,
    open: Vec<Option<OwnedFd>>,
}

fn c(text: impl AsRef<OsStr>) -> CString {
    CString::new(text.as_ref().as_bytes()).expect("no NUL in a path")
}

/// `0`, the number, or the error, as the kernel said it.
fn result(value: i64) -> Result<i64, io::Error> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

fn told(value: i64) -> String {
    match result(value) {
        Ok(n) => n.to_string(),
        Err(e) => format!("errno {}", e.raw_os_error().unwrap_or(0)),
    }
}

impl Place {
    pub(super) fn new(dir: &Path, slots: usize) -> Place {
        let dir = std::fs::File::open(dir).expect("a directory to work in");
        Place { dir: dir.into(), open: (0..slots).map(|_| None).collect() }
    }

    fn fd(&self, slot: usize) -> RawFd {
        self.open[slot].as_ref().map_or(-1, |fd| fd.as_raw_fd())
    }

    /// Does the call and says what came of it.
    pub(super) fn perform(&mut self, call: &Call) -> String {
        let dir = self.dir.as_raw_fd();
        // SAFETY: every pointer is to a C string, a buffer or a structure that outlives its
        // call; descriptors are ours or -1.
        unsafe {
            match call {
                Call::Open { slot, path, flags, mode } => {
                    // The number of a descriptor says nothing, and one must be free.
                    self.open[*slot] = None;
                    let fd = libc::openat(dir, c(path).as_ptr(), *flags | libc::O_CLOEXEC, *mode);
                    if fd >= 0 {
                        self.open[*slot] = Some(OwnedFd::from_raw_fd(fd));
                    }
                    told(fd.min(0).into())
                }
                Call::Close { slot } => match self.open[*slot].take() {
                    None => "not open".to_owned(),
                    Some(fd) => {
                        let fd = std::os::fd::IntoRawFd::into_raw_fd(fd);
                        told(libc::close(fd).into())
                    }
                },
                Call::Read { slot, at, len } => {
                    let mut buf = vec![0_u8; *len];
                    let n = libc::pread(self.fd(*slot), buf.as_mut_ptr().cast(), *len, *at as i64);
                    buf.truncate(usize::try_from(n).unwrap_or(0));
                    format!("{} {:x}", told(n as i64), sum(&buf))
                }
                Call::Write { slot, at, len, byte } => {
                    let buf = vec![*byte; *len];
                    told(libc::pwrite(self.fd(*slot), buf.as_ptr().cast(), *len, *at as i64) as i64)
                }
                Call::Append { slot, len, byte } => {
                    let buf = vec![*byte; *len];
                    told(libc::write(self.fd(*slot), buf.as_ptr().cast(), *len) as i64)
                }
                Call::Map { slot, at, len, byte } => self.map(*slot, *at, *len, *byte),
                Call::Resize { slot, len } => {
                    told(libc::ftruncate(self.fd(*slot), *len as i64).into())
                }
                Call::Truncate { path, len } => {
                    // There is no truncateat; a descriptor of the directory leads there too.
                    let path = format!("/proc/self/fd/{dir}/{path}");
                    told(libc::truncate(c(path).as_ptr(), *len as i64).into())
                }
                // Where a directory is read on is a cookie; the kernel takes ours for an offset.
                Call::Seek { slot, .. } if self.is_directory(*slot) => "a directory".to_owned(),
                Call::Seek { slot, at, whence } => {
                    told(libc::lseek(self.fd(*slot), *at as i64, *whence))
                }
                Call::Allocate { slot, mode, at, len } => {
                    told(libc::fallocate(self.fd(*slot), *mode, *at as i64, *len as i64).into())
                }
                Call::Copy { from, to, at, onto, len } => {
                    let (mut at, mut onto) = (*at as i64, *onto as i64);
                    let (from, to) = (self.fd(*from), self.fd(*to));
                    told(libc::copy_file_range(from, &mut at, to, &mut onto, *len, 0) as i64)
                }
                Call::Sync { slot } => told(libc::fsync(self.fd(*slot)).into()),
                Call::Stat { path } => {
                    let mut st = std::mem::zeroed();
                    let flags = libc::AT_SYMLINK_NOFOLLOW;
                    let done = libc::fstatat(dir, c(path).as_ptr(), &mut st, flags);
                    shown(done, &st)
                }
                Call::StatOpen { slot } => {
                    let mut st = std::mem::zeroed();
                    let done = libc::fstat(self.fd(*slot), &mut st);
                    shown(done, &st)
                }
                Call::List { path } => {
                    let path = format!("/proc/self/fd/{dir}/{path}");
                    match std::fs::read_dir(path) {
                        Err(e) => format!("errno {}", e.raw_os_error().unwrap_or(0)),
                        Ok(entries) => {
                            let mut names: Vec<_> =
                                entries.flatten().map(|e| e.file_name()).collect();
                            names.sort();
                            format!("{names:?}")
                        }
                    }
                }
                Call::MakeDir { path, mode } => {
                    told(libc::mkdirat(dir, c(path).as_ptr(), *mode).into())
                }
                Call::RemoveDir { path } => {
                    told(libc::unlinkat(dir, c(path).as_ptr(), libc::AT_REMOVEDIR).into())
                }
                Call::Unlink { path } => told(libc::unlinkat(dir, c(path).as_ptr(), 0).into()),
                Call::Rename { from, to, flags } => {
                    let (from, to) = (c(from), c(to));
                    told(libc::renameat2(dir, from.as_ptr(), dir, to.as_ptr(), *flags).into())
                }
                Call::Link { from, to } => {
                    told(libc::linkat(dir, c(from).as_ptr(), dir, c(to).as_ptr(), 0).into())
                }
                Call::Symlink { path, target } => {
                    told(libc::symlinkat(c(target).as_ptr(), dir, c(path).as_ptr()).into())
                }
                Call::ReadLink { path } => {
                    let mut buf = [0_u8; 100];
                    let n = libc::readlinkat(dir, c(path).as_ptr(), buf.as_mut_ptr().cast(), 100);
                    format!("{} {:x}", told(n as i64), sum(&buf))
                }
                Call::Node { path, mode } => {
                    told(libc::mknodat(dir, c(path).as_ptr(), *mode, 0).into())
                }
                Call::Mode { path, mode } => {
                    told(libc::fchmodat(dir, c(path).as_ptr(), *mode, 0).into())
                }
                Call::ModeOpen { slot, mode } => told(libc::fchmod(self.fd(*slot), *mode).into()),
                Call::Owner { path, uid, gid } => {
                    let flags = libc::AT_SYMLINK_NOFOLLOW;
                    told(libc::fchownat(dir, c(path).as_ptr(), *uid, *gid, flags).into())
                }
                Call::Times { path, atime, mtime } => {
                    let time = |t: &(i64, i64)| libc::timespec { tv_sec: t.0, tv_nsec: t.1 };
                    let times = [time(atime), time(mtime)];
                    let done = libc::utimensat(dir, c(path).as_ptr(), times.as_ptr(), 0);
                    let mut st: libc::stat = std::mem::zeroed();
                    if done == 0 && libc::fstatat(dir, c(path).as_ptr(), &mut st, 0) == 0 {
                        // Only what was set is the same in both.
                        let set = |t: &(i64, i64), s, n| TIMES.contains(t).then_some((s, n));
                        let a = set(atime, st.st_atime, st.st_atime_nsec);
                        let m = set(mtime, st.st_mtime, st.st_mtime_nsec);
                        return format!("{a:?} {m:?}");
                    }
                    told(done.into())
                }
                Call::SetAttribute { path, name, len, flags } => {
                    let (path, value) = (self.full(path), vec![b'v'; *len]);
                    let (name, value) = (c(name), value.as_ptr().cast());
                    told(libc::lsetxattr(path.as_ptr(), name.as_ptr(), value, *len, *flags).into())
                }
                Call::GetAttribute { path, name } => {
                    let (path, name, mut buf) = (self.full(path), c(name), [0_u8; 400]);
                    let n =
                        libc::lgetxattr(path.as_ptr(), name.as_ptr(), buf.as_mut_ptr().cast(), 400);
                    format!("{} {:x}", told(n as i64), sum(&buf))
                }
                Call::DropAttribute { path, name } => {
                    told(libc::lremovexattr(self.full(path).as_ptr(), c(name).as_ptr()).into())
                }
                Call::Access { path, mode } => {
                    told(libc::faccessat(dir, c(path).as_ptr(), *mode, 0).into())
                }
            }
        }
    }

    fn is_directory(&self, slot: usize) -> bool {
        // SAFETY: the structure is zeroed and outlives the call.
        unsafe {
            let mut st: libc::stat = std::mem::zeroed();
            let known = libc::fstat(self.fd(slot), &mut st) == 0;
            known && st.st_mode & libc::S_IFMT == libc::S_IFDIR
        }
    }

    fn full(&self, path: &str) -> CString {
        c(format!("/proc/self/fd/{}/{path}", self.dir.as_raw_fd()))
    }

    /// Writes through a shared mapping as far as the file reaches, and reads it back.
    fn map(&self, slot: usize, at: usize, len: usize, byte: u8) -> String {
        let page = at & !4095;
        // SAFETY: the mapping is as long as is said, and only bytes below the end of the file,
        // which nobody else changes, are touched.
        unsafe {
            let fd = self.fd(slot);
            let mut st: libc::stat = std::mem::zeroed();
            if libc::fstat(fd, &mut st) != 0 || st.st_mode & libc::S_IFMT != libc::S_IFREG {
                return "not a file".to_owned();
            }
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let whole = at - page + len;
            let map =
                libc::mmap(std::ptr::null_mut(), whole, rights, libc::MAP_SHARED, fd, page as i64);
            if map == libc::MAP_FAILED {
                return told(-1);
            }
            let end = usize::try_from(st.st_size).unwrap_or(0).min(at + len);
            let bytes = std::slice::from_raw_parts_mut(map.cast::<u8>(), whole);
            let mut before = 0;
            if end > at {
                let there = &mut bytes[at - page..end - page];
                before = sum(there);
                there.fill(byte);
            }
            libc::munmap(map, whole);
            format!("{before:x}")
        }
    }
}

/// What of `stat` has to be the same.
fn shown(done: i32, st: &libc::stat) -> String {
    if done != 0 {
        return told(-1);
    }
    let dir = st.st_mode & libc::S_IFMT == libc::S_IFDIR;
    let size = if dir { 0 } else { st.st_size };
    format!("{:o} {}:{} links {} size {size}", st.st_mode, st.st_uid, st.st_gid, st.st_nlink)
}

/// A number for a text (FNV-1a).
fn sum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Names and sizes of the extended attributes that programs set.
pub(super) fn attributes(path: &Path) -> String {
    let path = c(path.as_os_str());
    ATTRIBUTES.iter().fold(String::new(), |all, name| {
        // SAFETY: both are C strings; a size of 0 asks for the length alone.
        let n =
            unsafe { libc::lgetxattr(path.as_ptr(), c(name).as_ptr(), std::ptr::null_mut(), 0) };
        if n < 0 { all } else { format!("{all} {name}={n}") }
    })
}
