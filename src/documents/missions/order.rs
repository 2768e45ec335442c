//! The order in which rows are shown, among those that are not looked at because they are what they
//! were.

use std::ops::Range;

use super::chunk::RowKey;
use super::entry::Section;
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
            Some(_) => self.among_waiting(range.clone(), section, false)?,
        };
        let here = self.in_text(&shown, section);
        if finished || here.is_sorted_by(|a, b| a.1 < b.1) {
            let mut stable = vec![false; range.len()];
            here.iter().filter_map(|(r, _)| *r).for_each(|r| stable[r - range.start] = true);
            return Some(Order { shown, stable });
        }
        let all = match self.rest {
            None => here,
            Some(_) => self.in_text(&self.among_waiting(range.clone(), section, true)?, section),
        };
        let order: Vec<Loc> = all.iter().map(|(_, loc)| *loc).collect();
        let mut moves = vec![true; all.len()];
        longest_increasing(&order).into_iter().for_each(|i| moves[i] = false);
        let mut stable = vec![false; range.len()];
        for ((row, _), moves) in all.iter().zip(moves) {
            match row {
                Some(r) => stable[r - range.start] = !moves,
                None if moves => return None,
                None => {}
            }
        }
        Some(Order { shown, stable })
    }

    /// Those that were in this section before, by their places; with their index if looked at.
    fn in_text(&self, shown: &[Shown], section: Section) -> Vec<(Option<usize>, Loc)> {
        let place = |shown: &Shown| match *shown {
            Shown::Rest(loc) => Some((None, loc)),
            Shown::Row(r) => {
                let item = &self.items[self.of_row[r]?];
                (item.entry.section == section).then_some((Some(r), item.loc))
            }
        };
        shown.iter().filter_map(place).collect()
    }

    /// Queued and running ones are shown by sequence. Of the rest only the neighbours of those
    /// that are looked at, or `all`; those in between are in order. `None`: the rest is not.
    fn among_waiting(
        &self,
        range: Range<usize>,
        section: Section,
        all: bool,
    ) -> Option<Vec<Shown>> {
        let mut out = Vec::with_capacity(3 * range.len());
        let (mut rows, mut above) = (range.peekable(), None::<(RowKey, Loc)>);
        for (loc, key) in self.rest_of(section) {
            if above.is_some_and(|(above, _)| above >= key) {
                return None;
            }
            if rows.peek().is_some_and(|r| self.rows[*r].key < key) {
                if let Some((_, above)) = above.filter(|_| !all) {
                    rest(&mut out, above);
                }
                while let Some(r) = rows.next_if(|r| self.rows[*r].key < key) {
                    out.push(Shown::Row(r));
                }
                rest(&mut out, loc);
            } else if all {
                rest(&mut out, loc);
            }
            above = Some((key, loc));
        }
        if let Some((_, above)) = above.filter(|_| rows.peek().is_some()) {
            rest(&mut out, above);
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
        let at = |loc: Loc| self.base.at(loc).and_then(|e| completed(&e.kind));
        let mut rest: Vec<_> =
            self.rest_of(section).map(|(loc, key)| (at(loc), key, loc)).collect();
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
    fn rest_of(&self, section: Section) -> impl Iterator<Item = (Loc, RowKey)> {
        let mut looked_at = self.items.iter().map(|i| i.loc).peekable();
        let slots = self.base.slots.iter().enumerate();
        let with = slots.filter(move |(_, s)| s.core.items[section as usize] > 0);
        let all = with.flat_map(move |(slot, s)| {
            // Only items have keys: where all are of this section, nothing else need be asked.
            let only = s.core.items.iter().sum::<u32>() == s.core.items[section as usize];
            let keys = s.rows.iter().flat_map(|rows| rows.keys.iter().enumerate());
            keys.filter_map(move |(index, key)| {
                let here = only || s.core.entries.get(index)?.section == section;
                Some((Loc { slot, index }, key.filter(|_| here)?))
            })
        });
        all.filter(move |(loc, _)| {
            while looked_at.next_if(|l| l < loc).is_some() {}
            looked_at.peek() != Some(loc)
        })
    }
}

/// Adds one that is not looked at, if it is not there already.
fn rest(out: &mut Vec<Shown>, loc: Loc) {
    if !matches!(out.last(), Some(Shown::Rest(last)) if *last == loc) {
        out.push(Shown::Rest(loc));
    }
}
