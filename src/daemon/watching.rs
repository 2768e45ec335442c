//! Telling commands of new versions and refused saves over the control socket.
//!
//! A watcher is told that there may be news, never what: it reads the history itself. So
//! nothing is queued here, a slow watcher misses nothing, and whoever publishes a version only
//! counts up.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control::{Answer, Peer};

/// Watchers at the same time.
const WATCHERS: usize = 256;
/// How often a watcher without news is looked after: one that is gone is let go.
const LOOK: Duration = Duration::from_secs(1);

/// The counter that watchers wait on.
#[derive(Debug, Default)]
pub struct News {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    published: u64,
    watchers: usize,
    ended: bool,
}

impl News {
    /// A version was published, or a save was refused. Never waits for a watcher.
    pub fn tell(&self) {
        self.state.lock().published += 1;
        self.changed.notify_all();
    }

    /// No more news: all watchers are let go.
    pub fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    /// Serves one watcher until it is gone or the news end; the calling thread is its own.
    pub fn serve(&self, mut peer: Peer) {
        let mut told = {
            let mut state = self.state.lock();
            if state.ended || state.watchers >= WATCHERS {
                drop(state);
                peer.answer(&Answer::Failed { message: "too many watchers".to_owned() });
                return;
            }
            state.watchers += 1;
            state.published
        };
        peer.answer(&Answer::Watching);
        let mut stream = peer.into_stream();
        if let Err(e) = stream.set_nonblocking(true) {
            log::debug!("control: a watcher was let go: {e}");
        } else {
            while let Some(published) = self.next(told) {
                if !(if published == told { listens(&stream) } else { wake(&mut stream) }) {
                    break;
                }
                told = published;
            }
        }
        self.state.lock().watchers -= 1;
    }

    /// Waits for something newer than `told`, or for the time of the next look. `None` at the
    /// end.
    fn next(&self, told: u64) -> Option<u64> {
        let mut state = self.state.lock();
        if state.published == told && !state.ended {
            self.changed.wait_for(&mut state, LOOK);
        }
        (!state.ended).then_some(state.published)
    }
}

/// One byte; when there is no room for it, the watcher has not read earlier ones, and they will
/// do. Whether the watcher is still there.
fn wake(stream: &mut UnixStream) -> bool {
    match stream.write_all(b"\n") {
        Ok(()) => true,
        Err(e) => matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

fn listens(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now)) {
        Ok(_) => !fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::control::{Connection, Request, listen};
    use super::*;

    #[test]
    fn watchers_are_told_and_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let news = Arc::<News>::default();
        let served = Arc::clone(&news);
        listen(dir.path(), move |request, peer| {
            assert_eq!(request, Request::Watch { file: None });
            served.serve(peer);
        })
        .unwrap();
        let wait = Duration::from_secs(10);
        let watch = || {
            let mut c = Connection::open(dir.path()).unwrap();
            c.ask(&Request::Watch { file: None }).unwrap();
            assert_eq!(c.answer(wait).unwrap(), Some(Answer::Watching));
            c
        };
        let (mut one, two, mut slow) = (watch(), watch(), watch());
        assert_eq!(one.news(Duration::from_millis(1)).unwrap(), Some(false));
        news.tell();
        assert_eq!(one.news(wait).unwrap(), Some(true));
        drop(two);
        // One that never reads holds nobody up and still learns of it.
        for _ in 0..10_000 {
            news.tell();
        }
        assert_eq!(slow.news(wait).unwrap(), Some(true));
        let until = std::time::Instant::now() + wait;
        while news.state.lock().watchers != 2 {
            assert!(std::time::Instant::now() < until, "the one that left was let go");
            std::thread::sleep(Duration::from_millis(10));
        }
        news.end();
        while one.news(wait).unwrap().is_some() {}
        let mut late = Connection::open(dir.path()).unwrap();
        late.ask(&Request::Watch { file: None }).unwrap();
        assert!(matches!(late.answer(wait).unwrap(), Some(Answer::Failed { .. })));
    }
}
