//! `instancefs kinds` and `instancefs.toml`, without a mount.

mod support;

use std::fs;

use serde_json::Value;
use support::{Place, Ran, ifs};

const SETTINGS: &str = "# ours\n[files]\n\"notes/**/*.txt\" = \"queue\"\n\"journal/**\" = \"plain\"\n\n\
                        [missions]\nnested_bullets = \"text\"\n";

fn ok(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.stdout
}

fn store(place: &Place) {
    ok(ifs(place, &["init", "s"]));
    fs::create_dir_all(place.path("s/events")).unwrap();
    fs::create_dir_all(place.path("s/notes/a")).unwrap();
    fs::write(place.path("s/instancefs.toml"), SETTINGS).unwrap();
}

#[test]
fn says_what_paths_are_and_why() {
    let place = Place::new();
    store(&place);
    let said =
        ok(ifs(&place, &["kinds", "s/outbox.md", "s/events/x.json", "s/missions.md", "s/notes"]));
    assert_eq!(
        said,
        "s/outbox.md: managed as queue: \"outbox.md\" = \"queue\" (default); no such file yet\n\
         s/events/x.json: managed as event: \"events/*.json\" = \"event\" (default); no such file yet\n\
         s/missions.md: document: rendered from rows, \"missions.md\" (fixed)\n\
         s/notes: directory: a directory\n"
    );
    // Relative to the instance, from inside it, and in a directory that does not exist yet.
    fs::write(place.path("s/notes/a/b.txt"), "x\n").unwrap();
    let why = "managed as queue: \"notes/**/*.txt\" = \"queue\" (instancefs.toml line 3)\n";
    assert_eq!(
        ok(ifs(&place, &["-C", "s", "kinds", "notes/a/b.txt"])),
        format!("notes/a/b.txt: {why}")
    );
    let inside =
        place.run_in("s/notes", &["kinds", "a/b.txt", "../journal/new/x.md", "./a/../a/b.txt"]);
    let said = ok(inside);
    assert!(
        said.starts_with(&format!("a/b.txt: {why}../journal/new/x.md: plain: \"journal/**\"")),
        "{said}"
    );
    assert!(said.ends_with(&format!("./a/../a/b.txt: {why}")), "{said}");
    let json = ok(ifs(&place, &["kinds", "--json", "s/recurring.json", "s/x.db"]));
    let objects: Vec<Value> = json.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((&objects[0]["kind"], &objects[0]["what"]), (&"json".into(), &"managed".into()));
    assert_eq!((&objects[1]["kind"], &objects[1]["what"]), (&Value::Null, &"database".into()));
    let outside = ifs(&place, &["kinds", "elsewhere.md"]);
    assert_eq!(outside.code, 1);
    assert!(outside.stderr.contains("no store"), "{outside:?}");
    let outside = ifs(&place, &["-C", "s", "kinds", "/elsewhere.md"]);
    assert!(outside.code == 1 && outside.stderr.contains("not in"), "{outside:?}");
}

#[test]
fn lists_the_rules_in_their_order() {
    let place = Place::new();
    store(&place);
    let list = ok(ifs(&place, &["-C", "s", "kinds"]));
    let at = |glob: &str| list.lines().position(|l| l.starts_with(&format!("{glob} "))).unwrap();
    let order =
        ["missions.md", "scheduler.lock", "notes/**/*.txt", "journal/**", "**/*~", "outbox.md"];
    assert!(order.map(at).is_sorted(), "{list}");
    let json = ok(place.run_in("s", &["kinds", "--json"]));
    let rule = json.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let ours: Vec<Value> = rule.filter(|r| r["from"] == "settings").collect();
    assert_eq!(ours.len(), 2);
    assert_eq!((&ours[1]["line"], &ours[1]["what"]), (&4.into(), &"plain".into()));
}

#[test]
fn settings_that_cannot_be_used_are_named_with_line_and_key() {
    let place = Place::new();
    store(&place);
    fs::create_dir(place.path("m")).unwrap();
    for (text, said) in [
        (
            "[files]\n\"a.md\" = \"quue\"\n",
            "instancefs.toml:2: files.\"a.md\": \"quue\" is no kind",
        ),
        ("[missions]\nnested = 1\n", "instancefs.toml:2: missions.nested: no such setting"),
        ("[files\n", "instancefs.toml:1: "),
        (
            "[files]\n\"config.json\" = \"text\"\n",
            "instancefs.toml:2: files.\"config.json\": counts for nothing: document, rendered",
        ),
    ] {
        fs::write(place.path("s/instancefs.toml"), text).unwrap();
        for args in [&["kinds", "s/a.md"][..], &["-C", "s", "kinds"], &["mount", "s", "m"]] {
            let ran = ifs(&place, args);
            assert!(ran.code == 1 && ran.stderr.contains(said), "{args:?} {ran:?}");
        }
    }
    // What needs no settings works.
    ok(ifs(&place, &["-C", "s", "log"]));
    let status = ok(ifs(&place, &["status", "s", "--json"]));
    let status: Value = serde_json::from_str(&status).unwrap();
    assert!(status["settings_problem"].as_str().unwrap().contains("instancefs.toml:2"), "{status}");
    assert!(ok(ifs(&place, &["status", "s"])).contains("instancefs.toml:2"));
}

#[test]
fn nested_bullets_are_what_is_set() {
    let text = "## Pending\n- one\n  - two\n";
    for (set, missions) in [("item", 2), ("text", 1)] {
        let place = Place::new();
        ok(ifs(&place, &["init", "s"]));
        fs::write(
            place.path("s/instancefs.toml"),
            format!("[missions]\nnested_bullets = \"{set}\"\n"),
        )
        .unwrap();
        fs::write(place.path("new.md"), text).unwrap();
        let said = ok(ifs(&place, &["-C", "s", "check", "new.md", "--as", "missions.md"]));
        assert!(said.contains(&format!("{missions} added")), "{set}: {said}");
    }
}
