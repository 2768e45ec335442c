//! Locks of programs among each other on documents and on `missions.lock` (R1, R9).

use std::time::Duration;

use mount_tests::{Instance, Python, eventually, programs_dir, samples};

fn counted(kind: &str) {
    let text = "# Missions\n\n## Pending\n- counter 0.\n\n## Done\n";
    let it = Instance::with(&[("missions.md", text), ("config.json", "{\n  \"counter\": 0\n}\n")]);
    let program = programs_dir().join("koan_counter.py");
    let actor = it.actor().limit(Duration::from_secs(100));
    let args = [program.as_os_str(), ".".as_ref(), kind.as_ref(), "8".as_ref(), "25".as_ref()];
    actor.run("python3", &args).ok();
    assert_eq!(it.count("counter 200."), 1, "the row too");
    assert_eq!(it.kept(), Vec::<String>::new());
}

#[test]
fn eight_programs_count_under_flock_while_others_save_by_rename_and_sql() {
    counted("flock");
}

#[test]
fn eight_programs_count_under_posix_locks_while_others_save_by_rename_and_sql() {
    counted("posix");
}

#[test]
fn eight_programs_count_under_ofd_locks_while_others_save_by_rename_and_sql() {
    counted("ofd");
}

/// `missions.lock` in the hands of this process.
fn holds(python: &mut Python) {
    python.run("lock = open('missions.lock', 'a'); fcntl.flock(lock, fcntl.LOCK_EX)");
}

/// What another program sees of the rows at this moment.
const ROWS: &str = "import sqlite3
def texts():
    db = sqlite3.connect('missions.db', timeout=10)
    try:
        return sorted(t for (t,) in db.execute('SELECT text FROM missions'))
    finally:
        db.close()
";

#[test]
fn a_program_that_inherited_the_lock_and_its_children_commit_under_it() {
    let it = Instance::with(&[("missions.md", "# Missions\n\n## Pending\n- old\n")]);
    let mut holder = it.python();
    holder.run(ROWS);
    holds(&mut holder);
    holder.run("import subprocess");
    // A child, and a child of a child in a session of its own.
    holder.run("subprocess.run(['bash', '-c', 'echo \"- child\" >> missions.md'], check=True)");
    it.sh("echo 'echo \"- grandchild\" >> missions.md' > script");
    holder.run("subprocess.run(['bash', '-c', 'setsid -w bash script; true'], check=True)");
    assert_eq!(holder.text("' '.join(texts())"), "child grandchild old");
    // Whoever has the descriptor has the lock, also when the one who took it is gone.
    let script = "exec 9>>missions.lock; flock 9; setsid bash -c 'while [ ! -e go ]; do sleep 0.02; done; \
                  echo \"- heir\" >> missions.md; sqlite3 missions.db \"select text from missions\" > told; touch done; \
                  while [ ! -e end ]; do sleep 0.02; done' < /dev/null > /dev/null 2>&1 &";
    holder.run("fcntl.flock(lock, fcntl.LOCK_UN); lock.close()");
    it.sh(script);
    let mut other = it.python();
    other.run("f = open('missions.lock', 'a')");
    assert_eq!(other.errno("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"), libc::EAGAIN);
    it.append("missions.md", "- stranger");
    it.sh("touch go");
    eventually("the heir", || it.path("done").exists().then_some(()));
    let told = it.read("told");
    assert!(told.contains("heir\n"), "a row at once: {told}");
    assert!(!told.contains("stranger"), "not a row while somebody holds the lock: {told}");
    it.sh("touch end");
    eventually("its row", || (it.count("stranger") == 1).then_some(()));
}

#[test]
fn a_holder_that_is_killed_lets_the_rows_go_on() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let mut holder = it.python();
    holds(&mut holder);
    it.append("missions.md", "- waits");
    it.edit("missions.md", "- first task\n", "");
    assert_eq!((it.count("waits"), it.count("first task")), (0, 1));
    holder.kill();
    eventually("rows", || (it.count("waits") == 1 && it.count("first task") == 0).then_some(()));
}

#[test]
fn rows_get_their_turn_between_programs_that_pass_the_lock_on_without_a_break() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    // As many as it takes for the lock never to be free for longer than a moment.
    let passing = "
import fcntl, os, sys, time
while not os.path.exists('end'):
    with open('missions.lock', 'a') as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        time.sleep(0.02)
";
    let parties: Vec<_> = (0..4).map(|_| it.actor().spawn_python(passing, &[])).collect();
    let mut probe = it.python();
    probe.run("f = open('missions.lock', 'a')");
    eventually("a held lock", || {
        let held = probe.outcome("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)") != 0;
        probe.run("fcntl.flock(f, fcntl.LOCK_UN)");
        held.then_some(())
    });
    for n in 0..5 {
        it.append("missions.md", &format!("- line {n}"));
        eventually("its row", || (it.count(&format!("line {n}")) == 1).then_some(()));
    }
    it.sh("touch end");
    for party in parties {
        party.wait().ok();
    }
}
