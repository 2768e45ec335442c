//! What a service manager is told: that the mount answers, that the daemon is alive, that it ends.
//!
//! The protocol is that of `sd_notify`: nothing happens unless `NOTIFY_SOCKET` is set.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sd_notify::NotifyState;

/// The service that this process is.
pub struct Service {
    /// How often the manager wants to hear that the daemon is alive (`WATCHDOG_USEC`), halved.
    every: Option<Duration>,
    last: Mutex<Option<Instant>>,
}

impl Service {
    /// As the environment of this process says.
    pub fn of_this_process() -> Service {
        let every = sd_notify::watchdog_enabled().map(|limit| limit / 2);
        Service { every, last: Mutex::default() }
    }

    /// The mount answers; `status` is one line for people.
    pub fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// The daemon is alive. Called more often than the manager wants to hear it, from where
    /// nothing is called when the daemon is stuck.
    pub fn alive(&self) {
        let Some(every) = self.every else { return };
        let mut last = self.last.lock();
        if last.is_none_or(|last| last.elapsed() >= every) {
            *last = Some(Instant::now());
            tell(&[NotifyState::Watchdog]);
        }
    }

    /// The daemon ends.
    pub fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }
}

fn tell(what: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(what) {
        log::warn!("the service manager was not told: {e}");
    }
}
