//! Renames of managed files, and onto them.
//!
//! Away from a name, the store's file itself moves. Onto a managed name, a rename is a save of
//! the source's content, as for documents (section 5, rule 10), also when nothing is there yet:
//! what is put there has to be valid. Only between two free names of one kind the store's file
//! moves as it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::documents::{Version, Written};
use crate::fs::observed::{Choice, Taken};
use crate::model::{DocId, FileId, Rule, Stamp, View};
use crate::process::Process;
use crate::vfs::handle::DocHandle;
use crate::vfs::layer::{Caller, Error, FileType, Node, Renaming, Result};
use crate::vfs::observing::Start;
use crate::vfs::renaming::At;
use crate::vfs::tree::{Place, ROOT, Tree};

use super::Fits;

/// Files that were renamed away and are known as such; the ones before are plain files.
const AWAY: usize = 256;

/// What there was of a file before it moved.
struct Moved {
    from: FileId,
    to: FileId,
    number: Option<u64>,
    handles: Vec<Arc<DocHandle>>,
    observed: Option<Taken>,
}

impl Tree {
    /// A rename of a managed file.
    pub(in crate::vfs) fn rename_file(
        &self,
        who: &Caller,
        file: FileId,
        (from, to): (At<'_>, At<'_>),
        place: Place,
        how: Renaming,
    ) -> Result<()> {
        let exchange = how == Renaming::Exchange;
        match place {
            _ if matches!(how, Renaming::Other(_)) => Err(Error::Invalid),
            Place::Document(_) if exchange => Err(Error::Invalid),
            Place::Document(view) => self.file_onto_document(who, file, from, view, how),
            Place::Ruled(Fits::File(target, _)) if target == file => Ok(()),
            Place::Ruled(Fits::File(target, _)) if exchange => {
                self.exchange_files(who, (file, from), (target, to))
            }
            Place::Ruled(Fits::File(..)) if how == Renaming::NoReplace => Err(Error::Exists),
            Place::Ruled(Fits::File(target, _)) => self.file_onto_file(who, (file, from), target),
            Place::Ruled(Fits::Free) if !exchange => self.file_to_free(who, (file, from), to),
            _ if exchange && !self.is_plain_file(to) => {
                self.plain.rename(who, from.parent, from.name, to.parent, to.name, how)?;
                self.files.numbers.drop(file);
                Ok(())
            }
            _ if exchange => {
                self.files.freshen(to.parent, to.name)?;
                self.exchange(who, to, View::File(file))
            }
            _ => self.file_away(who, (file, from), to, how),
        }
    }

    /// A rename of anything else onto a managed file, or to a free name that fits a rule.
    pub(in crate::vfs) fn rename_to_file(
        &self,
        who: &Caller,
        from: At<'_>,
        to: At<'_>,
        fits: Fits,
        how: Renaming,
    ) -> Result<()> {
        if !self.is_plain_file(from) || matches!(how, Renaming::Other(_)) {
            // A symlink takes the name, a directory cannot.
            self.plain.rename(who, from.parent, from.name, to.parent, to.name, how)?;
            self.follow_directory(who, from, to, how);
            return Ok(());
        }
        let path = || self.ruled(to.parent, to.name).ok_or(Error::NotFound);
        match fits {
            Fits::File(file, _) if how == Renaming::Exchange => {
                self.files.freshen(from.parent, from.name)?;
                self.exchange(who, from, View::File(file))
            }
            Fits::File(file, _) => {
                self.files.freshen(from.parent, from.name)?;
                self.rename_onto(who, from, View::File(file), how)
            }
            Fits::Free if how == Renaming::Exchange => Err(Error::NotFound),
            _ => {
                self.files.freshen(from.parent, from.name)?;
                let file = FileId::of(&path()?);
                if self.brings_back(from, file) {
                    return self.file_back(who, file, from, to, how);
                }
                self.rename_onto(who, from, View::File(file), how)
            }
        }
    }

    fn is_plain_file(&self, at: At<'_>) -> bool {
        let attr = self.plain.attr_of(at.parent, at.name);
        attr.is_ok_and(|a| a.kind == FileType::Regular)
    }

    /// Whether the plain file is the managed one that was renamed away, unchanged.
    fn brings_back(&self, from: At<'_>, file: FileId) -> bool {
        let node = self.plain.node_of(from.parent, from.name);
        let away = node.and_then(|n| self.sources.get(n)).and_then(|s| s.away);
        away == Some(View::File(file))
            && self
                .plain
                .attr_of(from.parent, from.name)
                .is_ok_and(|a| a.nlink == 1 && self.plain.handles_of(a.ino).is_empty())
    }

