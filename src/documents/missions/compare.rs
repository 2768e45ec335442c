//! A written text against a version: which entries are still there, changed, moved, new.
//!
//! Chunks whose bytes stand in the text unchanged are taken over by pointer; only the
//! stretches between them ("gaps") are parsed and matched.

use std::collections::HashMap;
use std::sync::Arc;

use super::batch::{Piece, assemble};
use super::entry::{Entry, Kind, Mission, Section};
use super::matching::{self, Pair};
use super::parse::Parser;
use super::tree::{Loc, MissionsState};
use crate::model::{Reason, Refusal};

/// A part of the written text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seg {
    /// The slot of the old version with this index.
    Same(usize),
    /// New entries, by index into [`Compared::new`].
    New(std::ops::Range<usize>),
}

/// An old entry that stands in a gap.
pub struct Old {
    /// Where.
    pub loc: Loc,
    /// The entry.
    pub entry: Arc<Entry>,
    /// It was found again in the text.
    pub found: bool,
}

/// A written entry that stands in a gap.
pub struct New {
    /// The entry; its id is 0 until it is known which one it is.
    pub entry: Arc<Entry>,
    /// The old entry that it is.
    pub pair: Option<Pair>,
}

/// The result of a comparison.
pub struct Compared {
    /// The text, in order.
    pub segs: Vec<Seg>,
    /// Old entries in gaps, in order.
    pub old: Vec<Old>,
    /// Written entries in gaps, in order.
    pub new: Vec<New>,
}

/// Checks what every text must be: UTF-8 without NUL (semantics section 5).
pub fn checked(bytes: &[u8]) -> Result<&str, Refusal> {
    let line = |at: usize| bytes[..at].iter().filter(|b| **b == b'\n').count() + 1;
    let text = std::str::from_utf8(bytes).map_err(|e| {
        Refusal::new(Reason::Invalid, "not valid UTF-8")
            .at_line(line(e.valid_up_to()))
            .hint("save the file as UTF-8")
    })?;
    // Asking first is the faster way through a large text.
    if bytes.contains(&0)
        && let Some(at) = bytes.iter().position(|b| *b == 0)
    {
        return Err(Refusal::new(Reason::Invalid, "a NUL byte in the text")
            .at_line(line(at))
            .hint("remove the NUL byte"));
    }
    Ok(text)
}

/// A text without any header is read as a list of pending items. One that has got a header goes on
/// as one, but only where items stand above the first header: what stands there else is a preamble.
pub fn start_of(text: &str, old: &MissionsState) -> Section {
    let header = |l: &str| super::parse::stripped(l).starts_with("## ");
    if !text.contains("## ") || !text.lines().any(header) {
        return Section::Pending;
    }
    let item = |l: &str| ["- ", "### "].iter().any(|s| super::parse::stripped(l).starts_with(s));
    match old.start {
        Section::Pending if text.lines().take_while(|l| !header(l)).any(item) => Section::Pending,
        Section::Pending => Section::Preamble,
        start => start,
    }
}

/// Compares `text`, with `start` in force before its first header, with `old`. `None`: they
/// are equal byte for byte.
pub fn compare(old: &MissionsState, text: &str, start: Section, now: &str) -> Option<Compared> {
    let slots = &old.slots[..];
    let bytes = text.as_bytes();
    let mut starts = Vec::with_capacity(slots.len());
    let mut end = 0;
    for s in slots {
        if !bytes[end..].starts_with(&s.core.bytes) {
            break;
        }
        starts.push(end);
        end += s.core.bytes.len();
    }
    if starts.len() == slots.len() && end == bytes.len() {
        return None;
    }
    if start != old.start {
        starts.clear();
    }
    let first = safe_start(old, starts.len().saturating_sub(1));
    let from = starts.get(first).copied().unwrap_or(0);
    let section = if first == 0 { start } else { old.section_before(first) };
    let mut walk = Walk::new(old, text, first, from, section);
    walk.ends = suffix(old, text, first, from);
    for (i, s) in old.slots.iter().enumerate().skip(first) {
        walk.by_first_line.entry(first_line(&s.core.bytes)).or_default().push(i);
    }
    walk.run(now);
    Some(walk.out)
}

/// The same with every entry parsed and matched, whatever is equal.
pub fn compare_all(old: &MissionsState, text: &str, start: Section, now: &str) -> Compared {
    let mut walk = Walk::new(old, text, 0, 0, start);
    walk.run(now);
    walk.out
}

