//! The moment of a save: what is compared with what, and what follows from the answer
//! (semantics sections 3 to 5).

use std::sync::Arc;

use super::budget::no_room;
use super::guards::Guard;
use super::handle::{DocHandle, State, blank, too_big};
use super::hidden::Absence;
use super::layer::{Error, Fh, Result};
use super::observing::Start;
use super::ports::KeptRefusal;
use super::rescue::Refused;
use super::tree::Tree;
use crate::documents::entries::Syntax;
use crate::documents::live::{InsteadOf, SaveError, SaveRequest, Saved};
use crate::documents::unresolved::unresolved;
use crate::documents::{Version, Written};
use crate::fs::observed::{Choice, Who};
use crate::model::{Actor, Basis, DocId, Reason, Refusal, Rule, Stamp, Via, View};
use crate::process::Process;

/// Who saves. Asked from `/proc` before any lock is taken.
pub(super) struct Saver {
    pub process: Option<Process>,
    pub actor: Actor,
    /// The handle whose text it is.
    pub handle: Option<Fh>,
    /// Whoever makes the committing call.
    pub asking: Who,
    /// It or an ancestor holds `missions.lock` (R9).
    pub under_their_lock: bool,
}

/// A save that did not commit: the refusal to keep and the error to answer.
pub(super) struct Failed {
    pub refusal: Box<Refusal>,
    pub error: Error,
    /// What the text was compared with.
    pub base: Option<Arc<Version>>,
    /// It was to be added at the end.
    pub append: bool,
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
                base: None,
                append: false,
            },
        }
    }
}

impl Failed {
    pub fn refused(refusal: Refusal) -> Failed {
        Failed {
            error: Error::Refused(refusal.clone()),
            refusal: Box::new(refusal),
            base: None,
            append: false,
        }
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
        let asking = self.observed.who(process, uid);
        Saver { process: process.cloned(), actor, handle: None, asking, under_their_lock }
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
        choice: Choice,
        written: Written<'_>,
    ) -> std::result::Result<Saved, Failed> {
        self.save_instead(saver, view, choice, written, None)
    }

    /// The same for a managed file that was unlinked a moment ago and is made anew.
    pub(super) fn save_instead(
        &self,
        saver: &Saver,
        view: View,
        choice: Choice,
        written: Written<'_>,
        instead_of: Option<InsteadOf>,
    ) -> std::result::Result<Saved, Failed> {
        if let Written::Whole(text) = written
            && !matches!(self.syntax(view), Syntax::Lines { .. })
            && let Some(why) = unresolved(text, self.docs.cached(view.doc()).view(view).as_ref())
        {
            return Err(Failed { base: choice.version, ..Failed::refused(why) });
        }
        let guard = self.guard_of(view, saver);
        let choice = match (&guard, written) {
            (Some(guard), Written::Whole(_)) => self.base_by_hash(choice, view, guard),
            _ => choice,
        };
        let append = matches!(written, Written::Fragment(_));
        let basis = if append { Basis::by(Rule::Append) } else { choice.basis };
        let writer = self.saver_as_writer(saver);
        let observation = match (append, &choice.version) {
            // What the process has met itself is from now on that with its own lines.
            (true, Some(met)) => self.observed.own_of(&writer, met, view),
            _ => choice.observation,
        };
        let base = choice.version.clone();
        let failed = |e: SaveError| Failed { base: base.clone(), append, ..Failed::from(e) };
        let turn = view.doc().file().map(|file| self.files.turn(file));
        let number = view.doc().file().and_then(|file| self.number_before(file));
        let answer = self.docs.save(SaveRequest {
            view,
            base: choice.version,
            basis,
            written,
            instead_of,
            actor: saver.actor.clone(),
            under_their_lock: saver.under_their_lock,
            expect_sha256: guard.as_ref().map(Guard::hash),
        });
        drop(turn);
        let saved = match (answer, guard) {
            (Err(e), Some(guard)) => {
                match &e {
                    SaveError::Refused(_) => self.guards.refused(guard, saver),
                    SaveError::Store(_) => self.guards.give_back(guard),
                }
                return Err(failed(e));
            }
            (answer, _) => answer.map_err(failed)?,
        };
        if matches!(written, Written::Removed) && saved.version.view(view).is_none() {
            // What was there is met still: a file that is made anew starts from it.
            return Ok(self.report_saved(saver, view, saved, number));
        }
        if let Some(at) = observation {
            self.observed.use_up(view.doc(), at, &[&writer, &saver.asking]);
        }
        if let (Written::Whole(text), false) = (written, saved.changed) {
            self.say_unchanged(saver, view, text, &saved, base.as_ref());
        }
        self.last_saves.saved(&writer, view, &saved);
        self.observed.saved(&writer, view, &saved.believed, self.now());
        Ok(self.report_saved(saver, view, saved, number))
    }

