//! The commands: init, mount, unmount, status, adopt, eject, export.

use std::path::Path;

use mount_tests::{Instance, is_mounted, samples};

fn tree(dir: &Path) -> Vec<(String, Vec<u8>)> {
    fn walk(base: &Path, dir: &Path, into: &mut Vec<(String, Vec<u8>)>) {
        for entry in dir.read_dir().expect("read_dir").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(base).expect("prefix").display().to_string();
            if entry.file_type().expect("type").is_dir() {
                into.push((format!("{name}/"), Vec::new()));
                walk(base, &path, into);
            } else {
                into.push((name, std::fs::read(&path).unwrap_or_default()));
            }
        }
    }
    let mut all = Vec::new();
    walk(dir, dir, &mut all);
    all.sort();
    all
}

/// An error is one line; hints may follow it.
fn one_clear_line(text: &str) {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("hint:"));
    assert_eq!(lines.count(), 1, "one clear line: {text}");
}

#[test]
fn init_reports_what_it_imported_and_what_it_kept_as_layout() {
    let it = Instance::builder().file("missions.md", samples::MISSIONS).unmounted().start();
    let store = it.scratch("other.store");
    let ran = it.outside().instancefs(&[
        "init".as_ref(),
        store.as_os_str(),
        "--from".as_ref(),
        it.scratch("../from").as_os_str(),
    ]);
    let said = ran.ok();
    assert!(said.contains('6'), "six missions: {said}");
    for line in
        ["# a comment between two tasks", "Read docs/how-we-work.md first.", "* not an item"]
    {
        assert!(said.contains(line), "{line:?} is reported as kept: {said}");
    }
}

#[test]
fn init_does_not_overwrite_a_store() {
    let it = Instance::builder().file("missions.md", samples::MISSIONS).unmounted().start();
    let (store, other) = (it.store(), it.scratch("other"));
    std::fs::create_dir(&other).expect("mkdir");
    std::fs::write(other.join("missions.md"), "## Pending\n- from elsewhere\n").expect("write");
    // Whether it fails or says that there is nothing to do: nothing is changed.
    it.outside().instancefs(&["init".as_ref(), store.as_os_str()]);
    it.outside().instancefs(&[
        "init".as_ref(),
        store.as_os_str(),
        "--from".as_ref(),
        other.as_os_str(),
    ]);
    it.mount();
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
}

#[test]
fn an_existing_database_is_taken_over_as_it_is() {
    let it = Instance::builder().unmounted().start();
    let dir = it.scratch("old");
    std::fs::create_dir(&dir).expect("mkdir");
    let db = rusqlite::Connection::open(dir.join("missions.db")).expect("db");
    db.execute_batch(
        "create table missions(id INTEGER PRIMARY KEY, text TEXT NOT NULL, state TEXT NOT NULL CHECK (state in ('pending','in_progress','done','failed')), \
         project TEXT NOT NULL DEFAULT 'default', sequence INTEGER NOT NULL DEFAULT 0, complexity TEXT, queued_at TEXT, started_at TEXT, completed_at TEXT, recovery_count INTEGER NOT NULL DEFAULT 0);
         create table meta(key TEXT PRIMARY KEY, value TEXT);
         insert into meta values('s8_synced','2026-07-01T09:00');
         insert into missions(id,text,state,sequence) values(7,'old pending','pending',-3),(9,'old done','done',2);",
    )
    .expect("schema");
    drop(db);
    let store = it.scratch("old.store");
    it.outside()
        .instancefs(&["init".as_ref(), store.as_os_str(), "--from".as_ref(), dir.as_os_str()])
        .ok();
    let db = rusqlite::Connection::open(store.join("missions.db")).expect("db");
    let ids: Vec<(i64, String)> = db
        .prepare("select id, text from missions order by id")
        .and_then(|mut s| s.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .expect("rows");
    assert_eq!(ids, [(7, "old pending".to_owned()), (9, "old done".to_owned())]);
}

#[test]
fn mount_answers_when_it_returns() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    for _ in 0..3 {
        it.unmount();
        it.mount();
        assert_eq!(
            std::fs::read_to_string(it.path("missions.md")).expect("read"),
            samples::MISSIONS
        );
    }
}

