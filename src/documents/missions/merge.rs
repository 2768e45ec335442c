//! A save onto a version that its writer has not seen (merge.md, missions.md).
//!
//! Entries have identities, so the merge asks of each one what the writer made of it and
//! what others have made of it meanwhile. Changes are placed behind the nearest entry before
//! them that stands in both versions.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::Batch;
use super::chunk::Core;
use super::compare::{Compared, Seg};
use super::entry::{BELIEVED_ID, Entry, Kind, Mission, Section};
use super::insert::insert_in_section;
use super::matching::Pair;
use super::render;
use super::settle;
use super::tally::Tally;
use super::tree::{Loc, MissionsState};
use crate::model::Overlap;

/// What an entry is known by: mission numbers and line numbers are counted apart.
pub type Ident = (bool, u64);

/// The identity of an entry.
pub fn ident(e: &Entry) -> Ident {
    (matches!(e.kind, Kind::Mission(_)), e.id)
}

/// The versions of a merge and where their entries are.
pub struct Sides<'a> {
    seen: &'a MissionsState,
    current: &'a MissionsState,
    core_at: HashMap<*const Core, usize>,
    only_seen: HashMap<Ident, Arc<Entry>>,
    only_current: HashMap<Ident, Loc>,
}

impl<'a> Sides<'a> {
    /// Costs by the number of chunks, and by the entries of those that are not shared.
    pub fn new(seen: &'a MissionsState, current: &'a MissionsState) -> Sides<'a> {
        let core_at: HashMap<*const Core, usize> =
            current.slots.iter().enumerate().map(|(i, s)| (Arc::as_ptr(&s.core), i)).collect();
        let mut shared = vec![false; current.slots.len()];
        let mut only_seen = HashMap::new();
        for s in seen.slots.iter() {
            match core_at.get(&Arc::as_ptr(&s.core)) {
                Some(i) => shared[*i] = true,
                None => only_seen.extend(s.core.entries.iter().map(|e| (ident(e), e.clone()))),
            }
        }
        let mut only_current = HashMap::new();
        for (slot, s) in current.slots.iter().enumerate().filter(|(i, _)| !shared[*i]) {
            for (index, e) in s.core.entries.iter().enumerate() {
                only_current.insert(ident(e), Loc { slot, index });
            }
        }
        Sides { seen, current, core_at, only_seen, only_current }
    }

    /// Where an entry of the seen version is in the current one.
    pub fn locate(&self, e: &Entry, seen_at: Loc) -> Option<Loc> {
        if let Some(loc) = self.only_current.get(&ident(e)) {
            return Some(*loc);
        }
        let core = &self.seen.slots.get(seen_at.slot)?.core;
        let slot = *self.core_at.get(&Arc::as_ptr(core))?;
        Some(Loc { slot, ..seen_at })
    }

    /// It came into the current version after the seen one.
    pub fn is_news(&self, e: &Entry) -> bool {
        let id = ident(e);
        self.only_current.contains_key(&id) && !self.only_seen.contains_key(&id)
    }

    /// Everything that did, by what an addition is compared by; places in order.
    fn news(&self) -> HashMap<String, VecDeque<Loc>> {
        let mut locs: Vec<Loc> = self
            .only_current
            .iter()
            .filter(|(id, _)| !self.only_seen.contains_key(id))
            .map(|(_, loc)| *loc)
            .collect();
        locs.sort_unstable();
        let mut out: HashMap<String, VecDeque<Loc>> = HashMap::new();
        for loc in locs {
            if let Some(e) = self.current.at(loc).filter(|e| !e.is_blank()) {
                out.entry(addition_key(e)).or_default().push_back(loc);
            }
        }
        out
    }
}

fn addition_key(e: &Entry) -> String {
    let sort = if e.is_item() { 'i' } else { 'l' };
    format!("{sort}{}{}", e.section.letter(), e.clean().trim())
}

/// The merged version and what the writer believes.
pub struct Merged {
    /// The current version with the writer's changes.
    pub next: MissionsState,
    /// Where they met changes of others.
    pub overlaps: Vec<Overlap>,
    /// What was done.
    pub tally: Tally,
}

