//! Tests of the promises in docs/SEMANTICS.md on a real mount with real programs. Each file is
//! one group of promises; docs/SEMANTICS.md says which test proves which sentence.

mod append;
mod commands;
mod config;
mod config_commands;
mod crash;
mod harness;
mod history;
mod koan;
mod koan_export;
mod koan_locks;
mod koan_odd;
mod koan_rows;
mod leases;
mod leaving;
mod lock;
mod managed_history;
mod merge;
mod names;
mod outside;
mod plain;
mod plain_owners;
mod plain_random;
mod plain_sources;
mod plain_suites;
mod programs;
mod reads;
mod refused;
mod review;
mod rmw;
mod saves;
mod seen;
mod swap;
mod tables;
mod told;
mod verbatim;
