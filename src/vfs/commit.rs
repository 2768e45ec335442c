//! The moment of a save: what is compared with what, and what follows from the answer
//! (semantics sections 3 to 5).

use std::sync::Arc;

use super::budget::no_room;
use super::guards::Guard;
use super::handle::{DocHandle, State, blank, too_big};
use super::layer::{Error, Fh, Node, Result};
use super::marks;
use super::processes::Process;
use super::seen::{self, Verdict};
use super::tree::Tree;
use crate::documents::live::{SaveError, SaveRequest, Saved};
use crate::documents::{Content, Version, Written};
use crate::model::{Actor, DocId, Reason, Refusal, Stamp, Via, View};

/// A commit, for the log.
fn told(view: View, actor: &Actor, saved: &Saved, stale: bool) -> String {
    let (name, rev, by) = (view.name(), saved.version.rev, actor.named());
    let met = match saved.overlaps.len() {
        0 => String::new(),
        n => format!(", merged over {n} overlapping changes"),
    };
    let old = if stale { ", of an older version" } else { "" };
    format!("{name}: revision {rev} by {by}{met}{old}")
}

/// Files that a stale save's writer wrote last and that may be its backup.
const BACKUPS_TRIED: usize = 8;

/// Who saves. Asked from `/proc` before any lock is taken.
pub(super) struct Saver {
    pub process: Option<Process>,
    pub actor: Actor,
    /// The handle whose text it is.
    pub handle: Option<Fh>,
    /// The session of whoever makes the committing call.
    pub session: u32,
    /// It or an ancestor holds `missions.lock` (R9).
    pub under_their_lock: bool,
}

/// A save that did not commit: the refusal to keep and the error to answer.
pub(super) struct Failed {
    pub refusal: Box<Refusal>,
    pub error: Error,
}

impl From<SaveError> for Failed {
    fn from(e: SaveError) -> Failed {
        match e {
            SaveError::Refused(refusal) => Failed::refused(refusal),
            SaveError::Store(e) => Failed {
                refusal: Box::new(
                    Refusal::new(Reason::Store, e.to_string())
                        .hint("the text itself may be fine: save it again"),
                ),
                error: Error::Store(e),
            },
        }
    }
}

impl Failed {
    pub fn refused(refusal: Refusal) -> Failed {
        Failed { error: Error::Refused(refusal.clone()), refusal: Box::new(refusal) }
    }
}

impl Tree {
    /// The saver of a document. Holds no lock; asks about `missions.lock` only where it counts.
    pub(super) fn saver(&self, process: Option<&Process>, uid: u32, view: View) -> Saver {
        let actor = Actor {
            pid: process.map_or(0, |p| p.id.pid),
            uid,
            session: process.map_or(0, |p| p.session),
            program: process.map_or_else(String::new, |p| p.program.clone()),
            via: Via::Mount,
        };
        let under_their_lock = view.doc() == DocId::Missions
            && process.is_some_and(|p| self.family_holds_missions_lock(p.id));
        let session = actor.session;
        Saver { process: process.cloned(), actor, handle: None, session, under_their_lock }
    }

    /// The saver of a handle: its opener as it is now, if the asking process or the last writer
    /// is the opener, else as it was at the open; without an opener whoever can be told.
    pub(super) fn saver_of(&self, h: &DocHandle, asking: Option<&Process>) -> Saver {
        let writer = h.state.lock().writer.clone().and_then(|(_, p)| p);
        let process = match &h.opener {
            Some(opener) => asking
                .filter(|p| p.id == opener.id)
                .or(writer.as_ref().filter(|p| p.id == opener.id))
                .or(Some(opener)),
            None => asking.or(writer.as_ref()),
        };
        Saver { handle: Some(h.fh), ..self.saver(process, h.uid, h.view()) }
    }

    /// Saves a text. On success the saver has seen what it wrote, and its `.refused` files go.
    pub(super) fn save(
        &self,
        saver: &Saver,
        view: View,
        verdict: Verdict,
        written: Written<'_>,
    ) -> std::result::Result<Saved, Failed> {
        let verdict = match (verdict, &saver.process, written) {
            (verdict, Some(process), Written::Whole(_)) => {
                self.without_backups(verdict, process, view)
            }
            (verdict, ..) => verdict,
        };
        let guard = self.guards.take(view, saver, self.now());
        let verdict = match (&guard, written) {
            (Some(guard), Written::Whole(_)) => self.seen_by_hash(verdict, view, guard),
            _ => verdict,
        };
        let stale = verdict.stale.is_some();
        let turn = view.doc().file().map(|file| self.files.turn(file));
        let number = view.doc().file().and_then(|file| self.number_before(file));
        let answer = self.docs.save(SaveRequest {
            view,
            seen: verdict.seen,
            written,
            actor: saver.actor.clone(),
            stale,
            under_their_lock: saver.under_their_lock,
            expect_sha256: guard.as_ref().map(Guard::hash),
        });
        drop(turn);
        let saved = match (answer, guard) {
            (Err(e), Some(guard)) => {
                match e {
                    SaveError::Refused(_) => self.guards.refused(guard, saver),
                    SaveError::Store(_) => self.guards.give_back(guard),
                }
                return Err(e.into());
            }
            (answer, _) => answer?,
        };
        if let Some(process) = &saver.process {
            self.seen.saved(process, view, &saved.believed);
        }
        self.report.saved(saved.changed);
        if saved.changed {
            if let Some((file, ino)) = number
                && saved.version.view(view).is_some()
            {
                self.files.numbers.keep(file, ino);
            }
            if stale {
                let rev = saved.version.rev.0;
                self.report.stale(view, &saver.actor, rev, self.now());
            }
            self.rescue.forgive(self.root(), view, &saver.actor);
            log::info!("{}", told(view, &saver.actor, &saved, stale));
        }
        Ok(saved)
    }

