//! What `stat` shows of a document: size and time of its version (R1), number, mode and owner of
//! its name.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::layer::{Attr, Caller, Created, Entry, Error, FileType, Result, SetAttr, SetTime};
use super::ports::{KeptName, Memory};
use super::tree::{OWN_FH, ROOT, Tree};
use crate::documents::Version;
use crate::model::{Rev, Stamp, View};

/// Numbers of documents that no renamed file has given another number: the mount's own range.
const FIRST_INO: u64 = 1 << 40;
/// How many numbers that documents had before are remembered.
const FORMER: usize = 64;

/// The names of the documents and what is kept of them.
pub struct Names {
    kept: Mutex<Vec<KeptName>>,
    /// Numbers that documents had before a file was renamed onto them, the newest last.
    former: Mutex<VecDeque<(View, u64)>>,
    memory: Arc<dyn Memory>,
}

impl Names {
    /// As the store remembers them; new ones belong to `uid` and `gid`.
    pub fn new(memory: Arc<dyn Memory>, uid: u32, gid: u32) -> Result<Names> {
        let mut kept = memory.names()?;
        for (i, view) in View::ALL.into_iter().enumerate() {
            let ino = FIRST_INO + i as u64;
            if let Some(known) = kept.iter_mut().find(|k| k.view == view) {
                // An import keeps mode and owner and knows of no numbers.
                if known.ino == 0 {
                    known.ino = ino;
                }
            } else {
                // What may not be read under one name may not be read under the other.
                let other = kept.iter().find(|k| k.view.doc() == view.doc());
                let (mode, uid, gid) = match other {
                    Some(other) => (other.mode, other.uid, other.gid),
                    None if view.read_only() => (0o444, uid, gid),
                    None => (0o644, uid, gid),
                };
                kept.push(KeptName { view, ino, mode, uid, gid, atime: None, mtime: None });
            }
        }
        Ok(Names { kept: Mutex::new(kept), former: Mutex::default(), memory })
    }

    fn get(&self, view: View) -> KeptName {
        let kept = self.kept.lock();
        kept.iter().find(|k| k.view == view).cloned().unwrap_or(KeptName {
            view,
            ino: FIRST_INO,
            mode: 0o644,
            uid: 0,
            gid: 0,
            atime: None,
            mtime: None,
        })
    }

    fn change(&self, view: View, f: impl FnOnce(&mut KeptName)) -> Result<()> {
        let after = {
            let mut kept = self.kept.lock();
            let Some(name) = kept.iter_mut().find(|k| k.view == view) else { return Ok(()) };
            let before = name.clone();
            f(name);
            if *name == before {
                return Ok(());
            }
            name.clone()
        };
        Ok(self.memory.keep_name(&after)?)
    }

    /// `st_ino`.
    pub fn ino(&self, view: View) -> u64 {
        self.get(view).ino
    }

    /// `st_ino`, and those that it was lately: the kernel goes on showing one of them (in
    /// `/proc/PID/fdinfo`) until it asks for the attributes again.
    pub fn inos(&self, view: View) -> Vec<u64> {
        let mut inos = vec![self.ino(view)];
        inos.extend(self.former.lock().iter().filter(|(v, _)| *v == view).map(|(_, ino)| *ino));
        inos
    }

    /// Permission bits, owner and group.
    pub fn access(&self, view: View) -> (u32, u32, u32) {
        let name = self.get(view);
        (u32::from(name.mode), name.uid, name.gid)
    }

    /// Permission bits.
    pub fn mode(&self, view: View) -> u16 {
        self.get(view).mode
    }

    /// A file was renamed onto the name: the document goes on under that file's number (R1).
    pub fn adopt_ino(&self, view: View, ino: u64) -> Result<()> {
        let mut former = self.former.lock();
        if former.len() >= FORMER {
            former.pop_front();
        }
        former.push_back((view, self.ino(view)));
        drop(former);
        self.change(view, |name| name.ino = ino)
    }

    /// The attributes of the name while `version` is shown with `size` bytes.
    pub fn attr(&self, view: View, version: &Version, size: u64, written: Option<Stamp>) -> Attr {
        let name = self.get(view);
        let set = name.mtime.filter(|(_, rev)| *rev == version.rev).map(|(t, _)| t);
        let mtime = written.or(set).unwrap_or(version.mtime);
        Attr {
            ino: name.ino,
            size,
            blocks: size.div_ceil(512),
            atime: name.atime.unwrap_or(mtime),
            mtime,
            ctime: version.mtime.max(mtime),
            kind: FileType::Regular,
            perm: name.mode,
            nlink: 1,
            uid: name.uid,
            gid: name.gid,
            rdev: 0,
            blksize: 4096,
        }
    }

