//! Saves: the one way in which a managed file changes through us (R2, R3).

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::gate::Cause;
use super::slot::{Inner, Notes, Slot};
use super::{ManagedFiles, Published};
use crate::documents::entries::{self, Syntax};
use crate::documents::files::Swap;
use crate::documents::live::{Checked, InsteadOf, SaveError, SaveRequest, Saved, restored};
use crate::documents::{Content, Context, Plan, Save, State, Version, Written};
use crate::model::{Actor, Basis, DocId, FileId, Reason, Refusal, Rev, Rule, View};
use crate::store::{Gate, StoreError, Wait};

/// Whole files larger than this are planned before the gate is opened, and again inside only if
/// the file has changed meanwhile.
const EARLY: usize = 16 << 10;
/// How often a save is begun again because somebody else has changed the file at that moment.
const TRIES: usize = 100;

type Planned = Result<Plan, Refusal>;

/// A change of a file: how it is planned, and what is said of it.
struct Change<'a> {
    file: FileId,
    cause: Cause<'a>,
    plan: &'a dyn Fn(&Version, &Context) -> Planned,
    /// A plan made before the gate was opened, and for which version.
    early: Option<(Arc<Version>, Planned)>,
    expect: Option<[u8; 32]>,
}

impl ManagedFiles {
    /// Commits a save, whole or not at all, merged with what the file holds inside the
    /// transaction. When this returns, the file holds it and the next look by anyone has it. It
    /// survives the death of this process, and power loss after [`ManagedFiles::sync`] (R8).
    ///
    /// Errors: nothing of the save was committed, and the file is as it was.
    /// [`StoreError::Busy`] when another program kept the database locked.
    pub fn save(&self, request: SaveRequest<'_>) -> Result<Saved, SaveError> {
        let DocId::File(file) = request.view.doc() else { return Err(not_managed(request.view)) };
        let plan = |current: &Version, cx: &Context| {
            let before = match &request.instead_of {
                Some(unlinked) => self.before(file, unlinked, current, cx)?,
                None => None,
            };
            // What was to be replaced is not what is there: the base says nothing of that.
            let base =
                request.base.as_ref().filter(|_| request.instead_of.is_none() || before.is_some());
            let current = before.unwrap_or_else(|| current.state.clone());
            let save = Save {
                view: request.view,
                seen: base.map(|s| &s.state),
                written: request.written,
                current: &current,
                outside_since_seen: false,
                rows: None,
            };
            self.document(file).plan(&save, cx)
        };
        let large = matches!(request.written, Written::Whole(text) if text.len() > EARLY);
        let early = match large {
            true => {
                let current = self.current(file)?;
                let plan = plan(&current, &self.context());
                Some((current, plan))
            }
            false => None,
        };
        self.commit(Change {
            file,
            cause: Cause {
                actor: &request.actor,
                base: request.base.as_ref().map(|s| s.rev),
                basis: request.basis.clone(),
            },
            plan: &plan,
            early,
            expect: request.expect_sha256,
        })
    }

    /// What there would be if the file had not been unlinked; `None`: somebody has made it anew.
    fn before(
        &self,
        file: FileId,
        unlinked: &InsteadOf,
        current: &Version,
        cx: &Context,
    ) -> Result<Option<State>, Refusal> {
        let view = View::File(file);
        let Some(left) = &unlinked.left else {
            let gone = current.view(view).is_none_or(|c| c.is_empty());
            return Ok(gone.then(|| unlinked.was.state.clone()));
        };
        let was = unlinked.was.view(view).map(|c| c.to_vec()).unwrap_or_default();
        let save = Save {
            view,
            seen: Some(&left.state),
            written: Written::Whole(&was),
            current: &current.state,
            outside_since_seen: false,
            rows: None,
        };
        self.document(file).plan(&save, cx).map(|plan| Some(plan.next))
    }

