//! Chunks of entries.
//!
//! A [`Core`] is an immutable run of about two hundred entries with its bytes; versions
//! share cores, and two versions are compared by the pointers of their cores. What belongs
//! to rows only (row id, sequence) lies beside a core in its [`Slot`], because another
//! program may renew all of it without changing a letter.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::archive;
use super::entry::{Entry, Kind, Section};
use crate::documents::Content;

/// An immutable run of entries.
pub struct Core {
    /// In text order; never empty.
    pub entries: Vec<Arc<Entry>>,
    /// The lines of all entries.
    pub bytes: Arc<[u8]>,
    archive: OnceLock<Arc<[u8]>>,
    /// Number of items per section, by [`Section`] as index.
    pub items: [u32; 8],
    /// Number of line ends.
    pub lines: u32,
    /// Some entry holds a fence that nothing closes.
    pub open_fence: bool,
    /// Some entry stands for itself.
    pub opaque: bool,
    /// Only empty lines.
    pub blank: bool,
    /// Which sections have a header here, by [`Section`] as index.
    pub headers: [bool; 8],
}

impl Core {
    /// From at least one entry.
    pub fn new(entries: Vec<Arc<Entry>>) -> Arc<Core> {
        let size = entries.iter().map(|e| e.raw.len()).sum();
        let mut bytes = Vec::with_capacity(size);
        let (mut items, mut headers) = ([0; 8], [false; 8]);
        for e in &entries {
            bytes.extend_from_slice(e.raw.as_bytes());
            if e.is_item() {
                items[e.section as usize] += 1;
            }
            headers[e.section as usize] |= matches!(e.kind, Kind::Header);
        }
        Arc::new(Core {
            lines: u32::try_from(bytes.iter().filter(|b| **b == b'\n').count()).unwrap_or(u32::MAX),
            open_fence: entries.iter().any(|e| e.open_fence),
            opaque: entries.iter().any(|e| e.opaque),
            blank: entries.iter().all(|e| e.is_blank()),
            bytes: bytes.into(),
            archive: OnceLock::new(),
            items,
            headers,
            entries,
        })
    }

    /// The section in force at its end.
    pub fn last_section(&self) -> Section {
        self.entries.last().map_or(Section::Preamble, |e| e.section)
    }

    /// These are its lines in the history, from which it was read.
    pub fn keep_archive(&self, lines: &[u8]) {
        self.archive.get_or_init(|| lines.into());
    }

    /// Its lines in the history.
    pub fn archive(&self) -> Arc<[u8]> {
        self.archive.get_or_init(|| archive::entries(&self.entries).into()).clone()
    }

    /// Makes them from those of `old`, if these are known: the two have the same `front` first
    /// and `back` last entries. Costs by the entries between.
    pub fn archive_after(&self, old: &Core, front: usize, back: usize) {
        let Some(known) = old.archive.get() else { return };
        self.archive.get_or_init(|| {
            let changed = &self.entries[front..self.entries.len() - back];
            let count = old.entries.len();
            let (head, tail) =
                (line_start(known, count, front), line_start(known, count, count - back));
            let mut all = Vec::with_capacity(known.len() + 128 * changed.len());
            all.extend_from_slice(&known[..head]);
            all.extend_from_slice(&archive::entries(changed));
            all.extend_from_slice(&known[tail..]);
            all.into()
        });
    }
}

/// Where line `n` of `count` whole lines begins; at the end for `count`. Looked for from the
/// nearer side.
fn line_start(lines: &[u8], count: usize, n: usize) -> usize {
    let end = |(i, b): (usize, &u8)| (*b == b'\n').then_some(i + 1);
    if n == 0 {
        0
    } else if n >= count {
        lines.len()
    } else if n <= count / 2 {
        lines.iter().enumerate().filter_map(end).nth(n - 1).unwrap_or(lines.len())
    } else {
        lines.iter().enumerate().rev().filter_map(end).nth(count - n).unwrap_or(0)
    }
}

/// Row bookkeeping of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// `sequence`
    pub sequence: i64,
    /// `id`
    pub id: i64,
}

