//! How a command fails: one line that says what and where, perhaps a hint, an exit code.

use crate::daemon::{DaemonError, MountpointProblem};
use crate::store::StoreError;

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did not work.
    Failure = 1,
    /// It was asked for in a way that makes no sense.
    Usage = 2,
    /// Somebody else has it, or changed it.
    Conflict = 3,
    /// A save was refused that was waited for.
    Refused = 4,
}

/// A failed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What and where.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// An ordinary failure.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failure, message: message.into(), hint: None }
    }

    /// Wrong usage that the parser cannot see.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, ..Failure::new(message) }
    }

    /// A failure that the daemon tells of itself: exit code, message, hint (may be empty).
    pub fn told(code: u8, message: String, hint: String) -> Failure {
        let exit = match code {
            2 => Exit::Usage,
            3 => Exit::Conflict,
            _ => Exit::Failure,
        };
        Failure { exit, message, hint: Some(hint).filter(|h| !h.is_empty()) }
    }

    /// A failure of which everything has been said.
    pub fn silent() -> Failure {
        Failure::new("")
    }

    /// The same, with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

impl From<DaemonError> for Failure {
    fn from(e: DaemonError) -> Failure {
        let exit = match &e {
            DaemonError::Held { .. } | DaemonError::Busy { .. } => Exit::Conflict,
            DaemonError::Mountpoint { problem: MountpointProblem::InUse(_), .. } => Exit::Conflict,
            DaemonError::Mountpoint { .. }
            | DaemonError::NotAStore { .. }
            | DaemonError::Mount { .. }
            | DaemonError::Daemon { .. }
            | DaemonError::Silent { .. }
            | DaemonError::Refused { .. }
            | DaemonError::TwoTruths { .. }
            | DaemonError::InTheWay { .. }
            | DaemonError::Settings { .. }
            | DaemonError::Store(_)
            | DaemonError::Io { .. } => Exit::Failure,
        };
        let hint = hint(&e);
        Failure { exit, message: e.to_string(), hint }
    }
}

impl From<StoreError> for Failure {
    fn from(e: StoreError) -> Failure {
        DaemonError::Store(e).into()
    }
}

fn hint(e: &DaemonError) -> Option<String> {
    Some(match e {
        DaemonError::Held { mountpoint: Some(m), .. } => {
            format!("use it at {}, or `instancefs unmount {}` first", m.display(), m.display())
        }
        DaemonError::NotAStore { path, .. } => {
            format!("`instancefs init {}` makes a store", path.display())
        }
        DaemonError::Mountpoint { path, problem } => match problem {
            MountpointProblem::Missing => format!("mkdir {}", path.display()),
            MountpointProblem::NotEmpty => {
                format!("`instancefs adopt {}` takes over what is in it", path.display())
            }
            MountpointProblem::InUse(_) => {
                format!("`instancefs unmount {}` takes it away", path.display())
            }
            MountpointProblem::NotADirectory
            | MountpointProblem::Nested
            | MountpointProblem::NotMounted => return None,
        },
        DaemonError::Busy { .. } => {
            "end these programs or leave the directory, or use --force".to_owned()
        }
        DaemonError::Silent { path, .. } if path.is_dir() => {
            format!("its log is {}", path.join(crate::daemon::names::LOG).display())
        }
        DaemonError::Refused { refusal, .. } if !refusal.hint.is_empty() => refusal.hint.clone(),
        DaemonError::TwoTruths { .. } => {
            "they are two views of one config: remove or rename one of them".to_owned()
        }
        _ => return None,
    })
}