/// The slot at which parsing may start so that nothing before it depends on what follows:
/// a fence that is still open, an item that goes on after empty lines.
fn safe_start(old: &MissionsState, mut start: usize) -> usize {
    start = start.min(old.slots.len());
    while start > 0 && old.slots.get(start).is_none_or(|s| s.core.blank || starts_blank(&s.core)) {
        start -= 1;
    }
    old.slots[..start].iter().position(|s| s.core.open_fence).unwrap_or(start)
}

fn starts_blank(core: &super::chunk::Core) -> bool {
    core.entries.first().is_some_and(|e| e.is_blank())
}

/// Text position -> index of the slot that starts there, for the slots of the common end.
fn suffix(old: &MissionsState, text: &str, start: usize, from: usize) -> HashMap<usize, usize> {
    let bytes = text.as_bytes();
    let mut ends = HashMap::new();
    let mut end = bytes.len();
    for (i, s) in old.slots.iter().enumerate().skip(start).rev() {
        let Some(at) = end.checked_sub(s.core.bytes.len()).filter(|at| *at >= from) else { break };
        if bytes[at..end] != s.core.bytes[..] || (at > 0 && bytes[at - 1] != b'\n') {
            break;
        }
        ends.insert(at, i);
        end = at;
    }
    ends
}

struct Walk<'t> {
    old: &'t MissionsState,
    text: &'t str,
    parser: Parser<'t>,
    ends: HashMap<usize, usize>,
    by_first_line: HashMap<&'t [u8], Vec<usize>>,
    out: Compared,
    /// Old slots before this one are accounted for.
    at_slot: usize,
    /// Ranges of `old` and `new` per finished gap.
    gaps: Vec<(std::ops::Range<usize>, std::ops::Range<usize>)>,
    gap: (usize, usize),
}

impl<'t> Walk<'t> {
    fn new(
        old: &'t MissionsState,
        text: &'t str,
        first: usize,
        from: usize,
        section: Section,
    ) -> Walk<'t> {
        let segs = (0..first).map(Seg::Same).collect();
        Walk {
            old,
            text,
            parser: Parser::new(text, from, section, old.nested_items),
            ends: HashMap::new(),
            by_first_line: HashMap::new(),
            out: Compared { segs, old: Vec::new(), new: Vec::new() },
            at_slot: first,
            gaps: Vec::new(),
            gap: (0, 0),
        }
    }

    fn run(&mut self, now: &str) {
        let old = self.old;
        for s in old.slots[self.at_slot..].iter().filter(|s| s.core.opaque) {
            for e in s.core.entries.iter().filter(|e| e.opaque) {
                self.parser.knows(e);
            }
        }
        loop {
            if self.at_end() {
                break;
            }
            if let Some(slot) = self.resync() {
                self.take_slot(slot);
                continue;
            }
            let Some(parsed) = self.parser.next() else { break };
            self.out.new.push(New { entry: Arc::new(parsed.entry(0)), pair: None });
        }
        self.close_gap(old.slots.len());
        let gaps = std::mem::take(&mut self.gaps);
        matching::run(&mut self.out, &gaps);
        resolve(&mut self.out, now);
    }

    /// The rest of the text is the rest of the old version: takes it over.
    fn at_end(&mut self) -> bool {
        let Some(&slot) = self.ends.get(&self.parser.pos()) else { return false };
        if slot < self.at_slot || self.old.section_before(slot) != self.parser.section() {
            return false;
        }
        self.close_gap(slot);
        self.out.segs.extend((slot..self.old.slots.len()).map(Seg::Same));
        self.at_slot = self.old.slots.len();
        self.gap = (self.out.old.len(), self.out.new.len());
        self.parser.skip_to(self.text.len(), Section::Unknown);
        true
    }

    /// An old slot that stands here unchanged, with the one after it, so that nothing that
    /// follows can change its meaning.
    fn resync(&self) -> Option<usize> {
        let rest = &self.text.as_bytes()[self.parser.pos()..];
        let candidates = self.by_first_line.get(first_line(rest))?;
        candidates.iter().copied().find(|&i| {
            let slots = &self.old.slots;
            let core = &slots[i].core;
            let Some(next) = slots.get(i + 1).map(|s| &s.core) else { return false };
            i >= self.at_slot
                && !core.open_fence
                && !starts_blank(next)
                && self.old.section_before(i) == self.parser.section()
                && rest.starts_with(&core.bytes)
                && rest[core.bytes.len()..].starts_with(&next.bytes)
        })
    }

    fn take_slot(&mut self, slot: usize) {
        self.close_gap(slot);
        self.out.segs.push(Seg::Same(slot));
        self.at_slot = slot + 1;
        let core = &self.old.slots[slot].core;
        self.parser.skip_to(self.parser.pos() + core.bytes.len(), core.last_section());
        self.gap = (self.out.old.len(), self.out.new.len());
    }

    /// Old slots up to `slot` have no counterpart but the new entries since the last slot.
    fn close_gap(&mut self, slot: usize) {
        for (i, s) in self.old.slots.iter().enumerate().take(slot).skip(self.at_slot) {
            for (index, e) in s.core.entries.iter().enumerate() {
                let loc = Loc { slot: i, index };
                self.out.old.push(Old { loc, entry: e.clone(), found: false });
            }
        }
        self.at_slot = self.at_slot.max(slot);
        let (old, new) = (self.gap.0..self.out.old.len(), self.gap.1..self.out.new.len());
        if !new.is_empty() {
            self.out.segs.push(Seg::New(new.clone()));
        }
        if !old.is_empty() || !new.is_empty() {
            self.gaps.push((old, new));
        }
        self.gap = (self.out.old.len(), self.out.new.len());
    }
}

