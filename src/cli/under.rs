//! Running a command under a lease.

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::failure::{Failure, Result};

/// Runs the command to its end: its exit code, 128 + N when signal N ended it. Signals that come
/// meanwhile are passed on to it; when this process is killed, so is the command.
///
/// The command finds the number of the lease in `INSTANCEFS_LOCK_TOKEN` and its name in
/// `INSTANCEFS_LOCK_NAME`.
pub fn run(command: &[OsString], name: &Path, token: u64) -> Result<i32> {
    let failed = |e: std::io::Error| Failure::new(format!("signals: {e}"));
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]).map_err(failed)?;
    let Some((program, args)) = command.split_first() else {
        return Err(Failure::usage("no command"));
    };
    let mut child = Command::new(program);
    child
        .args(args)
        .env("INSTANCEFS_LOCK_TOKEN", token.to_string())
        .env("INSTANCEFS_LOCK_NAME", name);
    let us = std::process::id();
    // SAFETY: prctl and getppid are async-signal-safe and touch nothing of the parent.
    unsafe {
        child.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // The parent may have ended before it was asked.
            if libc::getppid().cast_unsigned() == us {
                Ok(())
            } else {
                Err(std::io::Error::from_raw_os_error(libc::ESRCH))
            }
        });
    }
    let mut child = match child.spawn() {
        Ok(child) => child,
        Err(e) => {
            super::output::note(&format!("{}: {e}", Path::new(program).display()));
            return Ok(if e.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 });
        }
    };
    let process = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let handle = signals.handle();
    let passing = std::thread::spawn(move || {
        for signal in signals.forever() {
            if from_terminal(signal) {
                continue;
            }
            if let (Some(process), Some(signal)) = (&process, Signal::from_named_raw(signal)) {
                let _ = pidfd_send_signal(process, signal);
            }
        }
    });
    let status = child.wait();
    handle.close();
    let _ = passing.join();
    Ok(code(status.map_err(|e| Failure::new(format!("the command: {e}")))?))
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|n| 128 + n)).unwrap_or(1)
}

/// Whether the command has been sent the signal as well: those of the keyboard go to all of the
/// group that the terminal belongs to.
fn from_terminal(signal: i32) -> bool {
    if signal != SIGINT && signal != SIGQUIT {
        return false;
    }
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    // SAFETY: calls with numbers only; the descriptor is open.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}
