//! atomic-agent's databases in the mount: links to themselves, and views of their rows.

use mount_tests::{Instance, eventually};
use serde_json::Value;

/// Makes the databases in the current directory, by the names that are given.
const MAKE: &str = r#"
import sqlite3, sys
def connect(path): return sqlite3.connect(path, isolation_level=None, timeout=30)
def sessions(path):
    db = connect(path); db.execute('pragma journal_mode=wal')
    db.execute('create table sessions(id text primary key, working_dir text not null, status text not null, payload text not null, created_at integer not null, updated_at integer not null, turn_owner text)')
    return db
def session(db, id, status='completed', payload='{"turns":[1.50]}'):
    db.execute('insert into sessions values(?,?,?,?,1,1700000000123,null)', (id, '/w', status, payload))
def tasks(path):
    db = connect(path); db.execute('pragma journal_mode=wal')
    db.execute('create table tasks(id text primary key, user_message text, status text)')
    db.execute("insert into tasks values('t1','do it','pending')")
    return db
def memory(path):
    db = connect(path); db.execute('pragma journal_mode=wal')
    db.execute('create table memories(id integer primary key autoincrement, content text not null, source text, tags text)')
    db.execute('create table profile_facts(id integer primary key autoincrement, key text not null, value text not null, superseded_by integer)')
    db.execute("insert into memories(content, source, tags) values('# Door\n\nIt is red.', 'user', '[\"home\"]')")
    db.execute("insert into profile_facts(key, value, superseded_by) values('name','Adam',2), ('name','Ada',null)")
    return db
"#;

fn python(it: &Instance, program: &str) -> String {
    it.actor().python(&format!("{MAKE}\n{program}"), &[]).ok()
}

