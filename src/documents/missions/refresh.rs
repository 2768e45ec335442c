//! What other programs did to the rows (R9).

use std::collections::HashMap;
use std::sync::Arc;

use super::batch::Batch;
use super::chunk::{RowBook, RowKey, Slot};
use super::entry::{Entry, Kind, Section, clean};
use super::insert::{new_section, space};
use super::merge::{Ident, Tally, ident};
use super::numbers::{Numbers, with_room};
use super::rematch::{key_text, same_columns};
use super::render;
use super::rows::Row;
use super::tree::{Loc, MissionsState, Vanished};
use crate::model::{Overlap, Stamp};
use crate::text::longest_increasing;

/// A row that vanished may come back within this time (merge.md).
const COMES_BACK: i64 = 60 * 1_000_000_000;

/// Ids given to new rows, by table and row id.
pub type Given = HashMap<(&'static str, i64), u64>;

/// The version with the rows' changes, and what they were.
pub struct Outcome {
    /// `last` with the differences between `base` and the rows.
    pub next: MissionsState,
    /// Something but bookkeeping is different.
    pub changed: bool,
    /// Where they met changes of ours.
    pub overlaps: Vec<Overlap>,
    /// What was done.
    pub tally: Tally,
    /// The ids of rows that are new.
    pub given: Given,
}

/// Compares `rows` with `base` and carries the differences over to `last`. New rows that are
/// `known` get the ids that they have there. `read`: see
/// [`crate::documents::Document::refresh_after_read`].
pub fn refresh(
    rows: Vec<Row>,
    nested_items: bool,
    base: &MissionsState,
    last: &MissionsState,
    read: Option<&MissionsState>,
    now: Stamp,
    known: Given,
) -> Outcome {
    let mut r = Refresh::new(rows, base, last, now);
    r.known = known;
    r.state.nested_items = nested_items;
    if !r.unchanged() {
        r.match_rows();
        if let Some(read) = read {
            r.match_waiting(read);
        }
        r.carry_over();
    }
    r.finish(last)
}

/// An item of `base` with its row.
pub(super) struct Item {
    pub(super) loc: Loc,
    pub(super) entry: Arc<Entry>,
    pub(super) key: Option<RowKey>,
}

/// A table by number, for maps.
pub(super) type Table = u8;

/// A row among those of all tables.
pub(super) fn row_of(section: Section, id: i64) -> (Table, i64) {
    let table = match section {
        Section::Ci => 0,
        Section::Ideas => 1,
        _ => 2,
    };
    (table, id)
}

impl Item {
    /// Its row.
    pub(super) fn row(&self) -> Option<(Table, i64)> {
        Some(row_of(self.entry.section, self.key?.id))
    }
}

/// A refresh on its way.
pub(super) struct Refresh<'a> {
    pub(super) rows: Vec<Row>,
    /// Items of `base`, in text order.
    pub(super) items: Vec<Item>,
    /// Row -> item that it is.
    pub(super) of_row: Vec<Option<usize>>,
    /// Item -> row.
    pub(super) of_item: Vec<Option<usize>>,
    pub(super) last: &'a MissionsState,
    same: bool,
    state: MissionsState,
    batch: Batch,
    overlaps: Vec<Overlap>,
    tally: Tally,
    /// Row -> identity in the next version.
    pub(super) ids: Vec<Option<Ident>>,
    pub(super) known: Given,
    pub(super) given: Given,
    now: Stamp,
}

