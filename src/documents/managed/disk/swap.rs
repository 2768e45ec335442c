//! Putting a file in the place of another, and the way back.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::make::{Temporary, free_name, make};
use super::{StoreDisk, print, regular, untouched};
use crate::documents::Content;
use crate::documents::files::{Print, Swap};
use crate::model::{FileId, Stamp};

/// What was done, and is undone when this is dropped.
enum Done {
    /// The old file is under our name.
    Exchanged,
    /// There was none before.
    Created,
    /// There is none any more; the old one is under our name.
    Removed,
    /// Nothing is to be undone.
    Nothing,
}

/// A replaced file.
pub(super) struct Swapped<'d> {
    disk: &'d StoreDisk,
    file: FileId,
    parent: OwnedFd,
    name: &'static str,
    /// Our name.
    temporary: Temporary,
    /// The inode number of the file that was made.
    ours: Option<u64>,
    new: Option<Print>,
    done: Done,
}

/// See [`crate::documents::files::Disk::replace`].
pub(super) fn replace<'d>(
    disk: &'d StoreDisk,
    file: FileId,
    expected: Option<&Print>,
    text: Option<&Content>,
    mtime: Stamp,
) -> Result<Option<Swapped<'d>>, Errno> {
    let (parent, name) = disk.parent(file)?;
    let there = match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e),
    };
    match (&there, expected) {
        (None, None) => {}
        (Some(stat), Some(expected)) if is(stat, expected) => {}
        (Some(stat), None) if !regular(stat) => return Err(in_the_way(stat)),
        _ => return Ok(None),
    }
    let mut swapped = match text {
        None => Swapped {
            temporary: free_name(disk, parent.as_fd())?,
            ours: None,
            done: Done::Nothing,
            new: None,
            disk,
            file,
            parent,
            name,
        },
        Some(text) => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let old = match rustix::fs::openat(&parent, name, flags, Mode::empty()) {
                Ok(old) => Some(old),
                Err(Errno::NOENT) => None,
                Err(e) => return Err(e),
            };
            let like = old.as_ref().zip(there.as_ref()).map(|(old, stat)| (old.as_fd(), stat));
            let (temporary, made) = make(disk, parent.as_fd(), like, text, mtime)?;
            let ours = Some(rustix::fs::fstat(&made)?.st_ino);
            Swapped { temporary, ours, done: Done::Nothing, new: None, disk, file, parent, name }
        }
    };
    let done = match (expected, text) {
        (None, None) => true,
        (None, Some(_)) => swapped.create()?,
        (Some(expected), Some(_)) => swapped.exchange(expected)?,
        (Some(expected), None) => swapped.remove(expected)?,
    };
    Ok(done.then_some(swapped))
}

