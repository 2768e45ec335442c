//! Mounting and unmounting, run as a person runs them. Needs `/dev/fuse`.

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{Place, Ran, eventually, ifs, watch};

/// Makes the store `s` and the empty directory `m`.
fn store(place: &Place) -> (PathBuf, PathBuf) {
    assert_eq!(ifs(place, &["init", "s"]).code, 0);
    fs::create_dir(place.path("m")).unwrap();
    (place.path("s"), place.path("m"))
}

fn mount(place: &Place) {
    let out = ifs(place, &["mount", "s", "m"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""));
}

fn unmount(place: &Place) -> Ran {
    let out = ifs(place, &["unmount", "m"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    out
}

/// A shell command, watched.
fn sh(place: &Place, script: &str) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(place.path(""));
    watch(command)
}

fn read(place: &Place, path: &str) -> String {
    let out = sh(place, &format!("cat {path}"));
    assert_eq!(out.code, 0, "{}", out.stderr);
    out.stdout
}

fn daemon(place: &Place) -> u32 {
    let out = ifs(place, &["status", "s", "--json"]);
    let status: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(status["running"], true, "{}", out.stdout);
    u32::try_from(status["pid"].as_u64().unwrap()).unwrap()
}

fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

fn gone(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.is_empty() || state.contains(") Z ")
}

fn is_mounted(at: &Path) -> bool {
    let table = String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap()).into_owned();
    table.lines().any(|l| l.split(' ').nth(4) == at.to_str())
}

#[test]
fn mount_says_what_is_wrong_and_leaves_nothing() {
    let place = Place::new();
    let (store, mountpoint) = store(&place);
    fs::write(place.path("file"), "").unwrap();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/x"), "").unwrap();
    fs::create_dir(place.path("s/inside")).unwrap();
    fs::create_dir(place.path("plain")).unwrap();
    for (args, message) in [
        (["nothing", "m"], "nothing: no such directory"),
        (["plain", "m"], "plain: not a store of instancefs"),
        (["file", "m"], "file: not a directory"),
        (["s", "missing"], "missing: no such directory"),
        (["s", "file"], "file: not a directory"),
        (["s", "full"], "full: the mount point is not empty"),
        (["s", "s/inside"], "inside: the mount point and the store must not lie in each other"),
    ] {
        let out = ifs(&place, &["mount", args[0], args[1]]);
        assert_eq!(out.code, 1, "{args:?}");
        let first = out.stderr.lines().next().unwrap();
        assert!(first.starts_with("instancefs: ") && first.ends_with(message), "{first}");
    }
    assert!(!is_mounted(&mountpoint));
    // What only the daemon finds out comes back as well.
    fs::write(store.join("missions.db"), "SQLite format 3\0 and then nonsense").unwrap();
    let out = ifs(&place, &["mount", "s", "m"]);
    assert_eq!(out.code, 1);
    assert!(
        out.stderr.starts_with("instancefs: ") && out.stderr.contains("missions.db"),
        "{}",
        out.stderr
    );
    assert!(!is_mounted(&mountpoint));
}

#[test]
fn odd_names_are_mounted_and_found_again() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    for name in ["a b", "a,b", "a\nb", "a\\040b", "a'\"b", "é"] {
        let (store, mountpoint) = (format!("s{name}"), format!("m{name}"));
        assert_eq!(ifs(&place, &["init", &store]).code, 0);
        fs::create_dir(place.path(&mountpoint)).unwrap();
        let out = ifs(&place, &["mount", &store, &mountpoint]);
        assert_eq!(out.code, 0, "{name:?}: {}", out.stderr);
        let status = ifs(&place, &["status", &mountpoint, "--json"]);
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        assert_eq!(status["store"].as_str(), place.path(&store).to_str());
        assert_eq!(status["answers"], "yes");
        let out = ifs(&place, &["unmount", &mountpoint]);
        assert_eq!(out.code, 0, "{name:?}: {}", out.stderr);
        let status = ifs(&place, &["status", &mountpoint, "--json"]);
        assert_eq!(status.code, 1, "{name:?}: still mounted: {}", status.stdout);
    }
    let name = std::ffi::OsStr::from_bytes(b"s\xff");
    let mut init = place.command(&["init"]);
    init.arg(name);
    assert_eq!(watch(init).code, 0);
    fs::create_dir(place.path("m")).unwrap();
    let mut mount = place.command(&["mount"]);
    mount.arg(name).arg("m");
    let out = watch(mount);
    assert_eq!(out.code, 1);
    assert!(out.stderr.contains("not UTF-8"), "{}", out.stderr);
}

