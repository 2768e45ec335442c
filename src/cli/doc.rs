//! What is meant by DOC and DOC@REV.

use std::path::Path;
use std::sync::Arc;

use super::failure::{Failure, Result};
use super::kinds;
use super::target::Target;
use crate::daemon::{Instance, history};
use crate::documents::Version;
use crate::documents::files::{Rules, StoreRules};
use crate::model::{DocId, FileId, Rev, View};
use crate::store::{Options, Store};
use crate::vfs::ports::Documents;

/// A document of an instance, as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doc {
    /// Which.
    pub id: DocId,
    /// Under which name, when a file name was given.
    pub view: Option<View>,
    /// `@REV`.
    pub rev: Option<Rev>,
    /// The instance.
    pub target: Target,
}

impl Doc {
    /// Finds `missions.md`, `config`, `missions.md@12`, `dir/config.json@3`, or a managed file:
    /// `outbox.md`, `journal/a.md@7`, with or without the path of the instance in front. The
    /// instance: by the path, else by `-C`, else by the current directory.
    pub fn find(text: &str, global: Option<&Path>) -> Result<Doc> {
        let (name, rev) = split(text)?;
        let unknown = |hint: &str| {
            Failure::usage(format!("{text}: no document has this name")).hint(hint.to_owned())
        };
        if name.is_empty() || name.ends_with('/') {
            return Err(unknown(FIXED));
        }
        if let Some((id, view)) = fixed(name) {
            let target = Target::find(None, global)?;
            return Ok(Doc { id, view, rev, target });
        }
        let (target, below) = kinds::place(Path::new(name), global)?;
        let Some(path) = below.to_str() else { return Err(unknown(FIXED)) };
        if let Some((id, view)) = fixed(path) {
            return Ok(Doc { id, view, rev, target });
        }
        let file = FileId::of(path);
        let (id, view) = (DocId::File(file), Some(View::File(file)));
        let managed = match StoreRules::lenient(&target.store) {
            Ok(rules) => rules.kind(path).is_some(),
            Err(_) => false,
        };
        // What was a managed file once has a history for ever.
        let looking = Options { read_only: true, ..Options::default() };
        if !managed && Store::open(&target.store, looking)?.span(id)?.is_none() {
            return Err(unknown(&format!(
                "{FIXED}, or the path of a managed file; `instancefs kinds {name}` says what it is"
            )));
        }
        Ok(Doc { id, view, rev, target })
    }

    /// Opens the store to look at the document; see [`history::look`].
    pub fn look(&self) -> Result<Instance> {
        Ok(history::look(&self.target.store, self.id.file())?)
    }

    /// The name as people know it.
    pub fn name(&self) -> &'static str {
        self.view.map_or_else(|| self.id.shown(), View::name)
    }

    /// The name whose text is meant in this version.
    pub fn view_in(&self, version: &Version) -> View {
        let first = || self.id.views().next();
        self.view.or_else(|| version.state.source()).or_else(first).unwrap_or(View::MissionsMd)
    }

    /// The other revision of the same document: `@12`, `12`, or with the name in front.
    pub fn other(&self, text: &str, global: Option<&Path>) -> Result<Rev> {
        let (name, rev) = text.rsplit_once('@').unwrap_or(("", text));
        let same = name.is_empty() || Doc::find(name, global).is_ok_and(|d| d.id == self.id);
        if !same {
            let what = format!("{text}: not a revision of {}", self.name());
            return Err(Failure::usage(what));
        }
        number(rev).ok_or_else(|| not_a_revision(text))
    }

    /// The version meant: the revision, else the current one.
    pub fn version(&self, instance: &Instance) -> Result<Arc<Version>> {
        match self.rev {
            Some(rev) => self.at(instance, rev),
            None => Ok(instance.documents.current(self.id)?),
        }
    }

    /// The version of this revision; one that is not on record fails with those that are.
    pub fn at(&self, instance: &Instance, rev: Rev) -> Result<Arc<Version>> {
        match instance.documents.at(self.id, rev)? {
            Some(version) => Ok(version),
            None => Err(self.unknown(instance, rev)?),
        }
    }

    /// The bytes of this version.
    pub fn text(&self, version: &Version) -> Result<Vec<u8>> {
        let view = self.view_in(version);
        match version.view(view) {
            Some(content) => Ok(content.to_vec()),
            None if version.rev == Rev(0) => {
                Err(Failure::new(format!("there is no {} yet", view.name())))
            }
            None => Err(Failure::new(format!(
                "there is no {} in revision {}",
                view.name(),
                version.rev
            ))),
        }
    }

    fn unknown(&self, instance: &Instance, rev: Rev) -> Result<Failure> {
        let name = self.name();
        let Some(span) = instance.store.span(self.id)? else {
            return Ok(Failure::new(format!("{name} has no revisions yet")));
        };
        let there = format!("there are {} to {}", span.oldest, span.newest);
        let message = if rev < span.oldest && span.pruned {
            format!("revision {rev} of {name} is not kept any more; {there}")
        } else {
            let before = Rev(rev.0.saturating_sub(1));
            let after = Some(Rev(rev.0.saturating_add(1)));
            let other = instance.store.history(None, before, after, 1)?;
            match other.first() {
                Some(r) if r.doc != self.id => {
                    let other = r.doc.shown();
                    format!("{name} has no revision {rev}, it is one of {other}; {there}")
                }
                _ => format!("{name} has no revision {rev}; {there}"),
            }
        };
        Ok(Failure::new(message).hint(format!("`instancefs log {name}` lists them")))
    }
}

