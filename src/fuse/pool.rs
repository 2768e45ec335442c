//! Threads for what may take long, so that no event loop ever waits for a commit.
//!
//! Jobs with the same key run one after the other in the order in which they came; jobs with
//! different keys, or none, run beside each other. A commit may wait for the database for
//! seconds, so a fixed number of threads could all be waiting: the pool grows while every
//! thread is busy, up to a limit, and idle threads end.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// A job.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Threads that stay even when idle.
const KEPT: usize = 2;
/// Most threads at once; further jobs wait.
const MOST: usize = 128;
/// How long an idle thread waits for work.
const IDLE: Duration = Duration::from_secs(10);

/// Time between two looks at what is done inline, while the end is waited for.
const INLINE_POLL: Duration = Duration::from_millis(1);

#[derive(Default)]
struct State {
    ready: VecDeque<(Option<u64>, Job)>,
    /// A key is here while a job of it is ready or runs; the queue holds those behind it.
    behind: HashMap<u64, VecDeque<Job>>,
    threads: usize,
    idle: usize,
    /// Jobs that are not finished.
    pending: usize,
}

/// The pool. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Event loops that do the like of a job themselves.
    inline: AtomicUsize,
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

/// A thread at work beside the pool.
pub(super) struct Inline<'p>(&'p AtomicUsize);

impl Drop for Inline<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Pool {
    /// Runs `job` soon: after all earlier ones of the same key.
    pub(super) fn run(&self, key: Option<u64>, job: Job) {
        let mut state = self.0.state.lock();
        state.pending += 1;
        if let Some(key) = key {
            if let Some(queue) = state.behind.get_mut(&key) {
                queue.push_back(job);
                return;
            }
            state.behind.insert(key, VecDeque::new());
        }
        state.ready.push_back((key, job));
        if state.ready.len() > state.idle && state.threads < MOST {
            state.threads += 1;
            drop(state);
            self.grow();
        } else {
            drop(state);
            self.0.work.notify_one();
        }
    }

    fn grow(&self) {
        let pool = self.clone();
        let spawned =
            std::thread::Builder::new().name("ifs-work".to_owned()).spawn(move || pool.work());
        if let Err(e) = spawned {
            let mut state = self.0.state.lock();
            state.threads -= 1;
            let none_left = state.threads == 0;
            drop(state);
            log::error!("no thread for a request: {e}");
            if none_left {
                self.run_all_here();
            }
        }
    }

    /// Without any thread, the caller does the work: slow, but nothing hangs.
    fn run_all_here(&self) {
        loop {
            let next = self.0.state.lock().ready.pop_front();
            let Some((key, job)) = next else { return };
            self.complete(key, job);
        }
    }

    fn work(&self) {
        loop {
            let mut state = self.0.state.lock();
            let deadline = Instant::now() + IDLE;
            let (key, job) = loop {
                if let Some(next) = state.ready.pop_front() {
                    break next;
                }
                state.idle += 1;
                let late = self.0.work.wait_until(&mut state, deadline).timed_out();
                state.idle -= 1;
                if late && state.ready.is_empty() {
                    if state.threads > KEPT {
                        state.threads -= 1;
                        return;
                    }
                    // Kept: waits on without a deadline.
                    state.idle += 1;
                    self.0.work.wait(&mut state);
                    state.idle -= 1;
                }
            };
            drop(state);
            self.complete(key, job);
        }
    }

    /// Runs a job and lets the next one of its key go. Handlers have a panic boundary of their
    /// own; this one is for the sending of answers, so that a key is never stuck.
    fn complete(&self, key: Option<u64>, job: Job) {
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            log::error!("an answer could not be sent");
        }
        let mut state = self.0.state.lock();
        state.pending -= 1;
        if let Some(key) = key {
            match state.behind.get_mut(&key).and_then(VecDeque::pop_front) {
                // This thread takes it or another one: whoever looks first.
                Some(next) => {
                    state.ready.push_back((Some(key), next));
                    self.0.work.notify_one();
                }
                None => {
                    state.behind.remove(&key);
                }
            }
        }
        if state.pending == 0 {
            self.0.done.notify_all();
        }
    }

    /// The calling thread does what could be a job itself until this is dropped; `None` when `most`
    /// do so already.
    pub(super) fn inline(&self, most: usize) -> Option<Inline<'_>> {
        let inline = Inline(&self.0.inline);
        (self.0.inline.fetch_add(1, Ordering::AcqRel) < most).then_some(inline)
    }

    /// Waits until nothing is pending or done inline. `false` if that took longer than `patience`.
    pub(super) fn drain(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.0.state.lock();
        while state.pending > 0 {
            if self.0.done.wait_until(&mut state, deadline).timed_out() {
                return state.pending == 0;
            }
        }
        drop(state);
        while self.0.inline.load(Ordering::Acquire) > 0 {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(INLINE_POLL);
        }
        true
    }

    /// Threads, and jobs that are not finished.
    pub(super) fn load(&self) -> (usize, usize) {
        let state = self.0.state.lock();
        (state.threads, state.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_keeps_its_order() {
        let pool = Pool::default();
        let seen = Arc::new(Mutex::new(HashMap::<u64, Vec<u32>>::new()));
        for n in 0..2000 {
            let key = u64::from(n % 7);
            let seen = Arc::clone(&seen);
            pool.run(Some(key), Box::new(move || seen.lock().entry(key).or_default().push(n)));
        }
        assert!(pool.drain(Duration::from_secs(20)));
        let seen = seen.lock();
        assert_eq!(seen.values().map(Vec::len).sum::<usize>(), 2000);
        assert!(seen.values().all(|order| order.is_sorted()));
        assert!(pool.0.state.lock().behind.is_empty());
    }

    #[test]
    fn a_panic_holds_nobody_up() {
        let pool = Pool::default();
        let (tell, told) = std::sync::mpsc::channel();
        for n in 0..10 {
            let tell = tell.clone();
            pool.run(
                Some(1),
                Box::new(move || {
                    assert!(n % 2 == 0, "on purpose");
                    let _ = tell.send(n);
                }),
            );
        }
        assert!(pool.drain(Duration::from_secs(20)));
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
    }

    #[test]
    fn a_waiting_job_does_not_hold_up_others() {
        let pool = Pool::default();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for key in 0..40 {
            let gate = Arc::clone(&gate);
            pool.run(
                Some(key),
                Box::new(move || {
                    let _ = gate.lock().recv();
                }),
            );
        }
        let (tell, told) = std::sync::mpsc::channel();
        pool.run(
            Some(1000),
            Box::new(move || {
                let _ = tell.send(());
            }),
        );
        assert!(told.recv_timeout(Duration::from_secs(10)).is_ok());
        assert!(!pool.drain(Duration::from_millis(1)));
        drop(open);
        assert!(pool.drain(Duration::from_secs(10)));
    }
}
