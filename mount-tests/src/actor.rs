//! Running programs so that nothing depends on who runs the tests.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The longest that an ordinary command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Somebody who runs programs. Every command is a session of its own (`setsid`) and a child of the
/// test, so that two commands are kin of each other, as the tool calls of an agent are; use
/// [`Actor::orphan`] for strangers.
#[derive(Debug, Clone)]
pub struct Actor {
    cwd: PathBuf,
    home: PathBuf,
    limit: Duration,
    extra: Vec<(OsString, OsString)>,
}

impl Actor {
    /// An actor in `cwd` with `home` as `$HOME` and a scratch `$TMPDIR` inside it.
    pub fn new(cwd: &Path, home: &Path) -> Actor {
        std::fs::create_dir_all(home.join("tmp")).expect("home of an actor");
        Actor {
            cwd: cwd.to_path_buf(),
            home: home.to_path_buf(),
            limit: COMMAND_LIMIT,
            extra: Vec::new(),
        }
    }

    /// The same actor in another directory.
    pub fn within(mut self, cwd: &Path) -> Actor {
        self.cwd = cwd.to_path_buf();
        self
    }

    /// The same actor with more patience per command.
    pub fn limit(mut self, limit: Duration) -> Actor {
        self.limit = limit;
        self
    }

    /// The longest that a command may take.
    pub(crate) fn patience(&self) -> Duration {
        self.limit
    }

    /// The same actor with one more environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Actor {
        self.extra.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// The command with everything set that a program could take from its surroundings.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.cwd)
            .env_clear()
            .env("PATH", path())
            .env("HOME", &self.home)
            .env("TMPDIR", self.home.join("tmp"))
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "dumb")
            .env("TZ", "UTC")
            .env("USER", "tester")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "Tester")
            .env("GIT_AUTHOR_EMAIL", "tester@example.org")
            .env("GIT_COMMITTER_NAME", "Tester")
            .env("GIT_COMMITTER_EMAIL", "tester@example.org")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("RUST_BACKTRACE", "1")
            .envs(self.extra.iter().cloned())
            .stdin(Stdio::null());
        // SAFETY: setsid and umask are async-signal-safe and touch nothing of the parent.
        unsafe {
            command.pre_exec(|| {
                libc::umask(0o022);
                if libc::setsid() < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        command
    }

    /// Starts a program.
    pub fn spawn<A: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, args: &[A]) -> Running {
        let mut command = self.command(&program);
        command.args(args);
        Running::start(command, self.limit)
    }

    /// Runs a program to its end.
    pub fn run<A: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, args: &[A]) -> Ran {
        self.spawn(program, args).wait()
    }

    /// Runs a script in bash.
    pub fn bash(&self, script: &str) -> Ran {
        self.run("bash", &["-c", script])
    }

    /// Starts a script in bash.
    pub fn spawn_bash(&self, script: &str) -> Running {
        self.spawn("bash", &["-c", script])
    }

    /// Runs a Python program text; `args` are `sys.argv[1:]`.
    pub fn python(&self, program: &str, args: &[&str]) -> Ran {
        self.spawn_python(program, args).wait()
    }

    /// Starts a Python program text.
    pub fn spawn_python(&self, program: &str, args: &[&str]) -> Running {
        let mut all = vec!["-u", "-c", program];
        all.extend(args);
        self.spawn("python3", &all)
    }

    /// Runs a Node program text.
    pub fn node(&self, program: &str, args: &[&str]) -> Ran {
        let mut all = vec!["-e", program];
        all.extend(args);
        self.run("node", &all)
    }

    /// Runs `instancefs` itself.
    pub fn instancefs<A: AsRef<OsStr>>(&self, args: &[A]) -> Ran {
        self.run(crate::instancefs(), args)
    }
}

