//! Scratch directories: private places for temporary files below one base for each user, which
//! do not outlive the process that they were made for.
//!
//! The base may lie in a shared `/tmp`, where anybody can be first to make a name. It is opened
//! once without following a symlink, looked at through that descriptor (a directory, ours, closed
//! to others), and everything below is done relative to it.
//!
//! Who owns a directory stands in its name, so making it and recording the owner is one step
//! (see [`owner`]).

pub mod owner;
mod tree;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use self::owner::{Life, Owner};
use super::error::{DaemonError, Result, io};

/// The program whose base is meant unless another one is named.
pub const DEFAULT_APP: &str = "koan";

/// Where the base of a program is said to be.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// `$KOAN_TMP_DIR`, for another program `$NAME_TMP_DIR`.
    pub own: Option<OsString>,
    /// `$XDG_RUNTIME_DIR`.
    pub runtime: Option<OsString>,
}

impl Surroundings {
    /// Those of this process, for one program.
    pub fn of(app: &str) -> Surroundings {
        let name = app.to_ascii_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        Surroundings {
            own: std::env::var_os(format!("{name}_TMP_DIR")),
            runtime: std::env::var_os("XDG_RUNTIME_DIR"),
        }
    }
}

/// The path of a program's base for this user. An empty variable is none.
///
/// # Errors
/// The name of the program is none, or the program's own variable is no absolute path. (One in
/// `$XDG_RUNTIME_DIR` is no runtime directory.)
pub fn base_path(app: &str, around: &Surroundings) -> Result<PathBuf> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if app.is_empty() || app.len() > 64 || app.starts_with('.') || !app.chars().all(fits) {
        return Err(in_the_way(Path::new(app), "no name of a program"));
    }
    let set = |value: &Option<OsString>| value.clone().filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(own) = set(&around.own) {
        if !own.is_absolute() {
            return Err(in_the_way(&own, "the base of scratch directories must be absolute"));
        }
        return Ok(own);
    }
    if let Some(runtime) = set(&around.runtime).filter(|path| path.is_absolute()) {
        return Ok(runtime.join(app));
    }
    let uid = rustix::process::geteuid().as_raw();
    Ok(PathBuf::from(format!("/tmp/{app}-{uid}")))
}

/// A base that has been looked at.
#[derive(Debug)]
pub struct Base {
    dir: OwnedFd,
    path: PathBuf,
}

impl Base {
    /// Opens a base, and makes it (0700) if there is none. One of our own that others may only
    /// read is closed to them.
    ///
    /// # Errors
    /// It is a symlink or no directory, belongs to somebody else, or others may write to it.
    pub fn open(path: &Path) -> Result<Base> {
        let mut made = rustix::fs::mkdirat(CWD, path, Mode::RWXU);
        if let (Err(Errno::NOENT), Some(parent)) = (made, path.parent()) {
            let mut builder = std::fs::DirBuilder::new();
            builder
                .recursive(true)
                .mode(0o700)
                .create(parent)
                .map_err(io(path, "cannot create"))?;
            made = rustix::fs::mkdirat(CWD, path, Mode::RWXU);
        }
        match made {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(io(path, "cannot create")(e)),
        }
        Base::existing(path)?.ok_or_else(|| in_the_way(path, "is gone again"))
    }

