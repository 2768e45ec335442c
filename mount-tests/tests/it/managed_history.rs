//! Managed files and what is done to them beside the mount: by programs that work on the store,
//! and by commands.

use mount_tests::{Instance, eventually};
use serde_json::Value;

fn run(it: &Instance, args: &[&str]) -> String {
    let store = it.store();
    let mut all = vec!["-C".as_ref(), store.as_os_str()];
    all.extend(args.iter().map(std::convert::AsRef::<std::ffi::OsStr>::as_ref));
    it.outside().instancefs(&all).ok()
}

/// How the revisions came, the oldest first.
fn log(it: &Instance, file: &str) -> Vec<(u64, String)> {
    let text = run(it, &["log", file, "--json"]);
    let one = |l: &str| {
        let r: Value = serde_json::from_str(l).expect("json");
        (r["rev"].as_u64().expect("rev"), r["via"].as_str().expect("via").to_owned())
    };
    let mut all: Vec<_> = text.lines().map(one).collect();
    all.reverse();
    all
}

fn ways(it: &Instance, file: &str) -> Vec<String> {
    log(it, file).into_iter().map(|(_, via)| via).collect()
}

#[test]
fn a_line_written_in_the_store_is_told_read_and_recorded() {
    let it = Instance::with(&[("outbox.md", "one\n")]);
    assert_eq!(it.read("outbox.md"), "one\n");
    let script = "exec inotifywait -m --format '%w %e' outbox.md 2>&1";
    let mut watcher = it.actor().spawn_bash(script);
    watcher.until("Watches established");
    it.sh("echo two >> \"$STORE/outbox.md\"");
    watcher.until("outbox.md MODIFY");
    assert_eq!(it.read("outbox.md"), "one\ntwo\n");
    it.sh("echo three >> outbox.md");
    assert_eq!(it.read("outbox.md"), "one\ntwo\nthree\n");
    assert_eq!(it.sh("cat \"$STORE/outbox.md\""), "one\ntwo\nthree\n");
    assert_eq!(ways(&it, "outbox.md"), ["import", "store", "mount"]);
}

#[test]
fn a_command_brings_an_older_version_back_into_the_mount() {
    let it = Instance::with(&[("memory/notes.md", "old\n")]);
    it.sh("sed 's/old/new/' memory/notes.md > tmp && mv tmp memory/notes.md");
    assert_eq!(it.read("memory/notes.md"), "new\n");
    let first = log(&it, "memory/notes.md")[0].0;
    run(&it, &["restore", &format!("memory/notes.md@{first}")]);
    assert_eq!(it.read("memory/notes.md"), "old\n");
    it.sh("rm memory/notes.md");
    assert!(!it.store().join("memory/notes.md").exists());
    run(&it, &["restore", &format!("memory/notes.md@{first}")]);
    assert_eq!(it.read("memory/notes.md"), "old\n");
    assert_eq!(ways(&it, "memory/notes.md"), ["import", "mount", "command", "mount", "command"]);
    it.unmount();
    assert_eq!(it.sh("cat \"$STORE/memory/notes.md\""), "old\n");
}

#[test]
fn waiting_for_a_managed_file_ends_when_it_is_written_in_the_store() {
    let it = Instance::with(&[("journal/pending.md", "one\n")]);
    let (program, store) = (mount_tests::instancefs(), it.store());
    let script =
        format!("exec '{}' -C '{}' watch journal/pending.md", program.display(), store.display());
    let mut watch = it.outside().spawn_bash(&script);
    eventually("it is watched", || {
        it.sh("echo more >> \"$STORE/journal/pending.md\"");
        std::thread::sleep(std::time::Duration::from_millis(300));
        watch.stdout().contains("journal/pending.md").then_some(())
    });
}
