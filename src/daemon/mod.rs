//! The life of the serving process: lock, ready, signals, outside changes, unmount.
