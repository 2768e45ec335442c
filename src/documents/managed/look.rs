//! Looking at the file: what it holds now is the current version, whoever wrote it (R9).

use std::sync::Arc;

use super::slot::{Inner, Slot};
use super::{FileDocument, ManagedFiles, Published};
use crate::documents::files::Print;
use crate::documents::{State, Version};
use crate::model::{Actor, DocId, FileId, Rev, Stamp, Via, View};
use crate::store::{FileRow, OnRecord, StoreError};

/// A file that was changed less than this before it was read is read again at the next look:
/// several writes within one tick of the file system's clock leave one print. In nanoseconds.
const FRESH: i64 = 20_000_000;

/// Where the database is asked.
pub(super) trait Record {
    /// What is on record of the file.
    fn on_record(&self, file: FileId) -> Result<OnRecord, StoreError>;
    /// The archive of a revision.
    fn archive(&self, file: FileId, rev: Rev) -> Result<Option<Vec<u8>>, StoreError>;
    /// Who made it.
    fn actor(&self, file: FileId, rev: Rev) -> Result<Option<Actor>, StoreError>;
}

/// Asks on a reader's connection: waits for nobody.
pub(super) struct Beside<'s>(pub(super) &'s crate::store::Store);

impl Record for Beside<'_> {
    fn on_record(&self, file: FileId) -> Result<OnRecord, StoreError> {
        self.0.file_on_record(file)
    }
    fn archive(&self, file: FileId, rev: Rev) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.archive(DocId::File(file), rev)
    }
    fn actor(&self, file: FileId, rev: Rev) -> Result<Option<Actor>, StoreError> {
        Ok(self.0.revision(DocId::File(file), rev)?.map(|r| r.actor))
    }
}

/// A change that nobody has told us of.
pub(super) fn stranger() -> Actor {
    Actor { via: Via::Store, ..Actor::outside() }
}

impl ManagedFiles {
    /// The current version: what the file holds. When it has not changed since the last look
    /// this is one `fstatat`. A file that is not there has a version without content.
    ///
    /// Errors: the file cannot be read. A database that cannot be asked is no error.
    pub fn current(&self, file: FileId) -> Result<Arc<Version>, StoreError> {
        let slot = self.slot(file);
        self.use_of(&slot);
        let mut inner = slot.inner.lock();
        let mut news = Vec::new();
        let version = self.look(&slot, &mut inner, &Beside(&self.store), &mut news);
        drop(inner);
        self.tell(&news);
        version
    }

    /// The version that was last shown, without asking again; the current one when there was
    /// none, or it was let go.
    pub fn cached(&self, file: FileId) -> Arc<Version> {
        let slot = self.slot(file);
        if let Some(version) = &slot.inner.lock().version {
            return Arc::clone(version);
        }
        self.current(file).unwrap_or_else(|e| {
            log::warn!("{}: {e}", file.path());
            let state = self.document(file).state(None);
            let (doc, mtime) = (DocId::File(file), Stamp(0));
            Arc::new(Version { doc, rev: Rev(0), mtime, state, belief: false })
        })
    }

    /// The name was looked at. From now on changes of the file are told, although nothing of it was
    /// shown; it is not read.
    pub fn notice(&self, file: FileId) {
        let slot = self.slot(file);
        let Some(mut inner) = slot.inner.try_lock() else { return };
        if inner.known || inner.noticed {
            return;
        }
        match self.disk.print(file) {
            Ok(print) => (inner.print, inner.noticed) = (print, true),
            Err(e) => log::debug!("{}: {e}", file.path()),
        }
    }

