//! What the file system means, without FUSE: names, inodes, handles, saves, plain files.
//!
//! [`Tree`] is the whole mounted tree. It answers a [`Layer`]'s calls for documents itself and
//! hands everything else to the plain files of the store:
//!
//! * `reading`, `asked`, `writing`, `handle`: open documents (R1, section 5);
//! * `commit`: what a save is compared with, and what follows (R2 to R7);
//! * `seen`, `marks`, `recall`, `recalled`, `relatives`, `processes`: who has seen which version (section 4);
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
mod known;
pub mod layer;
mod listing;
mod managed;
mod marks;
pub mod mountinfo;
mod news;
mod own_dir;
pub mod owned;
mod past;
pub mod plain;
mod plain_side;
pub mod ports;
pub mod processes;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod reading;
mod recall;
mod recalled;
mod relatives;
mod renaming;
pub mod report;
pub mod rescue;
pub mod seen;
mod serve;
mod sizes;
mod sources;
mod tables;
#[cfg(test)]
mod tests;
pub mod tree;
mod writing;

pub use layer::{
    Attr, Backing, Caller, Created, DirEntry, Entry, Error, Fh, FileType, Layer, Node, Opened,
    Renaming, Result, SetAttr, SetTime, StatFs, XattrFlags,
};
pub use tree::{Options, Parts, Tree};
