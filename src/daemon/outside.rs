//! Notices commits by other programs (R9) soon, so that watchers are told (semantics section 7).
//! Readers do not depend on it: they ask the database themselves.
//!
//! Another program's commit is a write to the database's `-wal` file, and the kernel tells of
//! that. It does so before the commit can be seen, and a large one takes several writes; so the
//! rows are looked at again after 1, 2, 4 ... ms for a while.

use std::io::{PipeWriter, pipe};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;

use crate::documents::live::Live;
use crate::store::DB_NAME;

/// How long after a write the rows are looked at again and again.
const ALERT: Duration = Duration::from_millis(200);
/// The shortest time between two looks.
const SOONEST: Duration = Duration::from_millis(1);
/// The longest while alert, and always where the kernel tells nothing.
const LATEST: Duration = Duration::from_millis(16);
/// Time between looks when nothing is written.
const IDLE: Duration = Duration::from_millis(500);

/// The thread that looks; dropped, it is stopped and waited for.
pub struct Outside {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Outside {
    /// Starts looking.
    ///
    /// # Errors
    /// When there is no thread or no pipe.
    pub fn start(live: &Arc<Live>) -> std::io::Result<Outside> {
        let (stopped, stop) = pipe()?;
        let watch = Watch::new(live.store().dir().join(format!("{DB_NAME}-wal")));
        let live = Arc::clone(live);
        let thread = std::thread::Builder::new()
            .name("outside".into())
            .spawn(move || serve(&live, watch, &stopped.into()))?;
        Ok(Outside { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It has logged what went wrong.
            let _ = thread.join();
        }
    }
}

fn serve(live: &Live, mut watch: Watch, stopped: &OwnedFd) {
    let mut alert_until = Instant::now();
    let mut pause = SOONEST;
    loop {
        let told = watch.renew();
        let alert = Instant::now() < alert_until;
        let (events, limit) = match (told, alert) {
            // Under load there would be an event for every commit.
            (_, true) => (None, pause),
            (true, false) => (watch.events.as_ref(), IDLE),
            (false, false) => (None, LATEST),
        };
        match wait(stopped, events, limit) {
            Ok(true) => return,
            Ok(false) => {}
            Err(e) => {
                log::warn!("changes by other programs: {e}");
                std::thread::sleep(LATEST);
            }
        }
        pause = (pause * 2).min(LATEST);
        if watch.drain() {
            if !alert {
                pause = SOONEST;
            }
            alert_until = Instant::now() + ALERT;
        }
        // The look takes in all documents.
        if let Err(e) = live.notice() {
            log::debug!("not looked at: {e}");
        }
    }
}

/// Waits until there are events, at most for `limit`. `true`: it is time to stop.
fn wait(stopped: &OwnedFd, events: Option<&OwnedFd>, limit: Duration) -> Result<bool, Errno> {
    let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
    let mut fds = vec![PollFd::new(stopped, PollFlags::IN)];
    fds.extend(events.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
    match poll(&mut fds, Some(&limit)) {
        Ok(_) => Ok(!fds[0].revents().is_empty()),
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(e),
    }
}

/// The kernel's news of one file.
struct Watch {
    path: PathBuf,
    /// `None`: the kernel offers no inotify.
    events: Option<OwnedFd>,
    /// The file is there and watched.
    on: bool,
}

impl Watch {
    fn new(path: PathBuf) -> Watch {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let events = inotify::init(flags)
            .inspect_err(|e| log::info!("other programs' changes are polled for: {e}"))
            .ok();
        Watch { path, events, on: false }
    }

    /// Watches the file that has the name now. Whether that can be.
    fn renew(&mut self) -> bool {
        if let (Some(events), false) = (&self.events, self.on) {
            let flags = inotify::WatchFlags::MODIFY | inotify::WatchFlags::ATTRIB;
            let flags = flags | inotify::WatchFlags::DELETE_SELF | inotify::WatchFlags::MOVE_SELF;
            self.on = inotify::add_watch(events, &self.path, flags).is_ok();
        }
        self.on
    }

    /// Takes all events. Whether there were any.
    fn drain(&mut self) -> bool {
        let Some(events) = &self.events else { return false };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        let mut any = false;
        while let Ok(event) = reader.next() {
            any = true;
            let gone = inotify::ReadFlags::IGNORED
                | inotify::ReadFlags::DELETE_SELF
                | inotify::ReadFlags::MOVE_SELF;
            self.on &= !event.events().intersects(gone);
        }
        any
    }
}
