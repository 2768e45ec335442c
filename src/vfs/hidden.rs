//! Names that were unlinked or renamed away: free for the remover and its kin, unchanged for everybody
//! else (SEMANTICS, section 6). What was there then is what a file that is made anew takes the place
//! of (section 4).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::layer::Caller;
use super::tree::Tree;
use crate::documents::Version;
use crate::documents::live::InsteadOf;
use crate::fs::observed::{Choice, Who};
use crate::model::{Rule, Stamp, View};

/// How long a name stays free, in nanoseconds.
pub const FREE_FOR: i64 = 5_000_000_000;
/// Names that are free for somebody at once; the oldest one comes back first.
const MOST: usize = 1024;

/// A name that is free for somebody.
#[derive(Debug, Clone)]
pub struct Absence {
    /// The name.
    pub view: View,
    /// Who has removed it.
    pub remover: Who,
    /// What it showed then.
    pub version: Arc<Version>,
    /// Of a queue with lines that the remover had not met. The name stays with them, for everybody.
    pub left: Option<Left>,
    until: Stamp,
    number: u64,
}

/// What an unlink has left of a queue.
#[derive(Debug, Clone)]
pub struct Left {
    /// What the remover had met.
    pub met: Arc<Version>,
    /// What is there since.
    pub version: Arc<Version>,
}

/// The names that are free for somebody.
#[derive(Default)]
pub struct Absences {
    list: Mutex<Vec<Absence>>,
    count: AtomicUsize,
    numbers: AtomicU64,
}

impl Absences {
    /// Nobody has removed anything lately.
    pub fn none(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Frees the name for the remover and its kin. Nobody known, nobody to free it for.
    pub fn hide(
        &self,
        view: View,
        remover: &Who,
        version: &Arc<Version>,
        left: Option<Left>,
        now: Stamp,
    ) {
        if remover.process.is_none() {
            return;
        }
        self.reveal(view, now, |other| other.remover == *remover);
        let mut list = self.list.lock();
        if list.len() >= MOST {
            list.remove(0);
        }
        list.push(Absence {
            view,
            remover: remover.clone(),
            version: version.clone(),
            left,
            until: Stamp(now.0.saturating_add(FREE_FOR)),
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
        });
        self.count.store(list.len(), Ordering::Release);
    }

    /// The name is there again: these removals of it count no more.
    pub fn reveal(&self, view: View, now: Stamp, which: impl Fn(&Absence) -> bool) {
        if self.none() {
            return;
        }
        // Who is kin is asked with no lock held.
        let all = self.list.lock().clone();
        let of_name = all.iter().filter(|a| a.view == view && which(a));
        let gone: Vec<u64> = of_name.map(|a| a.number).collect();
        let mut list = self.list.lock();
        list.retain(|a| a.lasts(now) && !gone.contains(&a.number));
        self.count.store(list.len(), Ordering::Release);
    }

    /// The newest removal of the name by somebody who `is_kin`.
    pub fn of(&self, view: View, now: Stamp, is_kin: impl Fn(&Who) -> bool) -> Option<Absence> {
        if self.none() {
            return None;
        }
        let of_name = |a: &&Absence| a.view == view && a.lasts(now);
        let all: Vec<Absence> = self.list.lock().iter().filter(of_name).cloned().collect();
        all.into_iter().rev().find(|a| is_kin(&a.remover))
    }

    /// Forgets what has run out.
    pub fn tick(&self, now: Stamp) {
        if !self.none() {
            let mut list = self.list.lock();
            list.retain(|a| a.lasts(now));
            self.count.store(list.len(), Ordering::Release);
        }
    }
}

impl Absence {
    /// What a file that is made anew takes the place of.
    pub fn replaced(&self) -> InsteadOf {
        let left = self.left.as_ref().map(|left| left.version.clone());
        InsteadOf { was: self.version.clone(), left }
    }

    /// What its text is compared with where that needs no search.
    pub fn base(&self) -> Option<Choice> {
        let left = self.left.as_ref()?;
        Some(Choice::of(Some(left.met.clone()), Rule::Unlinked))
    }

    fn began(&self) -> Stamp {
        Stamp(self.until.0.saturating_sub(FREE_FOR))
    }

    /// Never longer than [`FREE_FOR`], also when the clock was set back.
    fn lasts(&self, now: Stamp) -> bool {
        (1..=FREE_FOR).contains(&self.until.0.saturating_sub(now.0))
    }
}

impl Tree {
    /// The name is free for the caller and its kin from now on; `version` is what it showed.
    pub(super) fn hide(&self, who: &Caller, view: View, version: &Arc<Version>) {
        let remover = self.who(who, self.process(who).as_ref());
        self.absences.hide(view, &remover, version, None, self.now());
    }

    /// The caller has removed from a queue what it had met. A text that it or its kin put there at once
    /// takes the place of that.
    pub(super) fn taken(&self, who: &Caller, view: View, version: &Arc<Version>, left: Left) {
        let remover = self.who(who, self.process(who).as_ref());
        self.absences.hide(view, &remover, version, Some(left), self.now());
    }

    /// The name is there again for this writer and its kin, as far as it was removed by `then`.
    pub(super) fn reveal(&self, view: View, writer: &Who, then: Stamp) {
        let kin = |a: &Absence| a.began() <= then && self.is_same_writer(writer, &a.remover, view);
        self.absences.reveal(view, self.now(), kin);
    }
}
