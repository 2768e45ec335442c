//! The process is killed before every call that changes something, and within writes; power goes
//! at every such moment.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mount_tests::calls::power::{Dice, Journal};
use mount_tests::calls::{Call, Kind, Verdict, Which, watch_this_thread};
use parking_lot::Mutex;

use super::scenarios::{self, Scenario};
use super::{Story, World, apart, check, copy, exhaustive, scratch, template};

/// What was done to the files in a scenario, and what was told of it.
struct Record {
    journal: Journal,
    story: Story,
}

/// Runs a scenario with nothing failing and writes down what it does to the files.
fn record(scenario: &Scenario) -> Record {
    let template = template(scenario);
    let home = scratch();
    let dir = home.path().join("s");
    copy(template.path(), &dir);
    let (journal, mut story) = apart(|| {
        let world = World::open(&dir).unwrap();
        let keep = (scenario.before)(&world);
        let journal = Arc::new(Mutex::new(Journal::of(&dir).unwrap()));
        let armed = Arc::new(AtomicBool::new(true));
        let (notes, on) = (Arc::clone(&journal), Arc::clone(&armed));
        let judge = move |call: &Call| match call.kind {
            // There are other ways, which are written down.
            Kind::Copy => Verdict::Fail(libc::ENOSYS),
            _ => {
                if on.load(Ordering::SeqCst) {
                    notes.lock().note(call);
                }
                Verdict::Go
            }
        };
        watch_this_thread(&dir, Which::Changes, Box::new(judge));
        let mut story = Story::default();
        let count = Arc::clone(&journal);
        story.count = Some(Box::new(move || count.lock().len()));
        (scenario.run)(&world, &mut story, keep);
        armed.store(false, Ordering::SeqCst);
        // What was written down is what there is.
        let complete = scratch();
        let journal =
            std::mem::replace(&mut *journal.lock(), Journal::of(complete.path()).unwrap());
        journal.complete(journal.len(), complete.path()).unwrap();
        same(&dir, complete.path());
        (journal, story)
    });
    story.count = None;
    assert!(story.steps.iter().all(|s| s.failed.is_none()), "{:?}", story.steps);
    Record { journal, story }
}

fn same(a: &Path, b: &Path) {
    let names = |dir: &Path| {
        let all = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
        let mut all: Vec<_> = all.filter(|n| !n.to_string_lossy().ends_with("-shm")).collect();
        all.sort();
        all
    };
    assert_eq!(names(a), names(b), "{}", a.display());
    for name in names(a) {
        let (a, b) = (a.join(&name), b.join(&name));
        if a.is_dir() {
            same(&a, &b);
        } else if a.is_file() && !a.is_symlink() {
            assert!(std::fs::read(&a).unwrap() == std::fs::read(&b).unwrap(), "{}", a.display());
        }
    }
}

/// The moments that are tried: some hundreds, or so many, the last one among them.
fn moments(journal: &Journal, most: usize) -> Vec<usize> {
    let len = journal.len();
    let most = if exhaustive() { 400 } else { most };
    (0..len).step_by(len.div_ceil(most).max(1)).chain([len]).collect()
}

fn killed_at_every_step(name: &str) {
    let Record { journal, story } = record(scenarios::named(name));
    let mut dice = Dice::new(7);
    for n in moments(&journal, 12) {
        let acknowledged = story.steps.iter().take_while(|s| s.ended <= n).count();
        for within in [false, true] {
            let dir = scratch();
            let done = match within {
                false => journal.complete(n, dir.path()).map(|()| true).unwrap(),
                true => journal.killed_within(n, &mut dice, dir.path()).unwrap(),
            };
            if !done {
                continue;
            }
            let what = format!(
                "{name}: killed at {n} of {} ({within}): {}",
                journal.len(),
                journal.describe(n)
            );
            check(dir.path(), &mut story.clone(), acknowledged, &what);
        }
    }
    println!("{name}: killed at {} steps", journal.len());
}

fn power_lost_at_every_step(name: &str) {
    let Record { journal, story } = record(scenarios::named(name));
    let each = if exhaustive() { 6 } else { 1 };
    let mut dice = Dice::new(11);
    let mut all = moments(&journal, 16);
    // Where a name is there and its content perhaps not yet, always.
    all.extend(journal.renames().into_iter().take(if exhaustive() { 400 } else { 12 }));
    for n in all {
        let durable = |s: &super::story::Step| s.durable && s.ended <= n;
        let acknowledged = story.steps.iter().rposition(durable).map_or(0, |at| at + 1);
        for round in 0..each {
            let dir = scratch();
            journal.after_loss(n, &mut dice, dir.path()).unwrap();
            let what = format!(
                "{name}: power lost at {n} of {} ({round}): {}",
                journal.len(),
                journal.describe(n)
            );
            let opened =
                World::open(dir.path()).unwrap_or_else(|e| panic!("{what}: does not open: {e}"));
            story.check_order(&opened, &what);
            drop(opened);
            check(dir.path(), &mut story.clone(), acknowledged, &what);
        }
    }
    println!("{name}: power lost at {} steps", journal.len());
}

#[test]
fn an_append_survives_kills() {
    killed_at_every_step("append");
}

#[test]
fn an_append_survives_power_loss() {
    power_lost_at_every_step("append");
}

#[test]
fn a_merged_save_survives_kills() {
    killed_at_every_step("whole save that meets another change");
}

#[test]
fn a_merged_save_survives_power_loss() {
    power_lost_at_every_step("whole save that meets another change");
}

#[test]
fn a_save_by_rename_survives_kills() {
    killed_at_every_step("save by rename");
}

#[test]
fn a_save_by_rename_survives_power_loss() {
    power_lost_at_every_step("save by rename");
}

#[test]
fn a_config_save_survives_kills() {
    killed_at_every_step("config");
}

#[test]
fn a_config_save_survives_power_loss() {
    power_lost_at_every_step("config");
}

#[test]
fn a_refusal_survives_kills() {
    killed_at_every_step("refused");
}

#[test]
fn a_refusal_survives_power_loss() {
    power_lost_at_every_step("refused");
}

#[test]
fn an_undo_survives_kills() {
    killed_at_every_step("undo");
}

#[test]
fn an_undo_survives_power_loss() {
    power_lost_at_every_step("undo");
}

#[test]
fn waiting_rows_survive_kills() {
    killed_at_every_step("rows that wait for missions.lock");
}

#[test]
fn waiting_rows_survive_power_loss() {
    power_lost_at_every_step("rows that wait for missions.lock");
}

#[test]
fn a_change_by_sql_survives_kills() {
    killed_at_every_step("a change by SQL");
}

#[test]
fn a_change_by_sql_survives_power_loss() {
    power_lost_at_every_step("a change by SQL");
}

#[test]
fn managed_files_survive_kills() {
    killed_at_every_step("managed files");
}

#[test]
fn managed_files_survive_power_loss() {
    power_lost_at_every_step("managed files");
}

#[test]
fn a_change_behind_the_mount_survives_kills() {
    killed_at_every_step("a managed file behind the mount");
}

#[test]
fn a_change_behind_the_mount_survives_power_loss() {
    power_lost_at_every_step("a managed file behind the mount");
}

#[test]
fn plain_files_survive_kills() {
    killed_at_every_step("plain files");
}

#[test]
fn plain_files_survive_power_loss() {
    power_lost_at_every_step("plain files");
}

#[test]
fn housekeeping_survives_kills() {
    killed_at_every_step("housekeeping and a checkpoint");
}

#[test]
fn housekeeping_survives_power_loss() {
    power_lost_at_every_step("housekeeping and a checkpoint");
}
