//! Takes the files of processes that have ended away, through the mount, so that whoever watches
//! the directory is told.
//!
//! One thread waits for the ends of processes; it has descriptors, and asks the mount nothing.
//! Another one unlinks through the mount; it asks the mount, and has no descriptors
//! ([`detach_descriptors`]).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustix::fs::AtFlags;

use super::watchers::Place;
use crate::fuse::{Mount, detach_descriptors};
use crate::vfs::owned::Owned;

/// The thread that waits; it ends with [`Owned::close`].
pub struct Owners(Mutex<Option<JoinHandle<()>>>);

impl Owners {
    /// Starts both threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(owned: &Arc<Owned>, mount: &Mount) -> std::io::Result<Owners> {
        let (send, over) = mpsc::channel::<Vec<PathBuf>>();
        let place = Place::of(mount);
        std::thread::Builder::new().name("vanish".into()).spawn(move || vanish(&over, &place))?;
        let owned = Arc::clone(owned);
        let wait = move || {
            loop {
                let over = owned.wait();
                // The other thread is gone only when it could not do its work: then what is
                // over is taken away below the mount.
                if over.is_empty() || send.send(over).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("owners".into()).spawn(wait)?;
        Ok(Owners(Mutex::new(Some(thread))))
    }

    /// Waits for the thread, which ends soon after [`Owned::close`].
    pub fn join(&self) {
        if let Some(thread) = self.0.lock().take() {
            let _ = thread.join();
        }
    }
}

fn vanish(over: &Receiver<Vec<PathBuf>>, place: &Place) {
    if let Err(e) = detach_descriptors() {
        log::warn!("watchers are not told of the ends of processes: {e}");
        return;
    }
    // Nothing is logged from here on: the log is a descriptor as well.
    while let Ok(paths) = over.recv() {
        // The mount is gone: nobody watches.
        let Ok(root) = place.root() else { continue };
        for path in paths {
            // What is not over any more is not there for us.
            let _ = rustix::fs::unlinkat(&root, &path, AtFlags::empty());
        }
    }
}