    /// Makes the text what it was in `old`, byte for byte, as one more revision; removes the
    /// file if there was none then. What was changed since then is undone by it and stays in
    /// the history.
    ///
    /// Errors: as [`ManagedFiles::save`]; refused when that text is not allowed any more.
    pub fn restore(
        &self,
        file: FileId,
        old: &Arc<Version>,
        actor: &Actor,
    ) -> Result<Saved, SaveError> {
        let view = View::File(file);
        let wanted = old.view(view).map(|c| c.to_vec());
        let plan = |current: &Version, cx: &Context| {
            let save = Save {
                view,
                seen: Some(&current.state),
                written: wanted.as_deref().map_or(Written::Removed, Written::Whole),
                current: &current.state,
                outside_since_seen: false,
                rows: None,
            };
            let plan = self.document(file).plan(&save, cx)?;
            restored(plan, view, wanted.as_deref(), old.rev)
        };
        let base = Some(self.current(file)?.rev);
        let cause = Cause { actor, base, basis: Basis::by(Rule::Command) };
        self.commit(Change { file, cause, plan: &plan, early: None, expect: None })
    }

    /// What a save of `text` by a writer that has seen the current version would do.
    ///
    /// Errors: why it would be refused.
    pub fn check(&self, file: FileId, text: &[u8]) -> Result<Checked, SaveError> {
        let current = self.current(file)?;
        let document = self.document(file);
        let fresh = document.state(None);
        let save = |seen, current| Save {
            view: View::File(file),
            seen,
            written: Written::Whole(text),
            current,
            outside_since_seen: false,
            rows: None,
        };
        // A text that is there already, put there behind the mount, may be one that no save could.
        document.plan(&save(None, &fresh), &self.context())?;
        let plan = document.plan(&save(Some(&current.state), &current.state), &self.context())?;
        Ok(Checked {
            changed: !Arc::ptr_eq(&plan.next, &current.state),
            summary: plan.summary,
            overlaps: plan.overlaps,
            next: plan.next,
        })
    }

    /// What there is after the save that its text did not have.
    fn others(&self, file: FileId, plan: &Plan) -> usize {
        let view = View::File(file);
        let syntax = Syntax::of(view, Some(self.document(file).kind()));
        entries::others(&plan.next, &plan.believed, view, syntax)
    }

    fn commit(&self, mut change: Change<'_>) -> Result<Saved, SaveError> {
        let slot = self.slot(change.file);
        self.use_of(&slot);
        for _ in 0..TRIES {
            let gate = self.store.begin(Wait::Patiently, false)?;
            if let Some(saved) = self.commit_once(gate, &slot, &mut change)? {
                return Ok(saved);
            }
        }
        let what = format!("{} is being changed behind the mount all the time", change.file.path());
        Err(Refusal::new(Reason::Store, what).hint("try again").into())
    }

    /// `None`: somebody has changed the file since it was looked at; nothing was committed.
    fn commit_once(
        &self,
        mut gate: Gate<'_>,
        slot: &Slot,
        change: &mut Change<'_>,
    ) -> Result<Option<Saved>, SaveError> {
        let mut shown = slot.inner.lock();
        let mut inner = shown.clone();
        let mut news = Vec::new();
        let recorded = self.catch_up(&gate, slot, &mut inner, &mut news);
        let recorded = recorded.map_err(|e| gate.explain(e))?;
        let Some(current) = inner.version.clone() else { return Ok(None) };
        let planned =
            expect(change.expect, slot.file, &current).and_then(|()| match change.early.take() {
                Some((version, plan)) if Arc::ptr_eq(&version.state, &current.state) => plan,
                _ => (change.plan)(&current, &self.context()),
            });
        let done = match planned {
            Ok(plan) if !Arc::ptr_eq(&plan.next, &current.state) => {
                change.cause.basis.others = self.others(slot.file, &plan);
                let written =
                    self.write(&gate, slot, &mut inner, &current, &plan, &change.cause, &mut news);
                let Some(swap) = written.map_err(|e| gate.explain(e))? else { return Ok(None) };
                gate.commit()?;
                swap.keep();
                Ok((plan, true))
            }
            planned => {
                if recorded {
                    gate.commit()?;
                }
                planned.map(|plan| (plan, false))
            }
        };
        let version = inner.version.clone();
        *shown = inner;
        drop(shown);
        self.tell(&news);
        drop(gate);
        let (plan, changed) = done?;
        let version = version.unwrap_or(current);
        Ok(Some(saved(version, plan, changed, change.cause.basis.clone())))
    }

