//! Somebody whom nothing connects with anybody else: a process right below process 1.

use crate::{Actor, Instance};

/// Runs `$SCRIPT` in bash as an orphan: it begins when its parent has gone, and tells its exit
/// code and its output in files.
const ORPHAN: &str = r#"LAUNCHER=$$ exec setsid -f bash -c '
    while [ -e /proc/$LAUNCHER ]; do sleep 0.002; done
    bash -c "$SCRIPT" > "$TOLD/out" 2>&1
    echo $? > "$TOLD/code.part"; mv "$TOLD/code.part" "$TOLD/code"'"#;

impl Actor {
    /// Runs a bash script as a process without any living ancestor but process 1, as what `cron`,
    /// a service manager or `docker exec` starts. Every other command of the tests is a child of
    /// the test, so that two of them have an ancestor in common. Its exit code and output.
    #[track_caller]
    pub fn orphan(&self, script: &str) -> (i32, String) {
        let told = tempfile::tempdir().expect("tempdir");
        let actor = self.clone().env("SCRIPT", script).env("TOLD", told.path());
        actor.bash(ORPHAN).ok();
        let code = crate::eventually(script, || {
            std::fs::read_to_string(told.path().join("code")).ok()?.trim().parse().ok()
        });
        let out = std::fs::read(told.path().join("out")).unwrap_or_default();
        (code, String::from_utf8_lossy(&out).into_owned())
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