    /// Who knows the hash of the current version knows that version: a writer that has read
    /// nothing through the mount replaces what it expects.
    fn base_by_hash(&self, choice: Choice, view: View, guard: &Guard) -> Choice {
        if choice.version.is_some() {
            return choice;
        }
        let current = self.docs.cached(view.doc());
        let known = self.guards.hash_of(view, &current) == guard.hash();
        if known { Choice::of(Some(current), Rule::Handle) } else { choice }
    }

    /// A good save of the document: the `.refused` files that the same writer caused by the same
    /// program go; by any, when it was one of them that was saved. `append`: the save was an append.
    pub(super) fn forgive(&self, view: View, saver: &Saver, program: Option<&str>, append: bool) {
        let writer = self.saver_as_writer(saver);
        let gone = self.rescue.forgive(self.root(), view, program, append, &|other| {
            self.is_same_writer(&writer, other, view)
        });
        self.resolved(gone);
    }

    /// These `.refused` files are gone because their text, or another one, has been saved since.
    pub(super) fn resolved(&self, names: Vec<String>) {
        if let Some(name) = names.first()
            && let Err(e) = self.memory.resolve_refusals(&names)
        {
            log::warn!("{name}: that it is resolved could not be recorded: {e}");
        }
    }

    /// Keeps a refused text beside the document. Answers with the file's name.
    pub(super) fn keep_text(
        &self,
        view: View,
        text: &[u8],
        failed: &Failed,
        saver: &Saver,
        again: Option<&str>,
    ) -> Option<String> {
        let writer = self.saver_as_writer(saver);
        // A text that was refused before anything was compared started from what was met last.
        let met = || self.observed.last_met(&writer, view.doc());
        let base = failed.base.clone().or_else(|| if failed.append { None } else { met() });
        // That a merge is not resolved says more than how its markers break the format.
        let now = self.docs.cached(view.doc()).view(view);
        let conflict = unresolved(text, now.as_ref());
        let refused = Refused {
            view,
            text,
            refusal: conflict.as_ref().unwrap_or(&failed.refusal),
            actor: &saver.actor,
            writer: &writer,
            base: base.as_ref(),
            append: failed.append,
            now: self.now(),
        };
        match self.rescue.refuse(self.root(), &refused, again) {
            Ok(name) => Some(name),
            Err(e) => {
                log::error!("{}: a refused save could not be kept: {e}", view.name());
                None
            }
        }
    }

