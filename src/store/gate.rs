//! The transaction gate: the one way in which anything is written.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use rusqlite::{Connection, ErrorCode};

use super::connect::{Store, Writer};
use super::{MissionsLock, StoreError, walindex};

/// The longest pause between two tries for another program's write lock. A try costs some
/// microseconds; a program that commits without a break leaves only short gaps.
const LOCK_POLL: Duration = Duration::from_millis(5);

/// How long after a glance of a reader the watching connection is kept up to date.
const ASKED: Duration = Duration::from_secs(1);

/// How long to wait for another program's write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: [`StoreError::Busy`] at once.
    Never,
    /// For the store's patience ([`super::Options::patience`]).
    Patiently,
    /// Until then; tried once in any case.
    Until(Instant),
}

/// What the database says about changes by others.
pub enum Look<'s> {
    /// Nobody else has committed since the documents were last compared with the rows.
    Same,
    /// Somebody else has, or they were never compared. The writer is ours until this is
    /// dropped.
    Changed(Idle<'s>),
    /// The writer is at work. `known`: a reader's glance says that nobody at all has committed
    /// since the documents were last known to be up to date.
    Busy {
        /// See above.
        known: bool,
    },
}

/// The writer connection outside a transaction.
pub struct Idle<'s> {
    store: &'s Store,
    writer: MutexGuard<'s, Writer>,
}

/// An open write transaction. Dropped before [`Gate::commit`] it rolls back, also in a panic.
/// After the commit the writer (and `missions.lock`) stay ours until it is dropped.
pub struct Gate<'s> {
    store: &'s Store,
    /// Before the writer, because fields are dropped in this order: whoever gets the writer
    /// next must find this lock free.
    lock: Option<MissionsLock>,
    writer: MutexGuard<'s, Writer>,
    version: i64,
    refreshed: bool,
}

impl Store {
    /// Runs `f` in a transaction of its own and commits it; an error rolls back. For our small
    /// tables; changes of documents go through `documents::live`.
    ///
    /// Errors: [`StoreError::Busy`] after the store's patience, [`StoreError::Full`], others.
    pub fn gate<T>(
        &self,
        f: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut gate = self.begin(Wait::Patiently, false)?;
        let out = f(gate.conn()).map_err(|e| gate.explain(e))?;
        gate.commit()?;
        Ok(out)
    }

