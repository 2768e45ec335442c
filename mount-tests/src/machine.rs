//! Faults of a real machine, and what the daemon takes of it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Instance;

/// A file system at a path, gone when this is dropped.
pub struct Cover(PathBuf);

impl Cover {
    /// Mounts with these arguments of `mount`; `None` when this machine cannot.
    pub fn over(path: &Path, args: &[&str]) -> Option<Cover> {
        let done = Command::new("mount").args(args).arg(path).output().ok()?;
        if !done.status.success() {
            eprintln!("mount {args:?}: {}", String::from_utf8_lossy(&done.stderr).trim());
            return None;
        }
        Some(Cover(path.to_owned()))
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// What a process uses.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Resident memory in KiB.
    pub memory: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: usize,
}

impl Usage {
    /// Of this process.
    #[track_caller]
    pub fn of(pid: i32) -> Usage {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        let field = |name: &str| -> u64 {
            let line = status.lines().find(|l| l.starts_with(name)).unwrap_or_default();
            line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
        Usage { memory: field("VmRSS:"), threads: field("Threads:"), descriptors: fds.count() }
    }
}

impl Instance {
    /// The daemon's log.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.store().join(".instancefs-log")).unwrap_or_default();
        assert!(
            !bytes.iter().any(|b| b.is_ascii_control() && *b != b'\n'),
            "control characters in the log: {:?}",
            std::ffi::OsStr::from_bytes(&bytes)
        );
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Asserts that somebody else can use every kind of file as usual, within 20 s.
    #[track_caller]
    pub fn goes_on(&self, what: &str) {
        let script = "set -e; echo \"- after $0\" >> missions.md; grep -q \"after $0\" missions.md; \
                      ls > /dev/null; echo x > plain; cat plain config.json > /dev/null; \
                      echo hi >> outbox.md; rm plain";
        let actor = self.actor().limit(std::time::Duration::from_secs(20));
        actor.run("bash", &["-c", script, what]).ok();
        assert_eq!(self.count(&format!("after {what}")), 1);
    }
}

/// Sets a limit of a running process, soft and hard.
#[track_caller]
pub fn limit(pid: i32, resource: libc::__rlimit_resource_t, soft: u64, hard: u64) {
    let new = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: both pointers are to a value that lives as long as the call, or null.
    let done = unsafe { libc::prlimit(pid, resource, &raw const new, std::ptr::null_mut()) };
    assert_eq!(done, 0, "prlimit: {}", std::io::Error::last_os_error());
}

/// Stops a process, and lets it go on when dropped.
pub struct Stopped(i32);

impl Stopped {
    /// Stops it.
    pub fn now(pid: u32) -> Stopped {
        let pid = pid.cast_signed();
        // SAFETY: plain kill of a process that the caller has started.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::kill(self.0, libc::SIGCONT) };
    }
}
