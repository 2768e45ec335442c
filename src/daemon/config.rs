//! Changes of the config by commands: through the daemon that serves the store, or by the
//! command itself when none does. Either way it is one transaction.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::control::{Answer, Connection, Request};
use super::error::{DaemonError, Result};
use super::instance::Instance;
use super::lock::StoreLock;
use super::{serve, writeout};
use crate::documents::config::{ConfigDocument, Order, source_sha256};
use crate::documents::live::{Live, SaveError};
use crate::model::{Actor, Reason, Via};

/// How long the daemon may take to commit: the largest config has hundreds of thousands of keys.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long other commands may hold the store, one after the other.
const TURN: Duration = Duration::from_secs(60);
/// How long one of them is waited for before the daemon is looked for again: it may have begun
/// to serve meanwhile.
const LOOK: Duration = Duration::from_millis(200);

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It is committed, or was so already.
    Done {
        /// The revision that is current now.
        rev: u64,
        /// It is a new one.
        changed: bool,
        /// The SHA-256 of the source form now.
        sha256: [u8; 32],
        /// What its giver should know, one line each.
        notes: Vec<String>,
    },
    /// The hash is another one; nothing was written.
    Changed,
    /// It was refused; nothing was written.
    Refused {
        /// Why, one line.
        message: String,
        /// What to do about it; may be empty.
        hint: String,
    },
}

/// Carries an order out. Other commands that hold the store are waited for.
///
/// Errors: [`DaemonError::Held`] when they hold it for a minute; [`DaemonError::Silent`] when
/// the daemon ended before it answered, so that nobody can tell; those of the store.
pub fn order(store: &Path, order: &Order) -> Result<Outcome> {
    let actor = Actor::this_process(Via::Command);
    let until = Instant::now() + TURN;
    loop {
        if let Some(daemon) = Connection::open(store)
            && let Some(outcome) = ask(daemon, store, order, &actor)?
        {
            return Ok(outcome);
        }
        match StoreLock::take_within(store, LOOK) {
            Ok(lock) => return without_daemon(lock, order, &actor),
            Err(DaemonError::Held { .. }) if Instant::now() < until => {}
            Err(e) => return Err(e),
        }
    }
}

/// Asks the daemon; `None`: it is ending and has done nothing.
fn ask(
    mut daemon: Connection,
    store: &Path,
    order: &Order,
    actor: &Actor,
) -> Result<Option<Outcome>> {
    let (pid, session) = (actor.pid, actor.session);
    let request = Request::Config { order: order.clone(), pid, session };
    // What was not sent whole is not obeyed.
    if let Err(e) = daemon.ask(&request) {
        log::debug!("the daemon does not listen: {e}");
        return Ok(None);
    }
    match daemon.answer(PATIENCE)? {
        Some(Answer::Config { outcome }) => Ok(Some(outcome)),
        Some(Answer::Ending) => Ok(None),
        Some(Answer::Failed { message }) => {
            Err(DaemonError::Daemon { path: store.to_owned(), message })
        }
        _ => Err(DaemonError::Silent {
            path: store.to_owned(),
            message: "the daemon ended before it answered; `instancefs config get` shows whether \
                      the change was made"
                .to_owned(),
        }),
    }
}

fn without_daemon(mut lock: StoreLock, order: &Order, actor: &Actor) -> Result<Outcome> {
    lock.announce("being changed", None)?;
    let instance = Instance::open(lock.store())?;
    for taken in writeout::take_in(&instance)? {
        log::warn!("{taken}");
    }
    let outcome = carry_out(&instance.live, lock.store(), None, order, actor)?;
    serve::settle_rows(&instance.live);
    writeout::write_out(&instance)?;
    instance.live.sync()?;
    Ok(outcome)
}

/// The daemon's answer to [`Request::Config`]. `version_limit`: the one of the mount.
pub(super) fn answer(
    live: &Live,
    store: &Path,
    version_limit: Option<i64>,
    order: &Order,
    actor: &Actor,
) -> Answer {
    match carry_out(live, store, version_limit, order, actor) {
        Ok(outcome) => Answer::Config { outcome },
        Err(e) => Answer::Failed { message: e.to_string() },
    }
}

fn carry_out(
    live: &Live,
    store: &Path,
    version_limit: Option<i64>,
    order: &Order,
    actor: &Actor,
) -> Result<Outcome> {
    let config = ConfigDocument::new(Some(store.to_owned()), version_limit);
    match config.carry_out(live, order, actor) {
        Ok((saved, notes)) => Ok(Outcome::Done {
            rev: saved.version.rev.0,
            changed: saved.changed,
            sha256: source_sha256(&saved.version.state),
            notes,
        }),
        Err(SaveError::Refused(r)) if r.reason == Reason::Expectation => Ok(Outcome::Changed),
        Err(SaveError::Refused(r)) => {
            Ok(Outcome::Refused { message: r.to_string(), hint: r.hint.clone() })
        }
        Err(SaveError::Store(e)) => Err(e.into()),
    }
}
