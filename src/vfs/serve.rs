//! The tree as a [`Layer`]: every call goes to the documents, to the fixed nodes or to the plain
//! files below.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use super::layer::{
    Attr, Backing, Caller, Created, DirEntry, Entry, Error, Fh, FileType, Layer, Node, Opened,
    Renaming, Result, SetAttr, StatFs, XattrFlags,
};
use super::managed::{self, Fits};
use super::own_dir;
use super::past::Past;
use super::renaming::At;
use super::tables;
use super::tree::{FIRST_PLAIN, Fixed, OWN_FH, Place, ROOT, Tree};
use crate::model::{FileId, View};

fn is_own(fh: Fh) -> bool {
    fh & OWN_FH != 0
}

impl Layer for Tree {
    fn lookup(&self, who: &Caller, parent: Node, name: &OsStr) -> Result<Entry> {
        self.asked.looked_up(who.tid);
        if own_dir::is_own(parent) {
            return self.own_lookup(parent, name);
        }
        match self.place(parent, name) {
            Place::Document(view) => self.doc_lookup(who, view).inspect_err(|e| {
                if matches!(e, Error::NotFound) {
                    self.observe_absence(who, view);
                }
            }),
            Place::Link(link) => Ok(self.link_entry(link)),
            Place::OwnDir => self.own_entry(self.view_named(name).unwrap_or(own_dir::DIR)),
            Place::Private => Err(Error::NotFound),
            Place::Ruled(Fits::File(file, attr)) => Ok(self.file_entry(file, parent, name, &attr)),
            Place::Ruled(Fits::Free) => {
                if let Some(path) = self.ruled(parent, name) {
                    self.observe_absence(who, View::File(FileId::of(&path)));
                }
                Err(Error::NotFound)
            }
            Place::Ruled(Fits::Unknown(e)) => Err(Error::Os(e)),
            place @ (Place::Plain | Place::Ruled(Fits::Other)) => {
                let mut entry = self.plain.lookup(who, parent, name)?;
                // A directory's name is never a document's: most paths begin with one.
                let file = entry.attr.kind != FileType::Directory;
                if (file && (parent == ROOT || place != Place::Plain))
                    || self.files.is_fresh(parent, name)
                {
                    entry.entry_ttl = Duration::ZERO;
                }
                self.refused_looked_up(parent, name, entry.node);
                let mut entry = self.owned_looked_up(who, parent, name, entry)?;
                self.files.numbers.plain(&mut entry.attr);
                Ok(entry)
            }
        }
    }

    fn forget(&self, node: Node, count: u64) {
        if let Some(file) = managed::file_of(node) {
            self.files.forget(file, count);
        } else if !self.tables.forget(node, count) && node >= FIRST_PLAIN && !own_dir::is_own(node)
        {
            self.plain.forget(node, count);
            if self.plain.id_of(node).is_none() {
                self.sources.forget(node);
            }
        }
    }

    fn getattr(&self, who: &Caller, node: Node, fh: Option<Fh>) -> Result<(Attr, Duration)> {
        match self.fixed(node)? {
            Fixed::Document(view) => Ok((self.doc_attr(who, view, true)?, Duration::ZERO)),
            Fixed::Link(link) => Ok((self.link_attr(link), Duration::from_secs(1))),
            Fixed::Own => Ok((self.own_getattr(who, node)?, Duration::ZERO)),
            Fixed::Plain => {
                let (mut attr, ttl) =
                    self.plain.getattr(who, node, fh.filter(|fh| !is_own(*fh)))?;
                self.files.numbers.plain(&mut attr);
                Ok((attr, ttl))
            }
        }
    }

    fn setattr(&self, who: &Caller, node: Node, set: &SetAttr) -> Result<(Attr, Duration)> {
        match self.fixed(node)? {
            Fixed::Document(view) => self.doc_setattr(who, view, set),
            Fixed::Link(_) | Fixed::Own => Err(Error::NotPermitted),
            Fixed::Plain => {
                if set.size.is_some() {
                    if set.fh.is_none() {
                        self.still_plain(who, node)?;
                    }
                    self.owned_setattr(who, node, set)?;
                }
                if set.size.is_some() || self.plain.written_directly(node) {
                    self.plain_written(who, node);
                }
                let (mut attr, ttl) = self.plain.setattr(who, node, set)?;
                self.files.numbers.plain(&mut attr);
                Ok((attr, ttl))
            }
        }
    }

