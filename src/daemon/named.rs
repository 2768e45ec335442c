//! Naming a writer (SEMANTICS, section 4).

use std::path::Path;
use std::time::Duration;

use super::control::{Answer, Connection, Request};
use super::error::{DaemonError, Result};

/// How long the daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// From now on this process and its descendants are one writer with all others of this name and user.
/// `false`: nobody serves the store.
pub fn name_writer(store: &Path, name: &str) -> Result<bool> {
    let Some(mut daemon) = Connection::open(store) else { return Ok(false) };
    daemon.ask(&Request::Writer { name: name.to_owned() })?;
    match daemon.answer(PATIENCE)? {
        Some(Answer::Settled) => Ok(true),
        Some(Answer::Failed { message }) => {
            Err(DaemonError::Daemon { path: store.to_owned(), message })
        }
        _ => Err(DaemonError::Silent {
            path: store.to_owned(),
            message: "the daemon ended before it answered".to_owned(),
        }),
    }
}
