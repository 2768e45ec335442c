//! The rules that hold in every store: what is never managed, what temporary files are called,
//! and the kinds that fit Kōan and atomic-agent (state-contracts section 6).

use super::rules::{Class, Origin, Rule};
use crate::model::{FileKind, View};

/// Names of ours, databases and what belongs to other tools: never managed.
const FIXED: [(&str, Class, &str); 16] = [
    ("missions.lock", Class::Lock, "the lock of programs that share missions.db"),
    ("instancefs.toml", Class::Own, "the settings of the store"),
    (".instancefs", Class::Own, "the hidden directory"),
    (".instancefs/**", Class::Own, "in the hidden directory"),
    (".instancefs-*", Class::Own, "a private file of the store"),
    ("**/*.db", Class::Database, "a database"),
    ("**/*.sqlite", Class::Database, "a database"),
    ("**/*.sqlite3", Class::Database, "a database"),
    ("**/*.db-*", Class::Database, "beside a database"),
    ("**/*.sqlite-*", Class::Database, "beside a database"),
    ("**/*.sqlite3-*", Class::Database, "beside a database"),
    ("**/.git", Class::Plain, "git's"),
    ("**/.git/**", Class::Plain, "git's"),
    ("**/.hg/**", Class::Plain, "Mercurial's"),
    ("**/node_modules/**", Class::Plain, "installed packages"),
    ("**/__pycache__/**", Class::Plain, "Python's cache"),
];

/// What editors, libraries and instancefs itself call files that are on their way or set
/// aside. The last two are Python's `tempfile`.
const TEMPORARY: [&str; 21] = [
    "**/*~",
    "**/*.tmp",
    "**/*.tmp.*",
    "**/.tmp*",
    "**/*.temp",
    "**/*.bak",
    "**/*.orig",
    "**/*.rej",
    "**/*.part",
    "**/*.sw[a-p]",
    "**/.#*",
    "**/#*#",
    "**/4913",
    "**/.goutputstream-*",
    "**/.fuse_hidden*",
    "**/.nfs*",
    "**/*.refused",
    "**/*.refused-*",
    "**/*.unsaved-*",
    "**/tmp[a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_]",
    "**/tmp[a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_].*",
];

/// What is managed unless set otherwise. A hidden file beside events is no event.
const KINDS: [(&str, FileKind); 9] = [
    ("events/.*.json", FileKind::Json),
    ("events/*.json", FileKind::Event),
    ("*.json", FileKind::Json),
    ("projects.yaml", FileKind::Yaml),
    ("automation_rules.yaml", FileKind::Yaml),
    ("outbox.md", FileKind::Queue),
    ("journal/**/*.md", FileKind::Queue),
    ("memory/**/*.md", FileKind::Text),
    ("*.md", FileKind::Text),
];

/// The rules that cannot be changed.
pub(super) fn fixed() -> Vec<Rule> {
    let documents =
        View::ALL.into_iter().map(|v| (v.name(), Class::Document, "rendered from rows"));
    documents
        .chain(FIXED)
        .map(|(glob, class, about)| Rule {
            glob: glob.to_owned(),
            class,
            origin: Origin::Fixed,
            about,
        })
        .collect()
}

/// Temporary names: plain, unless a glob in the settings spells out a part of the name.
pub(super) fn temporary() -> Vec<Rule> {
    let rule = |glob: &str| Rule {
        glob: glob.to_owned(),
        class: Class::Plain,
        origin: Origin::Default,
        about: "a temporary name",
    };
    TEMPORARY.into_iter().map(rule).collect()
}

/// The default kinds.
pub(super) fn kinds() -> Vec<Rule> {
    KINDS
        .into_iter()
        .map(|(glob, kind)| Rule {
            glob: glob.to_owned(),
            class: Class::Managed(kind),
            origin: Origin::Default,
            about: "",
        })
        .collect()
}
