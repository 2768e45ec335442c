//! Leases and live sessions for commands, with and without a mount.
//!
//! With a mount a lease is taken as any program takes it: the file is created exclusively through
//! the mount, and the daemon ties it to its process. Without one the commands do themselves what
//! the daemon does: [`Guard`] lets one at a time judge a leftover, remove it and make the next
//! file.
//!
//! Who waits stands in the store in the order of arrival. A waiter wakes when the file goes, when
//! its owner ends, and when the waiter before it ends; one that has ended counts no more.

mod queue;

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::control::{Connection, Request};
use super::error::{DaemonError, Result, io};
use super::{lock, mounts, names};
use crate::documents::files::StoreRules;
use crate::model::{Clock, Stamp, SystemClock, proc_text};
use crate::store::{Options, OwnedRow, Store, Wait};
use crate::vfs::owned::content::{self, Found};
use crate::vfs::owned::judge::{Verdict, judge_surely};
use crate::vfs::owned::owner::{Here, Owner};
use crate::vfs::owned::{FileId, Kind, Living, Names, TOKEN_XATTR};

/// How long a daemon may take to say that it serves the store.
const STARTING: Duration = Duration::from_secs(10);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The right to take and give back leases of a store without its mount.
#[derive(Debug)]
pub struct Guard {
    _file: File,
}

impl Guard {
    /// Waits until it is free; nobody keeps it for longer than a moment.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub fn take(store: &Path) -> Result<Guard> {
        let path = store.join(names::LEASES);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(io(&path, "cannot open"))?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Guard { _file: file }),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(io(&path, "cannot lock")(e)),
            }
        }
    }
}

/// Which names of a store are markers and leases. Those that are set count from the next mount on.
pub fn names_of(rules: &StoreRules) -> Names {
    Names::set_in(&rules.settings()).unwrap_or_else(|e| {
        log::warn!("names of markers and leases: {e}");
        Names::default()
    })
}

/// A live lease.
#[derive(Debug)]
pub struct Held {
    /// Its name, relative to the store.
    pub name: PathBuf,
    /// Its owner.
    pub owner: Owner,
    /// The owner's program.
    pub program: String,
    /// The fencing number; 0 while it is not on record.
    pub token: u64,
    /// Since when.
    pub since: Stamp,
}

/// How a name stands.
#[derive(Debug)]
pub enum Standing {
    /// Nobody holds it.
    Free,
    /// Somebody does.
    Held(Held),
    /// There is something that belongs to no process.
    Ordinary,
}

/// Who takes care of a store.
enum Keeper {
    /// A daemon, with a mount that can be reached.
    Daemon(PathBuf),
    /// Nobody.
    Nobody,
    /// Somebody who shows no mount here and does not end soon.
    Other,
}

/// A live session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its marker, relative to the store.
    pub marker: PathBuf,
    /// Its process.
    pub pid: u32,
    /// The process's program.
    pub program: String,
    /// When the marker was written.
    pub since: Stamp,
}

/// Takes leases of one store and looks at them.
pub struct Desk {
    dir: PathBuf,
    root: OwnedFd,
    store: Store,
    names: Names,
    here: Here,
}

impl Desk {
    /// To change something.
    ///
    /// # Errors
    /// The store cannot be opened.
    pub fn open(dir: &Path) -> Result<Desk> {
        let desk = Desk::with(dir, Options::default())?;
        desk.store.prepare_owned()?;
        Ok(desk)
    }

    /// To look only.
    ///
    /// # Errors
    /// The store cannot be opened.
    pub fn look(dir: &Path) -> Result<Desk> {
        Desk::with(dir, Options { read_only: true, ..Options::default() })
    }

    fn with(dir: &Path, options: Options) -> Result<Desk> {
        let store = Store::open(dir, options)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(dir, flags, Mode::empty()).map_err(io(dir, "cannot open"))?;
        let settings = |problem| DaemonError::Settings { store: dir.to_owned(), problem };
        let names = names_of(&StoreRules::lenient(dir).map_err(settings)?);
        Ok(Desk { dir: dir.to_owned(), root, store, names, here: Here::now() })
    }