    /// Opens a base that is there already.
    ///
    /// # Errors
    /// As [`Base::open`].
    pub fn existing(path: &Path) -> Result<Option<Base>> {
        // The owner of a directory that must not be read is found out all the same.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            found => found.map_err(io(path, "cannot open"))?,
        };
        let stat = rustix::fs::fstat(&found).map_err(io(path, "cannot read"))?;
        let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
        if kind == rustix::fs::FileType::Symlink {
            return Err(in_the_way(path, "is a symlink, not a directory"));
        }
        if kind != rustix::fs::FileType::Directory {
            return Err(in_the_way(path, "is not a directory"));
        }
        let uid = rustix::process::geteuid().as_raw();
        if stat.st_uid != uid {
            let reason = format!("belongs to user {}, not to user {uid}", stat.st_uid);
            return Err(in_the_way(path, &reason));
        }
        let mode = stat.st_mode & 0o7777;
        if mode & 0o1022 != 0 {
            let reason = format!("others may write to it (mode {mode:04o}); it must be 0700");
            return Err(in_the_way(path, &reason));
        }
        if mode & 0o777 != 0o700 {
            tree::chmod(&found, 0o700).map_err(io(path, "cannot set the mode of"))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&found, c".", flags, Mode::empty())
            .map_err(io(path, "cannot open"))?;
        Ok(Some(Base { dir, path: path.to_owned() }))
    }

    /// Its path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory (0700) for a process. Its path.
    ///
    /// # Errors
    /// The process is gone; those of the file system.
    pub fn make(&self, pid: u32) -> Result<PathBuf> {
        let owner = Owner::of(pid).ok_or_else(|| {
            let reason = format!("no process {pid} for which a directory could be made");
            in_the_way(&self.path, &reason)
        })?;
        loop {
            let name = owner.name(random());
            let path = self.path.join(&name);
            match rustix::fs::mkdirat(&self.dir, &name, Mode::RWXU) {
                Ok(()) => {
                    // Whatever the umask has taken away.
                    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    rustix::fs::openat(&self.dir, &name, flags, Mode::empty())
                        .and_then(|made| tree::chmod(&made, 0o700))
                        .map_err(io(&path, "cannot set the mode of"))?;
                    return Ok(path);
                }
                Err(Errno::EXIST) => {}
                Err(e) => return Err(io(&path, "cannot create")(e)),
            }
        }
    }

    /// The name of a scratch directory that is given by name or by path.
    ///
    /// # Errors
    /// It is no direct child of the base, or has no name of a scratch directory.
    pub fn name_of(&self, given: &Path) -> Result<OsString> {
        let refused = || {
            let reason = format!("no scratch directory in {}", self.path.display());
            in_the_way(given, &reason)
        };
        let mut bytes = given.as_os_str().as_bytes();
        // As shells complete the name of a directory.
        while let [rest @ .., b'/'] = bytes {
            bytes = rest;
        }
        let name = match bytes.iter().rposition(|b| *b == b'/') {
            None => OsStr::from_bytes(bytes),
            Some(at) => {
                let parent = Path::new(OsStr::from_bytes(&bytes[..at.max(1)]));
                let ours = rustix::fs::fstat(&self.dir).map_err(io(&self.path, "cannot read"))?;
                let theirs = rustix::fs::stat(parent).map_err(|_| refused())?;
                if (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino) {
                    return Err(refused());
                }
                OsStr::from_bytes(&bytes[at + 1..])
            }
        };
        match owner::parse(name) {
            Some(_) => Ok(name.to_owned()),
            None => Err(refused()),
        }
    }

    /// Removes one with all that is in it.
    ///
    /// # Errors
    /// It is not there, or no directory of ours; those of the file system.
    pub fn remove(&self, name: &OsStr) -> Result<()> {
        let path = self.path.join(name);
        let stat = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(io(&path, "cannot remove"))?;
        if !self.ours(&stat) {
            return Err(in_the_way(&path, "not a directory of this user"));
        }
        tree::remove(self.dir.as_fd(), name).map_err(io(&path, "cannot remove"))
    }

    fn ours(&self, stat: &rustix::fs::Stat) -> bool {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
            && stat.st_uid == rustix::process::geteuid().as_raw()
    }

    /// Removes the directories whose owner is dead. What was removed, and what could not be.
    ///
    /// # Errors
    /// The base cannot be read, or nobody can tell which processes live.
    pub fn reap(&self) -> Result<Reaped> {
        let here = Owner::of(std::process::id())
            .ok_or_else(|| in_the_way(Path::new("/proc"), "says nothing about processes"))?;
        let mut names: Vec<OsString> = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir).map_err(io(&self.path, "cannot read"))? {
            let entry = entry.map_err(io(&self.path, "cannot read"))?;
            names.push(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        }
        names.sort();
        let mut reaped = Reaped::default();
        for name in names {
            if owner::life(&name, &here) != Life::Dead {
                continue;
            }
            let stat = rustix::fs::statat(&self.dir, &name, AtFlags::SYMLINK_NOFOLLOW);
            if !stat.is_ok_and(|stat| self.ours(&stat)) {
                continue;
            }
            let path = self.path.join(&name);
            match tree::remove(self.dir.as_fd(), &name) {
                Ok(()) => reaped.removed.push(path),
                Err(e) => reaped.failed.push(format!("{}: {e}", path.display())),
            }
        }
        Ok(reaped)
    }
}

/// What a reaping did.
#[derive(Debug, Default)]
pub struct Reaped {
    /// What is gone.
    pub removed: Vec<PathBuf>,
    /// What could not be removed, one line each.
    pub failed: Vec<String>,
}

/// Reaps the base of the default program, if there is one, in a thread of its own: nobody waits
/// for it, and what is wrong with the base is only logged.
pub fn reap_in_background() {
    let reap = || {
        let path = base_path(DEFAULT_APP, &Surroundings::of(DEFAULT_APP))?;
        match Base::existing(&path)? {
            Some(base) => base.reap(),
            None => Ok(Reaped::default()),
        }
    };
    let work = move || match reap() {
        Ok(reaped) => {
            for path in &reaped.removed {
                log::info!("{}: removed, its owner is dead", path.display());
            }
            for failure in &reaped.failed {
                log::warn!("{failure}");
            }
        }
        Err(e) => log::info!("scratch directories: {e}"),
    };
    if let Err(e) = std::thread::Builder::new().name("scratch".into()).spawn(work) {
        log::warn!("scratch directories are not looked at: {e}");
    }
}

fn random() -> u32 {
    let mut bytes = [0u8; 4];
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) != Ok(4) {
        // Only has to differ from the names that are there.
        return std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.subsec_nanos());
    }
    u32::from_le_bytes(bytes)
}

fn in_the_way(path: &Path, reason: &str) -> DaemonError {
    DaemonError::InTheWay { path: path.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests;
