//! Makes rows equal to a version, touching only what differs.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use rusqlite::Connection;

use super::chunk;
use super::chunk::{Core, Ranges, RowBook, RowKey, Rows, Slot, Slots, Stretch};
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
    /// The slots of `before` that `after` begins with, and those that it ends with.
    head: &'a [Slot],
    tail: &'a [Slot],
    /// Items of `before` in chunks that `after` does not have, but for those that stay.
    gone: HashMap<Ident, (Arc<Entry>, RowKey)>,
    /// Rows of the slots of `after` between those two; those of shared chunks come from `before`.
    rows: Vec<Option<Rows>>,
    /// Rows of slots in `head` and `tail` that got other sequences, by index in `after`.
    renewed: HashMap<usize, Rows>,
    /// Rows of the other slots.
    fresh: HashMap<usize, Fresh>,
    /// Per table, sequences over all states, in both versions: (min, max).
    range: Ranges,
    /// No row with a smallest or a largest sequence has lost it.
    exact: bool,
}

/// A slot that `before` does not have.
struct Fresh {
    /// The rows, as far as known.
    keys: Vec<Option<RowKey>>,
    /// The entries that are not those of `before`; the others, in front of them and behind them,
    /// stay with their rows.
    changed: Range<usize>,
}

impl<'a> Apply<'a> {
    fn new(before: &'a MissionsState, after: &'a MissionsState) -> Apply<'a> {
        let same = |a: &Slot, b: &Slot| Arc::ptr_eq(&a.core, &b.core) && a.rows.is_some();
        let change = Stretch::where_not(&before.slots, &after.slots, same);
        let (head, b, mid) = (change.at, change.old, change.new);
        let tail = before.slots.len() - head - b.len();
        let old: HashMap<*const Core, &Slot> =
            b.iter().filter(|s| s.rows.is_some()).map(|s| (Arc::as_ptr(&s.core), s)).collect();
        let kept: HashSet<*const Core> = mid.iter().map(|s| Arc::as_ptr(&s.core)).collect();
        // The entries that both begin and end with have rows already.
        let counts = |slots: &[Slot]| slots.iter().map(|s| s.core.entries.len()).sum::<usize>();
        let (old_len, new_len) = (counts(b), counts(mid));
        let known = |s: &Slot| {
            let mut items = s.core.entries.iter().enumerate().filter(|(_, e)| e.is_item());
            items.all(|(i, _)| s.row(i).is_some())
        };
        let (front, back) = match b.iter().all(known) {
            true => (change.front, change.back),
            false => (0, 0),
        };
        if let ([old], [new]) = (b, mid) {
            new.core.archive_after(&old.core, change.front, change.back);
        }
        let mut keys = b.iter().flat_map(|s| (0..s.core.entries.len()).map(|i| s.row(i)));
        let mut front_keys = Vec::with_capacity(front);
        front_keys.extend(keys.by_ref().take(front));
        let back_keys: Vec<Option<RowKey>> = keys.skip(old_len - front - back).collect();
        let mut rows: Vec<Option<Rows>> = Vec::with_capacity(mid.len());
        let mut fresh = HashMap::new();
        let mut first = 0;
        for (i, s) in mid.iter().enumerate() {
            let known = old.get(&Arc::as_ptr(&s.core)).and_then(|o| o.rows.clone());
            let count = s.core.entries.len();
            if known.is_none() {
                let key = |n: usize| match n.checked_sub(new_len - back) {
                    Some(n) => back_keys.get(n).copied().flatten(),
                    None => front_keys.get(n).copied().flatten(),
                };
                let keys = (first..first + count).map(key).collect();
                let within = |n: usize| n.clamp(first, first + count) - first;
                let changed = within(front)..within(new_len - back);
                fresh.insert(head + i, Fresh { keys, changed });
            }
            rows.push(known);
            first += count;
        }
        let mut gone = HashMap::new();
        let (differ, mut first) = (front..old_len - back, 0);
        for s in b {
            let at = first;
            first += s.core.entries.len();
            if s.rows.is_some() && kept.contains(&Arc::as_ptr(&s.core)) {
                continue;
            }
            for (index, e) in s.core.entries.iter().enumerate() {
                if differ.contains(&(at + index))
                    && let Some(key) = s.row(index)
                {
                    gone.insert(ident(e), (e.clone(), key));
                }
            }
        }
        Apply {
            after,
            head: &before.slots[..head],
            tail: &before.slots[before.slots.len() - tail..],
            gone,
            rows,
            renewed: HashMap::new(),
            fresh,
            range: before.slots.ranges().to_vec(),
            exact: true,
        }
    }

    /// Smallest and largest sequence of a table; (1, 0) when it is empty.
    fn range_of(&self, table: &str) -> (i64, i64) {
        self.range.iter().find(|r| r.0 == table).map_or((1, 0), |r| (r.1, r.2))
    }

    fn delete(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut left: HashSet<Ident> = self.gone.keys().copied().collect();
        for (slot, fresh) in &self.fresh {
            let entries = &self.after.slots[*slot].core.entries[fresh.changed.clone()];
            for e in entries.iter().filter(|e| e.is_item()) {
                left.remove(&ident(e));
            }
        }
        for id in left {
            if let Some((e, key)) = self.gone.remove(&id) {
                self.leaves(e.section.table(), key.sequence);
                rows::delete(conn, e.section, key.id)?;
            }
        }
        Ok(())
    }

    /// The rows of a slot that `before` has, too.
    fn rows_of(&self, slot: usize) -> Option<&Rows> {
        if let Some(renewed) = self.renewed.get(&slot) {
            return Some(renewed);
        }
        let at = match slot.checked_sub(self.head.len()) {
            None => return self.head[slot].rows.as_ref(),
            Some(at) => at,
        };
        match at.checked_sub(self.rows.len()) {
            None => self.rows[at].as_ref(),
            Some(at) => self.tail.get(at)?.rows.as_ref(),
        }
    }

    fn key_at(&self, loc: Loc) -> Option<RowKey> {
        match self.rows_of(loc.slot) {
            Some(rows) => rows.keys.get(loc.index).copied().flatten(),
            _ => self.fresh.get(&loc.slot)?.keys.get(loc.index).copied().flatten(),
        }
    }

    /// Its row is to be written; else it stands as it was.
    fn is_changed(&self, loc: Loc) -> bool {
        self.fresh.get(&loc.slot).is_some_and(|f| f.changed.contains(&loc.index))
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
        let items = |(slot, fresh): (&usize, &Fresh)| {
            let is_one = |e: &Entry| e.is_item() && e.section == section;
            let entries = &self.after.slots[*slot].core.entries;
            let found = fresh.changed.clone().filter(|i| is_one(&entries[*i]));
            found.map(|index| Loc { slot: *slot, index }).collect::<Vec<_>>()
        };
        let mut locs: Vec<Loc> = self.fresh.iter().flat_map(items).collect();
        if locs.is_empty() {
            return Ok(());
        }
        locs.sort_unstable();
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
                self.widen(table, sequence, sequence);
                self.write(conn, loc, &entry, sequence)?;
            }
            return Ok(());
        }
        let (window, keys) = self.window(&locs, section);
        let given = sequence::assign(&keys, low.saturating_sub(1), high.saturating_add(1));
        for (loc, sequence) in window.into_iter().zip(given) {
            self.widen(table, sequence, sequence);
            let entry = self.after.slots[loc.slot].core.entries[loc.index].clone();
            if self.is_changed(loc) {
                self.write(conn, loc, &entry, sequence)?;
            } else {
                self.resequence(conn, loc, section, sequence)?;
            }
        }
        Ok(())
    }

    fn widen(&mut self, table: &'static str, low: i64, high: i64) {
        chunk::widen(&mut self.range, table, low, high);
    }

    /// A row does not have this sequence any more.
    fn leaves(&mut self, table: &str, sequence: i64) {
        let (low, high) = self.range_of(table);
        self.exact &= low < sequence && sequence < high;
    }

    /// The changed items with one unchanged neighbour on either side of each run; where the gaps
    /// there are too small, all items of the changed chunks, or of the section.
    fn window(&self, locs: &[Loc], section: Section) -> (Vec<Loc>, Vec<Option<RowKey>>) {
        let keys = |window: &[Loc]| -> Vec<Option<RowKey>> {
            window.iter().map(|l| self.present_key(*l, section)).collect()
        };
        let mut slots: Vec<usize> = locs.iter().map(|l| l.slot).collect();
        slots.dedup();
        let near = self.with_neighbours(locs, section);
        let chunks = || {
            let items: Vec<Loc> = slots.iter().flat_map(|s| self.items_of(*s, section)).collect();
            self.with_neighbours(&items, section)
        };
        let near_keys = keys(&near);
        if self.fits(&near, &near_keys, section) {
            return (near, near_keys);
        }
        let chunks = chunks();
        let chunks_keys = keys(&chunks);
        if self.fits(&chunks, &chunks_keys, section) {
            return (chunks, chunks_keys);
        }
        let count = self.after.slots.len();
        let all: Vec<Loc> = (0..count).flat_map(|s| self.items_of(s, section)).collect();
        let keys = keys(&all);
        (all, keys)
    }

    /// These items, in text order, and the items beside them.
    fn with_neighbours(&self, locs: &[Loc], section: Section) -> Vec<Loc> {
        let mut window: Vec<Loc> = Vec::with_capacity(locs.len() + 2);
        let mut rest = locs.iter().copied().peekable();
        while let Some(loc) = rest.next() {
            let before = self.item_before(loc, section);
            if before.is_some() && before != window.last().copied() {
                window.extend(before);
            }
            window.push(loc);
            let after = self.item_after(loc, section);
            if after.is_some() && after != rest.peek().copied() {
                window.extend(after);
            }
        }
        window
    }

    fn item_before(&self, loc: Loc, section: Section) -> Option<Loc> {
        let is_one = |e: &Arc<Entry>| e.is_item() && e.section == section;
        let slots = &self.after.slots;
        if let Some(index) = slots[loc.slot].core.entries[..loc.index].iter().rposition(is_one) {
            return Some(Loc { index, ..loc });
        }
        (0..loc.slot).rev().find_map(|s| self.items_of(s, section).next_back())
    }

    fn item_after(&self, loc: Loc, section: Section) -> Option<Loc> {
        let is_one = |e: &Arc<Entry>| e.is_item() && e.section == section;
        let slots = &self.after.slots;
        let from = loc.index + 1;
        if let Some(n) = slots[loc.slot].core.entries[from..].iter().position(is_one) {
            return Some(Loc { index: from + n, ..loc });
        }
        (loc.slot + 1..slots.len()).find_map(|s| self.items_of(s, section).next())
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
        let unchanged = window
            .iter()
            .enumerate()
            .all(|(i, l)| self.is_changed(*l) || keys[i].is_some_and(|k| k.sequence == given[i]));
        unchanged
            && edge_ok((!window.is_empty()).then_some(0), open_start)
            && edge_ok(window.len().checked_sub(1), open_end)
    }

    /// The key that a row has in this section now; `None`: new here.
    fn present_key(&self, loc: Loc, section: Section) -> Option<RowKey> {
        if !self.is_changed(loc) {
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
        if let Some((old, key)) = self.gone.get(&ident(entry)).filter(|g| g.1.sequence != sequence)
        {
            self.leaves(old.section.table(), key.sequence);
        }
        let key = match self.gone.get(&ident(entry)) {
            Some((old, key)) if old.same_row(entry) && key.sequence == sequence => *key,
            Some((old, key)) if old.section.table() == entry.section.table() => {
                rows::update(conn, &entry.kind, entry.section, RowKey { sequence, id: key.id })?
            }
            _ => rows::insert(conn, &entry.kind, entry.section, sequence)?,
        };
        self.set_key(loc, key);
        Ok(())
    }

    fn set_key(&mut self, loc: Loc, key: RowKey) {
        if let Some(rows) = self.rows_of(loc.slot) {
            let mut renewed = rows.keys.clone();
            renewed[loc.index] = Some(key);
            let rows = RowBook::new(&self.after.slots[loc.slot].core, renewed);
            self.renewed.insert(loc.slot, rows);
        } else if let Some(fresh) = self.fresh.get_mut(&loc.slot)
            && let Some(place) = fresh.keys.get_mut(loc.index)
        {
            *place = Some(key);
        }
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
        self.leaves(section.table(), key.sequence);
        key.sequence = sequence;
        rows::set_sequence(conn, section, key)?;
        self.set_key(loc, key);
        Ok(())
    }

    fn slots(self) -> Slots {
        let Apply { after, head, tail, rows, renewed, mut fresh, range, exact, .. } = self;
        let mut slots = Vec::with_capacity(after.slots.len());
        slots.extend_from_slice(head);
        for (i, rows) in rows.into_iter().enumerate() {
            let at = head.len() + i;
            let core = after.slots[at].core.clone();
            let rows = rows.or_else(|| fresh.remove(&at).map(|f| RowBook::new(&core, f.keys)));
            slots.push(Slot { core, rows });
        }
        slots.extend_from_slice(tail);
        for (at, rows) in renewed {
            slots[at].rows = Some(rows);
        }
        if exact { Slots::new(slots, range) } else { slots.into() }
    }
}