    /// Makes `inner` what the file is now, and answers with its version.
    pub(super) fn look(
        &self,
        slot: &Slot,
        inner: &mut Inner,
        record: &dyn Record,
        news: &mut Vec<Published>,
    ) -> Result<Arc<Version>, StoreError> {
        let file = slot.file;
        let print = self.disk.print(file)?;
        if inner.known
            && !inner.fresh
            && inner.print == print
            && let Some(version) = &inner.version
        {
            return Ok(Arc::clone(version));
        }
        let (text, print) = match self.disk.read(file)? {
            Some((text, print)) => (Some(text), Some(print)),
            None => (None, None),
        };
        let texts = self.document(file);
        let state = |near: Option<&Arc<Version>>| match near {
            Some(near) => texts.state_near(text.as_deref(), &near.state),
            None => texts.state(text.as_deref()),
        };
        let now = self.clock.now();
        // Nobody knows what was there before, only that it was another file or another time.
        let moved =
            (inner.known || inner.noticed) && !same_text(inner.print.as_ref(), print.as_ref());
        let before = inner.version.take();
        let unchanged = match &before {
            Some(before) => holds(file, before, text.as_deref()),
            // It was let go, and the file is what it was.
            None => inner.known && !inner.fresh && inner.print == print,
        };
        let fresh = print.is_some_and(|p| p.ctime.0.max(p.mtime.0) > now.0.saturating_sub(FRESH));
        (inner.print, inner.fresh) = (print, fresh);
        if unchanged {
            let version = before.unwrap_or_else(|| inner.version_of(file, state(None)));
            inner.version = Some(Arc::clone(&version));
            return Ok(version);
        }
        let state = state(before.as_ref());
        let number = inner.rev;
        let hand = slot.hand.lock().clone();
        let found = self.place(slot, inner, texts, before.as_ref(), &state, now, record);
        let version = inner.version_of(file, state);
        inner.version = Some(Arc::clone(&version));
        if let Some(before) = before {
            news.push(Published {
                version: Arc::clone(&version),
                actor: found.or(hand).unwrap_or_else(stranger),
                doc: DocId::File(file),
                before: before.rev,
            });
            self.remember(before);
        } else if moved {
            news.push(Published {
                version: Arc::clone(&version),
                actor: found.or(hand).unwrap_or_else(stranger),
                doc: DocId::File(file),
                before: number,
            });
        }
        Ok(version)
    }

    /// Gives the content a number and a time: those on record if it is the newest revision,
    /// else it is a change of its own. Answers with who made it, if that is known.
    #[expect(clippy::too_many_arguments, reason = "what was, what is, and where to ask")]
    fn place(
        &self,
        slot: &Slot,
        inner: &mut Inner,
        texts: FileDocument,
        before: Option<&Arc<Version>>,
        state: &State,
        now: Stamp,
        record: &dyn Record,
    ) -> Option<Actor> {
        let file = slot.file;
        let asked = record.on_record(file);
        let first = !inner.known;
        let on_record = match asked {
            Ok(on_record) => on_record,
            Err(e) => {
                // The next gate knows better; until then it is a change of its own.
                log::debug!("{}: {e}", file.path());
                OnRecord { last: inner.rev.max(inner.recorded), ..OnRecord::default() }
            }
        };
        inner.known = true;
        if let Some(row) = on_record.row.as_ref().filter(|row| row.rev > inner.recorded) {
            let same =
                is_what_was_committed(inner.print.as_ref(), on_record.file.as_ref(), row.rev);
            let same = same || self.is_archived(file, row.rev, state, texts, record);
            inner.recorded = row.rev;
            inner.archive = None;
            // Whatever was waiting is older than this.
            (inner.unrecorded, inner.found) = (None, None);
            if same {
                let known = if first { Stamp(i64::MIN) } else { inner.mtime };
                inner.rev = row.rev;
                inner.mtime = row.mtime.max(Stamp(known.0.saturating_add(1)));
                inner.archive = Some(state.archive());
                return record.actor(file, row.rev).ok().flatten();
            }
            inner.rev = inner.rev.max(row.rev);
            inner.mtime = if first { row.mtime } else { inner.mtime.max(row.mtime) };
        } else if first && on_record.row.is_none() {
            inner.rev = Rev(0);
            inner.mtime =
                inner.print.map_or_else(|| self.store.created().unwrap_or_default(), |p| p.mtime);
            return None;
        }
        let hand = slot.hand.lock().clone();
        let recorded = match before {
            // What was shown last is not known any more; what was recorded last is.
            None => record.archive(file, inner.recorded).ok().flatten(),
            Some(_) => None,
        };
        let recorded = recorded.and_then(|bytes| texts.decode_near(&bytes, state).ok());
        let summary = match before.map(|b| &b.state).or(recorded.as_ref()) {
            Some(old) => texts.summary(old, state),
            None => String::new(),
        };
        self.changed(inner, before, summary, hand, on_record.last, now);
        None
    }

