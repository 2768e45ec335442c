//! What a store says of itself: the marker that it is one, and the journal of a command of
//! several steps, so that a repeated command knows what an interrupted one had done.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::error::{DaemonError, Result, io};
use super::names;
use super::whole::{Like, write_whole};

/// A command of several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// `init`
    Init,
    /// `adopt`
    Adopt,
    /// `eject`
    Eject,
    /// `export`
    Export,
}

/// An unfinished command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Which.
    pub doing: Doing,
    /// The directory on its other side: what `init` or `export` copies, what `adopt` or
    /// `eject` swaps with.
    #[serde(default)]
    pub other: Option<PathBuf>,
    /// `eject`: our tables go too.
    #[serde(default)]
    pub purge: bool,
}

impl Journal {
    /// Of a command with another directory.
    pub fn of(doing: Doing, other: Option<&Path>) -> Journal {
        Journal { doing, other: other.map(Path::to_owned), purge: false }
    }

    /// What was typed, or as good, to name it to a person. `dir` is where the journal lies.
    pub fn command(&self, dir: &Path) -> String {
        let (dir, other) = (dir.display(), self.other.as_deref().map(Path::display));
        match (self.doing, other) {
            (Doing::Init, Some(from)) => format!("instancefs init {dir} --from {from}"),
            (Doing::Init, None) => format!("instancefs init {dir}"),
            (Doing::Adopt, _) => format!("instancefs adopt {dir}"),
            (Doing::Eject, Some(other)) => format!("instancefs eject {other}"),
            (Doing::Eject, None) => format!("instancefs eject {dir}"),
            (Doing::Export, Some(store)) => format!("instancefs export {store} {dir}"),
            (Doing::Export, None) => "instancefs export".to_owned(),
        }
    }

    /// Why nothing else can be done in `dir`, where the journal lies.
    pub fn unfinished(&self, dir: &Path) -> String {
        let command = self.command(dir);
        format!(
            "another command was interrupted here; repeat it ({command}) or remove the directory"
        )
    }

    /// The journal in this directory, `None` when no command is unfinished there.
    pub fn read(dir: &Path) -> Result<Option<Journal>> {
        read(&dir.join(names::JOURNAL))
    }

    /// Puts it into the directory; durable when this returns.
    pub fn write(&self, dir: &Path) -> Result<()> {
        write(dir, names::JOURNAL, self)
    }

    /// The command is finished.
    pub fn done(dir: &Path) -> Result<()> {
        remove(&dir.join(names::JOURNAL))
    }
}

/// That a directory is a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// When it was made, local time with offset.
    pub made: String,
    /// By which version of instancefs.
    pub version: String,
    /// What `init --from` took in.
    #[serde(default)]
    pub from: Option<PathBuf>,
    /// `missions.db` was there before us and is not ours to remove.
    #[serde(default)]
    pub foreign_database: bool,
    /// The same of `missions.lock`.
    #[serde(default)]
    pub foreign_lock: bool,
}

impl Marker {
    /// The marker in this directory.
    pub fn read(dir: &Path) -> Result<Option<Marker>> {
        read(&dir.join(names::MARKER))
    }

    /// Puts it into the directory; durable when this returns.
    pub fn write(&self, dir: &Path) -> Result<()> {
        write(dir, names::MARKER, self)
    }
}

/// Removes a file; one that is not there is fine.
pub fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(io(path, "cannot remove")),
    }
}

fn write(dir: &Path, name: &str, what: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(what)
        .map_err(|e| io(&dir.join(name), "cannot write")(std::io::Error::from(e)))?;
    text.push(b'\n');
    write_whole(dir, name, &text, Like::PRIVATE)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {
            return Ok(None);
        }
        Err(e) => return Err(io(path, "cannot read")(e)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|e| DaemonError::InTheWay {
        path: path.to_owned(),
        reason: format!("not written by this version of instancefs: {e}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_there_until_it_is_done() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Journal::read(dir.path()).unwrap(), None);
        let journal = Journal::of(Doing::Adopt, Some(Path::new("/x")));
        journal.write(dir.path()).unwrap();
        assert_eq!(Journal::read(dir.path()).unwrap(), Some(journal));
        Journal::done(dir.path()).unwrap();
        assert_eq!(Journal::read(dir.path()).unwrap(), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        std::fs::write(dir.path().join(names::JOURNAL), "{").unwrap();
        assert!(Journal::read(dir.path()).is_err());
    }
}
