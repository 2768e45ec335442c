//! The commands, run as a person runs them.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;
use support::{Place, ifs, watch};

const MISSIONS: &str = "\
# Missions

Notes of a person before any section.

## Pending
- fix the login [project:web]
- write the report
# a comment line

## In Progress
- tidy up ▶(2026-07-01T09:05)

## Done
- first thing ✅ (2026-07-01 10:00)

## Someday
* not a mission
";

const CONFIG: &str = "# budget\nbudget:\n  daily: 1.50   # dollars\nname: \"x\"\n";

/// A database of another program, with one row, the -wal in use.
const KOAN: &str = "pragma journal_mode = wal;
         create table missions (id integer primary key, text text not null, state text not null
           check (state in ('pending','in_progress','done','failed')), project text not null
           default 'default', sequence integer not null default 0, complexity text,
           queued_at text, started_at text, completed_at text,
           recovery_count integer not null default 0);
         create table meta (key text primary key, value text);
         insert into meta values ('s8_synced', '2026-07-01T09:00');
         insert into missions (text, state, recovery_count) values ('a row', 'pending', 3);";

fn make_instance(dir: &Path) {
    fs::create_dir_all(dir.join("memory/deep")).unwrap();
    fs::write(dir.join("missions.md"), MISSIONS).unwrap();
    fs::write(dir.join("config.yaml"), CONFIG).unwrap();
    fs::set_permissions(dir.join("config.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(dir.join("memory/deep/a.md"), "remember\n").unwrap();
    fs::write(dir.join("outbox.md"), "to send\n").unwrap();
    symlink("memory/deep/a.md", dir.join("latest")).unwrap();
    fs::set_permissions(dir.join("outbox.md"), fs::Permissions::from_mode(0o640)).unwrap();
}

/// Every regular file below `dir` with its content and mode, our own and SQLite's left out.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>, u32)> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
            let meta = path.symlink_metadata().unwrap();
            if name.starts_with(".instancefs-")
                || name.starts_with("missions.db")
                || name == "missions.lock"
            {
                continue;
            }
            if meta.is_dir() {
                left.push(path);
            } else if meta.is_file() {
                found.push((name, fs::read(&path).unwrap(), meta.mode() & 0o7777));
            }
        }
    }
    found.sort();
    found
}

fn private_files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n.starts_with(".instancefs-")).collect()
}

