//! Going to the background: the command starts the daemon as a program of its own and waits
//! until it says, through a pipe, that the mount answers.
//!
//! A new program rather than a fork: nothing of the command's state (threads, locks, open
//! files) is carried over. The pipe's end is told apart from an answer, so a daemon that dies
//! on the way never looks like one that is ready.

use std::ffi::OsString;
use std::io::{PipeReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::{DaemonError, Result, io};

/// How long a daemon may take from its start to a mount that answers. A large store is opened
/// and merged in it.
const PATIENCE: Duration = Duration::from_secs(120);

/// How the start of a daemon ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The mount answers.
    Ready {
        /// What the user should know, one line each.
        notes: Vec<String>,
    },
    /// It does not, and nothing is mounted.
    Failed {
        /// The exit code for the command.
        code: u8,
        /// What and where, one line.
        message: String,
        /// What to do about it, one line; may be empty.
        hint: String,
    },
}

/// Where a daemon says how its start ended.
#[derive(Debug, Default)]
pub struct Ready {
    pipe: Option<OwnedFd>,
}

impl Ready {
    /// Through this descriptor, which was passed by [`start`].
    pub fn through(fd: i32) -> std::io::Result<Ready> {
        Ok(Ready { pipe: Some(super::control::adopt_fd(fd)?) })
    }

    /// Nobody waits: the daemon runs in the foreground.
    pub fn nobody() -> Ready {
        Ready { pipe: None }
    }

    /// Whether somebody waits for it.
    pub fn awaited(&self) -> bool {
        self.pipe.is_some()
    }

    /// Says how it ended; what is said later is not heard.
    pub fn tell(&mut self, outcome: &Outcome) {
        let Some(pipe) = self.pipe.take() else { return };
        let text = serde_json::to_vec(outcome).unwrap_or_default();
        if let Err(e) = std::fs::File::from(pipe).write_all(&text) {
            log::warn!("the command that started the daemon is gone: {e}");
        }
    }
}

/// Starts this program again with `args` and `--ready-fd N`, in the background, and waits for
/// its outcome. A daemon that says nothing in time is ended.
pub fn start(args: &[OsString], store: &Path) -> Result<Outcome> {
    let failed = |e: std::io::Error| io(store, "cannot start the daemon")(e);
    let (reading, writing) = std::io::pipe().map_err(failed)?;
    // The command has a single thread here, so no other child inherits the descriptor.
    rustix::io::fcntl_setfd(&writing, rustix::io::FdFlags::empty())
        .map_err(|e| failed(e.into()))?;
    let name = std::env::args_os().next().unwrap_or_else(|| "instancefs".into());
    let mut daemon = Command::new("/proc/self/exe")
        .arg0(name)
        .args(args)
        .arg("--ready-fd")
        .arg(writing.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    drop(writing);
    match read_within(reading, PATIENCE) {
        Some(text) if !text.is_empty() => {
            serde_json::from_slice(&text).map_err(|e| failed(e.into()))
        }
        Some(_) => {
            let how = daemon.wait().map(|s| s.to_string()).unwrap_or_default();
            Err(DaemonError::Silent {
                path: store.to_owned(),
                message: format!("the daemon ended before the mount answered ({how})"),
            })
        }
        None => {
            let _ = daemon.kill();
            let _ = daemon.wait();
            Err(DaemonError::Silent {
                path: store.to_owned(),
                message: format!("no mount after {} s, the daemon was ended", PATIENCE.as_secs()),
            })
        }
    }
}

/// Everything up to the end of the pipe; `None` when it has not ended in time.
fn read_within(mut pipe: PipeReader, patience: Duration) -> Option<Vec<u8>> {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        let _ = tell.send(text);
    });
    told.recv_timeout(patience).ok()
}
