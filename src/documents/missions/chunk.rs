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
    pub ranges: Vec<(&'static str, i64, i64)>,
}

/// Shared row bookkeeping.
pub type Rows = Arc<RowBook>;

impl RowBook {
    /// For a core, with one key per entry.
    pub fn new(core: &Core, keys: Vec<Option<RowKey>>) -> Rows {
        let mut ranges: Vec<(&'static str, i64, i64)> = Vec::new();
        for (e, key) in core.entries.iter().zip(&keys) {
            let Some(RowKey { sequence, .. }) = *key else { continue };
            let table = e.section.table();
            match ranges.iter_mut().find(|r| r.0 == table) {
                Some(r) => (r.1, r.2) = (r.1.min(sequence), r.2.max(sequence)),
                None => ranges.push((table, sequence, sequence)),
            }
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
}

impl Slots {
    /// The text. Costs by the number of slots, the first time.
    pub fn text(&self) -> Content {
        let bytes = || self.iter().map(|s| s.core.bytes.clone());
        self.0.text.get_or_init(|| Content::from_chunks(bytes())).clone()
    }
}

impl From<Vec<Slot>> for Slots {
    fn from(slots: Vec<Slot>) -> Slots {
        Slots(Arc::new(Shared { slots: slots.into(), text: OnceLock::new() }))
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