fn rows(store: &Path) -> Vec<(String, String)> {
    let conn = Connection::open(store.join("missions.db")).unwrap();
    let mut stmt =
        conn.prepare("select state, text from missions order by state, sequence").unwrap();
    let rows = stmt.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn help_and_wrong_usage() {
    let place = Place::new();
    for args in [&["--help"][..], &["init", "--help"], &["mount", "-h"], &["help", "adopt"]] {
        let out = ifs(&place, args);
        assert_eq!(out.code, 0, "{args:?}");
        assert!(out.stdout.contains("Usage:") && out.stdout.contains("Examples:"), "{args:?}");
    }
    assert_eq!(ifs(&place, &["--version"]).code, 0);
    for args in [
        &[][..],
        &["frobnicate"],
        &["init"],
        &["mount", "only-one"],
        &["status", "--yaml"],
        &["eject"],
    ] {
        let out = ifs(&place, args);
        assert_eq!(out.code, 2, "{args:?}: {}", out.stderr);
        assert!(!out.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn the_reference_is_the_one_in_docs() {
    let place = Place::new();
    let out = ifs(&place, &["markdown-help"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/CLI.md");
    let written = fs::read_to_string(path).unwrap();
    assert!(out.stdout == written, "docs/CLI.md is not what `instancefs markdown-help` prints");
}

#[test]
fn init_makes_a_private_store_once() {
    let place = Place::new();
    let out = ifs(&place, &["init", "s"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""));
    let mode = |p: &str| fs::metadata(place.path(p)).unwrap().mode() & 0o7777;
    assert_eq!(mode("s"), 0o700);
    assert_eq!(mode("s/missions.db"), 0o600);
    let again = ifs(&place, &["init", "s"]);
    assert_eq!(again.code, 0);
    assert!(again.stdout.contains("already"), "{}", again.stdout);
}

#[test]
fn init_refuses_a_directory_with_something_in_it() {
    let place = Place::new();
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("d/precious"), "x").unwrap();
    let out = ifs(&place, &["init", "d"]);
    assert_eq!(out.code, 1);
    assert_eq!(out.stderr, "instancefs: d: the directory is not empty\n");
    assert_eq!(fs::read_dir(place.path("d")).unwrap().count(), 1);
    fs::write(place.path("f"), "x").unwrap();
    let out = ifs(&place, &["init", "f"]);
    assert_eq!(out.code, 1);
    assert!(out.stderr.starts_with("instancefs: f: "), "{}", out.stderr);
}

#[test]
fn init_takes_a_directory_in_and_says_what_it_found() {
    let place = Place::new();
    let from = place.path("old");
    make_instance(&from);
    let before = contents(&from);
    let out = ifs(&place, &["init", "s", "--from", "old"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{}", out.stdout);
    assert!(
        out.stdout.contains("missions: 2 pending, 1 in progress, 1 done, 0 failed"),
        "{}",
        out.stdout
    );
    for line in [
        "  line 3: Notes of a person before any section.",
        "  line 8: # a comment line",
        "  line 16: ## Someday",
        "  line 17: * not a mission",
    ] {
        assert!(out.stdout.lines().any(|l| l == line), "{line:?} in {}", out.stdout);
    }
    assert!(!out.stdout.contains("## Pending"), "{}", out.stdout);
    assert_eq!(contents(&from), before, "the source was changed");
    assert_eq!(contents(&place.path("s")), before);
    assert_eq!(fs::read_link(place.path("s/latest")).unwrap(), Path::new("memory/deep/a.md"));
    let rows = rows(&place.path("s"));
    assert!(rows.contains(&("pending".into(), "fix the login [project:web]".into())), "{rows:?}");
    assert!(rows.contains(&("done".into(), "first thing".into())), "{rows:?}");

    let again = ifs(&place, &["init", "s", "--from", "old"]);
    assert_eq!(again.code, 0);
    assert_eq!(self::rows(&place.path("s")), rows, "taken in twice");
    fs::create_dir(place.path("other")).unwrap();
    assert_eq!(ifs(&place, &["init", "s", "--from", "other"]).code, 1);
}

#[test]
fn a_session_led_from_another_pid_namespace_is_no_error() {
    let place = Place::new();
    make_instance(&place.path("old"));
    let inside = |args: &[&str]| {
        let mut command = place.command(args);
        let program = command.get_program().to_owned();
        let mut command_line = vec!["--pid", "--fork", "--mount-proc"];
        command_line.push(program.to_str().unwrap());
        command_line.extend(args);
        command = Command::new("unshare");
        command.args(command_line).current_dir(place.path("."));
        watch(command)
    };
    for args in [&["init", "s", "--from", "old"][..], &["export", "s", "copy"], &["log", "-C", "s"]]
    {
        let out = inside(args);
        assert_eq!(out.code, 0, "{args:?}: {}", out.stderr);
    }
    assert_eq!(contents(&place.path("copy")), contents(&place.path("old")));
}

#[test]
fn an_interrupted_init_is_repeated() {
    let place = Place::new();
    let from = place.path("old");
    make_instance(&from);
    let all = ifs(&place, &["init", "whole", "--from", "old"]);
    assert_eq!(all.code, 0);
    // As left when it was interrupted while copying.
    let store = place.path("s");
    fs::create_dir(&store).unwrap();
    let journal = serde_json::json!({ "doing": "init", "other": from.canonicalize().unwrap() });
    fs::write(store.join(".instancefs-step"), journal.to_string()).unwrap();
    fs::write(store.join("outbox.md"), "to s").unwrap();
    let out = ifs(&place, &["init", "s", "--from", "old"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert_eq!(contents(&store), contents(&from));
    // As left when it was interrupted just before its end.
    fs::write(store.join(".instancefs-step"), journal.to_string()).unwrap();
    let before = rows(&store);
    let out = ifs(&place, &["init", "s", "--from", "old"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert_eq!(rows(&store), before);
    assert_eq!(contents(&store), contents(&from));
    assert!(!store.join(".instancefs-step").exists());
    // Half a store is not mounted: what was changed there would be lost in the repetition.
    fs::write(store.join(".instancefs-step"), journal.to_string()).unwrap();
    fs::create_dir(place.path("m")).unwrap();
    let out = ifs(&place, &["mount", "s", "m"]);
    assert_eq!(out.code, 1, "{}", out.stderr);
    assert!(out.stderr.contains("repeat it (instancefs init "), "{}", out.stderr);
    // Another directory does not go into it.
    fs::write(store.join(".instancefs-step"), journal.to_string()).unwrap();
    fs::create_dir(place.path("other")).unwrap();
    for args in [&["init", "s", "--from", "other"][..], &["init", "s"], &["export", "whole", "s"]] {
        let out = ifs(&place, args);
        assert_eq!(out.code, 1, "{args:?}");
        assert!(out.stderr.contains("repeat it (instancefs init s --from "), "{}", out.stderr);
    }
}

#[test]
fn a_bad_config_is_named_and_nothing_is_lost() {
    let place = Place::new();
    for (json, yaml, message) in [
        (Some("{\"a\": 1}"), Some("a: 2\n"), "say different things: a"),
        (Some("{\"a\": "), None, "config.json"),
        (None, Some("a: [1\n"), "config.yaml"),
    ] {
        for command in ["init", "adopt"] {
            let from = place.path("old");
            make_instance(&from);
            fs::remove_file(from.join("config.yaml")).unwrap();
            if let Some(json) = json {
                fs::write(from.join("config.json"), json).unwrap();
            }
            if let Some(yaml) = yaml {
                fs::write(from.join("config.yaml"), yaml).unwrap();
            }
            let before = contents(&from);
            let out = match command {
                "init" => ifs(&place, &["init", "s", "--from", "old"]),
                _ => ifs(&place, &["adopt", "old"]),
            };
            assert_eq!(out.code, 1, "{command} {message}");
            let first = out.stderr.lines().next().unwrap();
            assert!(first.starts_with("instancefs: ") && first.contains(message), "{first}");
            assert_eq!(contents(&from), before, "{command} {message}");
            if command == "adopt" {
                assert_eq!(private_files(&from), Vec::<String>::new());
                assert!(!from.join("missions.db").exists());
            }
            fs::remove_dir_all(from).unwrap();
            let _ = fs::remove_dir_all(place.path("s"));
        }
    }
}

#[test]
fn a_database_of_another_program_is_taken_over() {
    let place = Place::new();
    let from = place.path("old");
    fs::create_dir(&from).unwrap();
    let conn = Connection::open(from.join("missions.db")).unwrap();
    conn.execute_batch(KOAN).unwrap();
    // The -wal still holds everything: another process has the database open.
    let out = ifs(&place, &["init", "s", "--from", "old"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(out.stdout.contains("missions.db: taken over"), "{}", out.stdout);
    assert!(out.stdout.contains("missions: 1 pending"), "{}", out.stdout);
    let copy = Connection::open(place.path("s/missions.db")).unwrap();
    let count: i64 =
        copy.query_row("select recovery_count from missions", [], |r| r.get(0)).unwrap();
    assert_eq!(count, 3);

    // A file that was written later is merged; it only adds.
    drop(conn);
    fs::write(from.join("missions.md"), "# Missions\n\n## Pending\n- a later one\n").unwrap();
    let out = ifs(&place, &["init", "s2", "--from", "old"]);
    assert!(out.stdout.contains("missions.md: newer than missions.db, merged"), "{}", out.stdout);
    let texts: Vec<_> = rows(&place.path("s2")).into_iter().map(|r| r.1).collect();
    assert_eq!(texts, ["a row", "a later one"]);
}

#[test]
fn a_quarantine_file_and_an_older_missions_file_are_kept() {
    let place = Place::new();
    let from = place.path("old");
    fs::create_dir(&from).unwrap();
    let line = "- 🛡️ [2026-07-01 10:00] (telegram) too long: do it";
    fs::write(from.join("missions-quarantine.md"), format!("# Quarantine\n\n{line}\nfree\n"))
        .unwrap();
    fs::write(from.join("missions.md"), "# Missions\n\n## Pending\n- removed since\n").unwrap();
    let old = fs::File::options().write(true).open(from.join("missions.md")).unwrap();
    old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    Connection::open(from.join("missions.db"))
        .unwrap()
        .execute_batch("create table t (x)")
        .unwrap();
    let before = contents(&from);
    let out = ifs(&place, &["init", "s", "--from", "old"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(out.stdout.contains("1 in quarantine"), "{}", out.stdout);
    assert!(
        out.stdout.contains("missions-quarantine.md: taken in but for some lines"),
        "{}",
        out.stdout
    );
    // A database without any missions does not make the file an old one.
    assert!(out.stdout.contains("missions: 1 pending"), "{}", out.stdout);
    for (name, text, _) in before {
        assert_eq!(fs::read(place.path("s").join(&name)).unwrap(), text, "{name}");
    }

    let two = place.path("two");
    fs::create_dir(&two).unwrap();
    fs::write(two.join("missions.md"), "# Missions\n\n## Pending\n- removed since\n").unwrap();
    let old = fs::File::options().write(true).open(two.join("missions.md")).unwrap();
    old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let conn = Connection::open(two.join("missions.db")).unwrap();
    conn.execute_batch(KOAN).unwrap();
    drop(conn);
    let out = ifs(&place, &["init", "s2", "--from", "two"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(!fs::read_to_string(place.path("s2/missions.md")).unwrap().contains("removed since"));
    assert!(
        fs::read_to_string(place.path("s2/missions.md.older")).unwrap().contains("removed since")
    );
}

#[test]
fn a_mount_or_a_linked_database_is_not_taken_in() {
    let place = Place::new();
    let from = place.path("old");
    fs::create_dir(&from).unwrap();
    let conn = Connection::open(place.path("real.db")).unwrap();
    conn.execute_batch("create table t (x)").unwrap();
    symlink(place.path("real.db"), from.join("missions.db")).unwrap();
    let before = fs::read(place.path("real.db")).unwrap();
    for args in [&["init", "s", "--from", "old"][..], &["adopt", "old"]] {
        let out = ifs(&place, args);
        assert_eq!(out.code, 1, "{args:?}");
        assert!(out.stderr.contains("missions.db: not a regular file"), "{}", out.stderr);
    }
    assert_eq!(fs::read(place.path("real.db")).unwrap(), before);
    assert_eq!(names_in(&from), ["missions.db"]);
}

#[test]
fn status_of_a_store_that_nobody_serves() {
    let place = Place::new();
    make_instance(&place.path("old"));
    ifs(&place, &["init", "s", "--from", "old"]);
    let before = fs::read(place.path("s/missions.db")).unwrap();
    let out = ifs(&place, &["status", "s", "--json"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    let status: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(status["running"], false);
    assert_eq!(status["answers"], "not mounted");
    assert_eq!(status["documents"]["missions"]["counts"]["pending"], 2);
    assert_eq!(status["documents"]["missions"]["files"][0]["name"], "missions.md");
    assert_eq!(status["documents"]["missions"]["files"][0]["bytes"], MISSIONS.len());
    assert_eq!(status["refusals"]["count"], 0);
    assert_eq!(fs::read(place.path("s/missions.db")).unwrap(), before, "status wrote");
    // The nearest one at or above the current directory, -C and the environment.
    let inside = place.run_in("s/memory/deep", &["status"]);
    assert!(inside.stdout.contains("2 pending"), "{}{}", inside.stdout, inside.stderr);
    let named = place.run_in(".", &["-C", "s/memory", "status"]);
    assert!(named.stdout.contains("2 pending"), "{}", named.stdout);
    let env = place.command(&["status"]).env("INSTANCEFS_DIR", place.path("s")).output().unwrap();
    assert!(String::from_utf8_lossy(&env.stdout).contains("2 pending"));
    let mut empty = place.command(&["status"]);
    empty.env("INSTANCEFS_DIR", "").current_dir(place.path("s"));
    assert!(support::watch(empty).stdout.contains("2 pending"));
    let none = place.run_in(".", &["status"]);
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("hint: "), "{}", none.stderr);
}

#[test]
fn adopt_and_eject_leave_everything_as_it_was() {
    let place = Place::new();
    let dir = place.path("inst");
    make_instance(&dir);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
    let before = contents(&dir);
    let out = ifs(&place, &["adopt", "inst"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{}", out.stdout);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    let store = place.path("inst.store");
    assert_eq!(contents(&store), before);
    for path in [&dir, &store] {
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, 0o750);
    }
    let again = ifs(&place, &["adopt", "inst"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stdout.contains("already"), "{}", again.stdout);

    let out = ifs(&place, &["eject", "inst"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert_eq!(contents(&dir), before);
    assert!(!store.exists());
    assert_eq!(private_files(&dir), Vec::<String>::new());
    assert!(dir.join("missions.db").exists());
    let again = ifs(&place, &["eject", "inst"]);
    assert_eq!(again.code, 0, "{}", again.stderr);

    // A second round goes on with the same rows, and purge leaves nothing of ours.
    assert_eq!(ifs(&place, &["adopt", "inst"]).code, 0);
    assert_eq!(rows(&store).len(), 4);
    let out = ifs(&place, &["eject", "inst", "--purge"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert_eq!(contents(&dir), before);
    let conn = Connection::open(dir.join("missions.db")).unwrap();
    let ours: i64 = conn
        .query_row("select count(*) from sqlite_schema where name glob 'ifs_*'", [], |r| r.get(0))
        .unwrap();
    assert_eq!(ours, 0);
}

#[test]
fn purge_removes_a_database_that_we_made() {
    let place = Place::new();
    let dir = place.path("inst");
    make_instance(&dir);
    let before: Vec<_> = names_in(&dir);
    assert_eq!(ifs(&place, &["adopt", "inst"]).code, 0);
    assert_eq!(ifs(&place, &["eject", "inst", "--purge"]).code, 0);
    assert_eq!(names_in(&dir), before);
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn adopt_is_repeated_after_an_interruption_at_any_step() {
    let place = Place::new();
    let (dir, store) = (place.path("inst"), place.path("inst.store"));
    make_instance(&dir);
    let before = contents(&dir);
    let journal =
        serde_json::json!({ "doing": "adopt", "other": place.path("inst.store") }).to_string();
    let step = ".instancefs-step";
    let adopt = |what: &str| {
        let out = ifs(&place, &["adopt", "inst"]);
        assert_eq!(out.code, 0, "{what}: {}", out.stderr);
        assert_eq!(contents(&store), before, "{what}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{what}");
        assert!(!store.join(step).exists(), "{what}");
        assert_eq!(rows(&store).len(), 4, "{what}");
    };
    // Only the journal was written.
    fs::write(dir.join(step), &journal).unwrap();
    adopt("journal written");
    // The documents were taken in, the directory for the swap was made.
    fs::remove_dir(&dir).unwrap();
    fs::rename(&store, &dir).unwrap();
    fs::write(dir.join(step), &journal).unwrap();
    fs::create_dir(&store).unwrap();
    adopt("before the swap");
    // The names were swapped.
    fs::write(store.join(step), &journal).unwrap();
    adopt("after the swap");
    // A file system that cannot swap: renamed, and no new directory yet.
    fs::write(store.join(step), &journal).unwrap();
    fs::remove_dir(&dir).unwrap();
    adopt("after the rename");
}

#[test]
fn what_was_removed_in_an_ejected_directory_stays_removed() {
    let place = Place::new();
    let dir = place.path("inst");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("missions.md"), "## Pending\n- one\n- two\n\nnote\n").unwrap();
    fs::write(dir.join("config.yaml"), "a: 1\nb: 2 # two\n").unwrap();
    for args in [["adopt", "inst"], ["eject", "inst"]] {
        assert_eq!(ifs(&place, &args).code, 0);
    }
    let (missions, config) = ("## Pending\n- two\n\nnote\n", "b: 2 # two\n");
    fs::write(dir.join("missions.md"), missions).unwrap();
    fs::write(dir.join("config.yaml"), config).unwrap();
    let out = ifs(&place, &["adopt", "inst"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    let store = place.path("inst.store");
    assert_eq!(fs::read_to_string(store.join("missions.md")).unwrap(), missions);
    assert_eq!(fs::read_to_string(store.join("config.yaml")).unwrap(), config);
    assert_eq!(rows(&store).len(), 1);
    // The database is still known as ours.
    let out = ifs(&place, &["eject", "inst", "--purge"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(!dir.join("missions.db").exists());
    assert_eq!(fs::read_to_string(dir.join("missions.md")).unwrap(), missions);
}

#[test]
fn eject_is_repeated_after_an_interruption_at_any_step() {
    let place = Place::new();
    let (dir, store) = (place.path("inst"), place.path("inst.store"));
    make_instance(&dir);
    let before = contents(&dir);
    let journal =
        serde_json::json!({ "doing": "eject", "other": place.path("inst"), "purge": false })
            .to_string();
    let step = ".instancefs-step";
    let eject = |what: &str| {
        let out = ifs(&place, &["eject", "inst"]);
        assert_eq!(out.code, 0, "{what}: {}", out.stderr);
        assert_eq!(contents(&dir), before, "{what}");
        assert!(!store.exists(), "{what}");
        assert_eq!(private_files(&dir), Vec::<String>::new(), "{what}");
        assert_eq!(ifs(&place, &["adopt", "inst"]).code, 0);
    };
    assert_eq!(ifs(&place, &["adopt", "inst"]).code, 0);
    fs::write(store.join(step), &journal).unwrap();
    eject("journal written");
    fs::remove_dir(&dir).unwrap();
    eject("no mount point");
    fs::write(store.join(step), &journal).unwrap();
    fs::rename(&store, &dir).unwrap();
    eject("after the rename");
}

#[test]
fn killed_at_any_moment_adopt_and_eject_lose_nothing() {
    let place = Place::new();
    let dir = place.path("inst");
    make_instance(&dir);
    let before = contents(&dir);
    let killed_after = |args: &[&str], millis: u64| {
        let mut command = place.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        let _ = child.kill();
        child.wait().unwrap();
    };
    for millis in [2, 5, 8, 11, 14, 17, 20, 25, 30, 40, 50] {
        killed_after(&["adopt", "inst"], millis);
        let out = ifs(&place, &["adopt", "inst"]);
        assert_eq!(out.code, 0, "{millis}: {}", out.stderr);
        assert_eq!(contents(&place.path("inst.store")), before, "{millis}");
        assert_eq!(rows(&place.path("inst.store")).len(), 4, "{millis}");
        killed_after(&["eject", "inst"], millis);
        let out = ifs(&place, &["eject", "inst"]);
        assert_eq!(out.code, 0, "{millis}: {}", out.stderr);
        assert_eq!(contents(&dir), before, "{millis}");
        assert_eq!(private_files(&dir), Vec::<String>::new());
    }
}

#[test]
fn adopt_does_not_touch_what_is_in_the_way() {
    let place = Place::new();
    let dir = place.path("inst");
    make_instance(&dir);
    fs::create_dir(place.path("inst.store")).unwrap();
    fs::write(place.path("inst.store/x"), "x").unwrap();
    let before = (contents(&dir), names_in(&dir));
    let out = ifs(&place, &["adopt", "inst"]);
    assert_eq!(out.code, 1);
    assert!(out.stderr.contains("inst.store: "), "{}", out.stderr);
    assert_eq!((contents(&dir), names_in(&dir)), before);
    assert_eq!(ifs(&place, &["adopt", "nothing-here"]).code, 1);
    assert_eq!(ifs(&place, &["eject", "nothing-here"]).code, 1);
    assert_eq!(ifs(&place, &["eject", "inst"]).code, 1);
    assert_eq!((contents(&dir), names_in(&dir)), before);
}

#[test]
fn export_is_a_complete_ordinary_copy() {
    let place = Place::new();
    make_instance(&place.path("old"));
    ifs(&place, &["init", "s", "--from", "old"]);
    // Rows that are only in the -wal of another process.
    let conn = Connection::open(place.path("s/missions.db")).unwrap();
    conn.execute(
        "insert into missions (text, state, sequence) values ('by sql', 'pending', 99)",
        [],
    )
    .unwrap();
    let out = ifs(&place, &["export", "s", "copy"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert_eq!(private_files(&place.path("copy")), Vec::<String>::new());
    let text = fs::read_to_string(place.path("copy/missions.md")).unwrap();
    assert!(text.contains("- by sql") && text.contains("* not a mission"), "{text}");
    assert_eq!(fs::read_to_string(place.path("copy/config.yaml")).unwrap(), CONFIG);
    assert_eq!(fs::read_to_string(place.path("copy/memory/deep/a.md")).unwrap(), "remember\n");
    let mode = fs::metadata(place.path("copy/config.yaml")).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o600);
    assert_eq!(ifs(&place, &["export", "s", "copy"]).code, 1, "exported over a copy");
    assert_eq!(ifs(&place, &["export", "copy/memory", "c3"]).code, 0, "a copy is a store too");
    assert_eq!(ifs(&place, &["export", "old", "c4"]).code, 1);
}

#[test]
fn errors_are_one_line_and_show_control_characters() {
    let place = Place::new();
    let out = ifs(&place, &["status", "no\u{1b}[31m\nsuch"]);
    assert_eq!(out.code, 1);
    let first = out.stderr.lines().next().unwrap();
    assert_eq!(first, "instancefs: no\\x1b[31m\\nsuch: No such file or directory");
    assert!(!out.stderr.contains('\u{1b}'));
}
