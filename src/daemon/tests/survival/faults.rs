//! Every call on a file of the store fails in turn, alone or with all that change something
//! after it.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mount_tests::calls::{Call, Kind, Verdict, Which, watch_this_thread};
use parking_lot::Mutex;

use super::scenarios::{self, Scenario};
use super::{Story, World, apart, check, copy, exhaustive, late, scratch, template};

thread_local! {
    static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what a thread says as a warning or worse.
struct Ears;

impl log::Log for Ears {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        if record.level() <= log::Level::Warn {
            SAID.with_borrow_mut(|said| said.push(record.args().to_string()));
        }
    }
    fn flush(&self) {}
}

fn listen() {
    let _ = log::set_logger(&Ears);
    log::set_max_level(log::LevelFilter::Warn);
    SAID.with_borrow_mut(Vec::clear);
}

/// Whether this thread has warned of something with `what` in it.
pub fn said(what: &str) -> bool {
    SAID.with_borrow(|said| said.iter().any(|line| line.contains(what)))
}

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One call.
    Once,
    /// That one and all later ones that change something, until the scenario is over.
    FromThenOn,
}

/// Counts calls and lets some fail.
#[derive(Default)]
pub struct Countdown {
    /// Which ones are counted; `None`: all.
    only: Option<fn(&Call) -> bool>,
    armed: AtomicBool,
    seen: AtomicUsize,
    hit: Mutex<Option<String>>,
}

impl Countdown {
    /// From now on calls are counted, or not any more.
    pub fn arm(&self, on: bool) {
        self.armed.store(on, Ordering::SeqCst);
    }

    /// Which call failed first, and how many were counted.
    pub fn result(&self) -> (Option<String>, usize) {
        (self.hit.lock().take(), self.seen.load(Ordering::SeqCst))
    }

    pub fn judge(&self, call: &Call, n: usize, fault: Fault) -> Verdict {
        if !self.armed.load(Ordering::SeqCst) {
            return Verdict::Go;
        }
        // What is failing for good fails where something is changed.
        if fault == Fault::FromThenOn && !call.kind.changes() {
            return Verdict::Go;
        }
        if self.only.is_some_and(|only| !only(call)) {
            return Verdict::Go;
        }
        let seen = self.seen.fetch_add(1, Ordering::SeqCst);
        let fails = match fault {
            Fault::Once => seen == n,
            Fault::FromThenOn => seen >= n,
        };
        if !fails {
            return Verdict::Go;
        }
        let errno = errno(call.kind, n);
        let what = || format!("{:?} of {} fails with {errno}", call.kind, call.path.display());
        self.hit.lock().get_or_insert_with(what);
        Verdict::Fail(errno)
    }
}

/// What is usual for such a call.
fn errno(kind: Kind, n: usize) -> i32 {
    match kind {
        Kind::Open => [libc::EMFILE, libc::EIO, libc::ENOMEM][n % 3],
        kind if kind.takes_room() => [libc::ENOSPC, libc::EIO, libc::EDQUOT][n % 3],
        _ => libc::EIO,
    }
}

/// What became of a run.
enum Outcome {
    /// There was no such call.
    Untouched {
        /// How many there were.
        calls: usize,
    },
    /// A call failed, and nothing was lost.
    Hit,
}

/// Runs of a scenario in a sample.
const SAMPLE: usize = 10;

/// One run with the `n`-th call failing.
fn run(scenario: &Scenario, template: &Path, n: usize, fault: Fault) -> Outcome {
    run_with(scenario, template, n, fault, None)
}