/// Applies the difference between `seen` and the written text (`c`) to `current`. `export`:
/// the text is another program's rendering of its rows, so that its layout, order and
/// spelling say nothing. Gives all written entries their ids.
pub fn merge(
    seen: &MissionsState,
    c: &mut Compared,
    current: &MissionsState,
    export: bool,
) -> Merged {
    let sides = Sides::new(seen, current);
    let news = sides.news();
    part_from_news(c, &news);
    let mut m = Merger {
        news,
        sides,
        export,
        ids: current.clone(),
        batch: Batch::default(),
        overlaps: Vec::new(),
        tally: Tally::default(),
        cursor: Cursor { place: Loc { slot: 0, index: 0 }, section: current.start, fixed: false },
    };
    for o in c.old.iter().filter(|o| !o.found) {
        m.removed(&o.entry, o.loc);
    }
    for seg in c.segs.clone() {
        match seg {
            Seg::Same(i) => m.anchor_after_slot(i),
            Seg::New(range) => {
                for j in range {
                    let entry = c.new[j].entry.clone();
                    let entry = match c.new[j].pair.clone() {
                        Some(pair) => {
                            let old = &c.old[pair.old];
                            m.kept(&old.entry, old.loc, &entry, &pair)
                        }
                        None => m.added(&entry),
                    };
                    c.new[j].entry = entry;
                }
            }
        }
    }
    let next = settle::apply(m.batch, m.ids, &m.sides);
    Merged { next, overlaps: m.overlaps, tally: m.tally }
}

/// An entry that reads like an edit of a seen one, and is word for word what somebody else has added
/// since, is that addition: else it would be there twice. The seen one is gone from the text.
fn part_from_news(c: &mut Compared, news: &HashMap<String, VecDeque<Loc>>) {
    for new in &mut c.new {
        let edited = new.pair.as_ref().filter(|pair| pair.edited);
        if let Some(old) = edited.map(|pair| pair.old)
            && news.contains_key(&addition_key(&new.entry))
        {
            c.old[old].found = false;
            new.pair = None;
        }
    }
}

/// Where the next insertion goes.
struct Cursor {
    /// Before the entry at this place.
    place: Loc,
    /// The section in force there.
    section: Section,
    /// Something was inserted here already, so the place does not move any more.
    fixed: bool,
}

struct Merger<'a> {
    sides: Sides<'a>,
    news: HashMap<String, VecDeque<Loc>>,
    export: bool,
    /// The current version, for its counters.
    ids: MissionsState,
    batch: Batch,
    overlaps: Vec<Overlap>,
    tally: Tally,
    cursor: Cursor,
}

