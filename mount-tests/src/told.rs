//! How long a watcher waits for the news of another program's commit.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{ARRIVES, Instance};

/// Inserts a mission with SQLite, `rounds` times, with pauses of various lengths. The times from
/// the return of each commit to the `IN_MODIFY` of a watcher of `missions.md`, sorted.
///
/// # Panics
/// When there is no news within [`ARRIVES`].
pub fn delays(it: &Instance, rounds: u32) -> Vec<Duration> {
    let mut events = watch(&it.path("missions.md"));
    let db = it.database();
    let mut delays: Vec<Duration> = (0..rounds)
        .map(|round| {
            std::thread::sleep(Duration::from_millis(u64::from(20 + round * 37 % 300)));
            drain(&mut events);
            let text = format!("told {round}");
            db.execute(
                "insert into missions(text, state, sequence) values (?1, 'pending', ?2)",
                (text, 1_000_000 + round),
            )
            .expect("insert");
            let start = Instant::now();
            assert!(arrives(&events), "no news of a commit within {ARRIVES:?}");
            start.elapsed()
        })
        .collect();
    delays.sort_unstable();
    delays
}

fn watch(path: &Path) -> File {
    let path = CString::new(path.as_os_str().as_bytes()).expect("path");
    // SAFETY: the path is a C string; the new descriptor is owned by the file alone.
    unsafe {
        let fd = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
        assert!(fd >= 0, "inotify: {}", std::io::Error::last_os_error());
        let events = File::from_raw_fd(fd);
        let watch = libc::inotify_add_watch(fd, path.as_ptr(), libc::IN_MODIFY);
        assert!(watch >= 0, "inotify: {}", std::io::Error::last_os_error());
        events
    }
}

fn drain(events: &mut File) {
    let mut buffer = [0; 4096];
    while matches!(events.read(&mut buffer), Ok(1..)) {}
}

fn arrives(events: &File) -> bool {
    let mut fd = libc::pollfd { fd: events.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = i32::try_from(ARRIVES.as_millis()).expect("a limit");
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut fd, 1, limit) == 1 }
}
