//! Files that belong to processes: live-session markers and leases.
//!
//! Both are real files in the store. What makes them special is that they are gone when their
//! process has ended, however it ended: an end is known from the process's pidfd, so a name whose
//! owner has ended is not there for anybody from that moment on, and a thread of the daemon takes
//! the file away. While the owner of a lease lives, nobody else can take the file from it.
//!
//! Nothing here goes by a number alone: a process is known by the inode number of its pidfd, its
//! boot and its pid namespace, which are on record in the store. Files that nobody saw being made
//! are judged by `judge`.
//!
//! One lock guards the table and every change of such a name, so that a leftover is removed and
//! the next one made without anybody in between. No process is waited for with it held.

pub mod content;
mod hooks;
pub mod judge;
pub mod names;
pub mod owner;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard, RwLock};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use self::judge::{is_younger, judge_surely};
pub use self::names::{Kind, Names};
use self::owner::{Here, Owner};
use self::table::Table;
use crate::model::Stamp;
use crate::store::{Store, StoreError, Wait};

/// Fencing numbers that are reserved at once.
const TOKENS_AT_ONCE: u64 = 64;
/// So long the thread that unlinks through the mount has, before the file is taken away below it.
const THROUGH_THE_MOUNT: Duration = Duration::from_secs(2);

/// The attribute of a lease that holds its fencing number.
pub const TOKEN_XATTR: &str = "user.instancefs.token";

/// One file of the store, never taken for a later one with its inode number where the file
/// system knows when a file was born.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// `st_ino`.
    pub ino: u64,
    /// Its time of birth, 0 where there is none.
    pub born: Stamp,
}

/// How many files belong to living processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Living {
    /// Leases that are held.
    pub leases: usize,
    /// Markers of live sessions.
    pub markers: usize,
}

/// The markers and leases of a served store.
pub struct Owned {
    names: Names,
    /// Names that commands have made leases of.
    more: RwLock<HashSet<PathBuf>>,
    here: Here,
    root: OwnedFd,
    store: Arc<Store>,
    read_only: bool,
    table: Mutex<Table>,
    known: AtomicUsize,
    wake: OwnedFd,
    closing: AtomicBool,
}

