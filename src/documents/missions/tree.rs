//! The state: entries in text order in shared chunks.
//!
//! A [`Core`] is an immutable run of about two hundred entries with its bytes; versions
//! share cores, and two versions are compared by the pointers of their cores. What belongs
//! to rows only (row id, sequence) lies beside a core in its [`Slot`], because another
//! program may renew all of it without changing a letter.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::archive;
use super::entry::{Entry, Kind, Section};
use crate::documents::{Content, DocState, State};
use crate::model::{Stamp, View};

/// A core is split when it has more entries than this.
const FULL: usize = 256;
/// Size of the pieces of a long run.
const PIECE: usize = 160;
/// A changed run shorter than this joins its neighbour.
const SMALL: usize = 48;

/// An immutable run of entries.
pub struct Core {
    /// In text order; never empty.
    pub entries: Vec<Arc<Entry>>,
    /// The lines of all entries.
    pub bytes: Arc<[u8]>,
    archive: OnceLock<Arc<[u8]>>,
    /// Number of items per section, by [`Section`] as index.
    pub items: [u32; 8],
    /// Number of line ends.
    pub lines: u32,
    /// Some entry holds a fence that nothing closes.
    pub open_fence: bool,
    /// Some entry stands for itself.
    pub opaque: bool,
    /// Only empty lines.
    pub blank: bool,
    /// Which sections have a header here, by [`Section`] as index.
    pub headers: [bool; 8],
}

impl Core {
    /// From at least one entry.
    pub fn new(entries: Vec<Arc<Entry>>) -> Arc<Core> {
        let size = entries.iter().map(|e| e.raw.len()).sum();
        let mut bytes = Vec::with_capacity(size);
        let (mut items, mut headers) = ([0; 8], [false; 8]);
        for e in &entries {
            bytes.extend_from_slice(e.raw.as_bytes());
            if e.is_item() {
                items[e.section as usize] += 1;
            }
            headers[e.section as usize] |= matches!(e.kind, Kind::Header);
        }
        Arc::new(Core {
            lines: u32::try_from(bytes.iter().filter(|b| **b == b'\n').count()).unwrap_or(u32::MAX),
            open_fence: entries.iter().any(|e| e.open_fence),
            opaque: entries.iter().any(|e| e.opaque),
            blank: entries.iter().all(|e| e.is_blank()),
            bytes: bytes.into(),
            archive: OnceLock::new(),
            items,
            headers,
            entries,
        })
    }

    /// The section in force at its end.
    pub fn last_section(&self) -> Section {
        self.entries.last().map_or(Section::Preamble, |e| e.section)
    }

    fn archive(&self) -> Arc<[u8]> {
        self.archive.get_or_init(|| archive::entries(&self.entries).into()).clone()
    }
}

/// Row bookkeeping of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// `sequence`
    pub sequence: i64,
    /// `id`
    pub id: i64,
}

/// Row bookkeeping of a core.
#[derive(Debug, PartialEq, Eq)]
pub struct RowBook {
    /// One place per entry.
    pub keys: Vec<Option<RowKey>>,
    /// Per table: smallest and largest sequence.
    pub ranges: Vec<(&'static str, i64, i64)>,
}

/// Shared row bookkeeping.
pub type Rows = Arc<RowBook>;

impl RowBook {
    /// For a core, with one key per entry.
    pub fn new(core: &Core, keys: Vec<Option<RowKey>>) -> Rows {
        let mut ranges: Vec<(&'static str, i64, i64)> = Vec::new();
        for (e, key) in core.entries.iter().zip(&keys) {
            let Some(RowKey { sequence, .. }) = *key else { continue };
            let table = e.section.table();
            match ranges.iter_mut().find(|r| r.0 == table) {
                Some(r) => (r.1, r.2) = (r.1.min(sequence), r.2.max(sequence)),
                None => ranges.push((table, sequence, sequence)),
            }
        }
        Arc::new(RowBook { keys, ranges })
    }
}

/// A core in a version.
#[derive(Clone)]
pub struct Slot {
    /// The entries.
    pub core: Arc<Core>,
    /// Their rows, as far as known: `None` until they were applied.
    pub rows: Option<Rows>,
}

impl Slot {
    /// A slot whose rows are not known.
    pub fn new(core: Arc<Core>) -> Slot {
        Slot { core, rows: None }
    }

    /// The row of the entry at this index.
    pub fn row(&self, index: usize) -> Option<RowKey> {
        self.rows.as_ref().and_then(|r| r.keys.get(index).copied().flatten())
    }
}

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
    pub slots: Arc<[Slot]>,
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
        Content::from_chunks(self.slots.iter().map(|s| s.core.bytes.clone()))
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

