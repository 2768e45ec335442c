//! Kills, power losses and failing calls on a real daemon under load, in numbers.
//!
//! usage: crashes COUNT SEED | crashes --minutes N [--seed S]

use std::process::ExitCode;
use std::time::Duration;

use mount_tests::crashes::{Until, run};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    let number = |at: usize| args.get(at).and_then(|arg| arg.parse::<u64>().ok());
    let (until, seed) = match named("--minutes") {
        Some(minutes) => (Until::Time(Duration::from_secs(minutes * 60)), named("--seed")),
        None => (Until::Rounds(number(0).unwrap_or(100) as usize), number(1)),
    };
    let seed = seed.unwrap_or(1);
    let summary = run(until, seed, |line| println!("{line}"));
    for loss in &summary.losses {
        println!("LOSS: {loss}");
    }
    println!("{summary} (seed {seed})");
    if summary.losses.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