impl<'a> Refresh<'a> {
    pub(super) fn new(
        rows: Vec<Row>,
        base: &MissionsState,
        last: &'a MissionsState,
        now: Stamp,
    ) -> Refresh<'a> {
        let items: Vec<Item> = base
            .located()
            .filter(|(_, e)| e.is_item())
            .map(|(loc, e)| Item {
                loc,
                entry: e.clone(),
                key: base.slots[loc.slot].row(loc.index),
            })
            .collect();
        let mut state = last.clone();
        state.next_no = state.next_no.max(base.next_no);
        state.next_line = state.next_line.max(base.next_line);
        Refresh {
            of_row: vec![None; rows.len()],
            of_item: vec![None; items.len()],
            ids: vec![None; rows.len()],
            rows,
            items,
            same: base.same_text(last),
            last,
            state,
            batch: Batch::default(),
            overlaps: Vec::new(),
            tally: Tally::default(),
            known: Given::new(),
            given: Given::new(),
            now,
        }
    }

    pub(super) fn pair(&mut self, row: usize, item: usize) {
        self.of_row[row] = Some(item);
        self.of_item[item] = Some(row);
        self.ids[row] = Some(ident(&self.items[item].entry));
    }

    /// All rows are as they were left, ids and sequences included.
    fn unchanged(&mut self) -> bool {
        if self.rows.len() != self.items.len() {
            return false;
        }
        let mut by_key: Numbers<(Table, i64), usize> = with_room(self.items.len());
        by_key.extend(self.items.iter().enumerate().filter_map(|(i, it)| Some((it.row()?, i))));
        let mut pairs = Vec::with_capacity(self.rows.len());
        for (r, row) in self.rows.iter().enumerate() {
            let Some(&i) = by_key.get(&row_of(row.section, row.key.id)) else { return false };
            let item = &self.items[i];
            let same = item.key == Some(row.key)
                && item.entry.section == row.section
                && same_columns(&item.entry.kind, &row.kind);
            if !same {
                return false;
            }
            pairs.push((r, i));
        }
        for (r, i) in pairs {
            self.pair(r, i);
        }
        true
    }

    /// Where an item of `base` is in `last`.
    fn places(&self) -> Numbers<Ident, Loc> {
        let mut places = with_room(self.items.len());
        let items = self.last.located().filter(|(_, e)| e.is_item());
        places.extend(items.map(|(l, e)| (ident(e), l)));
        places
    }

    pub(super) fn carry_over(&mut self) {
        let places = self.places();
        for i in 0..self.items.len() {
            if self.of_item[i].is_none() {
                self.vanished(i, &places);
            }
        }
        for section in Section::WITH_ROWS {
            self.section(section, &places);
        }
        space(&mut self.state, &mut self.batch);
    }

    fn vanished(&mut self, item: usize, places: &Numbers<Ident, Loc>) {
        let old = self.items[item].entry.clone();
        let Some(loc) = places.get(&ident(&old)) else { return };
        let Some(ours) = self.last.at(*loc) else { return };
        if !old.same_row(ours) {
            self.overlaps.push(Overlap {
                what: old.name(),
                earlier: "changed".to_owned(),
                later: "not removed, because it was changed".to_owned(),
            });
            return;
        }
        self.tally.count(Some(&old), None);
        self.batch.set.insert(*loc, None);
        let gone = Vanished { at: self.now, entry: old };
        let mut all: Vec<Vanished> = self.state.vanished.to_vec();
        all.push(gone);
        self.state.vanished = all.into();
    }

    /// Rows of one section in the order in which they are shown: those that keep their order
    /// stay, all others go behind the row before them.
    fn section(&mut self, section: Section, places: &Numbers<Ident, Loc>) {
        let from = self.rows.partition_point(|r| r.section < section);
        let to = self.rows.partition_point(|r| r.section <= section);
        let stable = self.stable(from..to, section);
        let mut place: Option<Loc> = None;
        for r in from..to {
            let item = self.of_row[r];
            let ours = item
                .and_then(|i| places.get(&ident(&self.items[i].entry)).copied())
                .and_then(|loc| Some((loc, self.last.at(loc)?.clone())));
            match (item, ours) {
                (Some(i), Some((loc, ours))) => {
                    let moved_by_them = self.items[i].entry.section != section || !stable[r - from];
                    let moved_by_us = ours.section != self.items[i].entry.section;
                    let state_by_them = self.items[i].entry.section != section;
                    if moved_by_us && state_by_them && ours.section != section {
                        self.overlaps.push(Overlap {
                            what: format!("{} state", ours.name()),
                            earlier: name_of(ours.section),
                            later: name_of(section),
                        });
                    }
                    let target = if state_by_them { section } else { ours.section };
                    let entry = self.renewed(i, r, &ours, target);
                    let stays = !moved_by_them || (moved_by_us && !state_by_them);
                    if stays || target == ours.section && state_by_them {
                        if let Some(e) = entry {
                            self.tally.count(Some(&ours), Some(&e));
                            self.batch.set.insert(loc, Some(e));
                        }
                        if target == section {
                            place = Some(Loc { index: loc.index + 1, ..loc });
                        }
                        continue;
                    }
                    let entry = entry.unwrap_or(ours.clone());
                    self.tally.count(Some(&ours), Some(&entry));
                    if !state_by_them {
                        self.tally.moved += 1;
                    }
                    self.batch.set.insert(loc, None);
                    self.put(&mut place, section, entry);
                }
                (Some(i), None) => {
                    // We removed it: their change, if any, brings it back.
                    let old = self.items[i].entry.clone();
                    let changed =
                        old.section != section || !same_columns(&old.kind, &self.rows[r].kind);
                    if changed && let Some(e) = self.renewed(i, r, &old, section) {
                        self.tally.count(None, Some(&e));
                        self.put(&mut place, section, e);
                    }
                }
                (None, _) if self.ids[r].is_some() => {}
                (None, _) => {
                    let entry = self.fresh(r);
                    self.tally.count(None, Some(&entry));
                    self.ids[r] = Some(ident(&entry));
                    self.put(&mut place, section, Arc::new(entry));
                }
            }
        }
    }

    /// For each row of this range, whether it is one of those whose order among each other is that
    /// of the text.
    fn stable(&self, range: std::ops::Range<usize>, section: Section) -> Vec<bool> {
        let mut stable = vec![false; range.len()];
        let from = range.start;
        let here: Vec<(usize, Loc)> = range
            .filter_map(|r| {
                let item = &self.items[self.of_row[r]?];
                (item.entry.section == section).then_some((r, item.loc))
            })
            .collect();
        if matches!(section, Section::Done | Section::Failed) {
            here.into_iter().for_each(|(r, _)| stable[r - from] = true);
            return stable;
        }
        let order: Vec<Loc> = here.iter().map(|(_, l)| *l).collect();
        longest_increasing(&order).into_iter().for_each(|i| stable[here[i].0 - from] = true);
        stable
    }

    fn put(&mut self, place: &mut Option<Loc>, section: Section, entry: Arc<Entry>) {
        let there = place.or_else(|| self.last.first_item(section));
        let (at, in_force) = match there.or_else(|| self.state.end_of(section)) {
            Some(at) => (at, section),
            None => (new_section(&mut self.state, &mut self.batch, section), Section::Unknown),
        };
        *place = Some(at);
        self.batch.insert_item(at, entry, in_force);
    }

    /// The entry of a row that is none of ours.
    fn fresh(&mut self, r: usize) -> Entry {
        let (table, id) = (self.rows[r].section.table(), self.rows[r].key.id);
        let entry = match self.known.get(&(table, id)) {
            Some(&id) => {
                let row = self.rows[r].clone();
                let next = match row.kind {
                    Kind::Mission(_) => &mut self.state.next_no,
                    _ => &mut self.state.next_line,
                };
                *next = (*next).max(id + 1);
                render::entry(id, row.kind, row.section, self.state.eol(), None)
            }
            None => self.back_or_new(r),
        };
        self.given.insert((table, id), entry.id);
        entry
    }

    /// One that vanished lately, or a new one.
    fn back_or_new(&mut self, r: usize) -> Entry {
        let row = self.rows[r].clone();
        let now = self.now;
        let text = key_text(&row.kind).into_owned();
        let back = self.state.vanished.iter().position(|v| {
            now.0.saturating_sub(v.at.0) <= COMES_BACK
                && v.entry.section == row.section
                && key_text(&v.entry.kind) == text
        });
        let eol = self.state.eol();
        if let Some(n) = back {
            let mut all = self.state.vanished.to_vec();
            let v = all.remove(n);
            self.state.vanished = all.into();
            if same_columns(&v.entry.kind, &row.kind) {
                return (*v.entry).clone();
            }
            let kind = carried(&row.kind, &v.entry.kind);
            return render::entry(v.entry.id, kind, row.section, eol, Some(&v.entry.raw));
        }
        let id = self.state.fresh_id(&row.kind);
        render::entry(id, row.kind, row.section, eol, None)
    }

    /// `ours` with what the row changed since `base`; `None` when nothing.
    fn renewed(&mut self, i: usize, r: usize, ours: &Entry, to: Section) -> Option<Arc<Entry>> {
        let same = same_columns(&self.items[i].entry.kind, &self.rows[r].kind);
        if same && to == ours.section {
            return None;
        }
        let old = self.items[i].entry.clone();
        let row = self.rows[r].kind.clone();
        let (mut kind, mut shown) = (ours.kind.clone(), to != ours.section);
        match (&mut kind, &old.kind, &row) {
            (Kind::Mission(m), Kind::Mission(o), Kind::Mission(t)) => {
                let name = ours.name();
                let mut met = Vec::new();
                if clean(&t.text) != clean(&o.text) {
                    if clean(&m.text) != clean(&o.text) && clean(&m.text) != clean(&t.text) {
                        met.push(("text", m.text.clone(), t.text.clone()));
                    }
                    m.text.clone_from(&t.text);
                    let said = |c: &String| m.text.ends_with(&format!("[{c}]"));
                    if m.times.cause.as_ref().is_some_and(said) {
                        // Their clean-up has made text of it.
                        m.times.cause = None;
                    }
                    shown = true;
                }
                let columns = [
                    ("queued", &mut m.times.queued, &o.times.queued, &t.times.queued),
                    ("started", &mut m.times.started, &o.times.started, &t.times.started),
                    ("completed", &mut m.times.completed, &o.times.completed, &t.times.completed),
                ];
                for (what, m, o, t) in columns {
                    if t != o {
                        if m != o && m != t {
                            let said = |x: &Option<String>| x.clone().unwrap_or_default();
                            met.push((what, said(m), said(t)));
                        }
                        m.clone_from(t);
                        shown = true;
                    }
                }
                if t.project != o.project {
                    m.project.clone_from(&t.project);
                }
                if t.complexity != o.complexity {
                    m.complexity.clone_from(&t.complexity);
                }
                if t.recoveries != o.recoveries {
                    m.recoveries = t.recoveries;
                }
                if to != Section::Failed {
                    m.times.cause = None;
                }
                self.overlaps.extend(met.into_iter().map(|(what, earlier, later)| Overlap {
                    what: format!("{name} {what}"),
                    earlier,
                    later,
                }));
            }
            (k, _, t) => {
                *k = t.clone();
                shown = true;
            }
        }
        if !shown {
            let mut e = ours.clone();
            e.kind = kind;
            return Some(Arc::new(e));
        }
        let eol = self.state.eol();
        Some(Arc::new(render::entry(ours.id, kind, to, eol, Some(&ours.raw))))
    }

    pub(super) fn finish(self, last: &MissionsState) -> Outcome {
        let Refresh { rows, batch, mut state, overlaps, tally, ids, now, same, given, .. } = self;
        let touched = !batch.is_empty();
        state.vanished = state
            .vanished
            .iter()
            .filter(|v| now.0.saturating_sub(v.at.0) <= COMES_BACK)
            .cloned()
            .collect();
        let mut next = batch.apply(&state);
        if touched && !super::readback::reads_back(&next, last) {
            next = super::apart::stand_alone(&next);
        }
        let mut keys: Numbers<Ident, RowKey> = with_room(rows.len());
        keys.extend(ids.iter().zip(&rows).filter_map(|(id, row)| Some(((*id)?, row.key))));
        let slots: Vec<Slot> = next
            .slots
            .iter()
            .map(|s| {
                let mut any = false;
                let book: Vec<Option<RowKey>> = s
                    .core
                    .entries
                    .iter()
                    .map(|e| {
                        let key = keys.get(&ident(e)).copied().filter(|_| e.is_item());
                        any |= e.is_item() && key.is_none();
                        key
                    })
                    .collect();
                // Rows that wait (R9) leave the bookkeeping of their chunk open.
                let open = any && !same;
                let kept = s.rows.as_ref().filter(|r| r.keys == book).cloned();
                Slot {
                    core: s.core.clone(),
                    rows: if open { None } else { kept.or(Some(RowBook::new(&s.core, book))) },
                }
            })
            .collect();
        next.slots = slots.into();
        let changed = touched && !next.same_text(last);
        Outcome { next, changed, overlaps, tally, given }
    }
}

fn name_of(section: Section) -> String {
    section.header().trim_start_matches("## ").to_owned()
}

/// The row's columns with what only we know.
fn carried(row: &Kind, ours: &Kind) -> Kind {
    match (row, ours) {
        (Kind::Mission(r), Kind::Mission(o)) => {
            let mut m = r.clone();
            m.times.cause.clone_from(&o.times.cause);
            Kind::Mission(m)
        }
        (r, _) => r.clone(),
    }
}
