//! New versions from old ones: changed stretches beside chunks that stay.

use std::collections::HashMap;
use std::sync::Arc;

use super::apart;
use super::chunk::{Core, Slot, Slots};
use super::entry::{Entry, Kind, Section};
use super::settle::opens;
use super::tree::{Loc, MissionsState};

/// A core is split when it has more entries than this.
const FULL: usize = 256;
/// Size of the pieces of a long run.
const PIECE: usize = 160;
/// A changed run shorter than this joins its neighbour.
const SMALL: usize = 48;

/// A part of a new version: an old slot as it is, or changed entries.
pub enum Piece {
    /// Kept with its rows.
    Slot(Slot),
    /// New content.
    Entries(Vec<Arc<Entry>>),
}

/// Slots from pieces: runs of new content are cut to size, short ones join a neighbour.
pub fn assemble(pieces: impl IntoIterator<Item = Piece>) -> Slots {
    slots_of(pieces).into()
}

fn slots_of(pieces: impl IntoIterator<Item = Piece>) -> Vec<Slot> {
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
    out
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
    // Every piece gets room for itself alone: it lives as long as the versions do.
    let mut rest = run.drain(..);
    while rest.len() > 0 {
        out.push(Slot::new(Core::new(rest.by_ref().take(size).collect())));
    }
}

/// Changes to a version, by place in that version.
#[derive(Clone, Default)]
pub struct Batch {
    /// `None` removes, `Some` replaces.
    pub set: HashMap<Loc, Option<Arc<Entry>>>,
    /// What comes before the entry at a place (index = length: at the end of the slot).
    pub before: HashMap<Loc, Vec<Arc<Entry>>>,
    /// Where the last item was inserted behind all others, with the section in force there, its
    /// own section, and how many there are since.
    last: Option<(Loc, Section, Section, usize)>,
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

    /// Inserts an item at a place in its section, `in_force` being the section there: among what
    /// was inserted there already, headers too, behind what belongs to that section.
    pub fn insert_item(&mut self, at: Loc, entry: Arc<Entry>, in_force: Section) {
        let run = self.before.entry(at).or_default();
        let own = entry.section;
        let item = entry.is_item();
        if item && self.last == Some((at, in_force, own, run.len())) {
            // One more of them.
            run.push(entry);
            self.last = Some((at, in_force, own, run.len()));
            return;
        }
        let (mut section, mut place) = (in_force, run.len());
        let mut found = section == entry.section;
        if found {
            place = 0;
        }
        for (i, e) in run.iter().enumerate() {
            let opened = opens(e);
            section = opened.unwrap_or(section);
            if section == entry.section && !e.is_blank() {
                (place, found) = (i + 1, true);
            }
        }
        let place = if found { place } else { run.len() };
        run.insert(place, entry);
        let behind = item && place + 1 == run.len();
        self.last = behind.then_some((at, in_force, own, run.len()));
    }

