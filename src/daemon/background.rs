//! What goes on beside the requests: outside changes, long-lived appends, syncing, housekeeping.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::documents::live::Live;
use crate::model::DocId;

/// How often the rows are looked at for changes by other programs (semantics section 7 allows
/// 50 ms), and handles for appends that are due.
const TICK: Duration = Duration::from_millis(25);
/// How often rows that wait for `missions.lock` are tried again.
const SETTLE: Duration = Duration::from_millis(50);
/// How long committed work may wait for the device (R8: about a second).
const SYNC: Duration = Duration::from_millis(700);
/// Time between two rounds of housekeeping.
const MAINTAIN: Duration = Duration::from_secs(60);

/// The threads; dropped, they are stopped and waited for.
pub struct Background {
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts them. `tick` is called every [`TICK`].
    pub fn start(
        live: &Arc<Live>,
        tick: impl Fn() + Send + 'static,
    ) -> std::io::Result<Background> {
        let mut background = Background { stop: Vec::new(), threads: Vec::new() };
        let ticking = Arc::clone(live);
        let mut settled = Instant::now();
        background.every("tick", TICK, move || {
            // Asking for one document looks at the rows of all.
            if let Err(e) = ticking.current(DocId::Missions) {
                log::debug!("the rows were not looked at: {e}");
            }
            if settled.elapsed() >= SETTLE {
                settled = Instant::now();
                if let Err(e) = ticking.settle() {
                    log::debug!("rows still wait: {e}");
                }
            }
            tick();
        })?;
        let syncing = Arc::clone(live);
        background.every("sync", SYNC, move || {
            if syncing.store().is_dirty()
                && let Err(e) = syncing.sync()
            {
                log::warn!("not synced: {e}");
            }
        })?;
        let maintained = Arc::clone(live);
        background.every("maintain", MAINTAIN, move || {
            if let Err(e) = maintained.maintain() {
                log::warn!("housekeeping: {e}");
            }
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
        self.stop.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
