//! What chokidar, the watcher of most programs for Node, reports of the first change of a managed
//! file: every one, and who reads the file then gets the new text.

use std::collections::HashSet;
use std::path::Path;

use mount_tests::programs::installed;
use mount_tests::{Instance, eventually, programs_dir};

/// Files of each kind.
const FILES: usize = 25;

fn reports(way: &str) {
    // Text is added to the end of a note; an event is not valid with more at its end.
    let kinds: &[&str] = if way == "append" { &["memory"] } else { &["memory", "events"] };
    let mut builder = Instance::builder();
    let mut names = Vec::new();
    for number in 0..2 * FILES / kinds.len() {
        for kind in kinds {
            let (name, text) = match *kind {
                "memory" => (format!("memory/{number}.md"), "# note\nold\n"),
                _ => (
                    format!("events/{number}.json"),
                    "{\"mission\": \"- old\", \"run_at\": \"2026-12-01T09:00\"}\n",
                ),
            };
            builder = builder.file(&name, text);
            names.push(name);
        }
    }
    // chokidar watches both directories in every test.
    let it = builder.file("events/other.txt", "x\n").start();
    let program = programs_dir().join("watch.js");
    let mut watchers = ["chokidar", "chokidar4"].map(|module| {
        let module = installed().join("node_modules").join(module);
        assert!(module.exists(), "{} is missing: run scripts/programs.sh", module.display());
        let args: [&Path; 2] = [&program, &module];
        let mut watcher = it.actor().spawn("node", &args);
        watcher.until("watching");
        watcher
    });
    let program = std::fs::read_to_string(programs_dir().join("first_changes.py")).expect("read");
    let mut args = vec![way];
    args.extend(names.iter().map(String::as_str));
    it.actor().python(&program, &args).ok();
    for watcher in &mut watchers {
        eventually(&format!("the report of every change ({way})"), || {
            let out = watcher.stdout();
            let new: HashSet<&str> = out.lines().filter_map(|l| l.strip_suffix(" new")).collect();
            names.iter().all(|name| new.contains(name.as_str())).then_some(())
        });
    }
}

#[test]
fn chokidar_reports_a_file_that_is_truncated() {
    reports("truncate");
}

#[test]
fn chokidar_reports_a_blind_save() {
    reports("blind");
}

#[test]
fn chokidar_reports_a_slow_save() {
    reports("slow");
}

#[test]
fn chokidar_reports_an_append() {
    reports("append");
}

#[test]
fn chokidar_reports_a_change_in_place() {
    reports("in_place");
}

#[test]
fn chokidar_reports_a_handle_that_stays_open_after_fsync() {
    reports("fsync");
}

#[test]
fn chokidar_reports_a_rename() {
    reports("rename");
}

#[test]
fn chokidar_reports_a_file_that_is_made_anew() {
    reports("unlink");
}