/// `PATH` for commands: the caller's, with the directory of the real Python first (a version
/// manager's shim would be a second program between the test and Python).
fn path() -> &'static OsStr {
    static PATH: OnceLock<OsString> = OnceLock::new();
    PATH.get_or_init(|| {
        let usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let mut dirs: Vec<PathBuf> = Vec::new();
        let asked = Command::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .stdin(Stdio::null())
            .output();
        if let Ok(output) = asked {
            let real = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
            dirs.extend(real.parent().map(Path::to_path_buf));
        }
        let own = std::env::var_os("PATH").unwrap_or_default();
        dirs.extend(std::env::split_paths(&own).filter(|dir| dir.is_absolute()));
        dirs.extend(std::env::split_paths(usual));
        std::env::join_paths(dirs).expect("PATH")
    })
}

/// A program that is running, its output collected in files (a pipe would be kept open by
/// grandchildren).
pub struct Running {
    what: String,
    child: Child,
    out: File,
    err: File,
    end: Instant,
    done: bool,
}

impl Running {
    pub(crate) fn start(mut command: Command, limit: Duration) -> Running {
        let out = tempfile::tempfile().expect("file for output");
        let err = tempfile::tempfile().expect("file for errors");
        command.stdout(out.try_clone().expect("clone")).stderr(err.try_clone().expect("clone"));
        let what = format!("{command:?}");
        let what = what.rsplit_once("TZ=\"UTC\" ").map_or(what.as_str(), |(_, tail)| tail).into();
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("{:?}: {error} (make test installs what is missing)", command.get_program())
        });
        Running { what, child, out, err, end: Instant::now() + limit, done: false }
    }

    /// Its process id, which is also its session and group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output so far.
    pub fn stdout(&mut self) -> String {
        slurp(&mut self.out)
    }

    /// Waits until the standard output contains `text`.
    pub fn until(&mut self, text: &str) {
        let what = format!("{:?} in the output of {}", text, self.what);
        crate::eventually(&what, || self.stdout().contains(text).then_some(()));
    }

    /// Sends a signal to the process alone.
    pub fn signal(&self, signal: i32) {
        // SAFETY: plain kill; the child is not reaped before `wait`, so the pid is still its.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Whether it has ended.
    pub fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end. A command that overstays its limit is killed with its whole session
    /// group and the test fails.
    pub fn wait(mut self) -> Ran {
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            if Instant::now() >= self.end {
                let (out, err) = (slurp(&mut self.out), slurp(&mut self.err));
                self.kill_group();
                panic!("timed out: {}\nstdout: {out}\nstderr: {err}", self.what);
            }
            std::thread::sleep(Duration::from_millis(3));
        };
        self.done = true;
        Ran {
            what: self.what.clone(),
            status,
            stdout: slurp(&mut self.out),
            stderr: slurp(&mut self.err),
        }
    }

    fn kill_group(&self) {
        // SAFETY: plain kill of the group that `setsid` made for this child.
        unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.done {
            self.kill_group();
            // A process that hangs in the kernel is left to the watchdog.
            for _ in 0..200 {
                if !matches!(self.child.try_wait(), Ok(None)) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn slurp(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // The writer's position is shared with this descriptor: read by offset from a new one.
    let mut own = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file)))
        .expect("reopen output");
    own.seek(SeekFrom::Start(0)).and_then(|_| own.read_to_end(&mut bytes)).expect("read output");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ran {
    what: String,
    status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained.
    pub stderr: String,
}

impl Ran {
    /// Its exit code; `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Asserts exit code 0 and gives the standard output.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(
            self.status.success(),
            "{}: {}\nstdout: {}\nstderr: {}",
            self.what,
            self.status,
            self.stdout,
            self.stderr
        );
        self.stdout
    }

    /// Asserts that it ended by itself with another code than 0, and gives the result.
    #[track_caller]
    pub fn failed(self) -> Ran {
        assert!(
            self.status.code().is_some_and(|code| code != 0),
            "should have failed: {}: {}\nstdout: {}\nstderr: {}",
            self.what,
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Asserts this exit code, and gives the result.
    #[track_caller]
    pub fn exits(self, code: i32) -> Ran {
        assert!(
            self.status.code() == Some(code),
            "should have exited {code}: {}: {}\nstdout: {}\nstderr: {}",
            self.what,
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }
}
