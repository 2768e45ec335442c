//! Older versions of managed files, and who wrote which line.

use std::sync::Arc;

use super::ManagedFiles;
use crate::documents::live::{BlamedLine, SaveError};
use crate::documents::{Content, Version};
use crate::model::{DocId, FileId, Rev, Stamp, Via, View};
use crate::store::StoreError;
use crate::text::Blame;

impl ManagedFiles {
    /// The version of exactly this revision: from memory, else from the history. Revision 0 is
    /// the file as it was before the first save through us: while there was none, what it
    /// holds now. `None`: not (or no longer) on record.
    ///
    /// Errors: those of the store; the file cannot be read.
    pub fn at(&self, file: FileId, rev: Rev) -> Result<Option<Arc<Version>>, StoreError> {
        let now = self.current(file)?;
        if now.rev == rev {
            return Ok(Some(now));
        }
        if let Some(version) = self.remembered(file, rev) {
            return Ok(Some(version));
        }
        let doc = DocId::File(file);
        let texts = self.document(file);
        let (state, mtime) = if rev == Rev(0) {
            let Some(first) = self.store.history_from(Some(doc), Rev(0), 1)?.pop() else {
                return Ok(None);
            };
            if first.actor.via == Via::Import {
                let Some(found) = self.at(file, first.rev)? else { return Ok(None) };
                (found.state.clone(), found.mtime)
            } else if self.store.span(doc)?.is_some_and(|span| span.pruned) {
                return Ok(None);
            } else {
                (texts.state(None), self.store.created()?)
            }
        } else {
            let Some(made) = self.store.made(doc, rev)? else { return Ok(None) };
            let Some(bytes) = self.store.archive(doc, rev)? else { return Ok(None) };
            (
                texts
                    .decode_near(&bytes, &now.state)
                    .map_err(|reason| history(doc, rev, reason))?,
                made,
            )
        };
        let version = Arc::new(Version { doc, rev, mtime, state, belief: false });
        self.remember(Arc::clone(&version));
        Ok(Some(version))
    }

    /// The text in a revision, for readers of the history. `None`: not (or no longer) on
    /// record, or there was no file.
    ///
    /// Errors: those of the store.
    pub fn text_at(&self, file: FileId, rev: Rev) -> Result<Option<Content>, StoreError> {
        let doc = DocId::File(file);
        let archive = self.store.archive_from(&mut self.cursor.lock(), doc, rev)?;
        let Some(archive) = archive else { return Ok(None) };
        let texts = self.document(file);
        let state = texts.decode(&archive).map_err(|reason| history(doc, rev, reason))?;
        Ok(state.view(View::File(file)))
    }

    /// A writer's belief, recalled after a restart: see
    /// [`crate::documents::live::Live::believe`].
    ///
    /// Errors: refused when the text cannot be one of this kind; those of the store.
    pub fn believe(&self, file: FileId, text: &[u8], rev: Rev) -> Result<Arc<Version>, SaveError> {
        let near = match self.at(file, rev)? {
            Some(near) => near,
            None => self.current(file)?,
        };
        let texts = self.document(file);
        let state = texts.believe(text, &near.state, &self.context())?;
        let doc = DocId::File(file);
        Ok(Arc::new(Version { doc, rev, mtime: near.mtime, state, belief: true }))
    }

    /// When the revision was made; `None`: not (or no longer) on record.
    ///
    /// Errors: those of the store.
    pub fn made(&self, file: FileId, rev: Rev) -> Result<Option<Stamp>, StoreError> {
        self.store.made(DocId::File(file), rev)
    }

    /// The managed files that have a history, by path, also those that are gone.
    ///
    /// Errors: those of the store.
    pub fn on_record(&self) -> Result<Vec<FileId>, StoreError> {
        self.store.files_on_record()
    }

    /// Which revision last touched each line, by the newest revision on record; see
    /// [`crate::documents::live::Live::blame`].
    ///
    /// Errors: those of the store.
    pub fn blame(&self, file: FileId, limit: usize) -> Result<Vec<BlamedLine>, StoreError> {
        let doc = DocId::File(file);
        let view = View::File(file);
        let texts = self.document(file);
        let newest = self.store.history(Some(doc), Rev(0), None, limit.max(1))?;
        let (Some(first), Some(span)) = (newest.last(), self.store.span(doc)?) else {
            return Ok(Vec::new());
        };
        let cut = span.pruned || first.rev > span.oldest;
        let mut blame = Blame::default();
        let mut failed = None;
        self.store.walk(doc, first.rev, |rev, archive| match texts.decode(&archive) {
            Ok(state) => {
                blame.next(rev.0, state.view(view).map(|c| c.to_vec()).unwrap_or_default());
                true
            }
            Err(reason) => {
                failed = Some(history(doc, rev, reason));
                false
            }
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        let line = |(rev, text): (u64, &[u8])| BlamedLine {
            rev: Rev(rev),
            older: cut && rev == first.rev.0,
            text: text.to_vec(),
        };
        Ok(blame.lines().map(line).collect())
    }
}

fn history(doc: DocId, rev: Rev, reason: String) -> StoreError {
    StoreError::History { doc: doc.as_str(), rev: rev.0, reason }
}