impl Owned {
    /// Judges what is in the store and on record. To be called before anything is served; it may
    /// wait for other processes. `read_only`: nothing is changed, what is over is only not shown.
    ///
    /// # Errors
    /// Those of the database, and of opening the store.
    pub fn load(store: Arc<Store>, names: Names, read_only: bool) -> Result<Owned, StoreError> {
        let io = |source: rustix::io::Errno| StoreError::Io {
            path: store.dir().to_owned(),
            source: source.into(),
        };
        let flags =
            rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let root = rustix::fs::open(store.dir(), flags, rustix::fs::Mode::empty()).map_err(io)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io)?;
        store.prepare_owned()?;
        let mut table = Table::default();
        let first = store.reserve_tokens(TOKENS_AT_ONCE)?;
        table.tokens = (first, first + TOKENS_AT_ONCE);
        let kept = store.owned()?;
        let more = kept.iter().filter(|k| k.lease && names.kind(&k.path) != Some(Kind::Lease));
        let more = RwLock::new(more.map(|k| k.path.clone()).collect());
        table.kept = kept.into_iter().map(|k| (k.path.clone(), k)).collect();
        let owned = Owned {
            names,
            more,
            here: Here::now(),
            root,
            store,
            read_only,
            table: Mutex::new(table),
            known: AtomicUsize::new(0),
            wake,
            closing: AtomicBool::new(false),
        };
        owned.judge_all();
        owned.persist(Wait::Patiently);
        Ok(owned)
    }

    fn judge_all(&self) {
        let mut paths: HashSet<PathBuf> = self.table.lock().kept.keys().cloned().collect();
        for dir in self.names.dirs(self.store.dir()) {
            let Ok(entries) = std::fs::read_dir(self.store.dir().join(&dir)) else { continue };
            paths.extend(entries.flatten().map(|e| dir.join(e.file_name())));
        }
        for path in paths {
            let kind = self.kind(&path);
            let found = kind.and_then(|_| content::look(self.root.as_fd(), &path));
            let (Some(kind), Some(found)) = (kind, found) else {
                let mut table = self.table.lock();
                if table.kept.contains_key(&path) {
                    table.remove(&path);
                }
                continue;
            };
            let kept = self.table.lock().kept.get(&path).cloned();
            let verdict = judge_surely(kind, &found, kept.as_ref(), &self.here);
            let mut table = self.table.lock();
            table.judged(&path, kind, &found, verdict);
            if table.get(&path).is_some_and(table::Entry::is_over) {
                self.take_away(&mut table, &path);
            }
        }
        self.counted(&self.table.lock());
    }

    /// What a path relative to the store stands for.
    pub fn kind(&self, path: &Path) -> Option<Kind> {
        match self.names.kind(path) {
            None if self.more.read().contains(path) => Some(Kind::Lease),
            kind => kind,
        }
    }

    /// How many there are now. Waits for nobody.
    pub fn living(&self) -> Living {
        let mut living = Living::default();
        let table = self.lock();
        for (_, entry) in table.iter().filter(|(_, e)| e.owner.is_some() && !e.is_over()) {
            match entry.kind {
                Kind::Lease => living.leases += 1,
                Kind::Marker(_) => living.markers += 1,
            }
        }
        living
    }

    /// Makes a lease of a name: an exclusively created file there belongs to its process.
    pub fn add_lease(&self, path: &Path) {
        if self.kind(path).is_none() {
            self.more.write().insert(path.to_owned());
        }
    }

    fn may_be(&self, name: &std::ffi::OsStr) -> bool {
        self.names.may_be(name)
            || self.more.read().iter().any(|p| p.file_name().is_some_and(|n| n == name))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Nothing is known: most of the hooks have nothing to do.
    fn is_empty(&self) -> bool {
        self.known.load(Ordering::Acquire) == 0
    }

    /// To be called when the table has changed, still with its lock held.
    fn counted(&self, table: &Table) {
        self.known.store(table.len(), Ordering::Release);
    }

    /// Makes sure that there are fencing numbers. Waits for the database only when there is none.
    fn ready_tokens(&self) {
        if self.read_only {
            return;
        }
        let (next, end) = self.lock().tokens;
        if next < end {
            return;
        }
        self.more_tokens();
    }

    fn more_tokens(&self) {
        // Numbers that were given out while none could be reserved are reserved now.
        let (next, end) = self.lock().tokens;
        let count = TOKENS_AT_ONCE + next.saturating_sub(end);
        match self.store.reserve_tokens(count) {
            Ok(first) => {
                let mut table = self.lock();
                // What is left of the last ones is given up.
                table.tokens = (table.tokens.0.max(first), first + count);
            }
            Err(e) => log::warn!("fencing numbers: {e}"),
        }
    }

    /// Removes a file whose owner has ended, from the store and from the table.
    fn take_away(&self, table: &mut Table, path: &Path) {
        let Some(entry) = table.get(path) else { return };
        if self.read_only {
            return;
        }
        match content::remove(self.root.as_fd(), path, entry.id) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {
                log::debug!("{}: its owner has ended", path.display());
                table.remove(path);
            }
            Err(e) => log::warn!("{}: its owner has ended, but it stays: {e}", path.display()),
        }
    }

    /// Writes what has changed to the store. With [`Wait::Never`] what cannot be written now is
    /// written by the next [`Owned::tick`].
    fn persist(&self, wait: Wait) {
        let (rows, gone) = {
            let table = self.lock();
            self.counted(&table);
            if table.dirty.is_empty() || self.read_only {
                return;
            }
            table.records(&self.here)
        };
        match self.store.keep_owned(&rows, &gone, wait) {
            Ok(()) => {
                let mut table = self.lock();
                let (now, away) = table.records(&self.here);
                // What has changed meanwhile is still to be written.
                table.dirty.retain(|path| {
                    let row = now.iter().find(|r| r.path == *path);
                    row.is_some() && !rows.iter().any(|r| Some(r) == row)
                        || away.contains(path) && !gone.contains(path)
                });
            }
            Err(StoreError::Busy) if wait == Wait::Never => {}
            Err(e) => log::warn!("markers and leases are not on record: {e}"),
        }
    }

    /// Whoever waits in [`Owned::wait`] looks again.
    fn wake(&self) {
        if let Err(e) = rustix::io::write(&self.wake, &1u64.to_ne_bytes()) {
            log::debug!("owners: not woken: {e}");
        }
    }

    /// Waits until owners have ended: the paths that nobody was told of yet. Empty: it is over
    /// ([`Owned::close`]). For one thread of its own; it may wait for other processes.
    pub fn wait(&self) -> Vec<PathBuf> {
        loop {
            if self.closing.load(Ordering::Acquire) {
                return Vec::new();
            }
            self.make_sure();
            let owners: Vec<Arc<Owner>> = {
                let table = self.lock();
                let living = table.iter().filter(|(_, e)| e.told.is_none());
                living.filter_map(|(_, e)| e.owner.clone()).collect()
            };
            let over = self.newly_over();
            if !over.is_empty() {
                return over;
            }
            let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
            let ends: Vec<BorrowedFd<'_>> = owners.iter().map(|o| o.end()).collect();
            fds.extend(ends.iter().map(|end| PollFd::new(end, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => {
                    log::error!("owners cannot be waited for: {e}");
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
            let mut count = [0; 8];
            // Nothing to read when only a process has ended.
            let _ = rustix::io::read(&self.wake, &mut count);
        }
    }

    fn newly_over(&self) -> Vec<PathBuf> {
        let now = Instant::now();
        let mut table = self.lock();
        let over = table.iter_mut().filter(|(_, e)| e.told.is_none() && e.is_over());
        over.map(|(path, entry)| {
            entry.told = Some(now);
            path.clone()
        })
        .collect()
    }

    /// Asks when owners that are known by their number only were started.
    fn make_sure(&self) {
        let unsure: Vec<_> = {
            let table = self.lock();
            let unsure = table
                .iter()
                .filter_map(|(path, e)| Some((path.clone(), e.id, e.owner.clone()?, e.unsure?)));
            unsure.collect()
        };
        for (path, id, owner, written) in unsure {
            let younger = is_younger(&owner, written);
            let mut table = self.lock();
            if let Some((_, entry)) = table.iter_mut().find(|(p, e)| **p == path && e.id == id) {
                entry.unsure = None;
                entry.ended |= younger;
            }
        }
    }

    /// To be called about every 50 ms: writes what could not be written, and takes away what could
    /// not be taken away through the mount.
    pub fn tick(&self) {
        if self.lock().lacks_tokens() && !self.read_only {
            self.more_tokens();
        }
        if !self.is_empty() {
            let late = |told: Instant| told.elapsed() > THROUGH_THE_MOUNT;
            self.sweep(|entry| entry.told.is_some_and(late));
        }
        self.persist(Wait::Never);
    }

    /// Takes away what is over, of the entries that `which` chooses.
    fn sweep(&self, which: impl Fn(&table::Entry) -> bool) {
        let mut table = self.lock();
        let over = table.iter().filter(|(_, e)| which(e) && e.is_over());
        let over: Vec<PathBuf> = over.map(|(path, _)| path.clone()).collect();
        for path in over {
            self.take_away(&mut table, &path);
        }
    }

    /// Ends [`Owned::wait`] and writes what is still to be written.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake();
        self.sweep(|_| true);
        self.persist(Wait::Patiently);
    }
}
