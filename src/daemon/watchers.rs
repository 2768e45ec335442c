//! Tells the kernel, and whoever watches a document, of new versions (semantics section 7).
//!
//! The kernel makes inotify events for what programs do, not for what a file system does by
//! itself. So a thread of the daemon touches the document through the mount: a change of the
//! modification time alone is `IN_MODIFY`, one of both times is `IN_ATTRIB`, opening it for writing
//! and closing it `IN_CLOSE_WRITE`; every watcher waits for one of them. The tree knows this
//! process and does not take it for a `utimens`, and what was opened and never written is no save.
//!
//! Saves through the mount are told as well. The events of their writes come before the commit,
//! when a reader still gets the old version; a rename tells only those who watch the directory; and
//! a save of `config.json` changes `config.yaml` too.
//!
//! Who has just taken the event of a write, and has read the old version then, may drop what comes
//! in the next moment as part of the same change (chokidar for 50 ms, entr as well). So after such
//! a save there is one more event when that moment is over.
//!
//! The thread waits for requests that may wait for a gate, so it is no other thread's business;
//! and it has no descriptors, so that a killed daemon does not wait for it
//! ([`detach_descriptors`]).

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, Timespec, Timestamps};
use rustix::fs::{UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use super::watching::News;
use crate::documents::live::Listener;
use crate::fuse::{Mount, detach_descriptors};
use crate::model::View;
use crate::vfs::Tree;
use crate::vfs::both::Both;

/// Time between two rounds: many saves in a row are told together.
const PAUSE: Duration = Duration::from_millis(25);

/// How long after it was told a version is told again whose writes were seen before it: longer than
/// watchers take several events for one.
const AGAIN: Duration = Duration::from_millis(75);

/// A new version of what has this name.
struct Told {
    view: View,
    /// Watchers have seen it being written.
    written: bool,
}

/// Starts telling, also those who watch over the control socket (`commands`); ends when
/// `documents` and their listener are gone.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(
    documents: &Both,
    mount: &Mount,
    tree: Weak<Tree>,
    commands: Arc<News>,
) -> std::io::Result<()> {
    let (send, news) = mpsc::channel::<Told>();
    let kernel = mount.notifier();
    let place = Place::of(mount);
    std::thread::Builder::new().name("watchers".into()).spawn(move || serve(&news, &place))?;
    let listener: Listener = Arc::new(move |published| {
        commands.tell();
        for view in published.doc.views() {
            let node = Tree::node_of(view);
            kernel.inval_inode(node, 0, 0);
            kernel.wake(node);
            let written = tree.upgrade().is_some_and(|tree| tree.is_written(view));
            // Fails only when the thread is gone.
            let _ = send.send(Told { view, written });
        }
    });
    documents.set_listener(&listener);
    Ok(())
}

fn serve(news: &Receiver<Told>, place: &Place) {
    if let Err(e) = detach_descriptors() {
        log::warn!("watchers are not told of new versions: {e}");
        return;
    }
    // Nothing is logged from here on: the log is a descriptor as well.
    let mut again = Vec::<(View, Instant)>::new();
    loop {
        let first = match again.iter().map(|(_, due)| *due).min() {
            Some(due) => news.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => news.recv().map_err(|mpsc::RecvError| RecvTimeoutError::Disconnected),
        };
        let first = match first {
            Ok(told) => Some(told),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut views = Vec::new();
        for Told { view, written } in first.into_iter().chain(news.try_iter()) {
            if !views.contains(&view) {
                views.push(view);
            }
            if written {
                again.retain(|(other, _)| *other != view);
                again.push((view, Instant::now() + AGAIN));
            }
        }
        let now = Instant::now();
        let due: Vec<View> = again.extract_if(.., |(_, due)| *due <= now).map(|(v, _)| v).collect();
        // The mount is gone or has no such name: nobody watches.
        let _ = place.touch(&views, &due);
        std::thread::sleep(PAUSE);
    }
}

/// Where the mount is.
pub(super) struct Place {
    point: PathBuf,
    /// The minor number of its `st_dev`.
    device: u32,
}

impl Place {
    /// Of this mount.
    pub(super) fn of(mount: &Mount) -> Place {
        Place { point: mount.point().to_owned(), device: mount.connection_id() }
    }

    /// The root of the mount; not what was mounted there later, nor the directory below it.
    pub(super) fn root(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, &self.point, flags, Mode::empty())?;
        let unasked = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(&root, c"", unasked, StatxFlags::empty())?;
        if (stat.stx_dev_major, stat.stx_dev_minor) != (0, self.device) {
            return Err(Errno::NODEV);
        }
        Ok(root)
    }

    /// Makes the events: all kinds for the `views`, one for those that are told `again`. Touches
    /// nothing but the mount.
    fn touch(&self, views: &[View], again: &[View]) -> Result<(), Errno> {
        let root = self.root()?;
        for view in views {
            for atime in [UTIME_OMIT, UTIME_NOW] {
                let _ = set_times(&root, *view, atime);
            }
            let name = Path::new(view.name());
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            drop(rustix::fs::openat(&root, name, flags, Mode::empty()));
        }
        for view in again.iter().filter(|view| !views.contains(view)) {
            let _ = set_times(&root, *view, UTIME_OMIT);
        }
        Ok(())
    }
}

fn set_times(root: &OwnedFd, view: View, atime: i64) -> Result<(), Errno> {
    let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let times = Timestamps { last_access: time(atime), last_modification: time(UTIME_NOW) };
    rustix::fs::utimensat(root, Path::new(view.name()), &times, AtFlags::SYMLINK_NOFOLLOW)
}
