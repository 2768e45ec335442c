//! Processes that own files: never taken for a later one of the same number, and known to have
//! ended the moment that they have.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

use crate::model::{Stamp, proc_text};
use crate::store::ProcessRow;

/// A process that is known by its pidfd.
#[derive(Debug)]
pub struct Owner {
    /// Its pid in our namespace.
    pub pid: u32,
    /// The inode number of its pidfd, unique for the boot.
    pub ident: u64,
    life: OwnedFd,
}

impl Owner {
    /// The process with this pid; `None` when there is none that lives.
    pub fn of_pid(pid: u32) -> Option<Owner> {
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let life = pidfd_open(number, PidfdFlags::empty()).ok()?;
        let ident = rustix::fs::fstat(&life).ok()?.st_ino;
        Some(Owner { pid, ident, life }).filter(Owner::alive)
    }

    /// Whether it has not ended. Waits for nothing.
    pub fn alive(&self) -> bool {
        let mut fds = [PollFd::new(&self.life, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(poll(&mut fds, Some(&now)), Ok(1..))
    }

    /// A descriptor that becomes readable when it ends.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.life.as_fd()
    }

    /// When it started, to 10 ms; `None`: it cannot be told. Reads `/proc/PID/stat`, which may
    /// wait for the process: never inside a request.
    pub fn started(&self) -> Option<Stamp> {
        let text = proc_text(format!("/proc/{}/stat", self.pid)).ok()?;
        // The name in parentheses may hold anything; starttime is field 22.
        let (_, rest) = text.rsplit_once(')')?;
        let ticks: i64 = rest.split_whitespace().nth(19)?.parse().ok()?;
        // Only now is it sure that the text was of this process.
        self.alive().then(|| Stamp(booted_at().0 + ticks * (1_000_000_000 / TICKS_PER_SECOND)))
    }
}

/// `USER_HZ`, the same on all Linux machines of today.
const TICKS_PER_SECOND: i64 = 100;

/// When the machine was started.
pub fn booted_at() -> Stamp {
    let nanos = |clock| {
        let t = clock_gettime(clock);
        t.tv_sec * 1_000_000_000 + t.tv_nsec
    };
    Stamp(nanos(ClockId::Realtime) - nanos(ClockId::Boottime))
}

/// Where pids count: this boot and this pid namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// The boot id.
    pub boot: String,
    /// The inode number of our pid namespace.
    pub pidns: u64,
    /// In how many namespaces, from the one of `/proc` down, we have a number.
    depth: usize,
}

impl Here {
    /// Of this process.
    pub fn now() -> Here {
        let boot = proc_text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let pidns = std::fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino());
        Here { boot: boot.trim().to_owned(), pidns, depth: depth("self").unwrap_or(1) }
    }

    /// Whether the process of this thread has other pids in its own namespace than in ours.
    /// Reads `/proc/TID/status` only.
    pub fn foreign(&self, tid: u32) -> bool {
        depth(&tid.to_string()) != Some(self.depth)
    }

    /// The process as it is put on record.
    pub fn row(&self, owner: Option<&Owner>) -> ProcessRow {
        ProcessRow {
            pid: owner.map_or(0, |o| o.pid),
            ident: owner.map_or(0, |o| o.ident),
            boot: self.boot.clone(),
            pidns: self.pidns,
        }
    }

    /// What is known of a process on record.
    pub fn recall(&self, row: &ProcessRow) -> Recalled {
        if row.boot != self.boot {
            return Recalled::Ended;
        }
        if row.pidns != self.pidns {
            return Recalled::Elsewhere;
        }
        match Owner::of_pid(row.pid).filter(|o| o.ident == row.ident) {
            Some(owner) => Recalled::Lives(owner),
            None => Recalled::Ended,
        }
    }
}

/// What has become of a process on record.
#[derive(Debug)]
pub enum Recalled {
    /// It lives.
    Lives(Owner),
    /// It has ended, whoever has its number now.
    Ended,
    /// Its number counts in another pid namespace.
    Elsewhere,
}

fn depth(task: &str) -> Option<usize> {
    let status = proc_text(format!("/proc/{task}/status")).ok()?;
    let numbers = status.lines().find_map(|l| l.strip_prefix("NSpid:"))?;
    Some(numbers.split_whitespace().count())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::model::{Clock, SystemClock};

    #[test]
    fn an_owner_lives_until_it_ends_and_its_number_is_nobody_else() {
        let before = SystemClock.now();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let owner = Owner::of_pid(child.id()).unwrap();
        assert!(owner.alive());
        let started = owner.started().unwrap();
        let slack = 1_000_000_000;
        assert!((before.0 - slack..SystemClock.now().0 + slack).contains(&started.0));
        let here = Here::now();
        let row = here.row(Some(&owner));
        assert!(matches!(here.recall(&row), Recalled::Lives(_)));
        assert!(!here.foreign(child.id()));
        let reused = ProcessRow { ident: row.ident + 1, ..row.clone() };
        assert!(matches!(here.recall(&reused), Recalled::Ended));
        let other_boot = ProcessRow { boot: "x".into(), ..row.clone() };
        assert!(matches!(here.recall(&other_boot), Recalled::Ended));
        let elsewhere = ProcessRow { pidns: 1, ..row.clone() };
        assert!(matches!(here.recall(&elsewhere), Recalled::Elsewhere));
        child.kill().unwrap();
        // Not reaped yet: a zombie has ended.
        poll(&mut [PollFd::new(&owner.end(), PollFlags::IN)], None).unwrap();
        assert!(!owner.alive());
        assert_eq!(owner.started(), None);
        assert!(Owner::of_pid(child.id()).is_none());
        child.wait().unwrap();
        assert!(matches!(here.recall(&row), Recalled::Ended));
    }
}
