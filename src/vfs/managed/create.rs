//! Making, opening and removing managed files.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::documents::live::{SaveError, SaveRequest};
use crate::documents::{Version, Written};
use crate::fs::observed::Choice;
use crate::model::{Basis, FileId, Rule, View};
use crate::process::Process;
use crate::vfs::commit::Saver;
use crate::vfs::handle::{DocHandle, Mode, Start};
use crate::vfs::hidden::Left;
use crate::vfs::layer::{Attr, Caller, Created, Entry, Error, FileType, Node, Result};
use crate::vfs::tree::Tree;

use super::{Fits, is_absent, node_of};

impl Tree {
    /// `open` with `O_CREAT` of a name that fits a rule, when nothing or a managed file is there.
    #[expect(clippy::too_many_arguments, reason = "the kernel's call")]
    pub(in crate::vfs) fn file_create(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        fits: Fits,
        mode: u32,
        umask: u32,
        flags: i32,
    ) -> Result<Created> {
        if let Fits::File(file, attr) = fits {
            if flags & libc::O_EXCL != 0 {
                return Err(Error::Exists);
            }
            return self.file_opened(who, parent, name, file, attr, flags, false);
        }
        // What the store's file system does for a new file is done by it: owner, mode, access
        // lists. The empty file is there for everybody at once (locks and `O_EXCL` between
        // processes need it).
        let make = flags & !libc::O_TRUNC | libc::O_EXCL;
        let to_be = self.ruled(parent, name).map(|path| FileId::of(&path));
        let made = self.by_hand(who, to_be.as_slice(), || {
            self.plain.create(who, parent, name, mode, umask, make)
        });
        let created = match made {
            Ok(made) => {
                let closed = self.plain.release(made.entry.node, made.opened.fh);
                self.plain.forget(made.entry.node, 1);
                closed?;
                true
            }
            Err(Error::Exists | Error::Os(rustix::io::Errno::EXIST))
                if flags & libc::O_EXCL == 0 =>
            {
                false
            }
            Err(e) => return Err(e),
        };
        match self.fits(parent, name) {
            Some(Fits::File(file, attr)) => {
                if created {
                    self.files.numbers.drop(file);
                }
                self.file_opened(who, parent, name, file, attr, flags, created)
            }
            // It became something else at this very moment.
            _ => self.plain.create(who, parent, name, mode, umask, flags & !libc::O_EXCL),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what a new handle must know")]
    fn file_opened(
        &self,
        who: &Caller,
        parent: Node,
        name: &OsStr,
        file: FileId,
        attr: Attr,
        flags: i32,
        created: bool,
    ) -> Result<Created> {
        let opened = self.doc_open(who, View::File(file), flags, created)?;
        let entry = self.file_entry(file, parent, name, &attr);
        Ok(Created { entry, opened })
    }

    /// What a handle remembers of the file at its open.
    ///
    /// The file may have gone since the kernel found it. With `ESTALE` the kernel looks again, and
    /// creates it if that is what was asked. An append is for whatever has the name, once there is
    /// something.
    pub(in crate::vfs) fn file_start(&self, file: FileId, made: bool, mode: Mode) -> Result<Start> {
        let view = View::File(file);
        let real = self.file_real(file);
        let attr = match is_absent(&real) {
            true if mode.append => self.file_to_be(file),
            true => return Err(Error::Os(rustix::io::Errno::STALE)),
            false => self.file_shown(file, &real?),
        };
        let mut version = self.docs.current(view.doc())?;
        if made && version.view(view).is_some_and(|c| !c.is_empty()) {
            // Others have written already.
            version = self.docs.believe(view, b"", version.rev).map_err(|e| match e {
                SaveError::Refused(refusal) => Error::Refused(refusal),
                SaveError::Store(e) => Error::Store(e),
            })?;
        }
        Ok(Start { attr, version, made })
    }

    /// What is shown of a file that is not there, as long as it is not.
    fn file_to_be(&self, file: FileId) -> Attr {
        let now = self.now();
        Attr {
            ino: node_of(file),
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            kind: FileType::Regular,
            perm: 0o600,
            nlink: 0,
            uid: self.options.uid,
            gid: self.options.gid,
            rdev: 0,
            blksize: 4096,
        }
    }

    /// `unlink`: takes the file away for everybody. Of a queue the lines that the remover has not
    /// read stay, and the file with them.
    pub(in crate::vfs) fn file_unlink(&self, who: &Caller, file: FileId) -> Result<()> {
        let process = self.process(who);
        self.file_remove(who, file, process.as_ref(), None)
    }

    /// Removes the file as somebody who has seen `seen`, or else what the process has.
    pub(super) fn file_remove(
        &self,
        who: &Caller,
        file: FileId,
        process: Option<&Process>,
        seen: Option<Arc<Version>>,
    ) -> Result<()> {
        let view = View::File(file);
        let saver = self.saver(process, who.uid, view);
        let writer = self.saver_as_writer(&saver);
        let before = self.docs.current(view.doc())?;
        let met = seen.or_else(|| self.observed.last_met(&writer, view.doc()));
        let choice = Choice {
            observation: met.as_ref().and_then(|v| self.observed.nearest_of(&writer, v, view)),
            ..Choice::of(met, Rule::Own)
        };
        let met = choice.version.clone();
        let saved =
            self.save(&saver, view, choice, Written::Removed).map_err(|failed| failed.error)?;
        if saved.version.view(view).is_some() {
            if let Some(met) = met {
                self.taken(who, view, &before, Left { met, version: saved.version });
            }
        } else {
            self.hide(who, view, &before);
            self.files.numbers.drop(file);
            for h in self.handles_on(view) {
                self.orphan(&h, process);
            }
        }
        Ok(())
    }

    /// The only text that was written to a file by whoever made it is refused: there was no file
    /// before, and nobody is left with an empty one.
    pub(in crate::vfs) fn file_unmade(&self, h: &DocHandle, saver: &Saver) {
        let View::File(file) = h.view() else { return };
        let made = h.start.as_ref().is_some_and(|s| s.made);
        if !made || self.handles_on(h.view()).iter().any(|o| o.fh != h.fh) {
            return;
        }
        let removed = self.docs.current(h.view().doc()).map_err(SaveError::from).and_then(|now| {
            if now.view(h.view()).is_none_or(|c| !c.is_empty()) {
                return Ok(());
            }
            let _turn = self.files.turn(file);
            self.docs.save(SaveRequest {
                view: h.view(),
                base: Some(now),
                basis: Basis::by(Rule::Handle),
                written: Written::Removed,
                instead_of: None,
                actor: saver.actor.clone(),
                under_their_lock: false,
                expect_sha256: None,
            })?;
            self.files.numbers.drop(file);
            Ok(())
        });
        if let Err(e) = removed {
            log::info!("{}: the empty file stays: {e}", file.path());
        }
    }

    /// The file of this handle was removed by `remover`. Its own text has no name to go to: who
    /// unlinks a file that it has open wants it to end with the handle. What others write makes
    /// the file anew, and so does an append, which belongs to whatever has the name.
    fn orphan(&self, h: &DocHandle, remover: Option<&Process>) {
        if h.mode.write && !h.mode.append && remover.is_some_and(|p| h.opened_by(p.id)) {
            h.state.lock().orphan = true;
        }
    }

    /// What `mknod`, `symlink`, `mkdir` or `link` made under a name that fits a rule: it may become
    /// a managed file, so the kernel must ask each time.
    pub(in crate::vfs) fn file_made(&self, parent: Node, name: &OsStr, mut entry: Entry) -> Entry {
        self.files.numbers.plain(&mut entry.attr);
        match self.fits(parent, name) {
            Some(Fits::File(file, attr)) => {
                self.plain.forget(entry.node, 1);
                self.file_entry(file, parent, name, &attr)
            }
            Some(_) if entry.attr.kind != FileType::Directory => {
                entry.entry_ttl = std::time::Duration::ZERO;
                entry
            }
            _ => entry,
        }
    }
}
