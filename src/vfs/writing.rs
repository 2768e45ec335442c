//! Writing documents and the calls that complete a save (semantics section 5).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::budget::reserve;
use super::commit::{Failed, Saver};
use super::handle::{DocHandle, State, blank, patch, too_big};
use super::layer::{Caller, Error, Result};
use super::observing::Start;
use super::tree::Tree;
use crate::documents::{Version, Written};
use crate::model::View;
use crate::process::{Exit, Process};

/// An append handle commits its whole lines this long after its last write, in nanoseconds.
pub const APPEND_REST: i64 = 200_000_000;
/// A size-0 truncation by path this long after an open by the same process is that open's.
const TRUNCATION_OF_OPEN: i64 = 1_000_000_000;

impl Tree {
    pub(super) fn doc_write(
        &self,
        who: &Caller,
        h: &DocHandle,
        offset: u64,
        data: &[u8],
        flags: i32,
    ) -> Result<u32> {
        if !h.mode.write {
            return Err(Error::BadHandle);
        }
        let written = u32::try_from(data.len()).map_err(|_| Error::Invalid)?;
        let process = self.writing_process(who, h);
        let append = h.mode.append || flags & libc::O_APPEND != 0;
        let under_lock = !h.is_dirty() && !append && self.locks(process.as_ref(), h.view());
        let needs_version = !append && h.state.lock().whole.is_none();
        let current = match needs_version {
            true => self.to_edit(h)?,
            false => self.docs.cached(h.view().doc()),
        };
        let saver = h.mode.sync.then(|| self.saver_of(h, process.as_ref()));
        let mut guard = h.state.lock();
        let state = &mut *guard;
        self.still_open()?;
        let limit = self.options.size_limit;
        let mut told = None;
        if append && state.whole.is_none() {
            if state.refused.is_some() {
                // What was refused is kept in its file; what comes now is a new append.
                state.fragment.clear();
            }
            if state.fragment.len() as u64 + u64::from(written) > limit {
                return Err(Error::TooBig);
            }
            let more = u64::from(written);
            self.buffers.hold(&mut state.held, state.fragment.len() as u64 + more)?;
            reserve(&mut state.fragment, data.len())?;
            state.fragment.extend_from_slice(data);
        } else {
            let (at, data) = match (&state.whole, append) {
                (Some(whole), true) => (whole.bytes.len() as u64, data),
                _ => state.place(offset, data),
            };
            let bytes = state.would_hold(h.view(), &current, Some(at), data.len() as u64);
            if bytes <= limit {
                self.hold(h, state, bytes)?;
            }
            let fits = patch(state.buffer(h.view(), &current, at), at, data, limit);
            if let Err(e) = fits {
                state.overflow = true;
                h.soil(state, self.now());
                return Err(e);
            }
            if let Some(whole) = &mut state.whole {
                whole.wrote(at, data.len() as u64);
            }
            told = self.judge_early(h, state, at, append);
        }
        if under_lock {
            h.under_lock.store(true, Ordering::Release);
        }
        self.note_writer(h, process.as_ref());
        h.soil(state, self.now());
        if let Some(refusal) = told {
            state.refused = Some(refusal.clone());
            let again = state.early.is_told();
            drop(guard);
            return Err(self.refuse_early(h, process.as_ref(), refusal, again));
        }
        if let Some(saver) = saver {
            // O_SYNC: a write is a promise. A truncated handle keeps it at its flush: half of a
            // text is nothing that anybody should see.
            if state.whole.as_ref().is_none_or(|w| w.in_place) {
                self.commit(h, state, &saver, false)?;
            }
        }
        Ok(written)
    }

    /// The version that is edited through a handle that has read none: the current one. Whoever
    /// made the file counts from an empty one.
    fn to_edit(&self, h: &DocHandle) -> Result<Arc<Version>> {
        match &h.start {
            Some(start) if start.made => Ok(start.version.clone()),
            _ => Ok(self.docs.current(h.view().doc())?),
        }
    }

    /// The process that writes: looked up when another thread wrote last.
    fn writing_process(&self, who: &Caller, h: &DocHandle) -> Option<Process> {
        if let Some((tid, process)) = &h.state.lock().writer
            && *tid == who.tid
        {
            return process.clone();
        }
        let process = self.process(who);
        h.state.lock().writer = Some((who.tid, process.clone()));
        process
    }

