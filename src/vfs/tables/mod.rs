//! `sessions/`, `tasks/`, `notes/` and `profile.json` in the root: the rows of atomic-agent's
//! databases as read-only files, each as it is at the open.
//!
//! They are there while the store has the database and the table, and unless it has a real file or
//! directory of that name, which is then shown instead. A lookup reads one row, a listing a page
//! of ids; no request reads a whole table but that of `profile.json`.
//!
//! Nodes have the bit [`BIT`]. That of a row follows from its id, so it is the same after a
//! remount; which id it stands for is kept while the kernel knows the node.

mod names;
mod render;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ffi::OsStr;

use parking_lot::Mutex;

use self::names::Named;
use super::layer::{Attr, DirEntry, Entry, Error, Fh, FileType, Node, Result};
use super::tree::{ROOT, Tree};
use crate::foreign::view::{Cells, Id, Reader};
use crate::foreign::{ForeignError, Part};
use crate::model::Stamp;
use crate::store::StoreError;

/// Nodes of this module have this bit and none above it.
const BIT: Node = 1 << 60;
/// Which kind of row, above the number of the row.
const KIND_SHIFT: u32 = 56;
/// The kind of the names in the root.
const TOP: Node = 15;
/// Rows that a listing reads at once.
const PAGE: usize = 512;
/// Rows that are looked at for a name that was cut.
const ALIKE: usize = 10_000;

/// The views' part of the tree.
pub(super) struct Tables {
    reader: Reader,
    /// Rows that the kernel knows, and how often it has been told.
    known: Mutex<HashMap<Node, (Id, u64)>>,
    listings: Mutex<HashMap<Fh, Cursor>>,
}

/// How far a listing has come. Entry `n` of a directory has the cookie `n + 1`; the first two are
/// the dots.
#[derive(Default)]
struct Cursor {
    /// The last id of each page that has been read.
    lasts: Vec<Id>,
    /// The page that was read last, and its number.
    page: Option<(usize, Vec<Id>)>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    /// A name in the root.
    Top(Part),
    /// A row.
    Row(Part),
}

/// Whether a node is one of this module.
pub(super) fn is_table(node: Node) -> bool {
    node & BIT != 0 && node < BIT << 1
}

/// Whether a node is a directory of this module.
pub(super) fn is_dir(node: Node) -> bool {
    matches!(thing(node), Some(Thing::Top(part)) if part != Part::Profile)
}

fn index(part: Part) -> Node {
    Part::ALL.iter().position(|p| *p == part).unwrap_or(0) as Node
}

fn top(part: Part) -> Node {
    BIT | TOP << KIND_SHIFT | index(part)
}

fn row_node(part: Part, number: u64) -> Node {
    BIT | index(part) << KIND_SHIFT | number & ((1 << KIND_SHIFT) - 1)
}

fn thing(node: Node) -> Option<Thing> {
    if !is_table(node) {
        return None;
    }
    let part = |at: Node| Part::ALL.get(usize::try_from(at).ok()?).copied();
    match (node & !BIT) >> KIND_SHIFT {
        TOP => part(node & ((1 << KIND_SHIFT) - 1)).map(Thing::Top),
        kind => part(kind).map(Thing::Row),
    }
}

fn extension(part: Part) -> &'static str {
    if part == Part::Notes { ".md" } else { ".json" }
}

fn top_kind(part: Part) -> FileType {
    if part == Part::Profile { FileType::Regular } else { FileType::Directory }
}

impl Tables {
    pub(super) fn new(store: &std::path::Path, read_only: bool) -> Tables {
        let reader = Reader::new(store, read_only);
        Tables { reader, known: Mutex::default(), listings: Mutex::default() }
    }

    /// Takes the kernel's references away; whether the node is one of ours.
    pub(super) fn forget(&self, node: Node, count: u64) -> bool {
        let mut known = self.known.lock();
        if let Some((_, refs)) = known.get_mut(&node) {
            *refs = refs.saturating_sub(count);
            if *refs == 0 {
                known.remove(&node);
            }
        }
        is_table(node)
    }

    /// To be called now and then: lets go of databases that nobody reads.
    pub(super) fn rest(&self) {
        self.reader.rest();
    }

    /// Lets go of all databases.
    pub(super) fn close(&self) {
        self.reader.close();
    }

