//! Which written entry is which old one (merge.md, missions.md, first point).

use std::collections::HashMap;
use std::ops::Range;

use super::compare::Compared;
use super::entry::{Entry, Kind, Section};
use crate::text::{align, begins, similarity};

/// Edited in place: at least this alike.
const EDITED: f64 = 0.5;
/// Edited and moved: at least this alike, or one text begins the other.
const EDITED_AND_MOVED: f64 = 0.8;
/// No more than this many pairs are compared for likeness in one zone.
const PAIRS: usize = 20_000;

/// The old entry that a written one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Index into [`Compared::old`].
    pub old: usize,
    /// Its place among the others is another one, or its section.
    pub moved: bool,
    /// Its text is another one.
    pub edited: bool,
}

/// A gap: its range of old and of new entries.
type Gap = (Range<usize>, Range<usize>);

/// Finds all pairs.
pub fn run(c: &mut Compared, gaps: &[Gap]) {
    let mut m = Matcher { zones_old: HashMap::new(), zones_new: HashMap::new(), c };
    for gap in gaps {
        m.align(gap);
    }
    if m.zones_new.is_empty() {
        return;
    }
    m.same_text();
    m.headers();
    m.edited_in_place();
    m.edited_and_moved();
}

struct Matcher<'c> {
    c: &'c mut Compared,
    /// Index of a leftover -> its zone: the stretch between two aligned pairs.
    zones_old: HashMap<usize, usize>,
    zones_new: HashMap<usize, usize>,
}

