//! The file system of an open store: plain files, the tree above them, the kernel above both.

use std::sync::mpsc::Sender;

use serde_json::Value;

use super::error::{DaemonError, Result};
use super::instance::Instance;
use super::serve::{Event, Settings};

/// A mounted store.
pub struct Mounted {}

impl Mounted {
    /// Mounts. `events` is told when the session ends.
    pub fn start(
        instance: &Instance,
        settings: &Settings,
        events: Sender<Event>,
    ) -> Result<Mounted> {
        let _ = (instance, events);
        Err(DaemonError::Mount {
            path: settings.mountpoint.clone(),
            source: std::io::Error::from(std::io::ErrorKind::Unsupported),
        })
    }

    /// What is due: appends of long-lived handles.
    pub fn tick(&self) {}

    /// Takes the mount out of the tree unless it is in use (`EBUSY`).
    pub fn unmount(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Finishes what is in flight, keeps unsaved buffers, takes the mount away in any case and
    /// waits for the end of the session.
    pub fn leave(&self) {}

    /// How often each operation was served and how long it took.
    pub fn operations(&self) -> Value {
        Value::Null
    }
}