impl Swapped<'_> {
    /// Gives the new file its name, which is free. Whether it was.
    fn create(&mut self) -> Result<bool, Errno> {
        match self.rename_in(RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(false),
            // A file system without that kind of rename.
            Err(Errno::INVAL | Errno::NOSYS) => {
                let t = &self.temporary;
                match rustix::fs::linkat(&t.dir, &t.name, &self.parent, self.name, AtFlags::empty())
                {
                    Ok(()) => {
                        rustix::fs::unlinkat(&t.dir, &t.name, AtFlags::empty())?;
                    }
                    Err(Errno::EXIST) => return Ok(false),
                    Err(e) => return Err(e),
                }
            }
            Err(e) => return Err(e),
        }
        self.temporary.gone = true;
        self.done = Done::Created;
        self.now_there()?;
        Ok(true)
    }

    /// Exchanges the new file with the old one. Whether it was the expected one.
    fn exchange(&mut self, expected: &Print) -> Result<bool, Errno> {
        match self.rename_in(RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(Errno::INVAL | Errno::NOSYS) => return self.rename_over(expected),
            Err(e) => return Err(e),
        }
        self.done = Done::Exchanged;
        if !is(&self.under_our_name()?, expected) {
            return Ok(false);
        }
        self.now_there()?;
        Ok(true)
    }

    /// The same where names cannot be exchanged: the old file gets a second name first.
    fn rename_over(&mut self, expected: &Print) -> Result<bool, Errno> {
        let mut second = free_name(self.disk, self.parent.as_fd())?;
        let link = AtFlags::empty();
        rustix::fs::linkat(&self.parent, self.name, &second.dir, &second.name, link)?;
        second.gone = false;
        let stat = rustix::fs::statat(&second.dir, &second.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !is(&stat, expected) {
            return Ok(false);
        }
        let t = &self.temporary;
        rustix::fs::renameat(&t.dir, &t.name, &self.parent, self.name)?;
        self.temporary.gone = true;
        self.temporary = second;
        self.done = Done::Exchanged;
        self.now_there()?;
        Ok(true)
    }

    /// Takes the file away. Whether it was the expected one.
    fn remove(&mut self, expected: &Print) -> Result<bool, Errno> {
        let t = &self.temporary;
        match rustix::fs::renameat(&self.parent, self.name, &t.dir, &t.name) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(e) => return Err(e),
        }
        self.temporary.gone = false;
        self.done = Done::Removed;
        Ok(is(&self.under_our_name()?, expected))
    }

    fn rename_in(&self, flags: RenameFlags) -> Result<(), Errno> {
        let t = &self.temporary;
        rustix::fs::renameat_with(&t.dir, &t.name, &self.parent, self.name, flags)
    }

    fn under_our_name(&self) -> Result<Stat, Errno> {
        let t = &self.temporary;
        rustix::fs::statat(&t.dir, &t.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Takes the print of the new file: a rename moves its ctime.
    fn now_there(&mut self) -> Result<(), Errno> {
        let stat = rustix::fs::statat(&self.parent, self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        self.new = Some(print(&stat));
        self.disk.mark(self.file);
        Ok(())
    }

    fn undo(&mut self) -> Result<(), Errno> {
        let t = &self.temporary;
        match self.done {
            Done::Nothing => Ok(()),
            Done::Created => {
                // Not if somebody has put another file there.
                let stat = rustix::fs::statat(&self.parent, self.name, AtFlags::SYMLINK_NOFOLLOW)?;
                match self.new.is_some_and(|new| is(&stat, &new)) {
                    true => rustix::fs::unlinkat(&self.parent, self.name, AtFlags::empty()),
                    false => Ok(()),
                }
            }
            Done::Exchanged => match self.rename_in(RenameFlags::EXCHANGE) {
                Ok(()) if self.under_our_name().is_ok_and(|s| Some(s.st_ino) == self.ours) => {
                    Ok(())
                }
                // Somebody has put yet another file there meanwhile: that one is the newest.
                Ok(()) => self.rename_in(RenameFlags::EXCHANGE),
                // It was removed meanwhile, which is newer than the file that is to come back; or
                // names cannot be exchanged here.
                Err(Errno::NOENT) => Ok(()),
                Err(_) => {
                    rustix::fs::renameat(&t.dir, &t.name, &self.parent, self.name)?;
                    self.temporary.gone = true;
                    Ok(())
                }
            },
            Done::Removed => match self.rename_in(RenameFlags::NOREPLACE) {
                Ok(()) => {
                    self.temporary.gone = true;
                    Ok(())
                }
                // Somebody has made another one.
                Err(Errno::EXIST) => Ok(()),
                Err(e) => Err(e),
            },
        }
    }
}

impl Swap for Swapped<'_> {
    fn print(&self) -> Option<Print> {
        self.new
    }

    fn keep(mut self: Box<Self>) {
        self.done = Done::Nothing;
        self.disk.mark(self.file);
    }
}

impl Drop for Swapped<'_> {
    fn drop(&mut self) {
        if let Err(e) = self.undo() {
            // What there is now is whole in any case; the next look takes it as it is. The old
            // one stays where it is.
            self.temporary.gone = true;
            log::error!("{}: the old file could not be brought back: {e}", self.file.path());
        }
    }
}

fn is(stat: &Stat, expected: &Print) -> bool {
    regular(stat) && untouched(&print(stat), expected)
}

/// Why nothing can be made under this name.
fn in_the_way(stat: &Stat) -> Errno {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Errno::ISDIR,
        FileType::Symlink => Errno::LOOP,
        _ => Errno::EXIST,
    }
}
