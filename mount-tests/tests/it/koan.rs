//! Programs of Kōan's kind: they open missions.db themselves, replace all rows on each write
//! under missions.lock, export missions.md and read it back (R9). The stand-ins are in
//! `programs/koan_*.py`.

use std::time::Duration;

use mount_tests::{Instance, Python, eventually, programs_dir, samples};
use serde_json::Value;

/// A step-by-step process that has the stand-in as `koan`.
pub(super) fn program(it: &Instance) -> Python {
    let mut python = it.actor().env("PYTHONPATH", programs_dir()).python_steps();
    python.run("import koan_store as koan");
    python
}

/// One that works as one process of the stand-in and holds `missions.lock` from now on.
pub(super) fn holder(it: &Instance) -> Python {
    let mut python = program(it);
    python.run("lock = koan.locked('.'); lock.__enter__()");
    python
}

pub(super) fn lets_go(holder: &mut Python) {
    holder.run("lock.__exit__(None, None, None)");
}

pub(super) fn log(it: &Instance) -> Vec<Value> {
    let store = it.store();
    let args = ["log", "missions.md", "--json", "-C"].map(std::ffi::OsStr::new);
    let text = it.outside().instancefs(&[&args[..], &[store.as_os_str()]].concat()).ok();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The revision that each line is from, by its text.
fn blame(it: &Instance, line: &str) -> u64 {
    let store = it.store();
    let args = ["blame", "missions.md", "--json", "-C"].map(std::ffi::OsStr::new);
    let text = it.outside().instancefs(&[&args[..], &[store.as_os_str()]].concat()).ok();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect(l)).collect();
    let of = |v: &Value| v["text"].as_str().is_some_and(|t| t.trim_end() == line);
    let found = lines.iter().find(|v| of(v)).unwrap_or_else(|| panic!("{line:?} in {text}"));
    found["rev"].as_u64().expect("rev")
}

/// Ten minutes of the same: `make soak`.
#[test]
fn two_programs_four_agents_and_a_person_lose_and_double_nothing() {
    let it = Instance::builder().watchdog(Duration::from_secs(170)).start();
    let party = programs_dir().join("koan_party.py");
    let actor = it.actor().limit(Duration::from_secs(160));
    let told = actor.run("python3", &[party.as_os_str(), ".".as_ref(), "30".as_ref()]).ok();
    let result: Value = serde_json::from_str(told.trim()).expect(&told);
    assert!(result["added"].as_u64() > Some(50), "{result}");
    println!("waits (how many, middle, 99 %, longest, in seconds): {}", result["waits"]);
    assert_eq!(it.kept(), Vec::<String>::new());
}

#[test]
fn the_holders_own_calls_go_through() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let mut holder = holder(&it);
    it.append("missions.md", "- meanwhile");
    // All inside the lock; a step that hangs fails the test.
    holder.run("rows = koan.missions('.')\nkoan.replace_all('.', rows)\nkoan.export('.')");
    holder.run("assert ('pending', 'meanwhile') in koan.read_file('.')");
    holder.run("os.stat('missions.md'); os.listdir('.'); open('missions.md', 'a').close()");
    holder.run("open('plain', 'w').write('x'); os.rename('plain', 'plain2'); os.unlink('plain2')");
    lets_go(&mut holder);
    eventually("its row", || (it.count("meanwhile") == 1).then_some(()));
    assert!(it.read("missions.md").contains("# a comment between two tasks\n"));
}

#[test]
fn a_save_made_while_the_lock_is_held_shows_at_once_and_is_a_row_when_it_is_free() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let mut holder = holder(&it);
    it.append("missions.md", "- appended");
    it.edit("missions.md", "- first task\n", "- first task, edited\n");
    let now = it.read("missions.md");
    assert!(now.contains("- appended\n") && now.contains("- first task, edited\n"), "{now}");
    assert_eq!(it.count("appended"), 0, "the rows are the holder's");
    // Twice, from what it read before.
    holder
        .run("rows = koan.missions('.')\nkoan.replace_all('.', rows)\nkoan.replace_all('.', rows)");
    assert_eq!(it.read("missions.md"), now);
    lets_go(&mut holder);
    eventually("rows", || (it.count("appended") == 1).then_some(()));
    assert_eq!(it.count("first task, edited"), 1);
    assert_eq!(it.count("first task"), 0);
    assert_eq!(it.read("missions.md"), now);
}

