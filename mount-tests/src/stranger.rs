//! Somebody whom nothing connects with anybody else: a process right below process 1.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::{Actor, Instance};

/// Runs `$SCRIPT` in bash as an orphan: it begins when its parent has gone, and tells its process
/// id, its exit code and its output in files.
const ORPHAN: &str = r#"LAUNCHER=$$ exec setsid -f bash -c '
    while [ -e /proc/$LAUNCHER ]; do sleep 0.002; done
    echo $$ > "$TOLD/pid"
    bash -c "$SCRIPT" > "$TOLD/out" 2> "$TOLD/err"
    echo $? > "$TOLD/code.part"; mv "$TOLD/code.part" "$TOLD/code"'"#;

/// A process without any living ancestor but process 1.
pub struct Orphan {
    what: String,
    told: tempfile::TempDir,
    end: Instant,
}

impl Orphan {
    fn file(&self, name: &str) -> PathBuf {
        self.told.path().join(name)
    }

    fn said(&self, name: &str) -> String {
        let said = std::fs::read(self.file(name)).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    fn number(&self, name: &str) -> Option<i32> {
        std::fs::read_to_string(self.file(name)).ok()?.trim().parse().ok()
    }

    /// Whether it has ended.
    pub fn ended(&self) -> bool {
        self.file("code").exists()
    }

    /// Waits for its end: its exit code as a shell has it, its output and its complaints.
    #[track_caller]
    pub fn wait(self) -> (i32, String, String) {
        loop {
            if let Some(code) = self.number("code") {
                return (code, self.said("out"), self.said("err"));
            }
            let (out, err) = (self.said("out"), self.said("err"));
            assert!(Instant::now() < self.end, "timed out: {}\n{out}{err}", self.what);
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if !self.ended()
            && let Some(pid) = self.number("pid")
        {
            // SAFETY: plain kill of the group that `setsid` made for it.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
    }
}

impl Actor {
    /// Starts a bash script as a process without any living ancestor but process 1, as what `cron`,
    /// a service manager or `docker exec` starts. Every other command of the tests is a child of
    /// the test, so that two of them have an ancestor in common.
    #[track_caller]
    pub fn spawn_orphan(&self, script: &str) -> Orphan {
        let told = tempfile::tempdir().expect("tempdir");
        let end = Instant::now() + self.patience();
        self.clone().env("SCRIPT", script).env("TOLD", told.path()).bash(ORPHAN).ok();
        Orphan { what: script.to_owned(), told, end }
    }

    /// Runs it to its end; its exit code and output.
    #[track_caller]
    pub fn orphan(&self, script: &str) -> (i32, String) {
        let (code, out, err) = self.spawn_orphan(script).wait();
        (code, out + &err)
    }
}

impl Instance {
    /// A script in the mount by an orphan, which must succeed; its output.
    #[track_caller]
    pub fn stranger(&self, script: &str) -> String {
        let (code, out) = self.actor().orphan(script);
        assert_eq!(code, 0, "{script}\n{out}");
        out
    }

    /// An orphan appends this text.
    #[track_caller]
    pub fn stranger_appends(&self, name: &str, text: &str) {
        let (code, out) = self
            .actor()
            .env("ADDED", text)
            .env("NAME", name)
            .orphan(r#"printf %s "$ADDED" >> "$NAME""#);
        assert_eq!(code, 0, "append to {name}: {out}");
    }

    /// An orphan reads the file and saves this text through the same handle: whatever the rules for
    /// everybody else are, what it started from is what it has read.
    #[track_caller]
    pub fn stranger_saves(&self, name: &str, text: &str) {
        let program = "
import os
with open(os.environ['NAME'], 'r+', newline='') as f:
    f.read(); f.seek(0); f.write(os.environ['TEXT']); f.truncate()
";
        let (code, out) = self
            .actor()
            .env("NAME", name)
            .env("TEXT", text)
            .env("PROGRAM", program)
            .orphan(r#"python3 -c "$PROGRAM""#);
        assert_eq!(code, 0, "save of {name}: {out}");
    }
}
