//! Which file systems of ours are mounted, from `/proc/self/mountinfo`. Nothing here touches
//! a mount itself, except [`probe`], which cannot hang its caller.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::io::Errno;

use crate::fuse::FSTYPE;

/// One mounted file system of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OurMount {
    /// The kernel's number of the mount, as in `/proc/PID/fdinfo` (`mnt_id`).
    pub id: u64,
    /// Device number, major and minor.
    pub device: (u32, u32),
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The store (the source of the mount).
    pub store: PathBuf,
}

/// Whether a mount answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Its root can be looked at.
    Alive,
    /// Its daemon is gone (`ENOTCONN`, `ECONNABORTED`).
    Dead,
    /// No answer within the time.
    Silent,
}

/// All mounts of ours, in mount order.
pub fn ours() -> io::Result<Vec<OurMount>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// Our mount with exactly this mount point; the topmost one when there are several.
pub fn at(mountpoint: &Path) -> io::Result<Option<OurMount>> {
    Ok(ours()?.into_iter().rev().find(|m| m.mountpoint == mountpoint))
}

/// Our mount that shows this (absolute) path.
pub fn containing(path: &Path) -> io::Result<Option<OurMount>> {
    Ok(ours()?
        .into_iter()
        .filter(|m| path.starts_with(&m.mountpoint))
        .max_by_key(|m| m.mountpoint.as_os_str().len()))
}

/// Our mounts that show this store.
pub fn of_store(store: &Path) -> io::Result<Vec<OurMount>> {
    Ok(ours()?.into_iter().filter(|m| m.store == store).collect())
}

/// Asks a mount for its `statfs`, which no cache answers, in a thread of its own: a stopped
/// daemon would keep the caller waiting for good.
pub fn probe(mountpoint: &Path, patience: Duration) -> Liveness {
    let (tell, told) = mpsc::channel();
    let path = mountpoint.to_owned();
    let asker = std::thread::Builder::new().name("probe".into()).spawn(move || {
        let _ = tell.send(rustix::fs::statfs(&path).map(drop));
    });
    if asker.is_err() {
        return Liveness::Silent;
    }
    match told.recv_timeout(patience) {
        Ok(Ok(())) => Liveness::Alive,
        Ok(Err(Errno::NOTCONN | Errno::CONNABORTED)) => Liveness::Dead,
        // Somebody else's mount may not be looked at, but it answers.
        Ok(Err(_)) => Liveness::Alive,
        Err(_) => Liveness::Silent,
    }
}

/// The absolute path without symlinks, of a path whose last component may be a dead or silent
/// mount: that component is not touched when `mountinfo` has it.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    if let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name())
        && !absolute.components().any(|c| c == std::path::Component::ParentDir)
    {
        if at(&absolute)?.is_some() {
            return Ok(absolute);
        }
        if let Ok(parent) = parent.canonicalize() {
            let here = parent.join(name);
            if at(&here)?.is_some() {
                return Ok(here);
            }
        }
    }
    absolute.canonicalize()
}

fn parse(mountinfo: &[u8]) -> Vec<OurMount> {
    mountinfo.split(|b| *b == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_line(line: &[u8]) -> Option<OurMount> {
    let mut fields = line.split(|b| *b == b' ');
    let id = text(fields.next()?)?.parse().ok()?;
    let (major, minor) = text(fields.nth(1)?)?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let mountpoint = unescape(fields.nth(1)?);
    let mut fields = fields.skip_while(|f| *f != b"-").skip(1);
    if fields.next()? != FSTYPE.as_bytes() {
        return None;
    }
    let store = unescape(fields.next()?);
    Some(OurMount { id, device, mountpoint, store })
}

fn text(field: &[u8]) -> Option<&str> {
    std::str::from_utf8(field).ok()
}

/// The kernel writes blank, tab, newline, `#` and backslash as `\ooo`.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(text)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_ours_among_others() {
        let info = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            40 22 0:52 / /a\\040b rw,nosuid shared:7 master:2 - fuse.instancefs /s\\134t rw,user_id=0\n\
            41 22 0:53 / /c rw - fuse.sshfs x rw\n\
            broken\n";
        let found = parse(info);
        assert_eq!(
            found,
            [OurMount {
                id: 40,
                device: (0, 52),
                mountpoint: "/a b".into(),
                store: "/s\\t".into()
            }]
        );
    }

    #[test]
    fn a_directory_that_is_no_mount_is_resolved_as_usual() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(resolve(&link).unwrap(), real);
        assert_eq!(resolve(&link.join("../real")).unwrap(), real);
        assert!(resolve(&dir.path().join("none")).is_err());
        assert_eq!(probe(&real, Duration::from_secs(5)), Liveness::Alive);
    }
}
