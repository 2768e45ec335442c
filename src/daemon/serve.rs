//! The daemon itself: from the lock to the last written document.
//!
//! One thread, this one, decides about life and death; it waits for events. Signals, the
//! control socket and the end of the session only send events to it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::background::Background;
use super::control::{self, Answer, Peer, Request};
use super::error::{DaemonError, MountpointProblem, Result, io};
use super::instance::{Instance, expect_store};
use super::journal::{Doing, Journal};
use super::lock::{self, StoreLock};
use super::mounted::Mounted;
use super::ready::{Outcome, Ready};
use super::service::Service;
use super::status::Running;
use super::writeout::Untouched;
use super::{config, history, journal, leave, logging, memory, mounts, names, scratch, writeout};
use crate::documents::Version;
use crate::documents::live::Live;
use crate::fuse::MountError;
use crate::model::{Actor, Clock, DocId, FileId, Rev, SystemClock, Via, View};
use crate::store::StoreError;
use crate::vfs::ports::Documents;

/// How long a new mount may take to answer its first question.
const FIRST_ANSWER: Duration = Duration::from_secs(20);
/// How long a mount waits for a command that is just changing the store.
const OTHERS_END: Duration = Duration::from_secs(5);
/// What the daemon says in the store's lock that it does.
const SERVED: &str = "served";
/// How long the end waits for somebody else to give `missions.lock` back.
const SETTLING: Duration = Duration::from_secs(3);

/// What is mounted where, and how. The paths are absolute and without symlinks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The store.
    pub store: PathBuf,
    /// Where.
    pub mountpoint: PathBuf,
    /// Other users may enter; the kernel checks permissions.
    pub allow_other: bool,
    /// Nothing can be changed through the mount.
    pub read_only: bool,
    /// The newest `version` of a config that is taken, unless a newer one is stored.
    pub config_version_limit: Option<i64>,
    /// The kernel reads and writes plain files itself where it can.
    pub passthrough: bool,
    /// What others change in the store's plain files shows at once.
    pub strict: bool,
}

/// What the daemon's main thread waits for.
pub enum Event {
    /// A signal that asks it to end.
    Signal(i32),
    /// `instancefs unmount`.
    Unmount {
        /// Also when the mount is in use.
        force: bool,
        /// Who asks.
        peer: Peer,
    },
    /// The mount is gone: somebody else unmounted it, or the kernel ended the connection.
    Ended,
}

/// The real path of a store.
pub fn store_path(path: &Path) -> Result<PathBuf> {
    expect_store(path)?;
    let real = path.canonicalize().map_err(io(path, "cannot read"))?;
    // The table of mounts, in which commands look for the store, is given a text.
    if real.to_str().is_none() {
        let reason = "a store whose path is not UTF-8 cannot be mounted".to_owned();
        return Err(DaemonError::InTheWay { path: real, reason });
    }
    Ok(real)
}

/// The real path of a mount point, which may be a dead mount.
pub fn mountpoint_path(path: &Path) -> Result<PathBuf> {
    mounts::resolve(path).map_err(|e| {
        let problem = match e.kind() {
            std::io::ErrorKind::NotFound => MountpointProblem::Missing,
            std::io::ErrorKind::NotADirectory => MountpointProblem::NotADirectory,
            _ => return io(path, "cannot find")(e),
        };
        DaemonError::Mountpoint { path: path.to_owned(), problem }
    })
}

/// Whether the store could be mounted there now. Takes a dead mount away.
pub fn check(settings: &Settings) -> Result<()> {
    let until = Instant::now() + OTHERS_END;
    while let Some(holder) = lock::holder(&settings.store) {
        if holder.what != SERVED && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        return Err(DaemonError::Held {
            store: settings.store.clone(),
            what: holder.what,
            pid: holder.pid,
            mountpoint: holder.mountpoint.map(PathBuf::from),
        });
    }
    whole(&settings.store)?;
    leave::make_room(&settings.mountpoint, &settings.store)
}

/// Half a store is not served: the repeated `init` would undo what was done in the mount.
fn whole(store: &Path) -> Result<()> {
    match Journal::read(store)? {
        Some(journal) if journal.doing == Doing::Init => {
            Err(DaemonError::InTheWay { path: store.to_owned(), reason: journal.unfinished(store) })
        }
        _ => Ok(()),
    }
}