fn first_line(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
    &bytes[..end]
}

/// Gives written entries the ids and hidden columns of the old entries that they are.
fn resolve(c: &mut Compared, now: &str) {
    for new in &mut c.new {
        let old = new.pair.as_ref().and_then(|p| c.old.get(p.old)).map(|o| &o.entry);
        match old {
            Some(old)
                if old.raw == new.entry.raw
                    && old.section == new.entry.section
                    && old.opaque == new.entry.opaque =>
            {
                new.entry = old.clone();
            }
            _ => {
                let entry = Arc::make_mut(&mut new.entry);
                implied(entry, old.map(|e| &**e), now);
                entry.id = old.map_or(0, |o| o.id);
            }
        }
    }
}

/// The columns that a save implies (missions-format section 4); they go to the row and do
/// not show in the text (R6).
pub fn implied(entry: &mut Entry, old: Option<&Entry>, now: &str) {
    let section = entry.section;
    match (&mut entry.kind, old.map(|o| &o.kind)) {
        (Kind::Mission(m), Some(Kind::Mission(before))) => {
            let shown = old.map(|o| super::parse::simple(&o.raw).times).unwrap_or_default();
            let moved = old.is_some_and(|o| o.section != section);
            let written = std::mem::take(&mut m.times);
            let take = |w: Option<String>, shown: Option<String>, kept: Option<String>| match w {
                Some(t) if Some(&t) != shown.as_ref() => (Some(t), true),
                _ => (kept, false),
            };
            let kept = before.times.clone();
            m.times.queued = take(written.queued, shown.queued, kept.queued).0;
            let (started, new_start) = take(written.started, shown.started, kept.started);
            let (completed, new_end) = take(written.completed, shown.completed, kept.completed);
            let cause_written = written.cause.is_some() && written.cause != shown.cause;
            m.times.cause = if cause_written { written.cause } else { kept.cause };
            (m.times.started, m.times.completed) = (started, completed);
            m.recoveries = before.recoveries;
            if before.text == m.text {
                m.project.clone_from(&before.project);
                m.complexity.clone_from(&before.complexity);
            }
            if moved {
                stamp(m, section, new_start, new_end, now);
            }
        }
        (Kind::Mission(m), _) => {
            m.times.queued.get_or_insert_with(|| now.to_owned());
            let (s, e) = (m.times.started.is_some(), m.times.completed.is_some());
            match section {
                Section::InProgress if !s => m.times.started = Some(now.to_owned()),
                Section::Done | Section::Failed if !e => m.times.completed = Some(now.to_owned()),
                _ => {}
            }
        }
        (Kind::Idea(i), Some(Kind::Idea(before))) => {
            i.added.clone_from(&before.added);
            if before.text == i.text {
                i.project.clone_from(&before.project);
            }
        }
        (Kind::Idea(i), _) => i.added = Some(now.to_owned()),
        _ => {}
    }
}

