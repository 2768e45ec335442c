//! `instancefs kinds`.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use clap::Args;

use super::failure::{Failure, Result};
use super::output::{line, raw};
use super::target::Target;
use crate::daemon::DaemonError;
use crate::documents::files::{Class, Origin, Rule, RuleSet, SIZE_LIMIT, StoreRules};
use crate::foreign::Part;

/// Arguments of `kinds`.
#[derive(Debug, Args)]
#[command(after_help = "\
A save of a managed file is one transaction, validated and merged like that of a document; the
kinds are json, event, yaml, text and queue. Which paths are managed is decided by the first glob
that fits: rules that cannot be changed, then [files] in instancefs.toml in the store, then names
of temporary files, then the defaults. * stays within a directory, ** crosses directories, case
counts, and a name that begins with a dot is no exception. Without PATH, prints these rules in
this order. A PATH need not exist.

Examples:
  instancefs kinds ~/instance/outbox.md
  instancefs -C ~/instance kinds events/a.json notes/b.md
  instancefs kinds --json | jq -r 'select(.kind == \"queue\").glob'")]
pub struct Kinds {
    /// Paths in a mount or a store; with -C also relative to that instance
    pub paths: Vec<PathBuf>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Kinds, instance: Option<&Path>) -> Result<()> {
    if args.paths.is_empty() {
        let rules = rules(&Target::find(None, instance)?)?;
        rules.rules().for_each(|rule| print_rule(rule, args.json));
        return Ok(());
    }
    let mut known: Vec<(PathBuf, std::sync::Arc<RuleSet>)> = Vec::new();
    for path in &args.paths {
        let (target, below) = place(path, instance)?;
        let rules = match known.iter().find(|(store, _)| *store == target.store) {
            Some((_, rules)) => rules.clone(),
            None => {
                let rules = rules(&target)?;
                known.push((target.store.clone(), rules.clone()));
                rules
            }
        };
        let answer = Answer::of(&target.store, &below, &rules)
            .map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
        answer.print(path, args.json);
    }
    Ok(())
}

fn rules(target: &Target) -> Result<std::sync::Arc<RuleSet>> {
    let store = &target.store;
    let rules = StoreRules::open(store)
        .map_err(|problem| DaemonError::Settings { store: store.clone(), problem })?;
    Ok(rules.rules())
}

fn kind_of(class: Class) -> Option<&'static str> {
    match class {
        Class::Managed(kind) => Some(kind.as_str()),
        _ => None,
    }
}

fn print_rule(rule: &Rule, json: bool) {
    let (kind, what) = (kind_of(rule.class), rule.class.as_str());
    if !json {
        let about = if rule.about.is_empty() { "" } else { " # " };
        let origin = rule.origin;
        line(&format!("{:30} {:9} {origin}{about}{}", rule.glob, kind.unwrap_or(what), rule.about));
        return;
    }
    let (from, at) = match rule.origin {
        Origin::Fixed => ("fixed", None),
        Origin::Line(n) => ("settings", Some(n)),
        Origin::Default => ("default", None),
    };
    let object = serde_json::json!({
        "glob": rule.glob, "what": what, "kind": kind, "from": from, "line": at, "about": rule.about,
    });
    raw(format!("{object}\n"));
}

/// What a path is.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    what: &'static str,
    kind: Option<&'static str>,
    why: String,
}

impl Answer {
    fn new(what: &'static str, why: impl Into<String>) -> Answer {
        Answer { what, kind: None, why: why.into() }
    }

