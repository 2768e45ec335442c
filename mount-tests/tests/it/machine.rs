//! Faults of the machine: whoever saves hears of it, the log has a sentence, nothing that was
//! acknowledged is lost, and the mount works when the cause is gone.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use mount_tests::machine::{Cover, Stopped, Usage, limit};
use mount_tests::{Instance, abort_connection, is_root, samples};

fn instance() -> Instance {
    Instance::with(&[("missions.md", samples::MISSIONS), ("config.json", "{\"a\": 1}\n")])
}

/// What the save of a new line ends with: the errno of `close`, 0 when it was saved.
fn append(it: &Instance, line: &str) -> i32 {
    let mut p = it.python();
    p.run("f = os.open('missions.md', os.O_WRONLY | os.O_APPEND)");
    p.run(&format!("os.write(f, b'- {line}\\n')"));
    p.outcome("os.close(f)")
}

/// One line of the log that has all of these.
#[track_caller]
fn logged(it: &Instance, parts: &[&str]) {
    let log = it.log();
    let found = log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(found, "no line with {parts:?} in the log:\n{log}");
}

/// What `doctor` says is bad, with what to do about it.
fn doctor(it: &Instance, what: &str) -> String {
    let ran = it.outside().instancefs(&["doctor".as_ref(), it.store().as_os_str()]);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let at = lines.iter().position(|l| l.starts_with("BAD") && l.contains(what));
    let at = at.unwrap_or_else(|| panic!("nothing bad about {what}:\n{}", ran.stdout));
    assert_eq!(ran.code(), Some(1));
    assert!(lines.get(at + 1).is_some_and(|l| l.contains("->")), "{}", ran.stdout);
    lines[at..=at + 1].join("\n")
}

#[test]
fn a_database_that_is_moved_away_takes_no_saves_until_it_is_back() {
    let it = instance();
    for (name, replaced) in
        [("missions.db", false), ("missions.db", true), ("missions.db-wal", false)]
    {
        let line = format!("before {name} {replaced}");
        assert_eq!(append(&it, &line), 0);
        let (path, away) = (it.store().join(name), it.scratch("away"));
        std::fs::rename(&path, &away).expect("rename");
        if replaced {
            std::fs::copy(&away, &path).expect("copy");
        }
        let lost = format!("lost {name} {replaced}");
        assert_eq!(append(&it, &lost), libc::EIO, "{line}");
        let read = it.read("missions.md");
        assert!(read.contains(&line) && !read.contains(&lost), "{read}");
        assert!(it.refused("missions.md").contains(&lost));
        logged(&it, &["missions.md", "python3 (pid", name, "while in use"]);
        std::fs::rename(&away, &path).expect("rename");
        assert_eq!(append(&it, "after"), 0, "{line}");
        it.sh("rm missions.md.refused");
    }
    it.remount();
    assert_eq!((it.count("after"), it.rows().len()), (3, 6 + 6));
}

#[test]
fn a_database_that_is_gone_leaves_the_documents_complete() {
    let it = instance();
    assert_eq!(append(&it, "saved"), 0);
    std::fs::remove_file(it.store().join("missions.db")).expect("rm");
    assert_eq!(append(&it, "not saved"), libc::EIO);
    it.unmount();
    let text = std::fs::read_to_string(it.store().join("missions.md")).expect("text");
    assert!(text.contains("- saved\n") && !text.contains("not saved"), "{text}");
    let said = it.try_mount().failed().stderr;
    assert!(said.contains("database is gone"), "{said}");
    assert!(!it.mounted());
    assert!(doctor(&it, "database").contains("instancefs init"));
    // What it says helps.
    it.outside().instancefs(&["init".as_ref(), it.store().as_os_str()]).ok();
    it.mount();
    assert_eq!(it.read("missions.md"), text);
    assert_eq!((it.count("saved"), append(&it, "again")), (1, 0));
    assert!(it.kept().iter().any(|name| name.starts_with("missions.md.refused")));
}

