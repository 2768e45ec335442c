//! Where the tree asks for markers and leases: what each call on a plain file means for them.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::owner::Owner;
use super::table::{Made, Table};
use super::{FileId, Kind, Owned, TOKEN_XATTR, content};
use crate::process::ProcId;
use crate::store::Wait;
use crate::vfs::layer::{
    Caller, Created, DirEntry, Entry, Error, Fh, FileType, Node, Renaming, Result, SetAttr,
};
use crate::vfs::renaming::At;
use crate::vfs::tree::{ROOT, Tree};

/// A name that is a marker's or a lease's.
struct Spot<'t> {
    owned: &'t Owned,
    path: PathBuf,
    kind: Kind,
}

/// Who asks, as far as the files of processes are concerned.
struct Asker {
    id: Option<ProcId>,
    process: Option<Arc<Owner>>,
    foreign: bool,
}

/// How often a name is looked up again that changes meanwhile.
const LOOKS: usize = 16;

fn changes(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0
}

impl Tree {
    fn owned_path(&self, parent: Node, name: &OsStr) -> Option<PathBuf> {
        let dir = if parent == ROOT { PathBuf::new() } else { self.plain.path_of(parent)? };
        Some(dir.join(name))
    }

    fn owned_spot(&self, parent: Node, name: &OsStr) -> Option<Spot<'_>> {
        let owned = self.owned.as_deref().filter(|o| o.may_be(name))?;
        let path = self.owned_path(parent, name)?;
        let kind = owned.kind(&path)?;
        Some(Spot { owned, path, kind })
    }

    fn asker(&self, who: &Caller, owned: &Owned) -> Asker {
        let id = self.process(who).map(|p| p.id);
        let process = id.and_then(|id| Owner::of_pid(id.pid).filter(|o| o.ident == id.ident));
        let foreign = process.is_some() && owned.here.foreign(who.tid);
        Asker { id, process: process.map(Arc::new), foreign }
    }

    /// The daemon itself: its threads see what is over, to take it away.
    fn is_us(&self, who: &Caller) -> bool {
        self.process(who).is_some_and(|p| p.id.pid == self.procs.own_pid())
    }

    /// What is at the name now, if there is a regular file; the table knows it then.
    fn owned_now<'t>(&self, spot: &Spot<'t>, expected: Option<FileId>) -> MutexGuard<'t, Table> {
        let mut table = spot.owned.lock();
        let known = table.get(&spot.path).map(|e| e.id);
        if known.is_some() && known == expected {
            return table;
        }
        match content::look(spot.owned.root.as_fd(), &spot.path) {
            Some(found) if table.found(&spot.path, spot.kind, &found, &spot.owned.here) => {
                spot.owned.wake();
            }
            Some(_) => {}
            None if known.is_some() => drop(table.remove(&spot.path)),
            None => {}
        }
        spot.owned.counted(&table);
        table
    }

    /// After a lookup of a plain file: a name whose owner has ended is not there.
    pub(in crate::vfs) fn owned_looked_up(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mut entry: Entry,
    ) -> Result<Entry> {
        let Some(spot) = self.owned_spot(parent, name) else { return Ok(entry) };
        if entry.attr.kind != FileType::Regular {
            return Ok(entry);
        }
        for _ in 0..LOOKS {
            let id = self.plain.id_of(entry.node);
            let table = self.owned_now(&spot, id);
            let known = table.get(&spot.path).filter(|e| Some(e.id) == id);
            let over = known.map(super::table::Entry::is_over);
            drop(table);
            match over {
                Some(over) if !over || self.is_us(who) => {
                    (entry.entry_ttl, entry.attr_ttl) = (Duration::ZERO, Duration::ZERO);
                    return Ok(entry);
                }
                Some(_) => break,
                // What was found is not there any more.
                None => {
                    self.plain.forget(entry.node, 1);
                    entry = self.plain.lookup(who, parent, name)?;
                    if entry.attr.kind != FileType::Regular {
                        return Ok(entry);
                    }
                }
            }
        }
        self.plain.forget(entry.node, 1);
        Err(Error::NotFound)
    }

    /// Leaves out of a listing what is over.
    pub(in crate::vfs) fn owned_listed(&self, dir: Node, mut page: Vec<DirEntry>) -> Vec<DirEntry> {
        if self.owned.is_some() {
            page.retain(|e| {
                e.kind != FileType::Regular
                    || self.owned_spot(dir, &e.name).is_none_or(|spot| {
                        let table = self.owned_now(&spot, None);
                        table.get(&spot.path).is_some_and(|e| !e.is_over())
                    })
            });
        }
        page
    }

    /// A page of a plain directory without what is over; only at its end is it empty.
    pub(in crate::vfs) fn owned_page(
        &self,
        who: &Caller,
        dir: Node,
        fh: Fh,
        mut offset: i64,
    ) -> Result<Vec<DirEntry>> {
        loop {
            let page = self.plain.readdir(who, dir, fh, offset)?;
            let Some(last) = page.last() else { return Ok(page) };
            offset = last.next;
            let page = self.owned_listed(dir, page);
            if !page.is_empty() {
                return Ok(page);
            }
        }
    }

    /// Makes room for a new name: what is left there of a process that has ended goes.
    pub(in crate::vfs) fn owned_clear(&self, parent: Node, name: &OsStr) {
        if let Some(spot) = self.owned_spot(parent, name) {
            let mut table = self.owned_now(&spot, None);
            self.clear(&spot, &mut table, parent, name);
        }
    }

    fn clear(&self, spot: &Spot<'_>, table: &mut Table, parent: Node, name: &OsStr) {
        if !table.get(&spot.path).is_some_and(super::table::Entry::is_over) || spot.owned.read_only
        {
            return;
        }
        match self.plain.remove(parent, name) {
            Ok(()) => drop(table.remove(&spot.path)),
            Err(e) => log::warn!("{}: its owner has ended, but it stays: {e}", spot.path.display()),
        }
    }

    /// Writes to the store what has changed, and lets the new owners be watched.
    fn owned_changed(&self, owned: &Owned) {
        owned.wake();
        owned.persist(Wait::Never);
    }

    /// `create` of a plain file, which belongs to its creator if the name says so.
    pub(in crate::vfs) fn owned_create(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
    ) -> Result<Created> {
        let create = || self.plain.create(who, parent, name, mode, umask, flags);
        let Some(spot) = self.owned_spot(parent, name) else { return create() };
        let asker = self.asker(who, spot.owned);
        spot.owned.ready_tokens();
        let mut table = self.owned_now(&spot, None);
        self.clear(&spot, &mut table, parent, name);
        let exclusive = flags & libc::O_EXCL != 0;
        if let Some(entry) = table.get(&spot.path)
            && entry.held_against(asker.id)
            && !exclusive
            && changes(flags)
        {
            return Err(Error::NotPermitted);
        }
        let mut created = create()?;
        (created.entry.entry_ttl, created.entry.attr_ttl) = (Duration::ZERO, Duration::ZERO);
        if let Some(id) = self.plain.id_of(created.entry.node)
            && table.get(&spot.path).is_none_or(|e| e.id != id)
        {
            let made = Made { maker: asker.process, foreign: asker.foreign, exclusive };
            table.made(&spot.path, spot.kind, id, made);
            spot.owned.counted(&table);
        }
        drop(table);
        self.owned_changed(spot.owned);
        Ok(created)
    }

    /// `unlink` of a plain file. `EPERM` for a lease that another process holds.
    pub(in crate::vfs) fn owned_unlink(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
    ) -> Result<()> {
        let Some(spot) = self.owned_spot(parent, name) else {
            return self.plain.unlink(who, parent, name);
        };
        let asker = self.process(who).map(|p| p.id);
        let us = asker.is_some_and(|a| a.pid == self.procs.own_pid());
        let mut table = self.owned_now(&spot, None);
        if let Some(entry) = table.get(&spot.path) {
            if us && !entry.is_over() {
                return Err(Error::NotFound);
            }
            if entry.held_against(asker) {
                return Err(Error::NotPermitted);
            }
        }
        self.plain.unlink(who, parent, name)?;
        table.remove(&spot.path);
        drop(table);
        self.owned_changed(spot.owned);
        Ok(())
    }

    /// `EPERM` if a lease of another process is at the name.
    pub(in crate::vfs) fn owned_guard(&self, who: &Caller, at: At<'_>) -> Result<()> {
        let Some(spot) = self.owned_spot(at.parent, at.name) else { return Ok(()) };
        let asker = self.process(who).map(|p| p.id);
        let table = self.owned_now(&spot, None);
        match table.get(&spot.path) {
            Some(entry) if entry.held_against(asker) => Err(Error::NotPermitted),
            _ => Ok(()),
        }
    }

    /// `rename` between plain files.
    pub(in crate::vfs) fn owned_rename(
        &self,
        who: &Caller,
        from: At<'_>,
        to: At<'_>,
        how: Renaming,
    ) -> Result<()> {
        let rename = || self.plain.rename(who, from.parent, from.name, to.parent, to.name, how);
        let Some(owned) = self.owned.as_deref() else { return rename() };
        let spots = [self.owned_spot(from.parent, from.name), self.owned_spot(to.parent, to.name)];
        if spots.iter().all(Option::is_none) {
            rename()?;
            self.owned_moved(owned, from, to);
            return Ok(());
        }
        let asker = self.asker(who, owned);
        owned.ready_tokens();
        let [source, target] = &spots;
        for (spot, at) in [(source, from), (target, to)] {
            let Some(spot) = spot else { continue };
            let mut table = self.owned_now(spot, None);
            self.clear(spot, &mut table, at.parent, at.name);
            if table.get(&spot.path).is_some_and(|e| e.held_against(asker.id)) {
                return Err(Error::NotPermitted);
            }
        }
        let mut table = owned.lock();
        // Nothing has come between: the kernel holds both directories during a rename.
        rename()?;
        if let Some(spot) = source {
            table.remove(&spot.path);
        }
        if let Some(spot) = target {
            match content::look(owned.root.as_fd(), &spot.path) {
                Some(found) if how != Renaming::Exchange => {
                    let exclusive = how == Renaming::NoReplace;
                    let made = Made { maker: asker.process, foreign: asker.foreign, exclusive };
                    table.renamed_onto(&spot.path, spot.kind, &found, made);
                }
                _ => drop(table.remove(&spot.path)),
            }
        }
        owned.counted(&table);
        drop(table);
        self.owned_changed(owned);
        Ok(())
    }

    /// A directory has another name: what was in it is judged anew where it is now.
    fn owned_moved(&self, owned: &Owned, from: At<'_>, to: At<'_>) {
        if owned.is_empty() {
            return;
        }
        let mut table = owned.lock();
        for at in [from, to] {
            if let Some(path) = self.owned_path(at.parent, at.name) {
                table.forget_below(&path);
            }
        }
        owned.counted(&table);
    }

    /// After a `link` of a plain file: an exclusive way to make a name.
    pub(in crate::vfs) fn owned_linked(&self, who: &Caller, parent: Node, name: &OsStr) {
        let Some(spot) = self.owned_spot(parent, name) else { return };
        let asker = self.asker(who, spot.owned);
        spot.owned.ready_tokens();
        let mut table = spot.owned.lock();
        if let Some(found) = content::look(spot.owned.root.as_fd(), &spot.path) {
            let made = Made { maker: asker.process, foreign: asker.foreign, exclusive: true };
            table.renamed_onto(&spot.path, spot.kind, &found, made);
        }
        drop(table);
        self.owned_changed(spot.owned);
    }

    /// `EPERM` for writing to a lease that another process holds. A descriptor that a child has
    /// inherited from the owner goes on.
    pub(in crate::vfs) fn owned_overwrite(&self, who: &Caller, node: Node) -> Result<()> {
        let Some(owned) = self.owned.as_deref().filter(|o| !o.is_empty()) else { return Ok(()) };
        let Some(id) = self.plain.id_of(node) else { return Ok(()) };
        if owned.lock().by_id(id).is_none() {
            return Ok(());
        }
        let asker = self.process(who).map(|p| p.id);
        match owned.lock().by_id(id) {
            Some(entry) if entry.held_against(asker) => Err(Error::NotPermitted),
            _ => Ok(()),
        }
    }

    /// Before an `open`.
    pub(in crate::vfs) fn owned_open(&self, who: &Caller, node: Node, flags: i32) -> Result<()> {
        if changes(flags) { self.owned_overwrite(who, node) } else { Ok(()) }
    }

    /// Before a `setattr`.
    pub(in crate::vfs) fn owned_setattr(
        &self,
        who: &Caller,
        node: Node,
        set: &SetAttr,
    ) -> Result<()> {
        match set.size {
            Some(_) if set.fh.is_none() => self.owned_overwrite(who, node),
            _ => Ok(()),
        }
    }

    /// A descriptor of a plain file was closed or synced: what it says now counts. To be called
    /// while the handle is still there.
    pub(in crate::vfs) fn owned_settle(&self, node: Node, fh: Fh) {
        let Some(owned) = self.owned.as_deref().filter(|o| !o.is_empty()) else { return };
        let Some(id) = self.plain.id_of(node) else { return };
        // A reader may come while the writer is half done.
        if owned.lock().by_id(id).is_none() || !self.plain.handles_of(id.ino).contains(&fh) {
            return;
        }
        let mut table = owned.lock();
        let Some(path) = table.path_of(id).cloned() else { return };
        if let Some(found) = content::look(owned.root.as_fd(), &path) {
            table.settle(&path, &found);
        }
        drop(table);
        self.owned_changed(owned);
    }

    /// The fencing number of a lease, as the value of [`TOKEN_XATTR`]; `None`: another attribute,
    /// or no lease.
    pub(in crate::vfs) fn owned_xattr(&self, node: Node, name: &OsStr) -> Option<Vec<u8>> {
        let owned = self.owned.as_deref().filter(|o| !o.is_empty() && name == TOKEN_XATTR)?;
        let id = self.plain.id_of(node)?;
        let table = owned.lock();
        let token = table.by_id(id).filter(|e| e.owner.is_some() && e.token > 0)?.token;
        Some(token.to_string().into_bytes())
    }

    /// The names of a plain file's attributes, with ours.
    pub(in crate::vfs) fn owned_xattrs(&self, node: Node, mut names: Vec<u8>) -> Vec<u8> {
        if self.owned_xattr(node, OsStr::new(TOKEN_XATTR)).is_some() {
            names.extend_from_slice(TOKEN_XATTR.as_bytes());
            names.push(0);
        }
        names
    }

    /// `EPERM` for the attribute that is ours.
    pub(in crate::vfs) fn owned_forbid_xattr(&self, node: Node, name: &OsStr) -> Result<()> {
        if self.owned_xattr(node, name).is_some() { Err(Error::NotPermitted) } else { Ok(()) }
    }

    /// The end of the mount, see [`Owned::close`].
    pub(in crate::vfs) fn owned_end(&self) {
        if let Some(owned) = &self.owned {
            owned.close();
        }
    }

    /// What is due, see [`Owned::tick`].
    pub(in crate::vfs) fn owned_tick(&self) {
        if let Some(owned) = &self.owned {
            owned.tick();
        }
    }
}
