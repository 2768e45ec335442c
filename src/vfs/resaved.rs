//! A refused text that is saved again: what stands on top of its `.refused` says what it was compared
//! with, and is no part of the text (SEMANTICS, R7 and section 4).

use std::ffi::OsStr;

use super::commit::{Failed, Saver};
use super::layer::Node;
use super::rescue::top_of;
use super::tree::{ROOT, Tree};
use crate::documents::Written;
use crate::documents::live::Saved;
use crate::fs::observed::Choice;
use crate::model::{Rule, View};

/// The part of a name that a `.refused` has.
const REFUSED: &str = ".refused";

impl Tree {
    /// What to save, and on which version, when the text has the lines of a `.refused` on top.
    pub(super) fn resaved<'t>(&self, view: View, text: &'t [u8]) -> Option<(Choice, Written<'t>)> {
        let top = top_of(text);
        if top.lines == 0 {
            return None;
        }
        if top.append {
            return Some((Choice::of(None, Rule::Append), Written::Fragment(top.text)));
        }
        let base = top.base.and_then(|rev| match self.docs.at(view.doc(), rev) {
            Ok(version) => version,
            Err(e) => {
                log::warn!("{}: revision {rev} cannot be read: {e}", view.name());
                None
            }
        });
        Some((Choice::of(base, Rule::Handle), Written::Whole(top.text)))
    }

    /// Saves it. The file that it was is not needed any more.
    pub(super) fn save_again(
        &self,
        saver: &Saver,
        view: View,
        (choice, written): (Choice, Written<'_>),
    ) -> Result<Saved, Failed> {
        let saved = self.save(saver, view, choice, written)?;
        self.forgive(view, saver, None, false);
        Ok(saved)
    }

    /// A `.refused` was looked up: whoever reads it meets the version that its text was compared with.
    pub(super) fn refused_looked_up(&self, parent: Node, name: &OsStr, node: Node) {
        let Some(name) = name.to_str().filter(|n| n.contains(REFUSED)) else { return };
        let path = match parent {
            ROOT => name.to_owned(),
            _ => match self.directory_path(parent) {
                Some(directory) => format!("{directory}/{name}"),
                None => return,
            },
        };
        if let Some((view, version)) = self.rescue.base_of(&path)
            && self.sources.get(node).is_none()
        {
            self.sources.copied(node, view, version);
        }
    }
}
