//! Merging, as pure functions: no clock, no processes, no store. The same input gives the same
//! result on every machine.

pub mod entries;