#[test]
fn a_second_daemon_is_told_the_pid_of_the_first() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let other = it.scratch("second");
    std::fs::create_dir(&other).expect("mkdir");
    let store = it.store();
    let ran =
        it.outside().instancefs(&["mount".as_ref(), store.as_os_str(), other.as_os_str()]).failed();
    assert!(ran.stderr.contains(&it.daemon().to_string()), "{}", ran.stderr);
    one_clear_line(&ran.stderr);
    assert!(!is_mounted(&other));
}

#[test]
fn a_failed_mount_leaves_nothing() {
    let it = Instance::builder().unmounted().start();
    let (nowhere, mount) = (it.scratch("nowhere"), it.mount_point());
    let ran = it
        .outside()
        .instancefs(&["mount".as_ref(), nowhere.as_os_str(), mount.as_os_str()])
        .exits(1);
    one_clear_line(&ran.stderr);
    assert!(!is_mounted(&mount));
    let store = it.store();
    let missing = it.scratch("no/such/place");
    it.outside().instancefs(&["mount".as_ref(), store.as_os_str(), missing.as_os_str()]).exits(1);
    it.mount();
}

#[test]
fn usage_errors_exit_2() {
    let it = Instance::builder().unmounted().start();
    it.outside().instancefs(&["mount"]).exits(2);
    it.outside().instancefs(&["no-such-command"]).exits(2);
    it.outside().instancefs(&["--help"]).ok();
    it.outside().instancefs(&["mount", "--help"]).ok();
    it.outside().instancefs(&["--version"]).ok();
}

#[test]
fn unmount_of_what_is_not_mounted_fails() {
    let it = Instance::builder().unmounted().start();
    let mount = it.mount_point();
    it.outside().instancefs(&["unmount".as_ref(), mount.as_os_str()]).exits(1);
}

#[test]
fn a_read_only_mount_refuses_every_change() {
    let it = Instance::builder()
        .file("missions.md", samples::MISSIONS)
        .file("plain.txt", "plain\n")
        .mount_arg("--read-only")
        .start();
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
    assert_eq!(it.read("plain.txt"), "plain\n");
    let mut p = it.python();
    for code in [
        "open('missions.md', 'a')",
        "open('missions.md', 'w')",
        "open('plain.txt', 'w')",
        "open('new', 'w')",
        "os.unlink('missions.md')",
        "os.rename('plain.txt', 'x')",
        "os.mkdir('d')",
        "os.chmod('plain.txt', 0o600)",
        "os.utime('missions.md')",
    ] {
        assert_eq!(p.errno(code), libc::EROFS, "{code}");
    }
    it.database()
        .execute("insert into missions(text,state,sequence) values('by sql','pending',99)", [])
        .expect("sql");
    assert!(it.read("missions.md").contains("- by sql\n"), "outside changes are still seen");
}

#[test]
fn commands_find_the_instance_from_within() {
    let it = Instance::builder().file("memory/a/b.md", "x\n").start();
    let said = it.actor().within(&it.path("memory/a")).instancefs(&["status", "--json"]).ok();
    assert!(said.contains(&it.daemon().to_string()), "{said}");
    let said =
        it.outside().env("INSTANCEFS_DIR", it.store()).instancefs(&["status", "--json"]).ok();
    assert!(said.contains(&it.daemon().to_string()), "{said}");
    it.outside().instancefs(&["status"]).exits(1);
    it.actor().instancefs(&["status"]).ok();
}

#[test]
fn status_works_without_a_daemon() {
    let it = Instance::builder().file("missions.md", samples::MISSIONS).unmounted().start();
    it.status();
}

fn old_instance(it: &Instance) -> std::path::PathBuf {
    let dir = it.scratch("instance");
    for (name, text) in [
        ("missions.md", samples::MISSIONS),
        ("config.yaml", samples::CONFIG_YAML),
        ("outbox.md", "hello\n"),
        ("memory/notes.md", "notes\n"),
        ("journal/2026-07-01.md", "day\n"),
        (".hidden-tracker", "{}\n"),
        ("hooks/run.sh", "#!/bin/sh\n"),
    ] {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        std::fs::write(path, text).expect("write");
    }
    std::os::unix::fs::symlink("notes.md", dir.join("memory/link.md")).expect("symlink");
    std::fs::set_permissions(
        dir.join("hooks/run.sh"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("chmod");
    dir
}

struct Unmount<'a>(&'a Instance, std::path::PathBuf);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        if is_mounted(&self.1) {
            let _ = mount_tests::abort_connection(&self.1);
            mount_tests::detach(&self.1);
        }
        let _ = self.0;
    }
}

