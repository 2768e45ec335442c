//! Rows that wait for `missions.lock` (R9) are written as soon as whoever holds it lets go.
//!
//! A thread of its own stands in the kernel's queue for the lock while rows wait, among the
//! other programs that do: so the rows are written at the moment of unlocking, and get their
//! turn between programs that hand the lock to each other without a break.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::documents::live::Live;
use crate::store::Turn;

/// The longest that one step waits for news.
const NEWS: Duration = Duration::from_millis(50);
/// How often a database that is busy is asked again while the lock is ours: another program may
/// wait for the lock with the database in its hands.
const TRIES: u32 = 20;
/// The pause between two of these.
const PAUSE: Duration = Duration::from_millis(1);

/// Where the waiting stands.
#[derive(Default)]
pub struct Settling {
    /// A thread waits for its turn. It may outlast what it was started for.
    turn: Option<Receiver<Turn>>,
}

impl Settling {
    /// Waits for one piece of news, at most for a moment, and does what it asks for.
    pub fn step(&mut self, live: &Live) {
        let Some(turn) = &self.turn else {
            if live.await_waiting(NEWS) {
                self.queue(live);
            }
            return;
        };
        match turn.recv_timeout(NEWS) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                self.turn = None;
                std::thread::sleep(NEWS);
            }
            Ok(ours) => {
                self.turn = None;
                settle(live);
                drop(ours);
            }
        }
    }

    fn queue(&mut self, live: &Live) {
        let (done, turn) = channel();
        let own = live.store().turn();
        // Nobody waits for this thread: it may be in the queue when the process ends.
        let started = std::thread::Builder::new().name("turn".into()).spawn(move || {
            match own.wait() {
                // Nobody may be there any more: it is given back then.
                Ok(()) => drop(done.send(own)),
                Err(e) => log::warn!("rows wait for missions.lock: {e}"),
            }
        });
        match started {
            Ok(_) => self.turn = Some(turn),
            Err(e) => {
                log::warn!("rows wait for missions.lock: {e}");
                std::thread::sleep(NEWS);
            }
        }
    }
}

/// With the lock in our hands.
fn settle(live: &Live) {
    for _ in 0..TRIES {
        match live.settle() {
            Ok(true) => return,
            Ok(false) => {}
            Err(e) => {
                log::debug!("rows still wait: {e}");
                return;
            }
        }
        std::thread::sleep(PAUSE);
    }
}