/// Overwrites a part of the database.
fn damage(it: &Instance, from: u64, to: u64) {
    let path = it.store().join("missions.db");
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("open");
    let len = file.metadata().expect("metadata").len();
    for at in (from..to.min(len)).step_by(512) {
        file.write_all_at(&[0xa5; 512], at).expect("write");
    }
}

#[test]
fn a_database_that_is_damaged_while_in_use_loses_nothing_that_was_acknowledged() {
    for how in ["pages", "cut"] {
        let it = instance();
        assert_eq!(append(&it, "saved"), 0);
        it.remount();
        match how {
            "pages" => damage(&it, 4096, u64::MAX),
            _ => std::fs::File::create(it.store().join("missions.db")).map(drop).expect("cut"),
        }
        // SQLite finds out sooner or later; until then saves are good.
        let mut good = Vec::new();
        mount_tests::eventually("a refusal", || {
            let line = format!("while damaged {}", good.len());
            match append(&it, &line) {
                0 => good.push(line),
                errno => assert_eq!(errno, libc::EIO),
            }
            it.log().contains("damaged").then_some(())
        });
        logged(&it, &["missions.md", "python3 (pid"]);
        let shown = it.read("missions.md");
        assert!(shown.contains("- saved\n") && good.iter().all(|line| shown.contains(line)));
        it.unmount();
        let text = std::fs::read_to_string(it.store().join("missions.md")).expect("text");
        assert_eq!(text, shown, "{how}");
        if it.try_mount().code() != Some(0) {
            assert!(!doctor(&it, "database").is_empty());
            for name in ["missions.db", "missions.db-wal", "missions.db-shm"] {
                let _ = std::fs::rename(it.store().join(name), it.scratch(name));
            }
            it.outside().instancefs(&["init".as_ref(), it.store().as_os_str()]).ok();
            it.mount();
        }
        assert_eq!(it.read("missions.md"), shown, "{how}");
        assert_eq!(append(&it, "again"), 0);
    }
}

#[test]
fn a_wal_that_is_removed_loses_nothing_even_if_the_daemon_is_killed() {
    let it = instance();
    assert_eq!(append(&it, "saved"), 0);
    std::fs::remove_file(it.store().join("missions.db-wal")).expect("rm");
    assert_eq!(append(&it, "not saved"), libc::EIO);
    mount_tests::eventually("a word about it", || it.log().contains("not synced").then_some(()));
    it.kill_daemon();
    it.mount();
    assert_eq!((it.count("saved"), it.count("not saved")), (1, 0));
    assert_eq!(append(&it, "again"), 0);
}

#[test]
fn a_database_that_cannot_be_used_is_said_at_the_start() {
    let it = instance();
    it.unmount();
    let path = it.store().join("missions.db");
    let good = std::fs::read(&path).expect("database");
    let mut header = good.clone();
    header[..100].fill(0x5a);
    let mut pages = good.clone();
    pages[4096..].fill(0xa5);
    for (what, bytes) in
        [("header", &header[..]), ("pages", &pages), ("empty", b""), ("cut", &good[..5000])]
    {
        std::fs::write(&path, bytes).expect("write");
        let ran = it.try_mount();
        let lines = ran.stderr.lines().count();
        assert!(ran.code() == Some(1) && (1..=2).contains(&lines), "{what}: {ran:?}");
        assert!(ran.stderr.contains("missions.db") || ran.stderr.contains("database"), "{ran:?}");
        assert!(!it.mounted(), "{what}");
        assert!(doctor(&it, "database").contains("missions.db"), "{what}");
    }
    std::fs::write(&path, &good).expect("write");
    it.mount();
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
}