    pub(super) fn close_list(&self, fh: Fh) {
        self.listings.lock().remove(&fh);
    }

    /// The node of a row, with one more reference.
    fn enter(&self, part: Part, id: Id) -> Node {
        let mut known = self.known.lock();
        let mut number = names::number(&id);
        loop {
            let node = row_node(part, number);
            match known.get_mut(&node) {
                Some((other, refs)) if *other == id => *refs += 1,
                // Two ids with one number: practically never.
                Some(_) => {
                    number = number.wrapping_add(1);
                    continue;
                }
                None => {
                    known.insert(node, (id, 1));
                }
            }
            return node;
        }
    }

    fn row(&self, part: Part, node: Node) -> Result<Cells> {
        let id = self.known.lock().get(&node).map(|(id, _)| id.clone()).ok_or(Error::NotFound)?;
        self.reader.row(part, &id)?.ok_or(Error::NotFound)
    }

    fn text(&self, node: Node) -> Result<(Vec<u8>, Option<Stamp>)> {
        match thing(node).ok_or(Error::NotFound)? {
            Thing::Top(Part::Profile) => {
                Ok((render::facts(&self.reader.facts()?), self.reader.changed(Part::Profile)))
            }
            Thing::Top(_) => Err(Error::IsDirectory),
            Thing::Row(part) => {
                let row = self.row(part, node)?;
                let text = match part {
                    Part::Notes => render::markdown(&row),
                    _ => render::json(&row),
                };
                Ok((text, render::changed(&row)))
            }
        }
    }

    /// The id of the row with this name.
    fn find(&self, part: Part, name: &OsStr) -> Result<Option<Id>> {
        let Some(name) = name.to_str() else { return Ok(None) };
        let end = extension(part);
        let named = match part {
            Part::Notes => names::parse_number(name, end),
            _ => names::parse_text(name, end),
        };
        match named {
            None => Ok(None),
            Some(Named::Row(id)) => Ok(self.reader.row(part, &id)?.map(|_| id)),
            Some(Named::Begins(head)) => {
                let mut after = head.clone();
                match after.iter_mut().rev().find(|byte| **byte < u8::MAX) {
                    Some(byte) => *byte += 1,
                    None => return Ok(None),
                }
                let (from, to) = (Id::Text(head), Id::Text(after));
                let alike = self.reader.ids_between(part, &from, &to, ALIKE)?;
                Ok(alike.into_iter().find(|id| names::name(id, end) == name))
            }
        }
    }

    /// Entries of a directory after the cookie `offset`.
    fn entries(&self, part: Part, fh: Fh, offset: i64) -> Result<Vec<DirEntry>> {
        let from = usize::try_from(offset).map_err(|_| Error::Invalid)?;
        let dots = [(".", top(part)), ("..", ROOT)].into_iter().enumerate();
        let mut entries: Vec<DirEntry> = dots
            .map(|(at, (name, ino))| DirEntry {
                ino,
                kind: FileType::Directory,
                name: name.into(),
                next: at as i64 + 1,
            })
            .skip(from)
            .collect();
        // Taken out meanwhile: one handle's listing is read by one request at a time.
        let cursor = self.listings.lock().remove(&fh).filter(|_| from > 0);
        let mut cursor = cursor.unwrap_or_default();
        let first = from.saturating_sub(2);
        let number = first / PAGE;
        let ids = cursor.page(number, |after| self.reader.ids(part, after, PAGE))?;
        for (at, id) in ids.iter().enumerate().skip(first % PAGE) {
            entries.push(DirEntry {
                ino: row_node(part, names::number(id)),
                kind: FileType::Regular,
                name: names::name(id, extension(part)).into(),
                next: (number * PAGE + at) as i64 + 3,
            });
        }
        self.listings.lock().insert(fh, cursor);
        Ok(entries)
    }
}

impl Cursor {
    /// The ids of a page, by what comes after an id.
    fn page(
        &mut self,
        number: usize,
        read: impl Fn(Option<&Id>) -> std::result::Result<Vec<Id>, ForeignError>,
    ) -> Result<&[Id]> {
        if self.page.as_ref().is_none_or(|(at, _)| *at != number) {
            let mut at = number.min(self.lasts.len());
            loop {
                let after = at.checked_sub(1).and_then(|before| self.lasts.get(before));
                let ids = read(after)?;
                let full = ids.len() == PAGE;
                if let (true, Some(last)) = (full && at == self.lasts.len(), ids.last()) {
                    self.lasts.push(last.clone());
                }
                if at == number {
                    self.page = Some((at, ids));
                    break;
                }
                if !full {
                    self.page = Some((number, Vec::new()));
                    break;
                }
                at += 1;
            }
        }
        Ok(self.page.as_ref().map_or(&[], |(_, ids)| ids))
    }
}