    /// The version after the changes. Ends of lines: every entry but the last ends with one,
    /// and the last as it was in `state` (merge.md). A block is followed by an empty line.
    pub fn apply(mut self, state: &MissionsState) -> MissionsState {
        let mut next = state.clone();
        if self.is_empty() {
            return next;
        }
        let mut places: Vec<Loc> = self.set.keys().chain(self.before.keys()).copied().collect();
        places.sort_unstable();
        places.dedup();
        let eol = state.eol();
        let ended = state.entries().next_back().is_none_or(|e| e.raw.ends_with('\n'));
        // Runs join the slots beside them, if any.
        let touched = |p: Option<&Loc>| p.map_or(0, |p| p.slot);
        let count = state.slots.len();
        let first = touched(places.first()).saturating_sub(1).min(count);
        let end = (touched(places.last()) + 2).clamp(first, count.max(1));
        let mut places = places.into_iter().peekable();
        let mut pieces = Vec::with_capacity(end - first);
        for slot in first..end {
            if places.peek().is_none_or(|p| p.slot != slot) {
                pieces.extend(state.slots.get(slot).cloned().map(Piece::Slot));
                continue;
            }
            let old = state.slots.get(slot).map_or(&[][..], |s| &s.core.entries[..]);
            let mut run = Run { entries: Vec::with_capacity(old.len() + 1), changed: Vec::new() };
            let mut from = 0;
            while let Some(at) = places.next_if(|p| p.slot == slot) {
                let index = at.index.min(old.len());
                run.entries.extend_from_slice(&old[from..index]);
                // What follows it is another entry now.
                run.changed.extend(run.entries.len().checked_sub(1));
                from = index;
                for e in self.before.remove(&at).into_iter().flatten() {
                    let place = apart::place(&run.entries, &e, state.nested_items);
                    run.put(place, e);
                }
                if let Some(set) = self.set.remove(&at) {
                    set.into_iter().for_each(|e| run.push(e));
                    from = (index + 1).min(old.len());
                }
            }
            run.entries.extend_from_slice(&old[from..]);
            run.changed.extend(run.entries.len().checked_sub(1));
            let following = state.slots.get(slot + 1).and_then(|s| s.core.entries.first());
            pieces.push(Piece::Entries(run.tidy(following, eol, ended, &mut next)));
        }
        let pieces = pieces.into_iter();
        let made = slots_of(pieces.filter(|p| !matches!(p, Piece::Entries(e) if e.is_empty())));
        let mut slots = Vec::with_capacity(count + 2);
        slots.extend_from_slice(&state.slots[..first]);
        slots.extend(made);
        slots.extend_from_slice(state.slots.get(end..).unwrap_or_default());
        next.slots = slots.into();
        next
    }
}

/// The entries of a changed slot.
struct Run {
    entries: Vec<Arc<Entry>>,
    /// Indices, growing, of those that changed or are followed by something else than before.
    changed: Vec<usize>,
}

impl Run {
    fn push(&mut self, entry: Arc<Entry>) {
        self.changed.push(self.entries.len());
        self.entries.push(entry);
    }

    /// Puts an entry before the one at `place`; at the end it is pushed.
    fn put(&mut self, place: usize, entry: Arc<Entry>) {
        if place == self.entries.len() {
            return self.push(entry);
        }
        self.entries.insert(place, entry);
        let later = self.changed.partition_point(|i| *i < place);
        self.changed[later..].iter_mut().for_each(|i| *i += 1);
        // What is before it is followed by another entry now.
        self.changed.splice(later..later, place.checked_sub(1).into_iter().chain([place]));
    }

    /// Line ends and the empty line after a block, where something has changed before
    /// `following`.
    fn tidy(
        mut self,
        following: Option<&Arc<Entry>>,
        eol: &str,
        ended: bool,
        ids: &mut MissionsState,
    ) -> Vec<Arc<Entry>> {
        self.changed.dedup();
        let mut blanks: Vec<(usize, Arc<Entry>)> = Vec::new();
        for &i in &self.changed {
            let (head, rest) = self.entries.split_at_mut(i + 1);
            let Some(entry) = head.last_mut() else { continue };
            let after = rest.first().or(following);
            let has_end = entry.raw.ends_with('\n');
            if after.is_some() && !has_end {
                let raw = format!("{}{eol}", entry.raw);
                Arc::make_mut(entry).raw = raw.into();
            } else if after.is_none() && !ended && has_end {
                let raw = entry.raw.trim_end_matches(['\r', '\n']).into();
                Arc::make_mut(entry).raw = raw;
            }
            let block = entry.mission().is_some_and(|m| m.is_block());
            if let (true, Some(after)) = (block, after) {
                let s = super::parse::stripped(&after.raw);
                if !(s.is_empty() || s.starts_with("## ") || s.starts_with("### ")) {
                    let id = ids.line_id();
                    blanks.push((i + 1, Arc::new(blank(id, entry.section, eol))));
                }
            }
        }
        for (at, blank) in blanks.into_iter().rev() {
            self.entries.insert(at, blank);
        }
        self.entries
    }
}

/// An empty line.
pub fn blank(id: u64, section: Section, eol: &str) -> Entry {
    Entry { id, kind: Kind::Layout, section, raw: eol.into(), opaque: false, open_fence: false }
}

#[cfg(test)]
mod tests;
