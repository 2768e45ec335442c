//! `instancefs scratch`, with processes that are killed and users who mean harm.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use support::{Place, Ran, eventually, ifs, watch};

const BIN: &str = env!("CARGO_BIN_EXE_instancefs");

/// Runs `scratch` with this base.
fn scratch(place: &Place, base: &str, args: &[&str]) -> Ran {
    let mut command = place.command(&["scratch"]);
    command.args(args).env("KOAN_TMP_DIR", place.path(base)).env_remove("XDG_RUNTIME_DIR");
    watch(command)
}

/// A shell that has a scratch directory of its own and lives until it is killed.
struct Owner {
    shell: Child,
    dir: PathBuf,
}

fn owner(place: &Place, base: &str) -> Owner {
    let script = format!("'{BIN}' scratch new; read -r _");
    let mut shell = Command::new("bash")
        .args(["-c", &script])
        .env("KOAN_TMP_DIR", place.path(base))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Owner { shell, dir: PathBuf::from(line.trim_end()) }
}

impl Owner {
    fn kill(&mut self) {
        self.shell.kill().unwrap();
        self.shell.wait().unwrap();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_base_is_the_first_that_is_set() {
    let place = Place::new();
    fs::create_dir(place.path("run")).unwrap();
    let dir = |own: Option<&str>, runtime: Option<&str>, more: &[&str]| {
        let mut command = place.command(&["scratch", "dir"]);
        command.args(more).env_remove("KOAN_TMP_DIR").env_remove("XDG_RUNTIME_DIR");
        own.map(|own| command.env("KOAN_TMP_DIR", place.path(own)));
        runtime.map(|runtime| command.env("XDG_RUNTIME_DIR", place.path(runtime)));
        watch(command)
    };
    let line = |path: PathBuf| format!("{}\n", path.display());
    assert_eq!(dir(Some("own"), Some("run"), &[]).stdout, line(place.path("own")));
    assert_eq!(dir(None, Some("run"), &[]).stdout, line(place.path("run/koan")));
    let other = dir(Some("own"), Some("run"), &["--app", "other"]);
    assert_eq!(other.stdout, line(place.path("run/other")));
    for made in ["own", "run/koan", "run/other"] {
        assert_eq!(fs::metadata(place.path(made)).unwrap().mode() & 0o7777, 0o700);
    }
    assert_eq!(dir(None, Some("run"), &["--app", "../x"]).code, 1);
}

#[test]
fn leftovers_of_killed_owners_are_reaped_and_those_of_live_ones_are_not() {
    let place = Place::new();
    let mut killed = owner(&place, "base");
    let alive = owner(&place, "base");
    let name = |owner: &Owner| owner.dir.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name(&killed).starts_with(&format!("mission-{}-", killed.shell.id())));
    assert_eq!(fs::metadata(&killed.dir).unwrap().mode() & 0o7777, 0o700);
    fs::write(killed.dir.join("left"), "over").unwrap();
    assert_eq!(scratch(&place, "base", &["reap"]).stdout, "");
    assert_eq!(entries(&place.path("base")).len(), 2);

    // The pid of the live one, as another process had it before.
    let full = name(&alive);
    let (head, tail) = full.split_at(full.len() - 22);
    let start = u64::from_str_radix(&tail[6..16], 16).unwrap();
    let reused = format!("{head}{}{:010x}{}", &tail[..6], start - 1, &tail[16..]);
    fs::create_dir(place.path("base").join(&reused)).unwrap();

    killed.kill();
    let reaped = scratch(&place, "base", &["reap"]);
    let mut lines: Vec<&str> = reaped.stdout.lines().collect();
    lines.sort_unstable();
    let mut gone =
        [killed.dir.clone(), place.path("base").join(&reused)].map(|p| p.display().to_string());
    gone.sort();
    assert_eq!(lines, gone);
    assert_eq!(entries(&place.path("base")), [name(&alive)]);

    let completed = format!("{}/", alive.dir.display());
    assert_eq!(scratch(&place, "base", &["rm", &completed]).code, 0);
    assert_eq!(entries(&place.path("base")), [""; 0]);
    assert_eq!(scratch(&place, "base", &["rm", alive.dir.to_str().unwrap()]).code, 1);
}

#[test]
fn they_are_also_reaped_at_mount() {
    let place = Place::new();
    assert_eq!(ifs(&place, &["init", "s"]).code, 0);
    fs::create_dir(place.path("m")).unwrap();
    let mut killed = owner(&place, "base");
    let alive = owner(&place, "base");
    killed.kill();
    let mut mount = place.command(&["mount", "s", "m"]);
    mount.env("KOAN_TMP_DIR", place.path("base"));
    assert_eq!(watch(mount).code, 0);
    eventually("the leftover is gone", || !killed.dir.exists());
    assert!(alive.dir.exists());
    assert_eq!(ifs(&place, &["unmount", "m"]).code, 0);
}

#[test]
fn a_command_has_a_directory_of_its_own_and_its_exit_code_is_kept() {
    let place = Place::new();
    let run = |script: &str| scratch(&place, "base", &["run", "--", "bash", "-c", script]);
    let ran = run("mktemp; stat -c %a \"$TMPDIR\"; echo \"$TMPDIR\"; exit 7");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!((ran.code, lines[1]), (7, "700"), "{ran:?}");
    assert!(
        lines[0].starts_with(lines[2]) && Path::new(lines[2]).parent() == Some(&place.path("base"))
    );
    assert_eq!(run("true").code, 0);
    assert_eq!(run("kill -9 $$").code, 137);
    assert_eq!(scratch(&place, "base", &["run", "--", "no-such-command"]).code, 127);
    assert_eq!(scratch(&place, "base", &["run", "--", "/etc/passwd"]).code, 126);
    assert_eq!(scratch(&place, "base", &["run"]).code, 2);
    assert_eq!(entries(&place.path("base")), [""; 0], "all are removed");
}

#[test]
fn a_signal_reaches_the_command_and_a_killed_run_leaves_nothing_for_long() {
    let place = Place::new();
    for (signal, code) in [("TERM", Some(143)), ("KILL", None)] {
        let log = place.path(&format!("log-{signal}"));
        let script = format!(
            "trap 'echo ended >> {0}; exit 143' TERM; echo started >> {0}; while :; do read -rt 1 _ <> <(:); done",
            log.display()
        );
        let mut command = place.command(&["scratch", "run", "--", "bash", "-c", &script]);
        let mut run = command.env("KOAN_TMP_DIR", place.path("base")).spawn().unwrap();
        let said = |what: &str| fs::read_to_string(&log).is_ok_and(|text| text.contains(what));
        eventually("the command runs", || said("started"));
        let kill = Command::new("kill").args(["-s", signal, &run.id().to_string()]).status();
        assert!(kill.unwrap().success());
        assert_eq!(run.wait().unwrap().code(), code);
        eventually("the command is told", || said("ended"));
        if signal == "KILL" {
            assert_eq!(entries(&place.path("base")).len(), 1);
            scratch(&place, "base", &["reap"]);
        }
        assert_eq!(entries(&place.path("base")), [""; 0]);
    }
}

/// Runs a script as somebody else.
fn as_nobody(script: &str) {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "bash", "-ec", script]);
    let ran = watch(command);
    assert_eq!(ran.code, 0, "{script}: {}", ran.stderr);
}

