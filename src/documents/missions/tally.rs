//! How much a save has changed.

use super::entry::{Entry, Section};

/// What a save did, for the history's line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// New items.
    pub added: usize,
    /// Items that are gone.
    pub removed: usize,
    /// Items with another text or other columns.
    pub edited: usize,
    /// Items with another place or state.
    pub moved: usize,
    /// Items that are done now.
    pub done: usize,
    /// Lines that are no items.
    pub lines: usize,
}

impl Tally {
    /// Such as `2 added, 1 done`.
    pub fn summary(&self) -> String {
        let parts = [
            (self.added, "added"),
            (self.removed, "removed"),
            (self.edited, "edited"),
            (self.moved, "moved"),
            (self.done, "done"),
        ];
        let mut said: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        if said.is_empty() {
            said.push("layout".to_owned());
        }
        said.join(", ")
    }

    /// Counts one entry's change.
    pub fn count(&mut self, old: Option<&Entry>, new: Option<&Entry>) {
        match (old, new) {
            (Some(o), _) if !o.is_item() => self.lines += 1,
            (None, Some(n)) if !n.is_item() => self.lines += 1,
            (None, Some(_)) => self.added += 1,
            (Some(_), None) => self.removed += 1,
            (Some(o), Some(n)) if o.section != n.section && n.section == Section::Done => {
                self.done += 1;
            }
            (Some(o), Some(n)) if o.section != n.section => self.moved += 1,
            (Some(o), Some(n)) if o.kind != n.kind => self.edited += 1,
            (Some(_), Some(_)) => self.lines += 1,
            (None, None) => {}
        }
    }
}
