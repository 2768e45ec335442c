//! Queues: whatever writers, drains and editors do, every message is delivered and none is lost.

use std::collections::HashMap;
use std::time::Duration;

use mount_tests::{Actor, Instance, Running, programs_dir};

fn program() -> String {
    programs_dir().join("outbox.py").to_string_lossy().into_owned()
}

/// Writers as `(party, name, messages)`, and the ways to take messages out.
fn delivered(it: &Instance, writers: &[(&str, &str, u32)], drains: &[&str]) {
    let party = |actor: &Actor, party: &str, name: &str, count: u32| -> Running {
        actor.spawn("python3", &[&program(), party, name, &count.to_string()])
    };
    let actor = it.actor().limit(Duration::from_secs(100));
    let taking: Vec<Running> = drains.iter().map(|d| party(&actor, d, d, 0)).collect();
    let writing: Vec<Running> = writers.iter().map(|(p, n, c)| party(&actor, p, n, *c)).collect();
    for one in writing {
        one.wait().ok();
    }
    std::fs::write(it.path("stop"), "").expect("stop");
    let mut got: HashMap<String, u32> = HashMap::new();
    for one in taking {
        for line in one.wait().ok().lines() {
            *got.entry(line.to_owned()).or_default() += 1;
        }
    }
    let left = std::fs::read_to_string(it.path("outbox.md")).unwrap_or_default();
    assert_eq!(left, "", "everything was taken out");
    let mut wanted = 0;
    for (_, name, count) in writers {
        for n in 0..*count {
            wanted += 1;
            assert!(got.contains_key(&format!("{name} {n}")), "{name} {n} is lost");
        }
    }
    assert_eq!(got.len(), wanted, "nothing was made up: {got:?}");
    assert_eq!(it.kept(), Vec::<String>::new());
}

#[test]
fn four_appenders_two_drains_an_editor_and_an_agent_lose_no_message() {
    let it = Instance::fresh();
    let writers = [
        ("append", "a", 60),
        ("append", "b", 60),
        ("keep", "c", 60),
        ("keep", "d", 60),
        ("edit", "editor", 25),
        ("overwrite", "agent", 25),
    ];
    delivered(&it, &writers, &["drain", "drain"]);
}

#[test]
fn a_drain_under_a_lock_takes_each_message_once() {
    let it = Instance::fresh();
    let script = "for i in $(seq 0 39); do echo \"$0 $i\" >> outbox.md || exit 1; done";
    let all: Vec<_> =
        ["a", "b", "c", "d"].iter().map(|n| it.actor().spawn("bash", &["-c", script, n])).collect();
    let drain = it.actor().spawn("python3", &[&program(), "drain", "drain", "0"]);
    for one in all {
        one.wait().ok();
    }
    std::fs::write(it.path("stop"), "").expect("stop");
    let got = drain.wait().ok();
    let mut lines: Vec<&str> = got.lines().collect();
    lines.sort_unstable();
    let count = lines.len();
    lines.dedup();
    assert_eq!((lines.len(), count), (160, 160), "{got}");
}

#[test]
fn drains_by_rename_by_overwriting_and_by_unlink_lose_no_message() {
    for drain in ["move", "reread", "unlink"] {
        let it = Instance::fresh();
        let writers = [("append", "a", 50), ("keep", "b", 50), ("append", "c", 50)];
        delivered(&it, &writers, &[drain]);
    }
}

#[test]
fn a_shell_drain_keeps_what_came_after_it_read() {
    let it = Instance::with(&[("outbox.md", "1\n2\n")]);
    let mut sh = it.shell();
    assert_eq!(sh.run("cat outbox.md"), "1\n2\n");
    it.append("outbox.md", "3");
    sh.run("> outbox.md");
    assert_eq!(it.read("outbox.md"), "3\n");
    assert_eq!(sh.run("cat outbox.md"), "3\n");
    it.append("outbox.md", "4");
    sh.run("rm outbox.md");
    assert_eq!(it.read("outbox.md"), "4\n");
    // Whoever has read all of it removes it for everybody.
    sh.run("cat outbox.md; rm outbox.md");
    assert!(!it.path("outbox.md").exists());
    assert!(!it.store().join("outbox.md").exists());
}

#[test]
fn a_blind_overwrite_of_a_queue_appends_and_of_a_text_replaces() {
    let it = Instance::with(&[("outbox.md", "1\n"), ("memory/x.md", "old\n")]);
    it.sh("echo 2 > outbox.md");
    it.sh("echo new > memory/x.md");
    assert_eq!(it.read("outbox.md"), "1\n2\n");
    // Messages that are alike are two, also where kin have written the first one.
    it.sh("echo 'agent 1' > outbox.md");
    it.sh("echo 'agent 2' > outbox.md");
    assert_eq!(it.read("outbox.md"), "1\n2\nagent 1\nagent 2\n");
    assert_eq!(it.read("memory/x.md"), "new\n");
}

#[test]
fn an_append_handle_goes_on_over_replacement_removal_and_renaming() {
    let it = Instance::with(&[("journal/pending.md", "1\n")]);
    let mut log = it.python();
    log.run("f = open('journal/pending.md', 'a', buffering=1)");
    it.sh("cat journal/pending.md > journal/new; echo edited >> journal/new; mv journal/new journal/pending.md");
    log.run("f.write('2\\n'); os.fsync(f.fileno())");
    assert_eq!(it.read("journal/pending.md"), "1\nedited\n2\n");
    it.sh("mv journal/pending.md journal/sent");
    log.run("f.write('3\\n'); os.fsync(f.fileno())");
    assert_eq!(it.read("journal/pending.md"), "3\n");
    assert_eq!(it.read("journal/sent"), "1\nedited\n2\n");
    it.sh("cat journal/pending.md; rm journal/pending.md");
    assert!(!it.path("journal/pending.md").exists());
    log.run("f.write('4\\n'); f.close()");
    assert_eq!(it.read("journal/pending.md"), "4\n");
}
