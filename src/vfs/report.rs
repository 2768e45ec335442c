//! What the tree can tell about itself: counters, last refusals, open handles.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use crate::model::{Actor, Refusal, Stamp, View};

/// Events of one kind that are kept in memory.
const EVENTS_KEPT: usize = 64;

/// A refused save.
#[derive(Debug, Clone, Serialize)]
pub struct RefusalEvent {
    /// The name that was saved.
    pub name: &'static str,
    /// When, local time.
    pub at: String,
    /// Program.
    pub program: String,
    /// Its pid.
    pub pid: u32,
    /// Class of the reason.
    pub reason: &'static str,
    /// One line.
    pub message: String,
    /// The file with the text, when it could be kept.
    pub kept_as: Option<String>,
}

/// An open document.
#[derive(Debug, Clone, Serialize)]
pub struct HandleInfo {
    /// The name.
    pub name: &'static str,
    /// Who opened it.
    pub pid: u32,
    /// Program at the open.
    pub program: String,
    /// Opened for writing.
    pub writable: bool,
    /// It has bytes that are not committed.
    pub uncommitted: bool,
}

/// The state of the tree at one moment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Status {
    /// Open documents.
    pub handles: Vec<HandleInfo>,
    /// Committed saves that made a revision, since the mount.
    pub saves: u64,
    /// Committed saves that changed nothing.
    pub unchanged: u64,
    /// Refused saves.
    pub refused: u64,
    /// Texts kept as `NAME.unsaved-PID`.
    pub unsaved: u64,
    /// The latest refusals, oldest first.
    pub refusals: Vec<RefusalEvent>,
}

/// Counts and remembers.
#[derive(Default)]
pub struct Report {
    saves: AtomicU64,
    unchanged: AtomicU64,
    refused: AtomicU64,
    unsaved: AtomicU64,
    refusals: Mutex<VecDeque<RefusalEvent>>,
}

fn push<T>(queue: &Mutex<VecDeque<T>>, event: T) {
    let mut queue = queue.lock();
    if queue.len() >= EVENTS_KEPT {
        queue.pop_front();
    }
    queue.push_back(event);
}

impl Report {
    /// A save was committed.
    pub fn saved(&self, changed: bool) {
        let counter = if changed { &self.saves } else { &self.unchanged };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A text was kept as `NAME.unsaved-PID`.
    pub fn unsaved(&self) {
        self.unsaved.fetch_add(1, Ordering::Relaxed);
    }

    /// A save was refused.
    pub fn refused(
        &self,
        view: View,
        actor: &Actor,
        refusal: &Refusal,
        kept_as: Option<&str>,
        at: Stamp,
    ) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        push(
            &self.refusals,
            RefusalEvent {
                name: view.name(),
                at: at.iso(),
                program: actor.program.clone(),
                pid: actor.pid,
                reason: refusal.reason.as_str(),
                message: refusal.to_string(),
                kept_as: kept_as.map(str::to_owned),
            },
        );
    }

    /// Everything, with the handles that the caller knows of.
    pub fn status(&self, handles: Vec<HandleInfo>) -> Status {
        Status {
            handles,
            saves: self.saves.load(Ordering::Relaxed),
            unchanged: self.unchanged.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            unsaved: self.unsaved.load(Ordering::Relaxed),
            refusals: self.refusals.lock().iter().cloned().collect(),
        }
    }
}
