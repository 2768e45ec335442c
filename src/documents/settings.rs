//! `instancefs.toml`: what the owner of a store has set.
//!
//! ```toml
//! [files]                       # globs in the order in which they are tried
//! "events/*.json" = "event"
//! "scratch/**" = "plain"
//!
//! [missions]
//! nested_bullets = "auto"       # auto, item or text
//!
//! [names]
//! markers = ["sessions.live/*"] # instead of the defaults
//! leases = ["scheduler.lock"]
//! ```
//!
//! Nothing in it is ignored: what is not understood is an error with its line and key.

use std::ops::Range;
use std::path::Path;

use globset::{Glob, GlobBuilder};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::documents::missions::NestedBullets;
use crate::model::FileKind;

/// The name of the file in the root of a store.
pub const NAME: &str = "instancefs.toml";

/// Where live-session markers lie, unless set otherwise.
pub const MARKERS: [&str; 2] = ["models/sessions/*", "sessions.live/*"];
/// Which names are leases, unless set otherwise.
pub const LEASES: [&str; 4] =
    ["scheduler.lock", "telegram.lock", "telegram-*.lock", "discord*.lock"];

/// The largest file that is read, in bytes.
const LIMIT: u64 = 1 << 20;
/// What [`FileEntry::kind`] is called when it is none.
const PLAIN: &str = "plain";

/// What is set in a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `[files]`, in order. What fits none of them is decided by the defaults.
    pub files: Vec<FileEntry>,
    /// `missions.nested_bullets`.
    pub nested_bullets: NestedBullets,
    /// `names.markers`; `None`: [`MARKERS`].
    pub markers: Option<Vec<NameEntry>>,
    /// `names.leases`; `None`: [`LEASES`].
    pub leases: Option<Vec<NameEntry>>,
}

/// An entry of `[files]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// A well-formed glob, relative to the root.
    pub glob: String,
    /// The kind of the files; `None`: plain.
    pub kind: Option<FileKind>,
    /// Where it stands, from 1.
    pub line: usize,
}

/// An element of a list in `[names]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameEntry {
    /// A well-formed glob, relative to the root.
    pub glob: String,
    /// Where it stands, from 1.
    pub line: usize,
}

/// Why `instancefs.toml` cannot be used. The message is one line that says where and what.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{NAME}{}: {}{message}", .line.map(|l| format!(":{l}")).unwrap_or_default(), .key.as_ref().map(|k| format!("{k}: ")).unwrap_or_default())]
pub struct SettingsError {
    /// Where it stands, from 1.
    pub line: Option<usize>,
    /// The key, such as `missions.nested_bullets`.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
}

/// A glob of paths below the root: case counts, `*` and `?` stay within one directory, `**`
/// crosses directories, a name that begins with a dot is no exception.
///
/// Errors: what is wrong with it, in words.
pub fn glob(text: &str) -> Result<Glob, String> {
    if text.is_empty() {
        return Err("an empty glob".into());
    }
    if text.starts_with('/') || text.starts_with("./") {
        return Err(
            "globs are relative to the root of the store: leave out what is before the first name"
                .into(),
        );
    }
    if text.ends_with('/') {
        return Err("globs are of files: write DIR/** for all that is in a directory".into());
    }
    if text.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("no path of a store has an empty part, . or ..".into());
    }
    GlobBuilder::new(text)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|e| e.kind().to_string())
}

impl Settings {
    /// Reads the text of `instancefs.toml`.
    pub fn parse(text: &str) -> Result<Settings, SettingsError> {
        let at = Lines(text);
        let table = DeTable::parse(text).map_err(|e| SettingsError {
            line: e.span().map(|s| at.line(&s)),
            key: None,
            message: e.message().lines().collect::<Vec<_>>().join("; "),
        })?;
        let mut settings = Settings::default();
        for (name, value) in table.get_ref() {
            let key = name.get_ref().as_ref();
            match key {
                "files" => settings.files = files(&at, at.table(key, value)?)?,
                "missions" => {
                    for (name, value) in at.table(key, value)? {
                        match name.get_ref().as_ref() {
                            "nested_bullets" => settings.nested_bullets = nested(&at, value)?,
                            _ => return Err(at.unknown("missions.", name, "nested_bullets")),
                        }
                    }
                }
                "names" => {
                    for (name, value) in at.table(key, value)? {
                        let list = match name.get_ref().as_ref() {
                            "markers" => &mut settings.markers,
                            "leases" => &mut settings.leases,
                            _ => return Err(at.unknown("names.", name, "markers, leases")),
                        };
                        *list = Some(names(&at, name.get_ref(), value)?);
                    }
                }
                _ => return Err(at.unknown("", name, "files, missions, names")),
            }
        }
        Ok(settings)
    }

