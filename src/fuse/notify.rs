//! Notifications to the kernel.
//!
//! The kernel may hold a page lock that only a request to us will free, so whoever notifies
//! may wait for a handler. Notifications are therefore sent by a thread of their own; telling
//! it never waits. Names are never invalidated: where documents come and go the kernel does
//! not believe names in the first place (TTL 0), and a notification to a dying mount can hang.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fuser::INodeNo;
use parking_lot::{Condvar, Mutex};

use super::polls::Polls;
use crate::vfs::Node;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    /// What the kernel believes about the node is out of date.
    Outdated { node: Node, offset: i64, len: i64 },
    /// Who polls a handle on the node has to look again.
    Wake(Node),
}

/// The shortest time between two rounds: what is told often is told together, and whoever tells
/// need not wake the thread each time.
const PAUSE: Duration = Duration::from_millis(1);

/// So many of the newest are looked through for the same.
const ALIKE: usize = 64;

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// In order.
    news: VecDeque<News>,
    ended: bool,
}

impl Queue {
    fn put(&self, news: News) {
        let mut state = self.state.lock();
        if state.news.iter().rev().take(ALIKE).any(|n| *n == news) {
            return;
        }
        state.news.push_back(news);
        drop(state);
        self.came.notify_one();
    }

    /// What has come, when something has; empty at the end.
    fn take(&self) -> VecDeque<News> {
        let mut state = self.state.lock();
        while state.news.is_empty() && !state.ended {
            self.came.wait(&mut state);
        }
        std::mem::take(&mut state.news)
    }
}

/// Ends the thread with the last notifier.
#[derive(Debug)]
struct Teller(Arc<Queue>);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.came.notify_one();
    }
}

/// Tells the kernel that something changed. Clones share the thread; it ends with the last of
/// them.
#[derive(Debug, Clone)]
pub struct Notifier(Arc<Teller>);

impl Notifier {
    /// Drops the kernel's attributes of `node`, and its pages from `offset` on: `len` bytes, all
    /// for 0. A negative `offset` leaves the pages alone. Returns at once.
    pub fn inval_inode(&self, node: Node, offset: i64, len: i64) {
        self.0.0.put(News::Outdated { node, offset, len });
    }

    /// Makes everybody who polls a handle on `node` look again. Returns at once.
    pub fn wake(&self, node: Node) {
        self.0.0.put(News::Wake(node));
    }

    pub(super) fn start(kernel: fuser::Notifier, polls: Arc<Polls>) -> std::io::Result<Notifier> {
        let queue = Arc::<Queue>::default();
        let news = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("ifs-notify".to_owned())
            .spawn(move || serve(&news, &kernel, &polls))?;
        Ok(Notifier(Arc::new(Teller(queue))))
    }
}

fn serve(queue: &Queue, kernel: &fuser::Notifier, polls: &Polls) {
    loop {
        let batch = queue.take();
        if batch.is_empty() {
            return;
        }
        for news in batch {
            match news {
                News::Outdated { node, offset, len } => {
                    if let Err(e) = kernel.inval_inode(INodeNo(node), offset, len) {
                        log::debug!("the kernel does not take an invalidation of {node}: {e}");
                    }
                }
                News::Wake(node) => {
                    for waiting in polls.take(node) {
                        if let Err(e) = waiting.notify() {
                            log::debug!("a poll of node {node} could not be woken: {e}");
                        }
                    }
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_often_is_told_once_and_the_end_comes_last() {
        let queue = Arc::<Queue>::default();
        let teller = Teller(Arc::clone(&queue));
        for _ in 0..3 {
            queue.put(News::Wake(1));
            queue.put(News::Outdated { node: 1, offset: 0, len: 0 });
        }
        assert_eq!(queue.take(), [News::Wake(1), News::Outdated { node: 1, offset: 0, len: 0 }]);
        // What came after it was taken is told again.
        queue.put(News::Wake(1));
        drop(teller);
        assert_eq!(queue.take(), [News::Wake(1)]);
        assert_eq!(queue.take(), []);
    }
}
