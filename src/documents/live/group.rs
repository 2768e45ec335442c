//! Appends that come together commit together: while one transaction is under way, those that
//! come meanwhile wait, and one of them then commits all of them in the next. Each is a revision
//! of its own, in the order in which they came, and each returns after the commit, as if it had
//! been alone.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::work::Cause;
use super::{Live, SaveError, SaveRequest, Saved};
use crate::documents::{Version, Written};
use crate::model::{Actor, Basis, Refusal, Rule, View};
use crate::store::Wait;

/// Appends in one transaction at most.
const MOST: usize = 64;

/// An append, and what becomes of it.
struct Member {
    view: View,
    base: Option<Arc<Version>>,
    fragment: Vec<u8>,
    actor: Actor,
    since: Instant,
    turn: Mutex<Option<Turn>>,
    came: Condvar,
}

/// What a member that waits is told.
enum Turn {
    /// It is done.
    Done(Box<Result<Saved, SaveError>>),
    /// The others cannot say what to answer: to be tried again alone.
    Alone,
    /// It commits the next ones, itself first.
    Lead,
}

impl Member {
    fn of(request: &SaveRequest<'_>, fragment: &[u8]) -> Member {
        Member {
            view: request.view,
            base: request.base.clone(),
            fragment: fragment.to_vec(),
            actor: request.actor.clone(),
            since: Instant::now(),
            turn: Mutex::new(None),
            came: Condvar::new(),
        }
    }

    fn request(&self) -> SaveRequest<'_> {
        SaveRequest {
            view: self.view,
            base: self.base.clone(),
            basis: Basis::by(Rule::Append),
            instead_of: None,
            written: Written::Fragment(&self.fragment),
            actor: self.actor.clone(),
            under_their_lock: false,
            expect_sha256: None,
        }
    }

    fn tell(&self, turn: Turn) {
        *self.turn.lock() = Some(turn);
        self.came.notify_one();
    }

    fn wait(&self) -> Turn {
        let mut turn = self.turn.lock();
        loop {
            match turn.take() {
                Some(told) => return told,
                None => self.came.wait(&mut turn),
            }
        }
    }
}

/// Who waits for the next transaction.
#[derive(Default)]
pub(super) struct Group(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Somebody commits, or has been told to.
    led: bool,
    members: Vec<Arc<Member>>,
}

/// The right to commit. Dropped, it goes to the member that has waited longest.
struct Lead<'l> {
    group: &'l Group,
    /// Those whose append is in the transaction, and who have not been told.
    untold: Vec<Arc<Member>>,
}

impl Group {
    /// `None`: somebody else has it, and the member waits.
    fn enter(&self, member: &Arc<Member>) -> Option<Lead<'_>> {
        let mut waiting = self.0.lock();
        if waiting.led {
            waiting.members.push(Arc::clone(member));
            return None;
        }
        waiting.led = true;
        Some(self.lead())
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.0.lock().members.len()
    }

    fn lead(&self) -> Lead<'_> {
        Lead { group: self, untold: Vec::new() }
    }
}

impl Lead<'_> {
    /// Takes in those that have come until now, and want the same document.
    fn gather(&mut self, view: View) {
        let mut waiting = self.group.0.lock();
        let same = |m: &Arc<Member>| m.view.doc() == view.doc();
        let mut left = MOST - 1;
        let members = std::mem::take(&mut waiting.members);
        for member in members {
            if left > 0 && same(&member) {
                left -= 1;
                self.untold.push(member);
            } else {
                waiting.members.push(member);
            }
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let next = {
            let mut waiting = self.group.0.lock();
            let next = (!waiting.members.is_empty()).then(|| waiting.members.remove(0));
            waiting.led = next.is_some();
            next
        };
        if let Some(next) = next {
            next.tell(Turn::Lead);
        }
        // Only after a panic, or a failure that may be another's.
        self.untold.drain(..).for_each(|m| m.tell(Turn::Alone));
    }
}

impl Live {
    /// [`Live::save`] of an append that depends on nobody's lock or expectation.
    pub(super) fn append(
        &self,
        request: SaveRequest<'_>,
        fragment: &[u8],
    ) -> Result<Saved, SaveError> {
        let me = Arc::new(Member::of(&request, fragment));
        let lead = match self.group.enter(&me) {
            Some(lead) => lead,
            None => match me.wait() {
                Turn::Done(answer) => return *answer,
                Turn::Alone => return self.save_alone(request),
                Turn::Lead => self.group.lead(),
            },
        };
        self.commit_together(lead, &me)
    }

    fn commit_together(&self, mut lead: Lead<'_>, me: &Member) -> Result<Saved, SaveError> {
        let doc = me.view.doc();
        let until = me.since + self.store.patience();
        let gate = self.begin(doc, Wait::Until(until))?;
        lead.gather(me.view);
        let all: Vec<&Member> =
            std::iter::once(me).chain(lead.untold.iter().map(|m| &**m)).collect();
        let done = self.inside(gate, false, |work, gate| {
            let mut done: Vec<Result<Saved, Refusal>> = Vec::with_capacity(all.len());
            for member in &all {
                let request = member.request();
                done.push(match self.plan(&request, work.slot(doc), &work.cx) {
                    Ok(plan) => {
                        let base = request.base.as_ref().map(|s| s.rev);
                        let basis = Basis::by(Rule::Append);
                        let cause = Cause { actor: &request.actor, base, basis, unseen: false };
                        Ok(self.carry_out(work, gate, doc, plan, &cause, false)?)
                    }
                    Err(refusal) => Err(refusal),
                });
            }
            Ok(done)
        });
        let mut done = match done {
            Ok(done) => done.into_iter(),
            Err(e) if lead.untold.is_empty() => return Err(e),
            // It may be about one of the others.
            Err(_) => {
                drop(lead);
                return self.save_alone(me.request());
            }
        };
        let mine = done.next();
        let others = std::mem::take(&mut lead.untold);
        // The next ones can begin.
        drop(lead);
        for (member, answer) in others.iter().zip(done) {
            member.tell(Turn::Done(Box::new(answer.map_err(SaveError::from))));
        }
        match mine {
            Some(answer) => Ok(answer?),
            None => self.save_alone(me.request()),
        }
    }
}