    /// Opens the gate. With `missions_lock` that lock is tried first; whether it was free is
    /// [`Gate::has_missions_lock`]. It is given back while another program's write lock is
    /// waited for, so that nobody can wait for us and we for them.
    ///
    /// Errors: [`StoreError::Busy`], [`StoreError::Unusable`] when opened read-only.
    pub fn begin(&self, wait: Wait, missions_lock: bool) -> Result<Gate<'_>, StoreError> {
        let deadline = match wait {
            Wait::Until(deadline) => deadline,
            Wait::Never | Wait::Patiently => Instant::now() + self.options.patience,
        };
        let writer = match wait {
            Wait::Never => self.writer.try_lock(),
            Wait::Patiently | Wait::Until(_) => self.writer.try_lock_until(deadline),
        };
        let idle = Idle { store: self, writer: writer.ok_or(StoreError::Busy)? };
        idle.begin(wait, deadline, missions_lock)
    }

    /// Whether another program has committed anything since [`Gate::refreshed`] or
    /// [`Idle::snapshot`]. One `data_version` question; waits for nobody.
    pub fn look(&self) -> Result<Look<'_>, StoreError> {
        match self.writer.try_lock() {
            Some(writer) => self.look_with(writer),
            None => Ok(Look::Busy { known: self.glance()? }),
        }
    }

    /// The same; `None` while the writer is at work.
    pub fn look_when_idle(&self) -> Result<Option<Look<'_>>, StoreError> {
        self.writer.try_lock().map(|writer| self.look_with(writer)).transpose()
    }

    /// The same, but waits up to `limit` for the writer.
    pub fn look_within(&self, limit: Duration) -> Result<Look<'_>, StoreError> {
        match self.writer.try_lock_for(limit) {
            Some(writer) => self.look_with(writer),
            None => Ok(Look::Busy { known: self.glance()? }),
        }
    }

    fn look_with<'s>(&'s self, mut writer: MutexGuard<'s, Writer>) -> Result<Look<'s>, StoreError> {
        if let Some(seen) = writer.seen {
            // Taken before the question: what is committed in between is in the answer.
            let mark = self.mark(&writer.conn);
            let known = writer.mark.filter(|(_, at)| *at == seen).map(|(mark, _)| mark);
            if mark.is_some() && mark == known {
                return Ok(Look::Same);
            }
            if seen == data_version(&writer.conn)? {
                writer.mark = mark.map(|mark| (mark, seen));
                return Ok(Look::Same);
            }
        }
        Ok(Look::Changed(Idle { store: self, writer }))
    }

    /// The head of the WAL index. Who only reads has no say in the journal mode.
    fn mark(&self, conn: &Connection) -> Option<walindex::Mark> {
        if self.options.read_only { None } else { walindex::mark(conn) }
    }

    /// Whether a gate is waiting for another program's lock at this moment.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    fn glance(&self) -> Result<bool, StoreError> {
        let mut probe = self.probe.lock();
        probe.asked = Some(Instant::now());
        Ok(probe.known.is_some() && probe.known == Some(data_version(&probe.conn)?))
    }

    /// Reads inside one transaction of the watching connection, for use while the writer is
    /// busy. When `f` answers `true`, the documents are up to date with what it saw.
    pub fn watch(
        &self,
        f: impl FnOnce(&Connection) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let mut probe = self.probe.lock();
        let tx = probe.conn.unchecked_transaction()?;
        let version = data_version(&tx)?;
        let current = f(&tx)?;
        tx.finish()?;
        if current {
            probe.known = Some(version);
        }
        Ok(current)
    }

    /// Tells the watching connection that the documents are up to date, if they are.
    fn tell_probe(&self, writer: &Writer) {
        // Busy with a reader's look: then its glances are only slower.
        let Some(mut probe) = self.probe.try_lock() else { return };
        // Nor is it told for nobody: what it knows is then out of date, and a glance says so.
        if probe.asked.is_none_or(|asked| asked.elapsed() > ASKED) {
            return;
        }
        // In this order: what the writer does not know of at the end, the probe had not seen.
        let glance = data_version(&probe.conn).ok();
        let current = writer.seen.is_some() && data_version(&writer.conn).ok() == writer.seen;
        probe.known = if current { glance } else { None };
    }
}

impl<'s> Idle<'s> {
    /// Opens the gate at once; see [`Store::begin`].
    pub fn begin_now(self, missions_lock: bool) -> Result<Gate<'s>, StoreError> {
        self.begin(Wait::Never, Instant::now(), missions_lock)
    }

    fn begin(
        self,
        wait: Wait,
        deadline: Instant,
        missions_lock: bool,
    ) -> Result<Gate<'s>, StoreError> {
        let store = self.store;
        if store.options.read_only {
            let reason = "opened read-only".to_owned();
            return Err(StoreError::Unusable { path: store.db.clone(), reason });
        }
        store.whereabouts.look_again(&self.writer.conn);
        store.in_place()?;
        let (version, lock) = self.wait_for_lock(wait, deadline, missions_lock)?;
        Ok(Gate { store, lock, writer: self.writer, version, refreshed: false })
    }

    fn wait_for_lock(
        &self,
        wait: Wait,
        deadline: Instant,
        missions_lock: bool,
    ) -> Result<(i64, Option<MissionsLock>), StoreError> {
        let conn = &self.writer.conn;
        let mut pause = Duration::from_millis(1);
        let waiting = Waiting(self.store);
        loop {
            let lock = if missions_lock { self.store.try_missions_lock()? } else { None };
            conn.busy_timeout(Duration::ZERO)?;
            let begun = conn.prepare_cached("BEGIN IMMEDIATE").and_then(|mut s| s.execute([]));
            conn.busy_timeout(self.store.options.patience)?;
            match begun {
                Ok(_) => match data_version(conn) {
                    Ok(version) => return Ok((version, lock)),
                    Err(e) => {
                        rollback(conn);
                        return Err(e);
                    }
                },
                Err(e) => {
                    let e = explain(conn, e.into());
                    if !matches!(e, StoreError::Busy) || wait == Wait::Never {
                        return Err(e);
                    }
                }
            }
            drop(lock);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Busy);
            }
            waiting.0.waiting.store(true, Ordering::Release);
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(LOCK_POLL);
        }
    }

    /// Reads inside one transaction without writing. When `f` answers `true`, the documents
    /// count as compared with what it saw.
    pub fn snapshot(
        &mut self,
        f: impl FnOnce(&Connection) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let tx = self.writer.conn.unchecked_transaction()?;
        let version = data_version(&tx)?;
        let compared = f(&tx)?;
        tx.finish()?;
        if compared {
            self.writer.seen = Some(version);
            self.store.tell_probe(&self.writer);
        }
        Ok(())
    }
}

