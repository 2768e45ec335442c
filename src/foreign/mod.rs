//! The databases of atomic-agent that live in a store beside `missions.db`: `sessions.sqlite`,
//! `tasks.sqlite` and `memory.sqlite`.
//!
//! They belong to the program. Nothing here changes a row of theirs but [`import`], which only
//! adds rows; the views in the mount read them ([`view`]). All SQL about them is in this room.
//!
//! Their schemas differ by version, so no column is taken for granted: what both sides have is
//! used. Rows are written by others and may hold anything.

mod error;
pub mod import;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
pub mod schema;
pub mod snapshot;
pub mod view;

pub use error::{ForeignError, Result};

/// One of the databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Database {
    /// `sessions.sqlite`
    Sessions,
    /// `tasks.sqlite`
    Tasks,
    /// `memory.sqlite`
    Memory,
}

impl Database {
    /// All, in the order in which they are imported: tasks refer to sessions.
    pub const ALL: [Database; 3] = [Database::Sessions, Database::Tasks, Database::Memory];

    /// The file's name in a state directory.
    pub fn file_name(self) -> &'static str {
        match self {
            Database::Sessions => "sessions.sqlite",
            Database::Tasks => "tasks.sqlite",
            Database::Memory => "memory.sqlite",
        }
    }

    /// What is in it.
    pub fn parts(self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().filter(move |part| part.database() == self)
    }
}

/// A kind of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Conversations.
    Sessions,
    /// Queued and scheduled work.
    Tasks,
    /// Notes (`memories`).
    Notes,
    /// What is known about the person (`profile_facts`).
    Profile,
}

impl Part {
    /// All, in the order in which they are imported.
    pub const ALL: [Part; 4] = [Part::Sessions, Part::Tasks, Part::Notes, Part::Profile];

    /// Its name in messages and in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Part::Sessions => "sessions",
            Part::Tasks => "tasks",
            Part::Notes => "notes",
            Part::Profile => "profile",
        }
    }

    /// The name in the root of a mount under which its rows are shown.
    pub fn shown_as(self) -> &'static str {
        match self {
            Part::Profile => "profile.json",
            other => other.name(),
        }
    }

    /// The database that holds it.
    pub fn database(self) -> Database {
        match self {
            Part::Sessions => Database::Sessions,
            Part::Tasks => Database::Tasks,
            Part::Notes | Part::Profile => Database::Memory,
        }
    }

    /// The table that holds it.
    pub fn table(self) -> &'static str {
        match self {
            Part::Sessions => "sessions",
            Part::Tasks => "tasks",
            Part::Notes => "memories",
            Part::Profile => "profile_facts",
        }
    }
}
