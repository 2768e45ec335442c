//! Which rows are which missions, after a change by another program (merge.md: by state,
//! text and order; the id only breaks ties).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use super::entry::{Kind, Section, clean};
use super::merge::{Ident, ident};
use super::numbers::{Numbers, with_room};
use super::refresh::{Item, Refresh, Table, row_of};
use super::rows::Row;
use super::tree::MissionsState;
use crate::text::similarity;

/// Renamed: at least this much alike.
const EDITED: f64 = 0.5;
/// Of equal texts so many are looked at.
const ALIKE: usize = 64;
/// No more than this many pairs of rows are compared for likeness.
const PAIRS: usize = 20_000;

impl Refresh<'_> {
    /// By state, text and order, the id breaking ties; then by id, by text, by likeness.
    pub(super) fn match_rows(&mut self) {
        // Among equal texts of a state those with the same id are the same ones.
        self.by_id(|row, it| {
            row.section == it.entry.section && key_text(&row.kind) == key_text(&it.entry.kind)
        });
        self.in_order();
        // Of several equal ones those with equal columns first: which row each one was is not known
        // after a restart.
        self.in_groups(same_columns);
        self.in_groups(|_, _| true);
        // The same row in another state: same id and text, then the text alone.
        self.by_id(|row, it| key_text(&row.kind) == key_text(&it.entry.kind));
        self.moved_by_text();
        // The same id in a table that was not rewritten whole.
        if !self.rewritten() {
            self.by_id(|_, _| true);
        }
        self.alike();
        self.moved_with_a_tag();
    }

    /// Equal texts of a state, in their order, where `want` holds.
    fn in_groups(&mut self, want: impl Fn(&Kind, &Kind) -> bool) {
        let mut groups: HashMap<(Section, String), VecDeque<usize>> = HashMap::new();
        for (i, it) in self.items.iter().enumerate().filter(|(i, _)| self.of_item[*i].is_none()) {
            let key = (it.entry.section, key_text(&it.entry.kind).into_owned());
            groups.entry(key).or_default().push_back(i);
        }
        for r in 0..self.rows.len() {
            if self.of_row[r].is_some() || groups.is_empty() {
                continue;
            }
            let row = &self.rows[r];
            let key = (row.section, key_text(&row.kind).into_owned());
            let Some(group) = groups.get_mut(&key) else { continue };
            let wanted = |i: &usize| want(&self.items[*i].entry.kind, &row.kind);
            let at = group.iter().take(ALIKE).position(wanted);
            if let Some(i) = at.and_then(|at| group.remove(at)) {
                self.pair(r, i);
            }
        }
    }

    /// Those at the beginning of each state that stand there on both sides, columns and all, are
    /// paired without asking where else each text stands.
    fn in_order(&mut self) {
        let mut rows = (0..self.rows.len()).filter(|r| self.of_row[*r].is_none()).peekable();
        let mut pairs = Vec::new();
        let mut sections = Section::WITH_ROWS;
        sections.sort_unstable();
        for section in sections {
            while rows.next_if(|r| self.rows[*r].section < section).is_some() {}
            let open =
                |i: &usize| self.of_item[*i].is_none() && self.items[*i].entry.section == section;
            for i in (0..self.items.len()).filter(open) {
                let ours = &self.items[i].entry.kind;
                let next = |r: &usize| {
                    let row = &self.rows[*r];
                    row.section == section && same_columns(ours, &row.kind)
                };
                let Some(r) = rows.next_if(next) else { break };
                pairs.push((r, i));
            }
        }
        for (r, i) in pairs {
            self.pair(r, i);
        }
    }

    /// By identity, for rows that are the items of a version: `ids` are theirs.
    pub(super) fn pair_by_identity(&mut self, ids: &[Ident]) {
        let items = self.items.iter().enumerate().map(|(i, it)| (ident(it.entry), i));
        let items: HashMap<Ident, usize> = items.collect();
        for (row, id) in ids.iter().enumerate() {
            if let Some(&item) = items.get(id) {
                self.pair(row, item);
            }
        }
    }

    /// Rows that are none of `base` and that the program which put them has read in the mount,
    /// where they wait for it to let go of `missions.lock`.
    pub(super) fn match_waiting(&mut self, read: &MissionsState) {
        let ours: HashSet<Ident> = self.items.iter().map(|i| ident(i.entry)).collect();
        let last: HashSet<Ident> = self.last.entries().map(|e| ident(e)).collect();
        let mut waiting: HashMap<(Section, String), VecDeque<Ident>> = HashMap::new();
        for e in read.entries().filter(|e| e.is_item()) {
            let id = ident(e);
            if last.contains(&id) && !ours.contains(&id) {
                let key = (e.section, key_text(&e.kind).into_owned());
                waiting.entry(key).or_default().push_back(id);
            }
        }
        for (r, row) in self.rows.iter().enumerate() {
            if self.of_row[r].is_some() || waiting.is_empty() {
                continue;
            }
            let key = (row.section, key_text(&row.kind).into_owned());
            if let Some(id) = waiting.get_mut(&key).and_then(VecDeque::pop_front) {
                self.given.insert((row.section.table(), row.key.id), id.1);
                self.ids[r] = Some(id);
            }
        }
    }

    /// Moved to another state and marked at the end of the text, as programs do when they give
    /// a mission up.
    fn moved_with_a_tag(&mut self) {
        let items: Vec<usize> =
            (0..self.items.len()).filter(|i| self.of_item[*i].is_none()).collect();
        let left = |r: &usize| self.of_row[*r].is_none() && self.rows[*r].section.state().is_some();
        let rows: Vec<usize> = (0..self.rows.len()).filter(left).collect();
        if items.len() * rows.len() > PAIRS {
            return;
        }
        for r in rows {
            let text = key_text(&self.rows[r].kind);
            let tagged = |i: &usize| {
                let old = &self.items[*i].entry;
                let tag = text.strip_prefix(&*key_text(&old.kind));
                self.of_item[*i].is_none()
                    && old.section.state().is_some()
                    && tag.is_some_and(|t| t.starts_with(" [") && t.ends_with(']'))
            };
            if let Some(i) = items.iter().copied().find(tagged) {
                self.pair(r, i);
            }
        }
    }

    /// Pairs leftovers of the same table and row id when `want` holds.
    fn by_id(&mut self, want: impl Fn(&Row, &Item<'_>) -> bool) {
        let left = self.of_item.iter().filter(|i| i.is_none()).count();
        let mut by_id: Numbers<(Table, i64), usize> = with_room(left);
        let items = self.items.iter().enumerate().filter(|(i, _)| self.of_item[*i].is_none());
        by_id.extend(items.filter_map(|(i, it)| Some((it.row()?, i))));
        let mut pairs = Vec::new();
        for (r, row) in self.rows.iter().enumerate() {
            if self.of_row[r].is_some() {
                continue;
            }
            if let Some(&i) = by_id.get(&row_of(row.section, row.key.id))
                && want(row, &self.items[i])
            {
                pairs.push((r, i));
            }
        }
        for (r, i) in pairs {
            self.pair(r, i);
        }
    }

    fn moved_by_text(&mut self) {
        let mut left: HashMap<(&str, String), VecDeque<usize>> = HashMap::new();
        for (i, it) in self.items.iter().enumerate() {
            if self.of_item[i].is_none() {
                let key = (it.entry.section.table(), key_text(&it.entry.kind).into_owned());
                left.entry(key).or_default().push_back(i);
            }
        }
        let mut pairs = Vec::new();
        for (r, row) in self.rows.iter().enumerate() {
            if self.of_row[r].is_none()
                && let Some(i) = left
                    .get_mut(&(row.section.table(), key_text(&row.kind).into_owned()))
                    .and_then(VecDeque::pop_front)
            {
                pairs.push((r, i));
            }
        }
        for (r, i) in pairs {
            self.pair(r, i);
        }
    }

    /// The matched rows say whether ids mean anything: after a replace-all most are others.
    fn rewritten(&self) -> bool {
        let matched = self.of_row.iter().enumerate().filter_map(|(r, i)| Some((r, (*i)?)));
        let (mut same, mut other) = (self.rest.unwrap_or(0), 0usize);
        for (r, i) in matched {
            match self.items[i].key {
                Some(k) if k.id == self.rows[r].key.id => same += 1,
                _ => other += 1,
            }
        }
        other > same
    }

    /// The closest text in the same state.
    fn alike(&mut self) {
        for section in Section::WITH_ROWS {
            let rows: Vec<usize> = (0..self.rows.len())
                .filter(|r| self.of_row[*r].is_none() && self.rows[*r].section == section)
                .collect();
            let items: Vec<usize> = (0..self.items.len())
                .filter(|i| self.of_item[*i].is_none() && self.items[*i].entry.section == section)
                .collect();
            if rows.is_empty() || items.is_empty() || rows.len() * items.len() > PAIRS {
                continue;
            }
            let mut found = Vec::new();
            for (x, &r) in rows.iter().enumerate() {
                let a = key_text(&self.rows[r].kind);
                for (y, &i) in items.iter().enumerate() {
                    let b = key_text(&self.items[i].entry.kind);
                    if let Some(s) = similarity(&a, &b, EDITED) {
                        found.push((((1.0 - s) * 1e9) as u64, x.abs_diff(y), r, i));
                    }
                }
            }
            found.sort_unstable();
            for (_, _, r, i) in found {
                if self.of_row[r].is_none() && self.of_item[i].is_none() {
                    self.pair(r, i);
                }
            }
        }
    }
}

