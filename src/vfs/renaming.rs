//! Names of documents: unlink, rename away, rename onto, exchange (semantics section 6 and
//! section 5, rule 10).

use std::ffi::OsStr;
use std::fs::File;
use std::sync::{Arc, atomic};

use super::adopted::{errno, read_all};
use super::commit::{Failed, Saver};
use super::handle::blank;
use super::hidden::Absence;
use super::layer::{Attr, Caller, Error, Fh, FileType, Node, Renaming, Result};
use super::managed::Fits;
use super::observing::Start;
use super::sources::Source;
use super::tree::{OWN_DIR, Place, ROOT, Tree};
use super::writing::source_too_big;
use crate::documents::live::{SaveError, SaveRequest};
use crate::documents::{Version, Written, entries};
use crate::fs::observed::Choice;
use crate::model::{Basis, Rule, View};
use crate::process::Process;

/// A place in a directory.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub parent: Node,
    pub name: &'a OsStr,
}

/// The file that is renamed onto a document.
struct Incoming {
    attr: Attr,
    file: Arc<File>,
    node: Option<Node>,
    text: Vec<u8>,
    source: Option<Source>,
    /// Handles that are still open on it and may write.
    open: Vec<Fh>,
}

impl Tree {
    pub(super) fn unlink_document(&self, who: &Caller, view: View) -> Result<()> {
        let version = self.docs.current(view.doc())?;
        if !self.shows(view, &version, who) {
            return Err(Error::NotFound);
        }
        self.hide(who, view, &version);
        Ok(())
    }

    pub(super) fn rename_any(
        &self,
        who: &Caller,
        from: At<'_>,
        to: At<'_>,
        how: Renaming,
    ) -> Result<()> {
        use Place::{Document, Link, OwnDir, Plain, Private, Ruled};
        let places = (self.place(from.parent, from.name), self.place(to.parent, to.name));
        self.owned_guard(who, from)?;
        self.owned_guard(who, to)?;
        if let (Ruled(Fits::Unknown(e)), _) | (_, Ruled(Fits::Unknown(e))) = places {
            return Err(Error::Os(e));
        }
        match places {
            (Private, _) => Err(Error::NotFound),
            (Link(_) | OwnDir, _) | (_, Link(_) | OwnDir | Private) => Err(Error::NotPermitted),
            (Ruled(Fits::File(file, _)), place) => {
                self.rename_file(who, file, (from, to), place, how)
            }
            (Plain | Ruled(_), Ruled(fits @ (Fits::File(..) | Fits::Free))) => {
                self.rename_to_file(who, from, to, fits, how)
            }
            (Plain | Ruled(_), Plain | Ruled(_)) => {
                self.owned_rename(who, from, to, how)?;
                self.follow_directory(who, from, to, how);
                Ok(())
            }
            (_, Document(view)) | (Document(view), _) if matches!(how, Renaming::Other(_)) => {
                log::debug!("{}: rename with flags that documents do not know", view.name());
                Err(Error::Invalid)
            }
            (Plain | Ruled(_), Document(view)) if how == Renaming::Exchange => {
                self.exchange(who, from, view)
            }
            (Document(view), Plain | Ruled(_)) if how == Renaming::Exchange => {
                self.exchange(who, to, view)
            }
            (Plain | Ruled(_), Document(view)) => {
                self.files.freshen(from.parent, from.name)?;
                self.rename_onto(who, from, view, how)
            }
            (Document(view), Plain | Ruled(_)) => self.rename_away(who, view, to, how),
            (Document(a), Document(b)) => self.rename_between(who, a, b, how),
        }
    }

    /// The document's text of this moment becomes a plain file, and the name is free for the
    /// remover's session.
    fn rename_away(&self, who: &Caller, view: View, to: At<'_>, how: Renaming) -> Result<()> {
        let version = self.docs.current(view.doc())?;
        if !self.shows(view, &version, who) {
            return Err(Error::NotFound);
        }
        self.copy_out(who, view, &version, to, how)?;
        self.hide(who, view, &version);
        Ok(())
    }

