//! The table of docs/SAVES.md.
