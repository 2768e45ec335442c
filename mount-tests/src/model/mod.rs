//! The reference model: what the promises R1 to R9 ask for, small enough to be seen to be right,
//! next to the real thing doing the same.
//!
//! A sequence ([`ops`]) is done to something real ([`Real`]): to the core without a mount by the
//! tests of `instancefs` itself, and to a mount ([`Mounted`]). After every call the answer, the
//! texts, times, sizes and numbers, the rows, the texts that were refused or set aside, and at the
//! end the history are compared with what the model allows. Where a promise leaves room the model
//! does: it judges what has become of a save by conditions ([`oracle`]) and goes on from there.
//!
//! Nothing here knows how instancefs merges or saves: this package does not even depend on it.

mod base;
mod calls;
mod checks;
mod drafts;
mod edit;
mod ends;
mod entries;
mod mount;
pub mod ops;
pub mod oracle;
mod order;
mod real;
mod refusals;
mod run;
mod shrink;
mod state;
mod steps;
mod text;

pub use mount::Mounted;
pub use ops::{ACTORS, Generator, Mix, Op};
pub use real::{Answer, Real, Stat};
pub use run::{Count, Run};
pub use shrink::shrink;

/// Operations of a sequence.
pub const LENGTH: usize = 60;

/// On a mount, where each end takes its time.
pub const MOUNTED: Mix = Mix { ends: [8, 8, 10, 25], rests: 5 };

/// Does a sequence to something real that is as it is made.
///
/// # Errors
/// What is not as it must be, after which operation.
pub fn replay<R: Real>(real: R, ops: &[Op]) -> Result<Count, String> {
    let mut run = Run::new(real, ACTORS);
    for (step, op) in ops.iter().enumerate() {
        run.step(op).map_err(|what| format!("step {step}, {op:?}: {what}"))?;
    }
    run.end()
}

/// A failure as a person wants it: what is wrong, and a test that does it again.
pub fn report(seed: u64, what: &str, ops: &[Op]) -> String {
    let lines: String = ops.iter().map(|op| format!("        {op:?},\n")).collect();
    format!(
        "seed {seed}: {what}\n\nas a test:\n\n#[test]\nfn seed_{seed}() {{\n    again(&[\n{lines}    ]);\n}}\n"
    )
}

/// Does the sequence of a seed; a failing one is made small first, by doing parts of it again.
///
/// # Errors
/// [`report`] of the failure.
pub fn sequence<R: Real>(
    seed: u64,
    length: usize,
    mix: &Mix,
    make: impl Fn() -> R,
) -> Result<Count, String> {
    let ops = Generator::new(seed).sequence(length, mix);
    let run = |ops: &[Op]| {
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| replay(make(), ops)));
        tried.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Err(format!("panicked: {text}"))
        })
    };
    let first = match run(&ops) {
        Ok(count) => return Ok(count),
        Err(what) => what,
    };
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let small = shrink(ops, |ops| std::time::Instant::now() < end && run(ops).is_err());
    let what = run(&small).err().unwrap_or(first);
    Err(report(seed, &what, &small))
}
