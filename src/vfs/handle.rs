//! An open document: what its reads return (R1) and what it has written but not committed.
//!
//! Lock order: `state` first, then anything of the documents or of the other tables. `state` is
//! held while a save commits, so that a handle commits one thing at a time; what other handles'
//! requests need to know about this one stands outside of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::budget::{Held, reserve};
use super::early::Early;
use super::hidden::Absence;
use super::layer::{Attr, Error, Fh, Node, Result};
use crate::documents::{Content, Version};
use crate::model::{Reason, Refusal, Rev, Stamp, View};
use crate::process::{ProcId, Process};

/// What a handle was opened for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mode {
    /// `O_RDONLY` or `O_RDWR`.
    pub read: bool,
    /// `O_WRONLY` or `O_RDWR`.
    pub write: bool,
    /// `O_APPEND`.
    pub append: bool,
    /// `O_SYNC` or `O_DSYNC`.
    pub sync: bool,
    /// `O_TRUNC`.
    pub truncate: bool,
}

impl Mode {
    /// From the flags of `open`.
    pub fn from_flags(flags: i32) -> Mode {
        let access = flags & libc::O_ACCMODE;
        let write = access != libc::O_RDONLY;
        Mode {
            read: access != libc::O_WRONLY,
            write,
            append: write && flags & libc::O_APPEND != 0,
            sync: write && flags & (libc::O_SYNC | libc::O_DSYNC) != 0,
            truncate: write && flags & libc::O_TRUNC != 0,
        }
    }
}

/// What a managed file was when it was opened.
pub struct Start {
    /// As shown.
    pub attr: Attr,
    /// Its version: what is read when the file is gone before the first read.
    pub version: Arc<Version>,
    /// The open made the file.
    pub made: bool,
}

/// An open document.
pub struct DocHandle {
    /// Its number.
    pub fh: Fh,
    /// The name whose text it is: the one it was opened by, until its file is renamed.
    pub name: Mutex<View>,
    /// The node that it was opened by.
    pub node: Node,
    /// Of a managed file.
    pub start: Option<Start>,
    /// What it was opened for.
    pub mode: Mode,
    /// Who opened it; `None`: a process that cannot be told (foreign pid namespace).
    pub opener: Option<Process>,
    /// The opener's user.
    pub uid: u32,
    /// When.
    pub opened: Stamp,
    /// The revision that was current then.
    pub opened_at: Rev,
    /// The name did not exist for the opener; it is there for the opener until release.
    pub created: bool,
    /// It did not because the opener or its kin had unlinked it.
    pub unlinked: Option<Absence>,
    /// The version whose size the opener was told since the open.
    pub told: Mutex<Option<Arc<Version>>>,
    /// The processes that wrote since the last commit.
    pub writers: Mutex<Vec<ProcId>>,
    /// Bytes were written that are not committed.
    pub dirty: AtomicBool,
    /// The first of them by a process that held a lock on the document.
    pub under_lock: AtomicBool,
    /// Everything else.
    pub state: Mutex<State>,
}

/// The whole file as a handle sees it.
pub struct Whole {
    /// The text.
    pub bytes: Vec<u8>,
    /// The version that the text was patched into; `None` when it began empty.
    pub start: Option<Arc<Version>>,
    /// It began as the text of a version: an edit in place, complete after each write.
    pub in_place: bool,
    /// So many bytes from the beginning on were written anew.
    pub anew: u64,
}

impl Whole {
    /// What the text owes to a version: nothing, once every byte was written anew.
    pub fn began_as(&self) -> Option<&Arc<Version>> {
        self.start.as_ref().filter(|_| self.anew < self.bytes.len() as u64)
    }

    /// Bytes were written there.
    pub fn wrote(&mut self, offset: u64, length: u64) {
        if offset <= self.anew {
            self.anew = self.anew.max(offset.saturating_add(length));
        }
    }
}

/// The part of a handle that its own requests change.
#[derive(Default)]
pub struct State {
    /// The version last read through the handle, or what its last save left its writer
    /// believing (section 4, rule 1).
    pub base: Option<Arc<Version>>,
    /// A save of this handle has been committed.
    pub committed: bool,
    /// What reads return.
    pub reading: Option<(Arc<Version>, Content)>,
    /// When a read returned end of file: the next one moves on.
    pub at_end: Option<Stamp>,
    /// The version that was last recorded as read, and by which process.
    pub met: Option<(Option<ProcId>, Arc<Version>)>,
    /// Thread that read last.
    pub reader: u32,
    /// Thread that wrote last, and its process.
    pub writer: Option<(u32, Option<Process>)>,
    /// The whole text, once anything but an append was written. It outlives a commit: what is
    /// written next continues it.
    pub whole: Option<Whole>,
    /// Appended bytes (R5).
    pub fragment: Vec<u8>,
    /// Truncated or created by the open, and nothing written since.
    pub only_truncated: bool,
    /// The last commit of these bytes was refused; no new ones came since (rule 9).
    pub refused: Option<Refusal>,
    /// A write did not fit; until the handle is truncated nothing of it can be saved.
    pub overflow: bool,
    /// It did not fit because others take the room.
    pub cramped: bool,
    /// A process that wrote these bytes was killed by a signal (rule 7).
    pub killed: bool,
    /// The file was removed by the process that has it open here: what it holds ends with it.
    pub orphan: bool,
    /// The bytes went to `NAME.unsaved-PID`.
    pub set_aside: bool,
    /// When the last write came.
    pub last_write: Stamp,
    /// The `.refused` file that this handle caused.
    pub kept: Option<String>,
    /// What is known of the whole text before its end.
    pub early: Early,
    /// The room that `whole` and `fragment` take.
    pub held: Held,
}

