//! The file system of an open store: plain files, the tree above them, the kernel above both.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Value, json};

use super::error::{DaemonError, Result};
use super::instance::Instance;
use super::leases::{Guard, names_of};
use super::owners::Owners;
use super::ports::StoreMemory;
use super::serve::{Event, Settings};
use super::status::{self, Running};
use super::watchers;
use super::watching::News;
use crate::documents::Version;
use crate::documents::files::Rules;
use crate::fuse::{Mount, MountError, MountOptions};
use crate::model::{SystemClock, View};
use crate::process::System;
use crate::vfs::both::Both;
use crate::vfs::owned::Owned;
use crate::vfs::plain::Plain;
use crate::vfs::ports::Documents;
use crate::vfs::report::Status;
use crate::vfs::{Layer, Options, Parts, Tree};

/// How long an unused mount may take to become free: handles are closed behind their program's
/// back.
const UNMOUNT: Duration = Duration::from_secs(1);
/// How long requests that are under way may take at the end.
const DRAIN: Duration = Duration::from_secs(5);

/// A mounted store.
pub struct Mounted {
    mount: Arc<Mount>,
    tree: Arc<Tree>,
    reporter: Arc<Reporter>,
    news: Arc<News>,
    owned: Arc<Owned>,
    owners: Owners,
}

impl Mounted {
    /// Mounts. `events` is told when the session ends.
    pub fn start(
        instance: &Instance,
        settings: &Settings,
        running: Running,
        events: Sender<Event>,
    ) -> Result<Mounted> {
        let failed = |source| DaemonError::Mount { path: settings.mountpoint.clone(), source };
        let news = Arc::<News>::default();
        let (tree, owned) = tree(instance, settings, &news)?;
        let tree = Arc::new(tree);
        let layer: Arc<dyn Layer> = Arc::clone(&tree) as Arc<dyn Layer>;
        let options = MountOptions {
            allow_other: settings.allow_other,
            read_only: settings.read_only,
            passthrough: settings.passthrough,
            stacked: is_stacked(&settings.store),
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
        let written = Arc::downgrade(&tree);
        watchers::start(&instance.documents, &mount, written, Arc::clone(&news)).map_err(
            |source| failed(MountError::Failed { point: settings.mountpoint.clone(), source }),
        )?;
        let owners = Owners::start(&owned, &mount).map_err(|source| {
            failed(MountError::Failed { point: settings.mountpoint.clone(), source })
        })?;
        let reporter = Arc::new(Reporter {
            store: settings.store.clone(),
            documents: Arc::downgrade(&instance.documents),
            mount: Arc::downgrade(&mount),
            owned: Arc::downgrade(&owned),
            running,
        });
        let writer = Arc::clone(&reporter);
        tree.set_status_writer(Box::new(move |status| writer.status_json(status)));
        Ok(Mounted { mount, tree, reporter, news, owned, owners })
    }

    /// Who is told of new versions over the control socket.
    pub fn news(&self) -> Arc<News> {
        Arc::clone(&self.news)
    }

    /// Makes a lease of a name, see [`Owned::add_lease`].
    pub fn add_lease(&self, path: &Path) {
        self.owned.add_lease(path);
    }

    /// What is due: appends of long-lived handles.
    pub fn tick(&self) {
        self.tree.tick();
    }

    /// The state of the instance, see `status.rs`.
    pub fn status(&self) -> Result<Value> {
        self.reporter.describe(&self.tree.status())
    }

    /// Waits until the mount answers.
    pub fn ready(&self, patience: Duration) -> Result<()> {
        self.mount
            .ready(patience)
            .map_err(|source| DaemonError::Mount { path: self.mount.point().to_owned(), source })
    }

    /// A command has changed a document that was `before`.
    pub fn observe_command(&self, pid: u32, uid: u32, view: View, before: &Arc<Version>) {
        self.tree.observe_command(pid, uid, view, before);
    }

    /// The process and its descendants are one writer with all others of this name.
    pub fn name_writer(&self, pid: u32, uid: u32, name: &str) -> bool {
        self.tree.name_writer(pid, uid, name)
    }

    /// Takes the mount out of the tree unless it is in use.
    pub fn unmount(&self) -> std::result::Result<(), MountError> {
        self.mount.unmount(UNMOUNT)
    }

    /// Finishes what is in flight, keeps unsaved buffers and takes the mount away in any case.
    /// Programs that still have files open in it can go on until this process ends.
    pub fn leave(&self) {
        if let Err(e) = self.mount.detach() {
            log::warn!("not detached: {e}");
        }
        self.news.end();
        // What was asked for before is answered before buffers are set aside.
        self.mount.drain(DRAIN);
        self.tree.shutdown();
        self.owners.join();
        if !self.mount.drain(DRAIN) {
            log::warn!("requests were still under way after {} s", DRAIN.as_secs());
        }
    }
}

/// Describes the instance for `status` and `.instancefs/status.json`. It is part of the tree
/// that it describes, so it keeps nothing of it alive.
struct Reporter {
    store: PathBuf,
    documents: Weak<Both>,
    mount: Weak<Mount>,
    owned: Weak<Owned>,
    running: Running,
}

impl Reporter {
    fn describe(&self, tree: &Status) -> Result<Value> {
        let (Some(all), Some(mount)) = (self.documents.upgrade(), self.mount.upgrade()) else {
            return Ok(json!({ "running": false }));
        };
        let mut operations = operations(&mount);
        operations["documents"] = json!(tree);
        let living = self.owned.upgrade().map(|owned| owned.living()).unwrap_or_default();
        status::describe(&self.store, &all, Some(&self.running), operations, living)
    }

