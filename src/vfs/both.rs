//! All documents of a store as one: those with rows, and the managed files.

use std::sync::Arc;

use super::ports::Documents;
use crate::documents::live::{BlamedLine, Checked, Listener, Live, SaveError, SaveRequest, Saved};
use crate::documents::managed::ManagedFiles;
use crate::documents::{Content, Version};
use crate::model::{Actor, DocId, FileId, Rev, Stamp, View};
use crate::store::StoreError;

/// What the tree is given: each question goes to whoever keeps the document.
pub struct Both {
    /// The documents with rows.
    pub live: Arc<Live>,
    /// The managed files.
    pub managed: Arc<ManagedFiles>,
}

impl Documents for Both {
    fn current(&self, doc: DocId) -> Result<Arc<Version>, StoreError> {
        let current = match doc {
            DocId::File(file) => self.managed.current(file),
            _ => self.live.current(doc),
        };
        current.inspect_err(|e| log::log!(level(e), "{}: cannot be read: {e}", named(doc)))
    }
    fn cached(&self, doc: DocId) -> Arc<Version> {
        match doc {
            DocId::File(file) => self.managed.cached(file),
            _ => self.live.cached(doc),
        }
    }
    fn notice(&self, file: FileId) {
        self.managed.notice(file);
    }
    fn attribute(&self, file: FileId, to: Option<Actor>) {
        self.managed.attribute(file, to);
    }
    fn waits(&self, doc: DocId) -> bool {
        doc.file().is_none() && self.live.waits(doc)
    }
    fn read_by_holder(&self, version: Arc<Version>) {
        if version.doc.file().is_none() {
            self.live.read_by_holder(version);
        }
    }
    fn save(&self, request: SaveRequest<'_>) -> Result<Saved, SaveError> {
        let (view, actor) = (request.view, request.actor.clone());
        let base = request.base.as_ref().map_or(Rev(0), |base| base.rev);
        let saved = match view {
            View::File(_) => self.managed.save(request),
            _ => self.live.save(request),
        };
        saved.inspect_err(|e| {
            if let SaveError::Store(e) = e {
                log::log!(
                    level(e),
                    "{}: save by {} (pid {}), on revision {}, failed: {e}",
                    view.name(),
                    actor.program,
                    actor.pid,
                    base.0
                );
            }
        })
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.managed.sync().inspect_err(|e| {
            log::log!(level(e), "committed saves may not survive a power loss yet: {e}");
        })
    }
    fn at(&self, doc: DocId, rev: Rev) -> Result<Option<Arc<Version>>, StoreError> {
        match doc {
            DocId::File(file) => self.managed.at(file, rev),
            _ => self.live.at(doc, rev),
        }
    }
    fn made(&self, doc: DocId, rev: Rev) -> Result<Option<Stamp>, StoreError> {
        self.live.store().made(doc, rev)
    }
    fn text_at(&self, view: View, rev: Rev) -> Result<Option<Content>, StoreError> {
        match view {
            View::File(file) => self.managed.text_at(file, rev),
            _ => self.live.text_at(view, rev),
        }
    }
    fn numbers(
        &self,
        doc: DocId,
        after: Rev,
        limit: usize,
    ) -> Result<Vec<(Rev, Stamp)>, StoreError> {
        self.live.store().numbers(doc, after, limit)
    }
    fn believe(&self, view: View, text: &[u8], rev: Rev) -> Result<Arc<Version>, SaveError> {
        match view {
            View::File(file) => self.managed.believe(file, text, rev),
            _ => self.live.believe(view, text, rev),
        }
    }
    fn files_on_record(&self) -> Result<Vec<FileId>, StoreError> {
        self.managed.on_record()
    }
}

/// How loud a failure of the store is: another program that keeps it locked is no damage.
fn level(e: &StoreError) -> log::Level {
    match e {
        StoreError::Busy => log::Level::Warn,
        _ => log::Level::Error,
    }
}

/// The file or files that a person knows the document by.
fn named(doc: DocId) -> &'static str {
    match doc {
        DocId::Config => "config",
        doc => doc.views().next().map_or(doc.as_str(), View::name),
    }
}

impl Both {
    /// From now on `listener` is called for every new version.
    pub fn set_listener(&self, listener: &Listener) {
        self.live.set_listener(Arc::clone(listener));
        self.managed.set_listener(Arc::clone(listener));
    }

    /// Makes the text under `view` what it was in `old`; see [`Live::restore`] and
    /// [`ManagedFiles::restore`].
    ///
    /// Errors: those of both.
    pub fn restore(
        &self,
        view: View,
        old: &Arc<Version>,
        actor: &Actor,
    ) -> Result<Saved, SaveError> {
        match view {
            View::File(file) => self.managed.restore(file, old, actor),
            _ => self.live.restore(view, old, actor),
        }
    }

    /// What a save of `text` by a writer that has seen the current version would do.
    ///
    /// Errors: why it would be refused.
    pub fn check(&self, view: View, text: &[u8]) -> Result<Checked, SaveError> {
        match view {
            View::File(file) => self.managed.check(file, text),
            _ => self.live.check(view, text),
        }
    }

    /// Which revision last touched each line; see [`Live::blame`].
    ///
    /// Errors: those of the store.
    pub fn blame(&self, view: View, limit: usize) -> Result<Vec<BlamedLine>, StoreError> {
        match view {
            View::File(file) => self.managed.blame(file, limit),
            _ => self.live.blame(view, limit),
        }
    }

    /// Takes in what other programs have done, and puts it on record as far as the database is
    /// free: the documents with rows, the managed files that are in use, and `file`.
    ///
    /// Errors: those of the store.
    pub fn catch_up(&self, file: Option<FileId>) -> Result<(), StoreError> {
        for doc in DocId::ALL {
            self.live.current(doc)?;
        }
        self.live.settle()?;
        if let Some(file) = file {
            self.managed.current(file)?;
        }
        self.managed.tick();
        Ok(())
    }

    /// Housekeeping of the store, for a thread that serves nobody.
    ///
    /// Errors: those of the store.
    pub fn maintain(&self) -> Result<(), StoreError> {
        self.managed.maintain()?;
        self.live.maintain()
    }
}
