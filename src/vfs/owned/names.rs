//! Which names belong to processes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::documents::settings::{LEASES, MARKERS, NameEntry, Settings};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A live-session marker, named by this pid.
    Marker(u32),
    /// A lease.
    Lease,
}

/// The names of markers and leases: globs of paths relative to the store, in which `*` stays
/// within one directory.
#[derive(Debug, Clone)]
pub struct Names {
    markers: GlobSet,
    leases: GlobSet,
    /// The last components of the leases' globs: what is no such name needs no path.
    last: GlobSet,
    /// The globs of the directories in which they lie.
    dirs: Vec<String>,
}

impl Default for Names {
    fn default() -> Names {
        // The globs above are well-formed; a test sees to it.
        Names::new(MARKERS, LEASES).unwrap_or_else(|_| Names::none())
    }
}

impl Names {
    /// The names that match these globs.
    ///
    /// # Errors
    /// A glob is malformed.
    pub fn new<S: AsRef<str>>(
        markers: impl IntoIterator<Item = S>,
        leases: impl IntoIterator<Item = S>,
    ) -> Result<Names, globset::Error> {
        let (mut dirs, mut last) = (Vec::new(), Vec::new());
        let mut set = |globs: Vec<S>, lease: bool| {
            let mut set = GlobSetBuilder::new();
            for text in &globs {
                let text = text.as_ref();
                set.add(glob(text)?);
                let (dir, name) = text.rsplit_once('/').unwrap_or(("", text));
                dirs.push(dir.to_owned());
                if lease {
                    last.push(name.to_owned());
                }
            }
            set.build()
        };
        let markers = set(markers.into_iter().collect(), false)?;
        let leases = set(leases.into_iter().collect(), true)?;
        let mut names = GlobSetBuilder::new();
        for name in last {
            names.add(glob(&name)?);
        }
        dirs.sort();
        dirs.dedup();
        Ok(Names { markers, leases, last: names.build()?, dirs })
    }

    /// The names that are set in a store, else the usual ones.
    ///
    /// # Errors
    /// A glob is malformed.
    pub fn set_in(settings: &Settings) -> Result<Names, globset::Error> {
        let markers = globs(settings.markers.as_deref(), &MARKERS);
        let leases = globs(settings.leases.as_deref(), &LEASES);
        Names::new(markers, leases)
    }

    /// No name at all.
    pub fn none() -> Names {
        let none = GlobSet::empty;
        Names { markers: none(), leases: none(), last: none(), dirs: Vec::new() }
    }

    /// Whether this last component of a path may be one of the names.
    pub fn may_be(&self, name: &OsStr) -> bool {
        pid(name).is_some() || self.last.is_match(name)
    }

    /// What a path relative to the store stands for.
    pub fn kind(&self, path: &Path) -> Option<Kind> {
        if self.leases.is_match(path) {
            return Some(Kind::Lease);
        }
        let pid = pid(path.file_name()?)?;
        self.markers.is_match(path).then_some(Kind::Marker(pid))
    }

    /// The existing directories below `store` in which such names may lie, relative to it.
    pub fn dirs(&self, store: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for dir in &self.dirs {
            let parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
            expand(store, Path::new(""), &parts, &mut found);
        }
        found.sort();
        found.dedup();
        found
    }
}

/// The globs that are set, else the usual ones.
fn globs(set: Option<&[NameEntry]>, usual: &[&str]) -> Vec<String> {
    match set {
        Some(set) => set.iter().map(|name| name.glob.clone()).collect(),
        None => usual.iter().map(|&glob| glob.to_owned()).collect(),
    }
}

fn glob(text: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(text).literal_separator(true).build()
}

/// How deep `**` is followed.
const DEPTH: usize = 8;

fn expand(store: &Path, at: &Path, parts: &[&str], found: &mut Vec<PathBuf>) {
    let Some((first, rest)) = parts.split_first() else {
        if is_dir(&store.join(at)) {
            found.push(at.to_owned());
        }
        return;
    };
    let any = *first == "**";
    if !any && !first.contains(['*', '?', '[', '{', '\\']) {
        return expand(store, &at.join(first), rest, found);
    }
    if any {
        expand(store, at, rest, found);
    }
    let Ok(matcher) = glob(first).map(|g| g.compile_matcher()) else { return };
    let Ok(entries) = std::fs::read_dir(store.join(at)) else { return };
    for name in entries.flatten().map(|e| e.file_name()) {
        let below = at.join(&name);
        if !is_dir(&store.join(&below)) || below.components().count() > DEPTH {
            continue;
        }
        if any {
            expand(store, &below, parts, found);
        } else if matcher.is_match(&name) {
            expand(store, &below, rest, found);
        }
    }
}

fn is_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|m| m.is_dir())
}

/// The pid that a name is: decimal, as the kernel prints it.
pub(super) fn pid(name: &OsStr) -> Option<u32> {
    let bytes = name.as_bytes();
    if bytes.first().is_none_or(|b| *b == b'0') || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let pid: i32 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    u32::try_from(pid).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_names_and_leaves_the_others_alone() {
        let names = Names::default();
        let kind = |path: &str| names.kind(Path::new(path));
        for lease in
            ["scheduler.lock", "telegram.lock", "telegram-a.lock", "discord.lock", "discord-2.lock"]
        {
            assert_eq!(kind(lease), Some(Kind::Lease), "{lease}");
            assert!(names.may_be(OsStr::new(lease)));
        }
        assert_eq!(kind("models/sessions/12"), Some(Kind::Marker(12)));
        assert_eq!(kind("sessions.live/4194304"), Some(Kind::Marker(4_194_304)));
        for other in [
            "uv.lock",
            "a/scheduler.lock",
            "missions.lock",
            "sessions.live/x",
            "sessions.live/012",
            "sessions.live/12.tmp",
            "sessions.live/99999999999",
            "sessions.live/a/12",
            "12",
            "sessions.live/0",
        ] {
            assert_eq!(kind(other), None, "{other}");
        }
        assert!(!names.may_be(OsStr::new("uv.lock")));
    }

    #[test]
    fn finds_the_directories_of_its_globs() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["sessions.live", "a/live", "b/live", "b/dead", "c"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        assert_eq!(Names::default().dirs(dir.path()), ["", "sessions.live"].map(PathBuf::from));
        let names = Names::new(["*/live/*", "**/dead/*"], []).unwrap();
        assert_eq!(names.dirs(dir.path()), ["a/live", "b/dead", "b/live"].map(PathBuf::from));
        assert!(Names::new(["[x"], []).is_err());
    }

    #[test]
    fn what_is_set_in_the_store_counts_instead_of_the_usual_names() {
        let set = |text: &str| Names::set_in(&Settings::parse(text).unwrap()).unwrap();
        let names = set("[names]\nleases = [\"jobs/*.lease\"]\n");
        let kind = |path: &str| names.kind(Path::new(path));
        assert_eq!(kind("jobs/a.lease"), Some(Kind::Lease));
        assert_eq!(
            (kind("scheduler.lock"), kind("sessions.live/7")),
            (None, Some(Kind::Marker(7)))
        );
        assert_eq!(set("").kind(Path::new("telegram.lock")), Some(Kind::Lease));
    }
}
