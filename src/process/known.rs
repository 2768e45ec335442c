//! Processes that have just asked, held so that the next question costs little: a pidfd that is
//! not readable is that of the same living process, and `comm` is read again through the file that
//! is open already. Both answer at once, whatever the process does.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags};

use super::ProcId;

/// Processes held at once, with two descriptors each.
const HELD: usize = 32;
/// How long one is held that does not ask.
const REST: Duration = Duration::from_secs(2);
/// `comm` has at most 15 bytes and a line end.
const NAME: usize = 32;

#[derive(Debug)]
struct Held {
    id: ProcId,
    pidfd: OwnedFd,
    comm: OwnedFd,
    asked: Instant,
}

impl Held {
    fn lives(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())) == Ok(0)
    }

    fn name(&self) -> Option<String> {
        let mut name = [0; NAME];
        let len = rustix::io::pread(&self.comm, &mut name, 0).ok()?;
        let name = name[..len].strip_suffix(b"\n")?;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

/// The processes that asked last.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Vec<Held>>);

impl Known {
    /// Who has this thread group id now and what it is called, if it is held and lives.
    pub(super) fn of(&self, pid: u32) -> Option<(ProcId, String)> {
        let mut held = self.0.lock();
        let at = held.iter().position(|h| h.id.pid == pid)?;
        if !held[at].lives() {
            held.swap_remove(at);
            return None;
        }
        held[at].asked = Instant::now();
        Some((held[at].id, held[at].name()?))
    }

    /// It is held and lives.
    pub(super) fn lives(&self, id: ProcId) -> bool {
        self.0.lock().iter().any(|h| h.id == id && h.lives())
    }

    /// Holds a process, if there are descriptors left.
    pub(super) fn hold(&self, id: ProcId, pidfd: OwnedFd) {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let path = format!("/proc/{}/comm", id.pid);
        let Ok(comm) = rustix::fs::openat(CWD, path, flags, Mode::empty()) else { return };
        let new = Held { id, pidfd, comm, asked: Instant::now() };
        // Its name was opened while the number was still its own.
        if !new.lives() {
            return;
        }
        let mut held = self.0.lock();
        held.retain(|h| h.id.pid != id.pid);
        if held.len() >= HELD
            && let Some(oldest) = (0..held.len()).min_by_key(|i| held[*i].asked)
        {
            held.swap_remove(oldest);
        }
        held.push(new);
    }

    /// Lets go of those that have ended or have not asked for long.
    pub(super) fn rest(&self) {
        self.0.lock().retain(|h| h.asked.elapsed() < REST && h.lives());
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Processes, System};
    use super::*;

    #[test]
    fn a_held_process_is_known_by_its_present_name_until_it_ends() {
        let system = System::default();
        // The shell waits for a line, then becomes another program.
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read x; exec sleep 30"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let asked = |system: &System| system.of_thread(pid).unwrap();
        let shell = (0..400)
            .find_map(|_| {
                std::thread::sleep(Duration::from_millis(5));
                Some(asked(&system)).filter(|p| p.program == "sh")
            })
            .expect("a shell");
        assert_eq!(asked(&system), shell);
        assert!(system.alive(shell.id));
        drop(child.stdin.take());
        let pause = || std::thread::sleep(Duration::from_millis(5));
        let slept = (0..400).any(|_| {
            pause();
            let now = asked(&system);
            now.id == shell.id && now.program == "sleep"
        });
        assert!(slept);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(system.of_thread(shell.id.pid), None);
        assert!(!system.alive(shell.id));
    }

    #[test]
    fn no_more_are_held_than_there_is_room_for() {
        let system = System::default();
        let sleep = || std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let mut children: Vec<_> = (0..HELD + 3).map(|_| sleep()).collect();
        for child in &children {
            assert_eq!(system.of_thread(child.id()).unwrap().id.pid, child.id());
        }
        assert_eq!(system.known.0.lock().len(), HELD);
        assert!(system.known.of(children[0].id()).is_none());
        assert!(system.known.of(children[HELD].id()).is_some());
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        system.known.rest();
        assert!(system.known.0.lock().is_empty());
    }
}
