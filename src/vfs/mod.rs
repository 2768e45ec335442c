//! What the file system means, without FUSE: names, inodes, handles, saves, plain files.
//!
//! [`Tree`] is the whole mounted tree. It answers a [`Layer`]'s calls for documents itself and
//! hands everything else to the plain files of the store:
//!
//! * `reading`, `asked`, `writing`, `handle`: open documents (R1, section 5);
//! * `commit`: what a save is compared with, and what follows (R2 to R7);
//! * `observing`: what a save starts from ([`crate::fs::observed`], section 4);
//! * `renaming`, `hidden`, `adopted`, `sources`, `plain_side`: names (section 6);
//! * `managed`: documents that are files of the store;
//! * `owned`: files that belong to processes (markers and leases);
//! * `guards`, `news`: compare-and-swap, being told of new versions (section 7);
//! * `rescue`, `report`: texts that could not be saved;
//! * `attrs`, `listing`, `own_dir`, `past`: what `stat` and `ls` show;
//! * `tables`: rows of other programs' databases as files.

mod adopted;
mod asked;
mod attrs;
pub mod both;
mod budget;
mod commit;
mod early;
mod guards;
mod handle;
mod hidden;
mod last;
pub mod layer;
mod listing;
mod managed;
mod news;
mod observing;
mod own_dir;
pub mod owned;
mod past;
pub mod plain;
mod plain_side;
pub mod ports;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod reading;
mod renaming;
pub mod report;
mod resaved;
pub mod rescue;
mod serve;
mod sizes;
mod sources;
mod tables;
#[cfg(test)]
mod tests;
mod told;
pub mod tree;
mod writing;

pub use layer::{
    Attr, Backing, Caller, Created, DirEntry, Entry, Error, Fh, FileType, Layer, Node, Opened,
    Renaming, Result, SetAttr, SetTime, StatFs, XattrFlags,
};
pub use tree::{Options, Parts, Tree};

/// Nothing but white space, perhaps behind a byte order mark.
fn is_blank(text: &[u8]) -> bool {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).iter().all(u8::is_ascii_whitespace)
}