#[test]
fn rows_made_of_lines_that_wait_are_not_doubled() {
    let it = Instance::with(&[("missions.md", "# Missions\n\n## Pending\n- old\n")]);
    let mut holder = holder(&it);
    it.append("missions.md", "- waits");
    // As at its first start: all rows become what the file says.
    holder.run(
        "rows = [dict(text=t, state=s, project='default', queued_at=None, started_at=None, \
         completed_at=None) for s, t in koan.read_file('.')]\nkoan.replace_all('.', rows)",
    );
    it.append("missions.md", "- waits");
    lets_go(&mut holder);
    eventually("rows", || (it.rows().len() == 3).then_some(()));
    assert_eq!(it.texts("pending"), ["old", "waits", "waits"]);
    assert_eq!(it.read("missions.md").matches("- waits\n").count(), 2);
}

#[test]
fn writing_back_its_own_rendering_changes_nothing() {
    let text = "# Missions\n\nintro\n\n## Pending\n- one\n# comment\n- two\n\n## Done\n- a ✅ (2026-07-01 10:00)\n- b ✅ (2026-07-01 10:00)\n";
    let it = Instance::with(&[("missions.md", text)]);
    let mut python = program(&it);
    // Its rows are others than those that were there when it last read the file.
    python.run("koan.read_file('.')\nkoan.insert('.', 'three')");
    let (before, revisions) = (it.read("missions.md"), log(&it).len());
    assert!(before.contains("intro\n") && before.contains("# comment\n"), "{before}");
    for newest_first in ["True", "False"] {
        python.run(&format!(
            "with koan.locked('.'): koan.export('.', koan.render(koan.missions('.'), {newest_first}))"
        ));
        assert_eq!(it.read("missions.md"), before);
    }
    python.run("rows = koan.missions('.')\nwith koan.locked('.'):\n  koan.replace_all('.', rows)\n  koan.export('.')");
    assert_eq!(it.read("missions.md"), before);
    assert_eq!(log(&it).len(), revisions);
}

#[test]
fn missions_stay_the_same_ones_over_a_replace_all() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.append("missions.md", "- by hand");
    it.append("missions.md", "- twin");
    it.append("missions.md", "- twin");
    let (by_hand, first) = (blame(&it, "- by hand"), blame(&it, "- first task"));
    assert!(by_hand > first);
    let mut python = program(&it);
    python.run(
        "koan.insert('.', 'more')\nkoan.move('.', 'second task [project:web]', 'in_progress')",
    );
    assert_eq!((blame(&it, "- by hand"), blame(&it, "- first task")), (by_hand, first));
    // An editor that looked before the rows were replaced edits what it saw.
    let mut editor = it.python();
    editor.run("f = open('missions.md'); text = f.read()");
    python.run("koan.insert('.', 'again')");
    editor.run("open('missions.md', 'w').write(text.replace('- by hand', '- by hand, changed'))");
    assert_eq!((it.count("by hand"), it.count("by hand, changed")), (0, 1));
    assert_eq!((it.count("again"), it.count("twin")), (1, 2));
}

#[test]
fn a_removal_by_a_stale_replace_all_is_in_the_history() {
    let it = Instance::with(&[("missions.md", "# Missions\n\n## Pending\n- old\n")]);
    let mut python = program(&it);
    // Without the lock, as a program that was written badly.
    python.run("rows = koan.missions('.')");
    it.append("missions.md", "- gone soon");
    let had = log(&it)[0]["rev"].as_u64().expect("rev");
    python.run("koan.replace_all('.', rows)");
    assert!(!it.read("missions.md").contains("gone soon"));
    let newest = &log(&it)[0];
    assert_eq!((&newest["via"], &newest["summary"]), (&"sql".into(), &"1 removed".into()));
    let then = format!("missions.md@{had}");
    let store = it.store();
    let args = ["show".as_ref(), then.as_ref(), "-C".as_ref(), store.as_os_str()];
    assert!(it.outside().instancefs(&args).ok().contains("- gone soon\n"));
}

