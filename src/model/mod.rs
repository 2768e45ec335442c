//! Plain types that every room shares: ids, times, actors, refusals, overlaps.

mod actor;
mod basis;
mod files;
mod refusal;
mod text;
mod time;

pub use actor::{Actor, Via, proc_text, session_of};
pub use basis::{Basis, Candidate, Rule};
pub use files::{FileId, FileKind};
pub use refusal::{Overlap, Reason, Refusal};
pub use text::shown;
pub use time::{Clock, Stamp, SystemClock};

/// A revision number: one committed change of any document. Numbers grow by commit order
/// over all documents of a store and are never used again. Zero is "before the first".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rev(pub u64);

impl std::fmt::Display for Rev {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A document: one truth, shown under one or two names. Its rows are in the database, except
/// that those of a managed file are the lines of the store's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocId {
    /// The task list: `missions.md`.
    Missions,
    /// What was set aside: `missions-quarantine.md`, read-only.
    Quarantine,
    /// The configuration: `config.json` and `config.yaml`.
    Config,
    /// A managed file.
    File(FileId),
}

impl DocId {
    /// The documents that every store has; managed files come and go.
    pub const ALL: [DocId; 3] = [DocId::Missions, DocId::Quarantine, DocId::Config];

    /// The name used in the database and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            DocId::Missions => "missions",
            DocId::Quarantine => "quarantine",
            DocId::Config => "config",
            DocId::File(file) => file.name(),
        }
    }

    /// The name for people: that of the database, of a managed file its path.
    pub fn shown(self) -> &'static str {
        self.file().map_or_else(|| self.as_str(), FileId::path)
    }

    /// The document with this database name: `missions`, or `file:PATH`.
    pub fn parse(name: &str) -> Option<DocId> {
        let fixed = Self::ALL.into_iter().find(|d| d.as_str() == name);
        fixed.or_else(|| FileId::from_name(name).map(DocId::File))
    }

    /// The names under which it is shown.
    pub fn views(self) -> impl Iterator<Item = View> {
        let file = match self {
            DocId::File(file) => Some(View::File(file)),
            _ => None,
        };
        View::ALL.into_iter().filter(move |v| v.doc() == self).chain(file)
    }

    /// The managed file that it is, if it is one.
    pub fn file(self) -> Option<FileId> {
        match self {
            DocId::File(file) => Some(file),
            _ => None,
        }
    }
}

/// One name of a document: in the root of the mount, or the path of a managed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
    /// `missions.md`
    MissionsMd,
    /// `missions-quarantine.md`
    QuarantineMd,
    /// `config.json`
    ConfigJson,
    /// `config.yaml`
    ConfigYaml,
    /// A managed file, wherever it is.
    File(FileId),
}

impl View {
    /// The names that every store may have; those of managed files come and go.
    pub const ALL: [View; 4] =
        [View::MissionsMd, View::QuarantineMd, View::ConfigJson, View::ConfigYaml];

    /// The file name; of a managed file its path below the root.
    pub fn name(self) -> &'static str {
        match self {
            View::MissionsMd => "missions.md",
            View::QuarantineMd => "missions-quarantine.md",
            View::ConfigJson => "config.json",
            View::ConfigYaml => "config.yaml",
            View::File(file) => file.path(),
        }
    }

    /// The view that the database calls so: a fixed name, else the path of a managed file.
    pub fn on_record(name: &str) -> View {
        View::from_name(name.as_bytes()).unwrap_or_else(|| View::File(FileId::of(name)))
    }

    /// The fixed view with this file name.
    pub fn from_name(name: &[u8]) -> Option<View> {
        Self::ALL.into_iter().find(|v| v.name().as_bytes() == name)
    }

    /// The document behind it.
    pub fn doc(self) -> DocId {
        match self {
            View::MissionsMd => DocId::Missions,
            View::QuarantineMd => DocId::Quarantine,
            View::ConfigJson | View::ConfigYaml => DocId::Config,
            View::File(file) => DocId::File(file),
        }
    }

    /// Whether every write-open is answered with `EROFS`.
    pub fn read_only(self) -> bool {
        matches!(self, View::QuarantineMd)
    }
}