    fn readlink(&self, who: &Caller, node: Node) -> Result<OsString> {
        match self.fixed(node)? {
            Fixed::Link(link) => Ok(self.link_target(link)),
            Fixed::Plain => self.plain.readlink(who, node),
            Fixed::Own => self.past_link(Past::of(node).ok_or(Error::Invalid)?),
            Fixed::Document(_) => Err(Error::Invalid),
        }
    }

    fn mknod(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
    ) -> Result<Entry> {
        self.forbid_own(parent)?;
        self.forbid_new(parent, name)?;
        let entry = self.plain.mknod(who, parent, name, mode, umask, rdev)?;
        Ok(self.file_made(parent, name, entry))
    }

    fn mkdir(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        umask: u32,
    ) -> Result<Entry> {
        self.forbid_own(parent)?;
        self.forbid_new(parent, name)?;
        let entry = self.plain.mkdir(who, parent, name, mode, umask)?;
        Ok(self.file_made(parent, name, entry))
    }

    fn unlink(&self, who: &Caller, parent: Node, name: &OsStr) -> Result<()> {
        self.forbid_own(parent)?;
        match self.place(parent, name) {
            Place::Document(view) => self.unlink_document(who, view),
            Place::Link(_) => Err(Error::NotPermitted),
            Place::OwnDir => Err(self.own_unlink(name)),
            Place::Private => Err(Error::NotFound),
            Place::Ruled(Fits::File(file, _)) => self.file_unlink(who, file),
            Place::Ruled(Fits::Unknown(e)) => Err(Error::Os(e)),
            Place::Ruled(Fits::Free | Fits::Other) | Place::Plain => {
                self.owned_unlink(who, parent, name)
            }
        }
    }

    fn rmdir(&self, who: &Caller, parent: Node, name: &OsStr) -> Result<()> {
        self.forbid_own(parent)?;
        match self.fixed_place(parent, name) {
            Place::Document(_) | Place::Link(_) => Err(Error::NotDirectory),
            Place::OwnDir => Err(Error::NotPermitted),
            Place::Private => Err(Error::NotFound),
            Place::Ruled(_) | Place::Plain => self.plain.rmdir(who, parent, name),
        }
    }

    fn symlink(&self, who: &Caller, parent: Node, name: &OsStr, target: &OsStr) -> Result<Entry> {
        self.forbid_own(parent)?;
        self.forbid_new(parent, name)?;
        let entry = self.plain.symlink(who, parent, name, target)?;
        Ok(self.file_made(parent, name, entry))
    }

    fn rename(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        new_parent: Node,
        new_name: &OsStr,
        how: Renaming,
    ) -> Result<()> {
        self.forbid_own(parent)?;
        self.forbid_own(new_parent)?;
        let to = At { parent: new_parent, name: new_name };
        self.rename_any(who, At { parent, name }, to, how)
    }

    fn link(&self, who: &Caller, node: Node, new_parent: Node, new_name: &OsStr) -> Result<Entry> {
        if self.fixed(node)? != Fixed::Plain {
            return Err(Error::NotPermitted);
        }
        self.forbid_own(new_parent)?;
        self.forbid_new(new_parent, new_name)?;
        let entry = self.plain.link(who, node, new_parent, new_name)?;
        self.owned_linked(who, new_parent, new_name);
        Ok(self.file_made(new_parent, new_name, entry))
    }

    fn open(&self, who: &Caller, node: Node, flags: i32) -> Result<Opened> {
        match self.fixed(node)? {
            Fixed::Document(view) => self.doc_open(who, view, flags, false),
            Fixed::Link(_) => Err(Error::Invalid),
            Fixed::Own => self.own_open(who, node, flags),
            Fixed::Plain => {
                self.still_plain(who, node)?;
                self.owned_open(who, node, flags)?;
                let opened = self.plain.open(who, node, flags)?;
                self.plain_opened(who, node, flags);
                Ok(opened)
            }
        }
    }

    fn create(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
    ) -> Result<Created> {
        self.forbid_own(parent)?;
        match self.place(parent, name) {
            Place::Document(view) => self.doc_create(who, view, mode & !umask, flags),
            Place::Link(_) | Place::OwnDir => Err(Error::Exists),
            Place::Private => Err(Error::NotPermitted),
            Place::Ruled(fits @ (Fits::File(..) | Fits::Free)) => {
                self.file_create(who, parent, name, fits, mode, umask, flags)
            }
            Place::Ruled(Fits::Unknown(e)) => Err(Error::Os(e)),
            place @ (Place::Plain | Place::Ruled(Fits::Other)) => {
                let mut created = self.owned_create(who, parent, name, mode, umask, flags)?;
                if parent == ROOT || place != Place::Plain {
                    created.entry.entry_ttl = Duration::ZERO;
                }
                self.files.numbers.plain(&mut created.entry.attr);
                self.plain_written(who, created.entry.node);
                Ok(created)
            }
        }
    }

