//! Which file systems of ours are mounted, from `/proc/self/mountinfo`. Nothing here touches
//! a mount itself, except [`probe()`], which cannot hang its caller.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use super::probe;
use crate::fuse::FSTYPE;
use crate::process::mountinfo::{self, MountInfo};

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
    Ok(among(mountinfo::all()?))
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

/// Asks a mount for its `statfs`, which no cache answers, in a process of its own: see [`probe`].
pub fn probe(mountpoint: &Path, patience: Duration) -> Liveness {
    match probe::statfs(mountpoint, patience) {
        Ok(Some(Ok(()))) => Liveness::Alive,
        Ok(Some(Err(Errno::NOTCONN | Errno::CONNABORTED))) => Liveness::Dead,
        // Somebody else's mount may not be looked at, but it answers.
        Ok(Some(Err(_))) => Liveness::Alive,
        Ok(None) | Err(_) => Liveness::Silent,
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

/// Those of ours among all mounts.
fn among(all: Vec<MountInfo>) -> Vec<OurMount> {
    let of = |m: MountInfo| OurMount {
        id: m.id,
        device: m.device,
        mountpoint: m.point,
        store: m.source,
    };
    all.into_iter().filter(|m| m.fstype == FSTYPE).map(of).collect()
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
        let found = among(mountinfo::parse(info));
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
