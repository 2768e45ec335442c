//! R9: other writers of the database are equals.

use mount_tests::{Instance, eventually, samples};

#[test]
fn a_row_inserted_with_sqlite3_is_in_the_next_read() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.sh("sqlite3 -cmd '.timeout 10000' missions.db \"insert into missions(text,state,sequence) values('from sql','pending',(select max(sequence)+1 from missions))\"");
    assert!(it.read("missions.md").contains("- from sql\n"));
    it.sh("sqlite3 -cmd '.timeout 10000' missions.db \"update missions set state='done', completed_at='2026-07-02T08:00' where text='from sql'\"");
    let text = it.read("missions.md");
    let (at, done) = (text.find("- from sql"), text.find("## Done"));
    assert!(at > done, "under Done now:\n{text}");
    it.sh(
        "sqlite3 -cmd '.timeout 10000' missions.db \"delete from missions where text='from sql'\"",
    );
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
}

#[test]
fn a_thousand_changes_in_sql_are_each_in_the_very_next_read() {
    let it = Instance::with(&[("missions.md", "## Pending\n- a\n\n## Done\n")]);
    let told = it.actor().limit(std::time::Duration::from_secs(100)).python(
        r#"
import sqlite3, os
db = sqlite3.connect('missions.db', isolation_level=None, timeout=10)
missed = 0
for i in range(500):
    db.execute("insert into missions(text,state,sequence) values(?, 'pending', ?)", (f'n{i}', i + 10))
    if f'- n{i}\n' not in open('missions.md').read(): missed += 1
    db.execute("update missions set state='done', completed_at='2026-07-02T08:00' where text=?", (f'n{i}',))
    text = open('missions.md').read()
    if f'- n{i}' not in text.split('## Done')[1] or f'- n{i}' in text.split('## Done')[0]: missed += 1
    if i % 10 == 9: db.execute("delete from missions where text <> 'a'")
print(missed)
"#,
        &[],
    );
    assert_eq!(told.ok().trim(), "0");
}

#[test]
fn a_save_merges_with_what_sql_changed_since_the_look() {
    let it = Instance::with(&[("missions.md", "## Pending\n- one\n- two\n- three\n\n## Done\n")]);
    let mut p = it.python();
    p.run("text = open('missions.md').read()");
    let db = it.database();
    db.execute("insert into missions(text,state,sequence) values('sql','pending',99)", [])
        .expect("sql");
    db.execute("update missions set state='done' where text='three'", []).expect("sql");
    p.run("open('missions.md','w').write(text.replace('- one','- ONE').replace('- two\\n',''))");
    assert_eq!(it.texts("pending"), ["ONE", "sql"]);
    assert_eq!(it.texts("done"), ["three"]);
}

#[test]
fn the_write_lock_is_held_for_the_commit_only() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let mut p = it.python();
    p.run("f = open('missions.md', 'r+')\ntext = f.read()\nf.seek(0)\nf.write(text)\nf.flush()");
    let db = it.database();
    db.busy_timeout(std::time::Duration::ZERO).expect("no wait");
    db.execute("insert into missions(text,state,sequence) values('no wait','pending',99)", [])
        .expect("an open handle holds no lock");
    p.run("f.close()");
    assert_eq!(it.count("no wait"), 1);
}

#[test]
fn text_of_rows_may_hold_anything() {
    let it = Instance::with(&[("missions.md", "## Pending\n- a\n\n## Done\n")]);
    let db = it.database();
    for text in [
        "x\n## Done\n- y",
        "- dash",
        "## Pending",
        "",
        "  ",
        "tab\there",
        "```\nopen",
        "### block",
        "⏳(2026-07-01T09:00)",
        "a\r\nb",
    ] {
        db.execute("insert into missions(text,state,sequence) values(?1,'pending',50)", [text])
            .expect("insert");
    }
    let n = it.rows().len();
    let text = it.read("missions.md");
    assert!(text.contains("- a\n"), "{text}");
    it.sh("cat missions.md > $SCRATCH/x && cat $SCRATCH/x > missions.md");
    assert_eq!(it.rows().len(), n, "saving what was read plans nothing");
    it.append("missions.md", "- after all that");
    assert_eq!(it.rows().len(), n + 1);
    it.edit("missions.md", "- a\n", "- a, edited\n");
    assert_eq!(it.rows().len(), n + 1);
    assert_eq!(it.count("a, edited"), 1);
}