#[test]
fn one_daemon_serves_a_store() {
    let place = Place::new();
    let (_, mountpoint) = store(&place);
    mount(&place);
    let pid = daemon(&place);
    fs::create_dir(place.path("m2")).unwrap();
    for at in ["m2", "m"] {
        let out = ifs(&place, &["mount", "s", at]);
        assert_eq!(out.code, 3, "{}", out.stderr);
        assert!(
            out.stderr.contains(&format!("served by process {pid} (mounted at ")),
            "{}",
            out.stderr
        );
        assert!(!is_mounted(&place.path("m2")));
    }
    assert_eq!(ifs(&place, &["init", "other"]).code, 0);
    let out = ifs(&place, &["mount", "other", "m"]);
    assert_eq!(out.code, 3, "{}", out.stderr);
    assert!(out.stderr.contains("is mounted here already"), "{}", out.stderr);
    // A store whose lock another command holds.
    let out = ifs(&place, &["eject", "s"]);
    assert_eq!(out.code, 3, "{}", out.stderr);
    // A mount that adopt did not make is not taken away by eject.
    let out = ifs(&place, &["eject", "m"]);
    assert_eq!(out.code, 1, "{}", out.stderr);
    assert!(is_mounted(&mountpoint));
    unmount(&place);
    assert!(!is_mounted(&mountpoint));
    assert!(gone(pid));
    assert_eq!(ifs(&place, &["unmount", "m"]).code, 1);
}

#[test]
fn the_daemon_is_on_its_own() {
    let place = Place::new();
    let (store, mountpoint) = store(&place);
    mount(&place);
    let pid = daemon(&place);
    let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).unwrap();
    assert_eq!(link("cwd"), Path::new("/"));
    for fd in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(link(fd), Path::new("/dev/null"));
    }
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "instancefs\n");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string());
    kill(pid, "-HUP");
    for name in [".instancefs-lock", ".instancefs-sock", ".instancefs-log"] {
        assert_eq!(fs::metadata(store.join(name)).unwrap().mode() & 0o777, 0o600, "{name}");
        assert_eq!(sh(&place, &format!("stat m/{name}")).code, 1);
    }
    assert!(!sh(&place, "ls -a m").stdout.contains(".instancefs"));
    let table = String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap()).into_owned();
    let line = table.lines().find(|l| l.split(' ').nth(4) == mountpoint.to_str()).unwrap();
    assert!(line.contains("nosuid,nodev") && line.contains("fuse.instancefs"), "{line}");
    assert!(line.contains(store.to_str().unwrap()) && !line.contains("allow_other"), "{line}");
    // The mode that a program asks for is the mode that it gets.
    assert_eq!(sh(&place, "umask 027; echo x > m/f; stat -c %a m/f").stdout, "640\n");
    let status = read(&place, "m/.instancefs/status.json");
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["pid"], pid);
    let text = ifs(&place, &["status", "m"]).stdout;
    assert!(text.contains(&format!("daemon      pid {pid}, since ")), "{text}");
    assert!(text.contains("mount       answers"), "{text}");
    unmount(&place);
}

#[test]
fn unmount_leaves_whoever_is_inside_and_names_them() {
    let place = Place::new();
    let (_, mountpoint) = store(&place);
    mount(&place);
    let mut user = Command::new("sleep").arg("60").current_dir(&mountpoint).spawn().unwrap();
    let out = ifs(&place, &["unmount", "m"]);
    user.kill().unwrap();
    user.wait().unwrap();
    assert_eq!(out.code, 0, "{}", out.stderr);
    let named = format!("was still used by {} (sleep)", user.id());
    assert!(out.stderr.contains(&named), "{}", out.stderr);
    assert!(!is_mounted(&mountpoint));
}

