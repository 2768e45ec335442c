//! A served mount: making it, knowing that it is there, and taking it away.

mod device;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fuser::{Config, Session, SessionACL};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use self::device::Unmounting;
use super::FSTYPE;
use super::adapter::Adapter;
use super::calls::EVENT_LOOPS;
use super::detached::detach_descriptors;
use super::negotiate::Wishes;
use super::notify::Notifier;
use super::polls::Polls;
use super::pool::Pool;
use super::stats::Stats;
use crate::process::mountinfo::{self, MountInfo};
use crate::vfs::Layer;

/// How a mount is made. It is always `nosuid,nodev,default_permissions`.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// Not for the owner alone; the kernel checks permissions.
    pub allow_other: bool,
    /// Every write fails with `EROFS`.
    pub read_only: bool,
    /// The kernel reads, writes and maps plain files itself where it can: as root, Linux 6.9 and
    /// later.
    pub passthrough: bool,
    /// The store's file system is itself stacked on others (overlayfs).
    pub stacked: bool,
    /// The source in `/proc/mounts`: the store's path.
    pub fsname: String,
}

/// Why there is no mount, or why it is still there.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum MountError {
    #[error(
        "/dev/fuse is missing: load the fuse module (modprobe fuse), or give the container --device /dev/fuse"
    )]
    NoFuse,
    #[error("not allowed to mount, and fusermount3 is not installed (apt-get install fuse3)")]
    NoHelper,
    #[error(
        "--allow-other is only allowed to others than root with user_allow_other in /etc/fuse.conf"
    )]
    AllowOtherForbidden,
    #[error("{}: no such directory", .0.display())]
    NoMountPoint(PathBuf),
    #[error("{}: not a directory", .0.display())]
    NotDirectory(PathBuf),
    #[error("{}: not empty", .0.display())]
    NotEmpty(PathBuf),
    #[error("{}: something is mounted there already ({fstype})", .point.display())]
    Mounted { point: PathBuf, fstype: String },
    #[error("{}: a dead mount is in the way", .0.display())]
    Dead(PathBuf),
    #[error("{helper}: {text}")]
    Helper { helper: &'static str, text: String },
    #[error("the mount is in use")]
    Busy,
    #[error("the mount does not answer")]
    NoAnswer,
    #[error("{}: {source}", .point.display())]
    Failed { point: PathBuf, source: io::Error },
}

/// How busy a mount is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Threads of the pool.
    pub threads: usize,
    /// Requests in the pool that are not answered yet.
    pub pending: usize,
}

/// A mount that is being served by threads of this process. Dropping it takes it out of sight.
pub struct Mount {
    point: PathBuf,
    connection: u32,
    notifier: Notifier,
    stats: Arc<Stats>,
    pool: Pool,
    end: Arc<End>,
}

#[derive(Default)]
struct End {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Mount {
    /// Mounts `layer` at `mountpoint`, an empty directory, and starts serving it.
    ///
    /// # Errors
    /// A [`MountError`]; nothing is left mounted then.
    pub fn new(
        layer: Arc<dyn Layer>,
        mountpoint: &Path,
        options: &MountOptions,
    ) -> Result<Mount, MountError> {
        let point = check(mountpoint)?;
        let failed = |source| MountError::Failed { point: point.clone(), source };
        let device = device::mount(&point, options)?;
        let undo = |e| {
            let _ = device::unmount(&point, Unmounting::Forced);
            e
        };
        let info = topmost(&point).map_err(failed).map_err(undo)?;
        let connection = info.ok_or(MountError::NoAnswer).map_err(undo)?.device.1;

        let (stats, pool) = (Arc::new(Stats::default()), Pool::default());
        let polls = Arc::new(Polls::default());
        let wishes = Wishes {
            passthrough: options.passthrough && rustix::process::geteuid().is_root(),
            stacked: options.stacked,
        };
        let adapter =
            Adapter::new(layer, Arc::clone(&stats), pool.clone(), Arc::clone(&polls), wishes);
        let mut config = Config::default();
        config.n_threads = Some(EVENT_LOOPS);
        // Each event loop waits at a queue of its own.
        config.clone_fd = device::can_be_cloned(&device);
        // Who may come in is checked by the kernel (user_id, allow_other). fuser's own check
        // would refuse a process that has changed its user since it opened a file.
        let acl = SessionACL::All;
        let session =
            Session::from_fd(adapter, device, acl, config).map_err(failed).map_err(undo)?;
        let notifier = Notifier::start(session.notifier(), polls).map_err(failed).map_err(undo)?;
        let end = Arc::new(End::default());
        let told = Arc::clone(&end);
        let serve = move || {
            if let Err(e) = session.run() {
                log::error!("the session ended badly: {e}");
            }
            *told.over.lock() = true;
            told.changed.notify_all();
        };
        let thread = std::thread::Builder::new().name("ifs-session".to_owned());
        thread.spawn(serve).map_err(failed).map_err(undo)?;
        Ok(Mount { point, connection, notifier, stats, pool, end })
    }

