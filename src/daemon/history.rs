//! Bringing an older version back: by the daemon that serves the store, or by the command
//! itself when none does.

use std::path::Path;
use std::time::Duration;

use super::control::{Answer, Connection, Request};
use super::error::{DaemonError, Result};
use super::instance::Instance;
use super::lock::StoreLock;
use super::{serve, writeout};
use crate::documents::live::SaveError;
use crate::model::{Actor, FileId, Reason, Refusal, Rev, Via, View};
use crate::vfs::both::Both;
use crate::vfs::ports::Documents;

/// How long the daemon may take to commit.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to put on record what others did.
const SETTLING: Duration = Duration::from_secs(6);

/// What became of a version that was to come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// It is back as this revision, or (`changed` false) was there already.
    Done {
        /// The revision that is current now.
        rev: Rev,
        /// It is a new one.
        changed: bool,
    },
    /// It must not come back; nothing was changed.
    Refused(Refusal),
}

/// Opens a store to look at its history. If a daemon serves it, what other programs have done
/// to the rows and to `file` until now is put on record first.
///
/// Errors: as [`Instance::look`].
pub fn look(store: &Path, file: Option<FileId>) -> Result<Instance> {
    if let Some(mut daemon) = Connection::open(store) {
        // A daemon that is busy or ending must not keep anybody from looking.
        let request = Request::Settle { file: file.map(|f| f.path().to_owned()) };
        let settled = daemon.ask(&request).and_then(|()| daemon.answer(SETTLING));
        if let Err(e) = settled {
            log::debug!("not settled: {e}");
        }
    }
    Instance::look(store)
}

/// The daemon's side of [`look`].
pub(super) fn catch_up(documents: &Both, file: Option<&str>) {
    if let Err(e) = documents.catch_up(file.map(FileId::of)) {
        log::debug!("not settled: {e}");
    }
}

/// Makes `view` what it was in revision `rev`, as one more revision, through the daemon of the
/// store or, when none serves it, under the store's lock; then the plain files follow.
///
/// Errors: [`DaemonError::Held`] when another command holds the store; those of the store.
pub fn restore(store: &Path, view: View, rev: Rev) -> Result<Restored> {
    let actor = Actor::this_process(Via::Command);
    if let Some(mut daemon) = Connection::open(store) {
        let (pid, session) = (actor.pid, actor.session);
        let file = view.name().to_owned();
        daemon.ask(&Request::Restore { file, rev: rev.0, pid, session })?;
        return match daemon.answer(PATIENCE)? {
            Some(Answer::Restored { rev, changed }) => {
                Ok(Restored::Done { rev: Rev(rev), changed })
            }
            Some(Answer::Refused { message, hint }) => {
                Ok(Restored::Refused(Refusal::new(Reason::Invalid, message).hint(hint)))
            }
            Some(Answer::Failed { message }) => {
                Err(DaemonError::Daemon { path: store.to_owned(), message })
            }
            _ => Err(DaemonError::Silent {
                path: store.to_owned(),
                message: "the daemon ended before it answered".to_owned(),
            }),
        };
    }
    let mut lock = StoreLock::take_within(store, Duration::from_secs(1))?;
    lock.announce("being changed", None)?;
    let instance = Instance::open(store)?;
    for taken in writeout::take_in(&instance)? {
        log::warn!("{taken}");
    }
    let restored = match back(&instance.documents, view, rev, &actor) {
        Ok(done) => Restored::Done { rev: done.0, changed: done.1 },
        Err(SaveError::Refused(refusal)) => Restored::Refused(refusal),
        Err(SaveError::Store(e)) => return Err(e.into()),
    };
    serve::settle_rows(&instance.live);
    writeout::write_out(&instance)?;
    instance.documents.sync()?;
    Ok(restored)
}

/// The daemon's answer to [`Request::Restore`].
pub(super) fn answer(documents: &Both, file: &str, rev: Rev, actor: &Actor) -> Answer {
    match back(documents, View::on_record(file), rev, actor) {
        Ok((Rev(rev), changed)) => Answer::Restored { rev, changed },
        Err(SaveError::Refused(r)) => {
            let hint = r.hint.clone();
            Answer::Refused { message: r.to_string(), hint }
        }
        Err(SaveError::Store(e)) => Answer::Failed { message: e.to_string() },
    }
}

fn back(
    documents: &Both,
    view: View,
    rev: Rev,
    actor: &Actor,
) -> std::result::Result<(Rev, bool), SaveError> {
    let old = documents.at(view.doc(), rev)?.ok_or_else(|| {
        Refusal::new(Reason::Invalid, format!("{} has no revision {rev}", view.name()))
    })?;
    let saved = documents.restore(view, &old, actor)?;
    Ok((saved.version.rev, saved.changed))
}
