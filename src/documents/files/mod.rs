//! Managed files: real files of the store with the save rules of a document.
//!
//! What rows are to another document, the file in the store is to a managed file: the truth,
//! which other programs may change behind the mount. [`crate::documents::managed`] compares it
//! with what was known and replaces it in one step. Only the history is in the database.

#[cfg(test)]
mod conformance_tests;
mod defaults;
mod document;
mod event;
mod keyed;
mod layout;
pub(in crate::documents) mod lines;
#[cfg(test)]
mod lines_tests;
mod pairs;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod rules;
#[cfg(test)]
mod rules_tests;
mod state;
mod summary;
#[cfg(test)]
mod tests;

pub use document::FileDocument;
pub use rules::{Class, Origin, Rule, RuleSet, StoreRules};
pub use state::FileState;

use crate::documents::Content;
use crate::model::{FileId, FileKind, Refusal, Stamp};
use crate::store::StoreError;

/// The largest file that is managed, in bytes; larger ones are plain.
pub const SIZE_LIMIT: u64 = 64 << 20;

/// Why this text is none of a kind, whatever is there now and whatever its writer has seen.
pub fn refusal(kind: FileKind, text: &[u8]) -> Option<Refusal> {
    keyed::refusal(keyed::Keyed::of(kind)?, text)
}

/// What the file in the store was when it was looked at. Two different contents never have the
/// same print, unless they were written without the mount within one tick of the file system's
/// clock and have the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Print {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
    /// `st_size`, in bytes.
    pub size: u64,
    /// `st_mtime`.
    pub mtime: Stamp,
    /// `st_ctime`.
    pub ctime: Stamp,
}

/// The files of the store, as managed files need them. Never follows a symlink, never leaves the
/// store.
pub trait Disk: Send + Sync {
    /// The print of the file; `None`: there is no regular file under this name.
    fn print(&self, file: FileId) -> Result<Option<Print>, StoreError>;
    /// The whole content with the print that it belongs to; `None` as above.
    fn read(&self, file: FileId) -> Result<Option<(Vec<u8>, Print)>, StoreError>;
    /// Puts `text` in place of the file in one step (a temporary and a rename), with the mode,
    /// owner and extended attributes of the file that it replaces and `mtime` as its modification
    /// time; `None` removes the file. Whoever looks at the store sees the old or the new text,
    /// whole, at every moment, also after this process was killed.
    ///
    /// Answers `None`, with nothing changed, when the file is not `expected` any more. Until
    /// [`Swap::keep`] everything can be undone.
    ///
    /// Errors: nothing was changed. [`StoreError::Full`]; [`StoreError::Io`] when the directory
    /// is missing or something that is no regular file has the name.
    fn replace<'d>(
        &'d self,
        file: FileId,
        expected: Option<&Print>,
        text: Option<&Content>,
        mtime: Stamp,
    ) -> Result<Option<Box<dyn Swap + 'd>>, StoreError>;
    /// The same by adding `bytes` at the end of the file itself, where a kill in the middle cannot
    /// leave a part of them; else `None`.
    fn append<'d>(
        &'d self,
        file: FileId,
        expected: &Print,
        bytes: &[u8],
        mtime: Stamp,
    ) -> Result<Option<Box<dyn Swap + 'd>>, StoreError> {
        let _ = (file, expected, bytes, mtime);
        Ok(None)
    }
    /// Something was replaced that may not survive power loss yet.
    fn is_dirty(&self) -> bool;
    /// Makes what was replaced before this call survive power loss (R8).
    fn sync(&self) -> Result<(), StoreError>;
    /// Nothing will be replaced for now: what was needed for it goes.
    fn tidy(&self) {}
}

/// A file that was replaced, while the old one is still there. Dropped, it is brought back.
pub trait Swap {
    /// What the file is now; `None`: it was removed.
    fn print(&self) -> Option<Print>;
    /// The old file is not needed any more.
    fn keep(self: Box<Self>);
}

/// What a path of the mount is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The kind; `None`: a plain file.
    pub kind: Option<FileKind>,
    /// Why, for people: the glob that fits and where it stands, or what keeps the file plain.
    pub why: String,
}

/// Which paths are managed, and how.
pub trait Rules: Send + Sync {
    /// By the path alone (below the root, `/` between names, UTF-8), whether or not a file is
    /// there. Cheap: asked at every lookup.
    fn kind(&self, path: &str) -> Option<FileKind>;
    /// The same with the reason.
    fn judge(&self, path: &str) -> Judged;
}
