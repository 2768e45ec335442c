//! What goes on beside the requests: outside changes, long-lived appends, syncing, housekeeping.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::memory;
use super::outside::Outside;
use super::settling::Settling;
use crate::vfs::both::Both;
use crate::vfs::ports::Documents;

/// How often handles are looked at for appends that are due, and rows that wait for
/// `missions.lock` are tried again (somebody may have put another file in its place).
const TICK: Duration = Duration::from_millis(50);
/// The pause between two looks at what waits, each of which waits for news itself.
const TRY: Duration = Duration::from_millis(1);
/// How long committed work may wait for the device (R8: about a second).
const SYNC: Duration = Duration::from_millis(700);
/// Time between two rounds of housekeeping.
const MAINTAIN: Duration = Duration::from_secs(60);

/// The threads; dropped, they are stopped and waited for.
pub struct Background {
    outside: Option<Outside>,
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts them. `tick` is called 20 times a second.
    pub fn start(
        documents: &Arc<Both>,
        tick: impl Fn() + Send + 'static,
    ) -> std::io::Result<Background> {
        let live = &documents.live;
        let outside = Some(Outside::start(live)?);
        let mut background = Background { outside, stop: Vec::new(), threads: Vec::new() };
        let ticking = Arc::clone(documents);
        background.every("tick", TICK, move || {
            if let Err(e) = ticking.live.settle() {
                log::debug!("rows still wait: {e}");
            }
            ticking.managed.tick();
            tick();
        })?;
        let waiting = Arc::clone(live);
        let mut settling = Settling::default();
        background.every("rows", TRY, move || settling.step(&waiting))?;
        let syncing = Arc::clone(documents);
        background.every("sync", SYNC, move || {
            if (syncing.live.store().is_dirty() || syncing.managed.is_dirty())
                && let Err(e) = syncing.sync()
            {
                log::warn!("not synced: {e}");
            }
        })?;
        let maintained = Arc::clone(documents);
        background.every("maintain", MAINTAIN, move || {
            if let Err(e) = maintained.maintain() {
                log::warn!("housekeeping: {e}");
            }
            memory::give_back();
        })?;
        Ok(background)
    }

    fn every(
        &mut self,
        name: &str,
        pause: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> std::io::Result<()> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                work();
            }
        })?;
        self.stop.push(stop);
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.outside = None;
        self.stop.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
