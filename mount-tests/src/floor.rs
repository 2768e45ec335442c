//! A FUSE file system that does nothing but answer: what any FUSE mount costs at least.