    /// Keeps a refused text beside the document and on record. Answers with the file's name.
    pub(super) fn keep_refused(
        &self,
        view: View,
        text: &[u8],
        failed: &Failed,
        saver: &Saver,
        again: Option<&str>,
    ) -> Option<String> {
        let (now, actor, refusal) = (self.now(), &saver.actor, &*failed.refusal);
        let kept = self.keep_text(view, text, failed, saver, again);
        let writer = self.saver_as_writer(saver);
        self.last_saves.refused(&writer, view, refusal, kept.as_deref());
        let rev = self.docs.cached(view.doc()).rev;
        log::warn!(
            "{}: save by {} refused, revision {rev} stays: {refusal}",
            view.name(),
            actor.named()
        );
        self.report.refused(view, actor, refusal, kept.as_deref(), now);
        let recorded = self.memory.record_refusal(&KeptRefusal {
            at: now,
            view,
            actor,
            refusal,
            kept_as: kept.as_deref(),
            base: failed.base.as_ref().map(|v| v.rev),
            append: failed.append,
        });
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
            Some(whole) if super::is_blank(&whole.bytes) && h.start.is_none() => {
                Err(Failed::refused(blank()))
            }
            Some(whole) => match self.resaved(h.view(), &whole.bytes) {
                Some(again) => self.save_again(saver, h.view(), again),
                None => {
                    let (choice, instead_of) = self.base_of_handle(h, state, saver, whole);
                    let written = Written::Whole(&whole.bytes);
                    self.save_instead(saver, h.view(), choice, written, instead_of)
                }
            },
        };
        match answer {
            Ok(saved) => {
                // The name is made anew, also by kin for whom it was there all the time.
                self.reveal(h.view(), &self.saver_as_writer(saver), h.opened);
                self.committed(h, state, saver, &saved.believed);
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

    /// What a text that was written through a handle starts from, and the version that a managed file
    /// takes the place of which was unlinked and made anew.
    fn base_of_handle(
        &self,
        h: &DocHandle,
        state: &State,
        saver: &Saver,
        whole: &super::handle::Whole,
    ) -> (Choice, Option<InsteadOf>) {
        let (view, start) = (h.view(), whole.began_as());
        let unlinked = h.unlinked.as_ref().filter(|_| !state.committed);
        if let Some(unlinked) = unlinked
            && let Some(choice) = unlinked.base()
        {
            return (choice, Some(unlinked.replaced()));
        }
        let made = h.start.as_ref().is_some_and(|s| s.made);
        let gone = || self.docs.cached(view.doc()).view(view).is_none_or(|c| c.is_empty());
        let replaces = unlinked.filter(|_| made && gone()).map(Absence::replaced);
        if let Some(base) = state.base.as_ref().filter(|_| replaces.is_none()) {
            let nearer = match start {
                Some(start) => self.nearer(base, start, view, &whole.bytes),
                None => base.clone(),
            };
            let who = self.saver_as_writer(saver);
            let observation = self.observed.nearest_of(&who, &nearer, view);
            return (Choice { observation, ..Choice::of(Some(nearer), Rule::Handle) }, None);
        }
        let (patched, unlinked) = (start.cloned(), unlinked.cloned());
        let start = Start { patched, unlinked, ..Start::default() };
        (self.merge_base(saver, view, &whole.bytes, &start), replaces)
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
        let met = self.observed.last_met(&self.saver_as_writer(saver), h.view().doc());
        let choice = Choice::of(newest(state.base.clone(), met), Rule::Append);
        match self.save(saver, h.view(), choice, Written::Fragment(&fragment)) {
            Ok(saved) => {
                self.committed(h, state, saver, &saved.believed);
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
    fn committed(&self, h: &DocHandle, state: &mut State, saver: &Saver, believed: &Arc<Version>) {
        state.base = Some(believed.clone());
        state.committed = true;
        state.at_end = Some(Stamp(i64::MIN));
        if let Some(whole) = &mut state.whole {
            whole.start = None;
        }
        while let Some(name) = state.take_kept() {
            let writer = self.saver_as_writer(saver);
            self.resolved(self.rescue.forgive_file(self.root(), &name, &writer));
        }
        if let Some(opener) = &h.opener {
            let opener = self.observed.who(Some(opener), h.uid);
            let met = self.observed.own_newest(&opener, h.view().doc());
            // A saver that is the opener has met it by saving, once.
            let other = opener.process != self.saver_as_writer(saver).process;
            if other && met.is_none_or(|v| v.rev < believed.rev) {
                self.observed.saved(&opener, h.view(), believed, self.now());
            }
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
            false => self.keep_refused(h.view(), text, &failed, saver, again.as_deref()),
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
