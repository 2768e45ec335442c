//! Names that were unlinked or renamed away: free for the remover's session, unchanged for
//! everybody else (semantics section 6).

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::processes::{ProcId, Process};
use crate::model::{Stamp, View};

/// How long a name stays free, in nanoseconds.
pub const FREE_FOR: i64 = 5_000_000_000;

struct Absence {
    view: View,
    remover: ProcId,
    session: u32,
    until: Stamp,
}

/// The names that are free for somebody.
#[derive(Default)]
pub struct Absences {
    list: Mutex<Vec<Absence>>,
    count: AtomicUsize,
}

impl Absences {
    /// Nobody has removed anything lately.
    pub fn none(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Frees the name for the remover and its session. Nobody known, nobody to free it for.
    pub fn hide(&self, view: View, remover: Option<&Process>, now: Stamp) {
        let Some(remover) = remover else { return };
        self.reveal(view, Some(remover), now);
        let mut list = self.list.lock();
        list.push(Absence {
            view,
            remover: remover.id,
            session: remover.session,
            until: Stamp(now.0.saturating_add(FREE_FOR)),
        });
        self.count.store(list.len(), Ordering::Release);
    }

    /// The name is there again for this process and its session.
    pub fn reveal(&self, view: View, who: Option<&Process>, now: Stamp) {
        if self.none() {
            return;
        }
        let mut list = self.list.lock();
        list.retain(|a| a.lasts(now) && !(a.view == view && who.is_some_and(|p| a.covers(p))));
        self.count.store(list.len(), Ordering::Release);
    }

    /// Whether the name is free for this process.
    pub fn hides(&self, view: View, who: Option<&Process>, now: Stamp) -> bool {
        let Some(who) = who else { return false };
        self.list.lock().iter().any(|a| a.view == view && a.lasts(now) && a.covers(who))
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
    /// Never longer than [`FREE_FOR`], also when the clock was set back.
    fn lasts(&self, now: Stamp) -> bool {
        (1..=FREE_FOR).contains(&self.until.0.saturating_sub(now.0))
    }

    fn covers(&self, who: &Process) -> bool {
        self.remover == who.id || (self.session != 0 && self.session == who.session)
    }
}
