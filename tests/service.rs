//! Run by a service manager, and looked at by `doctor`. Needs `/dev/fuse`.

mod support;

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{Place, eventually, ifs};

/// The daemon in the foreground, as a manager starts it.
fn serve(place: &Place, socket: &Path, watchdog: Option<Duration>) -> Child {
    let mut command = place.command(&["mount", "--foreground", "s", "m"]);
    command.env("NOTIFY_SOCKET", socket).stderr(Stdio::null());
    if let Some(limit) = watchdog {
        command.env("WATCHDOG_USEC", limit.as_micros().to_string());
    }
    command.spawn().unwrap()
}

fn told(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let n = manager.recv(&mut buffer).expect("a message in time");
    String::from_utf8_lossy(&buffer[..n]).into_owned()
}

fn kill(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    let done = std::process::Command::new("kill").args([signal, &pid]).status().unwrap();
    assert!(done.success());
}

/// What `doctor` says about `what`: its health and what it found. And its exit code.
fn doctor(place: &Place, what: &str) -> (i32, Vec<(String, String)>) {
    let out = ifs(place, &["doctor", "s", "--json"]);
    let findings: Vec<Value> = serde_json::from_str(&out.stdout).unwrap();
    let text = |f: &Value, field: &str| f[field].as_str().unwrap().to_owned();
    let of = findings.iter().filter(|f| f["what"] == what);
    // Mounts of other tests that end at this moment are not meant.
    let m = place.path("m").display().to_string();
    let of = of.filter(|f| what != "mount" || text(f, "found").contains(&m));
    (out.code, of.map(|f| (text(f, "health"), text(f, "found"))).collect())
}

#[test]
fn a_service_manager_hears_of_the_start_the_life_and_the_end() {
    let place = Place::new();
    assert_eq!(ifs(&place, &["init", "s"]).code, 0);
    fs::create_dir(place.path("m")).unwrap();
    let socket = place.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut daemon = serve(&place, &socket, Some(Duration::from_millis(400)));
    // "Ready" is not said before the mount answers.
    let mut first = told(&manager);
    while first == "WATCHDOG=1\n" {
        first = told(&manager);
    }
    let m = place.path("m");
    assert_eq!(first, format!("READY=1\nSTATUS=mounted at {}\n", m.display()));
    assert!(m.join("missions.md").exists());
    for _ in 0..3 {
        assert_eq!(told(&manager), "WATCHDOG=1\n");
    }
    kill(&daemon, "-TERM");
    let mut last = told(&manager);
    while last == "WATCHDOG=1\n" {
        last = told(&manager);
    }
    assert_eq!(last, "STOPPING=1\n");
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn a_restart_after_a_crash_takes_the_dead_mount_away_and_doctor_names_it() {
    let place = Place::new();
    assert_eq!(ifs(&place, &["init", "s"]).code, 0);
    fs::create_dir(place.path("m")).unwrap();
    let socket = place.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut daemon = serve(&place, &socket, None);
    assert!(told(&manager).starts_with("READY=1\n"));
    let (_, mount) = doctor(&place, "mount");
    assert_eq!(mount.len(), 1);
    assert_eq!(mount[0].0, "good", "{mount:?}");
    assert_eq!(doctor(&place, "database").1[0].0, "good");
    kill(&daemon, "-KILL");
    daemon.wait().unwrap();
    let (code, mount) = doctor(&place, "mount");
    assert_eq!((code, mount[0].0.as_str()), (1, "bad"), "{mount:?}");
    assert!(mount[0].1.contains("is dead"), "{mount:?}");
    let mut daemon = serve(&place, &socket, None);
    assert!(told(&manager).starts_with("READY=1\n"));
    assert_eq!(doctor(&place, "mount").1[0].0, "good");
    kill(&daemon, "-INT");
    assert!(daemon.wait().unwrap().success());
    eventually("the mount is gone", || doctor(&place, "mount").1.is_empty());
}

#[test]
fn doctor_says_what_to_do_in_words() {
    let place = Place::new();
    assert_eq!(ifs(&place, &["init", "s"]).code, 0);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(place.path("s"), mode).unwrap();
    let out = ifs(&place, &["doctor", "s"]);
    assert!(out.stdout.contains("-> `chmod 700 "), "{}", out.stdout);
    assert!(out.stdout.lines().any(|l| l.starts_with("ok    fuse device")), "{}", out.stdout);
    fs::write(place.path("s/.instancefs-step"), r#"{"doing":"init"}"#).unwrap();
    let out = ifs(&place, &["doctor", "s"]);
    assert_eq!(out.code, 1);
    assert!(out.stdout.contains("BAD   commands"), "{}", out.stdout);
    assert!(out.stdout.contains("-> repeat it: instancefs init "), "{}", out.stdout);
    // Without a store the machine alone is looked at.
    let mut machine = place.command(&["doctor"]);
    machine.current_dir("/");
    let out = support::watch(machine);
    assert!(!out.stdout.contains("database"), "{}", out.stdout);
    assert_eq!(ifs(&place, &["doctor", "nowhere"]).code, 1);
}