    /// The store's file moves back to its name.
    fn file_back(
        &self,
        who: &Caller,
        file: FileId,
        from: At<'_>,
        to: At<'_>,
        how: Renaming,
    ) -> Result<()> {
        let view = View::File(file);
        {
            let _turn = self.files.turn(file);
            let alone = Renaming::NoReplace;
            let renamed = self.by_hand(who, &[file], || {
                self.plain.rename(who, from.parent, from.name, to.parent, to.name, alone)
            });
            match renamed {
                // Somebody was faster.
                Err(Error::Exists | Error::Os(rustix::io::Errno::EXIST))
                    if how != Renaming::NoReplace => {}
                Err(e) => return Err(e),
                Ok(()) => {
                    let version = self.docs.current(view.doc())?;
                    let writer = self.who(who, self.process(who).as_ref());
                    self.observed.saved(&writer, view, &version, self.now());
                    return Ok(());
                }
            }
        }
        self.rename_onto(who, from, view, how)
    }

    /// What the renaming process itself has written is part of the file that it renames.
    fn settle_own(&self, file: FileId, process: Option<&Process>) -> Result<()> {
        let Some(process) = process else { return Ok(()) };
        for h in self.handles_on(View::File(file)) {
            if h.is_dirty() && h.opened_by(process.id) {
                let saver = self.saver_of(&h, Some(process));
                let mut state = h.state.lock();
                self.commit(&h, &mut state, &saver, true)?;
            }
        }
        Ok(())
    }