#[test]
fn a_replace_all_under_the_lock_file_keeps_every_save() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let program = r#"
import fcntl, os, sqlite3, sys, time
store = os.environ['STORE']
f = open(os.path.join(store, 'missions.lock'), 'w')
fcntl.flock(f, fcntl.LOCK_EX)
db = sqlite3.connect(os.path.join(store, 'missions.db'), isolation_level=None, timeout=10)
rows = db.execute('select text, state, project, sequence, complexity, queued_at, started_at, completed_at from missions').fetchall()
print('locked', flush=True)
time.sleep(1.5)
db.execute('begin immediate')
db.execute('delete from missions')
db.executemany('insert into missions(text,state,project,sequence,complexity,queued_at,started_at,completed_at) values(?,?,?,?,?,?,?,?)', rows)
db.execute('commit')
fcntl.flock(f, fcntl.LOCK_UN)
"#;
    let mut other = it.actor().spawn_python(program, &[]);
    other.until("locked");
    it.append("missions.md", "- saved while locked");
    assert!(
        it.read("missions.md").contains("- saved while locked\n"),
        "in every read through the mount at once"
    );
    other.wait().ok();
    eventually("its row", || (it.count("saved while locked") == 1).then_some(()));
    assert!(it.read("missions.md").contains("- saved while locked\n"));
    assert_eq!(it.rows().len(), 7);
}

#[test]
fn a_save_by_the_holder_of_the_lock_file_commits_under_it() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.sh("exec 9> $STORE/missions.lock; flock 9; echo '- by the holder' >> missions.md; \
           sqlite3 -cmd '.timeout 10000' missions.db \"select count(*) from missions where text='by the holder'\" | grep -qx 1");
}

#[test]
fn the_lock_file_in_the_mount_is_the_one_in_the_store() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.append("missions.md", "- makes the lock file");
    let mut holder =
        it.actor().spawn_bash("exec 9>> $STORE/missions.lock; flock 9; echo held; sleep 30");
    holder.until("held");
    it.actor().bash("flock -n missions.lock true").failed();
}

#[test]
fn rows_that_vanish_and_come_back_keep_their_comments_around() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let db = it.database();
    let all: Vec<(String, String, i64)> = db
        .prepare("select text, state, sequence from missions")
        .and_then(|mut s| s.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?.collect())
        .expect("rows");
    db.execute("delete from missions", []).expect("delete");
    it.read("missions.md");
    for (text, state, sequence) in &all {
        db.execute(
            "insert into missions(text,state,sequence) values(?1,?2,?3)",
            (text, state, sequence),
        )
        .expect("insert");
    }
    let after = it.read("missions.md");
    for line in [
        "# a comment between two tasks",
        "Read docs/how-we-work.md first.",
        "Nothing here is a mission.",
    ] {
        assert!(after.contains(line), "{line} in {after}");
    }
    assert_eq!(it.rows().len(), 6);
}

#[test]
fn sqlite_clients_in_the_mount_get_real_locks() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    assert_eq!(
        it.sh("sqlite3 -cmd '.timeout 10000' missions.db 'pragma journal_mode'").trim(),
        "wal"
    );
    let mut holder = it.python();
    holder.run("import sqlite3\ndb = sqlite3.connect('missions.db', isolation_level=None)\ndb.execute('begin immediate')");
    let busy = it.actor().bash("sqlite3 $STORE/missions.db 'begin immediate'").failed();
    assert!(busy.stderr.contains("locked"), "{}", busy.stderr);
    holder.run("db.execute('rollback')");
    assert_eq!(
        it.sh("sqlite3 -cmd '.timeout 10000' missions.db 'pragma integrity_check'").trim(),
        "ok"
    );
}

#[test]
fn kinds_of_rows_beside_missions_are_shown() {
    let it = Instance::fresh();
    let db = it.database();
    db.execute("insert into ideas(text, project, sequence) values ('- an idea', 'default', 1)", [])
        .expect("idea");
    db.execute(
        "insert into ci_queue(project, pr_url, branch, full_repo, queued, attempt, max_attempts, sequence) \
         values ('k', 'https://example.org/o/r/pull/7', 'b', 'o/r', '2026-07-01T09:00', 1, 5, 1)",
        [],
    )
    .expect("ci");
    let text = it.read("missions.md");
    assert!(text.contains("## Ideas\n- an idea\n"), "{text}");
    assert!(
        text.contains("## CI\n- [project:k] https://example.org/o/r/pull/7 branch:b repo:o/r queued:2026-07-01T09:00 (attempt 1/5)\n"),
        "{text}"
    );
}
