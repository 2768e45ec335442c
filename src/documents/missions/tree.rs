//! The state: entries in text order in shared chunks.

use std::any::Any;
use std::sync::Arc;

use super::archive;
use super::chunk::Slots;
use super::entry::{Entry, Kind, Section};
use crate::documents::{Content, DocState, State};
use crate::model::{Stamp, View};

/// A row that has vanished; it may come back (merge.md: within 60 s).
#[derive(Debug, Clone)]
pub struct Vanished {
    /// When it was missed.
    pub at: Stamp,
    /// What it was.
    pub entry: Arc<Entry>,
}

/// Where an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Loc {
    /// Index of the slot.
    pub slot: usize,
    /// Index of the entry; as a place for insertions: before this entry, the number of
    /// entries for the end.
    pub index: usize,
}

/// One version of the missions document.
#[derive(Clone)]
pub struct MissionsState {
    /// The text.
    pub slots: Slots,
    /// The next mission number.
    pub next_no: u64,
    /// The next line number.
    pub next_line: u64,
    /// Indented bullets are items of their own (section 3).
    pub nested_items: bool,
    /// The section in force before the first header: Pending in a text without any header,
    /// so that a bare list of items is a queue.
    pub start: Section,
    /// In memory only.
    pub vanished: Arc<[Vanished]>,
}

impl DocState for MissionsState {
    fn view(&self, view: View) -> Option<Content> {
        (view == View::MissionsMd).then(|| self.content())
    }

    fn archive(&self) -> Content {
        let head: Arc<[u8]> = archive::head(self).into_bytes().into();
        Content::from_chunks(
            std::iter::once(head).chain(self.slots.iter().map(|s| s.core.archive())),
        )
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl MissionsState {
    /// The text.
    pub fn content(&self) -> Content {
        self.slots.text()
    }

    /// The missions state behind a [`State`]; `None` when it is of another kind.
    pub fn of(state: &State) -> Option<&MissionsState> {
        state.as_any().downcast_ref()
    }

    /// All entries in text order.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.slots.iter().flat_map(|s| s.core.entries.iter())
    }

    /// All entries with their places.
    pub fn located(&self) -> impl DoubleEndedIterator<Item = (Loc, &Arc<Entry>)> {
        self.slots.iter().enumerate().flat_map(|(slot, s)| {
            s.core.entries.iter().enumerate().map(move |(index, e)| (Loc { slot, index }, e))
        })
    }

    /// The entry at a place.
    pub fn at(&self, loc: Loc) -> Option<&Arc<Entry>> {
        self.slots.get(loc.slot)?.core.entries.get(loc.index)
    }

    /// The section in force before a slot.
    pub fn section_before(&self, slot: usize) -> Section {
        match slot.checked_sub(1).and_then(|s| self.slots.get(s)) {
            Some(s) => s.core.last_section(),
            None => self.start,
        }
    }

    /// The place after this one.
    pub fn next(&self, loc: Loc) -> Option<Loc> {
        let core = &self.slots.get(loc.slot)?.core;
        if loc.index + 1 < core.entries.len() {
            return Some(Loc { index: loc.index + 1, ..loc });
        }
        (loc.slot + 1 < self.slots.len()).then_some(Loc { slot: loc.slot + 1, index: 0 })
    }

    /// The place before this one.
    pub fn previous(&self, loc: Loc) -> Option<Loc> {
        if loc.index > 0 {
            return Some(Loc { index: loc.index - 1, ..loc });
        }
        let slot = loc.slot.checked_sub(1)?;
        Some(Loc { slot, index: self.slots.get(slot)?.core.entries.len().checked_sub(1)? })
    }

    /// The line end of the file: that of its first line.
    pub fn eol(&self) -> &'static str {
        let first = self.slots.first().and_then(|s| s.core.entries.first());
        match first {
            Some(e) if e.raw.lines().count() > 0 => {
                let line = e.raw.split_inclusive('\n').next().unwrap_or_default();
                if line.ends_with("\r\n") { "\r\n" } else { "\n" }
            }
            _ => "\n",
        }
    }