#[test]
fn tricks_of_another_user_in_a_shared_directory_are_refused() {
    let place = Place::public();
    let shared = place.path("tmp");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
    let victim = place.path("victim");
    fs::create_dir(&victim).unwrap();
    fs::create_dir(victim.join("mission-999999999-x")).unwrap();
    fs::set_permissions(&victim, PermissionsExt::from_mode(0o700)).unwrap();
    let base = shared.join("koan");
    let (b, v) = (base.display(), victim.display());
    let plants = [
        format!("ln -s {v} {b}"),
        format!("ln -s {}/nowhere {b}", shared.display()),
        format!("mkdir -m 700 {b}"),
        format!("mkdir -m 777 {b}; ln -s {v} {b}/mission-999999999-x"),
        format!("echo > {b}"),
        format!("mkfifo {b}"),
    ];
    for plant in plants {
        as_nobody(&plant);
        for args in [
            &["dir"][..],
            &["new"],
            &["reap"],
            &["run", "--", "true"],
            &["rm", "mission-999999999-x"],
        ] {
            let ran = scratch(&place, "tmp/koan", args);
            assert_eq!(ran.code, 1, "{plant}; {args:?}: {ran:?}");
            assert!(ran.stderr.contains("koan") && ran.stdout.is_empty(), "{ran:?}");
        }
        assert_eq!(entries(&victim), ["mission-999999999-x"], "{plant}");
        as_nobody(&format!("rm -r {b}"));
    }
    // The same base, made by its user, cannot be entered by the other one.
    assert_eq!(scratch(&place, "tmp/koan", &["dir"]).code, 0);
    let mut outside = Command::new("setpriv");
    outside.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "bash", "-c"]);
    outside.arg(format!("ln -s {v} {b}/mission-999999999-x || rmdir {b} || mv {b} {b}2"));
    assert_ne!(watch(outside).code, 0);
}
