//! What `stat` shows of a managed file, and what changes it: the store's own file, except for
//! its number and for what a writer has not committed yet.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use super::{file_of, is_absent, node_of};
use crate::model::{FileId, View};
use crate::vfs::handle::DocHandle;
use crate::vfs::layer::{Attr, Caller, DirEntry, Entry, Error, FileType, Node, Result, SetAttr};
use crate::vfs::tree::{ROOT, Tree};

impl Tree {
    /// The answer to a lookup: one more reference.
    pub(in crate::vfs) fn file_entry(
        &self,
        file: FileId,
        parent: Node,
        name: &OsStr,
        real: &Attr,
    ) -> Entry {
        let attr = self.file_shown(file, real);
        self.files.looked_up(file, parent, name, attr);
        self.docs.notice(file);
        Entry {
            node: node_of(file),
            generation: 0,
            attr,
            attr_ttl: Duration::ZERO,
            entry_ttl: Duration::ZERO,
        }
    }

    /// The attributes under which the store's file is shown.
    pub(in crate::vfs) fn file_shown(&self, file: FileId, real: &Attr) -> Attr {
        Attr { ino: self.files.numbers.shown(file, real.ino), ..*real }
    }

    /// What `stat` shows. A file that is gone shows what its handles have.
    pub(in crate::vfs) fn file_attr(
        &self,
        who: &Caller,
        file: FileId,
        asked: bool,
    ) -> Result<Attr> {
        let view = View::File(file);
        let real = self.file_real(file);
        let handles = self.handles_on(view);
        if is_absent(&real) {
            let by_node = |h: &&Arc<DocHandle>| {
                file_of(h.node).is_some_and(|opened| self.files.now(opened) == file)
            };
            let open = handles.first().cloned();
            let open = open.or_else(|| self.handles.read().values().find(by_node).cloned());
            if open.is_none()
                && let Some(told) = self.files.told(file)
            {
                // It goes between a lookup and what the kernel does next.
                return Ok(Attr { nlink: 0, ..told });
            }
            return file_gone(view, open.as_deref());
        }
        let real = real?;
        let mut attr = self.file_shown(file, &real);
        if handles.is_empty() {
            return Ok(attr);
        }
        let process = self.process(who);
        if self.settle_locked_writers(&handles, view, process.as_ref()) {
            attr = self.file_shown(file, &self.file_real(file)?);
        }
        let Some(process) = process else { return Ok(attr) };
        let mut unread = Vec::new();
        for h in handles {
            if h.written_by(process.id) {
                // While it commits, its buffer is as good as current.
                if let Some(state) = h.state.try_lock()
                    && h.is_dirty()
                {
                    attr.size = state.own_size(attr.size);
                    attr.blocks = attr.size.div_ceil(512);
                    attr.mtime = state.last_write;
                }
            } else if asked && h.mode.read && h.opened_by(process.id) {
                unread.push(h);
            }
        }
        if !unread.is_empty() {
            // Size and version are of one moment: the ones that are told of each other.
            let version = self.docs.current(view.doc())?;
            if let Some(content) = version.view(view) {
                attr.size = content.len();
            }
            self.asked.told(who.tid, view, unread.into_iter(), &version);
        }
        Ok(attr)
    }

    /// The number that the file shows and has to keep when it is replaced; `None`: it is on
    /// record, or there is no file yet.
    pub(in crate::vfs) fn number_before(&self, file: FileId) -> Option<(FileId, u64)> {
        if self.files.numbers.of(file).is_some() {
            return None;
        }
        let real = self.file_real(file).ok()?;
        Some((file, self.file_shown(file, &real).ino))
    }

    /// `d_ino` of the entries of a directory: what `stat` of them shows.
    pub(in crate::vfs) fn number_entries(&self, directory: Node, entries: &mut [DirEntry]) {
        if !self.files.numbers.any() {
            return;
        }
        let top = match directory {
            ROOT => Some(String::new()),
            _ => self.directory_path(directory).map(|p| p + "/"),
        };
        for entry in entries.iter_mut().filter(|e| e.kind == FileType::Regular) {
            let path = match (&top, entry.name.to_str()) {
                (Some(top), Some(name)) => format!("{top}{name}"),
                _ => String::new(),
            };
            entry.ino = self.files.numbers.listed(&path, entry.ino);
        }
    }

    /// The attributes of the store's file.
    pub(in crate::vfs) fn file_real(&self, file: FileId) -> Result<Attr> {
        self.file_at(file, |parent, name| self.plain.attr_of(parent, name))
    }

