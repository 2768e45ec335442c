//! Sizes that nobody has asked for. Before it opens a file the kernel asks for its attributes, to
//! check permissions: LOOKUP, GETATTR, OPEN, all by the thread that opens. A `stat` is the same
//! GETATTR with another LOOKUP, or none, behind it. Only what `stat` has told decides which version a
//! first read returns (R1), so an OPEN takes back what the GETATTR right before it has done.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::handle::DocHandle;
use crate::documents::Version;
use crate::model::View;

/// Threads remembered; beyond that all are forgotten, and what they were told counts.
const THREADS: usize = 1024;

type Before = Vec<(Weak<DocHandle>, Option<Arc<Version>>)>;

/// The last GETATTR of each thread, as long as an OPEN may follow it.
#[derive(Default)]
pub struct Asked {
    last: Mutex<HashMap<u32, (View, Before)>>,
    count: AtomicUsize,
}

impl Asked {
    /// The thread is told the size of `version`, which the first reads of `handles` will return.
    pub fn told(
        &self,
        tid: u32,
        view: View,
        handles: impl Iterator<Item = Arc<DocHandle>>,
        version: &Arc<Version>,
    ) {
        let tell = |h: Arc<DocHandle>| {
            let before = h.told.lock().replace(version.clone());
            (Arc::downgrade(&h), before)
        };
        let before: Before = handles.map(tell).collect();
        let mut last = self.last.lock();
        if last.len() >= THREADS {
            last.clear();
        }
        match before.is_empty() {
            true => drop(last.remove(&tid)),
            false => drop(last.insert(tid, (view, before))),
        }
        self.count.store(last.len(), Ordering::Release);
    }

    /// The thread looks a name up: whatever it was told before, it has asked for.
    pub fn looked_up(&self, tid: u32) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut last = self.last.lock();
            last.remove(&tid);
            self.count.store(last.len(), Ordering::Release);
        }
    }

    /// The thread opens the document: what it was told just now was for that.
    pub fn opened(&self, tid: u32, view: View) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let taken = {
            let mut last = self.last.lock();
            let taken = last.remove(&tid);
            self.count.store(last.len(), Ordering::Release);
            taken
        };
        let Some((_, before)) = taken.filter(|(asked, _)| *asked == view) else { return };
        for (handle, version) in before {
            if let Some(handle) = handle.upgrade() {
                let mut told = handle.told.lock();
                // Unless it has been read through since.
                if told.is_some() {
                    *told = version;
                }
            }
        }
    }
}
