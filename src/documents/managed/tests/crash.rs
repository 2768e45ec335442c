//! Several processes, and processes that die. The other process is this test program, started
//! with [`child`] as its only test.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use super::*;

const WHAT: &str = "INSTANCEFS_TEST_CHILD";
const DIR: &str = "INSTANCEFS_TEST_DIR";

fn start(what: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["documents::managed::tests::crash::child", "--exact", "--ignored", "--nocapture"])
        .env(WHAT, what)
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn patient(dir: &Path) -> ManagedFiles {
    open_with(dir, Options::default())
}

#[test]
#[ignore = "the other process of the tests here"]
fn child() {
    let dir = std::env::var(DIR).unwrap();
    let files = patient(Path::new(&dir));
    match std::env::var(WHAT).unwrap().as_str() {
        "append 60" => (0..60).for_each(|n| drop(append(&files, "a.md", &format!("child {n}\n")))),
        "append for ever" => {
            for n in 0.. {
                append(&files, "a.md", &format!("line {n}\n"));
                println!("saved {n}");
            }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn two_processes_and_one_that_knows_nothing_of_us_all_add_lines() {
    let dir = tempfile::tempdir().unwrap();
    let files = {
        drop(Store::create(dir.path()).unwrap());
        patient(dir.path())
    };
    fs::write(dir.path().join("a.md"), "").unwrap();
    let mut child = start("append 60", dir.path());
    for n in 0..60 {
        append(&files, "a.md", &format!("mine {n}\n"));
    }
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success(), "{out}");
    let mut file = fs::File::options().append(true).open(dir.path().join("a.md")).unwrap();
    file.write_all(b"stranger\n").unwrap();
    append(&files, "a.md", "last\n");
    let text = read(&files, "a.md").unwrap();
    for who in ["mine", "child"] {
        let own: Vec<&str> = text.lines().filter(|l| l.starts_with(who)).collect();
        let want: Vec<String> = (0..60).map(|n| format!("{who} {n}")).collect();
        assert_eq!(own, want);
    }
    assert!(text.ends_with("stranger\nlast\n") && text.lines().count() == 122);
    assert_eq!(fs::read_to_string(dir.path().join("a.md")).unwrap(), text);
    let story = story(&files, "a.md");
    assert_eq!(story.iter().filter(|(via, _)| *via == Via::Mount).count(), 121);
    assert_eq!(story.last().unwrap().1.as_deref(), Some(&text[..]));
}

#[test]
fn a_killed_process_leaves_a_whole_file_and_every_line_that_it_said_was_saved() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let mut long = "before\n".to_owned();
    for round in 1..=6usize {
        // Some rounds with a file that is replaced, some with one that is added to.
        if round == 4 {
            long = "before\n".repeat(20_000);
            fs::write(dir.path().join("a.md"), &long).unwrap();
        }
        let mut child = start("append for ever", dir.path());
        let mut acknowledged = 0;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            // The test program writes in front of the first line.
            if let Some(at) = line.find("saved ") {
                acknowledged = line[at + 6..].parse::<usize>().unwrap() + 1;
            }
            if acknowledged == round * 13 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let files = open(dir.path());
        let text = read(&files, "a.md").unwrap();
        let last_run = text.rsplit("line 0\n").next().unwrap();
        let have = 1 + last_run.lines().count();
        assert!(have == acknowledged || have == acknowledged + 1, "{have} {acknowledged}");
        assert!(last_run.lines().eq((1..have).map(|n| format!("line {n}"))));
        assert!(round < 4 || text.starts_with(&long));
        files.settle().unwrap();
        let now = files.current(id("a.md")).unwrap();
        let on_record = files.text_at(id("a.md"), now.rev).unwrap().unwrap();
        assert_eq!(on_record.to_vec(), text.as_bytes());
        drop(files);
        assert_eq!(names(dir.path()), ["a.md"], "nothing is left behind");
    }
}
