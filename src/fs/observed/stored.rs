//! Looks that an earlier daemon has put on record: whose they are is known, the version not yet.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::process::{ProcId, Process};
use super::seen::{Look, Seen};
use crate::documents::Version;
use crate::model::{DocId, View};

/// A look on record.
#[derive(Debug, Clone)]
pub struct Recalled {
    /// Whose.
    pub process: Process,
    /// Under this name.
    pub view: View,
    /// It was a save.
    pub saved: bool,
    /// How the record is found.
    pub identity: Vec<u8>,
}

/// Finds the version that is on record for a document and an identity; `None`: it is gone.
pub type Find = Box<dyn Fn(DocId, &[u8]) -> Option<Arc<Version>> + Send + Sync>;

/// Records, with the order in which they were seen.
type Looks = Vec<(Recalled, u64)>;

/// Looks whose versions nobody has needed yet.
#[derive(Default)]
pub struct Waiting {
    any: AtomicBool,
    /// Locked while versions are looked for: whoever asks
    /// meanwhile has to wait for the answer.
    looks: Mutex<(Looks, Option<Find>)>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("any", &self.any).finish_non_exhaustive()
    }
}

impl Seen {
    /// How versions on record are found.
    pub fn recalls_with(&self, find: Find) {
        self.waiting.looks.lock().1 = Some(find);
    }

    /// Takes up what an earlier daemon had recorded, in the order in which it was seen.
    pub fn recall(&self, look: Recalled) {
        let at = self.next();
        self.waiting.looks.lock().0.push((look, at));
        self.waiting.any.store(true, Ordering::Release);
    }

    /// Finds the versions that processes which are `wanted` have seen of a document.
    pub(super) fn wake(&self, doc: DocId, wanted: impl Fn(&Process) -> bool) {
        if !self.waiting.any.load(Ordering::Acquire) {
            return;
        }
        let mut waiting = self.waiting.looks.lock();
        let (looks, find) = &mut *waiting;
        let Some(find) = find else { return };
        let found = looks.extract_if(.., |(l, _)| l.view.doc() == doc && wanted(&l.process));
        for (look, at) in found.collect::<Vec<_>>() {
            if let Some(version) = find(doc, &look.identity) {
                self.recalled(&look, Look { version, view: look.view, at });
            }
        }
        self.waiting.any.store(!looks.is_empty(), Ordering::Release);
    }

    /// Whose looks wait that can be found, and of what. None are added later.
    pub(super) fn waiting_looks(&self) -> HashSet<(ProcId, DocId)> {
        if !self.waiting.any.load(Ordering::Acquire) {
            return HashSet::new();
        }
        let waiting = self.waiting.looks.lock();
        let (looks, find) = &*waiting;
        let all = looks.iter().map(|(look, _)| (look.process.id, look.view.doc()));
        all.filter(|_| find.is_some()).collect()
    }

    /// The documents of which looks wait.
    pub(super) fn waiting_docs(&self) -> Vec<DocId> {
        self.waiting.looks.lock().0.iter().map(|(look, _)| look.view.doc()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::Document;
    use crate::documents::missions::Missions;
    use crate::model::{Rev, Stamp};

    const DOC: DocId = DocId::Missions;

    fn version(rev: u64) -> Arc<Version> {
        let state = Missions::default().fresh();
        Arc::new(Version { doc: DOC, rev: Rev(rev), mtime: Stamp(0), state, belief: false })
    }

    fn process(pid: u32, parent: u32, session: u32) -> Process {
        let id = |pid| ProcId { pid, ident: u64::from(pid) };
        Process { id: id(pid), ancestors: vec![id(parent)], session, program: String::new() }
    }

    #[test]
    fn a_version_is_looked_for_when_it_concerns_somebody() {
        let seen = Seen::default();
        let found = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&found);
        seen.recalls_with(Box::new(move |_, identity| {
            log.lock().push(identity[0]);
            // One is not on record any more.
            (identity[0] != 9).then(|| version(u64::from(identity[0])))
        }));
        let look = |process: &Process, rev: u8, saved| Recalled {
            process: process.clone(),
            view: View::MissionsMd,
            saved,
            identity: vec![rev],
        };
        let (own, child, stranger) = (process(5, 2, 2), process(6, 5, 2), process(7, 3, 3));
        seen.recall(look(&own, 4, false));
        seen.recall(look(&own, 4, true));
        seen.recall(look(&child, 8, false));
        seen.recall(look(&stranger, 9, false));
        assert!(!seen.is_empty() && found.lock().is_empty());
        // Seen since: it stays the newer one of the two at this revision.
        let since = version(4);
        seen.looked(&own, View::MissionsMd, &since);
        assert!(Arc::ptr_eq(&seen.own_newest(own.id, DOC).unwrap(), &since));
        assert_eq!(*found.lock(), [4, 4]);
        let verdict = seen.resolve(Some(&own), None, None, View::MissionsMd, b"## Pending\n");
        assert_eq!(verdict.seen.unwrap().rev, Rev(8), "of a child");
        assert_eq!(*found.lock(), [4, 4, 8]);
        assert!(seen.own_newest(stranger.id, DOC).is_none());
        assert!(seen.own_newest(stranger.id, DOC).is_none());
        assert_eq!(*found.lock(), [4, 4, 8, 9], "looked for once");
    }
}
