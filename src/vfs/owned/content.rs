//! What a marker or a lock file says about whose it is.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use super::FileId;
use crate::model::Stamp;

/// Longer files are no lock files.
const LONGEST: u64 = 16 << 10;

/// Whose a file is, by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// It says nothing.
    Empty,
    /// A decimal pid, or a JSON object with `pid`.
    Pid(u32),
    /// Anything else: an ordinary file.
    Other,
}

impl Content {
    /// What a text says.
    pub fn of(text: &[u8]) -> Content {
        let text = text.trim_ascii();
        if text.is_empty() {
            return Content::Empty;
        }
        let pid = if text.iter().all(u8::is_ascii_digit) {
            std::str::from_utf8(text).ok().and_then(|t| t.parse::<i32>().ok())
        } else {
            serde_json::from_slice::<serde_json::Value>(text)
                .ok()
                .and_then(|value| i32::try_from(value.as_object()?.get("pid")?.as_i64()?).ok())
        };
        match pid.and_then(|pid| u32::try_from(pid).ok()) {
            Some(pid) if pid > 0 => Content::Pid(pid),
            _ => Content::Other,
        }
    }
}

/// A regular file of the store as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Which file.
    pub id: FileId,
    /// Its modification time.
    pub mtime: Stamp,
    /// What it says.
    pub content: Content,
}

/// Opens a path below the store's directory, never through a symlink; without leaving an access
/// time where that is ours to say.
fn open(store: BorrowedFd<'_>, path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open_with(store, path, flags | OFlags::NOATIME) {
        Err(Errno::PERM) => open_with(store, path, flags),
        other => other,
    }
}

fn open_with(store: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<File, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(store, path, flags, Mode::empty(), resolve) {
        // A container's filter may not know openat2.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(store, path, flags, Mode::empty()),
        other => other,
    }
    .map(File::from)
}

/// Looks at a file of the store; `None` when there is no regular file.
pub fn look(store: BorrowedFd<'_>, path: &Path) -> Option<Found> {
    let file = open(store, path).ok()?;
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let st = rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, mask).ok()?;
    if rustix::fs::FileType::from_raw_mode(st.stx_mode.into()) != rustix::fs::FileType::RegularFile
    {
        return None;
    }
    let born = Stamp::from_parts(st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
    let mut text = Vec::new();
    let content = match file.take(LONGEST + 1).read_to_end(&mut text) {
        Ok(length) if length as u64 <= LONGEST => Content::of(&text),
        Ok(_) | Err(_) => Content::Other,
    };
    Some(Found {
        id: FileId { ino: st.stx_ino, born },
        mtime: Stamp::from_parts(st.stx_mtime.tv_sec, st.stx_mtime.tv_nsec),
        content,
    })
}

/// Removes a file of the store if it is still this one.
///
/// # Errors
/// Those of `unlink`.
pub fn remove(store: BorrowedFd<'_>, path: &Path, id: FileId) -> Result<(), Errno> {
    match look(store, path) {
        Some(found) if found.id == id => rustix::fs::unlinkat(store, path, AtFlags::empty()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_and_json_with_a_pid_name_a_process() {
        for (text, content) in [
            ("", Content::Empty),
            (" \n", Content::Empty),
            ("123", Content::Pid(123)),
            ("123\n", Content::Pid(123)),
            ("{\"pid\": 7, \"since\": \"x\"}\n", Content::Pid(7)),
            ("0", Content::Other),
            ("-1", Content::Other),
            ("12 34", Content::Other),
            ("99999999999", Content::Other),
            ("{\"pid\": \"7\"}", Content::Other),
            ("{\"pid\": -7}", Content::Other),
            ("[7]", Content::Other),
            ("version = 1\n", Content::Other),
            ("\u{0}", Content::Other),
        ] {
            assert_eq!(Content::of(text.as_bytes()), content, "{text:?}");
        }
    }

    #[test]
    fn symlinks_and_directories_are_no_lock_files() {
        use std::os::fd::AsFd;
        let dir = tempfile::tempdir().unwrap();
        let store = File::open(dir.path()).unwrap();
        std::fs::write(dir.path().join("a"), "5").unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("b")).unwrap();
        std::fs::create_dir(dir.path().join("c")).unwrap();
        let look = |name: &str| look(store.as_fd(), Path::new(name));
        assert_eq!(look("a").unwrap().content, Content::Pid(5));
        assert_eq!((look("b"), look("c"), look("d"), look("../x")), (None, None, None, None));
        let other = FileId { ino: 1, born: Stamp(1) };
        remove(store.as_fd(), Path::new("a"), other).unwrap();
        let id = look("a").unwrap().id;
        remove(store.as_fd(), Path::new("a"), id).unwrap();
        assert_eq!(look("a"), None);
    }
}