    /// Who takes care of the store. Waits for a daemon that starts or ends, and for a command that
    /// changes the store.
    fn keeper(&self) -> Result<Keeper> {
        let until = Instant::now() + STARTING;
        loop {
            let Some(holder) = lock::holder(&self.dir) else { return Ok(Keeper::Nobody) };
            if let Some(point) = holder.mountpoint.map(PathBuf::from) {
                let mounts = mounts::of_store(&self.dir).map_err(io(&self.dir, "no mounts of"))?;
                if mounts.iter().any(|m| m.mountpoint == point) {
                    return Ok(Keeper::Daemon(point));
                }
            }
            if Instant::now() > until {
                return Ok(Keeper::Other);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn found(&self, name: &Path) -> Option<Found> {
        content::look(self.root.as_fd(), name)
    }

    fn kept(&self, name: &Path) -> Result<Option<OwnedRow>> {
        Ok(self.store.owned()?.into_iter().find(|row| row.path == name))
    }

    /// How a name stands now.
    ///
    /// # Errors
    /// Those of the database.
    pub fn standing(&self, name: &Path) -> Result<Standing> {
        let Some(found) = self.found(name) else {
            let there = self.dir.join(name).symlink_metadata().is_ok();
            return Ok(if there { Standing::Ordinary } else { Standing::Free });
        };
        let kept = self.kept(name)?;
        Ok(match judge_surely(Kind::Lease, &found, kept.as_ref(), &self.here) {
            Verdict::Ended => Standing::Free,
            Verdict::Ordinary => Standing::Ordinary,
            Verdict::Owned { owner, .. } => {
                let kept = kept.filter(|k| k.owner.ident == owner.ident);
                Standing::Held(Held {
                    name: name.to_owned(),
                    program: program(owner.pid),
                    owner,
                    token: kept.as_ref().map_or(0, |k| k.token),
                    since: kept.map_or(found.mtime, |k| k.at),
                })
            }
        })
    }

    /// All live leases, by name.
    ///
    /// # Errors
    /// Those of the database.
    pub fn leases(&self) -> Result<Vec<Held>> {
        let kept = self.store.owned()?;
        let mut paths: Vec<PathBuf> =
            kept.into_iter().filter(|k| k.lease && k.owner.pid != 0).map(|k| k.path).collect();
        paths.extend(self.named(|kind| kind == Kind::Lease));
        paths.sort();
        paths.dedup();
        let mut held = Vec::new();
        for path in paths {
            if let Standing::Held(lease) = self.standing(&path)? {
                held.push(lease);
            }
        }
        Ok(held)
    }

    /// How many leases are held and how many sessions are live. Removes nothing.
    ///
    /// # Errors
    /// Those of the database.
    pub fn living(&self) -> Result<Living> {
        let kept = self.store.owned()?;
        let live = |marker: &PathBuf| {
            let (kind, found) = (self.names.kind(marker)?, self.found(marker)?);
            let kept = kept.iter().find(|k| k.path == *marker);
            let verdict = judge_surely(kind, &found, kept, &self.here);
            matches!(verdict, Verdict::Owned { .. }).then_some(())
        };
        let markers = self.named(|kind| kind != Kind::Lease);
        Ok(Living {
            leases: self.leases()?.len(),
            markers: markers.iter().filter_map(live).count(),
        })
    }

    /// Paths in the store whose names are of this kind.
    fn named(&self, wanted: impl Fn(Kind) -> bool) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for dir in self.names.dirs(&self.dir) {
            let Ok(entries) = std::fs::read_dir(self.dir.join(&dir)) else { continue };
            let entries = entries.flatten().map(|e| dir.join(e.file_name()));
            paths.extend(entries.filter(|p| self.names.kind(p).is_some_and(&wanted)));
        }
        paths
    }

    /// The live sessions by pid. Markers of sessions that have ended are removed where no daemon
    /// does it.
    ///
    /// # Errors
    /// Those of the database and of the guard.
    pub fn sessions(&self) -> Result<Vec<Session>> {
        let (mut live, mut over) = (Vec::new(), Vec::new());
        let kept = self.store.owned()?;
        for marker in self.named(|kind| kind != Kind::Lease) {
            let (Some(kind), Some(found)) = (self.names.kind(&marker), self.found(&marker)) else {
                continue;
            };
            let kept = kept.iter().find(|k| k.path == marker);
            match judge_surely(kind, &found, kept, &self.here) {
                Verdict::Owned { owner, .. } => live.push(Session {
                    pid: owner.pid,
                    program: program(owner.pid),
                    since: found.mtime,
                    marker,
                }),
                Verdict::Ended => over.push((marker, found.id)),
                Verdict::Ordinary => {}
            }
        }
        if !over.is_empty()
            && let Keeper::Daemon(mount) = self.keeper()?
        {
            // The daemon may not have looked at them yet: now it does.
            over.drain(..).for_each(|(marker, _)| drop(mount.join(marker).symlink_metadata()));
        }
        if !over.is_empty() {
            let _guard = Guard::take(&self.dir)?;
            for (marker, id) in over {
                if let Err(e) = content::remove(self.root.as_fd(), &marker, id) {
                    log::debug!("{}: stays: {e}", marker.display());
                }
            }
        }
        live.sort_by(|a, b| (a.pid, &a.marker).cmp(&(b.pid, &b.marker)));
        Ok(live)
    }

    /// Takes a lease for the process `pid`, this one or another: its fencing number; `None` when
    /// the name is taken. Waits for nobody.
    ///
    /// # Errors
    /// The file cannot be made; those of the database.
    pub fn take(&self, name: &Path, pid: u32) -> Result<Option<u64>> {
        loop {
            let keeper = self.keeper()?;
            if let Keeper::Daemon(mount) = &keeper {
                return self.take_mounted(mount, name, pid);
            }
            let _guard = Guard::take(&self.dir)?;
            // A daemon that has started meanwhile waits for the guard: it must not be waited for.
            if matches!(keeper, Keeper::Other) || lock::holder(&self.dir).is_none() {
                return self.take_here(name, pid);
            }
        }
    }

    fn take_mounted(&self, mount: &Path, name: &Path, pid: u32) -> Result<Option<u64>> {
        if self.names.kind(name) != Some(Kind::Lease) {
            self.announce(name)?;
        }
        let path = mount.join(name);
        let Some(mut file) = create(&path)? else { return Ok(None) };
        writeln!(file, "{pid}").map_err(io(&path, "cannot write"))?;
        // The close says whose it is.
        drop(file);
        let mut value = Vec::with_capacity(32);
        let spare = rustix::buffer::spare_capacity(&mut value);
        let token = rustix::fs::getxattr(&path, TOKEN_XATTR, spare)
            .ok()
            .and_then(|_| std::str::from_utf8(&value).ok()?.parse().ok());
        if token.is_none() {
            let _ = std::fs::remove_file(&path);
            let reason = "the daemon does not know this process by its number".to_owned();
            return Err(DaemonError::InTheWay { path, reason });
        }
        Ok(token)
    }

    /// Tells the daemon that a name which is not configured is a lease's.
    fn announce(&self, name: &Path) -> Result<()> {
        let silent = || DaemonError::Silent {
            path: self.dir.clone(),
            message: "the daemon does not answer".to_owned(),
        };
        let mut daemon = Connection::open(&self.dir).ok_or_else(silent)?;
        daemon.ask(&Request::Lease { name: name.to_string_lossy().into_owned() })?;
        daemon.answer(PATIENCE)?.map(drop).ok_or_else(silent)
    }

    /// Without a mount; the guard is held.
    fn take_here(&self, name: &Path, pid: u32) -> Result<Option<u64>> {
        let path = self.dir.join(name);
        if let Some(found) = self.found(name) {
            let kept = self.kept(name)?;
            match judge_surely(Kind::Lease, &found, kept.as_ref(), &self.here) {
                Verdict::Ended => content::remove(self.root.as_fd(), name, found.id)
                    .map_err(io(&path, "cannot remove"))?,
                Verdict::Ordinary | Verdict::Owned { .. } => return Ok(None),
            }
        }
        let gone = || DaemonError::InTheWay {
            path: path.clone(),
            reason: format!("process {pid} has ended"),
        };
        let owner = Owner::of_pid(pid).ok_or_else(gone)?;
        let token = self.store.reserve_tokens(1)?;
        // Under a name of our own until it is whole and on record: whoever is killed meanwhile, or
        // cannot go on, leaves nothing that nobody would ever give back.
        let made = Unfinished::of(&self.dir, name)?;
        let FileId { ino, born } = made.fill(pid, |own| self.found(own))?.ok_or_else(gone)?.id;
        let row = OwnedRow {
            path: name.to_owned(),
            lease: true,
            ino,
            born,
            owner: self.here.row(Some(&owner)),
            token,
            at: SystemClock.now(),
        };
        self.store.keep_owned(&[row], &[], Wait::Patiently)?;
        match std::fs::hard_link(&made.path, &path) {
            Ok(()) => Ok(Some(token)),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(io(&path, "cannot create")(e)),
        }
    }

    /// Gives back a lease of this process; one of another process stays.
    ///
    /// # Errors
    /// The file cannot be removed; those of the database.
    pub fn give_back(&self, name: &Path) -> Result<()> {
        if let Keeper::Daemon(mount) = self.keeper()? {
            let path = mount.join(name);
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                // The mount is just being left.
                Err(e) if e.raw_os_error() == Some(libc::ENOTCONN) => {}
                done => return done.map_err(io(&path, "cannot give back")),
            }
        }
        let _guard = Guard::take(&self.dir)?;
        let me = std::process::id();
        if let Standing::Held(held) = self.standing(name)?
            && held.owner.pid == me
        {
            let path = self.dir.join(name);
            std::fs::remove_file(&path).map_err(io(&path, "cannot give back"))?;
            self.store.keep_owned(&[], &[name.to_owned()], Wait::Patiently)?;
        }
        Ok(())
    }
}

/// A lease's file under a name of our own beside it; dropped, that name is removed.
struct Unfinished {
    /// Relative to the store.
    name: PathBuf,
    path: PathBuf,
}

impl Unfinished {
    /// The guard is held: what has the name was left behind.
    fn of(store: &Path, lease: &Path) -> Result<Unfinished> {
        let last = lease.file_name().unwrap_or_default().to_string_lossy();
        let name = lease.with_file_name(format!("{}new-{last}", names::PREFIX));
        let path = store.join(&name);
        super::journal::remove(&path)?;
        Ok(Unfinished { name, path })
    }

    /// Makes it, says whose it is, and has a look at it.
    fn fill(&self, pid: u32, look: impl FnOnce(&Path) -> Option<Found>) -> Result<Option<Found>> {
        let Some(mut file) = create(&self.path)? else { return Ok(None) };
        writeln!(file, "{pid}").map_err(io(&self.path, "cannot write"))?;
        Ok(look(&self.name))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Err(e) = super::journal::remove(&self.path) {
            log::warn!("{e}");
        }
    }
}

/// Makes a file that is not there; `None` when it is.
fn create(path: &Path) -> Result<Option<File>> {
    match File::options().write(true).create_new(true).mode(0o644).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
        Err(e) => Err(io(path, "cannot create")(e)),
    }
}

/// The name of a process's program; empty when it has ended.
fn program(pid: u32) -> String {
    proc_text(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}