impl Tree {
    /// The view with this name in the root, if it is shown.
    pub(super) fn view_named(&self, name: &OsStr) -> Option<Node> {
        let part = Part::ALL.into_iter().find(|part| name == part.shown_as())?;
        // What the store has under that name comes first.
        let free = matches!(
            self.plain.attr_of(ROOT, name),
            Err(Error::Os(rustix::io::Errno::NOENT) | Error::NotFound)
        );
        (free && self.tables.reader.has(part)).then(|| top(part))
    }

    /// The views that are shown in the root.
    pub(super) fn views_shown(&self) -> Vec<DirEntry> {
        let shown = Part::ALL.into_iter().filter_map(|part| {
            let name = part.shown_as();
            let ino = self.view_named(OsStr::new(name))?;
            Some(DirEntry { ino, kind: top_kind(part), name: name.into(), next: 0 })
        });
        shown.collect()
    }

    pub(super) fn view_lookup(&self, parent: Node, name: &OsStr) -> Result<Entry> {
        let Some(Thing::Top(part)) = thing(parent).filter(|_| is_dir(parent)) else {
            return Err(Error::NotDirectory);
        };
        let id = self.tables.find(part, name)?.ok_or(Error::NotFound)?;
        let node = self.tables.enter(part, id);
        self.own_entry(node).inspect_err(|_| {
            self.tables.forget(node, 1);
        })
    }

    /// The bytes of a file.
    pub(super) fn view_text(&self, node: Node) -> Result<Vec<u8>> {
        Ok(self.tables.text(node)?.0)
    }

    /// Kind, size and time of change.
    pub(super) fn view_size(&self, node: Node) -> Result<(FileType, u64, Option<Stamp>)> {
        match thing(node).ok_or(Error::NotFound)? {
            Thing::Top(part) if part != Part::Profile => {
                Ok((FileType::Directory, 0, self.tables.reader.changed(part)))
            }
            Thing::Top(_) | Thing::Row(_) => {
                let (text, at) = self.tables.text(node)?;
                Ok((FileType::Regular, text.len() as u64, at))
            }
        }
    }

    /// The attributes with the rights of the database: a private one has private views.
    pub(super) fn view_access(&self, node: Node, mut attr: Attr) -> Attr {
        let part = match thing(node) {
            Some(Thing::Top(part) | Thing::Row(part)) => part,
            None => return attr,
        };
        if let Some((mode, uid, gid)) = self.tables.reader.access(part) {
            let read = mode & 0o444;
            let enter = if attr.kind == FileType::Directory { read >> 2 } else { 0 };
            (attr.perm, attr.uid, attr.gid) = ((read | enter) as u16, uid, gid);
        }
        attr
    }

    pub(super) fn view_entries(&self, node: Node, fh: Fh, offset: i64) -> Result<Vec<DirEntry>> {
        match thing(node) {
            Some(Thing::Top(part)) if is_dir(node) => self.tables.entries(part, fh, offset),
            _ => Err(Error::NotDirectory),
        }
    }

    /// Why the name of a view, or `.instancefs`, is not removed.
    pub(super) fn own_unlink(&self, name: &OsStr) -> Error {
        match self.view_named(name).and_then(thing) {
            Some(Thing::Top(Part::Profile)) => Error::ReadOnly,
            _ => Error::IsDirectory,
        }
    }
}

impl From<ForeignError> for Error {
    fn from(e: ForeignError) -> Error {
        Error::Store(match e {
            ForeignError::Busy { .. } => StoreError::Busy,
            ForeignError::Sqlite { source, .. } => StoreError::from(source),
            ForeignError::Io { path, source } => StoreError::Io { path, source },
            ForeignError::Unusable { path, reason } => StoreError::Unusable { path, reason },
            ForeignError::Newer { ref path, .. } => {
                StoreError::Unusable { path: path.clone(), reason: e.to_string() }
            }
        })
    }
}
