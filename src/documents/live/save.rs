//! Saves: the one way in which a document changes through us (R2, R3).

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::slot::{Slot, place};
use super::work::{Cause, Work};
use super::{Checked, Live, SaveError, SaveRequest, Saved};
use crate::documents::entries::{self, Syntax};
use crate::documents::{Context, Plan, Save, State, Version, Written};
use crate::model::{Actor, Basis, DocId, Reason, Refusal, Rule, View};
use crate::store::{Gate, StoreError, Wait};

/// Whole files larger than this are planned before the gate is opened, and again inside only
/// if the document has changed meanwhile.
const EARLY: usize = 16 << 10;

/// A plan made before the gate was opened, and what it was made for.
struct Early {
    slot: Slot,
    plan: Result<Plan, Refusal>,
}

impl Early {
    /// Nothing that it depends on is different now.
    fn holds(&self, now: &Slot) -> bool {
        Arc::ptr_eq(&self.slot.version, &now.version)
            && Arc::ptr_eq(&self.slot.rows, &now.rows)
            && self.slot.outside == now.outside
    }
}

impl Live {
    /// Commits a save, whole or not at all, merged with the version that is current inside the
    /// transaction. When this returns, the next [`Live::current`] and [`Live::cached`] by
    /// anyone has it. It survives the death of this process, and power loss after
    /// [`Live::sync`] (R8).
    ///
    /// When somebody else holds `missions.lock`, a document under that lock is committed to
    /// our own tables alone and its rows follow ([`Live::settle`]); the result is the same.
    ///
    /// Errors: nothing of the save was committed.
    pub fn save(&self, request: SaveRequest<'_>) -> Result<Saved, SaveError> {
        match request.written {
            Written::Fragment(bytes)
                if !request.under_their_lock && request.expect_sha256.is_none() =>
            {
                self.append(request, bytes)
            }
            _ => self.save_alone(request),
        }
    }

    /// [`Live::save`] in a transaction of its own.
    pub(super) fn save_alone(&self, request: SaveRequest<'_>) -> Result<Saved, SaveError> {
        let doc = request.view.doc();
        let large = matches!(request.written, Written::Whole(text) if text.len() > EARLY);
        if large {
            self.current(doc)?;
        }
        let early = large.then(|| self.plan_early(&request));
        let gate = self.begin(doc, Wait::Patiently)?;
        self.inside(gate, request.under_their_lock, |work, gate| {
            expect(&request, &work.slot(doc).version)?;
            let slot = work.slot(doc);
            let plan = match early {
                Some(e) if e.holds(slot) => e.plan?,
                _ => self.plan(&request, slot, &work.cx)?,
            };
            let cause = Cause {
                actor: &request.actor,
                base: request.base.as_ref().map(|s| s.rev),
                basis: basis(&request, &plan),
                unseen: matches!(request.written, Written::Whole(_)),
            };
            Ok(self.carry_out(work, gate, doc, plan, &cause, request.under_their_lock)?)
        })
    }

    /// Commits a change that is not a saved text: `plan` is called inside the transaction with
    /// the version that is current then, and plans as [`crate::documents::Document::plan`]
    /// does.
    ///
    /// Errors: as [`Live::save`].
    pub fn change(
        &self,
        doc: DocId,
        actor: &Actor,
        plan: impl FnOnce(&State, &Context) -> Result<Plan, Refusal>,
    ) -> Result<Saved, SaveError> {
        let gate = self.begin(doc, Wait::Patiently)?;
        self.inside(gate, false, |work, gate| {
            let current = work.slot(doc).version.clone();
            let plan = plan(&current.state, &work.cx)?;
            let basis = Basis::by(Rule::Command);
            let cause = Cause { actor, base: Some(current.rev), basis, unseen: true };
            Ok(self.carry_out(work, gate, doc, plan, &cause, false)?)
        })
    }

    /// What a save of `text` by a writer that has seen the current version would do.
    ///
    /// Errors: why it would be refused.
    pub fn check(&self, view: View, text: &[u8]) -> Result<Checked, SaveError> {
        let current = self.current(view.doc())?;
        let save = Save {
            view,
            seen: Some(&current.state),
            written: Written::Whole(text),
            current: &current.state,
            outside_since_seen: false,
            rows: None,
        };
        let plan = self.documents[place(view.doc())].plan(&save, &self.context())?;
        Ok(Checked {
            changed: !Arc::ptr_eq(&plan.next, &current.state),
            summary: plan.summary,
            overlaps: plan.overlaps,
            next: plan.next,
        })
    }

