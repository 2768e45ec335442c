//! Waiting for a lease.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use super::{Desk, Standing};
use crate::daemon::error::{DaemonError, Result, io};
use crate::model::{Clock, SystemClock};
use crate::store::WaiterRow;
use crate::vfs::owned::owner::{Owner, Recalled};

/// So often the name is looked at even if nothing says that it has changed.
const LOOK: Duration = Duration::from_secs(1);

impl Desk {
    /// Takes a lease for this process as soon as it is this one's turn: its fencing number;
    /// `None` when `until` has passed.
    ///
    /// # Errors
    /// As [`Desk::take`].
    pub fn take_in_turn(&self, name: &Path, until: Option<Instant>) -> Result<Option<u64>> {
        let me = Owner::of_pid(std::process::id()).ok_or_else(|| DaemonError::InTheWay {
            path: name.to_owned(),
            reason: "this process cannot be known by its number".to_owned(),
        })?;
        let watch = Watch::of(&self.dir.join(name))?;
        let ticket = self.store.enqueue(name, &self.here.row(Some(&me)), SystemClock.now())?;
        let outcome = self.turn(name, ticket, &watch, until);
        self.store.dequeue(&[ticket])?;
        outcome
    }

    fn turn(
        &self,
        name: &Path,
        ticket: i64,
        watch: &Watch,
        until: Option<Instant>,
    ) -> Result<Option<u64>> {
        loop {
            let ahead = self.queue(name)?.into_iter().take_while(|(w, _)| w.ticket < ticket).last();
            let awaited = match ahead {
                Some((_, owner)) => Some(owner),
                None => match self.take(name, std::process::id())? {
                    Some(token) => return Ok(Some(token)),
                    None => self.owner(name)?,
                },
            };
            if !watch.pause(awaited.as_ref(), until)? {
                return Ok(None);
            }
        }
    }

    /// Waits until nobody holds the lease; whether that came before `until`.
    ///
    /// # Errors
    /// Those of the database and of watching the directory.
    pub fn wait_free(&self, name: &Path, until: Option<Instant>) -> Result<bool> {
        let watch = Watch::of(&self.dir.join(name))?;
        loop {
            let owner = match self.standing(name)? {
                Standing::Free => return Ok(true),
                Standing::Held(held) => Some(held.owner),
                Standing::Ordinary => None,
            };
            if !watch.pause(owner.as_ref(), until)? {
                return Ok(false);
            }
        }
    }

    fn owner(&self, name: &Path) -> Result<Option<Owner>> {
        Ok(match self.standing(name)? {
            Standing::Held(held) => Some(held.owner),
            Standing::Free | Standing::Ordinary => None,
        })
    }

    /// Who waits for a lease, the first in the queue first. Those that have ended do not count.
    ///
    /// # Errors
    /// Those of the database.
    pub fn queue(&self, name: &Path) -> Result<Vec<(WaiterRow, Owner)>> {
        let (mut live, mut over) = (Vec::new(), Vec::new());
        for waiter in self.store.waiters(name)? {
            match self.here.recall(&waiter.process) {
                Recalled::Lives(owner) => live.push((waiter, owner)),
                Recalled::Ended => over.push(waiter.ticket),
                // It cannot be told whether it lives: nobody waits for it.
                Recalled::Elsewhere => {}
            }
        }
        if !over.is_empty() && !self.store.read_only() {
            self.store.dequeue(&over)?;
        }
        Ok(live)
    }
}

/// Watches a name in a directory of the store.
struct Watch {
    events: OwnedFd,
    name: Vec<u8>,
}

impl Watch {
    fn of(path: &Path) -> Result<Watch> {
        let failed = |e: rustix::io::Errno| io(path, "cannot watch")(e);
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let events = inotify::init(flags).map_err(failed)?;
        let gone = inotify::WatchFlags::DELETE
            | inotify::WatchFlags::MOVED_FROM
            | inotify::WatchFlags::MOVED_TO;
        let dir = path.parent().unwrap_or(path);
        inotify::add_watch(&events, dir, gone).map_err(failed)?;
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default().to_vec();
        Ok(Watch { events, name })
    }

    /// Waits until the name may have become free or `owner` has ended, at most for a while.
    /// `false`: `until` has passed.
    fn pause(&self, owner: Option<&Owner>, until: Option<Instant>) -> Result<bool> {
        let look = Instant::now() + LOOK;
        loop {
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return Ok(false);
            }
            let end = until.map_or(look, |until| until.min(look));
            let Some(left) = end.checked_duration_since(now).filter(|left| !left.is_zero()) else {
                return Ok(true);
            };
            let limit = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(1),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = vec![PollFd::new(&self.events, PollFlags::IN)];
            let over = owner.map(Owner::end);
            fds.extend(over.iter().map(|end| PollFd::new(end, PollFlags::IN)));
            match poll(&mut fds, Some(&limit)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(io(Path::new("poll"), "cannot wait")(e)),
            }
            if fds.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
                // The daemon needs a moment to take the file away; the name is free already.
                std::thread::yield_now();
                return Ok(true);
            }
            if self.concerns_us() {
                return Ok(true);
            }
        }
    }

    /// Takes the events that have come; whether one is of the name, or some were lost.
    fn concerns_us(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        let mut ours = false;
        while let Ok(event) = reader.next() {
            ours |= event.file_name().is_none_or(|name| name.to_bytes() == self.name);
        }
        ours
    }
}