    /// Writes the text of a version to a plain file, whole or not at all.
    fn copy_out(
        &self,
        who: &Caller,
        view: View,
        version: &Arc<Version>,
        to: At<'_>,
        how: Renaming,
    ) -> Result<()> {
        static COPIES: atomic::AtomicU64 = atomic::AtomicU64::new(0);
        let number = COPIES.fetch_add(1, atomic::Ordering::Relaxed);
        let name = format!("{OWN_DIR}-copy-{}-{number}", self.procs.own_pid());
        let temp = At { parent: to.parent, name: OsStr::new(&name) };
        let content = version.view(view).ok_or(Error::NotFound)?;
        let mode = match view {
            View::File(file) => self.file_real(file)?.perm,
            _ => self.names.mode(view),
        };
        let mode = u32::from(mode) | 0o200;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let made = self.plain.create(who, temp.parent, temp.name, mode, 0, flags)?;
        let (node, fh) = (made.entry.node, made.opened.fh);
        let write = || {
            let mut at = 0;
            for chunk in content.chunks() {
                let mut rest = &chunk[..];
                while !rest.is_empty() {
                    let n = self.plain.write(who, node, fh, at, rest, 0)? as usize;
                    if n == 0 {
                        return Err(Error::Os(rustix::io::Errno::IO));
                    }
                    at += n as u64;
                    rest = &rest[n.min(rest.len())..];
                }
            }
            Ok(())
        };
        let done = write()
            .and_then(|()| self.plain.flush(who, node, fh))
            .and_then(|()| self.plain.release(node, fh))
            .and_then(|()| {
                let how = if how == Renaming::NoReplace { how } else { Renaming::Replace };
                self.plain.rename(who, temp.parent, temp.name, to.parent, to.name, how)
            });
        match done {
            // The reference of the create keeps the node, by which the copy is known.
            Ok(()) => self.sources.copied(node, view, version.clone()),
            Err(e) => {
                if let Err(e) = self.plain.remove(temp.parent, temp.name) {
                    log::warn!("{name}: {e}");
                }
                self.plain.forget(node, 1);
                return Err(e);
            }
        }
        Ok(())
    }

    /// A rename onto the name is a save of the file's content, committed inside the rename.
    pub(super) fn rename_onto(
        &self,
        who: &Caller,
        from: At<'_>,
        view: View,
        how: Renaming,
    ) -> Result<()> {
        if view.read_only() {
            return self.rendered_onto(who, from, view, how);
        }
        let current = self.docs.current(view.doc())?;
        if how == Renaming::NoReplace && self.shows(view, &current, who) {
            return Err(Error::Exists);
        }
        let renamer = self.process(who);
        let saver = self.saver_of_rename(who, view, from, renamer.as_ref());
        let file = self.incoming(from, view, &saver)?;
        let base = self.save_incoming(view, &current, &file, &saver, renamer.as_ref())?;
        if file.source.as_ref().is_some_and(|s| s.synced) {
            self.docs.sync()?;
        }
        match view {
            View::File(to) => {
                self.file_take_in(from, to, &file.attr, current.view(view).is_none())?;
            }
            _ => self.take_in(from, view, &file.attr)?,
        }
        if view.doc().file().is_none() && current.view(view).is_none() {
            self.doc_made(view, file.attr.perm.into(), file.attr.uid, file.attr.gid)?;
        }
        // It is not beside the document any more.
        if let Some(node) = file.node.filter(|_| file.attr.nlink == 1) {
            self.sources.forget(node);
        }
        let writer = saver.process.as_ref();
        self.adopt(&file.open, &file.file, view, &file.text, base.as_ref(), writer, who.uid);
        self.reveal(view, &self.who(who, renamer.as_ref()), self.now());
        Ok(())
    }

    /// A rename onto a read-only document: fine when it shows what is there anyway.
    fn rendered_onto(&self, who: &Caller, from: At<'_>, view: View, how: Renaming) -> Result<()> {
        if how == Renaming::NoReplace {
            return Err(Error::ReadOnly);
        }
        let renamer = self.process(who);
        let saver = self.saver_of_rename(who, view, from, renamer.as_ref());
        let attr = self.plain.attr_of(from.parent, from.name)?;
        if attr.kind != FileType::Regular {
            return Err(Error::ReadOnly);
        }
        let file = self.plain.real_file(from.parent, from.name)?;
        let text = read_all(&file, self.options.size_limit).map_err(|e| Error::Os(errno(&e)))?;
        let Some(text) = text else { return Err(Error::ReadOnly) };
        let base = Some(self.docs.current(view.doc())?);
        let request = SaveRequest {
            view,
            base,
            basis: Basis::by(Rule::Handle),
            written: Written::Whole(&text),
            instead_of: None,
            actor: saver.actor,
            under_their_lock: false,
            expect_sha256: None,
        };
        match self.docs.save(request) {
            Ok(_) => self.take_in(from, view, &attr),
            Err(SaveError::Refused(_)) => Err(Error::ReadOnly),
            Err(SaveError::Store(e)) => Err(e.into()),
        }
    }

