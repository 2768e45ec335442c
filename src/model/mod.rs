//! Plain types that every room shares: ids, times, actors, refusals, overlaps.

mod actor;
mod refusal;
mod time;

pub use actor::{Actor, Via, proc_text, session_of};
pub use refusal::{Overlap, Reason, Refusal};
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

/// A document: one truth in the database, shown under one or two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocId {
    /// The task list: `missions.md`.
    Missions,
    /// What was set aside: `missions-quarantine.md`, read-only.
    Quarantine,
    /// The configuration: `config.json` and `config.yaml`.
    Config,
}

impl DocId {
    /// All documents, in the order of their numbers in the database.
    pub const ALL: [DocId; 3] = [DocId::Missions, DocId::Quarantine, DocId::Config];

    /// The name used in the database and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            DocId::Missions => "missions",
            DocId::Quarantine => "quarantine",
            DocId::Config => "config",
        }
    }

    /// The document with this database name.
    pub fn parse(name: &str) -> Option<DocId> {
        Self::ALL.into_iter().find(|d| d.as_str() == name)
    }

    /// The names under which it is shown.
    pub fn views(self) -> impl Iterator<Item = View> {
        View::ALL.into_iter().filter(move |v| v.doc() == self)
    }
}

/// One name of a document in the root of the mount.
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
}

impl View {
    /// All names.
    pub const ALL: [View; 4] =
        [View::MissionsMd, View::QuarantineMd, View::ConfigJson, View::ConfigYaml];

    /// The file name.
    pub fn name(self) -> &'static str {
        match self {
            View::MissionsMd => "missions.md",
            View::QuarantineMd => "missions-quarantine.md",
            View::ConfigJson => "config.json",
            View::ConfigYaml => "config.yaml",
        }
    }

    /// The view with this file name.
    pub fn from_name(name: &[u8]) -> Option<View> {
        Self::ALL.into_iter().find(|v| v.name().as_bytes() == name)
    }

    /// The document behind it.
    pub fn doc(self) -> DocId {
        match self {
            View::MissionsMd => DocId::Missions,
            View::QuarantineMd => DocId::Quarantine,
            View::ConfigJson | View::ConfigYaml => DocId::Config,
        }
    }

    /// Whether every write-open is answered with `EROFS`.
    pub fn read_only(self) -> bool {
        matches!(self, View::QuarantineMd)
    }
}
