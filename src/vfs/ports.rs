//! What the tree needs from the rooms and files around it, as traits that tests replace.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::layer::{Attr, Fh, Layer, Node, Result};
use super::owned::FileId;
use crate::documents::live::{Live, SaveError, SaveRequest, Saved};
use crate::documents::{Content, Version};
use crate::fs::observed::{Changes, Stored};
use crate::model::{DocId, Rev, Stamp, View};
use crate::store::StoreError;

/// The current versions of the documents and where a save commits.
pub trait Documents: Send + Sync {
    /// The current version; asks the database whether it has changed.
    fn current(&self, doc: DocId) -> std::result::Result<Arc<Version>, StoreError>;
    /// The version current at the last look, without asking.
    fn cached(&self, doc: DocId) -> Arc<Version>;
    /// Rows of this document wait for `missions.lock`.
    fn waits(&self, _doc: DocId) -> bool {
        false
    }
    /// The holder of `missions.lock` has read this version while rows waited.
    fn read_by_holder(&self, _version: Arc<Version>) {}
    /// Commits a save or says why not. May block as long as a commit takes.
    fn save(&self, request: SaveRequest<'_>) -> std::result::Result<Saved, SaveError>;
    /// Makes everything that was committed survive power loss (R8).
    fn sync(&self) -> std::result::Result<(), StoreError>;
    /// A version out of the history; `None`: not (or no longer) on record.
    fn at(&self, doc: DocId, rev: Rev) -> std::result::Result<Option<Arc<Version>>, StoreError>;
    /// When the revision was made; `None`: not (or no longer) on record.
    fn made(&self, doc: DocId, rev: Rev) -> std::result::Result<Option<Stamp>, StoreError>;
    /// The text under this name in a revision; `None`: not (or no longer) on record, or the name
    /// did not exist.
    fn text_at(&self, view: View, rev: Rev) -> std::result::Result<Option<Content>, StoreError>;
    /// Numbers and times of the revisions above `after`, the oldest first, at most `limit`.
    fn numbers(
        &self,
        doc: DocId,
        after: Rev,
        limit: usize,
    ) -> std::result::Result<Vec<(Rev, Stamp)>, StoreError>;
    /// The text as what a writer believes since `rev`.
    fn believe(
        &self,
        view: View,
        text: &[u8],
        rev: Rev,
    ) -> std::result::Result<Arc<Version>, SaveError>;
    /// Somebody has looked at the name of a managed file and may watch it: changes behind the mount
    /// are told from now on, also if nobody reads it.
    fn notice(&self, _file: crate::model::FileId) {}
    /// Until it is called with `None` what is found changed in the store's file is by this one.
    fn attribute(&self, _file: crate::model::FileId, _to: Option<crate::model::Actor>) {}
    /// The managed files that have a history, by path, also those that are gone.
    fn files_on_record(&self) -> std::result::Result<Vec<crate::model::FileId>, StoreError> {
        Ok(Vec::new())
    }
}

impl Documents for Live {
    fn current(&self, doc: DocId) -> std::result::Result<Arc<Version>, StoreError> {
        Live::current(self, doc)
    }
    fn cached(&self, doc: DocId) -> Arc<Version> {
        Live::cached(self, doc)
    }
    fn waits(&self, doc: DocId) -> bool {
        Live::waits(self, doc)
    }
    fn read_by_holder(&self, version: Arc<Version>) {
        Live::read_by_holder(self, version);
    }
    fn save(&self, request: SaveRequest<'_>) -> std::result::Result<Saved, SaveError> {
        Live::save(self, request)
    }
    fn sync(&self) -> std::result::Result<(), StoreError> {
        Live::sync(self)
    }
    fn at(&self, doc: DocId, rev: Rev) -> std::result::Result<Option<Arc<Version>>, StoreError> {
        Live::at(self, doc, rev)
    }
    fn made(&self, doc: DocId, rev: Rev) -> std::result::Result<Option<Stamp>, StoreError> {
        self.store().made(doc, rev)
    }
    fn text_at(&self, view: View, rev: Rev) -> std::result::Result<Option<Content>, StoreError> {
        Live::text_at(self, view, rev)
    }
    fn numbers(
        &self,
        doc: DocId,
        after: Rev,
        limit: usize,
    ) -> std::result::Result<Vec<(Rev, Stamp)>, StoreError> {
        self.store().numbers(doc, after, limit)
    }
    fn believe(
        &self,
        view: View,
        text: &[u8],
        rev: Rev,
    ) -> std::result::Result<Arc<Version>, SaveError> {
        Live::believe(self, view, text, rev)
    }
}

/// The store's own files below the tree. Node ids are at least 2^16 and never used again; the
/// root is 1. Handle numbers are below 2^62. The methods here act as the daemon, not as a caller,
/// and take no kernel reference.
pub trait PlainFiles: Layer {
    /// The regular file under this name, open for reading; never through a symlink.
    fn real_file(&self, parent: Node, name: &OsStr) -> Result<File>;
    /// The node under this name, if there is a file and the kernel knows it.
    fn node_of(&self, parent: Node, name: &OsStr) -> Option<Node>;
    /// What `stat` says about a name; about a symlink itself.
    fn attr_of(&self, parent: Node, name: &OsStr) -> Result<Attr>;
    /// Removes a name that is not a directory's. Open handles go on.
    fn remove(&self, parent: Node, name: &OsStr) -> Result<()>;
    /// The open handles on the file with this `st_ino` that may write.
    fn handles_of(&self, ino: u64) -> Vec<Fh>;
    /// Which file of the store a node is, without asking the store.
    fn id_of(&self, _node: Node) -> Option<FileId> {
        None
    }
    /// Where the node was last seen, relative to the store; the root is the empty path.
    fn path_of(&self, _node: Node) -> Option<PathBuf> {
        None
    }
    /// Whether the handle may write.
    fn may_write(&self, _fh: Fh) -> bool {
        true
    }
    /// Whether the kernel has written to the file without asking, through a handle whose
    /// [`Layer::backing`] it has got, since the last question.
    fn written_directly(&self, _node: Node) -> bool {
        false
    }
    /// A descriptor of the store's directory.
    fn root_fd(&self) -> BorrowedFd<'_>;
}

/// What the mount keeps of a document's name over remounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptName {
    /// The name.
    pub view: View,
    /// `st_ino`.
    pub ino: u64,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// An access time that was set.
    pub atime: Option<Stamp>,
    /// A modification time that was set, and the revision for which it counts.
    pub mtime: Option<(Stamp, Rev)>,
}

pub use crate::store::KeptRefusal;

/// What outlives the daemon.
pub trait Memory: Send + Sync {
    /// The document names on record.
    fn names(&self) -> std::result::Result<Vec<KeptName>, StoreError>;
    /// Puts a name on record.
    fn keep_name(&self, name: &KeptName) -> std::result::Result<(), StoreError>;
    /// Takes a name off the record.
    fn forget_name(&self, view: View) -> std::result::Result<(), StoreError>;
    /// The observations of this boot, the oldest first, without their texts.
    fn observations(&self) -> std::result::Result<Vec<Stored>, StoreError>;
    /// One of them with its text.
    fn observation(&self, doc: DocId, at: u64) -> std::result::Result<Option<Stored>, StoreError>;
    /// Puts changes of them on record.
    fn keep_observations(&self, changes: &Changes) -> std::result::Result<(), StoreError>;
    /// Puts a refusal on record.
    fn record_refusal(&self, refusal: &KeptRefusal<'_>) -> std::result::Result<(), StoreError>;
    /// The texts in these files need nobody's attention any more.
    fn resolve_refusals(&self, kept_as: &[String]) -> std::result::Result<(), StoreError>;
}
