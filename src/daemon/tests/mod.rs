//! What is tested of the daemon's room as a whole.

mod survival;