#[test]
fn an_export_of_the_quarantine_is_taken_and_changes_nothing() {
    let it = Instance::fresh();
    let db = it.database();
    db.execute(
        "insert into quarantine(text, reason, source, added_at) values \
         ('rm -rf', 'injection', 'telegram', '2026-07-01 09:00')",
        [],
    )
    .expect("row");
    let mut python = program(&it);
    let mut exports = |text: &str| {
        let quoted = serde_json::to_string(text).expect("json");
        python.outcome(&format!(
            "open('q', 'w').write({quoted})\nos.replace('q', 'missions-quarantine.md')"
        ))
    };
    let line = "- 🛡️ [2026-07-01 09:00] (telegram) injection: rm -rf\n";
    assert_eq!(exports(line), 0);
    assert_eq!(it.read("missions-quarantine.md"), format!("# Quarantine\n\n{line}"));
    assert_eq!(exports("- 🛡️ [2026-07-01 09:00] (me) made: up\n"), libc::EROFS);
    assert_eq!(exports("\n"), libc::EROFS);
    assert_eq!(it.read("missions-quarantine.md"), format!("# Quarantine\n\n{line}"));
    assert!(!it.names(".").contains(&"missions-quarantine.md.refused".to_owned()));
}

const LOCKS: [(&str, &str, &str); 3] = [
    ("flock", "fcntl.flock(f, fcntl.LOCK_EX)", "fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"),
    ("fcntl", "fcntl.lockf(f, fcntl.LOCK_EX)", "fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"),
    // F_OFD_SETLKW and F_OFD_SETLK, which Python has no names for.
    (
        "ofd",
        "fcntl.fcntl(f, 38, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0))",
        "fcntl.fcntl(f, 37, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0))",
    ),
];

#[test]
fn locks_on_a_document_outlive_its_versions_and_end_with_their_owner() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    for (kind, wait, try_once) in LOCKS {
        let (mut owner, mut waiter, mut other) = (it.python(), it.python(), it.python());
        owner.run(&format!("f = open('missions.md', 'r+'); {wait}"));
        // New versions in every way; the lock is on the document.
        it.append("missions.md", &format!("- {kind} appended"));
        it.sh("sed 's/^# Missions$/# Missions!/' missions.md > t; mv t missions.md; sed -i 's/^# Missions!$/# Missions/' missions.md");
        it.database().execute("update missions set text = text || '.'", []).expect("sql");
        it.read("missions.md");
        let refused = other.errno(&format!("f = open('missions.md', 'r+'); {try_once}"));
        assert!([libc::EAGAIN, libc::EACCES].contains(&refused), "{kind}: {refused}");
        waiter.run("f = open('missions.md', 'r+')");
        waiter.begin(wait);
        assert!(waiter.blocks_for(Duration::from_millis(300)), "{kind}: waits for the owner");
        // Nobody else is held up by it.
        it.append("missions.md", &format!("- {kind} while locked"));
        owner.kill();
        waiter.finish().expect("gets it when the owner dies");
        assert_ne!(other.outcome(try_once), 0, "{kind}: the waiter has it");
        waiter.run("f.close()");
        assert_eq!(other.outcome(try_once), 0, "{kind}: free again");
    }
}

/// A database that its program has made and not used yet, or with these rows.
pub(super) fn database(marks: &[&str], rows: &[(&str, &str)]) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("missions.db");
    let db = rusqlite::Connection::open(&path).expect("database");
    db.execute_batch(
        "create table missions(id integer primary key, text text not null, state text not null
             check(state in ('pending','in_progress','done','failed')),
             project text not null default 'default', sequence integer not null default 0,
             complexity text, queued_at text, started_at text, completed_at text,
             recovery_count integer not null default 0);
         create table meta(key text primary key, value text);",
    )
    .expect("schema");
    for mark in marks {
        db.execute("insert into meta values(?1, '2026-07-01T09:00')", [mark]).expect("mark");
    }
    for (text, state) in rows {
        db.execute("insert into missions(text, state, sequence) values(?1, ?2, 1)", (text, state))
            .expect("row");
    }
    drop(db);
    std::fs::read(path).expect("read")
}

pub(super) const FRENCH: &str = "\
# Missions

## CI
- [project:k] https://example.org/o/r/pull/7 branch:b repo:o/r queued:2026-07-01T09:00 (attempt 1/5)
- a line that is none of CI's

## Ideas
- an idea

