//! The leaves of a table's tree, to find out which of its rows may have changed without reading
//! them all, whoever has changed them and however.
//!
//! Two leaves with the same bytes hold the same rows, unless a row is so long that it goes on in
//! pages of its own. So a table is followed by keeping the bytes of its leaves: what has to be
//! read again are the rows of leaves with other bytes. This holds for any two moments, in
//! whatever order and through whichever connection they were looked at.
//!
//! The pages come from SQLite's table of pages, so they are those of the reading transaction.
//! Where SQLite was built without that table, or where a table is not the plain kind whose `id` is
//! the row id, there are no leaves and everything has to be read.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, OptionalExtension};

/// No tree is deeper.
const DEEPEST: usize = 20;

const PAGE: &str = "SELECT data FROM sqlite_dbpage WHERE pgno = ?1";
const ROOT: &str = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1";
/// The table's own key is a column `id`, and no index beside the tree is needed for it.
const PLAIN: &str = "SELECT count(*) = 1 AND min(lower(name) = 'id' AND lower(type) = 'integer')
     AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk')
     FROM pragma_table_info(?1) WHERE pk > 0";

/// Row ids.
pub type Ids = RangeInclusive<i64>;

/// One leaf.
#[derive(Debug, Clone)]
struct Leaf {
    page: u32,
    /// The ids for which it is the place.
    ids: Ids,
    bytes: Arc<[u8]>,
    /// All of its rows are in these bytes.
    complete: bool,
}

/// The leaves of one table at one moment, in the order of the row ids.
#[derive(Debug, Clone)]
pub struct Leaves {
    table: &'static str,
    root: u32,
    schema: i64,
    leaves: Vec<Leaf>,
}

/// Between two moments: where rows may have changed. Any other row is the same in both.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Ids whose rows may be other ones than before, ascending.
    pub before: Vec<Ids>,
    /// Ids among which all rows that are new or other ones now are, ascending.
    pub now: Vec<Ids>,
}

impl Leaves {
    /// The leaves of this table of the main database now; `None` where there are none to be had.
    /// Inside a transaction.
    ///
    /// Errors: those of SQLite.
    pub fn read(conn: &Connection, table: &'static str) -> rusqlite::Result<Option<Leaves>> {
        let Some((root, schema)) = plain(conn, table)? else { return Ok(None) };
        let Some(walk) = Walk::through(conn, root, &[])? else { return Ok(None) };
        Ok(Some(Leaves { table, root, schema, leaves: walk.leaves }))
    }

    /// The same for the table of these leaves, and what may be different since; `None` where
    /// everything may be.
    ///
    /// Errors: those of SQLite.
    pub fn again(&self, conn: &Connection) -> rusqlite::Result<Option<(Leaves, Touched)>> {
        if plain(conn, self.table)? != Some((self.root, self.schema)) {
            return Ok(None);
        }
        let Some(walk) = Walk::through(conn, self.root, &self.leaves)? else { return Ok(None) };
        let touched = Touched {
            before: others(&self.leaves, &walk.found),
            now: others(&walk.leaves, &walk.same),
        };
        let now = Leaves { leaves: walk.leaves, ..*self };
        Ok(Some((now, touched)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }
}

/// The ids of the leaves that are not the same.
fn others(leaves: &[Leaf], same: &[bool]) -> Vec<Ids> {
    let mut all: Vec<Ids> = Vec::new();
    for (leaf, _) in leaves.iter().zip(same).filter(|(_, same)| !**same) {
        match all.last_mut() {
            Some(last) if last.end().checked_add(1) == Some(*leaf.ids.start()) => {
                *last = *last.start()..=*leaf.ids.end();
            }
            _ => all.push(leaf.ids.clone()),
        }
    }
    all
}

/// The root of a table with row ids named `id`, and the number of the schema.
fn plain(conn: &Connection, table: &str) -> rusqlite::Result<Option<(u32, i64)>> {
    let number = |sql: &str| -> rusqlite::Result<i64> {
        conn.prepare_cached(sql)?.query_row([], |r| r.get(0))
    };
    let schema = number("PRAGMA schema_version")?;
    let plain: Option<bool> = conn.prepare_cached(PLAIN)?.query_row([table], |r| r.get(0))?;
    if plain != Some(true) {
        return Ok(None);
    }
    let root = conn.prepare_cached(ROOT)?.query_row([table], |r| r.get(0)).optional()?;
    Ok(root.filter(|r| *r > 1).map(|root| (root, schema)))
}

/// Calls `f` with the bytes of a page. `None`: there is no such page, or `f` says so.
fn page<T>(
    pages: &mut CachedStatement<'_>,
    number: u32,
    f: impl FnOnce(&[u8]) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    let mut rows = pages.query([number])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(row.get_ref(0)?.as_blob().ok().and_then(f))
}

/// A walk through a tree.
struct Walk<'l> {
    /// Pages that may still be met: a tree has no more than the database.
    left: usize,
    /// Bytes of a page that are SQLite's.
    usable: usize,
    /// Leaves of an earlier moment, and which of them were found as they were.
    earlier: &'l [Leaf],
    found: Vec<bool>,
    /// The one that is looked for first: as a rule they come in the same order.
    next: usize,
    by_page: HashMap<u32, usize>,
    /// What was met, and which of it is an earlier leaf.
    leaves: Vec<Leaf>,
    same: Vec<bool>,
}

/// A page with children: their numbers and the greatest id below each; the last one has none.
type Inner = Vec<(u32, Option<i64>)>;

impl<'l> Walk<'l> {
    /// `None`: there is no such tree, or no way to look at it.
    fn through(
        conn: &Connection,
        root: u32,
        earlier: &'l [Leaf],
    ) -> rusqlite::Result<Option<Walk<'l>>> {
        // Without the table of pages this is an error.
        let Ok(mut pages) = conn.prepare_cached(PAGE) else { return Ok(None) };
        let count = |r: &rusqlite::Row<'_>| r.get::<_, u32>(0);
        let left = conn.prepare_cached("PRAGMA page_count")?.query_row([], count)? as usize;
        // So many bytes at the end of each page are not SQLite's.
        let usable = page(&mut pages, 1, |bytes| {
            bytes.len().checked_sub(usize::from(*bytes.get(20)?)).filter(|n| *n >= 480)
        })?;
        let Some(usable) = usable else { return Ok(None) };
        let mut walk = Walk {
            left,
            usable,
            earlier,
            found: vec![false; earlier.len()],
            next: 0,
            by_page: HashMap::new(),
            leaves: Vec::with_capacity(earlier.len()),
            same: Vec::with_capacity(earlier.len()),
        };
        let whole = walk.below(&mut pages, root, i64::MIN..=i64::MAX, DEEPEST)?;
        Ok(whole.then_some(walk))
    }