#[test]
fn a_stopped_program_that_has_locked_the_database_holds_up_nobody_who_reads() {
    let it = instance();
    let mut holder = it.python();
    holder.run("import sqlite3\nc = sqlite3.connect('missions.db', isolation_level=None)");
    holder.run("c.execute('begin exclusive')");
    let stopped = Stopped::now(holder.pid());
    let mut saver = it.python();
    saver.run("f = os.open('config.json', os.O_WRONLY | os.O_TRUNC); os.write(f, b'{\"b\": 2}')");
    saver.begin("os.close(f)");
    // Meanwhile and afterwards others read, list and use plain files.
    for _ in 0..20 {
        assert_eq!(it.read("missions.md"), samples::MISSIONS);
        it.sh("ls > /dev/null; echo x > plain; cat config.json > /dev/null");
    }
    assert_eq!(saver.finish().map_err(|e| e.errno), Err(libc::EIO));
    assert!(it.refused("config.json").contains("{\"b\": 2}"));
    logged(&it, &["config.json", "python3 (pid", "locked by another program", "revision"]);
    drop(stopped);
    holder.run("c.execute('rollback')");
    assert_eq!(append(&it, "after"), 0);
}

/// A small file system for a store, on a loop device.
fn on_a_disk(it: &Instance) -> Option<Cover> {
    if !is_root() {
        return None;
    }
    let image = it.scratch("image");
    std::fs::File::create(&image).and_then(|f| f.set_len(24 << 20)).expect("image");
    let made = std::process::Command::new("mkfs.ext4").arg("-qF").arg(&image).status().ok()?;
    assert!(made.success());
    it.outside().bash("cp -a \"$STORE\" copy").ok();
    let options = ["-o", "loop,errors=remount-ro", image.to_str().expect("path")];
    let cover = Cover::over(&it.store(), &options)?;
    it.outside().bash("cp -a copy/. \"$STORE\"/; chmod 700 \"$STORE\"").ok();
    Some(cover)
}

#[test]
fn a_disk_that_turns_read_only_refuses_saves_and_loses_nothing() {
    let it = Instance::builder().file("missions.md", samples::MISSIONS).unmounted().start();
    let Some(cover) = on_a_disk(&it) else { return eprintln!("skipped: no loop device here") };
    it.mount();
    assert_eq!(append(&it, "before"), 0);
    it.outside().bash("sync").ok();
    let device = std::fs::metadata(it.store()).expect("store").dev();
    let fault = format!("/sys/fs/ext4/loop{}/trigger_fs_error", libc::minor(device));
    if let Err(e) = std::fs::write(&fault, "1") {
        it.unmount();
        return eprintln!("skipped: this kernel triggers no faults: {fault}: {e}");
    }
    let before = it.read("missions.md");
    assert_eq!(append(&it, "lost"), libc::EIO);
    let plain = it.python().errno("open('plain', 'w')");
    assert_eq!(plain, libc::EROFS);
    assert_eq!(it.read("missions.md"), before);
    assert!(doctor(&it, "space").contains("Read-only file system"));
    it.sh("ls > /dev/null");
    // It ends when asked, and what was saved is there when the disk is good again.
    it.unmount();
    drop(cover);
    let image = it.scratch("image");
    it.outside().bash(&format!("e2fsck -fy {} > /dev/null; true", image.display())).ok();
    let options = ["-o", "loop", image.to_str().expect("path")];
    let cover = Cover::over(&it.store(), &options).expect("mount again");
    it.mount();
    assert_eq!((it.count("before"), it.count("lost")), (1, 0));
    assert_eq!(append(&it, "after"), 0);
    it.unmount();
    drop(cover);
}

#[test]
fn a_read_only_store_is_said_at_the_start() {
    if !is_root() {
        return;
    }
    let it = instance();
    it.unmount();
    let store = it.store();
    let path = store.to_str().expect("path");
    let cover = Cover::over(&store, &["--bind", path]).expect("bind");
    it.outside().bash("mount -o remount,ro,bind \"$STORE\"").ok();
    let ran = it.try_mount().failed();
    assert!(ran.stderr.contains("Read-only file system"), "{}", ran.stderr);
    assert!(!it.mounted());
    drop(cover);
    it.mount();
    assert_eq!(append(&it, "after"), 0);
}

