//! What the file system means, without FUSE: names, inodes, handles, saves, plain files.

pub mod layer;
pub mod plain;

pub use layer::{
    Attr, Caller, Created, DirEntry, Entry, Error, Fh, FileType, Layer, Node, Opened, Renaming,
    SetAttr, SetTime, StatFs, XattrFlags,
};
