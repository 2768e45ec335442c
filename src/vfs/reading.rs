//! Opening and reading documents (R1).

use std::sync::Arc;

use super::budget::Held;
use super::handle::{DocHandle, Mode, State};
use super::layer::{Attr, Caller, Error, Opened, Result};
use super::tree::Tree;
use crate::documents::{Content, Version};
use crate::model::{Stamp, View};
use crate::process::Process;
use parking_lot::{Mutex, MutexGuard};

/// Reads after end of file within this time (ns) belong to the look that ended there.
const SAME_LOOK: i64 = 100_000_000;

impl Tree {
    /// Opens a document. `created`: the name was not there for the caller, the file is new.
    pub(super) fn doc_open(
        &self,
        who: &Caller,
        view: View,
        flags: i32,
        created: bool,
    ) -> Result<Opened> {
        let mode = Mode::from_flags(flags);
        if view.read_only() && (mode.write || flags & libc::O_TRUNC != 0) {
            return Err(Error::ReadOnly);
        }
        self.asked.opened(who.tid, view);
        let opener = self.process(who);
        let now = self.now();
        let mut state = State::default();
        if mode.write {
            state.writer = Some((who.tid, opener.clone()));
        }
        let start = match view {
            View::File(file) => Some(self.file_start(file, created, mode)?),
            _ => None,
        };
        if mode.truncate || (created && start.is_none()) {
            state.empty();
            state.only_truncated = true;
        }
        if let Some(start) = &start
            && created
        {
            // Whoever makes a file knows that there is nothing in it.
            state.base = Some(start.version.clone());
        }
        let mut unlinked = None;
        if created || mode.truncate && !self.absences.none() {
            let writer = self.who(who, opener.as_ref());
            unlinked = self.unlinked_by(&writer, view).filter(|a| created || a.left.is_some());
            if created || unlinked.is_some() {
                self.reveal(view, &writer, now);
            }
        }
        let fh = self.new_fh();
        let handle = DocHandle {
            fh,
            name: Mutex::new(view),
            node: Tree::node_of(view),
            mode,
            opener,
            uid: who.uid,
            opened: now,
            opened_at: self.docs.cached(view.doc()).rev,
            created: created && start.is_none(),
            unlinked,
            start,
            told: Default::default(),
            writers: Default::default(),
            dirty: Default::default(),
            under_lock: Default::default(),
            state: Mutex::new(state),
        };
        self.handles.write().insert(fh, Arc::new(handle));
        Ok(Opened { fh, direct_io: true, keep_cache: false, cache_dir: false })
    }

    /// What `stat` shows. A process that wrote through an uncommitted handle is told that
    /// buffer's size; a process with a handle that has not read yet will read the version that
    /// it is told the size of here, if it has `asked` (other calls answer with attributes too).
    pub(super) fn doc_attr(&self, who: &Caller, view: View, asked: bool) -> Result<Attr> {
        if let View::File(file) = view {
            return self.file_attr(who, file, asked);
        }
        let handles = self.handles_on(view);
        let process = if handles.is_empty() { None } else { self.process(who) };
        self.settle_locked_writers(&handles, view, process.as_ref());
        let version = self.docs.current(view.doc())?;
        let mut size = version.view(view).map_or(0, |c| c.len());
        let mut written = None;
        let mut unread = Vec::new();
        if let Some(process) = process {
            for h in handles {
                if h.written_by(process.id) {
                    // While it commits, its buffer is as good as current.
                    if let Some(state) = h.state.try_lock()
                        && h.is_dirty()
                    {
                        size = state.own_size(size);
                        written = Some(state.last_write);
                    }
                } else if h.mode.read && h.opened_by(process.id) {
                    unread.push(h);
                }
            }
        }
        if asked && !unread.is_empty() {
            self.asked.told(who.tid, view, unread.into_iter(), &version);
        }
        Ok(self.names.attr(view, &version, size, written))
    }

    pub(super) fn doc_read(
        &self,
        who: &Caller,
        h: &DocHandle,
        offset: u64,
        size: u32,
    ) -> Result<Vec<u8>> {
        if !h.mode.read {
            return Err(Error::BadHandle);
        }
        let size = size as usize;
        {
            let mut state = h.state.lock();
            if let Some(text) = state.own_text(h.is_dirty()) {
                return Ok(slice(text, offset, size));
            }
            let restart = offset == 0 && self.outdated(h, &state);
            if state.at_end.is_none()
                && state.reading.is_some()
                && state.reader == who.tid
                && !restart
            {
                return Ok(serve(h, &mut state, offset, size, self.now()));
            }
        }
        let process = self.process(who);
        let mut state = self.take_version(h, process.as_ref(), offset)?;
        if let Some(text) = state.own_text(h.is_dirty()) {
            return Ok(slice(text, offset, size));
        }
        state.reader = who.tid;
        let reader = process.as_ref().map(|p| p.id);
        let version = state.reading.as_ref().map(|(version, _)| version.clone());
        if let Some(version) = &version
            && !state.met.as_ref().is_some_and(|(by, v)| *by == reader && Arc::ptr_eq(v, version))
        {
            state.met = Some((reader, version.clone()));
            self.observed.read(&self.who(who, process.as_ref()), h.view(), version, self.now());
        }
        let bytes = serve(h, &mut state, offset, size, self.now());
        drop(state);
        if let (Some(process), Some(version)) = (process, version)
            && self.docs.waits(version.doc)
            && self.family_holds_missions_lock(process.id)
        {
            self.docs.read_by_holder(version);
        }
        Ok(bytes)
    }

