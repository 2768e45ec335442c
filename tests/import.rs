//! `instancefs import`, with databases that Python's sqlite3 makes and keeps open.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::{Place, Ran, eventually, ifs, watch};

/// What a state directory of atomic-agent is made with: `make(dir)` for all of it.
const AGENT: &str = r#"
import json, os, sqlite3, sys
def connect(path):
    return sqlite3.connect(path, isolation_level=None, timeout=30)
def sessions(path):
    db = connect(path)
    db.execute('pragma journal_mode=wal')
    db.execute('''create table if not exists sessions(id text primary key, working_dir text not null,
      status text not null, payload text not null, created_at integer not null,
      updated_at integer not null, turn_owner text)''')
    return db
def session(db, id, status='completed', payload=None, owner=None, at=1000):
    payload = payload if payload is not None else json.dumps({'id': id, 'status': status, 'turns': []})
    db.execute('insert into sessions values(?,?,?,?,?,?,?)', (id, '/w', status, payload, at, at + 1, owner))
def tasks(path, version='3'):
    db = connect(path)
    db.execute('pragma journal_mode=wal')
    db.executescript('''create table schema_meta(key text primary key, value text not null);
      create table tasks(id text primary key, session_id text, user_message text not null,
      max_steps integer, status text not null, origin text not null, attempts integer not null default 0,
      max_attempts integer not null, last_error text, last_error_cat text, created_at integer not null,
      updated_at integer not null, started_at integer, completed_at integer, schedule_kind text,
      schedule_value text, scheduled_for integer, recurring integer not null default 0,
      last_scheduled_at integer, trigger_source text, notify text, run_owner text);''')
    db.execute("insert into schema_meta values('version', ?)", (version,))
    return db
def task(db, id, status='pending', started=None, owner=None):
    db.execute('''insert into tasks(id, session_id, user_message, status, origin, attempts, max_attempts,
      created_at, updated_at, started_at, run_owner) values(?,'s1','do it',?,'cli',1,3,10,11,?,?)''',
      (id, status, started, owner))
def memory(path):
    db = connect(path)
    db.execute('pragma journal_mode=wal')
    db.executescript('''create table schema_meta(key text primary key, value text not null);
      insert into schema_meta values('version','9');
      create table memories(id integer primary key autoincrement, content text not null,
        created_at integer not null, updated_at integer not null, source text not null,
        session_id text, working_dir text, tags text, recall_count integer not null default 0,
        last_recalled_at integer, consolidating_at integer, consolidated_into integer,
        vote_score real not null default 0.0);
      create virtual table memories_fts using fts5(content, content='memories', content_rowid='id');
      create trigger memories_ai after insert on memories begin
        insert into memories_fts(rowid, content) values (new.id, new.content); end;
      create table profile_facts(id integer primary key autoincrement, key text not null,
        value text not null, pinned integer not null default 1, keywords text,
        valid_from integer not null, superseded_by integer, supersedes integer,
        created_at integer not null, updated_at integer not null, vote_score real not null default 0.0);
      create unique index active on profile_facts(key) where superseded_by is null;
      create table lessons(id integer primary key, principle text);
      insert into lessons values(1, 'never carried');''')
    return db
def note(db, content, tags='["t"]', recall=7, vote=2.5):
    db.execute('''insert into memories(content, created_at, updated_at, source, session_id, working_dir,
      tags, recall_count, last_recalled_at, consolidated_into, vote_score)
      values(?,5,6,'user','s1','/w',?,?,9,1,?)''', (content, tags, recall, vote))
def fact(db, key, value, superseded=None, supersedes=None):
    db.execute('''insert into profile_facts(key, value, pinned, keywords, valid_from, superseded_by,
      supersedes, created_at, updated_at, vote_score) values(?,?,0,'["k"]',3,?,?,3,4,1.5)''',
      (key, value, superseded, supersedes))
