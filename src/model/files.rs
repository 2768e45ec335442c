//! Managed files: real files of the store whose saves get the same treatment as a document's.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::RwLock;

/// How a managed file is read, merged and judged (semantics R3, merge rules).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Valid JSON, merged by key.
    Json,
    /// A JSON object with a `mission` and a readable `run_at`, merged by key.
    Event,
    /// Valid YAML, merged by key, comments kept.
    Yaml,
    /// Any text, merged by line; a blind overwrite replaces.
    Text,
    /// Any text, merged by line; a blind overwrite appends, and a removal takes away only what
    /// the remover has read.
    Queue,
}

impl FileKind {
    /// All kinds.
    pub const ALL: [FileKind; 5] =
        [FileKind::Json, FileKind::Event, FileKind::Yaml, FileKind::Text, FileKind::Queue];

    /// The name used in settings and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            FileKind::Json => "json",
            FileKind::Event => "event",
            FileKind::Yaml => "yaml",
            FileKind::Text => "text",
            FileKind::Queue => "queue",
        }
    }

    /// The kind with this name.
    pub fn parse(name: &str) -> Option<FileKind> {
        Self::ALL.into_iter().find(|k| k.as_str() == name)
    }
}

/// What comes before the path in the name of a managed file in the database.
const PREFIX: &str = "file:";

/// A managed file by its path below the store's root, `/` between names, UTF-8. Two ids are
/// equal when their paths are. A path that was once named is remembered until the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

#[derive(Default)]
struct Paths {
    ids: HashMap<&'static str, FileId>,
    /// With [`PREFIX`], by number.
    names: Vec<&'static str>,
}

static PATHS: LazyLock<RwLock<Paths>> = LazyLock::new(RwLock::default);

impl FileId {
    /// The file with this path.
    pub fn of(path: &str) -> FileId {
        if let Some(id) = PATHS.read().ids.get(path) {
            return *id;
        }
        let mut paths = PATHS.write();
        if let Some(id) = paths.ids.get(path) {
            return *id;
        }
        let id = FileId(u32::try_from(paths.names.len()).unwrap_or(u32::MAX));
        let name: &'static str = Box::leak(format!("{PREFIX}{path}").into_boxed_str());
        paths.names.push(name);
        paths.ids.insert(&name[PREFIX.len()..], id);
        id
    }

    /// The file with this number, if there is one.
    pub fn from_number(number: u32) -> Option<FileId> {
        let known = PATHS.read().names.len();
        usize::try_from(number).is_ok_and(|n| n < known).then_some(FileId(number))
    }

    /// Its number in this process, counted from 0.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Its path.
    pub fn path(self) -> &'static str {
        &self.name()[PREFIX.len()..]
    }

    /// Its name in the database: `file:PATH`.
    pub fn name(self) -> &'static str {
        PATHS.read().names.get(self.0 as usize).copied().unwrap_or(PREFIX)
    }

    /// The file with this name in the database.
    pub fn from_name(name: &str) -> Option<FileId> {
        let path = name.strip_prefix(PREFIX)?;
        (!path.is_empty()).then(|| FileId::of(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_file() {
        let a = FileId::of("journal/a.md");
        assert_eq!((a, a.path()), (FileId::of("journal/a.md"), "journal/a.md"));
        assert_ne!(a, FileId::of("journal/b.md"));
        assert_eq!(FileId::from_name(a.name()), Some(a));
        assert_eq!(FileId::from_number(a.number()), Some(a));
        assert_eq!((FileId::from_number(u32::MAX), FileId::from_name("missions")), (None, None));
        assert!(FileKind::ALL.iter().all(|k| FileKind::parse(k.as_str()) == Some(*k)));
    }
}
