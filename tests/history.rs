//! The commands about history, on stores that no daemon serves.

mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use instancefs::daemon::Instance;
use instancefs::documents::Written;
use instancefs::documents::live::SaveRequest;
use instancefs::model::{Actor, Basis, Rule, Via, View};
use rusqlite::Connection;
use serde_json::Value;
use support::{Place, Ran, ifs};

const CONFIG: &str = "# budget\nversion: 2\nbudget:\n  daily: 1.50   # dollars\n";

fn actor(program: &str, pid: u32) -> Actor {
    Actor { pid, uid: 7, session: 3, program: program.to_owned(), via: Via::Mount }
}

/// Saves a whole text as somebody who has seen the current version; the revision.
fn save(store: &Path, view: View, text: &str, actor: Actor) -> u64 {
    let instance = Instance::open(store).unwrap();
    let seen = Some(instance.live.current(view.doc()).unwrap());
    let saved = instance.live.save(SaveRequest {
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

/// A store with these missions versions, by `p0`, `p1` …; their revisions.
fn store_of(place: &Place, texts: &[&str]) -> Vec<u64> {
    assert_eq!(ifs(place, &["init", "s"]).code, 0);
    let store = place.path("s");
    let one = |(n, text): (usize, &&str)| {
        save(&store, View::MissionsMd, text, actor(&format!("p{n}"), 100 + n as u32))
    };
    texts.iter().enumerate().map(one).collect()
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

const A: &str = "## Pending\n- a\n- b\n\n## Done\n";
const B: &str = "## Pending\n- a\n- b2\n\n## Done\n";
const C: &str = "## Pending\n- a\n- b2\n- c\n\n## Done\n- \u{1b}[31md ✅ (2026-07-01 10:00)";

#[test]
fn log_names_who_made_each_revision() {
    let place = Place::new();
    let revs = store_of(&place, &[A, B, C]);
    save(&place.path("s"), View::ConfigYaml, CONFIG, actor("vim", 9));
    let log = objects(&ok(ifs(&place, &["-C", "s", "log", "missions.md", "--json"])));
    assert_eq!(log.len(), 3);
    for (n, entry) in log.iter().rev().enumerate() {
        assert_eq!(entry["rev"], revs[n]);
        assert_eq!(entry["program"], format!("p{n}"));
        assert_eq!(entry["pid"], 100 + n);
        assert_eq!((&entry["session"], &entry["via"]), (&3.into(), &"mount".into()));
        assert_eq!(entry["base"], if n == 0 { 0 } else { revs[n - 1] });
        assert!(entry["summary"].as_str().is_some_and(|s| !s.is_empty()));
        assert_eq!(entry["overlaps"].as_array(), Some(&vec![]));
        assert_eq!(entry["basis"], serde_json::json!({"rule": "own"}));
    }
    let all = objects(&ok(ifs(&place, &["-C", "s", "log", "--json"])));
    let docs: Vec<&str> = all.iter().map(|e| e["document"].as_str().unwrap()).collect();
    assert_eq!(docs, ["config", "missions", "missions", "missions"]);
    let one = ok(ifs(&place, &["-C", "s", "log", "-n", "1"]));
    assert!(one.lines().count() == 1 && one.contains("vim (pid 9, session 3, mount)"), "{one}");
    let since = revs[1].to_string();
    let newer = ok(ifs(&place, &["-C", "s", "log", "missions", "--since", &since]));
    assert!(newer.lines().count() == 1 && newer.starts_with(&format!("{} ", revs[2])), "{newer}");
    fails(&ifs(&place, &["-C", "s", "log", "plain.bin"]), 2, "plain.bin");
}

#[test]
fn output_that_cannot_be_written_is_a_failure_and_a_reader_that_left_is_none() {
    let place = Place::new();
    store_of(&place, &["# Missions\n\n## Pending\n- one\n"]);
    let commands: [&[&str]; 8] = [
        &["log"],
        &["log", "--json"],
        &["blame", "missions.md"],
        &["diff", "missions.md"],
        &["show", "missions.md"],
        &["status", "--json"],
        &["retention"],
        &["wait", "missions.md", "--since", "0"],
    ];
    for args in commands {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = place.command(&[&["-C", "s"], args].concat()).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{args:?}: {said}");
        assert_eq!(said, "instancefs: standard output: No space left on device\n", "{args:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = place.command(&[&["-C", "s"], args].concat()).stdout(writer).output().unwrap();
        assert_eq!((ran.status.code(), ran.stderr.len()), (Some(0), 0), "{args:?}");
    }
}

#[test]
fn show_gives_the_bytes_of_a_revision() {
    let place = Place::new();
    let revs = store_of(&place, &[A, B, C]);
    for (rev, text) in revs.iter().zip([A, B, C]) {
        assert_eq!(ok(ifs(&place, &["-C", "s", "show", &format!("missions.md@{rev}")])), text);
    }
    assert_eq!(ok(ifs(&place, &["show", "s/missions.md"])), C);
    assert!(ok(ifs(&place, &["-C", "s", "show", "missions@0"])).starts_with("# Missions\n"));
    fails(&ifs(&place, &["-C", "s", "show", "config.json"]), 1, "no config.json");
    let config = save(&place.path("s"), View::ConfigYaml, CONFIG, actor("vim", 9));
    assert_eq!(ok(ifs(&place, &["-C", "s", "show", &format!("config@{config}")])), CONFIG);
    let json = ok(ifs(&place, &["-C", "s", "show", &format!("config.json@{config}")]));
    assert_eq!(
        serde_json::from_str::<Value>(&json).unwrap()["budget"]["daily"].to_string(),
        "1.50"
    );

    let range = format!("there are {} to {}", revs[0], revs[2]);
    fails(&ifs(&place, &["-C", "s", "show", "missions.md@99"]), 1, &range);
    let other = format!("missions.md@{config}");
    fails(&ifs(&place, &["-C", "s", "show", &other]), 1, "it is one of config");
    fails(&ifs(&place, &["-C", "s", "show", "missions.md@x"]), 2, "not a revision number");
}

#[test]
fn diff_compares_two_revisions() {
    let place = Place::new();
    let revs = store_of(&place, &[A, B, C]);
    let [a, b, c] = revs[..] else { panic!("three") };
    let head = |x: u64, y: u64| format!("--- missions.md@{x}\n+++ missions.md@{y}\n");
    let ab = ok(ifs(&place, &["-C", "s", "diff", &format!("missions.md@{a}"), &format!("@{b}")]));
    assert_eq!(
        ab,
        format!("{}@@ -1,5 +1,5 @@\n ## Pending\n - a\n-- b\n+- b2\n \n ## Done\n", head(a, b))
    );
    let last = ok(ifs(&place, &["-C", "s", "diff", "missions.md"]));
    assert!(last.starts_with(&head(b, c)) && last.contains("\n+- c\n"), "{last}");
    assert!(last.ends_with("\\ No newline at end of file\n"), "{last}");
    let current = ok(ifs(&place, &["-C", "s", "diff", &format!("missions@{a}")]));
    assert!(current.starts_with(&head(a, c)), "{current}");
    assert_eq!(ok(ifs(&place, &["-C", "s", "diff", &format!("missions@{c}")])), "");
    fails(&ifs(&place, &["-C", "s", "diff", "missions.md", "@77"]), 1, "no revision 77");
    let spelt = [&format!("missions.md@{a}"), &format!("missions@{b}")];
    assert_eq!(ok(ifs(&place, &["-C", "s", "diff", spelt[0], spelt[1]])), ab);
    fails(&ifs(&place, &["-C", "s", "log", spelt[0]]), 2, "log lists all revisions");
    for args in [&["show", "config.json"][..], &["blame", "config"], &["restore", "config.yaml@0"]]
    {
        let ran = ifs(&place, &[&["-C", "s"], args].concat());
        fails(&ran, 1, "there is no config");
        assert!(ran.stderr.ends_with(" yet\n"), "{}", ran.stderr);
    }
    let other = &ifs(&place, &["-C", "s", "diff", spelt[0], "config.json@1"]);
    fails(other, 2, "config.json@1: not a revision of missions.md");
    fails(&ifs(&place, &["-C", "s", "diff", "missions.md@"]), 2, "missions.md@: not a revision");
}

#[test]
fn blame_says_who_touched_each_line() {
    let place = Place::new();
    let revs = store_of(&place, &[A, B, C]);
    let lines = objects(&ok(ifs(&place, &["-C", "s", "blame", "missions.md", "--json"])));
    let got: Vec<(&str, u64, &str)> = lines
        .iter()
        .map(|l| {
            let text = l["text"].as_str().unwrap();
            (text, l["rev"].as_u64().unwrap(), l["program"].as_str().unwrap())
        })
        .collect();
    let done = C.rsplit('\n').next().unwrap();
    assert_eq!(
        got,
        [
            ("## Pending", revs[0], "p0"),
            ("- a", revs[0], "p0"),
            ("- b2", revs[1], "p1"),
            ("- c", revs[2], "p2"),
            ("", revs[0], "p0"),
            ("## Done", revs[0], "p0"),
            (done, revs[2], "p2"),
        ]
    );
    assert!(lines.iter().all(|l| l["older"] == false));
    let people = ok(ifs(&place, &["-C", "s", "blame", "missions.md"]));
    assert!(people.contains("p1 (pid 101") && !people.contains('\u{1b}'), "{people}");
    let short = ok(ifs(&place, &["-C", "s", "blame", "missions.md", "-n", "2"]));
    assert!(short.starts_with(&format!("^{} ", revs[1])), "{short}");
}

#[test]
fn restore_is_one_more_revision_and_writes_the_plain_file() {
    let place = Place::new();
    let revs = store_of(&place, &[A, B, C]);
    let out = ok(ifs(&place, &["-C", "s", "restore", &format!("missions.md@{}", revs[0])]));
    assert!(out.contains(&format!("restored from {}", revs[0])), "{out}");
    assert_eq!(ok(ifs(&place, &["-C", "s", "show", "missions.md"])), A);
    assert_eq!(fs::read_to_string(place.path("s/missions.md")).unwrap(), A);
    let log = objects(&ok(ifs(&place, &["-C", "s", "log", "missions", "--json", "-n", "1"])));
    assert_eq!((&log[0]["via"], &log[0]["program"]), (&"command".into(), &"instancefs".into()));
    assert_eq!(log[0]["base"], revs[2]);
    let summary = log[0]["summary"].as_str().unwrap();
    assert!(summary.starts_with(&format!("restored from {}", revs[0])), "{summary}");
    // And it can be undone; going nowhere is no revision.
    ok(ifs(&place, &["-C", "s", "restore", &format!("missions@{}", revs[2])]));
    assert_eq!(ok(ifs(&place, &["-C", "s", "show", "missions.md"])), C);
    let again = ok(ifs(&place, &["-C", "s", "restore", &format!("missions@{}", revs[2])]));
    assert!(again.contains("already"), "{again}");
    assert_eq!(ok(ifs(&place, &["-C", "s", "log", "missions"])).lines().count(), 5);
    fails(&ifs(&place, &["-C", "s", "restore", "missions.md@99"]), 1, "there are");
    fails(&ifs(&place, &["-C", "s", "restore", "missions.md"]), 2, "which revision");
}

#[test]
fn restore_brings_both_names_of_the_config_back() {
    let place = Place::new();
    assert_eq!(ifs(&place, &["init", "s"]).code, 0);
    let store = place.path("s");
    let first = save(&store, View::ConfigYaml, CONFIG, actor("vim", 9));
    let show = |what: &str| ok(ifs(&place, &["-C", "s", "show", what]));
    let json = show("config.json");
    save(&store, View::ConfigJson, "{\"version\": 5,\n\"x\": [1]}", actor("node", 10));
    for name in ["config.yaml", "config.json", "config"] {
        save(&store, View::ConfigJson, "{\"version\": 9, \"y\": 1}", actor("node", 11));
        ok(ifs(&place, &["-C", "s", "restore", &format!("{name}@{first}")]));
        assert_eq!((show("config.yaml").as_str(), show("config.json")), (CONFIG, json.clone()));
    }
}

#[test]
fn check_explains_a_file_without_saving_it() {
    let place = Place::new();
    store_of(&place, &[A]);
    let text = |name: &str, text: &str| fs::write(place.path(name), text).unwrap();
    text("missions.md", "## Pending\n- a\n- b\n- new\n\n## Done\n");
    let out = ok(ifs(&place, &["-C", "s", "check", "missions.md"]));
    assert!(out.starts_with("missions.md: ok: ") && out.contains("1 added"), "{out}");
    text("missions.md", A);
    assert!(ok(ifs(&place, &["-C", "s", "check", "missions.md"])).contains("changes nothing"));
    text("new.json", "{\"a\": 1,\n bad\n}\n");
    let bad = ifs(&place, &["-C", "s", "check", "new.json", "--as", "config.json"]);
    fails(&bad, 1, "new.json:2: ");
    assert_eq!(bad.stderr, "");
    fails(&ifs(&place, &["-C", "s", "check", "new.json"]), 2, "--as");
    fails(&ifs(&place, &["-C", "s", "check", "config.json"]), 1, "config.json");
    // The lines on top of a refusal are not part of the text, and count for the line number.
    text(
        "config.json.refused-2",
        "# instancefs: this save of config.json was refused, nothing was changed\n\
         # reason: line 2: x\n# the refused text follows this line\n{\"a\": 1,\n bad\n}\n",
    );
    fails(&ifs(&place, &["-C", "s", "check", "config.json.refused-2"]), 1, "refused-2:5: ");
    fs::write(
        place.path("config.json.refused"),
        "# instancefs: this save of config.json was refused, nothing was changed\n\
         # the refused text follows this line\n{\"a\": 1}\n",
    )
    .unwrap();
    assert!(ok(ifs(&place, &["-C", "s", "check", "config.json.refused"])).contains("ok: "));
    // A file in the store finds its store by itself, and nothing was saved by all that.
    fs::copy(place.path("config.json.refused"), place.path("s/config.json.refused")).unwrap();
    assert!(ok(ifs(&place, &["check", "s/config.json.refused"])).contains("ok: "));
    assert_eq!(ok(ifs(&place, &["-C", "s", "log"])).lines().count(), 1);
}

#[test]
fn wait_ends_at_the_next_version_or_in_time() {
    let place = Place::new();
    let revs = store_of(&place, &[A, B]);
    let at_once =
        ok(ifs(&place, &["-C", "s", "wait", "missions.md", "--since", &revs[0].to_string()]));
    assert_eq!(at_once.trim(), revs[1].to_string());
    let begun = Instant::now();
    fails(&ifs(&place, &["-C", "s", "wait", "missions", "--timeout", "0.3"]), 1, "0.3 s");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    fails(&ifs(&place, &["-C", "s", "wait", "missions", "--timeout=-1"]), 2, "timeout");
    // A row of another program, seen by a command that waits without a daemon.
    let since = revs[1].to_string();
    let waiting = std::thread::scope(|scope| {
        let wait = scope.spawn(|| {
            ifs(&place, &["-C", "s", "wait", "missions.md", "--since", &since, "--timeout", "30"])
        });
        std::thread::sleep(Duration::from_millis(200));
        let db = Connection::open(place.path("s/missions.db")).unwrap();
        db.execute("insert into missions (text, state, sequence) values ('row', 'pending', 9)", [])
            .unwrap();
        wait.join().unwrap()
    });
    let rev: u64 = ok(waiting).trim().parse().unwrap();
    assert!(rev > revs[1]);
}

#[test]
fn retention_is_kept_in_the_store_and_cuts_the_history() {
    let place = Place::new();
    assert_eq!(ifs(&place, &["init", "s"]).code, 0);
    let store = place.path("s");
    let text = |n: usize| format!("## Pending\n- number {n}\n- b\n");
    let revs: Vec<u64> =
        (0..150).map(|n| save(&store, View::MissionsMd, &text(n), actor("p", 5))).collect();
    let shown = ok(ifs(&place, &["-C", "s", "retention"]));
    assert!(shown.contains("180 days") && shown.contains("150 revisions"), "{shown}");
    let json = ok(ifs(&place, &["-C", "s", "retention", "--max-count", "20", "--json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["max_count"], &json["max_age_days"]), (&20.into(), &180.into()));
    let left = json["revisions"]["missions"]["count"].as_u64().unwrap();
    assert!((20..=84).contains(&left), "{json}");
    let oldest = json["revisions"]["missions"]["oldest"].as_u64().unwrap();
    let first = revs.iter().position(|r| *r == oldest).unwrap();
    for n in [first, first + 1, 149] {
        let show = format!("missions.md@{}", revs[n]);
        assert_eq!(ok(ifs(&place, &["-C", "s", "show", &show])), text(n));
    }
    let gone = ifs(&place, &["-C", "s", "show", &format!("missions.md@{}", revs[first - 1])]);
    fails(&gone, 1, "is not kept any more");
    let blame = ok(ifs(&place, &["-C", "s", "blame", "missions.md"]));
    assert!(blame.lines().last().unwrap().starts_with(&format!("^{oldest} ")), "{blame}");
    for wrong in [["--max-count", "0"], ["--max-bytes", "big"]] {
        assert_eq!(ifs(&place, &[&["-C", "s", "retention"][..], &wrong].concat()).code, 2);
    }
}

/// Ten thousand lines through two hundred revisions.
#[test]
fn blame_of_a_large_document_is_cheap() {
    let place = Place::new();
    assert_eq!(ifs(&place, &["init", "s"]).code, 0);
    let store = place.path("s");
    let mut lines: Vec<String> = (0..10_000).map(|n| format!("- mission number {n}\n")).collect();
    let text = |lines: &[String]| format!("## Pending\n{}", lines.concat());
    save(&store, View::MissionsMd, &text(&lines), actor("first", 1));
    let instance = Instance::open(&store).unwrap();
    for n in 0..200usize {
        lines[(n * 7_919) % 10_000] = format!("- changed {n}\n");
        let seen = instance.live.cached(instancefs::model::DocId::Missions);
        let written = text(&lines);
        instance
            .live
            .save(SaveRequest {
                view: View::MissionsMd,
                base: Some(seen),
                basis: Basis::by(Rule::Own),
                instead_of: None,
                written: Written::Whole(written.as_bytes()),
                actor: actor("later", 2),
                under_their_lock: false,
                expect_sha256: None,
            })
            .unwrap();
    }
    let begun = Instant::now();
    let blamed = instance.live.blame(View::MissionsMd, 2_000).unwrap();
    let took = begun.elapsed();
    assert_eq!(blamed.len(), 10_001);
    let first = blamed[0].rev;
    for (line, text) in blamed[1..].iter().zip(&lines) {
        assert_eq!(line.text, text.as_bytes());
        assert_eq!(line.rev == first, text.starts_with("- mission"), "{text}");
    }
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// The first lines that `watch` prints.
fn watched(place: &Place, args: &[&str], count: usize) -> Vec<String> {
    use std::io::BufRead;
    let mut watch = std::process::Command::new(env!("CARGO_BIN_EXE_instancefs"))
        .args(["-C", place.path("s").to_str().unwrap(), "watch"])
        .args(args)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(watch.stdout.take().unwrap()).lines();
    let lines = lines.take(count).map(|line| line.unwrap()).collect();
    watch.kill().unwrap();
    watch.wait().unwrap();
    lines
}

#[test]
fn watch_tells_what_became_of_each_line() {
    let place = Place::new();
    let revs = store_of(&place, &[A, B, C, A]);
    let since = revs[0].to_string();
    let lines = watched(&place, &["--lines", "missions.md", "--since", &since], 6);
    let there = "- \\x1b[31md ✅ (2026-07-01 10:00)";
    let expected =
        ["~ - b2", "+ - c", &format!("+ {there}"), "~ - b", "- - c", &format!("- {there}")];
    assert_eq!(lines, expected);
    let of = format!("missions@{}", revs[1]);
    let objects = objects(&watched(&place, &["--lines", &of, "--json"], 2).join("\n"));
    assert_eq!((&objects[0]["rev"], &objects[0]["change"]), (&revs[2].into(), &"added".into()));
    assert_eq!((&objects[0]["line"], &objects[1]["rev"]), (&"- c".into(), &revs[2].into()));
    assert_eq!(objects[1]["line"], "- \u{1b}[31md ✅ (2026-07-01 10:00)");
    assert!(objects[0]["by"].as_str().unwrap().starts_with("p2 (pid 102"), "{objects:?}");
    assert!(objects[0]["at"].as_str().unwrap().contains('T'), "{objects:?}");
    // Revisions of other documents count too, and those of the new store.
    let config = save(&place.path("s"), View::ConfigYaml, CONFIG, actor("vim", 9));
    let since = config.to_string();
    save(&place.path("s"), View::MissionsMd, B, actor("p5", 105));
    let lines = watched(&place, &["--lines", "missions.md", "--since", &since], 1);
    assert_eq!(lines, ["~ - b2"]);
    let lines = watched(&place, &["--lines", "config.yaml", "--since", "0"], 4);
    assert_eq!(lines, CONFIG.lines().map(|l| format!("+ {l}")).collect::<Vec<_>>());
    fails(&ifs(&place, &["-C", "s", "watch", "--lines"]), 2, "DOC");
    let unknown = ifs(&place, &["-C", "s", "watch", "--lines", "missions.md@99"]);
    fails(&unknown, 1, "no revision 99");
}
