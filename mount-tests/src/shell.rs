//! One bash that stays, as a person's or an agent's terminal does.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};

use crate::Actor;

/// A bash in a session of its own that runs command after command: all of them share the
/// session and have the shell as their parent.
pub struct Shell {
    child: Child,
    stdin: Option<ChildStdin>,
    dir: tempfile::TempDir,
    count: u32,
}

impl Actor {
    /// Starts a shell that stays.
    pub fn shell(&self) -> Shell {
        let mut command = self.command("bash");
        command.arg("-s").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("bash");
        let stdin = child.stdin.take();
        Shell { child, stdin, dir: tempfile::tempdir().expect("tempdir"), count: 0 }
    }
}

impl Shell {
    /// Its process id and session.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Types a command and waits for its end; gives its exit code and standard output.
    #[track_caller]
    pub fn attempt(&mut self, command: &str) -> (i32, String) {
        self.count += 1;
        let at = |kind: &str| -> PathBuf { self.dir.path().join(format!("{}.{kind}", self.count)) };
        let (out, code) = (at("out"), at("code"));
        let line = format!(
            "{{ {command}\n}} >{out} 2>&1 </dev/null; echo $? >{code}.part; mv {code}.part {code}",
            out = out.display(),
            code = code.display(),
        );
        writeln!(self.stdin.as_mut().expect("shell"), "{line}").expect("shell has gone");
        let code = crate::eventually(command, || std::fs::read_to_string(&code).ok());
        let out = std::fs::read(&out).unwrap_or_default();
        (code.trim().parse().unwrap_or(-1), String::from_utf8_lossy(&out).into_owned())
    }

    /// Types a command that must succeed; gives its output.
    #[track_caller]
    pub fn run(&mut self, command: &str) -> String {
        let (code, out) = self.attempt(command);
        assert_eq!(code, 0, "{command}\n{out}");
        out
    }

    /// Ends the shell as Ctrl-D does.
    pub fn end(mut self) {
        self.stdin = None;
        crate::eventually("end of the shell", || match self.child.try_wait() {
            Ok(None) => None,
            _ => Some(()),
        });
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.stdin = None;
        if matches!(self.child.try_wait(), Ok(None)) {
            // SAFETY: plain kill of the group that `setsid` made for this child, which is not
            // reaped yet.
            unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
        }
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