/// Row bookkeeping of a core.
#[derive(Debug, PartialEq, Eq)]
pub struct RowBook {
    /// One place per entry.
    pub keys: Vec<Option<RowKey>>,
    /// Per table: smallest and largest sequence.
    pub ranges: Ranges,
}

/// Per table: a smallest and a largest sequence.
pub type Ranges = Vec<(&'static str, i64, i64)>;

/// Makes room for these in the range of a table.
pub fn widen(ranges: &mut Ranges, table: &'static str, low: i64, high: i64) {
    match ranges.iter_mut().find(|r| r.0 == table) {
        Some(r) => (r.1, r.2) = (r.1.min(low), r.2.max(high)),
        None => ranges.push((table, low, high)),
    }
}

/// Shared row bookkeeping.
pub type Rows = Arc<RowBook>;

impl RowBook {
    /// For a core, with one key per entry.
    pub fn new(core: &Core, keys: Vec<Option<RowKey>>) -> Rows {
        let mut ranges = Ranges::new();
        for (e, key) in core.entries.iter().zip(&keys) {
            let Some(RowKey { sequence, .. }) = *key else { continue };
            widen(&mut ranges, e.section.table(), sequence, sequence);
        }
        Arc::new(RowBook { keys, ranges })
    }
}

/// A core in a version.
#[derive(Clone)]
pub struct Slot {
    /// The entries.
    pub core: Arc<Core>,
    /// Their rows, as far as known: `None` until they were applied.
    pub rows: Option<Rows>,
}

/// The slots of a version, and its text once somebody has asked for it.
#[derive(Clone)]
pub struct Slots(Arc<Shared>);

struct Shared {
    slots: Box<[Slot]>,
    text: OnceLock<Content>,
    ranges: OnceLock<Ranges>,
}

impl Slots {
    /// The text. Costs by the number of slots, the first time.
    pub fn text(&self) -> Content {
        let bytes = || self.iter().map(|s| s.core.bytes.clone());
        self.0.text.get_or_init(|| Content::from_chunks(bytes())).clone()
    }

    /// With this text order of slots, in whose rows no sequence lies outside of `ranges`.
    pub fn new(slots: Vec<Slot>, ranges: Ranges) -> Slots {
        let slots = Slots::from(slots);
        // Nobody else has seen it yet.
        let _ = slots.0.ranges.set(ranges);
        slots
    }

    /// Per table: no row has a smaller or a larger sequence. Costs by the number of slots, at
    /// most once.
    pub fn ranges(&self) -> &Ranges {
        self.0.ranges.get_or_init(|| {
            let mut all = Ranges::new();
            for &(table, low, high) in self.iter().flat_map(|s| &s.rows).flat_map(|r| &r.ranges) {
                widen(&mut all, table, low, high);
            }
            all
        })
    }
}

impl From<Vec<Slot>> for Slots {
    fn from(slots: Vec<Slot>) -> Slots {
        let (text, ranges) = (OnceLock::new(), OnceLock::new());
        Slots(Arc::new(Shared { slots: slots.into(), text, ranges }))
    }
}

impl Deref for Slots {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.0.slots
    }
}

impl Slot {
    /// A slot whose rows are not known.
    pub fn new(core: Arc<Core>) -> Slot {
        Slot { core, rows: None }
    }

    /// The row of the entry at this index.
    pub fn row(&self, index: usize) -> Option<RowKey> {
        self.rows.as_ref().and_then(|r| r.keys.get(index).copied().flatten())
    }
}

/// Where two versions differ: between the slots that both begin with and those that both end
/// with, and there between the entries that both begin and end with. The same slots and entries
/// means the same in memory.
pub struct Stretch<'s> {
    /// Slots in front of it.
    pub at: usize,
    /// The older one's slots in it.
    pub old: &'s [Slot],
    /// The newer one's.
    pub new: &'s [Slot],
    /// Entries that both begin with.
    pub front: usize,
    /// Entries that both end with; none of them is counted in `front`.
    pub back: usize,
}