    /// Those of the store in this directory; without the file, the defaults.
    pub fn load(store: &Path) -> Result<Settings, SettingsError> {
        let failed = |e: std::io::Error| SettingsError::whole(e.to_string());
        let dir = std::fs::File::open(store).map_err(failed)?;
        match Found::look(&dir)? {
            None => Ok(Settings::default()),
            Some(found) => found.settings(),
        }
    }
}

impl SettingsError {
    fn whole(message: impl Into<String>) -> SettingsError {
        SettingsError { line: None, key: None, message: message.into() }
    }
}

/// The file as it was found. Never a symlink: that could lead into the mount, whose lookups
/// wait for the one who looks.
pub(super) struct Found {
    file: std::fs::File,
    meta: std::fs::Metadata,
}

impl Found {
    /// Opens it in the directory of a store; `None`: there is none.
    pub(super) fn look(dir: &std::fs::File) -> Result<Option<Found>, SettingsError> {
        use rustix::fs::{Mode, OFlags};
        use rustix::io::Errno;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(dir, NAME, flags, Mode::empty()) {
            Ok(fd) => std::fs::File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => {
                return Err(SettingsError::whole("is a symlink; it must be a file"));
            }
            Err(e) => return Err(SettingsError::whole(std::io::Error::from(e).to_string())),
        };
        let meta = file.metadata().map_err(|e| SettingsError::whole(e.to_string()))?;
        if !meta.is_file() {
            return Err(SettingsError::whole("is not a file"));
        }
        Ok(Some(Found { file, meta }))
    }

