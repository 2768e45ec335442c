//! Several processes, and processes that die. The other process is this test program, started
//! with [`child`] as its only test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use super::*;

const WHAT: &str = "INSTANCEFS_TEST_CHILD";
const DIR: &str = "INSTANCEFS_TEST_DIR";

fn start(what: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["documents::live::tests::crash::child", "--exact", "--ignored", "--nocapture"])
        .env(WHAT, what)
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the other process of the tests here"]
fn child() {
    let dir = std::env::var(DIR).unwrap();
    drop(Store::create(Path::new(&dir)).unwrap());
    let live = open_with(Path::new(&dir), Options::default());
    match std::env::var(WHAT).unwrap().as_str() {
        "append 100" => (0..100).for_each(|n| drop(append(&live, &format!("child {n}\n")))),
        "append for ever" => {
            for n in 0.. {
                append(&live, &format!("line {n}\n"));
                if n % 10 == 5 {
                    live.maintain().unwrap();
                }
                println!("saved {n}");
            }
        }
        "append until it fails" => {
            let line = "x".repeat(2_000) + "\n";
            let failed = loop {
                match live.save(request(None, Written::Fragment(line.as_bytes()))) {
                    Ok(saved) if saved.version.rev > Rev(100_000) => panic!("never"),
                    Ok(_) => {}
                    Err(e) => break e,
                }
            };
            println!("failed: {failed}");
            assert!(matches!(failed, SaveError::Store(StoreError::Full)), "{failed:?}");
            let text = read(&live);
            drop(live);
            assert_eq!(read(&open_with(Path::new(&dir), Options::default())), text);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn two_processes_save_at_once() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let live = open_with(dir.path(), Options::default());
    let mut child = start("append 100", dir.path());
    for n in 0..100 {
        append(&live, &format!("mine {n}\n"));
    }
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success(), "{out}");
    let text = read(&live);
    for who in ["mine", "child"] {
        let own: Vec<&str> = text.lines().filter(|l| l.starts_with(who)).collect();
        let want: Vec<String> = (0..100).map(|n| format!("{who} {n}")).collect();
        assert_eq!(own, want);
    }
    assert_eq!(text.lines().count(), 200);
    assert_eq!(rows(&other(dir.path())), text);
    assert_eq!(live.store().revision_count(DOC).unwrap(), 200);
    let newest = live.cached(DOC).rev;
    assert_eq!(live.store().archive(DOC, newest).unwrap().unwrap(), text.as_bytes());
}

#[test]
fn a_killed_process_loses_no_acknowledged_save() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    for round in 1..=3 {
        let mut child = start("append for ever", dir.path());
        let mut acknowledged = 0;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            // The test program writes in front of the first line.
            if let Some(at) = line.find("saved ") {
                acknowledged = line[at + 6..].parse::<usize>().unwrap() + 1;
            }
            if acknowledged == round * 40 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let live = open(dir.path());
        let text = read(&live);
        let last_run = text.rsplit("line 0\n").next().unwrap();
        let have = 1 + last_run.lines().count();
        assert!(have == acknowledged || have == acknowledged + 1, "{have} {acknowledged}");
        assert!(last_run.lines().eq((1..have).map(|n| format!("line {n}"))));
        assert_eq!(rows(&other(dir.path())), text);
        let newest = live.cached(DOC).rev;
        assert_eq!(live.store().archive(DOC, newest).unwrap().unwrap(), text.as_bytes());
        let ok: String =
            other(dir.path()).query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        assert_eq!(ok, "ok");
    }
}

#[test]
fn no_room_is_said_to_be_no_room_and_readers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\n");
    let limit = |pages: i64| {
        live.store().gate(|c| Ok(c.pragma_update(None, "max_page_count", pages)?)).unwrap();
    };
    limit(1);
    let text = "x".repeat(100_000) + "\n";
    let failed = live.save(request(None, Written::Fragment(text.as_bytes())));
    assert!(matches!(failed, Err(SaveError::Store(StoreError::Full))), "{failed:?}");
    assert_eq!(read(&live), "a\n");
    let sql = other(dir.path());
    sql.execute("INSERT INTO ifs_lines (text) VALUES (?1)", [&text]).unwrap();
    assert_eq!(read(&live), format!("a\n{text}"), "a change that cannot be recorded is shown");
    assert_eq!(live.store().revision_count(DOC).unwrap(), 1);
    limit(1_000_000);
    append(&live, "b\n");
    assert_eq!(read(&live), format!("a\n{text}b\n"));
    assert_eq!(live.store().revision_count(DOC).unwrap(), 3);
}

#[test]
fn a_database_of_others_is_shown_read_only_without_our_tables() {
    let dir = tempfile::tempdir().unwrap();
    let sql = other(dir.path());
    sql.execute_batch("CREATE TABLE its_own (x)").unwrap();
    let live = open_with(dir.path(), Options { read_only: true, ..options() });
    assert_eq!(read(&live), "", "our kind has no table there");
    sql.execute_batch(Lines.schema()).unwrap();
    sql.execute("INSERT INTO ifs_lines (text) VALUES ('a')", []).unwrap();
    assert_eq!(read(&live), "a");
    assert!(live.cached(DOC).rev > Rev(0));
    assert!(live.at(DOC, Rev(99)).unwrap().is_none());
    assert!(live.settle().unwrap());
}

#[test]
fn a_read_only_store_is_read_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\n");
    drop(live);
    let sql = other(dir.path());
    sql.execute("INSERT INTO ifs_lines (text) VALUES ('b')", []).unwrap();
    let live = open_with(dir.path(), Options { read_only: true, ..options() });
    assert_eq!(read(&live), "a\nb");
    sql.execute("INSERT INTO ifs_lines (text) VALUES ('c')", []).unwrap();
    assert_eq!(read(&live), "a\nbc");
    assert!(live.save(request(None, Written::Fragment(b"d"))).is_err());
    assert_eq!(rows(&sql), "a\nbc");
    assert_eq!(live.store().revision_count(DOC).unwrap(), 1);
}