    /// What the path `below` the root of this store is. Looks at the store, not at the mount:
    /// no daemon is asked.
    fn of(store: &Path, below: &Path, rules: &RuleSet) -> std::io::Result<Answer> {
        if below.as_os_str().is_empty() {
            return Ok(Answer::new("directory", "the root"));
        }
        let Some(name) = below.to_str() else {
            return Ok(Answer::new("plain", "its name is not UTF-8"));
        };
        for dir in below.ancestors().skip(1).filter(|d| !d.as_os_str().is_empty()) {
            let found = std::fs::symlink_metadata(store.join(dir));
            if found.is_ok_and(|m| m.is_symlink()) {
                let why =
                    format!("{} is a symlink; what it leads to has its own path", dir.display());
                return Ok(Answer::new("link", why));
            }
        }
        let by_name = match rules.find(name) {
            Some(rule) => {
                Answer { what: rule.class.as_str(), kind: kind_of(rule.class), why: rule.why() }
            }
            None => Answer::new("plain", "no glob fits"),
        };
        // The names of documents and databases are ours, whatever the store has there.
        if !matches!(by_name.what, "managed" | "plain" | "marker" | "lease") {
            return Ok(by_name);
        }
        let meta = match std::fs::symlink_metadata(store.join(below)) {
            Ok(meta) => meta,
            Err(e) if missing(&e) => {
                if let Some(rows) = rows(store, below) {
                    return Ok(rows);
                }
                return Ok(Answer { why: by_name.why + "; no such file yet", ..by_name });
            }
            Err(e) => return Err(e),
        };
        let kind = meta.file_type();
        Ok(if kind.is_symlink() {
            Answer::new("link", "a symlink")
        } else if kind.is_dir() {
            Answer::new("directory", "a directory")
        } else if by_name.kind.is_none() {
            by_name
        } else if kind.is_fifo()
            || kind.is_socket()
            || kind.is_char_device()
            || kind.is_block_device()
        {
            Answer::new("plain", "no regular file")
        } else if meta.nlink() > 1 {
            Answer::new("plain", format!("it has {} hard links", meta.nlink()))
        } else if meta.len() > SIZE_LIMIT {
            Answer::new("plain", format!("larger than {} MiB", SIZE_LIMIT >> 20))
        } else {
            by_name
        })
    }

    fn print(&self, path: &Path, json: bool) {
        let path = path.to_string_lossy();
        if json {
            let Answer { what, kind, why } = self;
            let object =
                serde_json::json!({ "path": path, "what": what, "kind": kind, "why": why });
            return raw(format!("{object}\n"));
        }
        match self.kind {
            Some(kind) => line(&format!("{path}: {} as {kind}: {}", self.what, self.why)),
            None => line(&format!("{path}: {}: {}", self.what, self.why)),
        }
    }
}

/// What is shown there of a database's rows, where the store has nothing of that name.
fn rows(store: &Path, below: &Path) -> Option<Answer> {
    let top = below.components().next()?;
    let part = Part::ALL.into_iter().find(|part| top.as_os_str() == part.shown_as())?;
    let (database, own) = (part.database().file_name(), store.join(top));
    let free = own.symlink_metadata().is_err_and(|e| missing(&e));
    let shown = free && store.join(database).metadata().is_ok_and(|m| m.is_file() && m.len() > 0);
    shown.then(|| Answer::new("view", format!("read-only, from rows of {database}")))
}