    fn read(&self, who: &Caller, node: Node, fh: Fh, offset: u64, size: u32) -> Result<Vec<u8>> {
        match self.fixed(node)? {
            Fixed::Document(_) => self.doc_read(who, &*self.handle(fh)?, offset, size),
            Fixed::Own => self.own_read(node, fh, offset, size),
            Fixed::Link(_) => Err(Error::BadHandle),
            Fixed::Plain => {
                self.plain_read(who, node, offset);
                self.plain.read(who, node, fh, offset, size)
            }
        }
    }

    fn write(
        &self,
        who: &Caller,
        node: Node,
        fh: Fh,
        offset: u64,
        data: &[u8],
        flags: i32,
    ) -> Result<u32> {
        match self.fixed(node)? {
            Fixed::Document(_) => self.doc_write(who, &*self.handle(fh)?, offset, data, flags),
            Fixed::Link(_) | Fixed::Own => Err(Error::BadHandle),
            Fixed::Plain => {
                let written = self.plain.write(who, node, fh, offset, data, flags)?;
                self.plain_written(who, node);
                Ok(written)
            }
        }
    }

    fn backing(&self, who: &Caller, node: Node, fh: Fh, flags: i32) -> Option<Backing> {
        match self.fixed(node) {
            Ok(Fixed::Plain) => self.plain_backing(who, node, fh, flags),
            Ok(Fixed::Document(_) | Fixed::Link(_) | Fixed::Own) | Err(_) => None,
        }
    }

    fn flush(&self, who: &Caller, node: Node, fh: Fh) -> Result<()> {
        match self.fixed(node)? {
            Fixed::Document(_) => self.doc_flush(who, &*self.handle(fh)?),
            Fixed::Link(_) | Fixed::Own => Ok(()),
            Fixed::Plain => {
                self.plain_closing(who, node, fh);
                self.owned_settle(node, fh);
                self.plain.flush(who, node, fh)?;
                match self.adopted(fh) {
                    Some(adopted) => self.adopted_flush(who, &adopted, false),
                    None => Ok(()),
                }
            }
        }
    }

    fn release(&self, node: Node, fh: Fh) -> Result<()> {
        match self.fixed(node)? {
            Fixed::Document(_) => {
                self.doc_release(&*self.handle(fh)?);
                Ok(())
            }
            Fixed::Link(_) => Ok(()),
            Fixed::Own => {
                self.texts.lock().remove(&fh);
                Ok(())
            }
            Fixed::Plain => {
                self.owned_settle(node, fh);
                self.adopted_release(fh);
                self.plain.release(node, fh)
            }
        }
    }

    fn fsync(&self, who: &Caller, node: Node, fh: Fh, data_only: bool) -> Result<()> {
        match self.fixed(node)? {
            Fixed::Document(_) => self.doc_fsync(who, &*self.handle(fh)?),
            Fixed::Link(_) | Fixed::Own => Ok(()),
            Fixed::Plain => {
                self.plain_closing(who, node, fh);
                self.plain.fsync(who, node, fh, data_only)?;
                self.owned_settle(node, fh);
                self.sources.synced(node);
                match self.adopted(fh) {
                    Some(adopted) => self.adopted_flush(who, &adopted, true),
                    None => Ok(()),
                }
            }
        }
    }

    fn opendir(&self, who: &Caller, node: Node, flags: i32) -> Result<Opened> {
        match node {
            ROOT | own_dir::DIR => self.list_open(who, node, flags),
            _ if tables::is_dir(node) => self.list_open(who, node, flags),
            _ if Past::of(node).is_some_and(|p| p.kind() == FileType::Directory) => {
                self.list_open(who, node, flags)
            }
            _ if node < FIRST_PLAIN || own_dir::is_own(node) => Err(Error::NotDirectory),
            _ => self.plain.opendir(who, node, flags),
        }
    }

    fn readdir(&self, who: &Caller, node: Node, fh: Fh, offset: i64) -> Result<Vec<DirEntry>> {
        match is_own(fh) {
            true => self.list_read(who, fh, offset),
            false => {
                let mut entries = self.owned_page(who, node, fh, offset)?;
                self.number_entries(node, &mut entries);
                Ok(entries)
            }
        }
    }

    fn releasedir(&self, node: Node, fh: Fh) {
        match is_own(fh) {
            true => self.list_close(fh),
            false => self.plain.releasedir(node, fh),
        }
    }

