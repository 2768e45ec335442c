//! A directory of its own for each test, the program, and a watch over it.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The longest that a command may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest that a test may take. A file system that does not answer holds its caller in the
/// kernel, where no time-out of the test reaches it.
const TEST_PATIENCE: Duration = Duration::from_secs(240);

/// A directory for one test. What is still mounted below it at the end is taken away.
pub struct Place {
    dir: tempfile::TempDir,
    /// Dropped with the place, which tells the watch that the test has ended.
    _ended: mpsc::Sender<()>,
}

impl Place {
    /// A new, empty one.
    pub fn new() -> Place {
        Place::at(tempfile::tempdir().unwrap())
    }

    /// A new, empty one that every user can enter; TMPDIR may be private.
    pub fn public() -> Place {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), mode).unwrap();
        Place::at(dir)
    }

    fn at(dir: tempfile::TempDir) -> Place {
        let below = dir.path().canonicalize().unwrap();
        let (ended, wait) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if wait.recv_timeout(TEST_PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("a test hangs; its mounts are taken away");
                take_mounts_away(&below);
                std::process::abort();
            }
        });
        Place { dir, _ended: ended }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// The program, to be run in this directory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_instancefs"));
        command.args(args).current_dir(self.dir.path()).env_remove("INSTANCEFS_DIR");
        command
    }

    /// Runs it in a directory below.
    pub fn run_in(&self, dir: &str, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        command.current_dir(self.path(dir));
        watch(command)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        take_mounts_away(&self.dir.path().canonicalize().unwrap());
    }
}

fn take_mounts_away(below: &Path) {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    for line in table.lines().rev() {
        let Some(at) = line.split(' ').nth(4) else { continue };
        if Path::new(at).starts_with(below) {
            let _ = Command::new("umount").args(["-l", "-f", at]).status();
        }
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program in the place's directory.
pub fn ifs(place: &Place, args: &[&str]) -> Ran {
    watch(place.command(args))
}

/// Runs a command; one that does not end in time fails the test.
pub fn watch(mut command: Command) -> Ran {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let out = std::thread::spawn(move || std::io::read_to_string(out).unwrap_or_default());
    let err = std::thread::spawn(move || std::io::read_to_string(err).unwrap_or_default());
    let until = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > until {
            let _ = child.kill();
            panic!("{command:?} did not end in {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let code = status.code().unwrap_or(-1);
    Ran { code, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

/// Waits until something holds; fails the test when it does not in time.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