    /// Until it is called with `None` the changes that are found in the store's file are by this
    /// one: somebody creates, removes or renames it through the mount.
    pub fn attribute(&self, file: FileId, to: Option<Actor>) {
        *self.slot(file).hand.lock() = to;
    }

    /// The file holds something that is not on record.
    fn changed(
        &self,
        inner: &mut Inner,
        before: Option<&Arc<Version>>,
        summary: String,
        hand: Option<Actor>,
        last: Rev,
        now: Stamp,
    ) {
        let first = inner.unrecorded.is_none();
        let notes = inner.unrecorded.get_or_insert_default();
        if first {
            notes.actor = hand;
        } else if notes.actor.is_some() {
            // Several changes in a row that are recorded as one are by the last of those who are
            // known, or by nobody.
            notes.actor = hand;
        }
        if notes.summary.is_empty() {
            notes.summary = summary;
        } else if !summary.is_empty() {
            notes.summary = format!("{}; {summary}", notes.summary);
        }
        // What was there when the file had no history is where its history begins.
        if let Some(before) = before
            && inner.recorded == Rev(0)
            && inner.found.is_none()
            && before.rev == Rev(0)
            && before.doc.views().any(|view| before.view(view).is_some())
        {
            inner.found = Some(Arc::clone(before));
        }
        let pending = u64::from(inner.found.is_some());
        inner.rev = Rev(inner.rev.max(last).0 + 1 + pending);
        let own = inner.print.map_or(now, |p| p.mtime);
        inner.mtime = own.max(Stamp(inner.mtime.0.saturating_add(1)));
    }

    /// Whether the archive of a revision has this content.
    pub(super) fn is_archived(
        &self,
        file: FileId,
        rev: Rev,
        state: &State,
        texts: FileDocument,
        record: &dyn Record,
    ) -> bool {
        let archived = record.archive(file, rev).ok().flatten();
        let archived = archived.and_then(|bytes| texts.decode_near(&bytes, state).ok());
        let view = View::File(file);
        archived.is_some_and(|archived| archived.view(view) == state.view(view))
    }
}

impl Inner {
    /// The version with the number and time of this slot.
    pub(super) fn version_of(&self, file: FileId, state: State) -> Arc<Version> {
        let (rev, mtime) = (self.rev, self.mtime);
        Arc::new(Version { doc: DocId::File(file), rev, mtime, state, belief: false })
    }
}

/// Whether this is the content of the version.
fn holds(file: FileId, version: &Version, text: Option<&[u8]>) -> bool {
    match (version.view(View::File(file)), text) {
        (Some(content), Some(text)) => content.equals(text),
        (None, None) => true,
        _ => false,
    }
}

/// Whether the two are prints of one text, as far as prints can tell: `ctime` moves with mode and
/// owner too.
fn same_text(a: Option<&Print>, b: Option<&Print>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a.dev, a.ino, a.size, a.mtime) == (b.dev, b.ino, b.size, b.mtime),
        (None, None) => true,
        _ => false,
    }
}

/// Whether the file is untouched since the revision was committed.
fn is_what_was_committed(print: Option<&Print>, row: Option<&FileRow>, rev: Rev) -> bool {
    let (Some(p), Some(row)) = (print, row) else { return false };
    (row.rev, row.ino, row.size, row.mtime, row.ctime) == (rev, p.ino, p.size, p.mtime, p.ctime)
}

/// What is put on record of a file as it is now. `fresh`: another write may leave the same print,
/// so that this must never stand for the content.
pub(super) fn file_row(rev: Rev, print: &Print, fresh: bool) -> FileRow {
    let ctime = if fresh { Stamp(0) } else { print.ctime };
    FileRow { rev, ino: print.ino, size: print.size, mtime: print.mtime, ctime }
}