#[test]
fn a_daemon_with_few_descriptors_keeps_some_for_documents_and_commands() {
    let it = instance();
    it.unmount();
    let mount = format!(
        "ulimit -n 300; {} mount \"$STORE\" {}",
        mount_tests::instancefs().display(),
        it.mount_point().display()
    );
    it.outside().bash(&mount).ok();
    let mut greedy: Vec<_> = (0..4).map(|_| it.python()).collect();
    let mut errnos = Vec::new();
    for (n, p) in greedy.iter_mut().enumerate() {
        p.run("fds = []");
        errnos.push(p.outcome(&format!(
            "for i in range(200): fds.append(os.open('many-{n}-%d' % i, os.O_RDWR | os.O_CREAT))"
        )));
    }
    assert_eq!(errnos.last(), Some(&libc::ENFILE), "{errnos:?}");
    assert_eq!(append(&it, "while full"), 0);
    assert_eq!(it.sh("jq -c . config.json").trim(), "{\"a\":1}");
    assert!(Usage::of(it.daemon()).descriptors < 300);
    drop(greedy);
    it.goes_on("enough again");
    it.unmount();
}

#[test]
fn a_save_of_a_gigabyte_is_refused_and_the_daemon_lives_within_its_memory() {
    let it = instance();
    let daemon = it.daemon();
    // Ten times what a large document needs, far less than what is written.
    limit(daemon, libc::RLIMIT_AS, 2 << 30, 2 << 30);
    let mut p = it.python();
    p.run("block = b'x' * (1 << 20)");
    for name in ["config.json", "missions.md", "outbox.md"] {
        p.run(&format!("f = os.open('{name}', os.O_WRONLY | os.O_TRUNC | os.O_CREAT)"));
        // Inside of a string, where it may still become something.
        p.run("os.write(f, b'{\"a\": \"')");
        let errno = p.errno("for i in range(1024): os.write(f, block)");
        assert_eq!(errno, libc::EFBIG, "{name}");
        assert_eq!(p.errno("os.close(f)"), libc::EFBIG, "{name}");
        p.run(&format!("os.unlink('{name}.refused')"));
    }
    for call in [
        "os.ftruncate(f, 1 << 40)",
        "os.pwrite(f, b'x', 1 << 40)",
        "os.posix_fallocate(f, 0, 1 << 40)",
    ] {
        p.run("f = os.open('config.json', os.O_RDWR)");
        assert_eq!(p.errno(call), libc::EFBIG, "{call}");
        let _ = p.attempt("os.close(f)");
    }
    logged(&it, &["config.json", "python3 (pid", "larger than the limit"]);
    it.sh("rm -f *.refused*");
    it.goes_on("the gigabyte");
    assert_eq!(it.daemon(), daemon);
    assert!(Usage::of(daemon).memory < 400_000, "{:?}", Usage::of(daemon));
}

#[test]
fn a_log_that_cannot_be_written_is_completed_later() {
    let it = Instance::builder().file("missions.md", samples::MISSIONS).unmounted().start();
    if !is_root() {
        return;
    }
    it.outside().bash("cp -a \"$STORE\" copy").ok();
    let size = ["-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs"];
    let cover = Cover::over(&it.store(), &size).expect("tmpfs");
    it.outside().bash("cp -a copy/. \"$STORE\"/").ok();
    it.mount();
    it.sh("dd if=/dev/zero of=fill bs=4k 2> /dev/null; true");
    let mut p = it.python();
    p.run("f = os.open('missions.md', os.O_WRONLY | os.O_APPEND); os.write(f, b'- ' + b'x' * 2000000 + b'\\n')");
    assert_eq!(p.outcome("os.close(f)"), libc::ENOSPC);
    it.sh("rm fill");
    assert_eq!(append(&it, "after"), 0);
    logged(&it, &["missions.md", "python3 (pid", "no space left"]);
    logged(&it, &["missions.md", "revision", "python3 (pid"]);
    it.unmount();
    drop(cover);
}