    fn note_writer(&self, h: &DocHandle, process: Option<&Process>) {
        if let Some(process) = process {
            let mut writers = h.writers.lock();
            if !writers.contains(&process.id) {
                writers.push(process.id);
            }
        }
    }

    /// `ftruncate`, and the size part of `fallocate`.
    pub(super) fn doc_resize(&self, who: &Caller, h: &DocHandle, size: u64) -> Result<()> {
        if !h.mode.write {
            return Err(Error::Invalid);
        }
        if size > self.options.size_limit {
            return Err(Error::TooBig);
        }
        let process = self.writing_process(who, h);
        let under_lock = !h.is_dirty() && self.locks(process.as_ref(), h.view());
        let current = self.to_edit(h)?;
        let mut state = h.state.lock();
        self.still_open()?;
        let told = self.judge_end(h, &mut state, size);
        self.buffers.hold(&mut state.held, size)?;
        if size == 0 {
            state.empty();
        } else {
            let bytes = state.buffer(h.view(), &current, 0);
            reserve(bytes, (size as usize).saturating_sub(bytes.len()))?;
            bytes.resize(size as usize, 0);
        }
        if under_lock {
            h.under_lock.store(true, Ordering::Release);
        }
        self.note_writer(h, process.as_ref());
        h.soil(&mut state, self.now());
        if let Some(refusal) = told {
            state.refused = Some(refusal.clone());
            let again = state.early.is_told();
            drop(state);
            return Err(self.refuse_early(h, process.as_ref(), refusal, again));
        }
        Ok(())
    }

    /// What is written after the buffers were looked through for the last time would be lost
    /// without a word: many programs never look at `close`.
    fn still_open(&self) -> Result<()> {
        match self.closing.load(Ordering::Acquire) {
            true => Err(Error::Os(rustix::io::Errno::IO)),
            false => Ok(()),
        }
    }

    /// The end of the mount came between a write and its close: the text is kept beside the
    /// document, and whoever closes must not take it for saved.
    fn not_set_aside(&self, state: &State) -> Result<()> {
        match state.set_aside && self.closing.load(Ordering::Acquire) {
            true => Err(Error::Os(rustix::io::Errno::IO)),
            false => Ok(()),
        }
    }

    /// `truncate` by path: the truncation of an open that has just been (a kernel without
    /// `FUSE_ATOMIC_O_TRUNC`), else a save of its own.
    pub(super) fn doc_truncate(&self, who: &Caller, view: View, size: u64) -> Result<()> {
        if view.read_only() {
            return Err(Error::ReadOnly);
        }
        if size > self.options.size_limit {
            return Err(Error::TooBig);
        }
        let process = self.process(who);
        let now = self.now();
        if size == 0
            && let Some(process) = &process
        {
            let fresh = |h: &Arc<DocHandle>| {
                h.mode.write
                    && h.opened_by(process.id)
                    && !h.is_dirty()
                    && !now.due(h.opened, TRUNCATION_OF_OPEN)
            };
            let newest = self.handles_on(view).into_iter().filter(fresh).max_by_key(|h| h.fh);
            if let Some(h) = newest {
                let mut state = h.state.lock();
                if !h.is_dirty() && state.last_write.0 == 0 {
                    state.empty();
                    state.only_truncated = true;
                    return Ok(());
                }
            }
        }
        let saver = self.saver(process.as_ref(), who.uid, view);
        let current = self.docs.current(view.doc())?;
        let mut text = current.view(view).map(|c| c.to_vec()).unwrap_or_default();
        text.resize(size as usize, 0);
        let failed = if super::is_blank(&text) && view.doc().file().is_none() {
            super::commit::Failed::refused(blank())
        } else {
            let start = Start { patched: Some(current), ..Start::default() };
            let choice = self.merge_base(&saver, view, &text, &start);
            match self.save(&saver, view, choice, Written::Whole(&text)) {
                Ok(_) => return Ok(()),
                Err(failed) => failed,
            }
        };
        self.keep_refused(view, &text, &failed, &saver, None);
        Err(failed.error)
    }

