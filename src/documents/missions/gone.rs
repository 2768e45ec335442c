//! Rows that have vanished and may come back.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::entry::{Entry, Kind, Section};
use super::rematch::key_text;
use super::tree::Vanished;
use crate::model::Stamp;

/// A row that vanished may come back within this time in nanoseconds (merge.md).
const COMES_BACK: i64 = 60 * 1_000_000_000;

type Places = HashMap<(Section, String), VecDeque<usize>>;

/// Those of a version, while they change.
pub(super) struct Gone {
    before: Arc<[Vanished]>,
    /// All of them, in order, once some have come or gone.
    all: Option<Vec<Option<Vanished>>>,
    /// Places in `all` of those that may come back, once somebody has asked for one.
    by_text: Option<Places>,
    now: Stamp,
}

impl Gone {
    pub(super) fn new(before: Arc<[Vanished]>, now: Stamp) -> Gone {
        Gone { before, all: None, by_text: None, now }
    }

    /// This one vanishes now.
    pub(super) fn add(&mut self, entry: Arc<Entry>) {
        let all = self.all.get_or_insert_with(|| list(&self.before));
        if let Some(places) = &mut self.by_text {
            places.entry(key(&entry)).or_default().push_back(all.len());
        }
        all.push(Some(Vanished { at: self.now, entry }));
    }

    /// The first that a row of this section and kind may be; it is taken out.
    pub(super) fn back(&mut self, section: Section, kind: &Kind) -> Option<Arc<Entry>> {
        if self.all.is_none() && self.before.is_empty() {
            return None;
        }
        let all = self.all.get_or_insert_with(|| list(&self.before));
        let places = self.by_text.get_or_insert_with(|| places(all, self.now));
        let place = places.get_mut(&(section, key_text(kind).into_owned()))?.pop_front()?;
        Some(all.get_mut(place)?.take()?.entry)
    }

    /// Those that are left and may still come back.
    pub(super) fn left(&mut self) -> Arc<[Vanished]> {
        let now = self.now;
        match self.all.take() {
            Some(all) => all.into_iter().flatten().filter(|v| comes_back(v, now)).collect(),
            None if self.before.iter().all(|v| comes_back(v, now)) => self.before.clone(),
            None => self.before.iter().filter(|v| comes_back(v, now)).cloned().collect(),
        }
    }
}

fn list(vanished: &[Vanished]) -> Vec<Option<Vanished>> {
    vanished.iter().cloned().map(Some).collect()
}

fn places(all: &[Option<Vanished>], now: Stamp) -> Places {
    let mut places = Places::new();
    for (place, v) in all.iter().enumerate() {
        if let Some(v) = v.as_ref().filter(|v| comes_back(v, now)) {
            places.entry(key(&v.entry)).or_default().push_back(place);
        }
    }
    places
}

fn comes_back(v: &Vanished, now: Stamp) -> bool {
    now.0.saturating_sub(v.at.0) <= COMES_BACK
}

fn key(e: &Entry) -> (Section, String) {
    (e.section, key_text(&e.kind).into_owned())
}