    /// Makes sure that the handle has the version that a read from `offset` returns: the one in
    /// hand, or, for the first read, after end of file and for a lock holder that starts over, the
    /// current one.
    fn take_version<'h>(
        &self,
        h: &'h DocHandle,
        process: Option<&Process>,
        offset: u64,
    ) -> Result<MutexGuard<'h, State>> {
        let others: Vec<_> =
            self.unsaved_on(h.view()).into_iter().filter(|o| o.fh != h.fh).collect();
        let settled = self.settle_locked_writers(&others, h.view(), process);
        let told = h.told.lock().take();
        let current = self.docs.current(h.view().doc())?;
        let reading = h.state.lock().reading.as_ref().map(|(v, _)| v.rev);
        let old = reading.or(told.as_ref().map(|v| v.rev)).is_some_and(|rev| rev != current.rev);
        let holder = settled || (old && self.locks(process, h.view()));
        let mut state = h.state.lock();
        if state.own_text(h.is_dirty()).is_some() {
            return Ok(state);
        }
        let first = state.reading.is_none();
        if current.view(h.view()).is_none()
            && let Some(start) = &h.start
        {
            // The file is gone: an open handle still has what it had.
            if first {
                take(h, &mut state, told.unwrap_or_else(|| start.version.clone()));
            }
            return Ok(state);
        }
        let moves = self.moves_on(h, &state, &current, offset);
        if first || moves || (offset == 0 && holder) {
            // The version whose size the process was told, unless it holds a lock and so must
            // have what was committed before it got it.
            let version = match told {
                Some(told) if first && !holder => told,
                _ => current,
            };
            take(h, &mut state, version);
        }
        Ok(state)
    }

    /// The version that a read from the beginning returns, without its counting as a look;
    /// `None` when the handle has a text of its own.
    pub(super) fn doc_version(
        &self,
        who: &Caller,
        h: &DocHandle,
    ) -> Result<Option<(View, Arc<Version>, Content)>> {
        if !h.mode.read {
            return Err(Error::BadHandle);
        }
        let process = self.process(who);
        let state = self.take_version(h, process.as_ref(), 0)?;
        if state.own_text(h.is_dirty()).is_some() || !state.fragment.is_empty() {
            return Ok(None);
        }
        Ok(state.reading.clone().map(|(version, content)| (h.view(), version, content)))
    }

    /// Whether a read from `offset` after end of file moves to `current`. One that goes on behind
    /// what was read gets no mix of the two: it moves when the text has grown at its end, or
    /// when it is a new look and not the second end of file that some readers ask for
    /// (PyYAML does).
    fn moves_on(&self, h: &DocHandle, state: &State, current: &Version, offset: u64) -> bool {
        let (Some(at_end), Some((old, text))) = (state.at_end, &state.reading) else {
            return state.at_end.is_some();
        };
        let same_look = (0..SAME_LOOK).contains(&self.now().0.saturating_sub(at_end.0));
        if offset == 0 || old.rev == current.rev || !same_look {
            return true;
        }
        current.view(h.view()).is_some_and(|now| now.starts_with(text))
    }

    /// Whether something was committed since the handle took its version.
    fn outdated(&self, h: &DocHandle, state: &State) -> bool {
        let Some((version, _)) = &state.reading else { return false };
        self.docs.cached(h.view().doc()).rev != version.rev
            || self.unsaved_on(h.view()).iter().any(|o| o.fh != h.fh)
    }

    /// Read-modify-write under a lock: if `process` holds a lock on the document and asks what
    /// is in it, whatever others wrote under theirs is committed first. `true`: there was such,
    /// and it holds one.
    pub(super) fn settle_locked_writers(
        &self,
        handles: &[Arc<DocHandle>],
        view: View,
        process: Option<&Process>,
    ) -> bool {
        use std::sync::atomic::Ordering;
        let unsettled = |h: &&Arc<DocHandle>| {
            h.is_dirty()
                && h.under_lock.load(Ordering::Acquire)
                && !process.is_some_and(|p| h.written_by(p.id))
        };
        let others: Vec<_> = handles.iter().filter(unsettled).collect();
        if others.is_empty() || !self.locks(process, view) {
            return false;
        }
        for other in others {
            let saver = self.saver_of(other, None);
            let mut state = other.state.lock();
            // A refusal is the writer's: it hears of it at its own next call.
            if let Err(e) = self.commit(other, &mut state, &saver, true) {
                log::info!("{}: not committed for a lock holder: {e}", view.name());
            }
        }
        true
    }
}

fn take(h: &DocHandle, state: &mut State, version: Arc<Version>) {
    let content =
        version.view(h.view()).unwrap_or_else(|| Content::from_chunks(std::iter::empty()));
    state.base = Some(version.clone());
    state.reading = Some((version, content));
    state.at_end = None;
    // A text that was committed gives way to what is there now.
    state.whole = None;
    state.held = Held::default();
}

fn serve(h: &DocHandle, state: &mut State, offset: u64, size: usize, now: Stamp) -> Vec<u8> {
    let Some((_, content)) = &state.reading else { return Vec::new() };
    let mut out = content.read(offset, size);
    if h.is_dirty() && out.len() < size && !state.fragment.is_empty() {
        let own = slice(
            &state.fragment,
            (offset + out.len() as u64).saturating_sub(content.len()),
            size - out.len(),
        );
        out.extend_from_slice(&own);
    }
    if out.is_empty() && size > 0 {
        state.at_end = Some(now);
    }
    out
}

fn slice(text: &[u8], offset: u64, size: usize) -> Vec<u8> {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    text[from..from.saturating_add(size).min(text.len())].to_vec()
}