impl Merger<'_> {
    fn removed(&mut self, old: &Arc<Entry>, seen_at: Loc) {
        if self.export && !old.is_item() {
            return;
        }
        let Some(loc) = self.sides.locate(old, seen_at) else { return };
        let Some(now) = self.sides.current.at(loc) else { return };
        if old.same_row(now) && (old.is_item() || old.raw == now.raw) {
            self.tally.count(Some(old), None);
            self.batch.set.insert(loc, None);
        } else if old.is_item() {
            self.overlaps.push(Overlap {
                what: old.name(),
                earlier: "changed".to_owned(),
                later: "not removed, because it was changed".to_owned(),
            });
        }
    }

    fn anchor(&mut self, loc: Loc) {
        let section = self.sides.current.at(loc).map_or(Section::Unknown, |e| e.section);
        self.cursor = Cursor { place: Loc { index: loc.index + 1, ..loc }, section, fixed: false };
    }

    /// The nearest entry at or before the end of this slot of the seen version that still
    /// stands in the same section.
    fn anchor_after_slot(&mut self, slot: usize) {
        let core = &self.sides.seen.slots[slot].core;
        if let Some(at) = self.sides.core_at.get(&Arc::as_ptr(core)) {
            let index = core.entries.len().saturating_sub(1);
            return self.anchor(Loc { slot: *at, index });
        }
        let found = core.entries.iter().rev().find_map(|e| {
            let loc = *self.sides.only_current.get(&ident(e))?;
            let there = self.sides.current.at(loc)?;
            (there.section == e.section).then_some(loc)
        });
        if let Some(loc) = found {
            self.anchor(loc);
        }
    }

    /// A written entry that was in the seen version.
    fn kept(&mut self, old: &Arc<Entry>, at: Loc, new: &Arc<Entry>, pair: &Pair) -> Arc<Entry> {
        let state_change = old.section != new.section && old.is_item();
        let moved = pair.moved && (state_change || !self.export);
        let (loc, new) = match self.sides.locate(old, at) {
            Some(loc) => (loc, new.clone()),
            None => {
                // Removed by somebody else: a change brings it back, a mere look does not.
                if !(state_change || (old.is_item() && old.kind != new.kind)) {
                    return new.clone();
                }
                if let Some(there) = self.there_already(new) {
                    return there;
                }
                // Unless somebody else has brought it back: then it is that one that is changed.
                let Some((loc, new)) = self.come_back(old, new) else {
                    return self.place(new.clone(), Some(old));
                };
                (loc, new)
            }
        };
        let new = &new;
        let Some(now) = self.sides.current.at(loc).cloned() else { return new.clone() };
        let theirs_moved = now.section != old.section;
        if !moved || (state_change && now.section == new.section) || (!state_change && theirs_moved)
        {
            let own = state_change || settle::opens(new).is_some();
            let section = if own { new.section } else { now.section };
            let merged = self.merged(old, new, &now, section);
            self.replace(loc, &now, merged);
            if now.section == new.section {
                self.anchor(loc);
            }
            return new.clone();
        }
        if state_change && theirs_moved {
            self.overlaps.push(Overlap {
                what: format!("{} state", old.name()),
                earlier: now.section.header().trim_start_matches("## ").to_owned(),
                later: new.section.header().trim_start_matches("## ").to_owned(),
            });
        }
        let merged = self.merged(old, new, &now, new.section);
        self.batch.set.insert(loc, None);
        self.place(merged, Some(old));
        new.clone()
    }

    fn replace(&mut self, loc: Loc, now: &Arc<Entry>, merged: Arc<Entry>) {
        if *merged != **now {
            self.tally.count(Some(now), Some(&merged));
            self.batch.set.insert(loc, Some(merged));
        }
    }

    /// A written entry that was not in the seen version.
    fn added(&mut self, new: &Arc<Entry>) -> Arc<Entry> {
        let there = if new.is_blank() { self.blank_already(new) } else { self.there_already(new) };
        if let Some(there) = there {
            return there;
        }
        if self.export && !new.is_item() {
            let mut layout = new.clone();
            Arc::make_mut(&mut layout).id = self.ids.line_id();
            return layout;
        }
        let mut entry = new.clone();
        let id = self.ids.fresh_id(&entry.kind);
        Arc::make_mut(&mut entry).id = id;
        self.place(entry, None)
    }

    /// The same addition by somebody else, which the writer knows from now on: also the columns of
    /// that row which no text shows.
    fn there_already(&mut self, new: &Arc<Entry>) -> Option<Arc<Entry>> {
        let loc = self.news.get_mut(&addition_key(new)).and_then(VecDeque::pop_front)?;
        let there = self.sides.current.at(loc)?;
        let same = Entry { id: there.id, kind: there.kind.clone(), ..Entry::clone(new) };
        self.anchor(loc);
        Some(Arc::new(same))
    }

    /// Where an entry that was removed has been added again, and what is made of it.
    fn come_back(&mut self, old: &Entry, new: &Arc<Entry>) -> Option<(Loc, Arc<Entry>)> {
        let loc = self.news.get_mut(&addition_key(old)).and_then(VecDeque::pop_front)?;
        let mut new = new.clone();
        Arc::make_mut(&mut new).id = self.sides.current.at(loc)?.id;
        Some((loc, new))
    }

    /// The same blank line by somebody else, at the same place.
    fn blank_already(&mut self, new: &Arc<Entry>) -> Option<Arc<Entry>> {
        let state = self.sides.current;
        let place = self.cursor.place;
        let next = Loc { slot: place.slot + 1, index: 0 };
        let (loc, there) = [place, next].into_iter().find_map(|loc| Some((loc, state.at(loc)?)))?;
        if !there.is_blank() || !self.sides.is_news(there) {
            return None;
        }
        let mut same = new.clone();
        Arc::make_mut(&mut same).id = there.id;
        self.anchor(loc);
        Some(same)
    }

    /// Inserts at the cursor, or at the end of its section when the cursor is elsewhere.
    fn place(&mut self, mut entry: Arc<Entry>, old: Option<&Entry>) -> Arc<Entry> {
        if entry.id >= BELIEVED_ID {
            let id = self.ids.fresh_id(&entry.kind);
            Arc::make_mut(&mut entry).id = id;
        }
        self.tally.count(old.filter(|o| self.knows(o)), Some(&entry));
        let header = settle::opens(&entry).is_some();
        if entry.is_item() && entry.section != self.cursor.section {
            insert_in_section(&mut self.ids, &mut self.batch, entry.clone());
            return entry;
        }
        if !self.cursor.fixed {
            self.skip_news(entry.section);
            self.cursor.fixed = true;
        }
        if header {
            self.cursor.section = entry.section;
        } else if !entry.is_item() {
            Arc::make_mut(&mut entry).section = self.cursor.section;
        }
        self.batch.insert(self.cursor.place, entry.clone());
        entry
    }

    fn knows(&self, old: &Entry) -> bool {
        let id = ident(old);
        self.sides.only_current.contains_key(&id) || !self.sides.only_seen.contains_key(&id)
    }

    /// Insertions at the same place: the earlier commit first. Empty lines at their end come after
    /// both.
    fn skip_news(&mut self, section: Section) {
        let state = self.sides.current;
        let mut at = self.cursor.place;
        loop {
            if state.slots.get(at.slot).is_some_and(|s| at.index >= s.core.entries.len())
                && at.slot + 1 < state.slots.len()
            {
                at = Loc { slot: at.slot + 1, index: 0 };
            }
            match state.at(at) {
                Some(e)
                    if e.section == section
                        && !matches!(e.kind, Kind::Header)
                        && self.sides.is_news(e) =>
                {
                    at.index += 1;
                    if !e.is_blank() {
                        self.cursor.place = at;
                    }
                }
                _ => return,
            }
        }
    }

    /// One entry changed by both (R4): column by column, the later save wins.
    fn merged(&mut self, old: &Entry, new: &Entry, now: &Entry, section: Section) -> Arc<Entry> {
        let respelt = !self.export && old.raw != new.raw;
        let changed = old.kind != new.kind || old.section != new.section;
        if !changed && !respelt {
            return self.in_section(now, section);
        }
        let untouched = old.same_row(now) && (old.raw == now.raw || old.is_item());
        if untouched && !self.export {
            return self.in_section(new, section);
        }
        if !changed {
            // White space only loses to a change of content.
            return self.in_section(now, section);
        }
        match (&old.kind, &new.kind, &now.kind) {
            (Kind::Mission(o), Kind::Mission(n), Kind::Mission(c)) => {
                let m = self.columns(&old.name(), o, n, c);
                if m == **n && section == new.section && !self.export {
                    return Arc::new(new.clone());
                }
                if m == **c && section == now.section {
                    return Arc::new(now.clone());
                }
                let kind = Kind::Mission(Box::new(m));
                if old.raw == now.raw {
                    // What differs shows in no text: the line stands as it was written (R6).
                    return Arc::new(Entry { id: now.id, kind, section, ..new.clone() });
                }
                Arc::new(render::entry(now.id, kind, section, self.ids.eol(), Some(&now.raw)))
            }
            _ => {
                if old.raw != now.raw && now.raw != new.raw {
                    self.overlaps.push(Overlap {
                        what: old.name(),
                        earlier: now.raw.trim_end().to_owned(),
                        later: new.raw.trim_end().to_owned(),
                    });
                }
                self.in_section(new, section)
            }
        }
    }

    fn in_section(&self, e: &Entry, section: Section) -> Arc<Entry> {
        let mut e = e.clone();
        e.section = section;
        Arc::new(e)
    }

    fn columns(&mut self, name: &str, o: &Mission, n: &Mission, c: &Mission) -> Mission {
        let mut m = c.clone();
        let same_text =
            |a: &Mission, b: &Mission| super::entry::clean(&a.text) == super::entry::clean(&b.text);
        if !same_text(n, o) {
            if !same_text(c, o) && !same_text(c, n) {
                self.overlap(format!("{name} text"), &c.text, &n.text);
            }
            m.text.clone_from(&n.text);
            m.project.clone_from(&n.project);
            m.complexity.clone_from(&n.complexity);
        }
        let columns = [
            ("queued", &o.times.queued, &n.times.queued, &mut m.times.queued),
            ("started", &o.times.started, &n.times.started, &mut m.times.started),
            ("completed", &o.times.completed, &n.times.completed, &mut m.times.completed),
            ("cause", &o.times.cause, &n.times.cause, &mut m.times.cause),
        ];
        for (what, o, n, m) in columns {
            if n != o {
                if m != o && m != n {
                    let (earlier, later) = (m.clone().unwrap_or_default(), n.clone());
                    self.overlaps.push(Overlap {
                        what: format!("{name} {what}"),
                        earlier,
                        later: later.unwrap_or_default(),
                    });
                }
                m.clone_from(n);
            }
        }
        m
    }

    fn overlap(&mut self, what: String, earlier: &str, later: &str) {
        self.overlaps.push(Overlap { what, earlier: earlier.to_owned(), later: later.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Live, text_of};
    use crate::documents::Written;

    #[test]
    fn entries_that_were_edited_and_put_into_another_order_stand_in_it() {
        let mut live = Live::new();
        live.edit("## Pending\n- water the plants\n- write the report\n\n## Done\n");
        let seen = live.state.clone();
        live.append("- call the office\n");
        let own = "## Pending\n- write the report today\n- water the plants twice\n\n## Done\n";
        live.whole(&seen, own);
        let text = live.text();
        let at = |what: &str| text.find(what).unwrap();
        assert!(at("report today") < at("plants twice"), "{text}");
        assert_eq!(live.rows().len(), 3, "{text}");
    }

    #[test]
    fn who_adds_what_is_there_already_can_remove_it() {
        let mut live = Live::new();
        live.edit("## Pending\n\n## Done\n");
        let seen = live.state.clone();
        // A row without the columns that a line of a text gets.
        let sql = "INSERT INTO missions (text, state, sequence) VALUES ('write the report', 'pending', 1)";
        live.conn.execute(sql, []).unwrap();
        live.refresh();
        let text = text_of(&seen);
        let own = text.replace("## Pending\n", "## Pending\n- write the report\n");
        let believed = live.whole(&seen, &own);
        assert_eq!(text_of(&believed), own);
        live.whole(&believed, &text);
        assert!(live.rows().is_empty(), "{:?}", live.rows());
    }

    #[test]
    fn what_reads_like_an_edit_and_is_the_addition_of_somebody_else_is_there_once() {
        let mut live = Live::new();
        live.edit("## Pending\n- the task of worker 2, number 6\n\n## Done\n");
        let seen = live.state.clone();
        live.append("- the task of worker 2, number 10\n");
        // An append of a writer that has seen only the first one.
        let own = Written::Fragment(b"- the task of worker 2, number 9\n");
        let believed = live.save(Some(&seen), own, false).unwrap();
        let text = text_of(&believed);
        assert!(text.contains("number 9\n") && !text.contains("number 10\n"), "{text}");
        live.whole(&believed, &text.replace("number 9\n", "number 10\n"));
        assert_eq!(live.text().matches("number 10\n").count(), 1, "{}", live.text());
        assert_eq!(live.text().matches("number 9\n").count(), 0, "{}", live.text());
        assert_eq!(live.rows().len(), 2);
    }
}
