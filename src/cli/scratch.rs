//! `instancefs scratch`.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

use clap::{Args, Subcommand};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::failure::{Failure, Result};
use super::output::{self, line, note};
use crate::daemon::scratch::{Base, DEFAULT_APP, Surroundings, base_path};

/// Arguments of `scratch`.
#[derive(Debug, Args)]
#[command(after_help = "\
The base is $KOAN_TMP_DIR, else $XDG_RUNTIME_DIR/koan, else /tmp/koan-UID; with --app NAME,
$NAME_TMP_DIR and so on. It is made with mode 0700 and must be a real directory of the caller: a
symlink, somebody else's directory, or one that others may write to is an error. Scratch
directories in it are called mission-PID-ID, and belong to a process.

Examples:
  instancefs scratch run -- make test
  dir=$(instancefs scratch new) && cp data \"$dir\" && instancefs scratch rm \"$dir\"
  instancefs scratch reap")]
pub struct Scratch {
    /// What to do
    #[command(subcommand)]
    pub what: What,
    /// The program whose base is meant
    #[arg(long, global = true, value_name = "NAME", default_value = DEFAULT_APP)]
    pub app: String,
}

/// The parts of `scratch`.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Print the base, and make it if it is missing
    Dir,
    /// Make a directory that lives as long as the calling process, and print it
    New {
        /// The process that owns it [default: the one that runs this command]
        #[arg(long, value_name = "PID")]
        pid: Option<u32>,
    },
    /// Remove a directory that `new` made
    Rm {
        /// Its path, or its name in the base
        dir: PathBuf,
    },
    /// Run a command with a TMPDIR of its own that is removed at its end
    ///
    /// Exits as the command does: with its code, or 128 and the number of the signal that ended
    /// it; 127 if there is no such command, 126 if it cannot be run.
    Run {
        /// The command
        #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Remove the directories whose process has ended, and print them; also done at mount
    Reap,
}

/// Runs the command.
pub fn run(args: &Scratch) -> Result<()> {
    let path = base_path(&args.app, &Surroundings::of(&args.app))?;
    match &args.what {
        What::Dir => print(Base::open(&path)?.path()),
        What::New { pid } => {
            let owner = match pid {
                Some(pid) => *pid,
                // Outside this pid namespace: the directory lives as long as that does.
                None => std::os::unix::process::parent_id().max(1),
            };
            print(&Base::open(&path)?.make(owner)?);
        }
        What::Rm { dir } => {
            let base = Base::existing(&path)?.ok_or_else(|| {
                Failure::new(format!("{}: no scratch directories here", path.display()))
            })?;
            base.remove(&base.name_of(dir)?)?;
        }
        What::Run { command } => return within(&Base::open(&path)?, command),
        What::Reap => {
            let Some(base) = Base::existing(&path)? else { return Ok(()) };
            let reaped = base.reap()?;
            reaped.removed.iter().for_each(|path| print(path));
            for failure in &reaped.failed {
                note(failure);
            }
            if !reaped.failed.is_empty() {
                return Err(Failure::silent());
            }
        }
    }
    Ok(())
}

/// Prints a path as it is: it is meant for programs.
fn print(path: &Path) {
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    // A path with a line break would be two.
    if bytes.contains(&b'\n') {
        line(&path.to_string_lossy());
    } else {
        output::raw([bytes, b"\n"].concat());
    }
}

/// Runs a command with a directory of its own, and exits as it does.
fn within(base: &Base, command: &[OsString]) -> Result<()> {
    let Some((program, args)) = command.split_first() else {
        return Err(Failure::usage("no command"));
    };
    let dir = base.make(std::process::id())?;
    let code = match start(program, args, &dir) {
        Ok(child) => wait(child),
        Err(e) => {
            note(&format!("{}: {e}", program.display()));
            if e.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
        }
    };
    if let Err(e) = base.name_of(&dir).and_then(|name| base.remove(&name))
        && dir.symlink_metadata().is_ok()
    {
        note(&e.to_string());
    }
    match code {
        0 => Ok(()),
        code => {
            output::finish()?;
            std::process::exit(code)
        }
    }
}

fn start(program: &OsString, args: &[OsString], dir: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.args(args).env("TMPDIR", dir);
    let us = std::process::id();
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            // The directory goes when this process is killed: so does who works in it.
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            if u32::try_from(libc::getppid()) != Ok(us) {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
    command.spawn()
}

/// Waits for the end of a command and passes signals on meanwhile. Its exit code.
fn wait(mut child: Child) -> i32 {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let running = Arc::new(Mutex::new(pid));
    // A terminal sends its signals to the command too.
    let terminal = std::fs::File::open("/dev/tty").is_ok();
    match signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]) {
        Ok(mut signals) => {
            let running = Arc::clone(&running);
            std::thread::spawn(move || {
                for number in signals.forever() {
                    let again = matches!(number, SIGINT | SIGQUIT) && terminal;
                    let signal = Signal::from_named_raw(number).filter(|_| !again);
                    // Not reaped before it is taken out of here, so the pid is still its.
                    if let (Some(pid), Some(signal)) = (*running.lock(), signal) {
                        let _ = rustix::process::kill_process(pid, signal);
                    }
                }
            });
        }
        Err(e) => note(&format!("signals are not passed on: {e}")),
    }
    if let Some(pid) = pid {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let again = |e| e == rustix::io::Errno::INTR;
        while rustix::process::waitid(WaitId::Pid(pid), how).is_err_and(again) {}
    }
    running.lock().take();
    match child.wait() {
        Ok(status) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        Err(e) => {
            note(&e.to_string());
            1
        }
    }
}