/// A change of state (missions-format section 4).
pub fn stamp(m: &mut Mission, to: Section, new_start: bool, new_end: bool, now: &str) {
    let now = Some(now.to_owned());
    match to {
        Section::Pending => {
            if !new_start {
                m.times.started = None;
            }
            if !new_end {
                (m.times.completed, m.times.cause) = (None, None);
            }
        }
        Section::InProgress => {
            if !new_start {
                m.times.started = now;
            }
            if !new_end {
                (m.times.completed, m.times.cause) = (None, None);
            }
        }
        Section::Done | Section::Failed => {
            if !new_end {
                m.times.completed = now;
            }
            if to == Section::Done {
                m.times.cause = None;
            }
        }
        _ => {}
    }
}

impl Compared {
    /// Gives the entries that are new their ids.
    pub fn number(&mut self, mut id: impl FnMut(&Entry) -> u64) {
        for new in self.new.iter_mut().filter(|n| n.entry.id == 0) {
            let given = id(&new.entry);
            Arc::make_mut(&mut new.entry).id = given;
        }
    }

    /// The written text as a version; counters and memory are those of `near`.
    pub fn state(
        &self,
        old: &MissionsState,
        near: &MissionsState,
        start: Section,
    ) -> MissionsState {
        let pieces = self.segs.iter().map(|seg| match seg {
            Seg::Same(i) => Piece::Slot(old.slots[*i].clone()),
            Seg::New(r) => {
                Piece::Entries(self.new[r.clone()].iter().map(|n| n.entry.clone()).collect())
            }
        });
        MissionsState { slots: assemble(pieces), start, ..near.clone() }
    }

    /// 1-based line of the written entry with this index, in the text.
    pub fn line_of(&self, old: &MissionsState, index: usize) -> usize {
        let mut line = 1;
        for seg in &self.segs {
            match seg {
                Seg::Same(i) => line += old.slots[*i].core.lines as usize,
                Seg::New(r) => {
                    let end = r.end.min(index);
                    for n in &self.new[r.start.min(end)..end] {
                        line += n.entry.raw.matches('\n').count();
                    }
                    if r.contains(&index) {
                        return line;
                    }
                }
            }
        }
        line
    }

    /// A seen item that is gone as an item while its text still stands in the save: a
    /// misspelt header, other bullets (merge.md).
    pub fn lost_item(&self, old: &MissionsState) -> Option<Refusal> {
        let mut gone: HashMap<String, &Entry> = HashMap::new();
        for o in self.old.iter().filter(|o| !o.found && o.entry.mission().is_some()) {
            let text = o.entry.clean();
            let first = text.lines().next().unwrap_or_default();
            gone.insert(bare(first).to_owned(), &o.entry);
        }
        if gone.is_empty() {
            return None;
        }
        for (i, n) in self.new.iter().enumerate() {
            if n.pair.as_ref().is_some_and(|p| !p.edited) {
                continue;
            }
            let skip = usize::from(n.entry.is_item());
            for (k, line) in n.entry.raw.lines().enumerate().skip(skip) {
                let Some(item) = gone.get(bare(line)) else { continue };
                let at = self.line_of(old, i) + k;
                return Some(lost(item, at, self.header_above(i)));
            }
        }
        None
    }

    fn header_above(&self, index: usize) -> Option<&Entry> {
        let above = self.new[..index].iter().rev().map(|n| &*n.entry);
        above.into_iter().find(|e| super::parse::stripped(&e.raw).starts_with("## "))
    }
}

fn lost(item: &Entry, at: usize, header: Option<&Entry>) -> Refusal {
    let hint = match header {
        Some(h) if h.section == Section::Unknown => format!(
            "the header {:?} is not one of Pending, In Progress, Done, Failed",
            h.raw.trim()
        ),
        _ => "start each mission with \"- \" under its header; to remove it, delete the line"
            .to_owned(),
    };
    Refusal::new(
        Reason::LostItem,
        format!("mission {} would be lost: its text is here but not as an item", item.name()),
    )
    .at_line(at)
    .hint(hint)
}

/// A line without bullet, number, checkbox and markers.
fn bare(line: &str) -> &str {
    let mut s = super::parse::stripped(line);
    s = super::marker::split(s).0;
    for bullet in ["- ", "* ", "+ ", "• "] {
        if let Some(rest) = s.strip_prefix(bullet) {
            return rest.trim_start();
        }
    }
    let digits = s.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0
        && let Some(rest) = s[digits..].strip_prefix(['.', ')'])
    {
        return rest.trim_start();
    }
    s
}