fn json(it: &Instance, name: &str) -> Value {
    serde_json::from_str(&it.read(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn the_databases_are_made_through_the_mount_and_are_links_that_stay() {
    let it = Instance::fresh();
    assert!(!it.names(".").iter().any(|n| n.ends_with(".sqlite") || n == "sessions"));
    assert_eq!(it.sh("test -e sessions.sqlite || echo none").trim(), "none");
    // The first program to come makes them; it and the next one have one inode.
    let mut first = it.python();
    first.run("import sqlite3\ndb = sqlite3.connect('sessions.sqlite', isolation_level=None)");
    first.run("db.execute('pragma journal_mode=wal')\ndb.execute('create table sessions(id text primary key, status text)')");
    first.run(
        "db.execute(\"insert into sessions values('a', 'one')\")\ndb.execute('begin immediate')",
    );
    let busy = it.actor().bash("sqlite3 sessions.sqlite 'begin immediate'").failed();
    assert!(busy.stderr.contains("locked"), "{}", busy.stderr);
    first.run("db.execute('commit')");
    assert_eq!(it.sh("sqlite3 sessions.sqlite 'select status from sessions'").trim(), "one");
    assert!(it.store().join("sessions.sqlite-wal").exists());
    let names = it.names(".");
    assert!(
        names.contains(&"sessions.sqlite".to_owned()) && names.contains(&"sessions".to_owned())
    );
    assert!(!names.iter().any(|n| n.contains("-wal") || n.contains("-shm")), "{names:?}");
    assert_eq!(it.sh("test -e sessions.sqlite-wal || echo hidden").trim(), "hidden");
    let link = it.sh("readlink sessions.sqlite");
    assert_eq!(link.trim(), it.store().join("sessions.sqlite").to_str().unwrap());
    let mut p = it.python();
    for call in [
        "os.unlink('sessions.sqlite')",
        "os.rename('sessions.sqlite', 'x')",
        "(open('y', 'w').close(), os.rename('y', 'tasks.sqlite'))",
    ] {
        assert_eq!(p.errno(call), libc::EPERM, "{call}");
    }
    assert_eq!(it.read("sessions/a.json"), "{\n  \"id\": \"a\",\n  \"status\": \"one\"\n}\n");
}

#[test]
fn rows_are_read_only_files_that_show_what_is_committed() {
    let it = Instance::fresh();
    let mut writer = it.python();
    writer.run(MAKE);
    writer.run("a = sessions('sessions.sqlite'); session(a, 's1'); session(a, 's2', 'running', 'not json')\nb = tasks('tasks.sqlite'); c = memory('memory.sqlite')");
    assert_eq!(it.names("sessions"), ["s1.json", "s2.json"]);
    assert_eq!(it.names("tasks"), ["t1.json"]);
    assert_eq!(it.names("notes"), ["1.md"]);
    let s1 = it.read("sessions/s1.json");
    assert!(s1.contains("1.50"), "numbers are as they were written: {s1}");
    let s1: Value = serde_json::from_str(&s1).unwrap();
    assert_eq!(
        (s1["status"].as_str(), s1["payload"]["turns"][0].is_number()),
        (Some("completed"), true)
    );
    assert_eq!(json(&it, "sessions/s2.json")["payload"], "not json");
    assert_eq!(json(&it, "tasks/t1.json")["user_message"], "do it");
    assert_eq!(
        it.read("notes/1.md"),
        "---\nid: 1\nsource: \"user\"\ntags: [\"home\"]\n---\n\n# Door\n\nIt is red.\n"
    );
    let profile = json(&it, "profile.json");
    assert_eq!(profile["name"]["value"], "Ada");
    assert_eq!(profile.as_object().unwrap().len(), 1);

    // Size and time are the row's; the next open sees the next commit.
    let stat = it.sh("stat -c '%s %Y %a' sessions/s1.json");
    assert_eq!(stat.trim(), format!("{} 1700000000 444", it.bytes("sessions/s1.json").len()));
    it.sh("chmod 600 $STORE/sessions.sqlite");
    assert_eq!(it.sh("stat -c %a sessions sessions/s1.json").trim(), "500\n400");
    writer.run("a.execute(\"update sessions set status='failed' where id='s1'\")");
    assert_eq!(json(&it, "sessions/s1.json")["status"], "failed");
    writer.run("a.execute(\"delete from sessions where id='s1'\"); session(a, 's3')");
    assert_eq!(it.names("sessions"), ["s2.json", "s3.json"]);
    assert_eq!(it.sh("test -e sessions/s1.json || echo gone").trim(), "gone");

    let mut p = it.python();
    for call in [
        "os.open('sessions/s2.json', os.O_WRONLY)",
        "os.open('sessions/s2.json', os.O_RDWR | os.O_TRUNC)",
        "os.open('sessions/new.json', os.O_WRONLY | os.O_CREAT)",
        "os.open('profile.json', os.O_WRONLY | os.O_APPEND)",
        "os.unlink('sessions/s2.json')",
        "os.unlink('profile.json')",
        "os.mkdir('notes/x')",
        "os.rename('notes/1.md', 'stolen.md')",
    ] {
        assert_eq!(p.errno(call), libc::EROFS, "{call}");
    }
    assert_eq!(p.errno("os.mkdir('sessions')"), libc::EEXIST);
    assert_eq!(p.errno("os.rmdir('sessions')"), libc::EPERM);
    assert_eq!(it.sh("grep -rl red notes").trim(), "notes/1.md");
    assert_eq!(it.sh("cp -r notes copy && cat copy/1.md"), it.read("notes/1.md"));

    // Unmounted, nothing of ours is left beside the databases.
    writer.run("[db.close() for db in (a, b, c)]");
    it.read("sessions/s2.json");
    drop(writer);
    drop(p);
    it.unmount();
    eventually("the -wal files are gone", || {
        let left = std::fs::read_dir(it.store()).unwrap().flatten();
        let mut left = left.filter(|e| e.file_name().to_string_lossy().contains(".sqlite-"));
        left.next().is_none().then_some(())
    });
}

#[test]
fn an_open_row_is_read_whole_however_it_changes() {
    let it = Instance::fresh();
    let mut p = it.python();
    p.run(MAKE);
    p.run("b = tasks('tasks.sqlite')\ndef say(n): b.execute('update tasks set user_message=?', ('x' * n,))");
    p.run("import json");
    for n in [1, 500, 20] {
        p.run("fd = os.open('tasks/t1.json', os.O_RDONLY)");
        p.run(&format!("say({n}); size = os.fstat(fd).st_size; say(7)"));
        p.run("text = os.read(fd, size); assert len(text) == size");
        let length = p.int("len(json.loads(text)['user_message'])");
        assert_eq!(length, n);
        p.run("assert os.read(fd, 9) == b''; os.close(fd)");
    }
    // As `tail -f` does: to the end, and again when there is a new version.
    p.run("fd = os.open('tasks/t1.json', os.O_RDONLY); os.read(fd, 1 << 20); os.read(fd, 1)");
    p.run("say(33); text = os.pread(fd, 1 << 20, 0)");
    assert_eq!(p.int("len(json.loads(text)['user_message'])"), 33);
    p.run("b.execute('delete from tasks'); assert os.pread(fd, 1 << 20, 0) == text");
    assert_eq!(p.int("os.fstat(fd).st_nlink"), 0);
}

#[test]
fn ids_may_be_anything() {
    let it = Instance::fresh();
    python(
        &it,
        r"
a = sessions('sessions.sqlite')
ids = ['a/b', '.', '..', '.x', '', 'x\ny', '\x1b[0m', 'ü', '%', '~', 'L' * 255, 'L' * 256, '/' * 300, '-rf', ' ']
for id in ids: session(a, id, status=id)
a.execute('insert into sessions values(cast(? as text), ?,?,?,1,2,null)', (b'\xff', '/w', 'bytes', '{}'))",
    );
    let told = it
        .actor()
        .python(
            r"
import json, os
names = os.listdir('sessions')
assert all(len(os.fsencode(n)) <= 255 and n.isprintable() and n.endswith('.json') for n in names), names
rows = [json.load(open('sessions/' + n)) for n in names]
assert all(r['status'] == r['id'] for r in rows if r['status'] != 'bytes')
print(len(names), len(set(r['id'] for r in rows)), os.path.exists('sessions/a%2Fb.json'))",
            &[],
        )
        .ok();
    assert_eq!(told.trim(), "16 16 True");
}

#[test]
fn what_the_store_has_under_such_a_name_is_shown_instead() {
    let it = Instance::with(&[("sessions/mine.txt", "mine\n"), ("profile.json", "{\"own\":1}\n")]);
    python(&it, "a = sessions('sessions.sqlite'); session(a, 's1'); memory('memory.sqlite')");
    assert_eq!(it.names("sessions"), ["mine.txt"]);
    assert_eq!(it.read("profile.json"), "{\"own\":1}\n");
    it.sh(
        "echo more >> sessions/mine.txt && mkdir -p models/sessions && echo 1 > models/sessions/1",
    );
    assert_eq!(it.names("notes"), ["1.md"]);
    it.sh("rm -r sessions");
    assert_eq!(it.names("sessions"), ["s1.json"]);
}

#[test]
fn a_hundred_thousand_rows_are_listed_and_found() {
    let it = Instance::fresh();
    python(
        &it,
        "a = sessions('sessions.sqlite'); a.execute('begin')
for n in range(100000): session(a, f'session-{n:06}')
a.execute('commit')",
    );
    assert_eq!(it.sh("ls -f sessions | sort -u | wc -l").trim(), "100002");
    assert_eq!(json(&it, "sessions/session-099999.json")["id"], "session-099999");
}

#[test]
fn an_import_into_a_mounted_instance_shows_in_its_views() {
    let it = Instance::fresh();
    let from = it.scratch("from");
    std::fs::create_dir(&from).unwrap();
    let make = format!(
        "{MAKE}\na = sessions('from/sessions.sqlite'); session(a, 's1', 'running')\nmemory('from/memory.sqlite')"
    );
    it.outside().python(&make, &[]).ok();
    // Someone reads and writes in the target meanwhile.
    let mut writer = it.python();
    writer.run(MAKE);
    writer.run("a = sessions('sessions.sqlite'); session(a, 'own')");
    assert_eq!(it.names("sessions"), ["own.json"]);
    let mount = it.mount_point();
    let source = from.to_str().unwrap();
    let args =
        ["-C", mount.to_str().unwrap(), "import", "atomic-desktop", "--source", source, "--json"];
    let report: Value = serde_json::from_str(&it.outside().instancefs(&args).ok()).unwrap();
    assert_eq!(report["parts"]["sessions"]["imported"], 1, "{report}");
    assert_eq!(report["parts"]["notes"]["imported"], 1, "{report}");
    assert_eq!(it.names("sessions"), ["own.json", "s1.json"]);
    assert_eq!(json(&it, "sessions/s1.json")["status"], "cancelled");
    assert_eq!(json(&it, "profile.json")["name"]["value"], "Ada");
    assert!(it.read("notes/1.md").contains("It is red."));
    assert_eq!(writer.int("a.execute('select count(*) from sessions').fetchone()[0]"), 2);
}