#[test]
fn adopt_work_eject_is_the_directory_plus_the_work() {
    let it = Instance::builder().unmounted().start();
    let dir = old_instance(&it);
    let before = tree(&dir);
    let guard = Unmount(&it, dir.clone());
    let outside = it.outside();
    outside.instancefs(&["adopt".as_ref(), dir.as_os_str()]).ok();
    let store = it.scratch("instance.store");
    assert!(store.is_dir(), "the store is beside it");
    if !is_mounted(&dir) {
        outside.instancefs(&["mount".as_ref(), store.as_os_str(), dir.as_os_str()]).ok();
    }
    let actor = it.actor().within(&dir);
    assert_eq!(actor.bash("cat missions.md").ok(), samples::MISSIONS);
    actor
        .bash("echo '- work' >> missions.md; echo more >> outbox.md; echo new > memory/new.md")
        .ok();
    outside.instancefs(&["eject".as_ref(), dir.as_os_str()]).ok();
    assert!(!is_mounted(&dir));
    drop(guard);
    let after: std::collections::BTreeMap<_, _> = tree(&dir).into_iter().collect();
    for (name, bytes) in before {
        let now =
            after.get(&name).unwrap_or_else(|| panic!("{name} is missing in {:?}", after.keys()));
        match name.as_str() {
            "missions.md" => {
                let text = String::from_utf8_lossy(now);
                assert!(text.contains("- work\n"));
                assert_eq!(text.replace("- work\n", ""), samples::MISSIONS);
            }
            "outbox.md" => assert_eq!(now, b"hello\nmore\n"),
            _ => assert_eq!(*now, bytes, "{name} byte for byte"),
        }
    }
    assert_eq!(after["memory/new.md"], b"new\n");
    let link = std::fs::read_link(dir.join("memory/link.md")).expect("link");
    assert_eq!(link, Path::new("notes.md"));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &dir.join("hooks/run.sh").metadata().expect("meta").permissions(),
    );
    assert_eq!(mode & 0o777, 0o755);
    let count: i64 = rusqlite::Connection::open(dir.join("missions.db"))
        .and_then(|db| db.query_row("select count(*) from missions", [], |r| r.get(0)))
        .expect("the database comes along");
    assert_eq!(count, 7);
}

#[test]
fn adopt_can_be_repeated() {
    let it = Instance::builder().unmounted().start();
    let dir = old_instance(&it);
    let _guard = Unmount(&it, dir.clone());
    let outside = it.outside();
    outside.instancefs(&["adopt".as_ref(), dir.as_os_str()]).ok();
    outside.instancefs(&["adopt".as_ref(), dir.as_os_str()]);
    outside.instancefs(&["eject".as_ref(), dir.as_os_str()]).ok();
    assert_eq!(std::fs::read_to_string(dir.join("missions.md")).expect("read"), samples::MISSIONS);
    outside.instancefs(&["adopt".as_ref(), dir.as_os_str()]).ok();
    outside.instancefs(&["eject".as_ref(), dir.as_os_str()]).ok();
    assert_eq!(std::fs::read_to_string(dir.join("missions.md")).expect("read"), samples::MISSIONS);
    assert_eq!(std::fs::read_to_string(dir.join("memory/notes.md")).expect("read"), "notes\n");
}

#[test]
fn export_writes_a_complete_directory_with_and_without_a_mount() {
    let it = Instance::builder()
        .file("missions.md", samples::MISSIONS)
        .file("config.yaml", samples::CONFIG_YAML)
        .file("memory/notes.md", "notes\n")
        .start();
    it.append("missions.md", "- exported");
    let want = it.read("missions.md");
    for mounted in [true, false] {
        if !mounted {
            it.unmount();
        }
        let (store, to) = (it.store(), it.scratch(&format!("export-{mounted}")));
        it.outside().instancefs(&["export".as_ref(), store.as_os_str(), to.as_os_str()]).ok();
        let text = |name: &str| {
            std::fs::read_to_string(to.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
        };
        assert_eq!(text("missions.md"), want);
        assert_eq!(text("config.yaml"), samples::CONFIG_YAML);
        assert_eq!(text("memory/notes.md"), "notes\n");
    }
}
