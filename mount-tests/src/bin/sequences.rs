//! Random sequences of system calls on the disk and in a mount: `sequences [COUNT [SEED]]`. The
//! same seed gives the same calls. Ends with 1 at the first that differs.

use std::process::ExitCode;

use mount_tests::{Instance, sequences};

/// Calls of one sequence.
const STEPS: usize = 60;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let (Some(Ok(count)), seed) = (numbers.next().or(Some(Ok(10_000))), numbers.next()) else {
        eprintln!("usage: sequences [COUNT [SEED]]");
        return ExitCode::from(2);
    };
    let first = seed.and_then(Result::ok).unwrap_or(1);
    for mode in [&["--strict"][..], &["--no-passthrough"], &[]] {
        let patience = std::time::Duration::from_secs(24 * 3600);
        let builder = Instance::builder().watchdog(patience);
        let it = mode.iter().fold(builder, |b, arg| b.mount_arg(arg)).start();
        for seed in first..first + count {
            if let Err(what) = sequences::in_instance(&it, seed, STEPS) {
                eprintln!("{mode:?}: {what}");
                return ExitCode::FAILURE;
            }
        }
        println!("{mode:?}: {count} sequences from seed {first}: the same on the disk");
    }
    let all = 3 * count;
    println!("sequences: {all} sequences, {} operations, losses: 0", all * STEPS as u64);
    ExitCode::SUCCESS
}