    /// `chmod`, `chown` and `utimens`. A new owner may only be set by root (`EPERM`). Mode and owner
    /// are those of the document, under each of its names.
    pub fn set(&self, view: View, asker: u32, set: &SetAttr, rev: Rev, now: Stamp) -> Result<()> {
        let name = self.get(view);
        let owner = set.uid.is_some_and(|uid| uid != name.uid);
        let group = set.gid.is_some_and(|gid| gid != name.gid);
        if asker != 0 && (owner || (group && asker != name.uid)) {
            return Err(Error::NotPermitted);
        }
        if asker != 0 && asker != name.uid && set.mode.is_some() {
            return Err(Error::NotPermitted);
        }
        let time = |t: SetTime| match t {
            SetTime::Now => now,
            SetTime::To(t) => t,
        };
        let access = |name: &mut KeptName| {
            if let Some(mode) = set.mode {
                name.mode = (mode & 0o7777) as u16;
            }
            name.uid = set.uid.unwrap_or(name.uid);
            name.gid = set.gid.unwrap_or(name.gid);
        };
        for other in view.doc().views().filter(|v| *v != view) {
            self.change(other, access)?;
        }
        self.change(view, |name| {
            access(name);
            name.atime = set.atime.map(time).or(name.atime);
            name.mtime = set.mtime.map(|t| (time(t), rev)).or(name.mtime);
        })
    }
}

impl Tree {
    /// `lookup` of a document's name.
    pub(super) fn doc_lookup(&self, who: &Caller, view: View) -> Result<Entry> {
        let version = self.docs.current(view.doc())?;
        if !self.shows(view, &version, who) {
            return Err(Error::NotFound);
        }
        let size = version.view(view).map_or(0, |c| c.len());
        Ok(self.document_entry(view, self.names.attr(view, &version, size, None)))
    }

    /// `open` of a document's name with `O_CREAT`. `mode`: of a new file.
    pub(super) fn doc_create(
        &self,
        who: &Caller,
        view: View,
        mode: u32,
        flags: i32,
    ) -> Result<Created> {
        let version = self.docs.current(view.doc())?;
        let there = self.shows(view, &version, who);
        if there && flags & libc::O_EXCL != 0 {
            return Err(Error::Exists);
        }
        // Somebody else may be making it already.
        let being_made = |v| self.handles_on(v).iter().any(|h| h.created);
        if version.view(view).is_none() && !view.doc().views().any(being_made) {
            let (root, _) = self.plain.getattr(&self.us(), ROOT, None)?;
            let gid = if root.perm & 0o2000 != 0 { root.gid } else { who.gid };
            self.doc_made(view, mode, who.uid, gid)?;
        }
        let opened = self.doc_open(who, view, flags, !there)?;
        let attr = self.doc_attr(who, view, false)?;
        Ok(Created { entry: self.document_entry(view, attr), opened })
    }

    /// A document that was not there is its maker's, as any new file is.
    pub(super) fn doc_made(&self, view: View, mode: u32, uid: u32, gid: u32) -> Result<()> {
        let (mode, uid, gid) = (Some(mode & 0o777), Some(uid), Some(gid));
        let set = SetAttr { mode, uid, gid, ..SetAttr::default() };
        self.names.set(view, 0, &set, self.docs.cached(view.doc()).rev, self.now())
    }

    /// `chmod`, `chown`, `utimens`, `truncate` and `ftruncate` of a document.
    pub(super) fn doc_setattr(
        &self,
        who: &Caller,
        view: View,
        set: &SetAttr,
    ) -> Result<(Attr, Duration)> {
        if let Some(size) = set.size {
            match set.fh.filter(|fh| fh & OWN_FH != 0) {
                Some(fh) => self.doc_resize(who, &*self.handle(fh)?, size)?,
                None => self.doc_truncate(who, view, size)?,
            }
        }
        let mut kept = *set;
        let own = self.procs.own_pid() != 0
            && self.process(who).is_some_and(|p| p.id.pid == self.procs.own_pid());
        if set.size.is_some() || own {
            // The kernel sends the times of a truncation along; ours follow the content.
            // The daemon touches a document only to make watchers look.
            (kept.atime, kept.mtime) = (None, None);
        }
        if let View::File(file) = view {
            self.file_set(who, file, &kept)?;
        } else {
            let rev = self.docs.current(view.doc())?.rev;
            self.names.set(view, who.uid, &kept, rev, self.now())?;
        }
        Ok((self.doc_attr(who, view, false)?, Duration::ZERO))
    }
}