    /// Calls `f` with the place of the file: where the kernel has looked it up, else by its path.
    fn file_at<T>(&self, file: FileId, f: impl Fn(Node, &OsStr) -> Result<T>) -> Result<T> {
        if let Some((parent, name)) = self.files.spot(file) {
            let answer = f(parent, &name);
            if !matches!(answer, Err(Error::Os(rustix::io::Errno::STALE))) {
                return answer;
            }
        }
        let us = self.us();
        let (directory, name) = match file.path().rsplit_once('/') {
            Some((directory, name)) => (Some(directory), name),
            None => (None, file.path()),
        };
        let mut held = Vec::new();
        let walk = |held: &mut Vec<Node>| {
            let mut at = ROOT;
            for part in directory.into_iter().flat_map(|d| d.split('/')) {
                at = self.plain.lookup(&us, at, OsStr::new(part))?.node;
                held.push(at);
            }
            f(at, OsStr::new(name))
        };
        let answer = walk(&mut held);
        for node in held {
            self.plain.forget(node, 1);
        }
        answer
    }

    /// Calls `f` with the plain node of the store's file.
    fn file_node<T>(&self, file: FileId, f: impl Fn(Node) -> Result<T>) -> Result<T> {
        let us = self.us();
        self.file_at(file, |parent, name| {
            let node = self.plain.lookup(&us, parent, name)?.node;
            let answer = f(node);
            self.plain.forget(node, 1);
            answer
        })
    }

    /// `chmod`, `chown`, `utimens`: of the store's file. A file that is gone has nothing to keep
    /// them.
    pub(in crate::vfs) fn file_set(&self, who: &Caller, file: FileId, set: &SetAttr) -> Result<()> {
        let set = SetAttr { size: None, fh: None, ..*set };
        let asked = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
        if !asked && set.atime.is_none() && set.mtime.is_none() {
            return Ok(());
        }
        let _turn = self.files.turn(file);
        let done = self.file_node(file, |node| self.plain.setattr(who, node, &set));
        if is_absent(&done) && !self.handles_on(View::File(file)).is_empty() {
            return Ok(());
        }
        done.map(|_| ())
    }

    /// An extended attribute of the store's file.
    pub(in crate::vfs) fn file_getxattr(
        &self,
        who: &Caller,
        file: FileId,
        name: &OsStr,
    ) -> Result<Vec<u8>> {
        self.file_node(file, |node| self.plain.getxattr(who, node, name))
    }

    /// Sets one.
    pub(in crate::vfs) fn file_setxattr(
        &self,
        who: &Caller,
        file: FileId,
        name: &OsStr,
        value: &[u8],
        flags: crate::vfs::XattrFlags,
    ) -> Result<()> {
        let _turn = self.files.turn(file);
        self.file_node(file, |node| self.plain.setxattr(who, node, name, value, flags))
    }

    /// The names of all.
    pub(in crate::vfs) fn file_listxattr(&self, who: &Caller, file: FileId) -> Result<Vec<u8>> {
        self.file_node(file, |node| self.plain.listxattr(who, node))
    }

    /// Removes one.
    pub(in crate::vfs) fn file_removexattr(
        &self,
        who: &Caller,
        file: FileId,
        name: &OsStr,
    ) -> Result<()> {
        let _turn = self.files.turn(file);
        self.file_node(file, |node| self.plain.removexattr(who, node, name))
    }

    /// Gives a file that was made for a rename what the renamed one had: mode, owner, extended
    /// attributes. What cannot be had is left.
    pub(super) fn file_take_after(&self, file: FileId, from: (Node, &OsStr), attr: &Attr) {
        let us = self.us();
        let set = SetAttr {
            mode: Some(u32::from(attr.perm)),
            uid: Some(attr.uid),
            gid: Some(attr.gid),
            ..SetAttr::default()
        };
        let Ok(source) = self.plain.lookup(&us, from.0, from.1) else { return };
        let done = self.file_node(file, |node| {
            self.plain.setattr(&us, node, &set)?;
            let names = self.plain.listxattr(&us, source.node).unwrap_or_default();
            for name in names.split(|b| *b == 0).filter(|n| !n.is_empty()) {
                use std::os::unix::ffi::OsStrExt;
                let name = OsStr::from_bytes(name);
                if let Ok(value) = self.plain.getxattr(&us, source.node, name)
                    && let Err(e) =
                        self.plain.setxattr(&us, node, name, &value, crate::vfs::XattrFlags::Any)
                {
                    log::debug!("{}: {}: {e}", file.path(), name.display());
                }
            }
            Ok(())
        });
        self.plain.forget(source.node, 1);
        if let Err(e) = done {
            log::warn!("{}: mode and owner of the renamed file are lost: {e}", file.path());
        }
    }
}

/// A file without a name: one of its handles tells what it was.
fn file_gone(view: View, open: Option<&DocHandle>) -> Result<Attr> {
    let h = open.ok_or(Error::NotFound)?;
    let start = h.start.as_ref().ok_or(Error::NotFound)?;
    let mut attr = start.attr;
    attr.nlink = 0;
    if let Some(state) = h.state.try_lock() {
        let shown = match &state.reading {
            Some((_, content)) => content.len(),
            None => start.version.view(view).map_or(0, |c| c.len()),
        };
        attr.size = state.own_text(h.is_dirty()).map_or(shown, |t| t.len() as u64);
    }
    Ok(attr)
}