    /// The renamed file goes, and the document goes on under its number. So that no other file
    /// gets the number, the file itself stays in the store under a name that is not shown.
    fn take_in(&self, from: At<'_>, view: View, attr: &Attr) -> Result<()> {
        if attr.nlink != 1 {
            return self.plain.remove(from.parent, from.name);
        }
        let held = format!("{OWN_DIR}-held-{}", view.name());
        let us = self.us();
        let (parent, name) = (from.parent, from.name);
        let how = Renaming::Replace;
        if let Err(e) = self.plain.rename(&us, parent, name, ROOT, OsStr::new(&held), how) {
            log::warn!("{held}: {e}");
            return self.plain.remove(parent, name);
        }
        // What the file has shown; its own number may be the former one of a managed file.
        let number = self.files.numbers.apart(attr.ino);
        if number != attr.ino {
            self.files.numbers.taken(number);
        }
        if let Err(e) = self.names.adopt_ino(view, number) {
            log::warn!("{}: its number could not be recorded: {e}", view.name());
        }
        Ok(())
    }

    /// The saver of a renamed file is its writer if that is known, else the renamer.
    fn saver_of_rename(
        &self,
        who: &Caller,
        view: View,
        from: At<'_>,
        renamer: Option<&Process>,
    ) -> Saver {
        let node = self.plain.node_of(from.parent, from.name);
        if let Some(node) = node {
            self.plain_renaming(node);
        }
        let writer = node.and_then(|n| self.sources.get(n)).and_then(|s| s.writer);
        let same = |w: &Process| renamer.is_some_and(|r| r.id == w.id);
        match writer.filter(|w| !same(w)) {
            Some(writer) => {
                let mut saver = self.saver(Some(&writer), who.uid, view);
                saver.asking = self.who(who, renamer);
                if !saver.under_their_lock
                    && let Some(renamer) = renamer
                {
                    saver.under_their_lock =
                        self.saver(Some(renamer), who.uid, view).under_their_lock;
                }
                saver
            }
            None => self.saver(renamer, who.uid, view),
        }
    }

    fn incoming(&self, from: At<'_>, view: View, saver: &Saver) -> Result<Incoming> {
        let attr = self.plain.attr_of(from.parent, from.name)?;
        match attr.kind {
            FileType::Regular => {}
            FileType::Directory => return Err(Error::NotDirectory),
            _ => return Err(Error::NotPermitted),
        }
        let node = self.plain.node_of(from.parent, from.name);
        let source = node.and_then(|n| self.sources.get(n));
        let open = self.plain.handles_of(attr.ino);
        let file = Arc::new(self.plain.real_file(from.parent, from.name)?);
        let limit = self.options.size_limit;
        match read_all(&file, limit).map_err(|e| Error::Os(errno(&e)))? {
            Some(text) => Ok(Incoming { attr, file, node, text, source, open }),
            None => {
                let failed = source_too_big(limit);
                // The text stays where it is: under the source's own name.
                self.keep_refused(view, b"", &failed, saver, None);
                Err(failed.error)
            }
        }
    }

    /// Commits the content of a file. Answers with what the writer believes from now on; `None`
    /// when nothing was saved yet because the file is still being written.
    fn save_incoming(
        &self,
        view: View,
        current: &Arc<Version>,
        file: &Incoming,
        saver: &Saver,
        renamer: Option<&Process>,
    ) -> Result<Option<Arc<Version>>> {
        let believe = |version: &Arc<Version>| {
            // Once by each of the two, who may be one.
            let same =
                renamer.is_some_and(|r| saver.process.as_ref().is_some_and(|p| p.id == r.id));
            let other = renamer.filter(|_| !same);
            for process in [other, saver.process.as_ref()].into_iter().flatten() {
                let writer = self.observed.who(Some(process), saver.actor.uid);
                self.observed.saved(&writer, view, version, self.now());
            }
            Ok(Some(version.clone()))
        };
        // What brings back the current text, or a text that was renamed away, is no change. But two
        // writers that expect the same version may have made the same of it: only one can be first.
        let guarded = self.is_guarded(view, saver);
        if !guarded && current.view(view).is_some_and(|c| c.equals(&file.text)) {
            return believe(current);
        }
        let copy = file.source.as_ref().and_then(|s| s.copy.as_ref());
        if let Some((of, version)) = copy
            && !guarded
            && *of == view
            && version.view(view).is_some_and(|c| c.equals(&file.text))
        {
            return believe(version);
        }
        let answer = if super::is_blank(&file.text) && view.doc().file().is_none() {
            if !file.open.is_empty() {
                return Ok(None);
            }
            Err(Failed::refused(blank()))
        } else {
            let (managed, gone) = (view.doc().file().is_some(), current.view(view).is_none());
            // A managed file that somebody else has made meanwhile is another one.
            let unlinked = self.unlinked_by(&saver.asking, view);
            let unlinked = unlinked.filter(|a| !managed || gone != a.left.is_some());
            let instead_of = unlinked.as_ref().filter(|_| managed).map(Absence::replaced);
            let choice = match unlinked.as_ref().and_then(Absence::base) {
                Some(choice) => choice,
                // Nothing is there: whoever puts something there knows that, unless it was there a
                // moment ago.
                None if managed && gone && unlinked.is_none() => {
                    Choice::of(Some(current.clone()), Rule::Handle)
                }
                None => self.base_of_incoming(view, file, saver, renamer, unlinked),
            };
            match self.resaved(view, &file.text) {
                Some(again) => self.save_again(saver, view, again),
                None => {
                    let written = Written::Whole(&file.text);
                    self.save_instead(saver, view, choice, written, instead_of)
                }
            }
        };
        match answer {
            Ok(saved) => {
                if let Some(renamer) = renamer {
                    let writer = self.observed.who(Some(renamer), saver.actor.uid);
                    if writer.process != self.saver_as_writer(saver).process {
                        self.observed.saved(&writer, view, &saved.believed, self.now());
                    }
                }
                Ok(Some(saved.believed))
            }
            Err(failed) => {
                self.keep_refused(view, &file.text, &failed, saver, None);
                Err(failed.error)
            }
        }
    }