    /// Who knows the hash of the current version knows that version: a writer that has read
    /// nothing through the mount replaces what it expects.
    fn seen_by_hash(&self, verdict: Verdict, view: View, guard: &Guard) -> Verdict {
        if verdict.seen.is_some() {
            return verdict;
        }
        let current = self.docs.cached(view.doc());
        let known = self.guards.hash_of(view, &current) == guard.hash();
        if known { Verdict::seen(Some(current)) } else { verdict }
    }

    /// Reading a document to make a backup of it is not a look: editors copy the file just before
    /// they save a text from long ago. So when the text is nearer to an older read, and the writer
    /// has put the newest one into another file as it was, the older one is what it has seen. What
    /// it has saved itself it knows, wherever else it may have put the same text.
    fn without_backups(&self, verdict: Verdict, process: &Process, view: View) -> Verdict {
        let Verdict { seen: Some(seen), stale: Some(older) } = &verdict else { return verdict };
        let looks = self.seen.own(process.id, view.doc()).unwrap_or_default();
        if looks.saved().is_some_and(|saved| saved.version.rev >= seen.rev) {
            return verdict;
        }
        let backup = self
            .sources
            .written_by(process.id, BACKUPS_TRIED)
            .into_iter()
            .any(|node| seen.view(view).is_some_and(|c| self.holds(node, &c)));
        if backup { Verdict::seen(Some(older.clone())) } else { verdict }
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

    /// Keeps a refused text beside the document and on record. Answers with the file's name.
    pub(super) fn keep_refused(
        &self,
        view: View,
        text: &[u8],
        refusal: &Refusal,
        actor: &Actor,
        again: Option<&str>,
    ) -> Option<String> {
        let now = self.now();
        let root = self.root();
        let kept = match self.rescue.refuse(root, view, text, refusal, actor, now, again) {
            Ok(name) => Some(name),
            Err(e) => {
                log::error!("{}: a refused save could not be kept: {e}", view.name());
                None
            }
        };
        let rev = self.docs.cached(view.doc()).rev;
        log::warn!(
            "{}: save by {} refused, revision {rev} stays: {refusal}",
            view.name(),
            actor.named()
        );
        self.report.refused(view, actor, refusal, kept.as_deref(), now);
        let recorded = self.memory.record_refusal(now, view, actor, refusal, kept.as_deref());
        if let Err(e) = recorded {
            log::warn!("{}: a refusal could not be recorded: {e}", view.name());
        }
        kept
    }

    /// Commits what the handle holds. `all`: of an append also an unfinished last line.
    pub(super) fn commit(
        &self,
        h: &DocHandle,
        state: &mut State,
        saver: &Saver,
        all: bool,
    ) -> Result<()> {
        if !h.is_dirty() {
            return Ok(());
        }
        if state.orphan {
            return Ok(());
        }
        if state.refused.is_some() {
            self.keep_rest(h, state, saver);
        }
        if let Some(refusal) = &state.refused {
            return Err(Error::Refused(refusal.clone()));
        }
        if state.whole.is_some() || state.overflow {
            self.commit_whole(h, state, saver)?;
        } else {
            self.commit_fragment(h, state, saver, all)?;
        }
        if h.mode.sync {
            self.docs.sync()?;
        }
        Ok(())
    }

    fn commit_whole(&self, h: &DocHandle, state: &mut State, saver: &Saver) -> Result<()> {
        let answer = match &state.whole {
            // Also when there was no room for any of it.
            _ if state.overflow => {
                let why = if state.cramped { no_room() } else { too_big(self.options.size_limit) };
                Err(Failed::refused(why))
            }
            None => return Ok(()),
            Some(whole) if marks::is_blank(&whole.bytes) && h.start.is_none() => {
                Err(Failed::refused(blank()))
            }
            Some(whole) => {
                let start = whole.began_as();
                let verdict = match &state.base {
                    Some(base) => Verdict::seen(Some(match start {
                        Some(start) => seen::nearer(base, start, h.view(), &whole.bytes),
                        None => base.clone(),
                    })),
                    None => self.seen_by_writer(saver, start, h.view(), &whole.bytes),
                };
                self.save(saver, h.view(), verdict, Written::Whole(&whole.bytes))
            }
        };
        match answer {
            Ok(saved) => {
                self.committed(h, state, &saved.believed);
                h.clean(state);
                Ok(())
            }
            Err(failed) => {
                let text = std::mem::take(&mut state.whole);
                let bytes = text.as_ref().map_or(&[][..], |w| &w.bytes);
                let error = self.refused(h, state, saver, bytes, failed);
                state.whole = text;
                Err(error)
            }
        }
    }

    /// What the writer of a text has seen. A text without any line keeps none of what relatives
    /// have seen; who empties a managed file after one of them has read it means that all the same.
    fn seen_by_writer(
        &self,
        saver: &Saver,
        start: Option<&Arc<Version>>,
        view: View,
        text: &[u8],
    ) -> Verdict {
        let process = saver.process.as_ref();
        let verdict = self.seen.resolve(process, None, start, view, text);
        if verdict.seen.is_none() && view.doc().file().is_some() && marks::is_blank(text) {
            return Verdict::seen(self.seen.removed_by(process, view.doc()));
        }
        verdict
    }

    fn commit_fragment(
        &self,
        h: &DocHandle,
        state: &mut State,
        saver: &Saver,
        all: bool,
    ) -> Result<()> {
        let end = match all {
            true => state.fragment.len(),
            false => state.fragment.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1),
        };
        if end == 0 {
            if state.fragment.is_empty() {
                h.clean(state);
            }
            return Ok(());
        }
        let rest = state.fragment.split_off(end);
        let fragment = std::mem::replace(&mut state.fragment, rest);
        let own = saver.process.as_ref().and_then(|p| self.seen.own_newest(p.id, h.view().doc()));
        let seen = newest(state.base.clone(), own);
        let verdict = Verdict::seen(seen);
        match self.save(saver, h.view(), verdict, Written::Fragment(&fragment)) {
            Ok(saved) => {
                self.committed(h, state, &saved.believed);
                if state.fragment.is_empty() {
                    h.clean(state);
                }
                Ok(())
            }
            Err(failed) => {
                let error = self.refused(h, state, saver, &fragment, failed);
                let rest = std::mem::replace(&mut state.fragment, fragment);
                state.fragment.extend_from_slice(&rest);
                Err(error)
            }
        }
    }