impl Matcher<'_> {
    fn pair(&mut self, old: usize, new: usize, moved: bool, edited: bool) {
        self.zones_old.remove(&old);
        self.zones_new.remove(&new);
        self.c.old[old].found = true;
        let moved = moved || self.c.old[old].entry.section != self.c.new[new].entry.section;
        self.c.new[new].pair = Some(Pair { old, moved, edited });
    }

    /// Identical text in the same section, in order.
    fn align(&mut self, (old, new): &Gap) {
        let mut names: HashMap<String, u32> = HashMap::new();
        let mut name = |e: &Entry| -> u32 {
            let fresh = u32::try_from(names.len()).unwrap_or(u32::MAX);
            *names.entry(key(e, true)).or_insert(fresh)
        };
        let a: Vec<u32> = self.c.old[old.clone()].iter().map(|o| name(&o.entry)).collect();
        let b: Vec<u32> = self.c.new[new.clone()].iter().map(|n| name(&n.entry)).collect();
        let (mut i, mut j) = (0, 0);
        let zone = |m: &mut Self, x: Range<usize>, y: Range<usize>, z: usize| {
            m.zones_old.extend(x.map(|k| (old.start + k, z)));
            m.zones_new.extend(y.map(|k| (new.start + k, z)));
        };
        for (x, y) in align(&a, &b) {
            zone(self, i..x, j..y, new.start + j);
            self.pair(old.start + x, new.start + y, false, false);
            (i, j) = (x + 1, y + 1);
        }
        zone(self, i..a.len(), j..b.len(), new.start + j);
    }

    fn left_old(&self, want: impl Fn(&Entry) -> bool) -> Vec<usize> {
        let mut v: Vec<usize> =
            self.zones_old.keys().copied().filter(|i| want(&self.c.old[*i].entry)).collect();
        v.sort_unstable();
        v
    }

    fn left_new(&self, want: impl Fn(&Entry) -> bool) -> Vec<usize> {
        let mut v: Vec<usize> =
            self.zones_new.keys().copied().filter(|i| want(&self.c.new[*i].entry)).collect();
        v.sort_unstable();
        v
    }

    /// Identical text out of order, then in another section: a move.
    fn same_text(&mut self) {
        for with_section in [true, false] {
            let mut places: HashMap<String, std::collections::VecDeque<usize>> = HashMap::new();
            for i in self.left_old(Entry::is_item) {
                let k = key(&self.c.old[i].entry, with_section);
                places.entry(k).or_default().push_back(i);
            }
            for j in self.left_new(Entry::is_item) {
                let k = key(&self.c.new[j].entry, with_section);
                if let Some(i) = places.get_mut(&k).and_then(|p| p.pop_front()) {
                    self.pair(i, j, true, false);
                }
            }
        }
    }

    /// A header in another spelling.
    fn headers(&mut self) {
        let header = |e: &Entry| matches!(e.kind, Kind::Header);
        let mut old = self.left_old(header);
        for j in self.left_new(header) {
            let found = old.iter().position(|i| {
                self.c.old[*i].entry.section == self.c.new[j].entry.section
                    && self.zones_old.get(i) == self.zones_new.get(&j)
            });
            if let Some(n) = found {
                let i = old.remove(n);
                self.pair(i, j, false, true);
            }
        }
    }

    fn edited_in_place(&mut self) {
        let mut zones: HashMap<(usize, Section), (Vec<usize>, Vec<usize>)> = HashMap::new();
        for i in self.left_old(Entry::is_item) {
            let k = (self.zones_old[&i], self.c.old[i].entry.section);
            zones.entry(k).or_default().0.push(i);
        }
        for j in self.left_new(Entry::is_item) {
            let k = (self.zones_new[&j], self.c.new[j].entry.section);
            zones.entry(k).or_default().1.push(j);
        }
        let mut zones: Vec<_> = zones.into_iter().collect();
        zones.sort_unstable_by_key(|z| z.0);
        for (_, (old, new)) in zones {
            let made = self.best(&old, &new, false, |a, b| similarity(a, b, EDITED));
            self.crossed(made);
        }
    }

    /// Of entries that were edited and stand in another order some were moved as well: as few as
    /// can be.
    fn crossed(&mut self, mut made: Vec<(usize, usize)>) {
        made.sort_unstable();
        let places: Vec<u32> =
            made.iter().map(|(_, j)| u32::try_from(*j).unwrap_or(u32::MAX)).collect();
        if places.is_sorted() {
            return;
        }
        let mut in_order = places.clone();
        in_order.sort_unstable();
        let mut stay = align(&places, &in_order).into_iter().map(|(x, _)| x).peekable();
        for (x, (_, j)) in made.into_iter().enumerate() {
            if stay.next_if_eq(&x).is_none()
                && let Some(pair) = &mut self.c.new[j].pair
            {
                pair.moved = true;
            }
        }
    }

    fn edited_and_moved(&mut self) {
        let old = self.left_old(Entry::is_item);
        let new = self.left_new(Entry::is_item);
        self.best(&old, &new, true, |a, b| {
            if begins(a, b) { Some(1.0) } else { similarity(a, b, EDITED_AND_MOVED) }
        });
    }

    /// Answers with the pairs. The most alike first; among equals the earlier. With too many candidates only those
    /// at the same distance from the start of the stretch are compared.
    fn best(
        &mut self,
        old: &[usize],
        new: &[usize],
        moved: bool,
        like: impl Fn(&str, &str) -> Option<f64>,
    ) -> Vec<(usize, usize)> {
        let mut made = Vec::new();
        if old.is_empty() || new.is_empty() {
            return made;
        }
        let all = old.len().saturating_mul(new.len()) <= PAIRS;
        let width = if all { new.len() } else { (PAIRS / old.len()).max(1) };
        let mut found: Vec<(u64, usize, usize, usize)> = Vec::new();
        let texts: Vec<_> = new.iter().map(|j| self.c.new[*j].entry.clean().into_owned()).collect();
        for (x, &i) in old.iter().enumerate() {
            let a = self.c.old[i].entry.clean();
            let from = if all { 0 } else { x.saturating_sub(width / 2) };
            for (y, b) in texts.iter().enumerate().skip(from).take(width) {
                let j = new[y];
                if !self.c.old[i].entry.same_sort(&self.c.new[j].entry) {
                    continue;
                }
                if let Some(r) = like(&a, b) {
                    let distance = x.abs_diff(y);
                    found.push((((1.0 - r) * 1e9) as u64, distance, i, j));
                }
            }
        }
        found.sort_unstable();
        for (_, _, i, j) in found {
            if self.zones_old.contains_key(&i) && self.zones_new.contains_key(&j) {
                self.pair(i, j, moved, true);
                made.push((i, j));
            }
        }
        made
    }
}

/// What must be equal for two entries to be the same.
fn key(e: &Entry, with_section: bool) -> String {
    let sort = match e.kind {
        Kind::Layout => return format!("l{}", e.raw.trim()),
        Kind::Header => 'h',
        Kind::Mission(_) => 'm',
        Kind::Ci(_) => 'c',
        Kind::Idea(_) => 'i',
    };
    let section = if with_section { e.section.letter() } else { ' ' };
    format!("{sort}{section}{}", e.clean())
}