    /// A descriptor was closed (rules 2, 3, 7, 9).
    pub(super) fn doc_flush(&self, who: &Caller, h: &DocHandle) -> Result<()> {
        if !h.mode.write {
            return Ok(());
        }
        if !h.is_dirty() && !self.emptied(who, h)? {
            self.not_set_aside(&h.state.lock())?;
            if h.state.lock().only_truncated
                && self.procs.exiting(who.tid) == Exit::Killed
                && self.process(who).is_none_or(|p| h.opened_by(p.id))
            {
                h.state.lock().killed = true;
            }
            return Ok(());
        }
        let flusher = self.process(who);
        if h.state.lock().has_whole_lines() {
            // They are committed whoever has the file still, and however its writer ends.
            let saver = self.saver_of(h, flusher.as_ref());
            let mut state = h.state.lock();
            if state.has_whole_lines() {
                self.not_set_aside(&state)?;
                return self.commit(h, &mut state, &saver, true);
            }
        }
        let killed = self.procs.exiting(who.tid) == Exit::Killed
            && flusher.as_ref().is_none_or(|p| h.writers.lock().contains(&p.id));
        let complete = self.completes(h, flusher.as_ref());
        let saver = self.saver_of(h, flusher.as_ref());
        let mut state = h.state.lock();
        self.not_set_aside(&state)?;
        if state.whole.is_none() {
            let done = self.commit(h, &mut state, &saver, complete && !killed);
            if killed && complete {
                state.fragment.clear();
                h.clean(&mut state);
            }
            return done;
        }
        state.killed |= killed;
        if !complete {
            return match &state.refused {
                Some(refusal) => Err(Error::Refused(refusal.clone())),
                None => Ok(()),
            };
        }
        if state.killed {
            if state.refused.is_none() && h.is_dirty() {
                self.set_aside(h, &mut state, &saver.actor);
            }
            return Ok(());
        }
        self.commit(h, &mut state, &saver, true)
    }

    /// Whether this flush is that of somebody who has emptied a managed file and wrote nothing
    /// (`> outbox.md`): that is a save. A shell closes the file once before its command writes to it;
    /// of a process that cannot be told the last close alone says that nothing more comes.
    fn emptied(&self, who: &Caller, h: &DocHandle) -> Result<bool> {
        if h.start.is_none() || !h.mode.truncate || !h.state.lock().only_truncated {
            return Ok(false);
        }
        let Some(flusher) = self.process(who) else { return Ok(false) };
        if self.procs.exiting(who.tid) == Exit::Killed || !self.completes(h, Some(&flusher)) {
            return Ok(false);
        }
        let mut state = h.state.lock();
        if state.only_truncated && !h.is_dirty() {
            h.soil(&mut state, self.now());
        }
        Ok(h.is_dirty())
    }

    /// Rule 3: the flusher is the opener, or the opener no longer has the file; the flusher has
    /// no other descriptor of it; and nobody else who wrote since the last commit still has it.
    fn completes(&self, h: &DocHandle, flusher: Option<&Process>) -> bool {
        let Some(flusher) = flusher else { return true };
        let has = |id| {
            let mine = self.procs.descriptors(id, &self.inos(h.view()));
            let open = mine.iter().filter(|d| d.writable).count();
            // A process's other handles on the document account for one descriptor each.
            let others = self
                .handles_on(h.view())
                .iter()
                .filter(|o| o.fh != h.fh && o.mode.write && o.opened_by(id))
                .count();
            open > others
        };
        if let Some(opener) = &h.opener
            && opener.id != flusher.id
            && self.procs.alive(opener.id)
            && has(opener.id)
        {
            return false;
        }
        if has(flusher.id) {
            return false;
        }
        let writers = h.writers.lock().clone();
        !writers.into_iter().any(|id| id != flusher.id && self.procs.alive(id) && has(id))
    }

    /// `fsync`: always commits, and what was committed is on the device when it returns (R8).
    pub(super) fn doc_fsync(&self, who: &Caller, h: &DocHandle) -> Result<()> {
        if h.mode.write {
            let process = self.process(who);
            let saver = self.saver_of(h, process.as_ref());
            let mut state = h.state.lock();
            self.not_set_aside(&state)?;
            if state.only_truncated && h.empties() {
                h.soil(&mut state, self.now());
            }
            self.commit(h, &mut state, &saver, true)?;
        }
        Ok(self.docs.sync()?)
    }