#[test]
fn a_dead_mount_is_cleaned_away() {
    let place = Place::new();
    let (_, mountpoint) = store(&place);
    for command in [&["mount", "s", "m"][..], &["unmount", "m"]] {
        mount(&place);
        assert_eq!(sh(&place, "echo '- kept' >> m/missions.md").code, 0);
        let pid = daemon(&place);
        kill(pid, "-KILL");
        eventually("the daemon is gone", || gone(pid));
        let status = ifs(&place, &["status", "m"]);
        assert!(status.stdout.contains("mount       dead"), "{}{}", status.stdout, status.stderr);
        let out = ifs(&place, command);
        assert_eq!(out.code, 0, "{command:?}: {}", out.stderr);
        if is_mounted(&mountpoint) {
            unmount(&place);
        }
    }
    mount(&place);
    assert_eq!(read(&place, "m/missions.md").matches("- kept").count(), 2);
    unmount(&place);
}

#[test]
fn signals_write_the_documents_out() {
    let place = Place::new();
    let (store, mountpoint) = store(&place);
    for (n, signal) in ["-TERM", "-INT"].into_iter().enumerate() {
        mount(&place);
        assert_eq!(sh(&place, &format!("echo '- m{n}' >> m/missions.md")).code, 0);
        assert_eq!(sh(&place, &format!("echo '{{\"n\": {n}}}' > m/config.json")).code, 0);
        let shown = (read(&place, "m/missions.md"), read(&place, "m/config.yaml"));
        let pid = daemon(&place);
        kill(pid, signal);
        eventually("the daemon is gone", || gone(pid));
        assert!(!is_mounted(&mountpoint));
        assert_eq!(fs::read_to_string(store.join("missions.md")).unwrap(), shown.0);
        assert_eq!(fs::read_to_string(store.join("config.yaml")).unwrap(), shown.1);
        let json: Value =
            serde_json::from_slice(&fs::read(store.join("config.json")).unwrap()).unwrap();
        assert_eq!(json["n"], n);
    }
    // Nothing of SQLite is left behind either.
    assert!(!store.join("missions.db-wal").exists());
    assert!(!store.join(".instancefs-sock").exists());
}

#[test]
fn files_edited_while_not_mounted_are_merged() {
    let place = Place::new();
    let (store, _) = store(&place);
    mount(&place);
    sh(&place, "printf '# Missions\\n\\n## Pending\\n- a\\n- b\\n\\n## Done\\n' > m/missions.md");
    sh(&place, "printf 'x: 1 # one\\ny: 2\\n' > m/config.yaml");
    unmount(&place);
    // The old program removes one, adds one, and writes a new config; another program changes
    // a row meanwhile.
    let text = fs::read_to_string(store.join("missions.md")).unwrap();
    fs::write(store.join("missions.md"), text.replace("- a\n", "") + "- done by hand\n").unwrap();
    let conn = rusqlite::Connection::open(store.join("missions.db")).unwrap();
    conn.execute("insert into missions (text, state, sequence) values ('sql', 'pending', 50)", [])
        .unwrap();
    drop(conn);
    fs::write(store.join("config.json"), "{\"x\": 1, \"y\": 3}\n").unwrap();
    let out = ifs(&place, &["mount", "s", "m"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(out.stderr.contains("missions.md was edited in the store: merged"), "{}", out.stderr);
    let merged = read(&place, "m/missions.md");
    assert_eq!(merged.matches("- ").count(), 3, "{merged}");
    for line in ["- b\n", "- sql\n", "- done by hand"] {
        assert!(merged.contains(line), "{merged}");
    }
    assert_eq!(read(&place, "m/config.yaml"), "x: 1 # one\ny: 3\n");
    // A daemon that is killed writes nothing out; its older file is no edit.
    sh(&place, "echo '- later' >> m/missions.md");
    let pid = daemon(&place);
    kill(pid, "-KILL");
    eventually("the daemon is gone", || gone(pid));
    assert!(!fs::read_to_string(store.join("missions.md")).unwrap().contains("later"));
    mount(&place);
    assert!(read(&place, "m/missions.md").contains("- later"));
    unmount(&place);
}

#[test]
fn a_file_edited_beside_the_mount_is_merged_at_the_end() {
    let place = Place::new();
    let (store, _) = store(&place);
    mount(&place);
    sh(&place, "echo '{\"a\": 1, \"b\": 1}' > m/config.json");
    unmount(&place);
    mount(&place);
    sh(&place, "jq '.a = 2' m/config.json > t && mv t m/config.json");
    fs::write(store.join("config.json"), "{\"a\": 1, \"b\": 5}\n").unwrap();
    let out = unmount(&place);
    assert!(out.stderr.contains("config.json was edited in the store: merged"), "{}", out.stderr);
    let text = fs::read(store.join("config.json")).unwrap();
    let json: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json, serde_json::json!({ "a": 2, "b": 5 }));
}

#[test]
fn a_stopped_daemon_keeps_nobody_waiting_for_good() {
    let place = Place::new();
    store(&place);
    mount(&place);
    let pid = daemon(&place);
    kill(pid, "-STOP");
    let status = ifs(&place, &["status", "s", "--json"]);
    let second = ifs(&place, &["mount", "s", "m"]);
    kill(pid, "-CONT");
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["answers"], "silent");
    assert_eq!(status["held_by"]["pid"], pid);
    assert_eq!(second.code, 3, "{}", second.stderr);
    unmount(&place);
}