/// Serves the store until it is told to end. Tells `ready` when the mount answers; when this
/// returns an error before that, nothing is mounted.
pub fn run(settings: &Settings, ready: &mut Ready) -> Result<()> {
    let mut lock = StoreLock::take_within(&settings.store, OTHERS_END)?;
    whole(&settings.store)?;
    leave::make_room(&settings.mountpoint, &settings.store)?;
    if ready.awaited() {
        logging::to_store(&settings.store)?;
        // Already the leader of a session: fine too.
        let _ = rustix::process::setsid();
    } else {
        logging::to_stderr();
    }
    detach_from_caller();
    memory::set_bounds();
    let since = SystemClock.now().iso();
    let (events, wait) = mpsc::channel();
    signals(events.clone()).map_err(io(&settings.store, "cannot wait for signals"))?;

    let instance = Instance::open_limited(&settings.store, settings.config_version_limit)?;
    if let Some(problem) = instance.rules.problem() {
        return Err(DaemonError::Settings { store: settings.store.clone(), problem });
    }
    let mut notes = Vec::new();
    for taken in writeout::take_in(&instance)? {
        log::warn!("{taken}");
        notes.push(taken.to_string());
    }
    writeout::write_out(&instance)?;
    let untouched = writeout::Untouched::now(&settings.store);
    let running = Running {
        pid: std::process::id(),
        since,
        mountpoint: settings.mountpoint.clone(),
        read_only: settings.read_only,
    };
    let mounted = Arc::new(Mounted::start(&instance, settings, running, events.clone())?);
    let ticking = Arc::clone(&mounted);
    let service = Arc::new(Service::of_this_process());
    let watched = Arc::clone(&service);
    let tick = move || {
        ticking.tick();
        watched.alive();
    };
    let background = Background::start(&instance.documents, tick)
        .map_err(io(&settings.store, "cannot start threads"))?;
    answer_commands(&instance, &mounted, settings, events)?;
    if let Err(e) = mounted.ready(FIRST_ANSWER) {
        mounted.leave();
        return Err(e);
    }
    lock.announce(SERVED, Some(&settings.mountpoint))?;
    log::info!("{} mounted at {}", settings.store.display(), settings.mountpoint.display());
    ready.tell(&Outcome::Ready { notes });
    scratch::reap_in_background();
    // What the start has needed once.
    memory::give_back();
    service.ready(&format!("mounted at {}", settings.mountpoint.display()));

    let peer = serve_until_end(&wait, &mounted);
    service.stopping();
    let warnings = end(instance, &settings.mountpoint, mounted, background, &lock, &untouched);
    log::info!("ended");
    if let Some(mut peer) = peer {
        peer.answer(&Answer::Left { warnings });
    }
    Ok(())
}

/// Waits for the event that ends the daemon. When this returns the mount is not in the tree
/// any more, or can be taken away by force.
fn serve_until_end(events: &Receiver<Event>, mounted: &Mounted) -> Option<Peer> {
    loop {
        match events.recv() {
            Ok(Event::Unmount { force, mut peer }) => match mounted.unmount() {
                Ok(()) => {
                    peer.answer(&Answer::Leaving { pid: std::process::id() });
                    return Some(peer);
                }
                Err(e) if force => {
                    log::warn!("unmounted by force: {e}");
                    peer.answer(&Answer::Leaving { pid: std::process::id() });
                    return Some(peer);
                }
                Err(MountError::Busy) => peer.answer(&Answer::Busy),
                Err(e) => peer.answer(&Answer::Failed { message: e.to_string() }),
            },
            Ok(Event::Signal(signal)) => {
                log::info!("signal {signal}: ending");
                if let Err(e) = mounted.unmount() {
                    log::warn!("the mount is taken away though it is in use: {e}");
                }
                return None;
            }
            Ok(Event::Ended) => {
                log::info!("the mount is gone: ending");
                return None;
            }
            Err(mpsc::RecvError) => return None,
        }
    }
}

/// R11: finishes what is in flight, keeps unsaved buffers, writes the documents out. What did
/// not go as it should, one line each.
fn end(
    instance: Instance,
    mountpoint: &Path,
    mounted: Arc<Mounted>,
    background: Background,
    lock: &StoreLock,
    untouched: &Untouched,
) -> Vec<String> {
    let mut warnings = Vec::new();
    mounted.leave();
    drop(background);
    drop(mounted);
    // When the kernel ended the connection, the mount point is still in the tree.
    if let Err(e) = leave::detach_dead(mountpoint) {
        log::warn!("{e}");
    }
    if !lock.is_in_place() {
        let reason = "another directory has the store's name now, nothing is written out";
        log::error!("{}: {reason}", instance.dir.display());
        return vec![reason.to_owned()];
    }
    if !settle_rows(&instance.live) {
        warnings.push(
            "another program holds missions.lock; the last changes are in missions.md and \
             become rows at the next mount"
                .to_owned(),
        );
    }
    // An edit of the plain file beside the mount would be lost by writing over it.
    match writeout::take_in(&instance) {
        Ok(taken) => warnings.extend(taken.iter().map(ToString::to_string)),
        Err(e) => warnings.push(e.to_string()),
    }
    if let Err(e) = writeout::write_out(&instance) {
        warnings.push(format!("not everything was written out: {e}"));
        warnings.extend(writeout::rescue(&instance, untouched));
    }
    if let Err(e) = instance.documents.managed.settle() {
        log::warn!("managed files: {e}");
    }
    // Whoever still has a file open through the mount keeps all of this alive.
    instance.documents.managed.leave();
    if let Err(e) = instance.documents.maintain() {
        log::warn!("housekeeping: {e}");
    }
    if let Err(e) = instance.documents.sync() {
        warnings.push(format!("not synced: {e}"));
    }
    let socket = instance.dir.join(names::SOCKET);
    if let Err(e) = journal::remove(&socket) {
        log::warn!("{e}");
    }
    for warning in &warnings {
        log::warn!("{warning}");
    }
    warnings
}

