//! Makes rows equal to a version, touching only what differs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::Connection;

use super::chunk::{Core, RowBook, RowKey, Rows, Slot, Slots};
use super::entry::{Entry, Section};
use super::merge::{Ident, ident};
use super::rows;
use super::sequence;
use super::tree::{Loc, MissionsState};

/// `rows equal before` -> `rows equal after`; returns `after` with its rows filled in. Chunks
/// shared by the two are skipped by pointer.
pub fn apply(
    conn: &Connection,
    before: &MissionsState,
    after: &MissionsState,
) -> rusqlite::Result<MissionsState> {
    let mut a = Apply::new(before, after);
    a.delete(conn)?;
    for section in Section::WITH_ROWS {
        a.section(conn, section)?;
    }
    Ok(MissionsState { slots: a.slots(), ..after.clone() })
}

struct Apply<'a> {
    after: &'a MissionsState,
    /// Items of `before` in chunks that `after` does not have.
    gone: HashMap<Ident, (Arc<Entry>, RowKey)>,
    /// Rows of the slots of `after`, by index; those of shared chunks come from `before`.
    rows: Vec<Option<Rows>>,
    /// Rows of the other slots.
    fresh: HashMap<usize, Vec<Option<RowKey>>>,
    /// Per table, sequences over all states, in both versions: (min, max).
    range: Vec<(&'static str, i64, i64)>,
}

impl<'a> Apply<'a> {
    fn new(before: &MissionsState, after: &'a MissionsState) -> Apply<'a> {
        let same = |a: &Slot, b: &Slot| Arc::ptr_eq(&a.core, &b.core) && a.rows.is_some();
        let (b, n) = (&before.slots[..], &after.slots[..]);
        let head = b.iter().zip(n).take_while(|(a, b)| same(a, b)).count();
        let (b, mid) = (&b[head..], &n[head..]);
        let tail = b.iter().rev().zip(mid.iter().rev()).take_while(|(a, b)| same(a, b)).count();
        let (b, mid) = (&b[..b.len() - tail], &mid[..mid.len() - tail]);
        let old: HashMap<*const Core, &Slot> =
            b.iter().filter(|s| s.rows.is_some()).map(|s| (Arc::as_ptr(&s.core), s)).collect();
        let kept: HashSet<*const Core> = mid.iter().map(|s| Arc::as_ptr(&s.core)).collect();
        let mut rows: Vec<Option<Rows>> = Vec::with_capacity(n.len());
        let mut fresh = HashMap::new();
        rows.extend(before.slots[..head].iter().map(|s| s.rows.clone()));
        for (i, s) in mid.iter().enumerate() {
            let known = old.get(&Arc::as_ptr(&s.core)).and_then(|o| o.rows.clone());
            if known.is_none() {
                fresh.insert(head + i, vec![None; s.core.entries.len()]);
            }
            rows.push(known);
        }
        rows.extend(before.slots[before.slots.len() - tail..].iter().map(|s| s.rows.clone()));
        let mut gone = HashMap::new();
        for s in b {
            if s.rows.is_some() && kept.contains(&Arc::as_ptr(&s.core)) {
                continue;
            }
            for (index, e) in s.core.entries.iter().enumerate() {
                if let Some(key) = s.row(index) {
                    gone.insert(ident(e), (e.clone(), key));
                }
            }
        }
        let mut a = Apply { after, gone, rows, fresh, range: Vec::new() };
        a.ranges(before);
        a
    }

    /// Costs by the number of chunks but for those of this change.
    fn ranges(&mut self, before: &MissionsState) {
        for s in before.slots.iter() {
            for &(table, low, high) in s.rows.iter().flat_map(|r| &r.ranges) {
                self.widen(table, low, high);
            }
        }
    }

    /// Smallest and largest sequence of a table; (1, 0) when it is empty.
    fn range_of(&self, table: &str) -> (i64, i64) {
        self.range.iter().find(|r| r.0 == table).map_or((1, 0), |r| (r.1, r.2))
    }

    fn delete(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut left: HashSet<Ident> = self.gone.keys().copied().collect();
        for slot in self.fresh.keys() {
            for e in self.after.slots[*slot].core.entries.iter().filter(|e| e.is_item()) {
                left.remove(&ident(e));
            }
        }
        for id in left {
            if let Some((e, key)) = self.gone.remove(&id) {
                rows::delete(conn, e.section, key.id)?;
            }
        }
        Ok(())
    }

    fn key_at(&self, loc: Loc) -> Option<RowKey> {
        match self.rows.get(loc.slot) {
            Some(Some(rows)) => rows.keys.get(loc.index).copied().flatten(),
            _ => self.fresh.get(&loc.slot)?.get(loc.index).copied().flatten(),
        }
    }

    /// The items of a section from one slot, in text order.
    fn items_of(&self, slot: usize, section: Section) -> impl DoubleEndedIterator<Item = Loc> + '_ {
        let core = &self.after.slots[slot].core;
        let any = core.items[section as usize] > 0;
        core.entries
            .iter()
            .enumerate()
            .filter(move |(_, e)| any && e.is_item() && e.section == section)
            .map(move |(index, _)| Loc { slot, index })
    }