    /// Does what other calls had to leave: rows that wait for `missions.lock` are written if
    /// it is free, and changes by other programs that could not be recorded or shown yet are. Never waits
    /// for anybody. Whether nothing is left. Called by ticks.
    ///
    /// Errors: those of the store, except that it is busy.
    pub fn settle(&self) -> Result<bool, StoreError> {
        self.later.now();
        if self.store.read_only() || !self.anything_left() {
            return Ok(true);
        }
        let gate = match self.store.begin(Wait::Never, self.anything_waits()) {
            Ok(gate) => gate,
            Err(StoreError::Busy) => return Ok(false),
            Err(e) => return Err(e),
        };
        match self.inside(gate, false, |_, _| Ok(())) {
            Ok(()) => Ok(!self.anything_left()),
            Err(SaveError::Store(e)) => Err(e),
            Err(SaveError::Refused(_)) => Ok(false),
        }
    }

    /// Blocks until rows wait for `missions.lock`, or for `limit`. Whether they do.
    pub fn await_waiting(&self, limit: Duration) -> bool {
        let mut news = self.rows_wait.0.lock();
        if !*news && !self.anything_waits() {
            self.rows_wait.1.wait_for(&mut news, limit);
        }
        *news = false;
        drop(news);
        self.anything_waits()
    }

    /// Rows of this document wait for `missions.lock`.
    pub fn waits(&self, doc: DocId) -> bool {
        self.shown.read().slots[place(doc)].waits()
    }

    /// A process that holds `missions.lock`, or a descendant of it, has read `version` while rows
    /// waited for the lock: it may make rows of what it has read there.
    pub fn read_by_holder(&self, version: Arc<Version>) {
        *self.read_by_holder.lock() = Some(version);
    }

    fn anything_left(&self) -> bool {
        self.half_way_since.lock().is_some()
            || self.shown.read().slots.iter().any(|s| s.waits() || !s.unrecorded.is_empty())
    }

    /// Opens the gate for a change of `doc`.
    pub(super) fn begin(&self, doc: DocId, wait: Wait) -> Result<Gate<'_>, StoreError> {
        let open = || {
            let lock = self.documents[place(doc)].under_missions_lock() || self.anything_waits();
            self.store.begin(wait, lock)
        };
        let gate = open()?;
        if !gate.outside_change() {
            return Ok(gate);
        }
        // What others did is compared while nobody waits for the write lock.
        drop(gate);
        self.current(doc)?;
        open()
    }

    pub(super) fn plan(
        &self,
        request: &SaveRequest<'_>,
        slot: &Slot,
        cx: &Context,
    ) -> Result<Plan, Refusal> {
        let save = Save {
            view: request.view,
            seen: request.base.as_ref().map(|s| &s.state),
            written: request.written,
            current: &slot.version.state,
            outside_since_seen: request.base.as_ref().is_some_and(|s| s.rev < slot.outside),
            rows: request.under_their_lock.then_some(&slot.rows),
        };
        self.documents[place(slot.version.doc)].plan(&save, cx)
    }

    fn plan_early(&self, request: &SaveRequest<'_>) -> Early {
        let slot = self.shown.read().slots[place(request.view.doc())].clone();
        let plan = self.plan(request, &slot, &self.context());
        Early { slot, plan }
    }

    pub(super) fn carry_out(
        &self,
        work: &mut Work<'_>,
        gate: &Gate<'_>,
        doc: DocId,
        plan: Plan,
        cause: &Cause<'_>,
        under_their_lock: bool,
    ) -> Result<Saved, StoreError> {
        let free = !self.documents[place(doc)].under_missions_lock();
        let rows = free || gate.has_missions_lock() || under_their_lock;
        let saved = work.change(gate.conn(), doc, plan, cause, rows)?;
        if !rows {
            *self.rows_wait.0.lock() = true;
            self.rows_wait.1.notify_all();
        }
        Ok(saved)
    }
}

/// How the merge base was found, and what is there after the save that the text did not have.
fn basis(request: &SaveRequest<'_>, plan: &Plan) -> Basis {
    let syntax = Syntax::of(request.view, None);
    let others = entries::others(&plan.next, &plan.believed, request.view, syntax);
    Basis { others, ..request.basis.clone() }
}

/// The compare-and-swap guard: the hash of what the view shows inside the transaction (of
/// nothing when the name does not exist).
fn expect(request: &SaveRequest<'_>, current: &Version) -> Result<(), Refusal> {
    let Some(expected) = request.expect_sha256 else { return Ok(()) };
    let mut hash = Sha256::new();
    if let Some(content) = current.view(request.view) {
        content.chunks().for_each(|c| hash.update(c));
    }
    if hash.finalize()[..] == expected[..] {
        return Ok(());
    }
    let what = format!("{} changed since it was read", request.view.name());
    Err(Refusal::new(Reason::Expectation, what).hint("read it again and repeat the change"))
}
