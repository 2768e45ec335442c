//! Reading only the rows that may have changed.
//!
//! What is kept is a version and the leaves of the table that it was equal to. A row in a leaf with
//! the same bytes is what that version says; so is, for any version that shares chunks with it, an
//! item in such a chunk. The rest is read. It does not matter what has happened in between, nor
//! whether that version was ever shown to anybody.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::Connection;

use super::chunk::{Core, RowBook, Slot};
use super::refresh::{self, Item, Outcome, Part};
use super::rows;
use super::tree::{Loc, MissionsState};
use super::{Missions, State};
use crate::documents::{Context, Refreshed};
use crate::store::StoreError;
use crate::store::leaves::{Ids, Leaves, Touched};

/// Tables with fewer leaves are read whole: that costs no more.
const FEWEST: usize = if cfg!(test) { 2 } else { 16 };

/// A version and the leaves of the missions that it is equal to.
pub(super) struct Followed {
    leaves: Leaves,
    state: State,
}

impl Missions {
    /// Compares the rows with `base`, a version without rows that wait.
    pub(super) fn compare_part(
        &self,
        conn: &Connection,
        base: &State,
        nested: bool,
        cx: &Context,
        known: refresh::Given,
    ) -> Result<Refreshed, StoreError> {
        let state = self.state(base)?;
        let followed = self.followed.lock().take();
        let again = match &followed {
            Some(followed) => followed.leaves.again(conn)?,
            None => None,
        };
        let some = match (&followed, &again) {
            (Some(followed), Some((_, touched))) => {
                match part(conn, state, self.state(&followed.state)?, touched)? {
                    Some(part) => refresh::refresh_part(part, nested, state, cx.now, known.clone()),
                    None => None,
                }
            }
            _ => None,
        };
        let out = match some {
            Some(out) => out,
            None => refresh::refresh(rows::read(conn)?, nested, state, state, None, cx.now, known),
        };
        let Outcome { next, changed, overlaps, tally, .. } = out;
        let next: State = Arc::new(next);
        let leaves = match again {
            Some((leaves, _)) => Some(leaves),
            None => Leaves::read(conn, "missions")?,
        };
        *self.followed.lock() = leaves
            .filter(|leaves| leaves.len() >= FEWEST)
            .map(|leaves| Followed { leaves, state: next.clone() });
        Ok(Refreshed { next, changed, overlaps, summary: tally.summary() })
    }
}

/// A chunk of a version, text and keys.
fn whole(slot: &Slot) -> Option<(*const Core, *const RowBook)> {
    Some((Arc::as_ptr(&slot.core), Arc::as_ptr(slot.rows.as_ref()?)))
}

/// What of `base` may be different from the rows, of which `touched` says what is different from
/// `then`. `None`: that is so much that everything is read as well, or the keys are not known.
fn part<'a>(
    conn: &Connection,
    base: &'a MissionsState,
    then: &MissionsState,
    touched: &Touched,
) -> rusqlite::Result<Option<Part<'a>>> {
    let chunks = |s: &MissionsState| s.slots.iter().map(whole).collect::<Option<HashSet<_>>>();
    let (Some(ours), Some(theirs)) = (chunks(base), chunks(then)) else { return Ok(None) };
    let shared = |slot: &Slot, with: &HashSet<_>| whole(slot).is_some_and(|w| with.contains(&w));
    // Of what is not shared nothing is known.
    let mut ids: Vec<i64> = Vec::new();
    for slot in then.slots.iter().filter(|s| !shared(s, &ours)) {
        ids.extend(missions(slot).map(|(_, id)| id));
    }
    let (mut items, mut rest) = (Vec::new(), 0);
    let most = 1_000 + base.slots.len() * 32;
    for (n, slot) in base.slots.iter().enumerate() {
        let known = shared(slot, &theirs);
        let mut item = |index: usize| {
            let (entry, key) = (&slot.core.entries[index], slot.row(index));
            items.push(Item { loc: Loc { slot: n, index }, entry, key });
        };
        if !known {
            ids.extend(missions(slot).map(|(_, id)| id));
            let entries = slot.core.entries.iter().enumerate();
            entries.filter(|(_, e)| e.is_item()).for_each(|(index, _)| item(index));
        } else if only_missions(&slot.core) {
            for (index, id) in missions(slot) {
                if within(&touched.before, id) {
                    item(index);
                } else {
                    rest += 1;
                }
            }
        } else {
            for (index, e) in slot.core.entries.iter().enumerate().filter(|(_, e)| e.is_item()) {
                let id = slot.row(index).filter(|_| e.mission().is_some()).map(|key| key.id);
                match id {
                    Some(id) if !within(&touched.before, id) => rest += 1,
                    _ => item(index),
                }
            }
        }
        if items.len() > most || ids.len() > most {
            return Ok(None);
        }
    }
    ids.sort_unstable();
    ids.dedup();
    ids.retain(|id| !within(&touched.now, *id));
    let mut ranges = touched.now.clone();
    for id in ids {
        match ranges.last_mut() {
            Some(last) if last.end().checked_add(1) == Some(id) => *last = *last.start()..=id,
            _ => ranges.push(id..=id),
        }
    }
    ranges.sort_unstable_by_key(|ids| *ids.start());
    let rows = rows::read_some(conn, &ranges)?;
    if rows.len() > 4 * most {
        return Ok(None);
    }
    Ok(Some(Part { rows, items, rest }))
}

/// The row ids of the missions of a chunk, with their places.
fn missions(slot: &Slot) -> impl Iterator<Item = (usize, i64)> {
    let only = only_missions(&slot.core);
    let keys = slot.rows.iter().flat_map(|rows| rows.keys.iter().enumerate());
    keys.filter_map(move |(index, key)| {
        let mission = only || slot.core.entries.get(index)?.mission().is_some();
        Some((index, key.filter(|_| mission)?.id))
    })
}

/// All items of a core are missions.
fn only_missions(core: &Core) -> bool {
    use super::Section;
    core.items[Section::Ci as usize] == 0 && core.items[Section::Ideas as usize] == 0
}

/// Whether one of these ranges, which ascend, has the id.
fn within(ranges: &[Ids], id: i64) -> bool {
    let at = ranges.partition_point(|ids| *ids.end() < id);
    ranges.get(at).is_some_and(|ids| ids.contains(&id))
}

#[cfg(test)]
mod tests;