    /// Number of items of a section. Costs by the number of chunks.
    pub fn count(&self, section: Section) -> u64 {
        self.slots.iter().map(|s| u64::from(s.core.items[section as usize])).sum()
    }

    /// The last item of a section in text order. Costs by the number of chunks.
    pub fn last_item(&self, section: Section) -> Option<Loc> {
        let slot = self.slots.iter().rposition(|s| s.core.items[section as usize] > 0)?;
        let index = self.slots[slot]
            .core
            .entries
            .iter()
            .rposition(|e| e.is_item() && e.section == section)?;
        Some(Loc { slot, index })
    }

    /// The first item of a section in text order.
    pub fn first_item(&self, section: Section) -> Option<Loc> {
        let slot = self.slots.iter().position(|s| s.core.items[section as usize] > 0)?;
        let index = self.slots[slot]
            .core
            .entries
            .iter()
            .position(|e| e.is_item() && e.section == section)?;
        Some(Loc { slot, index })
    }

    /// The first header of a section.
    pub fn header(&self, section: Section) -> Option<Loc> {
        let slot = self.slots.iter().position(|s| s.core.headers[section as usize])?;
        let is_it = |e: &Arc<Entry>| matches!(e.kind, Kind::Header) && e.section == section;
        Some(Loc { slot, index: self.slots[slot].core.entries.iter().position(is_it)? })
    }

    /// The place behind everything.
    pub fn end(&self) -> Loc {
        match self.slots.last() {
            Some(s) => Loc { slot: self.slots.len() - 1, index: s.core.entries.len() },
            None => Loc { slot: 0, index: 0 },
        }
    }

    /// Behind an item and the lines that follow it without an empty line between them, so that
    /// appended lines keep their order. The empty line that ends a block is none.
    fn behind(&self, item: Loc, section: Section) -> Loc {
        let block = self.at(item).and_then(|e| e.mission()).is_some_and(|m| m.is_block());
        let line = |loc: Loc| {
            self.at(loc).filter(|e| matches!(e.kind, Kind::Layout) && e.section == section)
        };
        let mut last = item;
        let mut at = self.next(item);
        if block && at.and_then(line).is_some_and(|e| e.is_blank()) {
            at = at.and_then(|loc| self.next(loc));
        }
        while let Some(loc) = at
            && line(loc).is_some_and(|e| !e.is_blank())
        {
            last = loc;
            at = self.next(loc);
        }
        Loc { index: last.index + 1, ..last }
    }

    /// The place for a further item of a section: after its last one, else after what
    /// stands under its header up to the next empty line at the end. `None`: no such header.
    /// Costs by the number of chunks.
    pub fn end_of(&self, section: Section) -> Option<Loc> {
        if let Some(last) = self.last_item(section) {
            return Some(self.behind(last, section));
        }
        let header = match self.header(section) {
            Some(h) => h,
            None if self.start == section => {
                return Some(Loc { slot: 0, index: 0 });
            }
            None => return None,
        };
        let (mut at, mut last) = (header, header);
        while let Some(next) = self.next(at) {
            match self.at(next) {
                Some(e) if matches!(e.kind, Kind::Layout) && e.section == section => {
                    if !e.is_blank() {
                        last = next;
                    }
                }
                _ => break,
            }
            at = next;
        }
        Some(Loc { index: last.index + 1, ..last })
    }

    /// A fresh line number.
    pub fn line_id(&mut self) -> u64 {
        self.next_line += 1;
        self.next_line - 1
    }

    /// A fresh id for an entry of this kind.
    pub fn fresh_id(&mut self, kind: &Kind) -> u64 {
        if matches!(kind, Kind::Mission(_)) {
            self.next_no += 1;
            self.next_no - 1
        } else {
            self.line_id()
        }
    }

    /// Both have the same cores, one by one.
    pub fn same_text(&self, other: &MissionsState) -> bool {
        self.slots.len() == other.slots.len()
            && self.slots.iter().zip(other.slots.iter()).all(|(a, b)| Arc::ptr_eq(&a.core, &b.core))
    }
}
