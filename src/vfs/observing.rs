//! What processes have met of the documents, as the tree sees it: who asks, what a save starts from,
//! and what of it outlives the daemon (SEMANTICS, section 4).

use std::sync::Arc;

use super::commit::Saver;
use super::hidden::Absence;
use super::layer::{Caller, Node, Result};
use super::ports::{Documents, Memory};
use super::tree::Tree;
use crate::documents::entries::{Syntax, Written};
use crate::documents::{Content, Version};
use crate::fs::observed::{Choice, Question, Unlink, Versions, Who};
use crate::model::{DocId, Rev, Rule, View};
use crate::process::Process;

/// Observations go to the store this long after they were made, in nanoseconds.
const KEEP_EVERY: i64 = 1_000_000_000;
/// Files that a writer wrote last and that may be its backup.
const BACKUPS_TRIED: usize = 8;

/// Versions that are on record but not in memory.
pub(super) struct OnRecord {
    pub docs: Arc<dyn Documents>,
    pub memory: Arc<dyn Memory>,
}

impl Versions for OnRecord {
    fn stored(&self, doc: DocId, at: u64) -> Option<Arc<Version>> {
        let row = match self.memory.observation(doc, at) {
            Ok(row) => row?,
            Err(e) => {
                log::warn!("{}: what a writer has met cannot be read: {e}", doc.as_str());
                return None;
            }
        };
        let version = match &row.text {
            Some(text) => {
                self.docs.believe(row.view, text, row.rev).map(Some).map_err(|e| e.to_string())
            }
            None => self.docs.at(doc, row.rev).map_err(|e| e.to_string()),
        };
        version.unwrap_or_else(|e| {
            log::debug!("{}: an observation of {} is gone: {e}", doc.as_str(), row.rev);
            None
        })
    }

    fn first(&self, doc: DocId) -> Option<Arc<Version>> {
        let (rev, _) = *self.docs.numbers(doc, Rev(0), 1).ok()?.first()?;
        self.docs.at(doc, rev).ok()?
    }
}

/// What a save is compared with before its text is known to anybody else.
#[derive(Default)]
pub(super) struct Start {
    /// The version that an edit in place patches.
    pub patched: Option<Arc<Version>>,
    /// Only what had been observed by then counts.
    pub until: Option<u64>,
    /// The name was unlinked by the writer or its kin, and is made anew by this save.
    pub unlinked: Option<Absence>,
    /// Only rules that ask the writer and its kin.
    pub kin_only: bool,
    /// The file that is saved by being renamed: no backup, whatever is in it.
    pub file: Option<Node>,
}

impl Tree {
    /// Takes up the observations of an earlier daemon.
    pub(super) fn recall_observations(&self) -> Result<()> {
        for stored in self.memory.observations()? {
            self.observed.recall(stored);
        }
        Ok(())
    }

    /// Puts new observations on record, at most once a second unless `at_once`.
    pub(super) fn keep_observations(&self, at_once: bool) {
        let now = self.now();
        {
            let mut last = self.last_keep.lock();
            if !at_once && !now.due(*last, KEEP_EVERY) {
                return;
            }
            *last = now;
        }
        let changes = self.observed.take_changes();
        if changes.put.is_empty() && changes.gone.is_empty() {
            return;
        }
        if let Err(e) = self.memory.keep_observations(&changes) {
            log::warn!("what writers have met could not be recorded: {e}");
            self.observed.not_kept(changes);
        }
    }

    /// The caller as a writer.
    pub(super) fn who(&self, who: &Caller, process: Option<&Process>) -> Who {
        self.observed.who(process, who.uid)
    }

    /// How texts under this name are divided.
    pub(super) fn syntax(&self, view: View) -> Syntax {
        let kind = view.doc().file().and_then(|file| self.files.kind(file));
        Syntax::of(view, kind)
    }

    /// The merge base of a text that `saver` has written.
    pub(super) fn merge_base(
        &self,
        saver: &Saver,
        view: View,
        text: &[u8],
        start: &Start,
    ) -> Choice {
        let written = Written::new(text, self.syntax(view));
        let who = self.saver_as_writer(saver);
        let blank = super::is_blank(text);
        if matches!(written.syntax(), Syntax::Lines { queue: true }) && !start.kin_only {
            // What is taken out of a queue is what was read: under a lock by the writer itself, or,
            // where nothing is left that could tell, by whoever of its kin has read last.
            let locked = || self.locks(saver.process.as_ref(), view);
            let met = match blank {
                true => self.observed.last_met(&who, view.doc()),
                false if locked() => self.observed.own_newest(&who, view.doc()),
                false => None,
            };
            if let Some(met) = met {
                return self.found(&who, view, met, Rule::Own);
            }
        }
        let backed_up = |version: &Version| self.has_backup(saver, view, version, start.file);
        let mut choice = self.observed.choose(&Question {
            who: &who,
            view,
            written: &written,
            until: start.until.unwrap_or(u64::MAX),
            unlinked: start.unlinked.as_ref().map(|a| Unlink {
                by_itself: a.remover.process.is_some() && a.remover.process == who.process,
                version: a.version.clone(),
            }),
            backed_up: &backed_up,
            kin_only: start.kin_only,
        });
        if choice.version.is_none() && blank && view.doc().file().is_some() && !start.kin_only {
            // Who empties a managed file after one of its kin has read it means that.
            if let Some(met) = self.observed.last_met(&who, view.doc()) {
                choice = self.found(&who, view, met, Rule::Kin);
            }
        }
        if let Some(patched) = &start.patched {
            choice = self.patched(&who, view, &written, choice, patched);
        }
        choice
    }

