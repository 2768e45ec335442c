//! What other programs did to the rows (R9).

use std::collections::HashMap;
use std::sync::Arc;

use super::batch::Batch;
use super::chunk::RowKey;
use super::entry::{Entry, Section};
use super::gone::Gone;
use super::insert::{new_section, space};
use super::merge::{Ident, ident};
use super::numbers::{Numbers, with_room};
use super::order::{Order, Shown};
use super::rematch::same_columns;
use super::rows::Row;
use super::tally::Tally;
use super::tree::{Loc, MissionsState};
use crate::model::{Overlap, Stamp};

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
    let mut r = Refresh::new(rows, items(base).collect(), base, last, now);
    r.known = known;
    r.state.nested_items = nested_items;
    if !r.unchanged() {
        r.match_rows();
        if let Some(read) = read {
            r.match_waiting(read);
        }
        if !r.as_before() {
            // All rows are looked at: there is nothing that it could leave undone.
            let _done = r.carry_over();
        }
    }
    r.finish()
}

/// The same for a `base` without rows that wait, when only these rows and items of it can be
/// different and all others are what `base` says, keys included. `None`: what is different
/// changes the order of others, so that all have to be looked at.
pub fn refresh_part(
    part: Part<'_>,
    nested_items: bool,
    base: &MissionsState,
    now: Stamp,
    known: Given,
) -> Option<Outcome> {
    let mut r = Refresh::new(part.rows, part.items, base, base, now);
    r.known = known;
    r.rest = Some(part.rest);
    r.state.nested_items = nested_items;
    if !r.unchanged() {
        r.match_rows();
        if !r.carry_over() {
            return None;
        }
    }
    Some(r.finish())
}

/// What may be different.
pub struct Part<'a> {
    /// Rows, in the order of [`super::rows::read`].
    pub rows: Vec<Row>,
    /// Items, in text order. The rows that these had and that are there are among `rows`.
    pub items: Vec<Item<'a>>,
    /// How many other rows there are.
    pub rest: usize,
}

/// The items of a version, in text order.
pub fn items(base: &MissionsState) -> impl Iterator<Item = Item<'_>> {
    base.located().filter(|(_, e)| e.is_item()).map(|(loc, entry)| Item {
        loc,
        entry,
        key: base.slots[loc.slot].row(loc.index),
    })
}

/// An item of `base` with its row.
pub struct Item<'a> {
    /// Where it is.
    pub loc: Loc,
    /// What it is.
    pub entry: &'a Arc<Entry>,
    /// Its row, as far as known.
    pub key: Option<RowKey>,
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

impl Item<'_> {
    /// Its row.
    pub(super) fn row(&self) -> Option<(Table, i64)> {
        Some(row_of(self.entry.section, self.key?.id))
    }
}

/// A refresh on its way.
pub(super) struct Refresh<'a> {
    pub(super) rows: Vec<Row>,
    /// Items of `base`, in text order.
    pub(super) items: Vec<Item<'a>>,
    /// Number of rows and items of `base` that are equal and not among these.
    pub(super) rest: Option<usize>,
    /// Row -> item that it is.
    pub(super) of_row: Vec<Option<usize>>,
    /// Item -> row.
    pub(super) of_item: Vec<Option<usize>>,
    pub(super) base: &'a MissionsState,
    pub(super) last: &'a MissionsState,
    /// The two have the same entries at the same places.
    pub(super) same: bool,
    pub(super) state: MissionsState,
    pub(super) batch: Batch,
    pub(super) overlaps: Vec<Overlap>,
    pub(super) tally: Tally,
    /// Row -> identity in the next version.
    pub(super) ids: Vec<Option<Ident>>,
    pub(super) known: Given,
    pub(super) given: Given,
    /// What has vanished and may come back.
    pub(super) gone: Gone,
}