#[test]
fn each_save_is_one_line_of_the_log_with_document_program_and_revision() {
    let it = instance();
    assert_eq!(append(&it, "one"), 0);
    it.sh("jq '.a = 2' config.json > t && mv t config.json");
    it.sh("echo hello >> outbox.md");
    it.actor().bash("echo '{\"a\":' > config.json");
    it.append("missions.md", "- a\u{1b}[31m and \u{7}");
    let rev = |name: &str| {
        let path = it.path(name);
        let script = format!("getfattr --only-values -n user.instancefs.rev {}", path.display());
        let ran = it.outside().bash(&script);
        if ran.code() == Some(0) { ran.stdout } else { String::new() }
    };
    logged(&it, &["missions.md: revision ", "by python3 (pid"]);
    logged(&it, &["config.json: revision ", "by "]);
    logged(&it, &["outbox.md: revision ", "by bash (pid"]);
    logged(&it, &["config.json: save by bash (pid", "refused, revision", "stays"]);
    let newest = rev("missions.md");
    if !newest.is_empty() {
        logged(&it, &[&format!("missions.md: revision {newest} by")]);
    }
}

#[test]
fn the_same_command_mounts_again_after_a_crash() {
    let it = instance();
    for how in ["kill", "abort"] {
        assert_eq!(append(&it, how), 0);
        if how == "kill" {
            it.kill_daemon();
            assert!(doctor(&it, "mount").contains("instancefs mount"));
        } else {
            assert!(abort_connection(&it.mount_point()).expect("abort"));
        }
        // As `Restart=on-failure` does; the first daemon may still be at its end.
        mount_tests::eventually("a new mount", || (it.try_mount().code() == Some(0)).then_some(()));
        assert_eq!(it.count(how), 1);
    }
}

#[test]
fn doctor_says_what_to_do_about_a_store_and_ends_whatever_hangs() {
    let it = instance();
    it.outside().bash("chmod 755 \"$STORE\"").ok();
    let ran = it.outside().instancefs(&["doctor".as_ref(), it.store().as_os_str()]);
    assert!(ran.stdout.contains("can be entered by others"), "{}", ran.stdout);
    assert!(ran.stdout.contains("chmod 700"), "{}", ran.stdout);
    it.outside().bash("chmod 700 \"$STORE\"").ok();
    let stopped = Stopped::now(it.daemon().cast_unsigned());
    let patient = it.outside().limit(Duration::from_secs(30));
    let ran = patient.instancefs(&["doctor".as_ref(), it.store().as_os_str()]);
    assert!(ran.stdout.contains("does not answer within"), "{}", ran.stdout);
    assert!(ran.stdout.contains("unmount --force"), "{}", ran.stdout);
    drop(stopped);
    it.goes_on("a pause");
}

#[test]
fn a_store_whose_name_leads_elsewhere_by_now_is_not_written_to() {
    let it = instance();
    let (store, away) = (it.store(), it.scratch("away"));
    assert_eq!(append(&it, "mine"), 0);
    std::fs::rename(&store, &away).expect("rename");
    std::fs::create_dir(&store).expect("mkdir");
    std::fs::write(store.join("missions.md"), "precious\n").expect("write");
    let _ = append(&it, "perhaps");
    let mount = it.mount_point();
    it.outside().bash(&format!("umount {0} || fusermount3 -u {0}", mount.display())).ok();
    mount_tests::eventually("the end", || {
        let held = std::fs::metadata(away.join(".instancefs-lock")).is_ok_and(|m| m.len() > 0);
        (!held).then_some(())
    });
    assert_eq!(std::fs::read_to_string(store.join("missions.md")).expect("text"), "precious\n");
    let names: Vec<_> =
        std::fs::read_dir(&store).expect("dir").flatten().map(|e| e.file_name()).collect();
    assert_eq!(names, ["missions.md"]);
    std::fs::remove_dir_all(&store).expect("rm");
    std::fs::rename(&away, &store).expect("rename");
    it.mount();
    assert_eq!(it.count("mine"), 1);
    assert!(Path::new(&store).exists());
}