## En attente
- une tâche [projet:koi]
- parent
  - child

### Refactor the parser
- step one
```
## Done
- fenced
```

- after the block

## En cours
- en route ▶(2026-07-01T09:05)

## Terminées
- fini ✅ (2026-07-01 10:00)

## Failed
- mauvais ❌ (2026-07-01 10:00) [timeout]
";

/// What its program's first start does that looks only at its own mark (`initialized_at`): it
/// adds what the file says to the rows.
pub(super) fn first_start(it: &Instance) {
    let mut python = program(it);
    python.run(
        "with koan.database('.') as db: imported = db.execute(\"SELECT 1 FROM meta WHERE key = 'initialized_at'\").fetchone()\n\
         if not imported:\n  with koan.database('.') as db:\n    for s, t in koan.read_file('.'): db.execute('INSERT INTO missions (text, state) VALUES (?, ?)', (t, s))",
    );
}

#[test]
fn a_whole_instance_is_taken_over_byte_for_byte() {
    let quarantine = "- 🛡️ [2026-07-01 09:00] (telegram) injection: rm -rf\n";
    for database in [None, Some(database(&[], &[]))] {
        let mut builder = Instance::builder()
            .file("missions.md", FRENCH)
            .file("missions-quarantine.md", quarantine)
            .file("outbox.md", "hello\n")
            .file("journal/2026-07-01/k.md", "day\n");
        if let Some(bytes) = &database {
            builder = builder.file("missions.db", bytes);
        }
        let it = builder.start();
        assert_eq!(it.read("missions.md"), FRENCH);
        let block = "### Refactor the parser\n- step one\n```\n## Done\n- fenced\n```";
        let pending = it.texts("pending");
        assert_eq!(
            pending,
            ["une tâche [projet:koi]", "parent\n  - child", block, "after the block"]
        );
        assert_eq!(it.texts("in_progress"), ["en route"]);
        assert_eq!(
            (it.texts("done"), it.texts("failed")),
            (vec!["fini".to_owned()], vec!["mauvais".to_owned()])
        );
        let db = it.database();
        let count = |table: &str| -> i64 {
            db.query_row(&format!("select count(*) from {table}"), [], |r| r.get(0)).expect("count")
        };
        assert_eq!((count("ci_queue"), count("ideas"), count("quarantine")), (1, 1, 1));
        assert!(it.read("missions-quarantine.md").ends_with(quarantine));
        assert_eq!(it.sh("cat outbox.md journal/*/k.md"), "hello\nday\n");
        first_start(&it);
        assert_eq!(it.rows().len(), 7, "nothing is imported twice");
        assert_eq!(it.read("missions.md"), FRENCH);
    }
}

#[test]
fn people_may_write_missions_before_the_first_start() {
    let it = Instance::fresh();
    it.append("missions.md", "- early bird");
    first_start(&it);
    assert_eq!(it.count("early bird"), 1);
}

#[test]
fn a_file_that_is_newer_than_the_database_is_merged_and_only_adds() {
    let bytes =
        database(&["initialized_at", "s8_synced"], &[("kept", "done"), ("queued", "pending")]);
    let it = Instance::builder().unmounted().start();
    let dir = it.scratch("instance");
    std::fs::create_dir(&dir).expect("mkdir");
    std::fs::write(dir.join("missions.db"), bytes).expect("write");
    std::fs::write(dir.join("missions.md"), "# Missions\n\n## Pending\n- queued\n- by hand\n")
        .expect("write");
    it.outside().bash("touch -d '2026-07-01 10:00' instance/missions.db; touch -d '2026-07-02 10:00' instance/missions.md").ok();
    let store = it.scratch("store");
    let args = ["init".as_ref(), store.as_os_str(), "--from".as_ref(), dir.as_os_str()];
    let told = it.outside().instancefs(&args).ok();
    assert!(told.contains("newer than"), "{told}");
    let text = it.outside().bash("cat store/missions.md; sqlite3 -cmd '.timeout 10000' store/missions.db 'select state, text from missions order by id'").ok();
    for row in ["done|kept\n", "pending|queued\n", "pending|by hand\n"] {
        assert_eq!(text.matches(row).count(), 1, "{row} in {text}");
    }
    assert!(text.contains("## Done\n- kept\n"), "{text}");
}