    /// Replaces the file and records the revision. `None`: the file is not what it was.
    #[expect(clippy::too_many_arguments, reason = "the transaction, what is there, what is to be")]
    fn write(
        &self,
        gate: &Gate<'_>,
        slot: &Slot,
        inner: &mut Inner,
        current: &Arc<Version>,
        plan: &Plan,
        cause: &Cause<'_>,
        news: &mut Vec<Published>,
    ) -> Result<Option<Box<dyn Swap + '_>>, StoreError> {
        let file = slot.file;
        let view = View::File(file);
        let mtime = self.next_mtime(inner);
        let (old, new) = (current.view(view), plan.next.view(view));
        let appended = match (&inner.print, &old, &new) {
            (Some(print), Some(old), Some(new)) => match tail(old, new) {
                Some(tail) => self.disk.append(file, print, &tail, mtime)?,
                None => None,
            },
            _ => None,
        };
        let swap = match appended {
            Some(swap) => swap,
            None => {
                let swap = self.disk.replace(file, inner.print.as_ref(), new.as_ref(), mtime)?;
                let Some(swap) = swap else { return Ok(None) };
                swap
            }
        };
        if inner.recorded == Rev(0) && old.is_some() {
            inner.found = Some(Arc::clone(current));
        }
        self.record_found(gate, file, inner)?;
        (inner.print, inner.fresh, inner.mtime) = (swap.print(), false, mtime);
        let mut version = Version {
            doc: DocId::File(file),
            rev: Rev(0),
            mtime,
            state: State::clone(&plan.next),
            belief: false,
        };
        let notes =
            Notes { summary: plan.summary.clone(), overlaps: plan.overlaps.clone(), actor: None };
        version.rev = self.record(gate, file, inner, &version, None, cause, &notes)?;
        inner.rev = version.rev;
        let version = Arc::new(version);
        inner.version = Some(Arc::clone(&version));
        self.remember(Arc::clone(current));
        news.push(Published {
            version,
            actor: cause.actor.clone(),
            doc: DocId::File(file),
            before: current.rev,
        });
        Ok(Some(swap))
    }
}

fn saved(version: Arc<Version>, plan: Plan, changed: bool, basis: Basis) -> Saved {
    let believed = match Arc::ptr_eq(&plan.next, &plan.believed) {
        true => Arc::clone(&version),
        false => Arc::new(Version { state: plan.believed, belief: true, ..(*version).clone() }),
    };
    Saved { version, believed, changed, basis, overlaps: plan.overlaps }
}

/// What `new` has after all of `old`; `None` when it does not begin with it.
fn tail(old: &Content, new: &Content) -> Option<Vec<u8>> {
    (old.len() < new.len() && new.starts_with(old)).then(|| new.read(old.len(), usize::MAX))
}

fn not_managed(view: View) -> SaveError {
    Refusal::new(Reason::Invalid, format!("{} is not a managed file", view.name())).into()
}

/// The compare-and-swap guard: the hash of what the file holds (of nothing when there is none).
fn expect(expected: Option<[u8; 32]>, file: FileId, current: &Version) -> Result<(), Refusal> {
    let Some(expected) = expected else { return Ok(()) };
    let mut hash = Sha256::new();
    if let Some(content) = current.view(View::File(file)) {
        content.chunks().for_each(|c| hash.update(c));
    }
    if hash.finalize()[..] == expected[..] {
        return Ok(());
    }
    let what = format!("{} changed since it was read", file.path());
    Err(Refusal::new(Reason::Expectation, what).hint("read it again and repeat the change"))
}
