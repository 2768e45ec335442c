//! Who made a change.

use std::io;
use std::path::Path;

/// By which way a change came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Via {
    /// A program wrote the file in the mount.
    Mount,
    /// A command of ours.
    Command,
    /// Another program changed the rows with SQLite.
    Sql,
    /// Another program wrote the store's file, behind the mount.
    Store,
    /// Taken in from a file: `init --from`, `adopt`, or a file edited while unmounted.
    Import,
}

impl Via {
    /// The name used in the database and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Via::Mount => "mount",
            Via::Command => "command",
            Via::Sql => "sql",
            Via::Store => "store",
            Via::Import => "import",
        }
    }

    /// The way with this database name; unknown names are `Sql`, the way of strangers.
    pub fn parse(name: &str) -> Via {
        match name {
            "mount" => Via::Mount,
            "command" => Via::Command,
            "store" => Via::Store,
            "import" => Via::Import,
            _ => Via::Sql,
        }
    }
}

/// A text file of `/proc`. A program's name stands in many of them and may be any bytes, not
/// least because the kernel cuts it after 15 of them: what is no UTF-8 is replaced.
pub fn proc_text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// The session id of a process (0: of this one). It is 0 when the leader of the session is in
/// another pid namespace, as for a program that a supervisor started in a container; `None`
/// when there is no such process.
pub fn session_of(pid: u32) -> Option<u32> {
    let pid = i32::try_from(pid).ok()?;
    // SAFETY: a call with a number only.
    u32::try_from(unsafe { libc::getsid(pid) }).ok()
}

/// Who made a change: the process as it was when the change began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// Thread group id (the pid that people see), 0 when unknown.
    pub pid: u32,
    /// User id, as the kernel gave it.
    pub uid: u32,
    /// Session id, 0 when unknown.
    pub session: u32,
    /// Program name (`comm`), empty when unknown.
    pub program: String,
    /// By which way.
    pub via: Via,
}

impl Actor {
    /// This process itself, acting by `via`.
    pub fn this_process(via: Via) -> Actor {
        let program = proc_text("/proc/self/comm").unwrap_or_default();
        Actor {
            pid: std::process::id(),
            uid: rustix::process::getuid().as_raw(),
            session: session_of(0).unwrap_or(0),
            program: program.trim_end().to_owned(),
            via,
        }
    }

    /// Who, for people: `vim (pid 12)`.
    pub fn named(&self) -> String {
        match (self.program.as_str(), self.pid) {
            ("", 0) => "an unknown program".to_owned(),
            ("", pid) => format!("a program that has ended (pid {pid})"),
            (program, 0) => program.to_owned(),
            (program, pid) => format!("{program} (pid {pid})"),
        }
    }

    /// A change whose author is not known: rows found changed in the database.
    pub fn outside() -> Actor {
        Actor { pid: 0, uid: 0, session: 0, program: String::new(), via: Via::Sql }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_named_as_far_as_it_is_known() {
        let who = |program: &str, pid| {
            Actor { pid, program: program.to_owned(), ..Actor::outside() }.named()
        };
        assert_eq!(who("vim", 12), "vim (pid 12)");
        assert_eq!(who("", 0), "an unknown program");
        assert_eq!(
            (who("", 3), who("vim", 0)),
            ("a program that has ended (pid 3)".into(), "vim".into())
        );
    }
}