    /// Takes in the leaves below a page; `false` when this is not the tree of a table.
    fn below(
        &mut self,
        pages: &mut CachedStatement<'_>,
        number: u32,
        ids: Ids,
        deeper: usize,
    ) -> rusqlite::Result<bool> {
        let (Some(deeper), Some(left)) = (deeper.checked_sub(1), self.left.checked_sub(1)) else {
            return Ok(false);
        };
        self.left = left;
        let met = page(pages, number, |bytes| match bytes.first()? {
            0x05 => Some(Some(inner(bytes)?)),
            0x0d => {
                self.leaf(number, ids.clone(), bytes)?;
                Some(None)
            }
            _ => None,
        })?;
        let Some(met) = met else { return Ok(false) };
        let mut from = Some(*ids.start());
        for (child, last) in met.into_iter().flatten() {
            let to = last.unwrap_or(*ids.end());
            let Some(start) = from.filter(|from| *from <= to && to <= *ids.end()) else {
                return Ok(false);
            };
            if !self.below(pages, child, start..=to, deeper)? {
                return Ok(false);
            }
            from = to.checked_add(1);
        }
        Ok(true)
    }

    fn leaf(&mut self, page: u32, ids: Ids, bytes: &[u8]) -> Option<()> {
        let known = self.earlier_place(page).map(|at| (at, &self.earlier[at]));
        if let Some((at, leaf)) = known
            && *leaf.bytes == *bytes
        {
            self.next = at + 1;
            self.found[at] = leaf.complete;
            self.same.push(leaf.complete);
            self.leaves.push(Leaf { ids, ..leaf.clone() });
            return Some(());
        }
        let complete = complete(bytes, self.usable)?;
        self.same.push(false);
        self.leaves.push(Leaf { page, ids, bytes: bytes.into(), complete });
        Some(())
    }

    fn earlier_place(&mut self, page: u32) -> Option<usize> {
        if self.earlier.get(self.next).is_some_and(|l| l.page == page) {
            return Some(self.next);
        }
        if self.by_page.is_empty() {
            self.by_page = self.earlier.iter().enumerate().map(|(i, l)| (l.page, i)).collect();
        }
        self.by_page.get(&page).copied()
    }
}

/// Two bytes, the higher one first.
fn short(bytes: &[u8], at: usize) -> Option<usize> {
    let two = bytes.get(at..at + 2)?;
    Some(usize::from(two[0]) << 8 | usize::from(two[1]))
}

/// Four bytes, the highest one first.
fn page_number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A number of SQLite's variable length.
fn varint(bytes: &[u8]) -> Option<i64> {
    let mut number = 0u64;
    for (n, byte) in bytes.iter().enumerate().take(9) {
        if n == 8 {
            return Some((number << 8 | u64::from(*byte)).cast_signed());
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(number.cast_signed());
        }
    }
    None
}

/// The children of an inner page.
fn inner(bytes: &[u8]) -> Option<Inner> {
    let count = short(bytes, 3)?;
    let mut children = Vec::with_capacity(count + 1);
    for n in 0..count {
        let cell = short(bytes, 12 + 2 * n)?;
        children.push((page_number(bytes, cell)?, Some(varint(bytes.get(cell + 4..)?)?)));
    }
    children.push((page_number(bytes, 8)?, None));
    Some(children)
}

/// Whether no row of a leaf goes on elsewhere.
fn complete(bytes: &[u8], usable: usize) -> Option<bool> {
    let largest = i64::try_from(usable.checked_sub(35)?).ok()?;
    for n in 0..short(bytes, 3)? {
        let size = varint(bytes.get(short(bytes, 8 + 2 * n)?..)?)?;
        if !(0..=largest).contains(&size) {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests;
