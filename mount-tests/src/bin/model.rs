//! The reference model next to real mounts: `model COUNT SEED [--minutes N]` does the sequences of
//! COUNT seeds from SEED on, each on a fresh instance, for at most N minutes. Ends with 1 at the
//! first that breaks a promise, and prints it as a test.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use mount_tests::model::{Count, LENGTH, MOUNTED, Mounted, sequence};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|arg| arg.parse::<u64>().ok());
    let minutes = args.iter().position(|arg| arg == "--minutes").map(|at| number(at + 1));
    let (Some(count), Some(first), false) = (number(0), number(1), minutes == Some(None)) else {
        eprintln!("usage: model COUNT SEED [--minutes N]");
        return ExitCode::from(2);
    };
    let limit = minutes.flatten().map(|minutes| Duration::from_secs(minutes * 60));
    let start = Instant::now();
    let mut all = Count::default();
    for seed in first..first.saturating_add(count) {
        if limit.is_some_and(|limit| start.elapsed() > limit) {
            break;
        }
        match sequence(seed, LENGTH, &MOUNTED, Mounted::fresh) {
            Ok(one) => all.add(&one),
            Err(what) => {
                println!("{what}\nmodel: {all}, losses: at least 1");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("model: {all}, losses: 0");
    if all.sequences > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