    /// What the writer of the file had met when it wrote it, else what the renamer has met.
    fn base_of_incoming(
        &self,
        view: View,
        file: &Incoming,
        saver: &Saver,
        renamer: Option<&Process>,
        unlinked: Option<Absence>,
    ) -> Choice {
        if let Some(source) = &file.source {
            if let Some((_, version)) = &source.copy {
                return Choice::of(Some(version.clone()), Rule::Handle);
            }
            if source.writer.is_some() {
                let until = Some(source.generation);
                let start = Start { until, kin_only: true, file: file.node, ..Start::default() };
                let choice = self.merge_base(saver, view, &file.text, &start);
                // That nothing is there is what the removal of the name has made of it.
                let met = |v: &Arc<Version>| unlinked.is_none() || v.view(view).is_some();
                if choice.version.as_ref().is_some_and(met) {
                    return choice;
                }
            }
        }
        let renaming = match renamer {
            Some(renamer) => self.saver(Some(renamer), saver.actor.uid, view),
            None => self.saver(None, saver.actor.uid, view),
        };
        let start = Start { unlinked, file: file.node, ..Start::default() };
        let choice = self.merge_base(&renaming, view, &file.text, &start);
        let began_as = file.source.as_ref().and_then(|s| s.began_as.as_ref());
        // Of a document everything is kept that such a writer does not name; of a text it would be
        // there twice.
        if choice.version.is_none()
            && view.doc().file().is_some()
            && let Some((of, version)) = began_as
            && *of == view
            && entries::Written::new(&file.text, self.syntax(view))
                .compared(version, view, None)
                .keeps_any()
        {
            return Choice::of(Some(version.clone()), Rule::Handle);
        }
        choice
    }

    /// `RENAME_EXCHANGE`: saves the other file's content and leaves the old version under the
    /// other name.
    pub(super) fn exchange(&self, who: &Caller, other: At<'_>, view: View) -> Result<()> {
        if view.read_only() {
            return Err(Error::ReadOnly);
        }
        let current = self.docs.current(view.doc())?;
        if !self.shows(view, &current, who) {
            return Err(Error::NotFound);
        }
        let renamer = self.process(who);
        let saver = self.saver_of_rename(who, view, other, renamer.as_ref());
        let file = self.incoming(other, view, &saver)?;
        self.save_incoming(view, &current, &file, &saver, renamer.as_ref())?;
        self.copy_out(who, view, &current, other, Renaming::Replace)
    }

    /// From one document's name to another's: a save of the text there, and the first name is
    /// free for the session.
    fn rename_between(&self, who: &Caller, from: View, to: View, how: Renaming) -> Result<()> {
        if from == to {
            return Ok(());
        }
        if to.read_only() {
            return Err(Error::ReadOnly);
        }
        if how == Renaming::Exchange {
            return Err(Error::Invalid);
        }
        let source = self.docs.current(from.doc())?;
        if !self.shows(from, &source, who) {
            return Err(Error::NotFound);
        }
        let target = self.docs.current(to.doc())?;
        if how == Renaming::NoReplace && self.shows(to, &target, who) {
            return Err(Error::Exists);
        }
        let renamer = self.process(who);
        let saver = self.saver(renamer.as_ref(), who.uid, to);
        let text = source.view(from).map(|c| c.to_vec()).unwrap_or_default();
        let unlinked = self.unlinked_by(&saver.asking, to);
        let start = Start { unlinked, ..Start::default() };
        let choice = self.merge_base(&saver, to, &text, &start);
        if let Err(failed) = self.save(&saver, to, choice, Written::Whole(&text)) {
            self.keep_refused(to, &text, &failed, &saver, None);
            return Err(failed.error);
        }
        self.reveal(to, &saver.asking, self.now());
        self.hide(who, from, &source);
        Ok(())
    }
}
