//! The same for commands that make, move, copy and open a store: whatever fails, the command says
//! so, nothing is lost, and repeated it does what is left.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mount_tests::calls::power::{Dice, Journal};
use mount_tests::calls::{Call, Kind, Verdict, Which, watch_this_thread};
use parking_lot::Mutex;

use super::faults::{Countdown, Fault};
use super::{Story, World, apart, check, copy, exhaustive, scenarios, scratch};
use crate::daemon::leases::{Desk, Standing};
use crate::daemon::{adopt, export, import};

type Done = Result<(), String>;

struct Command {
    name: &'static str,
    /// Makes what it begins with below a directory.
    prepare: fn(&Path),
    run: fn(&Path) -> Done,
    /// What has to be so after it, repeated if need be.
    check: fn(&Path, &str),
}

fn text<E: std::fmt::Display>(e: E) -> String {
    e.to_string()
}

fn good(store: &Path, what: &str) {
    check(store, &mut Story::default(), 0, what);
}

const DIR: &str = "d";
const STORE: &str = "d.store";
const LEASE: &str = "work.lock";

const ALL: &[Command] = &[
    Command {
        name: "init",
        prepare: |root| scenarios::files(&root.join(DIR)),
        run: |root| import::init(&root.join(STORE), Some(&root.join(DIR))).map(drop).map_err(text),
        check: |root, what| {
            good(&root.join(STORE), what);
            scenarios::expect_files(&root.join(DIR), what);
        },
    },
    Command {
        name: "adopt",
        prepare: |root| scenarios::files(&root.join(DIR)),
        run: |root| adopt::adopt(&root.join(DIR)).map(drop).map_err(text),
        check: |root, what| {
            let left = std::fs::read_dir(root.join(DIR)).unwrap().count();
            assert_eq!(left, 0, "{what}: the mount point is not empty");
            good(&root.join(STORE), what);
        },
    },
    Command {
        name: "eject",
        prepare: |root| {
            scenarios::files(&root.join(DIR));
            adopt::adopt(&root.join(DIR)).unwrap();
        },
        run: |root| adopt::eject(&root.join(DIR), true).map(drop).map_err(text),
        check: |root, what| {
            scenarios::expect_files(&root.join(DIR), what);
            let names = std::fs::read_dir(root.join(DIR)).unwrap();
            for name in names.map(|e| e.unwrap().file_name().into_string().unwrap()) {
                assert!(!name.starts_with(".instancefs"), "{what}: {name} is left behind");
            }
        },
    },
    Command {
        name: "export",
        prepare: |root| scenarios::furnish(&root.join(STORE)),
        run: |root| export::export(&root.join(STORE), &root.join("out")).map(drop).map_err(text),
        check: |root, what| {
            scenarios::expect_files(&root.join("out"), what);
            good(&root.join(STORE), what);
        },
    },
    Command {
        name: "mount and unmount",
        prepare: |root| {
            let store = root.join(STORE);
            scenarios::furnish(&store);
            // As a killed daemon leaves it, with an edit of the plain file beside it.
            let w = World::open(&store).unwrap();
            w.append(1, "missions.md", "- m-next0.\n", super::world::Durable::No).unwrap();
            drop(w);
            let path = store.join("memory/notes.md");
            let old = std::fs::read_to_string(&path).unwrap();
            std::fs::write(path, old + "n-next0.\n").unwrap();
        },
        run: |root| {
            let world = World::open(&root.join(STORE)).map_err(text)?;
            world.close().map_err(text)
        },
        check: |root, what| {
            let mut story = Story::default();
            story.adds("missions.md", "m-next0.", super::world::Durable::Yes, |_| Ok(()));
            story.adds("memory/notes.md", "n-next0.", super::world::Durable::Yes, |_| Ok(()));
            check(&root.join(STORE), &mut story, 2, what);
        },
    },
    Command {
        name: "lease",
        prepare: |root| scenarios::furnish(&root.join(STORE)),
        run: |root| {
            let desk = Desk::open(&root.join(STORE)).map_err(text)?;
            let name = Path::new(LEASE);
            if !matches!(desk.standing(name).map_err(text)?, Standing::Held(_)) {
                desk.take(name, std::process::id()).map_err(text)?.ok_or("not free")?;
            }
            Ok(())
        },
        check: |root, what| {
            let store = root.join(STORE);
            let desk = Desk::open(&store).unwrap();
            let name = Path::new(LEASE);
            let standing = desk.standing(name).unwrap();
            assert!(matches!(standing, Standing::Held(_)), "{what}: nobody holds it");
            desk.give_back(name).unwrap_or_else(|e| panic!("{what}: {e}"));
            let again = desk.take(name, std::process::id()).unwrap();
            assert!(again.is_some(), "{what}: not free after it was given back");
            desk.give_back(name).unwrap();
            drop(desk);
            good(&store, what);
        },
    },
];

fn named(name: &str) -> &'static Command {
    ALL.iter().find(|c| c.name == name).unwrap()
}

