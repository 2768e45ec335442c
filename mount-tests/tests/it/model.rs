//! R1 to R9: random operations on the reference model and on a mount. `make soak` does more of
//! them; the core without a mount does most (`vfs::tests::model`).

use mount_tests::model::{LENGTH, MOUNTED, Mounted, sequence};

fn sequences(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        if let Err(what) = sequence(seed, LENGTH, &MOUNTED, Mounted::fresh) {
            panic!("{what}");
        }
    }
}

#[test]
fn sequences_on_a_mount_keep_the_promises_1() {
    sequences(1..11);
}

#[test]
fn sequences_on_a_mount_keep_the_promises_2() {
    sequences(11..21);
}