    fn section(&mut self, conn: &Connection, section: Section) -> rusqlite::Result<()> {
        let mut slots: Vec<usize> = self
            .fresh
            .keys()
            .copied()
            .filter(|s| self.after.slots[*s].core.items[section as usize] > 0)
            .collect();
        if slots.is_empty() {
            return Ok(());
        }
        slots.sort_unstable();
        let locs: Vec<Loc> = slots.iter().flat_map(|s| self.items_of(*s, section)).collect();
        let finished = matches!(section, Section::Done | Section::Failed);
        let table = section.table();
        let (low, high) = self.range_of(table);
        if finished {
            // Newest first: the order is that of the completion, sequences only break ties.
            let mut next = high;
            for loc in locs.into_iter().rev() {
                let entry = self.after.slots[loc.slot].core.entries[loc.index].clone();
                let kept = self.gone.get(&ident(&entry)).map(|(_, k)| k.sequence);
                let sequence = kept.unwrap_or_else(|| {
                    next = next.saturating_add(1);
                    next
                });
                self.write(conn, loc, &entry, sequence)?;
            }
            self.widen(table, next, next);
            return Ok(());
        }
        let (window, keys) = self.window(&slots, &locs, section);
        let given = sequence::assign(&keys, low.saturating_sub(1), high.saturating_add(1));
        for (loc, sequence) in window.into_iter().zip(given) {
            self.widen(table, sequence, sequence);
            let entry = self.after.slots[loc.slot].core.entries[loc.index].clone();
            if self.rows[loc.slot].is_some() {
                self.resequence(conn, loc, section, sequence)?;
            } else {
                self.write(conn, loc, &entry, sequence)?;
            }
        }
        Ok(())
    }

    fn widen(&mut self, table: &'static str, low: i64, high: i64) {
        match self.range.iter_mut().find(|r| r.0 == table) {
            Some(r) => (r.1, r.2) = (r.1.min(low), r.2.max(high)),
            None => self.range.push((table, low, high)),
        }
    }

    /// The changed items with one unchanged neighbour on either side of each run; all items
    /// of the section when the gaps there are too small.
    fn window(
        &self,
        slots: &[usize],
        locs: &[Loc],
        section: Section,
    ) -> (Vec<Loc>, Vec<Option<RowKey>>) {
        let mut window: Vec<Loc> = Vec::with_capacity(locs.len() + 2);
        let count = self.after.slots.len();
        for (n, slot) in slots.iter().enumerate() {
            let floor = if n > 0 { slots[n - 1] + 1 } else { 0 };
            let before = (floor..*slot).rev().find_map(|s| self.items_of(s, section).next_back());
            if before.is_some_and(|b| window.last() != Some(&b)) {
                window.extend(before);
            }
            window.extend(self.items_of(*slot, section));
            let ceiling = slots.get(n + 1).copied().unwrap_or(count);
            let after = (slot + 1..ceiling).find_map(|s| self.items_of(s, section).next());
            window.extend(after);
        }
        let keys: Vec<Option<RowKey>> =
            window.iter().map(|l| self.present_key(*l, section)).collect();
        if self.fits(&window, &keys, section) {
            return (window, keys);
        }
        let all: Vec<Loc> = (0..count).flat_map(|s| self.items_of(s, section)).collect();
        let keys = all.iter().map(|l| self.present_key(*l, section)).collect();
        (all, keys)
    }

