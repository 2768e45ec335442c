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
//! The thread waits for requests that may wait for a gate, so it is no other thread's business;
//! and it has no descriptors, so that a killed daemon does not wait for it
//! ([`detach_descriptors`]).

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

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

/// Starts telling, also those who watch over the control socket (`commands`); ends when
/// `documents` and their listener are gone.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(documents: &Both, mount: &Mount, commands: Arc<News>) -> std::io::Result<()> {
    let (send, news) = mpsc::channel::<View>();
    let kernel = mount.notifier();
    let place = Place::of(mount);
    std::thread::Builder::new().name("watchers".into()).spawn(move || serve(&news, &place))?;
    let listener: Listener = Arc::new(move |published| {
        commands.tell();
        for view in published.doc.views() {
            let node = Tree::node_of(view);
            kernel.inval_inode(node, 0, 0);
            kernel.wake(node);
            // Fails only when the thread is gone.
            let _ = send.send(view);
        }
    });
    documents.set_listener(&listener);
    Ok(())
}

fn serve(news: &Receiver<View>, place: &Place) {
    if let Err(e) = detach_descriptors() {
        log::warn!("watchers are not told of new versions: {e}");
        return;
    }
    // Nothing is logged from here on: the log is a descriptor as well.
    while let Ok(first) = news.recv() {
        let mut views = vec![first];
        for view in news.try_iter() {
            if !views.contains(&view) {
                views.push(view);
            }
        }
        // The mount is gone or has no such name: nobody watches.
        let _ = place.touch(&views);
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

    /// Makes the events. Touches nothing but the mount.
    fn touch(&self, views: &[View]) -> Result<(), Errno> {
        let root = self.root()?;
        for view in views {
            let name = Path::new(view.name());
            for atime in [UTIME_OMIT, UTIME_NOW] {
                let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
                let times =
                    Timestamps { last_access: time(atime), last_modification: time(UTIME_NOW) };
                let _ = rustix::fs::utimensat(&root, name, &times, AtFlags::SYMLINK_NOFOLLOW);
            }
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            drop(rustix::fs::openat(&root, name, flags, Mode::empty()));
        }
        Ok(())
    }
}