impl<'a> Refresh<'a> {
    pub(super) fn new(
        rows: Vec<Row>,
        items: Vec<Item<'a>>,
        base: &'a MissionsState,
        last: &'a MissionsState,
        now: Stamp,
    ) -> Refresh<'a> {
        let mut state = last.clone();
        state.next_no = state.next_no.max(base.next_no);
        state.next_line = state.next_line.max(base.next_line);
        Refresh {
            of_row: vec![None; rows.len()],
            of_item: vec![None; items.len()],
            ids: vec![None; rows.len()],
            rows,
            items,
            rest: None,
            same: base.same_text(last),
            base,
            last,
            state,
            batch: Batch::default(),
            overlaps: Vec::new(),
            tally: Tally::default(),
            known: Given::new(),
            given: Given::new(),
            gone: Gone::new(last.vanished.clone(), now),
        }
    }

    pub(super) fn pair(&mut self, row: usize, item: usize) {
        self.of_row[row] = Some(item);
        self.of_item[item] = Some(row);
        self.ids[row] = Some(ident(self.items[item].entry));
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

    /// Every row is an item, every item a row, with the same columns, in the same order: only
    /// ids and sequences may be others.
    fn as_before(&self) -> bool {
        let mut above: Option<(Section, Loc)> = None;
        self.of_item.iter().all(Option::is_some)
            && self.rows.iter().zip(&self.of_row).all(|(row, item)| {
                let Some(item) = item.map(|i| &self.items[i]) else { return false };
                let here = (row.section, item.loc);
                // Finished ones keep the order of the text.
                let finished = matches!(row.section, Section::Done | Section::Failed);
                let in_order = finished || above.is_none_or(|above| above < here);
                above = Some(here);
                in_order
                    && item.entry.section == row.section
                    && same_columns(&item.entry.kind, &row.kind)
            })
    }

    /// Where items of `base` are in `last`.
    fn places(&self) -> Places {
        if self.same {
            return Places(None);
        }
        let mut places = with_room(self.items.len());
        let items = self.last.located().filter(|(_, e)| e.is_item());
        places.extend(items.map(|(l, e)| (ident(e), l)));
        Places(Some(places))
    }

    /// Carries what is different over. `false`: rows that were not looked at would have to move.
    #[must_use]
    pub(super) fn carry_over(&mut self) -> bool {
        let places = self.places();
        for i in 0..self.items.len() {
            if self.of_item[i].is_none() {
                self.vanished(i, &places);
            }
        }
        for section in Section::WITH_ROWS {
            if !self.section(section, &places) {
                return false;
            }
        }
        space(&mut self.state, &mut self.batch);
        true
    }

    fn vanished(&mut self, item: usize, places: &Places) {
        let old = self.items[item].entry.clone();
        let Some(loc) = places.of(&self.items[item]) else { return };
        let Some(ours) = self.last.at(loc) else { return };
        if !old.same_row(ours) {
            self.overlaps.push(Overlap {
                what: old.name(),
                earlier: "changed".to_owned(),
                later: "not removed, because it was changed".to_owned(),
            });
            return;
        }
        self.tally.count(Some(&old), None);
        self.batch.set.insert(loc, None);
        self.gone.add(old);
    }

    /// Rows of one section in the order in which they are shown: those that keep their order
    /// stay, all others go behind the row before them. `false`: as in [`Self::carry_over`].
    fn section(&mut self, section: Section, places: &Places) -> bool {
        let from = self.rows.partition_point(|r| r.section < section);
        let to = self.rows.partition_point(|r| r.section <= section);
        if from == to {
            return true;
        }
        let Some(Order { shown, stable }) = self.order(from..to, section) else { return false };
        let mut place: Option<Loc> = None;
        for shown in shown {
            let r = match shown {
                Shown::Row(r) => r,
                Shown::Rest(loc) => {
                    place = Some(Loc { index: loc.index + 1, ..loc });
                    continue;
                }
            };
            let item = self.of_row[r];
            let ours = item
                .and_then(|i| places.of(&self.items[i]))
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
        true
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
}

/// Where items of `base` are in `last`; nothing: where they are in `base`.
struct Places(Option<Numbers<Ident, Loc>>);

impl Places {
    fn of(&self, item: &Item<'_>) -> Option<Loc> {
        match &self.0 {
            Some(places) => places.get(&ident(item.entry)).copied(),
            None => Some(item.loc),
        }
    }
}

fn name_of(section: Section) -> String {
    section.header().trim_start_matches("## ").to_owned()
}
