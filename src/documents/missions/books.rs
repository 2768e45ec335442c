//! The row bookkeeping of the version that a refresh makes.

use std::collections::HashMap;
use std::sync::Arc;

use super::apart;
use super::chunk::{Core, RowBook, RowKey, Rows, Slot, Slots};
use super::merge::{Ident, ident};
use super::numbers::{Numbers, with_room};
use super::readback::reads_back;
use super::refresh::{Outcome, Refresh};
use super::tree::MissionsState;

impl Refresh<'_> {
    /// The next version.
    pub(super) fn finish(mut self) -> Outcome {
        let touched = !self.batch.is_empty();
        self.state.vanished = self.gone.left();
        let mut next = std::mem::take(&mut self.batch).apply(&self.state);
        if touched && !reads_back(&next, self.last) {
            next = apart::stand_alone(&next);
        }
        next.slots = if self.same { self.books(&next) } else { self.open_books(&next) };
        let changed = touched && !next.same_text(self.last);
        let Refresh { overlaps, tally, given, .. } = self;
        Outcome { next, changed, overlaps, tally, given }
    }

    /// The keys of slots of `base` in which some are others now, or which had none.
    fn renewed_books(&self) -> Vec<Option<Rows>> {
        let slots = &self.base.slots;
        let mut keys: Vec<Option<Vec<Option<RowKey>>>> = vec![None; slots.len()];
        let old = |slot: &Slot| match &slot.rows {
            Some(rows) => rows.keys.clone(),
            None => vec![None; slot.core.entries.len()],
        };
        for (slot, keys) in slots.iter().zip(&mut keys) {
            if slot.rows.is_none() {
                *keys = Some(old(slot));
            }
        }
        for (item, row) in self.items.iter().zip(&self.of_item) {
            let Some(key) = row.map(|r| self.rows[r].key) else { continue };
            let at = item.loc;
            if item.key != Some(key) {
                keys[at.slot].get_or_insert_with(|| old(&slots[at.slot]))[at.index] = Some(key);
            }
        }
        let book = |(slot, keys): (&Slot, Option<Vec<_>>)| Some(RowBook::new(&slot.core, keys?));
        slots.iter().zip(keys).map(book).collect()
    }

    /// With `base` and `last` alike: slots that stay keep their books but for what is renewed.
    fn books(&self, next: &MissionsState) -> Slots {
        let renewed = self.renewed_books();
        let base = &self.base.slots;
        let stays = next.same_text(self.base);
        if stays && renewed.iter().all(Option::is_none) {
            return base.clone();
        }
        let rows = |i: usize| renewed[i].clone().or_else(|| base[i].rows.clone());
        if stays {
            let slots = base.iter().enumerate();
            let slots = slots.map(|(i, s)| Slot { core: s.core.clone(), rows: rows(i) });
            return slots.collect::<Vec<_>>().into();
        }
        let places: HashMap<*const Core, usize> =
            base.iter().enumerate().map(|(i, s)| (Arc::as_ptr(&s.core), i)).collect();
        let place = |s: &Slot| places.get(&Arc::as_ptr(&s.core)).copied();
        let mut gone = vec![true; base.len()];
        next.slots.iter().filter_map(place).for_each(|i| gone[i] = false);
        let mut keys: Numbers<Ident, RowKey> = with_room(256);
        for (i, slot) in base.iter().enumerate().filter(|(i, _)| gone[*i]) {
            let book = rows(i);
            let all = slot.core.entries.iter().zip(book.iter().flat_map(|b| &b.keys));
            keys.extend(all.filter_map(|(e, key)| Some((ident(e), (*key)?))));
        }
        let unpaired = self.rows.iter().enumerate().filter(|(r, _)| self.of_row[*r].is_none());
        keys.extend(unpaired.filter_map(|(r, row)| Some((self.ids[r]?, row.key))));
        let slots = next.slots.iter().map(|s| Slot {
            core: s.core.clone(),
            rows: match place(s) {
                Some(i) => rows(i),
                None => Some(book(&s.core, &keys)),
            },
        });
        slots.collect::<Vec<_>>().into()
    }

    /// While rows wait (R9) the bookkeeping of their chunks stays open.
    fn open_books(&self, next: &MissionsState) -> Slots {
        let mut keys: Numbers<Ident, RowKey> = with_room(self.rows.len());
        keys.extend(
            self.ids.iter().zip(&self.rows).filter_map(|(id, row)| Some(((*id)?, row.key))),
        );
        let slots = next.slots.iter().map(|s| {
            let book = book(&s.core, &keys);
            let items = s.core.entries.iter().zip(&book.keys);
            let open = items.clone().any(|(e, key)| e.is_item() && key.is_none());
            let kept = s.rows.as_ref().filter(|r| r.keys == book.keys).cloned();
            Slot { core: s.core.clone(), rows: if open { None } else { kept.or(Some(book)) } }
        });
        slots.collect::<Vec<_>>().into()
    }
}

/// The keys of the items of a core.
fn book(core: &Core, keys: &Numbers<Ident, RowKey>) -> Rows {
    let key = |e: &Arc<_>| keys.get(&ident(e)).copied();
    let keys = core.entries.iter().map(|e| key(e).filter(|_| e.is_item()));
    RowBook::new(core, keys.collect())
}
