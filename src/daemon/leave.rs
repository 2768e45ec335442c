//! The asking side of `unmount`.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::control::{Answer, Connection, Request};
use super::error::{DaemonError, MountpointProblem, Result, io};
use super::{lock, mounts, users};

/// How long the daemon may take to answer, and to write the documents out.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to answer when it is to leave by force.
const FORCED_PATIENCE: Duration = Duration::from_secs(10);

/// Takes the mount away and waits until its daemon has ended. Returns what did not go as it
/// should, one line each. A dead mount is cleaned away. Unless `used` is allowed a mount that
/// programs use stays ([`DaemonError::Busy`]); with `silent` a mount whose daemon does not
/// answer is taken away without it.
pub fn unmount(store: &Path, mountpoint: &Path, used: bool, silent: bool) -> Result<Vec<String>> {
    let Some(mut daemon) = Connection::open(store) else {
        return without_daemon(store, mountpoint, silent);
    };
    daemon.ask(&Request::Unmount { force: used })?;
    let (mut left, mut process) = (None, None);
    // It says at once that it leaves; what takes time comes after that.
    let mut patience = if silent { FORCED_PATIENCE } else { PATIENCE };
    loop {
        let answer = match daemon.answer(patience) {
            Err(_) if silent && process.is_none() => return by_force(store, mountpoint),
            answer => answer?,
        };
        match answer {
            Some(Answer::Leaving { pid }) => {
                process = open_process(pid);
                patience = PATIENCE;
            }
            Some(Answer::Left { warnings }) => left = Some(warnings),
            Some(Answer::Busy) => {
                let pids = users::of(mountpoint);
                return Err(DaemonError::Busy { path: mountpoint.to_owned(), pids });
            }
            Some(Answer::Failed { message }) => {
                return Err(DaemonError::Daemon { path: mountpoint.to_owned(), message });
            }
            Some(_) => {}
            None => break,
        }
    }
    // It ended by itself, or was ended, before it could answer.
    let Some(warnings) = left else {
        return without_daemon(store, mountpoint, silent);
    };
    wait_until_free(store)?;
    if let Some(process) = process {
        wait_for_end(&process);
    }
    Ok(warnings)
}

/// No daemon listens: the mount is dead, or somebody holds the store without serving it, or the
/// daemon is another user's.
fn without_daemon(store: &Path, mountpoint: &Path, force: bool) -> Result<Vec<String>> {
    if let Some(holder) = lock::holder(store) {
        if force {
            return by_force(store, mountpoint);
        }
        return Err(DaemonError::Silent {
            path: store.to_owned(),
            message: format!("process {} holds it and does not answer", holder.pid),
        });
    }
    detach_dead(mountpoint)?;
    if mounts::at(mountpoint).map_err(io(mountpoint, "cannot look for mounts"))?.is_some() {
        return Err(DaemonError::Silent {
            path: mountpoint.to_owned(),
            message: "still mounted: its daemon cannot be asked, perhaps it is another user's"
                .to_owned(),
        });
    }
    Ok(vec!["the daemon was gone; the documents are written out at the next mount".to_owned()])
}

/// Takes the mount away from a daemon that does not answer. Should it go on, it finds its mount
/// gone, writes the documents out and ends.
fn by_force(store: &Path, mountpoint: &Path) -> Result<Vec<String>> {
    crate::fuse::detach_by_force(mountpoint)
        .map_err(|source| DaemonError::Mount { path: mountpoint.to_owned(), source })?;
    let who = lock::holder(store).map_or_else(String::new, |h| format!(" (process {})", h.pid));
    Ok(vec![format!("the daemon{who} did not answer; the mount was taken away without it")])
}

/// Takes dead mounts of ours away from a mount point, all that lie on each other.
pub fn detach_dead(mountpoint: &Path) -> Result<()> {
    crate::fuse::detach_dead(mountpoint)
        .map(drop)
        .map_err(|source| DaemonError::Mount { path: mountpoint.to_owned(), source })
}

/// Waits until the daemon, which has done everything, has ended.
fn wait_until_free(store: &Path) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while let Some(holder) = lock::holder(store) {
        if Instant::now() > until {
            return Err(DaemonError::Silent {
                path: store.to_owned(),
                message: format!("process {} does not end", holder.pid),
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn open_process(pid: u32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

/// Waits for the end of a process that has given the store back, so that it is only a moment.
fn wait_for_end(process: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience));
}

/// Fails unless a mount may be put there: an existing, empty directory without a mount of ours
/// that answers. A dead one is taken away.
pub fn make_room(mountpoint: &Path, store: &Path) -> Result<()> {
    let problem = |problem| DaemonError::Mountpoint { path: mountpoint.to_owned(), problem };
    let there = mounts::at(mountpoint).map_err(io(mountpoint, "cannot look for mounts"))?;
    if let Some(mount) = there {
        match mounts::probe(mountpoint, Duration::from_secs(5)) {
            mounts::Liveness::Dead => detach_dead(mountpoint)?,
            mounts::Liveness::Alive | mounts::Liveness::Silent => {
                return Err(problem(MountpointProblem::InUse(mount.store.display().to_string())));
            }
        }
    }
    if mountpoint.starts_with(store) || store.starts_with(mountpoint) {
        return Err(problem(MountpointProblem::Nested));
    }
    match std::fs::read_dir(mountpoint) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(problem(MountpointProblem::NotEmpty)),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(problem(MountpointProblem::Missing))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            Err(problem(MountpointProblem::NotADirectory))
        }
        Err(e) => Err(io(mountpoint, "cannot read")(e)),
    }
}