    /// After a commit: the handle's writer has seen what it wrote, and its reads move on.
    fn committed(&self, h: &DocHandle, state: &mut State, believed: &Arc<Version>) {
        state.base = Some(believed.clone());
        state.at_end = Some(Stamp(i64::MIN));
        if let Some(whole) = &mut state.whole {
            whole.start = None;
        }
        while let Some(name) = state.take_kept() {
            self.rescue.forgive_file(self.root(), &name);
        }
        if let Some(opener) = &h.opener
            && self.seen.own_newest(opener.id, h.view().doc()).is_none_or(|v| v.rev < believed.rev)
        {
            self.seen.saved(opener, h.view(), believed);
        }
    }

    /// After a refusal: the text is kept, and the handle stays refused until new bytes come; a
    /// failure of the store is tried again at the next call.
    pub(super) fn refused(
        &self,
        h: &DocHandle,
        state: &mut State,
        saver: &Saver,
        text: &[u8],
        failed: Failed,
    ) -> Error {
        let again = state.take_kept();
        // What is tried again and again fails for one reason, which has been told. A text that was
        // emptied after its refusal says nothing more.
        let told = again.as_ref().is_some_and(|name| match failed.refusal.reason {
            Reason::Store => self.rescue.has(self.root(), name, text),
            _ => text.is_empty(),
        });
        state.kept = match told {
            true => again,
            false => {
                self.keep_refused(h.view(), text, &failed.refusal, &saver.actor, again.as_deref())
            }
        };
        if failed.refusal.reason != Reason::Store {
            state.refused = Some(*failed.refusal);
        }
        failed.error
    }

    /// Rule 7: the bytes are kept as `NAME.unsaved-PID` and never committed.
    pub(super) fn set_aside(&self, h: &DocHandle, state: &mut State, actor: &Actor) {
        let text = match &state.whole {
            Some(whole) => &whole.bytes,
            None => &state.fragment,
        };
        self.keep_unsaved(h.view(), text, actor);
        state.set_aside = true;
        state.fragment.clear();
        h.clean(state);
    }

    /// Writes `NAME.unsaved-PID`.
    pub(super) fn keep_unsaved(&self, view: View, text: &[u8], actor: &Actor) {
        match self.rescue.unsaved(self.root(), view, text, actor) {
            Ok(name) => log::warn!("{}: unsaved text kept as {name}", view.name()),
            Err(e) => log::error!("{}: unsaved text could not be kept: {e}", view.name()),
        }
        self.report.unsaved();
    }
}

fn newest(a: Option<Arc<Version>>, b: Option<Arc<Version>>) -> Option<Arc<Version>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a.rev > b.rev { a } else { b }),
        (a, b) => a.or(b),
    }
}
