//! What can go wrong in the life of a store and its daemon.

use std::path::{Path, PathBuf};

use crate::documents::settings::SettingsError;
use crate::fuse::MountError;
use crate::model::Refusal;
use crate::store::StoreError;

/// An error of the daemon's room. The message is one line that says what and where.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Another process holds the store.
    #[error("{}: {what} by process {pid}{}", .store.display(), at(.mountpoint))]
    Held {
        /// The store.
        store: PathBuf,
        /// What that process does with it: `served`, `being changed`.
        what: String,
        /// Its pid, 0 while it has not yet said.
        pid: u32,
        /// Where it shows the store.
        mountpoint: Option<PathBuf>,
    },
    /// No store there.
    #[error("{path}: {reason}")]
    NotAStore {
        /// What was looked at.
        path: PathBuf,
        /// Why it is none.
        reason: String,
    },
    /// A mount point that cannot be used.
    #[error("{path}: {problem}")]
    Mountpoint {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: MountpointProblem,
    },
    /// The kernel or the mount program said no.
    #[error("cannot mount at {}: {source}", .path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// The failure.
        source: MountError,
    },
    /// Programs use the mount.
    #[error("{path}: busy{}", by(.pids))]
    Busy {
        /// The mount point.
        path: PathBuf,
        /// Who uses it, as far as we may look.
        pids: Vec<(u32, String)>,
    },
    /// The daemon did not do what it was asked for.
    #[error("{path}: the daemon says: {message}")]
    Daemon {
        /// The store or mount point.
        path: PathBuf,
        /// Its answer.
        message: String,
    },
    /// The daemon ended or fell silent.
    #[error("{path}: {message}")]
    Silent {
        /// The store or mount point.
        path: PathBuf,
        /// What was waited for.
        message: String,
    },
    /// An import was refused; nothing was changed.
    #[error("{path}: {refusal}")]
    Refused {
        /// The file whose text was refused.
        path: PathBuf,
        /// Why.
        refusal: Refusal,
    },
    /// Two files that should say the same do not.
    #[error("{first} and {second} say different things{place}")]
    TwoTruths {
        /// The one.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// Where they differ, with a leading separator; empty when not known.
        place: String,
    },
    /// Something is in the way of what was asked.
    #[error("{path}: {reason}")]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// What is set in the store cannot be used.
    #[error("{}/{problem}", .store.display())]
    Settings {
        /// The store.
        store: PathBuf,
        /// What is wrong, and in which line.
        problem: SettingsError,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A failure of the file system.
    #[error("{path}: {doing}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, such as `cannot read`.
        doing: &'static str,
        /// The failure.
        source: std::io::Error,
    },
}

/// What is wrong with a mount point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountpointProblem {
    /// It does not exist.
    #[error("no such directory")]
    Missing,
    /// It is not a directory.
    #[error("not a directory")]
    NotADirectory,
    /// It holds something, which the mount would hide.
    #[error("the mount point is not empty")]
    NotEmpty,
    /// A mount of ours is there and answers.
    #[error("{0} is mounted here already")]
    InUse(String),
    /// It lies in the store, or the store in it.
    #[error("the mount point and the store must not lie in each other")]
    Nested,
    /// Nothing of ours is mounted there.
    #[error("no instancefs mount here")]
    NotMounted,
}

/// The result of this room.
pub type Result<T> = std::result::Result<T, DaemonError>;

/// Names the file in a failure of the file system: `io(path, "cannot read")`.
pub fn io<E: Into<std::io::Error>>(
    path: &Path,
    doing: &'static str,
) -> impl FnOnce(E) -> DaemonError + use<E> {
    let path = path.to_owned();
    move |e| DaemonError::Io { path, doing, source: e.into() }
}

fn at(mountpoint: &Option<PathBuf>) -> String {
    mountpoint.as_ref().map(|m| format!(" (mounted at {})", m.display())).unwrap_or_default()
}

fn by(pids: &[(u32, String)]) -> String {
    if pids.is_empty() {
        return String::new();
    }
    let list: Vec<String> =
        pids.iter().take(8).map(|(pid, name)| format!("{pid} ({name})")).collect();
    let more = if pids.len() > 8 { ", …" } else { "" };
    format!(", in use by {}{more}", list.join(", "))
}
