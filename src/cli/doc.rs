//! What is meant by DOC and DOC@REV.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::failure::{Failure, Result};
use super::target::Target;
use crate::daemon::Instance;
use crate::documents::Version;
use crate::model::{DocId, Rev, View};

/// A document as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doc {
    /// Which.
    pub id: DocId,
    /// Under which name, when a file name was given.
    pub view: Option<View>,
    /// `@REV`.
    pub rev: Option<Rev>,
    /// The directory, when a path was given.
    dir: Option<PathBuf>,
}

impl Doc {
    /// Reads `missions.md`, `config`, `missions.md@12`, `dir/config.json@3`.
    pub fn parse(text: &str) -> Result<Doc> {
        let (name, rev) = match text.rsplit_once('@') {
            Some((name, rev)) => {
                let rev = number(rev).ok_or_else(|| not_a_revision(text))?;
                (name, Some(rev))
            }
            None => (text, None),
        };
        let (dir, base) = match name.rsplit_once('/') {
            Some(("", base)) => (Some(PathBuf::from("/")), base),
            Some((dir, base)) => (Some(PathBuf::from(dir)), base),
            None => (None, name),
        };
        let view = View::from_name(base.as_bytes());
        let id = view.map(View::doc).or_else(|| DocId::parse(base));
        match id {
            Some(id) => Ok(Doc { id, view, rev, dir }),
            None => Err(Failure::usage(format!("{text}: no document has this name")).hint(
                "missions.md, missions-quarantine.md, config.json, config.yaml, or missions, \
                 quarantine, config",
            )),
        }
    }

    /// The instance: by the path, else by `-C`, else by the current directory.
    pub fn target(&self, global: Option<&Path>) -> Result<Target> {
        Target::find(self.dir.as_deref(), global)
    }

    /// The name as people know it.
    pub fn name(&self) -> &'static str {
        self.view.map_or_else(|| self.id.as_str(), View::name)
    }

    /// The name whose text is meant in this version.
    pub fn view_in(&self, version: &Version) -> View {
        let first = || self.id.views().next();
        self.view.or_else(|| version.state.source()).or_else(first).unwrap_or(View::MissionsMd)
    }

    /// The other revision of the same document: `@12`, `12`, or with the name in front.
    pub fn other(&self, text: &str) -> Result<Rev> {
        let (name, rev) = text.rsplit_once('@').unwrap_or(("", text));
        let same = name.is_empty() || Doc::parse(name).is_ok_and(|d| d.id == self.id);
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
            None => Ok(instance.live.current(self.id)?),
        }
    }

    /// The version of this revision; one that is not on record fails with those that are.
    pub fn at(&self, instance: &Instance, rev: Rev) -> Result<Arc<Version>> {
        match instance.live.at(self.id, rev)? {
            Some(version) => Ok(version),
            None => Err(self.unknown(instance, rev)?),
        }
    }

    /// The bytes of this version.
    pub fn text(&self, version: &Version) -> Result<Vec<u8>> {
        let view = self.view_in(version);
        match version.view(view) {
            Some(content) => Ok(content.to_vec()),
            None => Err(Failure::new(format!("there is no {} in {}", view.name(), version.rev))),
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
                    let other = r.doc.as_str();
                    format!("{name} has no revision {rev}, it is one of {other}; {there}")
                }
                _ => format!("{name} has no revision {rev}; {there}"),
            }
        };
        Ok(Failure::new(message).hint(format!("`instancefs log {name}` lists them")))
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
    fn reads_names_paths_and_revisions() {
        let doc = Doc::parse("missions.md@12").unwrap();
        assert_eq!(
            (doc.id, doc.view, doc.rev),
            (DocId::Missions, Some(View::MissionsMd), Some(Rev(12)))
        );
        let doc = Doc::parse("a@b/config.yaml").err();
        assert!(doc.is_some(), "what follows the last @ is a revision");
        let doc = Doc::parse("/x/config.json@3").unwrap();
        assert_eq!((doc.view, doc.dir), (Some(View::ConfigJson), Some("/x".into())));
        assert_eq!(Doc::parse("config").unwrap().view, None);
        for bad in ["", "outbox.md", "missions.md@", "missions.md@x", "@3", "missions.md@-1"] {
            assert_eq!(Doc::parse(bad).unwrap_err().exit, super::super::Exit::Usage, "{bad}");
        }
    }
}