/// What rows are matched by.
pub(super) fn key_text(kind: &Kind) -> Cow<'_, str> {
    match kind {
        Kind::Mission(m) => clean(&m.text),
        Kind::Idea(i) => match clean(&i.text) {
            Cow::Borrowed(t) => Cow::Borrowed(t.strip_prefix("- ").unwrap_or(t)),
            Cow::Owned(t) => Cow::Owned(t.strip_prefix("- ").unwrap_or(&t).to_owned()),
        },
        Kind::Ci(c) => Cow::Borrowed(&c.url),
        Kind::Layout | Kind::Header => Cow::Borrowed(""),
    }
}

/// Columns are equal, as far as the row has them, texts after the clean-up of a foreign
/// program (merge.md).
pub(super) fn same_columns(ours: &Kind, row: &Kind) -> bool {
    match (ours, row) {
        (Kind::Mission(a), Kind::Mission(b)) => {
            (a.text == b.text || clean(&a.text) == clean(&b.text))
                && a.project == b.project
                && a.complexity == b.complexity
                && a.times.queued == b.times.queued
                && a.times.started == b.times.started
                && a.times.completed == b.times.completed
                && a.recoveries == b.recoveries
        }
        (Kind::Idea(a), Kind::Idea(b)) => {
            clean(&a.text) == clean(&b.text) && a.project == b.project && a.added == b.added
        }
        (a, b) => a == b,
    }
}