    fn status_json(&self, tree: &Status) -> Vec<u8> {
        let status = self.describe(tree).unwrap_or_else(|e| json!({ "error": e.to_string() }));
        format!("{status:#}\n").into_bytes()
    }
}

/// How often each operation was served and how long it took.
fn operations(mount: &Mount) -> Value {
    let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    let stats = mount.stats();
    let mut by_kind = serde_json::Map::new();
    for stat in stats.snapshot().into_iter().filter(|stat| stat.count > 0) {
        let described = json!({
            "count": stat.count,
            "errors": stat.errors,
            "total_us": micros(stat.total),
            "p50_us": micros(stat.p50),
            "p99_us": micros(stat.p99),
            "max_us": micros(stat.max),
        });
        by_kind.insert(stat.op.name().to_owned(), described);
    }
    let load = mount.load();
    json!({
        "by_kind": by_kind,
        "panics": stats.panics(),
        "threads": load.threads,
        "pending": load.pending,
    })
}

/// Whether the store's file system is made of others.
fn is_stacked(store: &Path) -> bool {
    const OVERLAYFS: u64 = 0x794c_7630;
    rustix::fs::statfs(store).is_ok_and(|fs| fs.f_type as u64 == OVERLAYFS)
}

fn tree(instance: &Instance, settings: &Settings, news: &Arc<News>) -> Result<(Tree, Arc<Owned>)> {
    let failed = |e: crate::vfs::Error| DaemonError::InTheWay {
        path: settings.store.clone(),
        reason: e.to_string(),
    };
    let plain = Plain::new(&settings.store).map_err(failed)?.strict(settings.strict);
    let memory = StoreMemory::new(Arc::clone(&instance.store))?.telling(Arc::clone(news));
    let parts = Parts {
        documents: Arc::clone(&instance.documents) as Arc<dyn Documents>,
        plain: Arc::new(plain),
        processes: Arc::new(System::at(&settings.mountpoint)),
        memory: Arc::new(memory),
        clock: Arc::new(SystemClock),
        rules: Some(Arc::clone(&instance.rules) as Arc<dyn Rules>),
    };
    let mut options = Options::new(settings.store.clone());
    options.owned = names_of(&instance.rules);
    options.read_only = settings.read_only;
    let owned = {
        // Commands that take leases without a mount are waited for.
        let _guard = Guard::take(&settings.store)?;
        let (store, names) = (Arc::clone(&instance.store), options.owned.clone());
        Arc::new(Owned::load(store, names, settings.read_only)?)
    };
    let tree = Tree::new(parts, options).map_err(failed)?.with_owned(Arc::clone(&owned));
    Ok((tree, owned))
}
