//! Directories that the tree lists itself: the root, where documents stand before plain files,
//! and `.instancefs`.

use std::collections::HashSet;
use std::ffi::OsString;

use super::layer::{Caller, DirEntry, Fh, FileType, Node, Opened, Result};
use super::own_dir;
use super::past::Past;
use super::tables;
use super::tree::{LINKS, Place, ROOT, Tree};
use crate::model::View;

/// Entries handed out at once.
const AT_ONCE: usize = 512;

/// An open directory: its entries as they were at the last read from the beginning.
pub struct Listing {
    node: Node,
    plain: Option<Fh>,
    entries: Option<Vec<DirEntry>>,
}

impl Tree {
    pub(super) fn list_open(&self, who: &Caller, node: Node, flags: i32) -> Result<Opened> {
        let plain = match node {
            ROOT => Some(self.plain.opendir(who, ROOT, flags)?.fh),
            _ => None,
        };
        let fh = self.new_fh();
        self.dirs.lock().insert(fh, Listing { node, plain, entries: None });
        Ok(Opened { fh, direct_io: false, keep_cache: false, cache_dir: false })
    }

    pub(super) fn list_read(&self, who: &Caller, fh: Fh, offset: i64) -> Result<Vec<DirEntry>> {
        let from = usize::try_from(offset).map_err(|_| super::Error::Invalid)?;
        let (node, plain) = {
            let dirs = self.dirs.lock();
            let dir = dirs.get(&fh).ok_or(super::Error::BadHandle)?;
            if from > 0
                && let Some(entries) = &dir.entries
            {
                return Ok(entries.iter().skip(from).take(AT_ONCE).cloned().collect());
            }
            (dir.node, dir.plain)
        };
        if tables::is_table(node) {
            return self.view_entries(node, fh, offset);
        }
        if let Some(past) = Past::of(node) {
            return self.past_entries(past, offset);
        }
        let mut entries = match plain {
            Some(plain) => self.root_entries(who, plain)?,
            None if node == own_dir::DIR => self.own_entries(),
            None => Vec::new(),
        };
        for (i, entry) in entries.iter_mut().enumerate() {
            entry.next = i as i64 + 1;
        }
        let page = entries.iter().skip(from).take(AT_ONCE).cloned().collect();
        if let Some(dir) = self.dirs.lock().get_mut(&fh) {
            dir.entries = Some(entries);
        }
        Ok(page)
    }

    pub(super) fn list_close(&self, fh: Fh) {
        self.tables.close_list(fh);
        let dir = self.dirs.lock().remove(&fh);
        if let Some(plain) = dir.and_then(|d| d.plain) {
            self.plain.releasedir(ROOT, plain);
        }
    }

    /// The plain handle below a root listing.
    pub(super) fn list_plain(&self, fh: Fh) -> Option<Fh> {
        self.dirs.lock().get(&fh).and_then(|d| d.plain)
    }

    fn root_entries(&self, who: &Caller, plain: Fh) -> Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        let mut names: HashSet<OsString> = HashSet::new();
        let mut add = |ino: u64, kind: FileType, name: OsString| {
            if names.insert(name.clone()) {
                entries.push(DirEntry { ino, kind, name, next: 0 });
            }
        };
        let mut offset = 0;
        let mut rest: Vec<DirEntry> = Vec::new();
        loop {
            let page = self.plain.readdir(who, ROOT, plain, offset)?;
            let Some(last) = page.last() else { break };
            offset = last.next;
            rest.extend(page);
        }
        self.number_entries(ROOT, &mut rest);
        let rest = self.owned_listed(ROOT, rest);
        for dots in rest.iter().filter(|e| e.name == "." || e.name == "..") {
            add(dots.ino, dots.kind, dots.name.clone());
        }
        for view in View::ALL {
            let version = self.docs.current(view.doc())?;
            if self.shows(view, &version, who) {
                add(self.names.ino(view), FileType::Regular, view.name().into());
            }
        }
        for view in self.views_shown() {
            add(view.ino, view.kind, view.name);
        }
        for entry in rest {
            match self.fixed_place(ROOT, &entry.name) {
                Place::Plain | Place::Ruled(_) => add(entry.ino, entry.kind, entry.name),
                Place::Link(link) => {
                    add(self.link_attr(link).ino, FileType::Symlink, LINKS[link].into());
                }
                Place::Document(_) | Place::OwnDir | Place::Private => {}
            }
        }
        Ok(entries)
    }
}
