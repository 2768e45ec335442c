//! R10: random sequences of system calls. `make soak` does more of them.

use mount_tests::{Instance, sequences};

/// Calls of one sequence.
const STEPS: usize = 60;

fn same_as_on_the_disk(args: &[&str], seeds: std::ops::Range<u64>) {
    // Owners and devices are root's to change; everybody else gets the same errors in both.
    let it = args.iter().fold(Instance::builder(), |b, arg| b.mount_arg(arg)).start();
    for seed in seeds {
        if let Err(what) = sequences::in_instance(&it, seed, STEPS) {
            panic!("{args:?}: {what}");
        }
    }
}

#[test]
fn sequences_with_passthrough() {
    same_as_on_the_disk(&[], 0..200);
}

#[test]
fn sequences_without_passthrough() {
    same_as_on_the_disk(&["--no-passthrough"], 200..400);
}

#[test]
fn sequences_strict() {
    same_as_on_the_disk(&["--strict", "--no-passthrough"], 400..500);
}