    /// The place for a further item of a section: after its last one, else after what
    /// stands under its header up to the next empty line at the end. `None`: no such header.
    /// Costs by the number of chunks.
    pub fn end_of(&self, section: Section) -> Option<Loc> {
        if let Some(last) = self.last_item(section) {
            return Some(Loc { index: last.index + 1, ..last });
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

/// A part of a new version: an old slot as it is, or changed entries.
pub enum Piece {
    /// Kept with its rows.
    Slot(Slot),
    /// New content.
    Entries(Vec<Arc<Entry>>),
}

/// Slots from pieces: runs of new content are cut to size, short ones join a neighbour.
pub fn assemble(pieces: impl IntoIterator<Item = Piece>) -> Arc<[Slot]> {
    let mut out: Vec<Slot> = Vec::new();
    let mut run: Vec<Arc<Entry>> = Vec::new();
    let mut pieces = pieces.into_iter().peekable();
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Entries(mut e) => run.append(&mut e),
            Piece::Slot(slot) => {
                let small = !run.is_empty() && run.len() < SMALL;
                if small && slot.core.entries.len() < PIECE {
                    run.extend(slot.core.entries.iter().cloned());
                } else {
                    flush(&mut run, &mut out);
                    out.push(slot);
                }
            }
        }
        if pieces.peek().is_none() {
            flush(&mut run, &mut out);
        }
    }
    out.into()
}

fn flush(run: &mut Vec<Arc<Entry>>, out: &mut Vec<Slot>) {
    if run.is_empty() {
        return;
    }
    if run.len() < SMALL
        && let Some(last) = out.last().filter(|s| s.core.entries.len() < PIECE)
    {
        let mut joined = last.core.entries.clone();
        joined.append(run);
        out.pop();
        *run = joined;
    }
    let pieces = if run.len() <= FULL { 1 } else { run.len().div_ceil(PIECE) };
    let size = run.len().div_ceil(pieces);
    while !run.is_empty() {
        let rest = run.split_off(size.min(run.len()));
        out.push(Slot::new(Core::new(std::mem::replace(run, rest))));
    }
}

/// Changes to a version, by place in that version.
#[derive(Default)]
pub struct Batch {
    /// `None` removes, `Some` replaces.
    pub set: HashMap<Loc, Option<Arc<Entry>>>,
    /// What comes before the entry at a place (index = length: at the end of the slot).
    pub before: HashMap<Loc, Vec<Arc<Entry>>>,
}

impl Batch {
    /// Nothing to do.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.before.is_empty()
    }

    /// Inserts after what was inserted there already.
    pub fn insert(&mut self, at: Loc, entry: Arc<Entry>) {
        self.before.entry(at).or_default().push(entry);
    }

    /// The version after the changes. Ends of lines: every entry but the last ends with one,
    /// and the last as it was in `state` (merge.md). A block is followed by an empty line.
    pub fn apply(mut self, state: &MissionsState) -> MissionsState {
        let mut next = state.clone();
        if self.is_empty() {
            return next;
        }
        let mut touched: Vec<usize> =
            self.set.keys().chain(self.before.keys()).map(|l| l.slot).collect();
        touched.sort_unstable();
        touched.dedup();
        let eol = state.eol();
        let ended = state.entries().next_back().is_none_or(|e| e.raw.ends_with('\n'));
        let mut touched = touched.into_iter().peekable();
        let mut pieces = Vec::with_capacity(state.slots.len() + 1);
        let slots = state.slots.len().max(1);
        for slot in 0..slots {
            if touched.next_if_eq(&slot).is_none() {
                pieces.extend(state.slots.get(slot).cloned().map(Piece::Slot));
                continue;
            }
            let old = state.slots.get(slot).map_or(&[][..], |s| &s.core.entries[..]);
            let mut new = Vec::with_capacity(old.len() + 1);
            for index in 0..=old.len() {
                let at = Loc { slot, index };
                new.extend(self.before.remove(&at).unwrap_or_default());
                match (self.set.remove(&at), old.get(index)) {
                    (Some(None), _) | (None, None) => {}
                    (Some(Some(e)), _) => new.push(e),
                    (None, Some(e)) => new.push(e.clone()),
                }
            }
            let following = state.slots.get(slot + 1).and_then(|s| s.core.entries.first());
            pieces.push(Piece::Entries(tidy(new, following, eol, ended, &mut next)));
        }
        next.slots = assemble(
            pieces.into_iter().filter(|p| !matches!(p, Piece::Entries(e) if e.is_empty())),
        );
        next
    }
}

/// Line ends and the empty line after a block, for a changed run before `following`.
fn tidy(
    run: Vec<Arc<Entry>>,
    following: Option<&Arc<Entry>>,
    eol: &str,
    ended: bool,
    ids: &mut MissionsState,
) -> Vec<Arc<Entry>> {
    let mut out: Vec<Arc<Entry>> = Vec::with_capacity(run.len());
    let mut run = run.into_iter().peekable();
    while let Some(mut entry) = run.next() {
        let after = run.peek().or(following).cloned();
        let has_end = entry.raw.ends_with('\n');
        if after.is_some() && !has_end {
            let raw = format!("{}{eol}", entry.raw);
            Arc::make_mut(&mut entry).raw = raw.into();
        } else if after.is_none() && !ended && has_end {
            let raw = entry.raw.trim_end_matches(['\r', '\n']).into();
            Arc::make_mut(&mut entry).raw = raw;
        }
        let block = entry.mission().is_some_and(|m| m.is_block());
        out.push(entry);
        if let (true, Some(after)) = (block, after) {
            let s = super::parse::stripped(&after.raw);
            if !(s.is_empty() || s.starts_with("## ") || s.starts_with("### ")) {
                let id = ids.line_id();
                out.push(Arc::new(blank(
                    id,
                    out.last().map_or(Section::Unknown, |e| e.section),
                    eol,
                )));
            }
        }
    }
    out
}

/// An empty line.
pub fn blank(id: u64, section: Section, eol: &str) -> Entry {
    Entry { id, kind: Kind::Layout, section, raw: eol.into(), opaque: false, open_fence: false }
}
