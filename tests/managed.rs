//! Managed files: the commands about their history on stores that no daemon serves, and what
//! `export`, `adopt` and `eject` do with them.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use instancefs::daemon::Instance;
use instancefs::documents::Written;
use instancefs::documents::live::SaveRequest;
use instancefs::model::{Actor, Basis, FileId, Rule, Via, View};
use instancefs::vfs::ports::Documents;
use serde_json::Value;
use support::{Place, Ran, ifs};

/// Saves a whole text as somebody who has seen the current version; the revision.
fn save(store: &Path, path: &str, text: &str, program: &str) -> u64 {
    let instance = Instance::open(store).unwrap();
    let view = View::File(FileId::of(path));
    let seen = Some(instance.documents.current(view.doc()).unwrap());
    let actor = Actor { pid: 9, uid: 7, session: 3, program: program.to_owned(), via: Via::Mount };
    let saved = instance.documents.save(SaveRequest {
        view,
        base: seen,
        basis: Basis::by(Rule::Own),
        instead_of: None,
        written: Written::Whole(text.as_bytes()),
        actor,
        under_their_lock: false,
        expect_sha256: None,
    });
    saved.unwrap().version.rev.0
}

fn ok(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.stdout
}

fn fails(ran: &Ran, code: i32, with: &str) {
    assert_eq!(ran.code, code, "{ran:?}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains(with), "{with:?} in {said:?}");
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn new_store(place: &Place) -> std::path::PathBuf {
    assert_eq!(ifs(place, &["init", "s"]).code, 0);
    place.path("s")
}

#[test]
fn the_history_commands_know_managed_files() {
    let place = Place::new();
    let store = new_store(&place);
    fs::write(store.join("outbox.md"), "found\n").unwrap();
    let one = save(&store, "outbox.md", "found\none\n", "vim");
    let two = save(&store, "outbox.md", "found\ntwo\n", "agent");
    let cmd = |args: &[&str]| ifs(&place, &[&["-C", "s"], args].concat());
    let log = objects(&ok(cmd(&["log", "outbox.md", "--json"])));
    assert_eq!(log.len(), 3);
    assert_eq!(
        (&log[0]["rev"], &log[0]["program"], &log[0]["document"]),
        (&two.into(), &"agent".into(), &"outbox.md".into())
    );
    assert_eq!((&log[2]["via"], &log[2]["summary"]), (&"import".into(), &"as it was found".into()));
    assert_eq!(objects(&ok(cmd(&["log", "--json"]))).len(), 3);
    assert_eq!(ok(cmd(&["show", &format!("outbox.md@{one}")])), "found\none\n");
    assert_eq!(ok(cmd(&["show", "outbox.md@0"])), "found\n");
    assert_eq!(ok(ifs(&place, &["show", "s/outbox.md"])), "found\ntwo\n");
    let diff = ok(cmd(&["diff", &format!("outbox.md@{one}"), &format!("@{two}")]));
    assert!(diff.contains("-one\n+two\n") && diff.contains(&format!("outbox.md@{two}")), "{diff}");
    let blame = objects(&ok(cmd(&["blame", "outbox.md", "--json"])));
    assert_eq!((&blame[1]["rev"], &blame[1]["program"]), (&two.into(), &"agent".into()));
    let said = ok(cmd(&["restore", &format!("outbox.md@{one}")]));
    assert!(said.starts_with(&format!("outbox.md restored from {one}, as revision ")), "{said}");
    assert_eq!(fs::read_to_string(store.join("outbox.md")).unwrap(), "found\none\n");
    let said = ok(cmd(&["restore", &format!("outbox.md@{one}")]));
    assert!(said.contains("already"), "{said}");
    fails(&cmd(&["show", "outbox.md@999"]), 1, "has no revision 999");
    fails(&cmd(&["show", "plain.bin"]), 2, "instancefs kinds");
    let status = ok(cmd(&["status"]));
    assert!(status.contains("1 with a history"), "{status}");
    let status: Value = serde_json::from_str(&ok(cmd(&["status", "--json"]))).unwrap();
    assert_eq!(status["managed_files"]["with_history"], 1);
}

#[test]
fn changes_behind_the_mount_are_in_the_history_of_the_next_command_that_writes() {
    let place = Place::new();
    let store = new_store(&place);
    fs::create_dir(store.join("journal")).unwrap();
    let one = save(&store, "journal/a.md", "one\n", "vim");
    fs::write(store.join("journal/a.md"), "one\nother\n").unwrap();
    let cmd = |args: &[&str]| ifs(&place, &[&["-C", "s"], args].concat());
    assert_eq!(ok(cmd(&["show", "journal/a.md"])), "one\nother\n");
    ok(cmd(&["restore", &format!("journal/a.md@{one}")]));
    let log = objects(&ok(cmd(&["log", "journal/a.md", "--json"])));
    let via: Vec<&str> = log.iter().map(|r| r["via"].as_str().unwrap()).collect();
    assert_eq!(via, ["command", "store", "mount"]);
    let other = log[1]["rev"].as_u64().unwrap();
    assert_eq!(ok(cmd(&["show", &format!("journal/a.md@{other}")])), "one\nother\n");
    // Going back to before there was a file removes it, and that can be undone too.
    ok(cmd(&["restore", "journal/a.md@0"]));
    assert!(!store.join("journal/a.md").exists());
    ok(cmd(&["restore", &format!("journal/a.md@{other}")]));
    assert_eq!(fs::read_to_string(store.join("journal/a.md")).unwrap(), "one\nother\n");
}

#[test]
fn check_says_what_would_become_of_a_managed_file() {
    let place = Place::new();
    let store = new_store(&place);
    fs::create_dir(store.join("events")).unwrap();
    fs::write(
        store.join("events/a.json"),
        "{\"mission\": \"x\", \"run_at\": \"2026-01-01T10:00\"}\n",
    )
    .unwrap();
    let cmd = |args: &[&str]| ifs(&place, args);
    let same = ok(cmd(&["check", "s/events/a.json"]));
    assert!(same.contains("ok, changes nothing"), "{same}");
    fs::write(place.path("new.json"), "[1]\n").unwrap();
    let bad = cmd(&["-C", "s", "check", "new.json", "--as", "events/a.json"]);
    assert_eq!(bad.code, 1, "{bad:?}");
    fs::write(store.join("recurring.json.refused"), "{\"a\": 1\n").unwrap();
    assert_eq!(cmd(&["check", "s/recurring.json.refused"]).code, 1);
    fails(&cmd(&["-C", "s", "check", "new.json", "--as", "hooks/x"]), 2, "no document");
}

#[test]
fn wait_and_watch_tell_of_a_file_that_somebody_writes_behind_the_mount() {
    let place = Place::new();
    let store = new_store(&place);
    let one = save(&store, "outbox.md", "one\n", "vim");
    let mut watch = std::process::Command::new(env!("CARGO_BIN_EXE_instancefs"))
        .args(["-C", store.to_str().unwrap(), "watch", "outbox.md", "--since"])
        .arg((one - 1).to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("by vim"), "it is there");
    fs::write(store.join("outbox.md"), "one\ntwo\n").unwrap();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("outbox.md") && line.contains("not yet on record"), "{line}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    let wait = ifs(&place, &["-C", "s", "wait", &format!("outbox.md@{one}"), "--timeout", "60"]);
    assert!(ok(wait).trim().parse::<u64>().unwrap() > one);
}

#[test]
fn a_copy_and_an_ejected_store_have_the_files_as_they_are() {
    let place = Place::new();
    let dir = place.path("inst");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("outbox.md"), "kept as it is\r\n\u{feff}no end").unwrap();
    fs::write(dir.join("recurring.json"), "{ \"broken\": ").unwrap();
    assert_eq!(ifs(&place, &["adopt", "inst"]).code, 0);
    let store = place.path("inst.store");
    let read = |dir: &Path, name: &str| fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!(read(&store, "outbox.md"), "kept as it is\r\n\u{feff}no end");
    assert_eq!(read(&store, "recurring.json"), "{ \"broken\": ");
    save(&store, "outbox.md", "new\n", "vim");
    fs::create_dir_all(store.join(".instancefs-swap")).unwrap();
    fs::write(store.join(".instancefs-swap/dead-1"), "left behind").unwrap();
    assert_eq!(ifs(&place, &["export", "inst", "copy"]).code, 0);
    assert_eq!(read(&place.path("copy"), "outbox.md"), "new\n");
    assert!(!place.path("copy/.instancefs-swap").exists());
    assert_eq!(ifs(&place, &["eject", "inst"]).code, 0);
    assert_eq!(read(&dir, "outbox.md"), "new\n");
    assert_eq!(read(&dir, "recurring.json"), "{ \"broken\": ");
    assert!(!dir.join(".instancefs-swap").exists());
}
