//! Containers as docs/KOAN.md describes them: namespaces of mounts and processes with the mount
//! bound to another place and the store at its own.

use mount_tests::{Instance, Python, eventually, programs_dir, samples};

/// A step-by-step process in namespaces of its own, in which the instance is at `$SCRATCH/app`
/// alone; the store is where it is.
fn inside(it: &Instance) -> Python {
    let app = it.scratch("app");
    std::fs::create_dir_all(&app).expect("mkdir");
    let script = it.scratch("enter.sh");
    let text = "set -e\nmount --make-rprivate /\nmount --bind \"$MOUNT\" \"$SCRATCH/app\"\numount -l \"$MOUNT\"\n\
                cd \"$SCRATCH/app\"\nexec python3 -u \"$STEPS\"\n";
    std::fs::write(&script, text).expect("write");
    let actor = it
        .outside()
        .env("MOUNT", it.mount_point())
        .env("STEPS", programs_dir().join("steps.py"))
        .env("PYTHONPATH", programs_dir());
    let args = ["-m", "-p", "-f", "--kill-child", "--mount-proc", "bash"].map(std::ffi::OsStr::new);
    let mut python = actor.python_of("unshare", &[&args[..], &[script.as_os_str()]].concat());
    python.run("import koan_store as koan");
    python
}

#[test]
fn a_program_in_a_container_reads_saves_and_locks_like_any_other() {
    if !mount_tests::is_root() {
        eprintln!("only root may make namespaces of mounts");
        return;
    }
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let mut bot = inside(&it);
    assert!(bot.int("os.getpid()") < 20, "a process namespace of its own");
    assert_eq!(bot.text("open('missions.md').read()"), samples::MISSIONS);
    // It has seen what it read: it may edit and remove, and others' changes stay.
    bot.run("text = open('missions.md').read()");
    it.append("missions.md", "- from the host");
    bot.run("open('missions.md', 'w').write(text.replace('- first task\\n', '').replace('- third task', '- 3rd task'))");
    let text = it.read("missions.md");
    assert!(!text.contains("- first task\n") && text.contains("- 3rd task"), "{text}");
    assert!(text.contains("- from the host\n"), "{text}");
    bot.run("open('missions.md', 'a').write('- appended inside\\n')");
    assert_eq!((it.count("appended inside"), it.count("first task")), (1, 0));
    // The database and its lock are the store's.
    bot.run("koan.insert('.', 'by the program')");
    assert_eq!(it.count("by the program"), 1);
    bot.run("lock = koan.locked('.'); lock.__enter__()");
    it.outside().bash("flock -n \"$STORE/missions.lock\" true").failed();
    it.append("missions.md", "- waits");
    assert_eq!(it.count("waits"), 0);
    // A saver under the lock is found by its descriptors, in whatever namespace it is.
    bot.run("open('missions.md', 'a').write('- under the lock\\n')");
    assert_eq!((it.count("under the lock"), it.count("waits")), (1, 0));
    bot.run("import subprocess\nsubprocess.run(['bash', '-c', 'echo \"- by a child\" >> missions.md'], check=True)");
    assert_eq!(it.count("by a child"), 1);
    // Locks on the document itself.
    bot.run("f = open('missions.md', 'r+'); fcntl.flock(f, fcntl.LOCK_EX); text = f.read()");
    let mut other = it.python();
    let try_once = "fcntl.flock(open('missions.md'), fcntl.LOCK_EX | fcntl.LOCK_NB)";
    assert_eq!(other.errno(try_once), libc::EAGAIN);
    bot.kill();
    eventually("its locks", || (other.outcome(try_once) == 0).then_some(()));
    eventually("the row that waited", || (it.count("waits") == 1).then_some(()));
    assert_eq!(it.kept(), Vec::<String>::new());
}

#[test]
fn a_mount_made_inside_a_container_works_and_is_seen_by_nobody_outside() {
    if !mount_tests::is_root() {
        eprintln!("only root may make namespaces of mounts");
        return;
    }
    let it = Instance::builder().file("missions.md", samples::MISSIONS).unmounted().start();
    let script = "set -e
mount --make-rprivate /
\"$BIN\" mount \"$STORE\" \"$MOUNT\"
cd \"$MOUNT\"
cat missions.md
echo '- inside' >> missions.md
sed -i 's/^- first task$/- 1st task/' missions.md
sqlite3 missions.db \"insert into missions(text, state, sequence) values ('by sql', 'pending', 99)\"
grep -q -- '- by sql' missions.md
flock missions.lock bash -c 'echo \"- under the lock\" >> missions.md; sqlite3 missions.db \"select count(*) from missions where text = '\"'\"'under the lock'\"'\"'\" | grep -qx 1'
cd /
\"$BIN\" unmount \"$MOUNT\"
";
    std::fs::write(it.scratch("inside.sh"), script).expect("write");
    let actor = it.outside().env("MOUNT", it.mount_point()).env("BIN", mount_tests::instancefs());
    let said = actor.bash("unshare -m -p -f --mount-proc bash inside.sh").ok();
    assert_eq!(said.matches("- first task\n").count(), 1, "{said}");
    assert!(!it.mounted());
    it.mount();
    let text = it.read("missions.md");
    for line in ["- inside\n", "- 1st task\n", "- by sql", "- under the lock\n"] {
        assert_eq!(text.matches(line).count(), 1, "{line:?} in {text}");
    }
}
