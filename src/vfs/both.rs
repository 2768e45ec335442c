//! All documents of a store as one: those with rows, and the managed files.

use std::sync::Arc;

use super::ports::Documents;
use crate::documents::live::{Live, SaveError, SaveRequest, Saved};
use crate::documents::managed::ManagedFiles;
use crate::documents::{Content, Version};
use crate::model::{DocId, FileId, Rev, Stamp, View};
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
        match doc {
            DocId::File(file) => self.managed.current(file),
            _ => self.live.current(doc),
        }
    }
    fn cached(&self, doc: DocId) -> Arc<Version> {
        match doc {
            DocId::File(file) => self.managed.cached(file),
            _ => self.live.cached(doc),
        }
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
        match request.view {
            View::File(_) => self.managed.save(request),
            _ => self.live.save(request),
        }
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.managed.sync()
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
