#![no_main]
//! See `instancefs::properties`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| instancefs::properties::check("hopeless", data));