impl DocHandle {
    /// The name whose text it is.
    pub fn view(&self) -> View {
        *self.name.lock()
    }

    /// Whether there are uncommitted bytes.
    pub fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }

    /// Whether this process opened it.
    pub fn opened_by(&self, id: ProcId) -> bool {
        self.opener.as_ref().is_some_and(|p| p.id == id)
    }

    /// Whether an open that was never followed by a write asks for an empty file. A mere create
    /// asks for nothing (rule 6).
    pub fn empties(&self) -> bool {
        self.mode.truncate || !self.created
    }

    /// Whether this process wrote any of the uncommitted bytes.
    pub fn written_by(&self, id: ProcId) -> bool {
        self.is_dirty() && self.writers.lock().contains(&id)
    }

    /// Nothing is uncommitted any more.
    pub fn clean(&self, state: &mut State) {
        self.dirty.store(false, Ordering::Release);
        self.under_lock.store(false, Ordering::Release);
        self.writers.lock().clear();
        state.killed = false;
        state.only_truncated = false;
        state.refused = None;
        if state.whole.is_none() && state.fragment.is_empty() {
            state.held = Held::default();
        }
    }

    /// Bytes came that no commit has seen.
    pub fn soil(&self, state: &mut State, now: Stamp) {
        self.dirty.store(true, Ordering::Release);
        state.only_truncated = false;
        state.refused = None;
        state.set_aside = false;
        state.last_write = now;
    }
}

impl State {
    /// What it holds is an append of whole lines.
    pub fn has_whole_lines(&self) -> bool {
        self.whole.is_none() && self.fragment.ends_with(b"\n")
    }

    /// What the handle's own reads return instead of a version, if it has its own text.
    pub fn own_text(&self, dirty: bool) -> Option<&[u8]> {
        self.whole.as_ref().filter(|_| dirty || self.only_truncated).map(|w| &w.bytes[..])
    }

    /// The size that a process which wrote through the handle is told.
    pub fn own_size(&self, current: u64) -> u64 {
        match &self.whole {
            Some(whole) => whole.bytes.len() as u64,
            None => current + self.fragment.len() as u64,
        }
    }

    /// The whole text to edit. It starts from the version that this handle's reads returned,
    /// because that is what offsets were counted in, unless the edit begins behind its end; else
    /// from `current`.
    pub fn buffer(&mut self, view: View, current: &Arc<Version>, offset: u64) -> &mut Vec<u8> {
        let State { whole, reading, fragment, .. } = self;
        let whole = whole.get_or_insert_with(|| {
            let read = reading.as_ref().filter(|(_, c)| offset <= c.len());
            let (start, content) = match read {
                Some((version, content)) => (version.clone(), Some(content.clone())),
                None => (current.clone(), current.view(view)),
            };
            let mut bytes = content.map(|c| c.to_vec()).unwrap_or_default();
            bytes.append(fragment);
            Whole { bytes, start: Some(start), in_place: true, anew: 0 }
        });
        &mut whole.bytes
    }

    /// The bytes that the handle would hold with `more` of them at `offset` of the whole text, or
    /// (`None`) at the end of what it appends.
    pub fn would_hold(&self, view: View, current: &Version, offset: Option<u64>, more: u64) -> u64 {
        let fragment = self.fragment.len() as u64;
        let whole = match (&self.whole, &self.reading, offset) {
            (Some(whole), ..) => whole.bytes.len() as u64,
            (None, _, None) => 0,
            (None, Some((_, read)), Some(_)) => read.len(),
            (None, None, Some(_)) => current.view(view).map_or(0, |c| c.len()),
        };
        let end = offset.map_or(whole + fragment + more, |offset| offset.saturating_add(more));
        end.max(whole + fragment)
    }

    /// The text is empty from here on and owes nothing to any version.
    pub fn empty(&mut self) {
        self.whole = Some(Whole { bytes: Vec::new(), start: None, in_place: false, anew: 0 });
        self.fragment.clear();
        (self.overflow, self.cramped) = (false, false);
        self.killed = false;
        self.begins();
    }
}

/// Puts `data` at `offset`, zeros in a gap.
pub fn patch(bytes: &mut Vec<u8>, offset: u64, data: &[u8], limit: u64) -> Result<()> {
    let end = offset.checked_add(data.len() as u64).ok_or(Error::TooBig)?;
    if end > limit {
        return Err(Error::TooBig);
    }
    let (from, end) = (offset as usize, end as usize);
    reserve(bytes, end.saturating_sub(bytes.len()))?;
    if bytes.len() == from {
        bytes.extend_from_slice(data);
        return Ok(());
    }
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[from..end].copy_from_slice(data);
    Ok(())
}

/// Why a text that did not fit is refused.
pub fn too_big(limit: u64) -> Refusal {
    Refusal::new(Reason::TooBig, format!("larger than the limit of {limit} bytes"))
}

/// Why an empty text is refused (rule 8).
pub fn blank() -> Refusal {
    Refusal::new(Reason::Empty, "an empty or blank file is not a save")
        .hint("to empty the document remove its items; headers without items are fine")
}
