//! What is kept in memory of one managed file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;

use crate::documents::files::Print;
use crate::documents::{Content, Version};
use crate::model::{Actor, FileId, Overlap, Rev, Stamp};

/// One managed file.
pub(super) struct Slot {
    pub(super) file: FileId,
    pub(super) inner: Mutex<Inner>,
    /// The round of `tick` in which it was last asked for.
    pub(super) used: AtomicU64,
    /// How many wait for news of it.
    pub(super) watched: AtomicUsize,
    /// Who is changing the file in the store right now, if that is known.
    pub(super) hand: Mutex<Option<Actor>>,
}

/// Its state. Cheap to clone: everything large is shared.
#[derive(Clone, Default)]
pub(super) struct Inner {
    /// It was looked at: `rev`, `mtime`, `print` and `recorded` hold.
    pub(super) known: bool,
    /// Nobody has read it, but its name was looked at, and then it was as `print` says.
    pub(super) noticed: bool,
    /// The current version; `None`: not looked at yet, or let go to save memory.
    pub(super) version: Option<Arc<Version>>,
    /// Its number. Within one slot it only grows, and stands for one content.
    pub(super) rev: Rev,
    /// Its mtime.
    pub(super) mtime: Stamp,
    /// What the file was when its content was taken; `None`: there was none.
    pub(super) print: Option<Print>,
    /// The file was so new then that another write may have left the same print.
    pub(super) fresh: bool,
    /// The newest revision on record, 0 when there is none.
    pub(super) recorded: Rev,
    /// Its archive, when it is in memory: the next delta starts there.
    pub(super) archive: Option<Content>,
    /// The current version is not on record yet, and this is to be said of it.
    pub(super) unrecorded: Option<Notes>,
    /// What was there before the first change; to be recorded before the current version.
    pub(super) found: Option<Arc<Version>>,
}

/// What the history says of a change made behind the mount.
#[derive(Clone, Default)]
pub(super) struct Notes {
    pub(super) summary: String,
    pub(super) overlaps: Vec<Overlap>,
    /// Who made it; `None`: nobody that is known.
    pub(super) actor: Option<Actor>,
}

/// How many files are kept an eye on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that were looked at since the start.
    pub known: usize,
    /// Files whose content is in memory.
    pub in_memory: usize,
    /// Bytes of those.
    pub bytes: u64,
    /// Files with a change that is not on record yet.
    pub unrecorded: usize,
}

impl Slot {
    pub(super) fn new(file: FileId) -> Slot {
        Slot {
            file,
            inner: Mutex::default(),
            used: AtomicU64::new(0),
            watched: AtomicUsize::new(0),
            hand: Mutex::default(),
        }
    }
}

impl Inner {
    /// Whether somebody holds the current version.
    pub(super) fn held(&self) -> bool {
        self.version.as_ref().is_some_and(|v| Arc::strong_count(v) > 1)
    }

    /// Whether the version may be let go: whatever is there can be read again, and its print tells
    /// whether it is still the same.
    pub(super) fn idle(&self) -> bool {
        let recorded = self.unrecorded.is_none() && self.found.is_none();
        self.version.is_some() && !self.held() && recorded && !self.fresh
    }
}