    /// To a name that no rule fits: the store's file becomes a plain one.
    fn file_away(
        &self,
        who: &Caller,
        (file, from): (FileId, At<'_>),
        to: At<'_>,
        how: Renaming,
    ) -> Result<()> {
        let view = View::File(file);
        let process = self.process(who);
        self.settle_own(file, process.as_ref())?;
        let before = self.docs.current(view.doc())?;
        {
            let _turn = self.files.turn(file);
            self.by_hand(who, &[file], || {
                self.plain.rename(who, from.parent, from.name, to.parent, to.name, how)
            })?;
        }
        self.files.numbers.drop(file);
        let gone = self.docs.current(view.doc())?;
        self.observed.absent(&self.who(who, process.as_ref()), view, &gone, self.now());
        self.hide(who, view, &before);
        if let Ok(entry) = self.plain.lookup(&self.us(), to.parent, to.name) {
            // The reference keeps the node, by which the file is known.
            self.sources.renamed_away(entry.node, view);
            for old in self.files.keep_away(entry.node, AWAY) {
                self.plain.forget(old, 1);
            }
        }
        if let (Some(process), Some(path)) = (process, self.path_at(to))
            && !self.handles_on(view).is_empty()
        {
            let target = FileId::of(&path);
            let mut own = self.handles_on(view);
            own.retain(|h| h.mode.write && !h.mode.append && h.opened_by(process.id));
            for h in &own {
                *h.name.lock() = View::File(target);
            }
            if !own.is_empty() {
                self.files.follow(&[(file, target)]);
            }
        }
        Ok(())
    }

    /// To a free name that fits a rule.
    fn file_to_free(&self, who: &Caller, (file, from): (FileId, At<'_>), to: At<'_>) -> Result<()> {
        let path = self.ruled(to.parent, to.name).ok_or(Error::NotFound)?;
        let target = FileId::of(&path);
        let rules = self.files.rules.as_ref();
        let kind = |f: FileId| rules.and_then(|r| r.kind(f.path()));
        if kind(file) != kind(target) {
            return self.file_onto_file(who, (file, from), target);
        }
        let process = self.process(who);
        self.settle_own(file, process.as_ref())?;
        {
            let _turns = self.files.both_turns(file, target);
            let alone = Renaming::NoReplace;
            self.by_hand(who, &[file, target], || {
                self.plain.rename(who, from.parent, from.name, to.parent, to.name, alone)
            })?;
        }
        self.files_moved(&[(file, target)], false);
        Ok(())
    }

    /// Both the names are managed: a save of the text there, and then the file is removed here.
    fn file_onto_file(
        &self,
        who: &Caller,
        (file, from): (FileId, At<'_>),
        target: FileId,
    ) -> Result<()> {
        let (view, target_view) = (View::File(file), View::File(target));
        let process = self.process(who);
        self.settle_own(file, process.as_ref())?;
        let attr = self.plain.attr_of(from.parent, from.name)?;
        let source = self.docs.current(view.doc())?;
        let there = self.docs.current(target_view.doc())?;
        let text = source.view(view).ok_or(Error::NotFound)?.to_vec();
        let saver = self.saver(process.as_ref(), who.uid, target_view);
        let created = there.view(target_view).is_none();
        let choice = match created {
            true => Choice::of(Some(there), Rule::Handle),
            false => self.merge_base(&saver, target_view, &text, &Start::default()),
        };
        let saved = match self.save(&saver, target_view, choice, Written::Whole(&text)) {
            Ok(saved) => saved,
            Err(failed) => {
                self.keep_refused(target_view, &text, &failed, &saver, None);
                return Err(failed.error);
            }
        };
        if created {
            self.file_take_after(target, (from.parent, from.name), &attr);
        }
        let number = self.files.numbers.shown(file, attr.ino);
        for h in self.handles_on(view).into_iter().filter(|h| !h.mode.append) {
            let mut state = h.state.lock();
            *h.name.lock() = target_view;
            state.base = Some(saved.believed.clone());
        }
        self.files.follow(&[(file, target)]);
        self.file_remove(who, file, process.as_ref(), Some(source))?;
        self.files.numbers.keep(target, number);
        Ok(())
    }

    fn file_onto_document(
        &self,
        who: &Caller,
        file: FileId,
        from: At<'_>,
        view: View,
        how: Renaming,
    ) -> Result<()> {
        self.settle_own(file, self.process(who).as_ref())?;
        self.rename_onto(who, from, view, how)?;
        if let Some(number) = self.files.numbers.of(file) {
            self.files.numbers.taken(number);
            if let Err(e) = self.names.adopt_ino(view, number) {
                log::warn!("{}: its number could not be recorded: {e}", view.name());
            }
        }
        self.files.numbers.drop(file);
        self.docs.current(View::File(file).doc())?;
        Ok(())
    }

    /// Two managed files of one kind change places; a text of another kind would have to be saved
    /// twice in one step.
    fn exchange_files(
        &self,
        who: &Caller,
        (a, from): (FileId, At<'_>),
        (b, to): (FileId, At<'_>),
    ) -> Result<()> {
        let rules = self.files.rules.as_ref();
        let kind = |f: FileId| rules.and_then(|r| r.kind(f.path()));
        if kind(a) != kind(b) {
            return Err(Error::Invalid);
        }
        {
            let _turns = self.files.both_turns(a, b);
            let how = Renaming::Exchange;
            self.by_hand(who, &[a, b], || {
                self.plain.rename(who, from.parent, from.name, to.parent, to.name, how)
            })?;
        }
        self.files_moved(&[(a, b), (b, a)], false);
        Ok(())
    }

    /// The store's files have moved, all at once: numbers, open handles and what writers have seen
    /// go along. Append handles stay with the path, except when a directory above was renamed:
    /// nobody can make that path again by its name alone.
    fn files_moved(&self, moves: &[(FileId, FileId)], appends_too: bool) {
        let before: Vec<Moved> = moves
            .iter()
            .map(|(from, to)| {
                let mut handles = self.handles_on(View::File(*from));
                handles.retain(|h| appends_too || !h.mode.append);
                let number = self.files.numbers.of(*from);
                let observed = self.observed.taken(*from);
                Moved { from: *from, to: *to, number, handles, observed }
            })
            .collect();
        self.files.follow(moves);
        for (from, to) in moves {
            self.files.numbers.drop(*from);
            self.files.numbers.drop(*to);
        }
        for moved in before {
            if let Some(number) = moved.number {
                self.files.numbers.keep(moved.to, number);
            }
            if let Err(e) = self.observations_moved(&moved) {
                log::warn!("{}: {e}", moved.to.path());
            }
            if let Err(e) = self.docs.current(DocId::File(moved.from)) {
                log::warn!("{}: {e}", moved.from.path());
            }
        }
    }

    fn observations_moved(&self, moved: &Moved) -> Result<()> {
        let (old, new) = (View::File(moved.from), View::File(moved.to));
        for h in &moved.handles {
            *h.name.lock() = new;
        }
        let now = self.docs.current(new.doc())?;
        let as_new = |version: &Arc<Version>| {
            let text = version.view(old)?.to_vec();
            if now.view(new).is_some_and(|c| c.equals(&text)) {
                return Some(now.clone());
            }
            self.docs.believe(new, &text, now.rev).ok()
        };
        for h in &moved.handles {
            let mut state = h.state.lock();
            state.base = state.base.as_ref().and_then(as_new);
            if let Some(whole) = &mut state.whole {
                whole.start = whole.start.as_ref().and_then(as_new);
            }
            state.reading = None;
            h.told.lock().take();
        }
        if let Some(observed) = &moved.observed {
            self.observed.put_back(observed, moved.to, as_new);
        }
        Ok(())
    }

    /// After a rename of something that is neither document nor managed file: if it was a directory,
    /// the managed files below have new paths.
    pub(in crate::vfs) fn follow_directory(
        &self,
        who: &Caller,
        from: At<'_>,
        to: At<'_>,
        how: Renaming,
    ) {
        let is_directory = |at: At<'_>| {
            self.plain.attr_of(at.parent, at.name).is_ok_and(|a| a.kind == FileType::Directory)
        };
        let exchanged = how == Renaming::Exchange;
        if !(is_directory(to) || exchanged && is_directory(from)) {
            return;
        }
        self.files.moved_at.store(self.now().0, Ordering::Release);
        let (Some(old), Some(new)) = (self.path_at(from), self.path_at(to)) else { return };
        let under = |path: &str, top: &str| {
            path.strip_prefix(top).is_some_and(|rest| rest.starts_with('/'))
        };
        let fits = |path: &str| under(path, &old) || (exchanged && under(path, &new));
        let mut files = self.files.numbers.files(fits);
        files.extend(self.observed.files(fits));
        let open: Vec<View> = self.handles.read().values().map(|h| h.view()).collect();
        files.extend(open.iter().filter_map(|v| v.doc().file()).filter(|f| fits(f.path())));
        files.sort_unstable();
        files.dedup();
        let renamed = |file: &FileId, top: &str, other: &str| {
            let rest = file.path().strip_prefix(top).filter(|rest| rest.starts_with('/'))?;
            Some((*file, FileId::of(&format!("{other}{rest}"))))
        };
        let there = files.iter().filter_map(|f| renamed(f, &old, &new));
        let back = files.iter().filter(|_| exchanged).filter_map(|f| renamed(f, &new, &old));
        let moves: Vec<_> = there.chain(back).collect();
        if !moves.is_empty() {
            let files: Vec<FileId> = moves.iter().flat_map(|(from, to)| [*from, *to]).collect();
            self.by_hand(who, &files, || self.files_moved(&moves, true));
        }
    }

    /// Fails when the plain file is a managed one by now, because a directory above it was renamed:
    /// `ESTALE` makes the kernel look its name up again.
    pub(in crate::vfs) fn still_plain(&self, who: &Caller, node: Node) -> Result<()> {
        let moved = self.files.moved_at.load(Ordering::Acquire);
        if moved == i64::MIN || self.now().due(Stamp(moved), super::BELIEVED) {
            return Ok(());
        }
        let path = self.directory_path(node);
        let Some((parent, name)) = path.as_deref().and_then(|p| p.rsplit_once('/')) else {
            return Ok(());
        };
        let kept = super::is_kept_text(name);
        let ruled = self.files.rules.as_ref().and_then(|r| r.kind(&format!("{parent}/{name}")));
        if kept || ruled.is_none() || !self.manageable(&self.plain.getattr(who, node, None)?.0) {
            return Ok(());
        }
        Err(Error::Os(rustix::io::Errno::STALE))
    }

    /// The path of a name below the root, if it is UTF-8.
    fn path_at(&self, at: At<'_>) -> Option<String> {
        let name = at.name.to_str()?;
        if at.parent == ROOT {
            return Some(name.to_owned());
        }
        Some(format!("{}/{name}", self.directory_path(at.parent)?))
    }

    /// The renamed file goes; the managed file goes on under its number and, when it is new, with
    /// its mode and owner.
    pub(in crate::vfs) fn file_take_in(
        &self,
        from: At<'_>,
        file: FileId,
        attr: &crate::vfs::Attr,
        created: bool,
    ) -> Result<()> {
        if created {
            self.file_take_after(file, (from.parent, from.name), attr);
        }
        self.plain.remove(from.parent, from.name)?;
        if attr.nlink == 1 {
            self.files.numbers.keep(file, self.files.numbers.apart(attr.ino));
        }
        Ok(())
    }
}
