//! The file system of an open store: plain files, the tree above them, the kernel above both.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use serde_json::{Value, json};

use super::error::{DaemonError, Result};
use super::instance::Instance;
use super::serve::{Event, Settings};
use crate::fuse::{Mount, MountError, MountOptions};
use crate::vfs::Layer;
use crate::vfs::plain::Plain;

/// How long requests that are under way may take at the end.
const DRAIN: Duration = Duration::from_secs(10);

/// A mounted store.
pub struct Mounted {
    mount: Arc<Mount>,
}

impl Mounted {
    /// Mounts. `events` is told when the session ends.
    pub fn start(
        instance: &Instance,
        settings: &Settings,
        events: Sender<Event>,
    ) -> Result<Mounted> {
        let failed = |source| DaemonError::Mount { path: settings.mountpoint.clone(), source };
        let _ = instance;
        let plain = Plain::new(&settings.store).map_err(|e| DaemonError::InTheWay {
            path: settings.store.clone(),
            reason: e.to_string(),
        })?;
        let layer: Arc<dyn Layer> = Arc::new(plain);
        let options = MountOptions {
            allow_other: settings.allow_other,
            read_only: settings.read_only,
            fsname: settings.store.to_string_lossy().into_owned(),
        };
        let mount = Arc::new(Mount::new(layer, &settings.mountpoint, &options).map_err(failed)?);
        let watched = Arc::clone(&mount);
        let watch = move || {
            watched.wait();
            // Nobody listens when the daemon ended it itself.
            let _ = events.send(Event::Ended);
        };
        let started = std::thread::Builder::new().name("session-end".into()).spawn(watch);
        if let Err(source) = started {
            return Err(failed(MountError::Failed { point: settings.mountpoint.clone(), source }));
        }
        Ok(Mounted { mount })
    }

    /// What is due: appends of long-lived handles.
    pub fn tick(&self) {}

    /// Takes the mount out of the tree unless it is in use.
    pub fn unmount(&self) -> std::result::Result<(), MountError> {
        self.mount.unmount()
    }

    /// Finishes what is in flight, keeps unsaved buffers and takes the mount away in any case.
    /// Programs that still have files open in it can go on until this process ends.
    pub fn leave(&self) {
        if let Err(e) = self.mount.detach() {
            log::warn!("not detached: {e}");
        }
        if !self.mount.drain(DRAIN) {
            log::warn!("requests were still under way after {} s", DRAIN.as_secs());
        }
    }

    /// How often each operation was served and how long it took.
    pub fn operations(&self) -> Value {
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        let stats = self.mount.stats();
        let mut operations = serde_json::Map::new();
        for stat in stats.snapshot() {
            if stat.count > 0 {
                operations.insert(
                    stat.op.name().to_owned(),
                    json!({
                        "count": stat.count,
                        "errors": stat.errors,
                        "total_us": micros(stat.total),
                        "p50_us": micros(stat.p50),
                        "p99_us": micros(stat.p99),
                        "max_us": micros(stat.max),
                    }),
                );
            }
        }
        let load = self.mount.load();
        json!({
            "by_kind": operations,
            "panics": stats.panics(),
            "threads": load.threads,
            "pending": load.pending,
        })
    }
}