    /// What changes whenever its content does.
    pub(super) fn print(&self) -> (u64, u64, i64, i64, i64, i64) {
        use std::os::unix::fs::MetadataExt;
        let m = &self.meta;
        (m.ino(), m.len(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec())
    }

    /// Reads it.
    pub(super) fn settings(&self) -> Result<Settings, SettingsError> {
        use std::io::Read;
        if self.meta.len() > LIMIT {
            return Err(SettingsError::whole(format!("larger than {} MiB", LIMIT >> 20)));
        }
        let mut bytes = Vec::new();
        (&self.file)
            .take(LIMIT)
            .read_to_end(&mut bytes)
            .map_err(|e| SettingsError::whole(e.to_string()))?;
        let text = std::str::from_utf8(&bytes).map_err(|e| SettingsError {
            line: Some(1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count()),
            ..SettingsError::whole("not UTF-8")
        })?;
        Settings::parse(text)
    }
}

fn files(at: &Lines<'_>, table: &DeTable<'_>) -> Result<Vec<FileEntry>, SettingsError> {
    let mut out = Vec::with_capacity(table.len());
    for (name, value) in table {
        let text = name.get_ref().as_ref();
        let key = format!("files.{text:?}");
        glob(text).map_err(|why| at.error(&name.span(), &key, why))?;
        let named = at.text(&key, value)?;
        let kind = match FileKind::parse(named) {
            None if named == PLAIN => None,
            Some(kind) => Some(kind),
            None => {
                let known = FileKind::ALL.map(FileKind::as_str).join(", ");
                let why = format!("{named:?} is no kind; one of {known}, {PLAIN} is wanted");
                return Err(at.error(&value.span(), &key, why));
            }
        };
        out.push(FileEntry { glob: text.to_owned(), kind, line: at.line(&name.span()) });
    }
    Ok(out)
}

fn nested(at: &Lines<'_>, value: &Spanned<DeValue<'_>>) -> Result<NestedBullets, SettingsError> {
    let key = "missions.nested_bullets";
    match at.text(key, value)? {
        "auto" => Ok(NestedBullets::Auto),
        "item" => Ok(NestedBullets::Item),
        "text" => Ok(NestedBullets::Text),
        other => {
            let why = format!("{other:?} is none of auto, item, text");
            Err(at.error(&value.span(), key, why))
        }
    }
}

fn names(
    at: &Lines<'_>,
    name: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<Vec<NameEntry>, SettingsError> {
    let key = format!("names.{name}");
    let DeValue::Array(list) = value.get_ref() else {
        let why = format!("a list of globs is wanted, found: {}", value.get_ref().type_str());
        return Err(at.error(&value.span(), &key, why));
    };
    list.iter()
        .map(|element| {
            let text = at.text(&key, element)?;
            glob(text)
                .map_err(|why| at.error(&element.span(), &key, format!("{text:?}: {why}")))?;
            Ok(NameEntry { glob: text.to_owned(), line: at.line(&element.span()) })
        })
        .collect()
}

/// The text, to find lines in.
struct Lines<'t>(&'t str);

impl Lines<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.0.as_bytes().get(..span.start).unwrap_or(self.0.as_bytes());
        1 + before.iter().filter(|b| **b == b'\n').count()
    }

    fn error(&self, span: &Range<usize>, key: &str, message: impl Into<String>) -> SettingsError {
        let (line, key) = (Some(self.line(span)), Some(key.to_owned()));
        SettingsError { line, key, message: message.into() }
    }

    fn unknown(
        &self,
        above: &str,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        known: &str,
    ) -> SettingsError {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let key = match name.get_ref() {
            name if !name.is_empty() && name.chars().all(plain) => format!("{above}{name}"),
            name => format!("{above}{name:?}"),
        };
        self.error(&name.span(), &key, format!("no such setting; known here: {known}"))
    }

    fn table<'v, 'i>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'i>>,
    ) -> Result<&'v DeTable<'i>, SettingsError> {
        let why = || format!("a table is wanted, found: {}", value.get_ref().type_str());
        value.get_ref().as_table().ok_or_else(|| self.error(&value.span(), key, why()))
    }

    fn text<'v>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'_>>,
    ) -> Result<&'v str, SettingsError> {
        let why = || format!("a text is wanted, found: {}", value.get_ref().type_str());
        value.get_ref().as_str().ok_or_else(|| self.error(&value.span(), key, why()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_set() {
        let text = "# ours\n[files]\n\"events/*.json\" = \"event\"\n'notes/**' = 'plain'\n\
                    \"a.md\" = \"queue\"\n[missions]\nnested_bullets = \"item\"\n\
                    [names]\nmarkers = []\nleases = [\n  \"a.lock\",\n  \"b-*.lock\",\n]\n";
        let s = Settings::parse(text).unwrap();
        let files: Vec<_> = s.files.iter().map(|f| (f.glob.as_str(), f.kind, f.line)).collect();
        assert_eq!(
            files,
            [
                ("events/*.json", Some(FileKind::Event), 3),
                ("notes/**", None, 4),
                ("a.md", Some(FileKind::Queue), 5)
            ]
        );
        assert_eq!((s.nested_bullets, s.markers), (NestedBullets::Item, Some(Vec::new())));
        assert_eq!(s.leases.unwrap()[1], NameEntry { glob: "b-*.lock".into(), line: 12 });
        assert_eq!(Settings::parse("").unwrap(), Settings::default());
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        for (text, wanted) in [
            ("[files]\n\"a\" = \"b\"\n", "instancefs.toml:2: files.\"a\": \"b\" is no kind"),
            (
                "[files]\na = 1\n",
                "instancefs.toml:2: files.\"a\": a text is wanted, found: integer",
            ),
            (
                "\n[files]\n\"/a\" = \"text\"\n",
                "instancefs.toml:3: files.\"/a\": globs are relative",
            ),
            ("[files]\n\"a/../b\" = \"text\"\n", "instancefs.toml:2: files.\"a/../b\": no path"),
            ("[files]\n\"a[\" = \"text\"\n", "instancefs.toml:2: files.\"a[\": "),
            ("[files]\n\"a/\" = \"text\"\n", "instancefs.toml:2: files.\"a/\": globs are of files"),
            ("[file]\n", "instancefs.toml:1: file: no such setting; known here: files,"),
            (
                "\"a\\nb\" = 1\n",
                "instancefs.toml:1: \"a\\nb\": no such setting; known here: files,",
            ),
            ("files = 1\n", "instancefs.toml:1: files: a table is wanted"),
            ("[missions]\nnested = 1\n", "instancefs.toml:2: missions.nested: no such"),
            (
                "[missions]\nnested_bullets = \"no\"\n",
                "instancefs.toml:2: missions.nested_bullets: \"no\"",
            ),
            ("[names]\nleases = \"a\"\n", "instancefs.toml:2: names.leases: a list of globs"),
            ("[names]\nleases = [\"a\",\n\"/b\"]\n", "instancefs.toml:3: names.leases: \"/b\""),
            ("[files]\n\"a\" = \"text\"\n\"a\" = \"queue\"\n", "instancefs.toml:3: "),
            ("[files\n", "instancefs.toml:1: "),
        ] {
            let e = Settings::parse(text).unwrap_err().to_string();
            assert!(e.starts_with(wanted), "{e}\n{wanted}");
            assert!(!e.contains('\n'), "{e}");
        }
    }

    #[test]
    fn only_a_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Settings::load(dir.path()).unwrap(), Settings::default());
        let file = dir.path().join(NAME);
        std::fs::write(&file, "[files]\nx = \"text\"\n").unwrap();
        assert_eq!(Settings::load(dir.path()).unwrap().files.len(), 1);
        std::fs::write(&file, b"\n\xff").unwrap();
        assert_eq!(Settings::load(dir.path()).unwrap_err().line, Some(2));
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/null", &file).unwrap();
        assert!(Settings::load(dir.path()).unwrap_err().to_string().contains("symlink"));
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(Settings::load(dir.path()).unwrap_err().to_string().contains("not a file"));
    }
}