def make(dir):
    os.makedirs(dir, exist_ok=True)
    a = sessions(dir + '/sessions.sqlite')
    session(a, 's1')
    session(a, 's2', 'running', '{"id":"s2","status":"running","n":1.50,"big":12345678901234567890}', 'me')
    session(a, 's3', 'awaiting_approval'); session(a, 's4', 'awaiting_llm', 'not json')
    b = tasks(dir + '/tasks.sqlite')
    task(b, 't1', 'completed', 12); task(b, 't2', 'running', 12, 'me')
    c = memory(dir + '/memory.sqlite')
    note(c, 'the door is red'); note(c, 'twice'); note(c, 'twice')
    fact(c, 'name', 'Adam', superseded=2); fact(c, 'name', 'Ada', supersedes=1); fact(c, 'city', 'Oslo')
    return a, b, c
"#;

fn python(place: &Place, program: &str) -> String {
    let mut command = Command::new("python3");
    command.current_dir(place.path("")).args(["-c", &format!("{AGENT}\n{program}")]);
    let ran = watch(command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout
}

/// A Python process that stays where its program says `step()`, and goes on when told.
struct Step {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Step {
    fn start(place: &Place, program: &str) -> Step {
        let steps = "def step():\n    print('step', flush=True)\n    sys.stdin.readline()\n";
        let mut child = Command::new("python3")
            .current_dir(place.path(""))
            .args(["-c", &format!("{AGENT}\n{steps}\n{program}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut step = Step { child, out };
        step.wait();
        step
    }

    fn wait(&mut self) {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        assert_eq!(line, "step\n", "the program ended too soon");
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A store, and a state directory `from` made by this program.
fn with(program: &str) -> Place {
    let place = Place::new();
    assert_eq!(ifs(&place, &["init", "s"]).code, 0);
    python(&place, program);
    place
}

fn import(place: &Place, more: &[&str]) -> Ran {
    let mut args = vec!["-C", "s", "import", "atomic-desktop", "--source", "from"];
    args.extend(more);
    ifs(place, &args)
}

/// The object that `--json` prints, with exit code 0 exactly if it says so.
fn report(ran: &Ran) -> Value {
    let report: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    assert_eq!(ran.code == 0, report["ok"] == true, "{ran:?}");
    assert_eq!(report["ok"] == true, report["error"].is_null(), "{report}");
    report
}

fn counts(report: &Value, part: &str) -> (u64, u64) {
    let part = &report["parts"][part];
    (part["imported"].as_u64().unwrap(), part["skipped"].as_u64().unwrap())
}

fn all(report: &Value) -> [(u64, u64); 4] {
    ["sessions", "tasks", "notes", "profile"].map(|part| counts(report, part))
}

fn open(place: &Place, name: &str) -> Connection {
    Connection::open(place.path("s").join(name)).unwrap()
}

fn texts(db: &Connection, query: &str) -> Vec<String> {
    let mut select = db.prepare(query).unwrap();
    let rows = select.query_map([], |r| r.get::<_, String>(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Names and checksums of all files of a directory.
fn sums(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let sum = |path: &Path| format!("{:x?}", Sha256::digest(fs::read(path).unwrap()));
    entries.map(|e| (e.file_name().into_string().unwrap(), sum(&e.path()))).collect()
}

#[test]
fn every_part_arrives_by_its_rule_and_a_second_run_imports_nothing() {
    let place = with("make('from')");
    let before = sums(&place.path("from"));
    let first = report(&import(&place, &["--json"]));
    assert_eq!(all(&first), [(4, 0), (2, 0), (2, 1), (2, 0)], "{first}");
    let keys: Vec<&String> = first.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ok", "parts", "warnings", "error"]);

    let db = open(&place, "sessions.sqlite");
    let row = |id: &str| {
        db.query_row(
            "select status || '|' || payload || '|' || coalesce(turn_owner, 'nobody') from sessions where id = ?1",
            [id],
            |r| r.get::<_, String>(0),
        )
        .unwrap()
    };
    assert!(row("s1").starts_with("completed|"));
    let s2 = row("s2");
    let (payload, owner) = s2.strip_prefix("cancelled|").unwrap().rsplit_once('|').unwrap();
    assert_eq!(owner, "nobody");
    assert!(payload.contains("1.50") && payload.contains("12345678901234567890"), "{payload}");
    let payload: Value = serde_json::from_str(payload).unwrap();
    assert_eq!(payload["status"], "cancelled");
    assert!(payload["lastError"].as_str().unwrap().contains("interrupted"), "{payload}");
    assert!(row("s3").starts_with("cancelled|"));
    assert_eq!(row("s4"), "cancelled|not json|nobody");
    assert!(first["warnings"].to_string().contains("s4"), "{first}");

    let db = open(&place, "tasks.sqlite");
    let query = "select id || status || coalesce(started_at, '-') || coalesce(run_owner, '-') || attempts from tasks order by id";
    assert_eq!(texts(&db, query), ["t1completed12-1", "t2pending--1"]);

    let db = open(&place, "memory.sqlite");
    let query = "select content || created_at || updated_at || source || session_id || working_dir || tags
       || recall_count || coalesce(last_recalled_at, '-') || coalesce(consolidated_into, '-') || vote_score
       from memories order by id";
    assert_eq!(
        texts(&db, query),
        ["the door is red56users1/w[\"t\"]0--0.0", "twice56users1/w[\"t\"]0--0.0"]
    );
    let found = "select content from memories where id in (select rowid from memories_fts where memories_fts match 'doors')";
    assert_eq!(texts(&db, found), ["the door is red"], "the index is kept by triggers");
    let query = "select key || value || pinned || keywords || valid_from || coalesce(supersedes, '-') || vote_score from profile_facts order by key";
    assert_eq!(texts(&db, query), ["cityOslo0[\"k\"]3-0.0", "nameAda0[\"k\"]3-0.0"]);
    assert_eq!(texts(&db, "select principle from lessons"), [""; 0]);

    let second = report(&import(&place, &["--json"]));
    assert_eq!(all(&second), [(0, 4), (0, 2), (0, 3), (0, 2)], "{second}");
    assert_eq!(sums(&place.path("from")), before);
    for name in ["sessions.sqlite", "tasks.sqlite", "memory.sqlite"] {
        use std::os::unix::fs::MetadataExt;
        assert_eq!(fs::metadata(place.path("s").join(name)).unwrap().mode() & 0o777, 0o600);
    }
}

#[test]
fn what_the_target_has_wins() {
    let place = with(
        "make('from')
a = sessions('s/sessions.sqlite'); session(a, 's2', 'pending', '{\"mine\":1}')
b = tasks('s/tasks.sqlite'); task(b, 't2', 'failed')
c = memory('s/memory.sqlite'); note(c, 'twice', tags=None)
fact(c, 'name', 'Eve', superseded=99)",
    );
    let report = report(&import(&place, &["--json"]));
    assert_eq!(all(&report), [(3, 1), (1, 1), (1, 2), (1, 1)], "{report}");
    let payload = "select payload from sessions where id = 's2'";
    assert_eq!(texts(&open(&place, "sessions.sqlite"), payload), ["{\"mine\":1}"]);
    let status = "select status from tasks where id = 't2'";
    assert_eq!(texts(&open(&place, "tasks.sqlite"), status), ["failed"]);
    let names = "select value from profile_facts where key = 'name'";
    assert_eq!(texts(&open(&place, "memory.sqlite"), names), ["Eve"], "history counts");
}

#[test]
fn a_source_that_a_live_writer_has_open_is_read_with_its_wal_and_not_touched() {
    let place = with("");
    // No reader has ever marked this -wal; its rows are nowhere else.
    let mut writer = Step::start(
        &place,
        "held = make('from')
[db.execute('pragma wal_autocheckpoint=0') for db in held]
session(held[0], 'in the wal')
step()
held[0].execute('begin immediate'); session(held[0], 'not committed'); held[0].execute('pragma cache_spill=on')
step()
held[0].execute('commit'); step()",
    );
    let before = sums(&place.path("from"));
    assert!(
        before.contains_key("sessions.sqlite-wal") && before.contains_key("sessions.sqlite-shm")
    );
    let first = report(&import(&place, &["--json"]));
    assert_eq!(all(&first), [(5, 0), (2, 0), (2, 1), (2, 0)], "{first}");
    assert_eq!(sums(&place.path("from")), before);

    writer.go();
    writer.wait();
    let before = sums(&place.path("from"));
    assert_eq!(counts(&report(&import(&place, &["--json"])), "sessions"), (0, 5));
    assert_eq!(sums(&place.path("from")), before);

    writer.go();
    writer.wait();
    assert_eq!(counts(&report(&import(&place, &["--json"])), "sessions"), (1, 5));
}

#[test]
fn a_writer_that_never_rests_is_read_as_of_one_moment() {
    let place = with("");
    // Two rows in each transaction, checkpoints all the time: a copy has both or none.
    let writer = Step::start(
        &place,
        "held = make('from')
held[0].execute('pragma wal_autocheckpoint=3')
step()
n = 0
while True:
    n += 1
    held[0].execute('begin'); session(held[0], f'a{n}'); session(held[0], f'b{n}', payload='x' * 9000)
    held[0].execute('commit')",
    );
    let mut writer = writer;
    writer.go();
    let mut largest = 0;
    eventually("a few imports with new rows", || {
        let done = report(&import(&place, &["--json"]));
        let (new, _) = counts(&done, "sessions");
        let pairs = "select cast(count(*) as text) from sessions group by substr(id, 1, 1) having substr(id, 1, 1) in ('a', 'b')";
        let pairs = texts(&open(&place, "sessions.sqlite"), pairs);
        assert!(pairs.len() != 1 && pairs.windows(2).all(|p| p[0] == p[1]), "{pairs:?}");
        largest += u32::from(new > 0);
        largest >= 4
    });
}

/// A read-only view of a directory for as long as it lives: root is not stopped by modes.
struct ReadOnly(std::path::PathBuf);

impl ReadOnly {
    fn of(place: &Place, name: &str) -> ReadOnly {
        let (from, to) = (place.path(name), place.path("read-only"));
        fs::create_dir(&to).unwrap();
        let mount = |args: &[&str]| {
            let status = Command::new("mount").args(args).arg(&to).status().unwrap();
            assert!(status.success(), "mount {args:?}");
        };
        mount(&["--bind", from.to_str().unwrap()]);
        mount(&["-o", "remount,ro,bind"]);
        assert!(fs::write(to.join("x"), "").is_err());
        ReadOnly(to)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_source_on_a_read_only_directory_works_in_every_state() {
    // Closed in order; left by a killed writer with -wal and -shm; the same without the -shm;
    // with a live writer beside.
    for state in ["closed", "killed", "no shm", "live"] {
        let place = with("");
        let mut writer = Step::start(
            &place,
            "held = make('from')
session(held[0], 'last'); step()
[db.close() for db in held]; step()",
        );
        match state {
            "closed" => {
                writer.go();
                writer.wait();
            }
            "killed" | "no shm" => {
                writer.child.kill().unwrap();
                writer.child.wait().unwrap();
                if state == "no shm" {
                    for name in ["sessions", "tasks", "memory"] {
                        fs::remove_file(place.path(&format!("from/{name}.sqlite-shm"))).unwrap();
                    }
                }
            }
            _ => {}
        }
        let wal = place.path("from/sessions.sqlite-wal").exists();
        assert_eq!(wal, state != "closed");
        let before = sums(&place.path("from"));
        let from = ReadOnly::of(&place, "from");
        let done = ifs(
            &place,
            &[
                "-C",
                "s",
                "import",
                "atomic-desktop",
                "--json",
                "--source",
                from.0.to_str().unwrap(),
            ],
        );
        assert_eq!(all(&report(&done)), [(5, 0), (2, 0), (2, 1), (2, 0)], "{state}");
        assert_eq!(sums(&place.path("from")), before, "{state}");
    }
}

#[test]
fn a_writer_in_rollback_mode_is_read_before_its_transaction() {
    let place = with(
        "[db.close() for db in make('from')]\nconnect('from/sessions.sqlite').execute('pragma journal_mode=delete')",
    );
    let _writer = Step::start(
        &place,
        "db = connect('from/sessions.sqlite'); db.execute('begin immediate')
session(db, 'open'); step()",
    );
    assert!(place.path("from/sessions.sqlite-journal").exists());
    let before = sums(&place.path("from"));
    assert_eq!(counts(&report(&import(&place, &["--json"])), "sessions"), (4, 0));
    assert_eq!(sums(&place.path("from")), before);
}

#[test]
fn schemas_of_other_versions_are_met_halfway() {
    let place = with(
        "import os
os.makedirs('from')
a = connect('from/sessions.sqlite')   # before turn_owner, with a column of its own
a.execute('create table sessions(id text primary key, working_dir text not null, status text not null, payload text not null, created_at integer not null, updated_at integer not null, colour text)')
a.execute(\"insert into sessions values('old','/w','running','{}',1,2,'red')\")
b = connect('from/tasks.sqlite')      # the first version
b.execute('create table tasks(id text primary key, session_id text, user_message text not null, max_steps integer, status text not null, origin text not null, attempts integer not null default 0, max_attempts integer not null, last_error text, last_error_cat text, created_at integer not null, updated_at integer not null, started_at integer, completed_at integer)')
b.execute('create table schema_meta(key text primary key, value text not null)')
b.execute(\"insert into schema_meta values('version','1')\")
b.execute(\"insert into tasks(id,user_message,status,origin,max_attempts,created_at,updated_at) values('t','m','pending','cli',3,1,2)\")
c = connect('from/memory.sqlite')     # before the history of the profile
c.execute('create table profile_facts(key text primary key, value text not null, updated_at integer not null)')
c.execute(\"insert into profile_facts values('name','Ada',77)\")
c.execute('create table memories(id integer primary key autoincrement, content text not null, created_at integer not null, updated_at integer not null, source text not null, session_id text, working_dir text, tags text)')
c.execute(\"insert into memories(content,created_at,updated_at,source) values('n',1,2,'u')\")
d = connect('s/sessions.sqlite')      # a target with a column that nobody else has
d.execute(\"create table sessions(id text primary key, working_dir text not null, status text not null, payload text not null, created_at integer not null, updated_at integer not null, turn_owner text, mood text not null default 'calm')\")",
    );
    let done = report(&import(&place, &["--json"]));
    assert_eq!(all(&done), [(1, 0), (1, 0), (1, 0), (1, 0)], "{done}");
    let row = "select id || status || mood from sessions";
    assert_eq!(texts(&open(&place, "sessions.sqlite"), row), ["oldcancelledcalm"]);
    let row = "select id || recurring || coalesce(notify, '-') from tasks";
    assert_eq!(texts(&open(&place, "tasks.sqlite"), row), ["t0-"]);
    let row = "select value || valid_from || created_at || pinned from profile_facts";
    assert_eq!(texts(&open(&place, "memory.sqlite"), row), ["Ada77771"]);
}

#[test]
fn values_that_a_row_must_have_and_its_source_lacks_are_no_reason_to_leave_it_out() {
    let place = with(
        "import os
os.makedirs('from')
a = connect('from/sessions.sqlite')
a.execute('create table sessions(id text primary key, working_dir text, status text, payload text, created_at integer, updated_at integer, turn_owner text)')
a.execute(\"insert into sessions values('s1',null,'running',null,1,null,'o'), ('s2',null,'failed',null,null,7,null), ('s3','/w',null,'{}',1,2,null)\")
b = connect('from/tasks.sqlite')
b.execute('create table tasks(id text primary key, session_id text, user_message text, status text, origin text, attempts integer, created_at integer)')
b.execute(\"insert into tasks values('t1','s1','m','pending',null,null,null), ('t2','s1',null,'pending','cli',2,5)\")
c = connect('from/memory.sqlite')
c.execute('create table memories(id integer primary key, content text, created_at integer)')
c.execute(\"insert into memories values(4,'n',null), (5,null,3)\")
c.execute('create table profile_facts(id integer primary key, key text, value text, pinned integer, valid_from integer, superseded_by integer, created_at integer, updated_at integer)')
c.execute(\"insert into profile_facts values(1,'city','Ulm',null,null,null,3,4)\")",
    );
    let done = report(&import(&place, &["--json"]));
    assert_eq!(all(&done), [(2, 1), (1, 1), (1, 1), (1, 0)], "{done}");
    let warnings = done["warnings"].to_string();
    for left_out in ["sessions s3: left out", "tasks t2: left out", "notes (none): left out"] {
        assert!(warnings.contains(left_out), "{warnings}");
    }
    let db = open(&place, "sessions.sqlite");
    let row = "select id || working_dir || status || created_at || updated_at from sessions";
    assert_eq!(texts(&db, row), ["s1cancelled11", "s2failed77"]);
    let error = "select coalesce(payload ->> 'lastError', payload) from sessions";
    assert!(texts(&db, error)[0].contains("interrupted") && texts(&db, error)[1] == "{}");
    let row = "select origin || attempts || max_attempts || (created_at > 1e12) from tasks";
    assert_eq!(texts(&open(&place, "tasks.sqlite"), row), ["import011"]);
    let db = open(&place, "memory.sqlite");
    let row = "select content || source || (created_at > 1e12) from memories";
    assert_eq!(texts(&db, row), ["nimport1"]);
    let row = "select value || pinned || valid_from || created_at || updated_at from profile_facts";
    assert_eq!(texts(&db, row), ["Ulm1334"]);
    assert_eq!(all(&report(&import(&place, &["--json"]))), [(0, 3), (0, 2), (0, 2), (0, 1)]);
}

#[test]
fn one_bad_part_does_not_stop_the_others() {
    // A newer schema, a file that is no database, a table of another shape.
    let newer = "a, b, c = make('from'); b.execute(\"update schema_meta set value='99'\")";
    let place = with(newer);
    let done = report(&import(&place, &["--json"]));
    assert_eq!(all(&done), [(4, 0), (0, 0), (2, 1), (2, 0)], "{done}");
    let error = done["error"].as_str().unwrap();
    assert!(
        error.starts_with("tasks: ") && error.contains("99") && error.contains("newer"),
        "{error}"
    );
    assert!(!place.path("s/tasks.sqlite").exists());

    let place = with(
        "[db.close() for db in make('from')]\nopen('from/sessions.sqlite','w').write('no database'*99)",
    );
    let done = report(&import(&place, &["--json"]));
    assert_eq!(all(&done), [(0, 0), (2, 0), (2, 1), (2, 0)], "{done}");
    assert!(done["error"].as_str().unwrap().starts_with("sessions: "), "{done}");

    let place = with(
        "a, b, c = make('from'); c.executescript('drop table memories; create table memories(id integer)')",
    );
    let done = report(&import(&place, &["--json"]));
    assert_eq!(all(&done), [(4, 0), (2, 0), (0, 0), (2, 0)], "{done}");
    assert!(done["error"].as_str().unwrap().starts_with("notes: "), "{done}");

    // A target that is newer than what is known is not written to.
    let place = with("make('from')\ntasks('s/tasks.sqlite', '99')");
    let done = report(&import(&place, &["--json"]));
    assert_eq!(all(&done), [(4, 0), (0, 0), (2, 1), (2, 0)], "{done}");
    let ran = import(&place, &[]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains("tasks") && ran.stdout.contains("sessions  0 imported, 4 rows skipped"),
        "{ran:?}"
    );
}

#[test]
fn a_row_that_the_target_cannot_hold_is_named_and_left_out() {
    let place = with(
        "a, b, c = make('from')
d = connect('s/sessions.sqlite')
d.execute(\"create table sessions(id text primary key, working_dir text not null, status text not null check(status != 'completed'), payload text not null, created_at integer not null, updated_at integer not null, turn_owner text)\")
a.execute(\"insert into sessions values(null,'/w','failed','{}',1,2,null)\")",
    );
    let done = report(&import(&place, &["--json"]));
    assert_eq!(counts(&done, "sessions"), (3, 2));
    let warnings = done["warnings"].to_string();
    assert!(
        warnings.contains("sessions s1: left out") && warnings.contains("it has no id"),
        "{warnings}"
    );
}

#[test]
fn missing_databases_are_warnings_and_missing_directories_are_errors() {
    let place = with("make('from')\nos.remove('from/tasks.sqlite')");
    let done = report(&import(&place, &["--json"]));
    assert_eq!(all(&done), [(4, 0), (0, 0), (2, 1), (2, 0)], "{done}");
    assert_eq!(done["ok"], true);
    assert!(done["warnings"].to_string().contains("tasks.sqlite"), "{done}");
    assert!(!place.path("s/tasks.sqlite").exists(), "nothing to import, nothing made");

    fs::rename(place.path("from"), place.path("gone")).unwrap();
    let done = report(&import(&place, &["--json"]));
    assert_eq!((done["ok"].clone(), all(&done)), (json!(false), [(0, 0); 4]));
    assert!(done["error"].as_str().unwrap().contains("from"), "{done}");
    let ran = import(&place, &[]);
    assert!(ran.code == 1 && ran.stderr.contains("from"), "{ran:?}");
    let itself = ifs(&place, &["-C", "s", "import", "atomic-desktop", "--source", "s", "--json"]);
    assert!(report(&itself)["error"].as_str().unwrap().contains("itself"), "{itself:?}");
    assert_eq!(ifs(&place, &["-C", "s", "import", "atomic-desktop"]).code, 2);
}

#[test]
fn a_dry_run_says_the_same_and_writes_nothing() {
    let place = with("make('from')\na = sessions('s/sessions.sqlite'); session(a, 's1')");
    let before = sums(&place.path("s"));
    let dry = report(&import(&place, &["--json", "--dry-run"]));
    assert_eq!(all(&dry), [(3, 1), (2, 0), (2, 1), (2, 0)], "{dry}");
    assert_eq!(sums(&place.path("s")), before);
    assert!(import(&place, &["--dry-run"]).stdout.contains("sessions  3 would be imported"));
    assert_eq!(report(&import(&place, &["--json"])), dry);
}

#[test]
fn a_running_writer_in_the_target_is_waited_for() {
    let place = with("make('from')");
    let mut writer = Step::start(
        &place,
        "db = sessions('s/sessions.sqlite'); db.execute('begin immediate'); step()
session(db, 's1', 'pending', '{\"mine\":1}'); db.execute('commit'); step()",
    );
    let mut command =
        place.command(&["-C", "s", "import", "atomic-desktop", "--source", "from", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let fds = format!("/proc/{}/fd", child.id());
    eventually("the import has the target open", || {
        assert!(child.try_wait().unwrap().is_none(), "it did not wait");
        let entries =
            fs::read_dir(&fds).map(|e| e.flatten().collect::<Vec<_>>()).unwrap_or_default();
        let target = place.path("s/sessions.sqlite");
        entries.iter().any(|e| fs::read_link(e.path()).is_ok_and(|p| p == target))
    });
    writer.go();
    writer.wait();
    let out = child.wait_with_output().unwrap();
    let done: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(all(&done), [(3, 1), (2, 0), (2, 1), (2, 0)], "{done}");
    let payload = "select payload from sessions where id = 's1'";
    assert_eq!(texts(&open(&place, "sessions.sqlite"), payload), ["{\"mine\":1}"]);
}

#[test]
fn a_hundred_thousand_sessions_with_a_live_writer_and_progress_on_a_terminal() {
    let place = with("");
    let _writer = Step::start(
        &place,
        "import os
os.makedirs('from'); db = sessions('from/sessions.sqlite'); db.execute('begin')
for n in range(100000): session(db, f'session-{n:06}', 'running' if n % 10 == 0 else 'completed', json.dumps({'n': n, 'text': 'x' * 200}))
db.execute('commit'); step()",
    );
    let before = sums(&place.path("from"));
    let mut terminal = Command::new("script");
    let ifs_line =
        format!("'{}' -C s import atomic-desktop --source from", env!("CARGO_BIN_EXE_instancefs"));
    terminal.current_dir(place.path("")).args(["-qec", &ifs_line, "typescript"]);
    let ran = watch(terminal);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("sessions: 0 of 100000 rows"), "progress on a terminal");
    assert!(
        ran.stdout.contains("sessions  100000 imported, 0 rows skipped"),
        "{}",
        &ran.stdout[ran.stdout.len().saturating_sub(400)..]
    );
    let second = import(&place, &["--json"]);
    assert_eq!(second.stderr, "", "no progress without a terminal");
    assert_eq!(counts(&report(&second), "sessions"), (0, 100_000));
    let cancelled = "select cast(count(*) as text) from sessions where status = 'cancelled' and json_extract(payload, '$.status') = 'cancelled'";
    assert_eq!(texts(&open(&place, "sessions.sqlite"), cancelled), ["10000"]);
    assert_eq!(sums(&place.path("from")), before);
}