    /// Waits until the mount answers.
    ///
    /// # Errors
    /// `NoAnswer` after `patience`; `Failed` with what `statfs` or `stat` says.
    pub fn ready(&self, patience: Duration) -> Result<(), MountError> {
        match answer(&self.point, patience) {
            None => Err(MountError::NoAnswer),
            Some(Ok(())) => Ok(()),
            Some(Err(e)) => Err(MountError::Failed { point: self.point.clone(), source: e.into() }),
        }
    }

    /// Waits until the mount is gone, whoever took it away, and every file in it is closed.
    pub fn wait(&self) {
        let mut over = self.end.over.lock();
        while !*over {
            self.end.changed.wait(&mut over);
        }
    }

    /// The same, at most for `patience`. Returns whether it is gone.
    pub fn wait_for(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut over = self.end.over.lock();
        while !*over {
            if self.end.changed.wait_until(&mut over, deadline).timed_out() {
                break;
            }
        }
        *over
    }

    /// Whether the mount is gone.
    pub fn is_over(&self) -> bool {
        *self.end.over.lock()
    }

    /// Waits until no request is in the pool any more, at most for `patience`. Returns whether
    /// that is so; new ones may come at any time while the mount is there.
    pub fn drain(&self, patience: Duration) -> bool {
        self.pool.drain(patience)
    }

    /// Unmounts if nobody uses it, or stops using it within `patience` (what the kernel does
    /// after the last `close` takes a moment).
    ///
    /// # Errors
    /// `Busy` when somebody does; others as they come.
    pub fn unmount(&self, patience: Duration) -> Result<(), MountError> {
        let deadline = Instant::now() + patience;
        loop {
            match self.leave(Unmounting::Plain) {
                Err(MountError::Busy) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                done => return done,
            }
        }
    }

    /// Takes the mount out of sight. Programs that have files open in it go on with them, and
    /// the session goes on serving them.
    ///
    /// # Errors
    /// As they come.
    pub fn detach(&self) -> Result<(), MountError> {
        self.leave(Unmounting::Lazy)
    }

    /// Ends the mount now: requests that are not answered fail (`ECONNABORTED`).
    ///
    /// # Errors
    /// As they come.
    pub fn abort(&self) -> Result<(), MountError> {
        self.leave(Unmounting::Forced)
    }