/// Clears the flag however the wait ends.
struct Waiting<'s>(&'s Store);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.store(false, Ordering::Release);
    }
}

impl<'s> Gate<'s> {
    /// The connection, inside the transaction.
    pub fn conn(&self) -> &Connection {
        &self.writer.conn
    }

    /// Another program has committed since the documents were last compared with the rows, or
    /// they never were.
    pub fn outside_change(&self) -> bool {
        self.writer.seen != Some(self.version)
    }

    /// From the commit on, the documents count as compared with the rows.
    pub fn refreshed(&mut self) {
        self.refreshed = true;
    }

    /// `missions.lock` was asked for and was free: it is ours until after the commit.
    pub fn has_missions_lock(&self) -> bool {
        self.lock.is_some()
    }

    /// The error as it is, or what the operating system says is behind it.
    pub fn explain(&self, e: StoreError) -> StoreError {
        explain(self.conn(), e)
    }

    /// Commits. The writer stays ours until the gate is dropped, so that a new version can be
    /// published before anybody can be told that nothing has changed. To be called once.
    ///
    /// Errors: nothing was committed.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        let done = self.conn().prepare_cached("COMMIT").and_then(|mut s| s.execute([]));
        if let Err(e) = done {
            return Err(self.explain(e.into()));
        }
        if self.refreshed {
            self.writer.seen = Some(self.version);
        }
        self.store.commits.fetch_add(1, Ordering::AcqRel);
        self.store.tell_probe(&self.writer);
        Ok(())
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        rollback(&self.writer.conn);
    }
}

/// Ends the transaction, if SQLite has not ended it itself.
fn rollback(conn: &Connection) {
    if !conn.is_autocommit()
        && let Err(e) = conn.execute_batch("ROLLBACK")
    {
        log::error!("a transaction could not be rolled back: {e}");
    }
}

/// The number that moves when another connection has committed.
fn data_version(conn: &Connection) -> Result<i64, StoreError> {
    let mut stmt = conn.prepare_cached("PRAGMA data_version")?;
    Ok(stmt.query_row([], |r| r.get(0))?)
}

/// SQLite says "I/O error" for some failures for want of room; the operating system's number
/// tells.
fn explain(conn: &Connection, e: StoreError) -> StoreError {
    let StoreError::Sqlite(inner) = &e else { return e };
    let io = [ErrorCode::SystemIoFailure, ErrorCode::CannotOpen];
    if !inner.sqlite_error_code().is_some_and(|c| io.contains(&c)) {
        return e;
    }
    // SAFETY: the handle is valid while `conn` is borrowed, and the call only reads a number
    // from it; the connection is used by one thread at a time (it is behind a mutex).
    let errno = unsafe { rusqlite::ffi::sqlite3_system_errno(conn.handle()) };
    match errno {
        libc::ENOSPC => StoreError::Full,
        libc::EDQUOT => StoreError::Quota,
        _ => e,
    }
}