impl<'s> Stretch<'s> {
    /// Between these slots. Costs by the number of slots and of the entries in those that differ.
    pub fn between(old: &'s [Slot], new: &'s [Slot]) -> Stretch<'s> {
        Stretch::where_not(old, new, |a, b| Arc::ptr_eq(&a.core, &b.core))
    }

    /// The same with another notion of equal slots.
    pub fn where_not(
        old: &'s [Slot],
        new: &'s [Slot],
        same: impl Fn(&Slot, &Slot) -> bool,
    ) -> Stretch<'s> {
        let same = |(a, b): &(&Slot, &Slot)| same(a, b);
        let at = old.iter().zip(new).take_while(same).count();
        let (old, new) = (&old[at..], &new[at..]);
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
        let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
        let count = |slots: &[Slot]| slots.iter().map(|s| s.core.entries.len()).sum::<usize>();
        let same = |(a, b): &(&Arc<Entry>, &Arc<Entry>)| Arc::ptr_eq(a, b);
        let front = entries(old).zip(entries(new)).take_while(same).count();
        let left = count(old).min(count(new)) - front;
        let back = entries(old).rev().zip(entries(new).rev()).take(left).take_while(same).count();
        Stretch { at, old, new, front, back }
    }

    /// The older one's entries in it.
    pub fn old_entries(&self) -> Vec<&'s Arc<Entry>> {
        entries(self.old).collect()
    }

    /// The newer one's.
    pub fn new_entries(&self) -> Vec<&'s Arc<Entry>> {
        entries(self.new).collect()
    }
}

fn entries(slots: &[Slot]) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
    slots.iter().flat_map(|s| s.core.entries.iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::missions::plan;

    fn core(text: &str) -> Arc<Core> {
        plan::read(text, false).slots[0].core.clone()
    }

    /// `from` without the entries of `range` and with some of another text there.
    fn spliced(from: &Core, range: std::ops::Range<usize>, other: &Core) -> Arc<Core> {
        let mut entries = from.entries.clone();
        entries.splice(range, other.entries.iter().cloned());
        Core::new(entries)
    }

    #[test]
    fn the_archive_after_a_change_is_made_from_the_one_before() {
        let lines: String = (0..60).map(|n| format!("- with a\ttab {n}\n")).collect();
        let old = core(&format!("# Missions\n\n## Pending\n{lines}\n## Done\n"));
        let other = core("## Failed\n- other \\ line\n  and more\n");
        old.archive();
        let count = old.entries.len();
        for range in [0..0, 0..1, 0..count - 1, 5..5, 5..9, 40..41, count - 1..count, count..count]
        {
            let new = spliced(&old, range.clone(), &other);
            let slots = |core: &Arc<Core>| [Slot::new(core.clone())];
            let (a, b) = (slots(&old), slots(&new));
            let change = Stretch::between(&a, &b);
            assert_eq!((change.front, change.back), (range.start, count - range.end), "{range:?}");
            new.archive_after(&old, change.front, change.back);
            assert!(new.archive.get().is_some());
            assert_eq!(new.archive(), archive::entries(&new.entries).into(), "{range:?}");
        }
    }

    #[test]
    fn a_stretch_counts_no_entry_twice() {
        let (one, two) = (core("- a\n"), core("- b\n- c\n"));
        let slots = |cores: &[&Arc<Core>]| cores.iter().map(|c| Slot::new((*c).clone())).collect();
        let (old, new): (Vec<Slot>, Vec<Slot>) = (slots(&[&one, &two]), slots(&[&one, &one, &two]));
        let change = Stretch::between(&old, &new);
        assert_eq!((change.at, change.old.len(), change.new.len()), (1, 0, 1));
        assert_eq!((change.front, change.back), (0, 0));
        let joined = Core::new(one.entries.iter().chain(&two.entries).cloned().collect());
        let new: Vec<Slot> = slots(&[&joined]);
        let change = Stretch::between(&old, &new);
        assert_eq!((change.at, change.front, change.back), (0, 3, 0));
    }
}