#[test]
fn a_forced_unmount_does_without_a_daemon_that_does_not_answer() {
    let place = Place::new();
    let (_, mountpoint) = store(&place);
    mount(&place);
    let pid = daemon(&place);
    kill(pid, "-STOP");
    let out = ifs(&place, &["unmount", "m", "--force"]);
    let mounted = is_mounted(&mountpoint);
    kill(pid, "-CONT");
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(out.stderr.contains("taken away without it"), "{}", out.stderr);
    assert!(!mounted);
    eventually("the daemon has ended", || gone(pid));
    mount(&place);
    unmount(&place);
}

#[test]
fn an_unmount_by_somebody_else_says_that_it_did_nothing() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let (_, mountpoint) = store(&place);
    mount(&place);
    let program = place.path("instancefs");
    fs::copy(env!("CARGO_BIN_EXE_instancefs"), &program).unwrap();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.arg("unmount").arg(&mountpoint).current_dir("/").uid(65_534).gid(65_534);
    let out = watch(command);
    assert_eq!(out.code, 1, "{}", out.stderr);
    assert!(out.stderr.contains("still mounted"), "{}", out.stderr);
    assert!(is_mounted(&mountpoint));
    unmount(&place);
}

#[test]
fn a_lazily_unmounted_mount_is_left_when_asked() {
    let place = Place::new();
    let (store, mountpoint) = store(&place);
    mount(&place);
    let pid = daemon(&place);
    fs::write(mountpoint.join("f"), "x").unwrap();
    let open = fs::File::open(mountpoint.join("f")).unwrap();
    assert_eq!(sh(&place, "umount -l m").code, 0);
    let out = ifs(&place, &["unmount", store.to_str().unwrap()]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(gone(pid));
    drop(open);
}

#[test]
fn a_bad_edit_while_not_mounted_is_kept_beside() {
    let place = Place::new();
    let (store, _) = store(&place);
    mount(&place);
    sh(&place, "echo '{\"a\": 1}' > m/config.json");
    unmount(&place);
    fs::write(store.join("config.json"), "{\"a\": \n").unwrap();
    let out = ifs(&place, &["mount", "s", "m"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(
        out.stderr.contains("config.json was edited in the store and is refused: "),
        "{}",
        out.stderr
    );
    assert_eq!(read(&place, "m/config.json"), "{\"a\": 1}\n");
    let refused = read(&place, "m/config.json.refused");
    assert!(refused.contains("{\"a\": \n") && refused.contains("not valid JSON"), "{refused}");
    let status = ifs(&place, &["status", "m", "--json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["refusals"]["count"], 1);
    assert_eq!(status["refusals"]["last"][0]["kept_as"], "config.json.refused");
    unmount(&place);
    // It is told once.
    let again = ifs(&place, &["mount", "s", "m"]);
    assert_eq!((again.code, again.stderr.as_str()), (0, ""));
    unmount(&place);
}

#[test]
fn an_open_handle_keeps_its_text_at_the_end() {
    let place = Place::new();
    let (store, mountpoint) = store(&place);
    mount(&place);
    let pid = daemon(&place);
    let mut file = fs::File::create(mountpoint.join("missions.md")).unwrap();
    file.write_all(b"# Missions\n\n## Pending\n- half").unwrap();
    kill(pid, "-TERM");
    eventually("the daemon is gone", || gone(pid));
    drop(file);
    let kept = store.join(format!("missions.md.unsaved-{}", std::process::id()));
    assert_eq!(fs::read_to_string(kept).unwrap(), "# Missions\n\n## Pending\n- half");
    mount(&place);
    assert!(!read(&place, "m/missions.md").contains("half"));
    unmount(&place);
}

#[test]
fn the_foreground_ends_with_a_signal_and_logs_to_stderr() {
    let place = Place::new();
    let (_, mountpoint) = store(&place);
    let mut command = place.command(&["mount", "s", "m", "--foreground"]);
    let child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    eventually("it is mounted", || is_mounted(&mountpoint));
    eventually("it answers", || sh(&place, "test -e m/missions.md").code == 0);
    kill(child.id(), "-INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains(" mounted at "));
    assert!(!is_mounted(&mountpoint));
}

#[test]
fn somebody_elses_umount_ends_the_daemon_as_well() {
    let place = Place::new();
    let (store, mountpoint) = store(&place);
    mount(&place);
    let pid = daemon(&place);
    sh(&place, "echo '- x' >> m/missions.md");
    // The daemon itself may be inside for a moment, to tell watchers of the append.
    eventually("umount finds nobody inside", || sh(&place, "umount m").code == 0);
    eventually("the daemon is gone", || gone(pid));
    assert!(fs::read_to_string(store.join("missions.md")).unwrap().contains("- x\n"));
    assert!(!is_mounted(&mountpoint));
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let place = Place::new();
    store(&place);
    let out = ifs(&place, &["mount", "s", "m", "--read-only"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    for script in ["echo x > m/f", "echo '- x' >> m/missions.md", "mkdir m/d"] {
        let out = sh(&place, script);
        assert_ne!(out.code, 0, "{script}");
        assert!(out.stderr.contains("Read-only"), "{script}: {}", out.stderr);
    }
    unmount(&place);
}

#[test]
fn adopt_work_and_eject() {
    let place = Place::new();
    let dir = place.path("inst");
    fs::create_dir_all(dir.join("memory")).unwrap();
    fs::write(dir.join("missions.md"), "# Mine\n\n## Pending\n- a\n\n## Done\n").unwrap();
    fs::write(dir.join("config.yaml"), "a: 1 # one\nb: 2\n").unwrap();
    fs::write(dir.join("memory/x.md"), "x").unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o751)).unwrap();
    let out = ifs(&place, &["adopt", "inst", "--mount"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(is_mounted(&dir));
    assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o751);
    let again = ifs(&place, &["adopt", "inst", "--mount"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(sh(&place, "echo '- b' >> inst/missions.md && echo y > inst/memory/y.md").code, 0);
    let exported = ifs(&place, &["export", "inst", "copy"]);
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    let out = ifs(&place, &["eject", "inst"]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(!is_mounted(&dir));
    assert!(!place.path("inst.store").exists());
    let text = "# Mine\n\n## Pending\n- a\n- b\n\n## Done\n";
    for at in ["inst", "copy"] {
        assert_eq!(read(&place, &format!("{at}/missions.md")), text);
        assert_eq!(read(&place, &format!("{at}/config.yaml")), "a: 1 # one\nb: 2\n");
        assert_eq!(read(&place, &format!("{at}/memory/y.md")), "y\n");
        assert!(!place.path(at).join("config.json").exists());
    }
}

#[test]
fn a_change_from_outside_makes_an_inotify_event() {
    let place = Place::new();
    let (store, mountpoint) = store(&place);
    mount(&place);
    let file = mountpoint.join("missions.md");
    let watch = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::NONBLOCK).unwrap();
    let flags = rustix::fs::inotify::WatchFlags::MODIFY | rustix::fs::inotify::WatchFlags::ATTRIB;
    rustix::fs::inotify::add_watch(&watch, &file, flags).unwrap();
    let conn = rusqlite::Connection::open(store.join("missions.db")).unwrap();
    conn.execute("insert into missions (text, state) values ('from outside', 'pending')", [])
        .unwrap();
    let mut buffer = [0u8; 4096];
    eventually("an event", || rustix::io::read(&watch, &mut buffer).is_ok_and(|n| n > 0));
    assert!(read(&place, "m/missions.md").contains("- from outside\n"));
    // The event is no save.
    let status = ifs(&place, &["status", "m", "--json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["documents"]["missions"]["revisions"], 1);
    unmount(&place);
}
