//! Plain files: the store's own files, relative to its directory handle.