    /// The last descriptor is gone (rules 5 to 8). Nobody hears an error.
    pub(super) fn doc_release(&self, h: &DocHandle) {
        let unsettled = || {
            let state = h.state.lock();
            h.is_dirty() || state.only_truncated || state.refused.is_some()
        };
        if h.mode.write && unsettled() {
            let saver = self.saver_of(h, None);
            let mut state = h.state.lock();
            self.finish(h, &mut state, &saver);
            let refused = state.refused.is_some();
            drop(state);
            if refused {
                self.file_unmade(h, &saver);
            }
        }
        self.handles.write().remove(&h.fh);
        self.guards.released(h.fh);
    }

    fn finish(&self, h: &DocHandle, state: &mut State, saver: &Saver) {
        if state.orphan {
            return;
        }
        if !h.is_dirty() {
            // At the end of the mount everything is released, the programs still run.
            let ours = self.closing.load(Ordering::Acquire);
            if state.only_truncated && h.empties() && !state.killed && !ours {
                if h.start.is_some() {
                    h.soil(state, self.now());
                    if let Err(e) = self.commit(h, state, saver, true) {
                        log::debug!("{}: refused at release: {e}", h.view().name());
                    }
                    return;
                }
                self.keep_refused(h.view(), b"", &Failed::refused(blank()), saver, None);
            }
            return;
        }
        // The writer was told that its last attempt failed, and the text is kept beside the
        // document: a save that succeeds after all would be there twice.
        if state.refused.is_some() || state.kept.is_some() {
            self.keep_rest(h, state, saver);
            return;
        }
        if state.killed && state.whole.is_some() {
            self.set_aside(h, state, &saver.actor);
            return;
        }
        let all = !state.killed;
        if let Err(e) = self.commit(h, state, saver, all) {
            log::debug!("{}: refused at release: {e}", h.view().name());
        }
    }

    /// To be called about every 50 ms: appends that have rested are committed, freed names come
    /// back, and what writers have seen goes to the store.
    pub fn tick(&self) {
        let now = self.now();
        self.absences.tick(now);
        self.procs_tick(now);
        self.owned_tick();
        let handles: Vec<_> = self
            .handles
            .read()
            .values()
            .filter(|h| h.mode.append && h.is_dirty())
            .cloned()
            .collect();
        for h in handles {
            let rested = h.state.try_lock().is_some_and(|s| {
                s.whole.is_none()
                    && s.refused.is_none()
                    && s.fragment.contains(&b'\n')
                    && now.due(s.last_write, APPEND_REST)
            });
            if rested {
                let saver = self.saver_of(&h, None);
                let mut state = h.state.lock();
                if let Err(e) = self.commit(&h, &mut state, &saver, false) {
                    log::info!("{}: append not committed: {e}", h.view().name());
                }
            }
        }
        self.keep_observations(false);
    }

    /// R11: appends are committed, other uncommitted texts are kept as `NAME.unsaved-PID`, and
    /// everything committed is made durable. Programs that still have files open may go on: what
    /// they close is committed as long as the daemon lives.
    pub fn shutdown(&self) {
        self.closing.store(true, Ordering::Release);
        self.tables.close();
        let handles: Vec<_> = self.handles.read().values().cloned().collect();
        for h in &handles {
            // Whoever wrote before has let go of the state; whoever comes later is told.
            drop(h.state.lock());
            if !h.is_dirty() {
                continue;
            }
            let saver = self.saver_of(h, None);
            let mut state = h.state.lock();
            if state.whole.is_some() {
                if state.refused.is_some() {
                    self.keep_rest(h, &mut state, &saver);
                } else if !state.orphan && h.is_dirty() {
                    self.set_aside(h, &mut state, &saver.actor);
                }
            } else if let Err(e) = self.commit(h, &mut state, &saver, true) {
                log::warn!("{}: append not committed: {e}", h.view().name());
            }
        }
        self.settle_adopted();
        self.owned_end();
        self.keep_observations(true);
        if let Err(e) = self.docs.sync() {
            log::error!("the last saves may not survive a power loss: {e}");
        }
    }
}

/// Why an over-long source of a rename is refused.
pub(super) fn source_too_big(limit: u64) -> super::commit::Failed {
    super::commit::Failed::refused(too_big(limit))
}
