//! Housekeeping: what the history of managed files keeps.

use std::time::{Duration, Instant};

use super::ManagedFiles;
use crate::model::{FileId, Rev};
use crate::store::StoreError;

/// Time between two rounds over all files that have a history; in between, only those that have
/// changed are looked after.
const ALL: Duration = Duration::from_secs(24 * 3_600);

/// How far housekeeping has come.
#[derive(Default)]
pub(super) struct Maintained {
    /// Files with newer revisions are due.
    to: Rev,
    /// The last round over all files.
    all: Option<Instant>,
}

impl ManagedFiles {
    /// Keeps the history of each file within the bounds that hold for a document, and forgets
    /// that of files that are gone; for a thread that serves nobody. Does nothing in a read-only
    /// store.
    ///
    /// Errors: those of the store.
    pub fn maintain(&self) -> Result<(), StoreError> {
        if self.store.read_only() {
            return Ok(());
        }
        let mut done = self.maintained.lock();
        let all = done.all.is_none_or(|at| at.elapsed() >= ALL);
        let (files, newest) = if all {
            let (_, newest) = self.store.files_since(Rev(u64::MAX))?;
            (self.store.files_on_record()?, newest)
        } else {
            self.store.files_since(done.to)?
        };
        let now = self.clock.now();
        for file in files {
            if all {
                self.notice_removal(file);
            }
            self.store.maintain_file(file, now)?;
        }
        self.store.forget_gone(now)?;
        done.to = newest;
        if all {
            done.all = Some(Instant::now());
        }
        Ok(())
    }

    /// A file that was removed behind the mount, and that nobody has asked for since, is gone.
    fn notice_removal(&self, file: FileId) {
        if self.disk.print(file).is_ok_and(|print| print.is_none())
            && let Err(e) = self.current(file)
        {
            log::debug!("{}: {e}", file.path());
        }
    }
}