fn missing(e: &std::io::Error) -> bool {
    matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The instance in which a path lies, and the path below its root.
pub(super) fn place(path: &Path, instance: Option<&Path>) -> Result<(Target, PathBuf)> {
    let here =
        std::path::absolute(path).map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
    let typed = plain_steps(&here);
    if let Some(instance) = instance {
        let target = Target::find(Some(instance), None)?;
        return match below(&target, &typed) {
            Some(below) => Ok((target, below)),
            None if path.is_relative() => Ok((target, plain_steps(path))),
            None => Err(Failure::new(format!(
                "{}: not in {}",
                path.display(),
                target.mountpoint.as_ref().unwrap_or(&target.store).display()
            ))),
        };
    }
    // The last name is not followed if it is a link, and need not exist.
    let dirs = typed.ancestors().skip(1).chain([typed.as_path()]);
    for dir in dirs {
        // What does not exist yet lies where its directory would.
        let Ok(Some(target)) = Target::at_or_above(dir) else { continue };
        if let Some(below) = below(&target, &typed) {
            return Ok((target, below));
        }
    }
    let none = format!("{}: no store and no mount of instancefs", path.display());
    Err(Failure::new(none).hint("give the instance with -C PATH"))
}

/// The path below the root of the instance, by the mount or by the store.
fn below(target: &Target, path: &Path) -> Option<PathBuf> {
    let roots: Vec<&Path> =
        target.mountpoint.iter().chain([&target.store]).map(PathBuf::as_path).collect();
    let strip =
        |path: &Path| roots.iter().find_map(|r| path.strip_prefix(r).ok().map(Path::to_owned));
    strip(path).or_else(|| {
        // By another name of a directory above.
        path.ancestors().skip(1).find_map(|dir| {
            let real = dir.canonicalize().ok()?;
            strip(&real.join(path.strip_prefix(dir).ok()?))
        })
    })
}

/// Without `.` and `..`, by the names alone.
fn plain_steps(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for step in path.components() {
        match step {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            step => out.push(step),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::documents::settings::Settings;

    #[test]
    fn what_is_there_can_keep_a_file_plain() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let rules = RuleSet::new(&Settings::default()).unwrap();
        let answer = |name: &str| {
            let a = Answer::of(dir.path(), Path::new(name), &rules).unwrap();
            (a.what, a.kind, a.why)
        };
        std::fs::create_dir_all(at("memory/sub.md")).unwrap();
        std::fs::write(at("memory/a.md"), "x").unwrap();
        std::fs::write(at("memory/b.md"), "x").unwrap();
        std::fs::hard_link(at("memory/b.md"), at("memory/c.md")).unwrap();
        std::os::unix::fs::symlink("a.md", at("memory/l.md")).unwrap();
        std::os::unix::fs::symlink("memory", at("journal")).unwrap();
        std::fs::File::create(at("big.md")).unwrap().set_len(SIZE_LIMIT + 1).unwrap();
        let default = |glob: &str, kind: &str| format!("\"{glob}\" = \"{kind}\" (default)");
        assert_eq!(
            answer("memory/a.md"),
            ("managed", Some("text"), default("memory/**/*.md", "text"))
        );
        assert_eq!(
            answer("outbox.md"),
            ("managed", Some("queue"), default("outbox.md", "queue") + "; no such file yet")
        );
        assert_eq!(answer("memory/c.md"), ("plain", None, "it has 2 hard links".into()));
        assert_eq!(answer("memory/l.md").0, "link");
        assert_eq!(answer("memory/sub.md").0, "directory");
        assert_eq!(answer("big.md"), ("plain", None, "larger than 64 MiB".into()));
        assert!(answer("journal/a.md").2.starts_with("journal is a symlink"));
        assert_eq!(answer("missions.md").0, "document");
        assert_eq!(answer("missions.lock").0, "lock");
        assert_eq!(answer("scheduler.lock").0, "lease");
        assert_eq!(answer("hooks/x.py").0, "plain");
        assert_eq!(answer("profile.json").0, "managed");
        std::fs::write(at("memory.sqlite"), "rows").unwrap();
        for name in ["profile.json", "notes", "notes/1.md"] {
            let why = "read-only, from rows of memory.sqlite".to_owned();
            assert_eq!(answer(name), ("view", None, why));
        }
        assert_eq!(answer("sessions/a.json").0, "plain");
        std::fs::write(at("profile.json"), "{}").unwrap();
        std::fs::create_dir(at("notes")).unwrap();
        assert_eq!((answer("profile.json").0, answer("notes/1.md").0), ("managed", "plain"));
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"memory/\xff.md"));
        assert!(Answer::of(dir.path(), odd, &rules).unwrap().why.contains("UTF-8"));
    }

    #[test]
    fn steps_up_and_in_place() {
        assert_eq!(plain_steps(Path::new("a/./b/../c.md")), Path::new("a/c.md"));
        assert_eq!(plain_steps(Path::new("/a/../../b")), Path::new("/b"));
    }
}