    /// Never touches a mount that somebody else has made at the same place since.
    fn leave(&self, how: Unmounting) -> Result<(), MountError> {
        let failed = |source| MountError::Failed { point: self.point.clone(), source };
        match topmost(&self.point).map_err(failed)? {
            Some(info) if info.device.1 == self.connection && !self.is_over() => {
                device::unmount(&self.point, how)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Where it is mounted: absolute, without symlinks.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// The number of the connection: the minor number of the mount's `st_dev`, and the name of
    /// its directory in `/sys/fs/fuse/connections`.
    pub fn connection_id(&self) -> u32 {
        self.connection
    }

    /// Tells the kernel that something changed.
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// The counters.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// How busy it is.
    pub fn load(&self) -> Load {
        let (threads, pending) = self.pool.load();
        Load { threads, pending }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(e) = self.detach() {
            log::warn!("{}: not unmounted: {e}", self.point.display());
        }
    }
}

/// The topmost mount exactly at `point` (absolute, without symlinks).
fn topmost(point: &Path) -> io::Result<Option<MountInfo>> {
    Ok(mountinfo::all()?.into_iter().rfind(|m| m.point == point))
}

/// What is mounted exactly at `path`, without asking it.
///
/// # Errors
/// `Failed` when the directory above or `/proc` cannot be read.
pub fn mounted_at(path: &Path) -> Result<Option<MountInfo>, MountError> {
    let point = resolve(path)?;
    topmost(&point).map_err(|source| MountError::Failed { point, source })
}

/// Detaches dead mounts of ours at `path`: of our type, and nobody serves them any more
/// (`ENOTCONN`). Returns whether there was one. A live mount is left alone.
///
/// # Errors
/// When it cannot be detached.
pub fn detach_dead(path: &Path) -> Result<bool, MountError> {
    let point = resolve(path)?;
    let failed = |source| MountError::Failed { point: point.clone(), source };
    let mut any = false;
    // One may be above another; each round takes one away.
    for _ in 0..64 {
        let ours = topmost(&point).map_err(failed)?.is_some_and(|m| m.fstype == FSTYPE);
        if !ours || !is_dead(&point) {
            break;
        }
        device::unmount(&point, Unmounting::Forced)?;
        any = true;
    }
    Ok(any)
}

/// Takes the topmost mount of ours at `path` out of sight and ends its connection, whether or not
/// somebody serves it: requests that are not answered fail.
///
/// # Errors
/// When it cannot be detached.
pub fn detach_by_force(path: &Path) -> Result<(), MountError> {
    let point = resolve(path)?;
    let failed = |source| MountError::Failed { point: point.clone(), source };
    match topmost(&point).map_err(failed)? {
        Some(info) if info.fstype == FSTYPE => device::unmount(&point, Unmounting::Forced),
        Some(_) | None => Ok(()),
    }
}

fn is_dead(point: &Path) -> bool {
    matches!(answer(point, Duration::from_secs(5)), Some(Err(Errno::NOTCONN)))
}

/// What `statfs` of a path says, which nobody answers from a cache, and `stat`; `None` when
/// they have not answered in time.
fn answer(path: &Path, patience: Duration) -> Option<Result<(), Errno>> {
    let (tell, told) = mpsc::channel();
    let path = path.to_owned();
    let ask = move || {
        if let Err(e) = detach_descriptors() {
            log::debug!("killed now, this would hang: {e}");
        }
        // Until its first `stat` the kernel takes root for the owner of a mount's root, and
        // would refuse the owner a chmod.
        let said = rustix::fs::statfs(&path).and_then(|_| rustix::fs::lstat(&path));
        let _ = tell.send(said.map(drop));
    };
    std::thread::Builder::new().name("ifs-ask".to_owned()).spawn(ask).ok()?;
    told.recv_timeout(patience).ok()
}

/// The absolute path without symlinks, found without asking what is mounted at it.
fn resolve(path: &Path) -> Result<PathBuf, MountError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => MountError::NoMountPoint(path.to_owned()),
        _ => MountError::Failed { point: path.to_owned(), source },
    };
    let absolute = std::path::absolute(path).map_err(failed)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => {
            let point = parent.canonicalize().map_err(failed)?.join(name);
            // A symlink to the mount point, or `..` at the end; not something mounted.
            match std::fs::read_link(&point) {
                Ok(_) => point.canonicalize().map_err(failed),
                Err(_) => Ok(point),
            }
        }
        _ => absolute.canonicalize().map_err(failed),
    }
}

/// The mount point, if it is fit to be one.
fn check(mountpoint: &Path) -> Result<PathBuf, MountError> {
    let point = resolve(mountpoint)?;
    let failed = |source: io::Error| MountError::Failed { point: point.clone(), source };
    if let Some(info) = topmost(&point).map_err(failed)? {
        return Err(if info.fstype == FSTYPE && is_dead(&point) {
            MountError::Dead(point)
        } else {
            MountError::Mounted { point, fstype: info.fstype }
        });
    }
    match std::fs::metadata(&point) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(MountError::NotDirectory(point)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(MountError::NoMountPoint(point));
        }
        Err(e) => return Err(failed(e)),
    }
    if std::fs::read_dir(&point).map_err(failed)?.next().is_some() {
        return Err(MountError::NotEmpty(point));
    }
    Ok(point)
}