/// The documents that every store has.
const FIXED: &str = "missions.md, missions-quarantine.md, config.json, config.yaml, or missions, quarantine, config";

/// One of them.
fn fixed(name: &str) -> Option<(DocId, Option<View>)> {
    let view = View::from_name(name.as_bytes());
    let id = view.map(View::doc).or_else(|| DocId::ALL.into_iter().find(|d| d.as_str() == name))?;
    Some((id, view))
}

/// The name and the number behind its last `@`.
fn split(text: &str) -> Result<(&str, Option<Rev>)> {
    match text.rsplit_once('@') {
        Some((name, rev)) => Ok((name, Some(number(rev).ok_or_else(|| not_a_revision(text))?))),
        None => Ok((text, None)),
    }
}

fn number(text: &str) -> Option<Rev> {
    text.parse().ok().map(Rev)
}

fn not_a_revision(text: &str) -> Failure {
    Failure::usage(format!("{text}: not a revision number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_revisions() {
        assert_eq!(split("missions.md@12").unwrap(), ("missions.md", Some(Rev(12))));
        assert_eq!(split("/x/config.json@3").unwrap(), ("/x/config.json", Some(Rev(3))));
        assert_eq!(split("journal/a.md").unwrap(), ("journal/a.md", None));
        assert_eq!(fixed("missions.md"), Some((DocId::Missions, Some(View::MissionsMd))));
        assert_eq!(fixed("config"), Some((DocId::Config, None)));
        assert_eq!((fixed("memory/missions.md"), fixed("file:outbox.md")), (None, None));
        for bad in ["missions.md@", "missions.md@x", "missions.md@-1", "a@b/config.yaml"] {
            assert_eq!(split(bad).unwrap_err().exit, super::super::Exit::Usage, "{bad}");
        }
    }

    #[test]
    fn finds_documents_and_managed_files_of_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        drop(crate::store::Store::create(&dir).unwrap());
        std::fs::create_dir(dir.join("memory")).unwrap();
        let find = |text: &str| Doc::find(text, Some(&dir));
        let file = |path| DocId::File(FileId::of(path));
        assert_eq!(find("missions").unwrap().view, None);
        let doc = find("outbox.md@4").unwrap();
        assert_eq!((doc.id, doc.rev, doc.name()), (file("outbox.md"), Some(Rev(4)), "outbox.md"));
        assert_eq!(doc.other("@7", None).unwrap(), Rev(7));
        assert_eq!(doc.other("outbox.md@7", Some(&dir)).unwrap(), Rev(7));
        assert!(doc.other("missions.md@7", Some(&dir)).is_err());
        // A name within a directory is not that of the document with rows.
        assert_eq!(find("memory/missions.md").unwrap().id, file("memory/missions.md"));
        let typed = format!("{}/journal/a.md", dir.display());
        assert_eq!(Doc::find(&typed, None).unwrap().id, file("journal/a.md"));
        let typed = format!("{}/config.json@3", dir.display());
        assert_eq!(Doc::find(&typed, None).unwrap().view, Some(View::ConfigJson));
        for bad in ["", "@3", "memory/", "plain.bin", "hooks/run.sh"] {
            assert_eq!(find(bad).unwrap_err().exit, super::super::Exit::Usage, "{bad}");
        }
    }
}