/// What a command does to a document is a read and a save of its caller's family.
fn observe(
    mounted: &Weak<Mounted>,
    actor: &Actor,
    view: View,
    before: std::result::Result<Arc<Version>, StoreError>,
) {
    if let (Some(mounted), Ok(before)) = (mounted.upgrade(), before) {
        mounted.observe_command(actor.pid, actor.uid, view, &before);
    }
}

/// Makes rows of what waits for `missions.lock`; whether nothing waits any more.
pub fn settle_rows(live: &Live) -> bool {
    let until = Instant::now() + SETTLING;
    loop {
        match live.settle() {
            Ok(true) => return true,
            Ok(false) => {}
            Err(e) => log::warn!("rows wait: {e}"),
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn answer_commands(
    instance: &Instance,
    mounted: &Arc<Mounted>,
    settings: &Settings,
    events: Sender<Event>,
) -> Result<()> {
    // This outlives the end of the service, which has to close the database.
    let news = mounted.news();
    let (mounted, documents) = (Arc::downgrade(mounted), Arc::downgrade(&instance.documents));
    let (store, limit) = (settings.store.clone(), settings.config_version_limit);
    control::listen(&instance.dir, move |request, mut peer| match request {
        Request::Status => {
            let status = mounted.upgrade().map(|mounted| mounted.status());
            peer.answer(&match status {
                Some(Ok(status)) => Answer::Status { status },
                Some(Err(e)) => Answer::Failed { message: e.to_string() },
                None => Answer::Failed { message: "it is ending".to_owned() },
            });
        }
        Request::Settle { file } => {
            if let Some(documents) = documents.upgrade() {
                history::catch_up(&documents, file.as_deref());
            }
            peer.answer(&Answer::Settled);
        }
        Request::Restore { file, rev, pid, session } => {
            let answer = match documents.upgrade() {
                Some(documents) => {
                    let mut actor = Actor::this_process(Via::Command);
                    (actor.pid, actor.session, actor.uid) = (pid, session, peer.uid());
                    let view = View::on_record(&file);
                    let before = documents.current(view.doc());
                    let answer = history::answer(&documents, &file, Rev(rev), &actor);
                    if matches!(answer, Answer::Restored { .. }) {
                        observe(&mounted, &actor, view, before);
                    }
                    answer
                }
                None => Answer::Failed { message: "it is ending".to_owned() },
            };
            peer.answer(&answer);
        }
        Request::Config { order, pid, session } => {
            let answer = match documents.upgrade() {
                Some(documents) => {
                    let mut actor = Actor::this_process(Via::Command);
                    (actor.pid, actor.session, actor.uid) = (pid, session, peer.uid());
                    let before = documents.current(DocId::Config);
                    let answer = config::answer(&documents.live, &store, limit, &order, &actor);
                    if matches!(answer, Answer::Config { outcome: config::Outcome::Done { .. } }) {
                        observe(&mounted, &actor, View::ConfigYaml, before);
                    }
                    answer
                }
                None => Answer::Ending,
            };
            peer.answer(&answer);
        }
        Request::Writer { name } => {
            let (pid, uid) = (peer.pid(), peer.uid());
            let named = mounted.upgrade().is_some_and(|m| m.name_writer(pid, uid, &name));
            peer.answer(&match named {
                true => Answer::Settled,
                false => Answer::Failed { message: "the daemon does not know this process".into() },
            });
        }
        Request::Lease { name } => {
            if let Some(mounted) = mounted.upgrade() {
                mounted.add_lease(Path::new(&name));
            }
            peer.answer(&Answer::Settled);
        }
        Request::Watch { file } => {
            // As long as somebody waits for news of a file, it is looked at.
            let _watched = file
                .zip(documents.upgrade())
                .map(|(file, documents)| documents.managed.watch(FileId::of(&file)));
            news.serve(peer);
        }
        Request::Unmount { force } => {
            if let Err(mpsc::SendError(Event::Unmount { mut peer, .. })) =
                events.send(Event::Unmount { force, peer })
            {
                peer.answer(&Answer::Failed { message: "it is ending already".to_owned() });
            }
        }
    })
}

/// Waits for signals in a thread of its own. SIGHUP is only taken note of: a daemon outlives
/// its terminal.
fn signals(events: Sender<Event>) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if signal != SIGHUP && events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// Lets go of what belongs to the process that started us, and asks for what a server needs.
fn detach_from_caller() {
    // Started through /proc/self/exe it would be called `exe`.
    let _ = rustix::thread::set_name(c"instancefs");
    // Its directory could otherwise not be unmounted, and modes are the callers' business.
    let _ = std::env::set_current_dir("/");
    rustix::process::umask(rustix::fs::Mode::empty());
    let files = rustix::process::Resource::Nofile;
    let mut limit = rustix::process::getrlimit(files);
    limit.current = limit.maximum;
    if let Err(e) = rustix::process::setrlimit(files, limit) {
        log::debug!("the limit of open files stays as it is: {e}");
    }
    // Only root may; a killed daemon takes everybody's open handles along.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-500");
}
