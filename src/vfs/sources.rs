//! Who wrote the plain files, and when: a renamed file is judged by what its writer had met by then
//! (SEMANTICS, section 4). Keyed by node, which is never used again within a mount.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::layer::Node;
use crate::documents::Version;
use crate::model::View;
use crate::process::{ProcId, Process};

/// Files remembered; those written longest ago go first.
const FILES_KEPT: usize = 4096;

/// Files of which it is remembered that they began as a version: old versions take room.
const VERSIONS_KEPT: usize = 64;

/// What is known of one plain file.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The thread that wrote last.
    pub tid: u32,
    /// The thread that opened the file for the kernel to write it without telling.
    pub opener: u32,
    /// Its process.
    pub writer: Option<Process>,
    /// It was fsynced since the last write.
    pub synced: bool,
    /// It is the text of a document that was copied or renamed away, not written since.
    pub copy: Option<(View, Arc<Version>)>,
    /// It was such a copy before it was written: what is in it began as this.
    pub began_as: Option<(View, Arc<Version>)>,
    /// It is a managed file that was renamed away, not written since.
    pub away: Option<View>,
    /// [`crate::fs::observed::Observed::generation`] at its last write: what the writer met later
    /// is not in the file.
    pub generation: u64,
    used: u64,
}

/// All remembered files.
#[derive(Default)]
pub struct Sources {
    files: Mutex<(HashMap<Node, Source>, u64)>,
}

impl Sources {
    fn with<T>(&self, node: Node, f: impl FnOnce(&mut Source) -> T) -> T {
        let mut guard = self.files.lock();
        let (files, clock) = &mut *guard;
        *clock += 1;
        if files.len() >= FILES_KEPT && !files.contains_key(&node) {
            let mut used: Vec<u64> = files.values().map(|s| s.used).collect();
            used.sort_unstable();
            let limit = used[used.len() / 4];
            files.retain(|_, s| s.used > limit);
        }
        let source = files.entry(node).or_default();
        source.used = *clock;
        f(source)
    }

    /// The node is gone; its number is never used again.
    pub fn forget(&self, node: Node) {
        self.files.lock().0.remove(&node);
    }

    /// Lets go of the versions that all but the newest files began as. For a thread that serves
    /// nobody.
    pub fn thin(&self) {
        let mut guard = self.files.lock();
        let holds = |s: &Source| s.began_as.is_some();
        let mut used: Vec<u64> = guard.0.values().filter(|s| holds(s)).map(|s| s.used).collect();
        if used.len() <= VERSIONS_KEPT {
            return;
        }
        used.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = used[VERSIONS_KEPT - 1];
        for source in guard.0.values_mut().filter(|s| s.used < oldest) {
            source.began_as = None;
        }
    }

    /// Whether the last writer was this thread: then it need not be looked up again.
    pub fn last_writer_was(&self, node: Node, tid: u32) -> bool {
        tid != 0 && self.files.lock().0.get(&node).is_some_and(|s| s.tid == tid)
    }

    /// `writer` opens the file for writing or writes; `None`: the one that is on record.
    pub fn written(&self, node: Node, tid: u32, writer: Option<Process>, generation: u64) {
        self.with(node, |source| {
            source.synced = false;
            source.away = None;
            if let Some(copy) = source.copy.take() {
                source.began_as = Some(copy);
            }
            if let Some(writer) = writer {
                source.tid = tid;
                source.writer = Some(writer);
            }
            source.generation = generation;
        });
    }

    /// The thread has opened the file, which the kernel writes without telling.
    pub fn opened(&self, node: Node, tid: u32) {
        self.with(node, |source| source.opener = tid);
    }

    /// The file is the text of a document.
    pub fn copied(&self, node: Node, view: View, version: Arc<Version>) {
        self.with(node, |source| {
            *source = Source { used: source.used, ..Source::default() };
            source.copy = Some((view, version));
        });
    }

    /// The file is a managed one that was renamed away.
    pub fn renamed_away(&self, node: Node, view: View) {
        self.with(node, |source| {
            *source = Source { used: source.used, away: Some(view), ..Source::default() };
        });
    }

    /// Nothing is left in the file of what was there.
    pub fn emptied(&self, node: Node) {
        if let Some(source) = self.files.lock().0.get_mut(&node) {
            (source.copy, source.began_as, source.away) = (None, None, None);
        }
    }

    /// The file was fsynced.
    pub fn synced(&self, node: Node) {
        if let Some(source) = self.files.lock().0.get_mut(&node) {
            source.synced = true;
        }
    }

    /// The version that the file is a copy of.
    pub fn copy_of(&self, node: Node) -> Option<(View, Arc<Version>)> {
        self.files.lock().0.get(&node)?.copy.clone()
    }

    /// The files that this process wrote last, newest first, at most `most`.
    pub fn written_by(&self, id: ProcId, most: usize) -> Vec<Node> {
        let guard = self.files.lock();
        let by = |s: &Source| s.writer.as_ref().is_some_and(|w| w.id == id);
        let mut found: Vec<_> =
            guard.0.iter().filter(|(_, s)| by(s)).map(|(n, s)| (s.used, *n)).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.into_iter().take(most).map(|(_, node)| node).collect()
    }

    /// All that is known.
    pub fn get(&self, node: Node) -> Option<Source> {
        self.files.lock().0.get(&node).cloned()
    }
}