/// Every call of it fails in turn.
fn every_call_fails(name: &str) {
    let command = named(name);
    let template = scratch();
    (command.prepare)(template.path());
    let run = |n: usize, fault: Fault| {
        apart(|| {
            let root = scratch();
            copy(template.path(), root.path());
            let countdown = Arc::<Countdown>::default();
            let judge = Arc::clone(&countdown);
            let judge = Box::new(move |call: &Call| judge.judge(call, n, fault));
            watch_this_thread(root.path(), Which::All, judge);
            countdown.arm(true);
            let done = (command.run)(root.path());
            countdown.arm(false);
            let (hit, calls) = countdown.result();
            let hit = hit?;
            let what = format!("{name}: call {n} ({fault:?}): {hit}: {done:?}");
            if done.is_err() {
                (command.run)(root.path()).unwrap_or_else(|e| panic!("{what}: again: {e}"));
            }
            (command.check)(root.path(), &what);
            Some(calls)
        })
    };
    for fault in [Fault::Once, Fault::FromThenOn] {
        let calls = apart(|| {
            let root = scratch();
            copy(template.path(), root.path());
            let countdown = Arc::<Countdown>::default();
            let judge = Arc::clone(&countdown);
            let judge = Box::new(move |call: &Call| judge.judge(call, usize::MAX, fault));
            watch_this_thread(root.path(), Which::All, judge);
            countdown.arm(true);
            (command.run)(root.path()).unwrap();
            countdown.result().1
        });
        let step = if exhaustive() { 1 } else { calls.div_ceil(8).max(1) };
        let runs = (0..calls).step_by(step).filter(|n| run(*n, fault).is_some()).count();
        assert!(runs > 1, "{name}: only {runs} calls");
        println!("{name}: {runs} faults ({fault:?})");
    }
}

/// It is killed before every call, and power goes there.
fn cut_off_at_every_step(name: &str) {
    let command = named(name);
    // Commands note where they work, so all of it happens in one place.
    let (home, origin) = (scratch(), scratch());
    let root = home.path().join("r");
    std::fs::create_dir(&root).unwrap();
    (command.prepare)(&root);
    let journal = apart(|| {
        let journal = Arc::new(Mutex::new(Journal::of(&root).unwrap()));
        let (notes, on) = (Arc::clone(&journal), Arc::new(AtomicBool::new(true)));
        let armed = Arc::clone(&on);
        let judge = move |call: &Call| match call.kind {
            Kind::Copy => Verdict::Fail(libc::ENOSYS),
            _ => {
                if armed.load(Ordering::SeqCst) {
                    notes.lock().note(call);
                }
                Verdict::Go
            }
        };
        watch_this_thread(&root, Which::Changes, Box::new(judge));
        (command.run)(&root).unwrap();
        on.store(false, Ordering::SeqCst);
        let empty = Journal::of(origin.path()).unwrap();
        std::mem::replace(&mut *journal.lock(), empty)
    });
    let mut dice = Dice::new(5);
    let len = journal.len();
    // A short one is tried at every step.
    let step = if exhaustive() || len < 50 { 1 } else { len.div_ceil(10).max(1) };
    let losses = if exhaustive() { 4 } else { 1 };
    for n in (0..len).step_by(step).chain([len]) {
        for round in 0..=losses {
            std::fs::remove_dir_all(&root).unwrap();
            std::fs::create_dir(&root).unwrap();
            match round {
                0 => journal.complete(n, &root).unwrap(),
                _ => journal.after_loss(n, &mut dice, &root).unwrap(),
            }
            let how = if round == 0 { "killed" } else { "power lost" };
            let what = format!("{name}: {how} at {n} of {len}: {}", journal.describe(n));
            // What was done to its end may say so instead of doing it again.
            let again = (command.run)(&root);
            (command.check)(&root, &format!("{what}: again: {again:?}"));
        }
    }
    println!("{name}: cut off at {len} steps");
}

#[test]
fn an_init_survives_every_fault() {
    every_call_fails("init");
}

#[test]
fn an_init_survives_kills_and_power_loss() {
    cut_off_at_every_step("init");
}

#[test]
fn an_adopt_survives_every_fault() {
    every_call_fails("adopt");
}

#[test]
fn an_adopt_survives_kills_and_power_loss() {
    cut_off_at_every_step("adopt");
}

#[test]
fn an_eject_survives_every_fault() {
    every_call_fails("eject");
}

#[test]
fn an_eject_survives_kills_and_power_loss() {
    cut_off_at_every_step("eject");
}

#[test]
fn an_export_survives_every_fault() {
    every_call_fails("export");
}

#[test]
fn an_export_survives_kills_and_power_loss() {
    cut_off_at_every_step("export");
}

#[test]
fn mount_and_unmount_survive_every_fault() {
    every_call_fails("mount and unmount");
}

#[test]
fn mount_and_unmount_survive_kills_and_power_loss() {
    cut_off_at_every_step("mount and unmount");
}

#[test]
fn a_lease_survives_every_fault() {
    every_call_fails("lease");
}

#[test]
fn a_lease_survives_kills_and_power_loss() {
    cut_off_at_every_step("lease");
}