    fn fsyncdir(&self, who: &Caller, node: Node, fh: Fh, data_only: bool) -> Result<()> {
        if node == ROOT {
            // A rename onto a document is durable when the directory has been synced.
            self.docs.sync()?;
        }
        match is_own(fh) {
            true => match self.list_plain(fh) {
                Some(plain) => self.plain.fsyncdir(who, node, plain, data_only),
                None => Ok(()),
            },
            false => self.plain.fsyncdir(who, node, fh, data_only),
        }
    }

    fn statfs(&self, who: &Caller, node: Node) -> Result<StatFs> {
        let plain = matches!(self.fixed(node), Ok(Fixed::Plain));
        self.plain.statfs(who, if plain { node } else { ROOT })
    }

    fn setxattr(
        &self,
        who: &Caller,
        node: Node,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        match self.fixed(node)? {
            Fixed::Plain => {
                self.owned_forbid_xattr(node, name)?;
                self.plain.setxattr(who, node, name, value, flags)
            }
            Fixed::Document(view) => self.doc_setxattr(who, view, name, value, flags),
            _ => Err(Error::NotSupported),
        }
    }

    fn getxattr(&self, who: &Caller, node: Node, name: &OsStr) -> Result<Vec<u8>> {
        match self.fixed(node)? {
            Fixed::Plain => match self.owned_xattr(node, name) {
                Some(value) => Ok(value),
                None => self.plain.getxattr(who, node, name),
            },
            Fixed::Document(view) => self.doc_getxattr(who, view, name),
            _ if super::guards::is_kernels(name) => Err(Error::NoAttribute),
            _ => Err(Error::NotSupported),
        }
    }

    fn listxattr(&self, who: &Caller, node: Node) -> Result<Vec<u8>> {
        match self.fixed(node)? {
            Fixed::Plain => Ok(self.owned_xattrs(node, self.plain.listxattr(who, node)?)),
            Fixed::Document(View::File(file)) => self.file_listxattr(who, file),
            _ => Ok(Vec::new()),
        }
    }

    fn removexattr(&self, who: &Caller, node: Node, name: &OsStr) -> Result<()> {
        match self.fixed(node)? {
            Fixed::Plain => {
                self.owned_forbid_xattr(node, name)?;
                self.plain.removexattr(who, node, name)
            }
            Fixed::Document(view) => self.doc_removexattr(who, view, name),
            _ => Err(Error::NotSupported),
        }
    }

    fn access(&self, who: &Caller, node: Node, mask: i32) -> Result<()> {
        match self.fixed(node)? {
            Fixed::Plain => self.plain.access(who, node, mask),
            Fixed::Own if mask & libc::W_OK != 0 => Err(Error::ReadOnly),
            Fixed::Document(view) if mask & libc::W_OK != 0 && view.read_only() => {
                Err(Error::ReadOnly)
            }
            _ => Ok(()),
        }
    }

    fn fallocate(
        &self,
        who: &Caller,
        node: Node,
        fh: Fh,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<()> {
        match self.fixed(node)? {
            Fixed::Document(_) => self.doc_fallocate(who, &*self.handle(fh)?, offset, length, mode),
            Fixed::Link(_) | Fixed::Own => Err(Error::BadHandle),
            Fixed::Plain => {
                self.plain_written(who, node);
                self.plain.fallocate(who, node, fh, offset, length, mode)
            }
        }
    }

    fn has_news(&self, node: Node, fh: Fh) -> Result<bool> {
        match self.fixed(node)? {
            Fixed::Document(_) if is_own(fh) => self.doc_has_news(&*self.handle(fh)?),
            _ => Ok(false),
        }
    }

    fn lseek(&self, who: &Caller, node: Node, fh: Fh, offset: i64, whence: i32) -> Result<i64> {
        match self.fixed(node)? {
            Fixed::Document(_) => self.doc_lseek(&*self.handle(fh)?, offset, whence),
            Fixed::Link(_) | Fixed::Own => Err(Error::Invalid),
            Fixed::Plain => self.plain.lseek(who, node, fh, offset, whence),
        }
    }

    fn copy_file_range(
        &self,
        who: &Caller,
        node_in: Node,
        fh_in: Fh,
        offset_in: u64,
        node_out: Node,
        fh_out: Fh,
        offset_out: u64,
        length: u64,
    ) -> Result<u32> {
        self.copy_range(who, (node_in, fh_in, offset_in), (node_out, fh_out, offset_out), length)
    }
}
