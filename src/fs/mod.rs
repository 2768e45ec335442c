//! What the file system means, apart from FUSE.

pub mod observed;