/// The same, counting only some calls.
fn run_with(
    scenario: &Scenario,
    template: &Path,
    n: usize,
    fault: Fault,
    only: Option<fn(&Call) -> bool>,
) -> Outcome {
    apart(|| {
        listen();
        let dir = scratch();
        let dir = dir.path().join("s");
        copy(template, &dir);
        let countdown = Arc::new(Countdown { only, ..Countdown::default() });
        let world = World::open(&dir).unwrap();
        let keep = (scenario.before)(&world);
        let judge = Arc::clone(&countdown);
        let judge = Box::new(move |call: &Call| judge.judge(call, n, fault));
        watch_this_thread(&dir, Which::All, judge);
        let mut story = Story::default();
        countdown.arm(true);
        (scenario.run)(&world, &mut story, keep);
        countdown.arm(false);
        let (hit, calls) = countdown.result();
        let Some(hit) = hit else { return Outcome::Untouched { calls } };
        let what = format!("{}: call {n} ({fault:?}): {hit}", scenario.name);
        for step in story.steps.iter().filter(|s| s.failed.is_some()) {
            let heard = || SAID.with_borrow(|said| said.join("\n"));
            // A command prints what failed; a plain file, temporary ones among them, fails as the
            // store does.
            let plain = step.failed.as_ref().is_some_and(|told| told.contains("[Os("));
            let command = scenario.name == "undo";
            let document = step.file.trim_end_matches(".json");
            assert!(
                command || plain || said(document) || said("may not survive a power loss"),
                "{what}: failed without a word: {step:?}\n{}",
                heard()
            );
        }
        let all = story.steps.len();
        story.check(&world, all, &what);
        story.goes_on(&world, all, &what);
        world.close().unwrap_or_else(|e| panic!("{what}: does not close: {e}"));
        let all = story.steps.len();
        check(&dir, &mut story, all, &what);
        Outcome::Hit
    })
}

/// All runs of a scenario; how many there were.
fn every_call_fails(name: &str) {
    let scenario = scenarios::named(name);
    let template = template(scenario);
    for fault in [Fault::Once, Fault::FromThenOn] {
        // How many calls there are, then all of them or some.
        let calls = match run(scenario, template.path(), usize::MAX, fault) {
            Outcome::Untouched { calls } => calls,
            Outcome::Hit => 0,
        };
        let sample = calls.div_ceil(SAMPLE).max(1);
        let step = if exhaustive() && !late() { 1 } else { sample };
        let mut runs = 0;
        for n in (0..calls).step_by(step) {
            if step < sample && late() && runs > SAMPLE {
                println!("{name}: time is over after {n} of {calls} calls ({fault:?})");
                break;
            }
            if let Outcome::Hit = run(scenario, template.path(), n, fault) {
                runs += 1;
            }
        }
        assert!(runs > 1, "{name}: only {runs} calls");
        println!("{name}: {runs} faults ({fault:?})");
    }
}

#[test]
fn an_addition_in_place_that_fails_half_way_is_taken_back() {
    let scenario = scenarios::named("managed files");
    let template = template(scenario);
    let of_file = |call: &Call| call.path.ends_with("memory/long.md") && call.kind.changes();
    let mut hits = 0;
    while let Outcome::Hit = run_with(scenario, template.path(), hits, Fault::Once, Some(of_file)) {
        hits += 1;
    }
    assert!(hits >= 5, "two writes, two times, a sync: {hits}");
}

#[test]
fn a_managed_file_that_cannot_be_looked_at_is_not_taken_for_a_plain_one() {
    let scenario = scenarios::named("managed files");
    let template = template(scenario);
    let of_file = |call: &Call| call.path.ends_with("outbox.md") && call.kind == Kind::Ask;
    let mut hits = 0;
    while let Outcome::Hit = run_with(scenario, template.path(), hits, Fault::Once, Some(of_file)) {
        hits += 1;
    }
    assert!(hits >= 10, "{hits}");
}

#[test]
fn an_append_survives_every_fault() {
    every_call_fails("append");
}

#[test]
fn a_merged_save_survives_every_fault() {
    every_call_fails("whole save that meets another change");
}

#[test]
fn a_save_by_rename_survives_every_fault() {
    every_call_fails("save by rename");
}

#[test]
fn a_config_save_survives_every_fault() {
    every_call_fails("config");
}

#[test]
fn a_refusal_survives_every_fault() {
    every_call_fails("refused");
}

#[test]
fn an_undo_survives_every_fault() {
    every_call_fails("undo");
}

#[test]
fn waiting_rows_survive_every_fault() {
    every_call_fails("rows that wait for missions.lock");
}

#[test]
fn a_change_by_sql_survives_every_fault() {
    every_call_fails("a change by SQL");
}

#[test]
fn managed_files_survive_every_fault() {
    every_call_fails("managed files");
}

#[test]
fn a_change_behind_the_mount_survives_every_fault() {
    every_call_fails("a managed file behind the mount");
}

#[test]
fn plain_files_survive_every_fault() {
    every_call_fails("plain files");
}

#[test]
fn housekeeping_survives_every_fault() {
    every_call_fails("housekeeping and a checkpoint");
}
