//! The order in which rows are shown, among those that are not looked at because they are what they
//! were.

use std::ops::Range;

use super::chunk::RowKey;
use super::entry::{Entry, Section};
use super::refresh::Refresh;
use super::rows::{Row, by_completion, completed};
use super::tree::Loc;
use crate::text::longest_increasing;

/// A row of a section.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shown {
    /// One that is looked at, by its index.
    Row(usize),
    /// One that is what it was, where it is.
    Rest(Loc),
}

/// The rows of a section, as far as it matters.
pub(super) struct Order {
    /// As they are shown.
    pub(super) shown: Vec<Shown>,
    /// For each one that is looked at, whether it is one of those whose order among each other is
    /// that of the text.
    pub(super) stable: Vec<bool>,
}

impl Refresh<'_> {
    /// The order of the rows of a section, those of `range` among the others. `None`: others would
    /// have to move.
    pub(super) fn order(&self, range: Range<usize>, section: Section) -> Option<Order> {
        let finished = matches!(section, Section::Done | Section::Failed);
        let shown = match self.rest {
            None => range.clone().map(Shown::Row).collect(),
            Some(_) if finished => self.among_finished(range.clone(), section),
            Some(_) => self.among_waiting(range.clone(), section)?,
        };
        let mut stable = vec![false; range.len()];
        let place = |shown: &Shown| match *shown {
            Shown::Rest(loc) => Some((None, loc)),
            Shown::Row(r) => {
                let item = &self.items[self.of_row[r]?];
                (item.entry.section == section).then_some((Some(r), item.loc))
            }
        };
        let here: Vec<(Option<usize>, Loc)> = shown.iter().filter_map(place).collect();
        let mut keep =
            |r: Option<usize>| r.into_iter().for_each(|r| stable[r - range.start] = true);
        if finished || here.is_sorted_by(|a, b| a.1 < b.1) {
            here.iter().for_each(|(r, _)| keep(*r));
            return Some(Order { shown, stable });
        }
        let order: Vec<Loc> = here.iter().map(|(_, loc)| *loc).collect();
        let kept = longest_increasing(&order);
        kept.iter().for_each(|i| keep(here[*i].0));
        let rest = |rows: usize, row: &(Option<usize>, Loc)| rows + usize::from(row.0.is_none());
        let (all, still) =
            (here.iter().fold(0, rest), kept.iter().fold(0, |n, i| rest(n, &here[*i])));
        (all == still).then_some(Order { shown, stable })
    }

    /// Queued and running ones are shown by sequence.
    fn among_waiting(&self, range: Range<usize>, section: Section) -> Option<Vec<Shown>> {
        let mut out = Vec::with_capacity(range.len());
        let (mut rows, mut above) = (range.peekable(), None::<RowKey>);
        for (loc, key, _) in self.rest_of(section) {
            if above.is_some_and(|above| above >= key) {
                return None;
            }
            above = Some(key);
            while let Some(r) = rows.next_if(|r| self.rows[*r].key < key) {
                out.push(Shown::Row(r));
            }
            out.push(Shown::Rest(loc));
        }
        out.extend(rows.map(Shown::Row));
        Some(out)
    }

    /// Finished ones are shown by their completion; their order in the text is left as it is.
    fn among_finished(&self, range: Range<usize>, section: Section) -> Vec<Shown> {
        let stays =
            |r: usize| self.of_row[r].is_some_and(|i| self.items[i].entry.section == section);
        if range.clone().all(stays) {
            return range.map(Shown::Row).collect();
        }
        let rest = self.rest_of(section);
        let mut rest: Vec<_> = rest.map(|(loc, key, e)| (completed(&e.kind), key, loc)).collect();
        rest.sort_by(|a, b| by_completion((a.0, a.1), (b.0, b.1)));
        let mut out = Vec::with_capacity(rest.len() + range.len());
        let mut rows = range.peekable();
        for (at, key, loc) in rest {
            let before = |row: &Row| by_completion((completed(&row.kind), row.key), (at, key));
            while let Some(r) = rows.next_if(|r| before(&self.rows[*r]).is_lt()) {
                out.push(Shown::Row(r));
            }
            out.push(Shown::Rest(loc));
        }
        out.extend(rows.map(Shown::Row));
        out
    }

    /// Items of a section that are not looked at, in text order.
    fn rest_of(&self, section: Section) -> impl Iterator<Item = (Loc, RowKey, &Entry)> {
        let mut looked_at = self.items.iter().map(|i| i.loc).peekable();
        let slots = self.base.slots.iter().enumerate();
        let with = slots.filter(move |(_, s)| s.core.items[section as usize] > 0);
        let all = with.flat_map(move |(slot, s)| {
            let entries = s.core.entries.iter().enumerate();
            let here = entries.filter(move |(_, e)| e.section == section && e.is_item());
            here.map(move |(index, e)| (Loc { slot, index }, s.row(index), &**e))
        });
        all.filter_map(move |(loc, key, entry)| {
            while looked_at.next_if(|l| *l < loc).is_some() {}
            let rest = looked_at.peek() != Some(&loc);
            Some((loc, key.filter(|_| rest)?, entry))
        })
    }
}