    /// The writer as it counts for observations.
    pub(super) fn saver_as_writer(&self, saver: &Saver) -> Who {
        self.observed.who(saver.process.as_ref(), saver.actor.uid)
    }

    /// The nearer of two versions; the newer one of equally near ones.
    pub(super) fn nearer(
        &self,
        a: &Arc<Version>,
        b: &Arc<Version>,
        view: View,
        text: &[u8],
    ) -> Arc<Version> {
        if Arc::ptr_eq(a, b) {
            return a.clone();
        }
        let written = Written::new(text, self.syntax(view));
        let distance = |v: &Version| written.compared(v, view, None).distance;
        let (of_a, of_b) = (distance(a), distance(b));
        let first = of_a < of_b || of_a == of_b && a.rev > b.rev;
        if first { a.clone() } else { b.clone() }
    }

    fn found(&self, who: &Who, view: View, version: Arc<Version>, rule: Rule) -> Choice {
        let observation = self.observed.nearest_of(who, &version, view);
        Choice { observation, ..Choice::of(Some(version), rule) }
    }

    /// An edit in place starts from what it patches, or from what its writer has met, whichever is
    /// nearer; of equally near ones the newer, as that is what was there when it began.
    fn patched(
        &self,
        who: &Who,
        view: View,
        written: &Written<'_>,
        choice: Choice,
        patched: &Arc<Version>,
    ) -> Choice {
        if let Some(met) = &choice.version
            && !Arc::ptr_eq(met, patched)
            && Arc::ptr_eq(&self.nearer(met, patched, view, written.bytes()), met)
        {
            return choice;
        }
        self.found(who, view, patched.clone(), Rule::Handle)
    }

    /// Whether what `other` has done was done by the writer: by itself, by an ancestor or a descendant,
    /// or by kin that have ended, as the calls of an agent's tools do. Kin that live act for themselves.
    pub(super) fn is_same_writer(&self, who: &Who, other: &Who, view: View) -> bool {
        let (Some(me), Some(it)) = (who.process, other.process) else { return false };
        let in_line = other.descends_from(me) || who.descends_from(it);
        in_line || self.observed.are_kin(who, other, view.doc()) && !self.procs.alive(it)
    }

    /// The name was unlinked a moment ago by the writer or its kin.
    pub(super) fn unlinked_by(&self, who: &Who, view: View) -> Option<Absence> {
        self.absences.of(view, self.now(), |remover| self.is_same_writer(who, remover, view))
    }

    /// Whether the name is free for the writer: it or its kin have removed it. Who has met the document
    /// itself, and not removed it, goes on reading it.
    pub(super) fn hides(&self, view: View, who: &Who) -> bool {
        let Some(me) = who.process else { return false };
        let hidden = self.unlinked_by(who, view).filter(|a| a.left.is_none());
        hidden
            .is_some_and(|a| a.remover.descends_from(me) || !self.observed.has_met(who, view.doc()))
    }

    /// Reading a document to make a backup of it says nothing about what an editor will save: whether
    /// the process has put the version into another file as it was. `saved`: a file that is none.
    fn has_backup(
        &self,
        saver: &Saver,
        view: View,
        version: &Version,
        saved: Option<Node>,
    ) -> bool {
        let Some(process) = &saver.process else { return false };
        let Some(content) = version.view(view) else { return false };
        let written = self.sources.written_by(process.id, BACKUPS_TRIED);
        written.into_iter().any(|node| Some(node) != saved && self.holds(node, &content))
    }

    /// Whether a plain file has exactly this content.
    fn holds(&self, node: Node, content: &Content) -> bool {
        let us = self.us();
        let same_size =
            self.plain.getattr(&us, node, None).is_ok_and(|a| a.0.size == content.len());
        if !same_size {
            return false;
        }
        let Ok(opened) = self.plain.open(&us, node, libc::O_RDONLY) else { return false };
        let mut at = 0;
        let mut same = true;
        while same && at < content.len() {
            let want = content.read(at, 1 << 16);
            same = self
                .plain
                .read(&us, node, opened.fh, at, want.len() as u32)
                .is_ok_and(|got| got == want);
            at += want.len() as u64;
        }
        if let Err(e) = self.plain.release(node, opened.fh) {
            log::debug!("a backup could not be closed: {e}");
        }
        same
    }

    /// A command of ours has changed a document for its caller, on the version `before`: that is a
    /// read and a save by the command, whose ancestors are its caller's.
    pub fn observe_command(&self, pid: u32, uid: u32, view: View, before: &Arc<Version>) {
        let process = self.procs.of_thread(pid);
        let writer = self.observed.who(process.as_ref(), uid);
        let now = self.now();
        self.observed.read(&writer, view, before, now);
        let observation = self.observed.nearest_of(&writer, before, view);
        if let Some(at) = observation {
            self.observed.use_up(view.doc(), at, &[&writer]);
        }
        self.observed.saved(&writer, view, &self.docs.cached(view.doc()), now);
    }

    /// From now on the process and its descendants are one writer with all others of this name.
    /// Whether there is such a process.
    pub fn name_writer(&self, pid: u32, uid: u32, name: &str) -> bool {
        let Some(process) = self.procs.of_thread(pid) else { return false };
        self.observed.name_writer(process.id, name, uid);
        true
    }

    /// The caller has looked for the file and found none: what it makes then starts from nothing,
    /// whatever somebody else has put there meanwhile.
    pub(super) fn observe_absence(&self, who: &Caller, view: View) {
        if !matches!(self.syntax(view), Syntax::Keys(_)) {
            return;
        }
        let process = self.process(who);
        if let Ok(version) = self.docs.current(view.doc())
            && version.view(view).is_none()
        {
            let writer = self.who(who, process.as_ref());
            self.observed.absent(&writer, view, &version, self.now());
        }
    }
}
