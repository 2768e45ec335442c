//! Files and directories that have to survive a crash as they should be.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Timespec, Timestamps};

use super::error::{Result, io};
use super::journal::remove;

/// Writes a whole file so that after a crash either the old or the new content is there:
/// temporary file beside it, fsync, rename, fsync of the directory. A file that another one is
/// bound to (a mount point) cannot be replaced and is written in place; [`finish`] ends what a
/// crash has interrupted there.
pub fn write_whole(dir: &Path, name: &str, bytes: &[u8], like: Like) -> Result<()> {
    use std::io::Write;
    let target = dir.join(name);
    let temporary = dir.join(format!("{}new-{name}", super::names::PREFIX));
    remove(&temporary)?;
    remove(&dir.join(format!("{IN_PLACE}{name}")))?;
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(io(&temporary, "cannot create"))?;
    let filled =
        file.write_all(bytes).and_then(|()| like.put_on(&file)).and_then(|()| file.sync_all());
    if let Err(e) = filled {
        let _ = std::fs::remove_file(&temporary);
        return Err(io(&target, "cannot write")(e));
    }
    match std::fs::rename(&temporary, &target) {
        Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => {
            let whole = dir.join(format!("{IN_PLACE}{name}"));
            std::fs::rename(&temporary, &whole).map_err(io(&whole, "cannot rename to"))?;
            sync_dir(dir)?;
            finish(dir, name)
        }
        done => {
            done.map_err(io(&target, "cannot replace"))?;
            sync_dir(dir)
        }
    }
}

/// What the name of a file begins with that is on its way into another one, in place.
const IN_PLACE: &str = ".instancefs-put-";

/// Writes a file in place as far as [`write_whole`] has not come with that. To be called before
/// the file is read.
pub fn finish(dir: &Path, name: &str) -> Result<()> {
    use std::io::{Seek, Write};
    let (whole, target) = (dir.join(format!("{IN_PLACE}{name}")), dir.join(name));
    let mut from = match File::open(&whole) {
        Ok(from) => from,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(io(&whole, "cannot read")(e)),
    };
    let mut put = || -> std::io::Result<()> {
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&target)?;
        std::io::copy(&mut from, &mut file)?;
        let end = file.stream_position()?;
        file.set_len(end)?;
        file.flush()?;
        file.sync_all()
    };
    put().map_err(io(&target, "cannot write in place"))?;
    remove(&whole)?;
    sync_dir(dir)
}

/// What a written file looks like from outside.
#[derive(Debug, Clone, Copy)]
pub struct Like {
    /// Permission bits.
    pub mode: u32,
    /// Owner and group; a change that is not allowed is left undone.
    pub owner: Option<(u32, u32)>,
    /// Modification time in nanoseconds since 1970.
    pub mtime: Option<crate::model::Stamp>,
}

impl Like {
    /// A private file, with the time of now.
    pub const PRIVATE: Like = Like { mode: 0o600, owner: None, mtime: None };

    fn put_on(&self, file: &File) -> std::io::Result<()> {
        if let Some((uid, gid)) = self.owner {
            let _ = std::os::unix::fs::fchown(file, Some(uid), Some(gid));
        }
        // A text that others have saved must not run as its owner.
        rustix::fs::fchmod(file, rustix::fs::Mode::from_raw_mode(self.mode & 0o1777))?;
        if let Some(mtime) = self.mtime {
            let (seconds, nanos) = mtime.parts();
            let at = Timespec { tv_sec: seconds, tv_nsec: i64::from(nanos) as _ };
            let times = Timestamps { last_access: at, last_modification: at };
            rustix::fs::futimens(file, &times)?;
        }
        Ok(())
    }
}

/// Makes names in a directory durable.
pub fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(io(dir, "cannot sync"))
}

/// Makes everything on the directory's file system durable.
pub fn sync_all(dir: &Path) -> Result<()> {
    let file = File::open(dir).map_err(io(dir, "cannot sync"))?;
    rustix::fs::syncfs(&file).map_err(io(dir, "cannot sync"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_whole_write_replaces_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "old").unwrap();
        let like =
            Like { mode: 0o644, owner: None, mtime: Some(crate::model::Stamp(1_500_000_001)) };
        write_whole(dir.path(), "f", b"new", like).unwrap();
        let meta = dir.path().join("f").metadata().unwrap();
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"new");
        assert_eq!(
            (meta.mode() & 0o7777, meta.mtime(), meta.mtime_nsec()),
            (0o644, 1, 500_000_001)
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_interrupted_in_place_is_finished_whole() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "new and the rest of an old text").unwrap();
        finish(dir.path(), "f").unwrap();
        fs::write(dir.path().join(".instancefs-put-f"), "new text").unwrap();
        finish(dir.path(), "f").unwrap();
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"new text");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