    /// The window can be numbered without a change of the unchanged neighbours in it.
    fn fits(&self, window: &[Loc], keys: &[Option<RowKey>], section: Section) -> bool {
        let first = self.after.first_item(section);
        let last = self.after.last_item(section);
        let open_start = window.first().copied() == first;
        let open_end = window.last().copied() == last;
        let (low, high) = self.range_of(section.table());
        let given = sequence::assign(keys, low.saturating_sub(1), high.saturating_add(1));
        let edge_ok = |i: Option<usize>, open: bool| {
            i.is_none_or(|i| open || keys[i].is_some_and(|k| k.sequence == given[i]))
        };
        let unchanged = window.iter().enumerate().all(|(i, l)| {
            self.rows[l.slot].is_none() || keys[i].is_some_and(|k| k.sequence == given[i])
        });
        unchanged
            && edge_ok((!window.is_empty()).then_some(0), open_start)
            && edge_ok(window.len().checked_sub(1), open_end)
    }

    /// The key that a row has in this section now; `None`: new here.
    fn present_key(&self, loc: Loc, section: Section) -> Option<RowKey> {
        if self.rows[loc.slot].is_some() {
            return self.key_at(loc);
        }
        let entry = &self.after.slots[loc.slot].core.entries[loc.index];
        let (old, key) = self.gone.get(&ident(entry))?;
        (old.section == section).then_some(*key)
    }

    fn write(
        &mut self,
        conn: &Connection,
        loc: Loc,
        entry: &Entry,
        sequence: i64,
    ) -> rusqlite::Result<()> {
        let key = match self.gone.get(&ident(entry)) {
            Some((old, key)) if old.same_row(entry) && key.sequence == sequence => *key,
            Some((old, key)) if old.section.table() == entry.section.table() => {
                rows::update(conn, &entry.kind, entry.section, RowKey { sequence, id: key.id })?
            }
            _ => rows::insert(conn, &entry.kind, entry.section, sequence)?,
        };
        if let Some(rows) = self.fresh.get_mut(&loc.slot)
            && let Some(place) = rows.get_mut(loc.index)
        {
            *place = Some(key);
        }
        Ok(())
    }

    /// An unchanged row gets another sequence.
    fn resequence(
        &mut self,
        conn: &Connection,
        loc: Loc,
        section: Section,
        sequence: i64,
    ) -> rusqlite::Result<()> {
        let Some(mut key) = self.key_at(loc).filter(|k| k.sequence != sequence) else {
            return Ok(());
        };
        key.sequence = sequence;
        rows::set_sequence(conn, section, key)?;
        if let Some(Some(rows)) = self.rows.get_mut(loc.slot) {
            let mut renewed = rows.keys.clone();
            renewed[loc.index] = Some(key);
            *rows = RowBook::new(&self.after.slots[loc.slot].core, renewed);
        }
        Ok(())
    }

    fn slots(self) -> Slots {
        let Apply { after, rows, mut fresh, .. } = self;
        let slots: Vec<Slot> = after
            .slots
            .iter()
            .zip(rows)
            .enumerate()
            .map(|(i, (s, rows))| Slot {
                core: s.core.clone(),
                rows: rows.or_else(|| fresh.remove(&i).map(|k| RowBook::new(&s.core, k))),
            })
            .collect();
        slots.into()
    }
}
