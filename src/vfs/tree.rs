//! The whole mounted tree: documents, links to the databases and `.instancefs` in front of the
//! store's plain files.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::asked::Asked;
use super::attrs::Names;
use super::budget::Budget;
use super::guards::Guards;
use super::handle::DocHandle;
use super::hidden::Absences;
use super::last::LastSaves;
use super::layer::{Attr, Caller, Entry, Error, Fh, FileType, Node, Result};
use super::managed::{self, Files, Fits};
use super::observing::OnRecord;
use super::owned::{Names as OwnedNames, Owned};
use super::ports::{Documents, Memory, PlainFiles};
use super::report::{HandleInfo, Report, Status};
use super::rescue::Rescue;
use super::sources::Sources;
use crate::documents::Version;
use crate::documents::files::Rules;
use crate::fs::observed::Observed;
use crate::model::{Clock, Stamp, View};
use crate::process::{ProcId, Process, Processes};

/// The root directory.
pub const ROOT: Node = 1;
/// Plain nodes begin here; everything below is fixed.
pub const FIRST_PLAIN: Node = 1 << 16;
/// Handles with this bit are the tree's own.
pub(super) const OWN_FH: Fh = 1 << 62;

/// All texts that are written and not saved take at most so many times the size limit.
const BUFFERS: u64 = 16;

const FIRST_DOCUMENT: Node = 16;
const FIRST_LINK: Node = 32;

/// Names shown as symlinks into the store, so that every process locks and maps the same inode.
pub const LINKS: [&str; 5] =
    ["missions.db", "missions.lock", "sessions.sqlite", "tasks.sqlite", "memory.sqlite"];
/// The one of them that is no database.
const LOCK: &str = LINKS[1];
/// What SQLite keeps beside a database; not shown.
const SIDECARS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// The hidden directory, and the beginning of the names of our own files in the store.
pub const OWN_DIR: &str = ".instancefs";

/// What the tree is told at the start.
#[derive(Debug, Clone)]
pub struct Options {
    /// The store, absolute: symlinks point into it.
    pub store: PathBuf,
    /// Largest document in bytes; more is `EFBIG`.
    pub size_limit: u64,
    /// The names of markers and leases.
    pub owned: OwnedNames,
    /// Nothing is changed: not even databases of other programs are tidied up.
    pub read_only: bool,
    /// Owner of the documents until somebody changes it.
    pub uid: u32,
    /// Group of the documents until somebody changes it.
    pub gid: u32,
}

impl Options {
    /// The defaults: 64 MiB, owned by this process.
    pub fn new(store: PathBuf) -> Options {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        Options {
            store,
            size_limit: 64 << 20,
            owned: OwnedNames::default(),
            read_only: false,
            uid,
            gid,
        }
    }
}

/// What the tree works with.
pub struct Parts {
    /// The documents.
    pub documents: Arc<dyn Documents>,
    /// The store's files.
    pub plain: Arc<dyn PlainFiles>,
    /// Who asks.
    pub processes: Arc<dyn Processes>,
    /// What outlives the daemon.
    pub memory: Arc<dyn Memory>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Which files are managed; `None`: none is.
    pub rules: Option<Arc<dyn Rules>>,
}

/// Renders `.instancefs/status.json`.
pub type StatusWriter = Box<dyn Fn(&Status) -> Vec<u8> + Send + Sync>;

/// The tree. Requests come in through [`super::Layer`]; the daemon calls [`Tree::tick`] about
/// every 50 ms and [`Tree::shutdown`] at the end.
pub struct Tree {
    pub(super) docs: Arc<dyn Documents>,
    pub(super) plain: Arc<dyn PlainFiles>,
    pub(super) procs: Arc<dyn Processes>,
    pub(super) memory: Arc<dyn Memory>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: Options,
    pub(super) names: Names,
    pub(super) asked: Asked,
    pub(super) files: Files,
    pub(super) absences: Absences,
    pub(super) observed: Observed,
    pub(super) sources: Sources,
    pub(super) guards: Guards,
    pub(super) rescue: Rescue,
    pub(super) last_saves: LastSaves,
    pub(super) report: Report,
    /// Room for what handles have not saved.
    pub(super) buffers: Arc<Budget>,
    pub(super) handles: RwLock<HashMap<Fh, Arc<DocHandle>>>,
    pub(super) texts: Mutex<HashMap<Fh, super::own_dir::OpenText>>,
    pub(super) past_sizes: super::past::Sizes,
    pub(super) tables: super::tables::Tables,
    pub(super) dirs: Mutex<HashMap<Fh, super::listing::Listing>>,
    pub(super) adopted: Mutex<HashMap<Fh, Arc<super::adopted::Adopted>>>,
    pub(super) closing: AtomicBool,
    pub(super) owned: Option<Arc<Owned>>,
    pub(super) status_writer: RwLock<Option<StatusWriter>>,
    pub(super) last_keep: Mutex<Stamp>,
    last_mounts: Mutex<Stamp>,
    started: Stamp,
    next_fh: AtomicU64,
}

/// What a name in a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A document.
    Document(View),
    /// A symlink into the store, by its place in [`LINKS`].
    Link(usize),
    /// `.instancefs`, or a view of rows.
    OwnDir,
    /// A file of the store that is not shown.
    Private,
    /// A name that fits a rule for managed files.
    Ruled(Fits),
    /// Anything else.
    Plain,
}

/// What a fixed node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fixed {
    /// A document.
    Document(View),
    /// A symlink into the store.
    Link(usize),
    /// `.instancefs` and what is in it, and the views of rows.
    Own,
    /// The root or a plain node.
    Plain,
}

impl Tree {
    /// The tree over a store. Recalls what writers of this boot had met and the names' numbers
    /// and modes; fails when the store does.
    pub fn new(parts: Parts, options: Options) -> Result<Tree> {
        let names = Names::new(parts.memory.clone(), options.uid, options.gid)?;
        let files = Files::new(parts.rules, parts.memory.clone())?;
        let on_record = OnRecord { docs: parts.documents.clone(), memory: parts.memory.clone() };
        let observed = Observed::new(Arc::new(on_record));
        let buffers = Budget::new(options.size_limit.saturating_mul(BUFFERS));
        let tree = Tree {
            files,
            started: parts.clock.now(),
            docs: parts.documents,
            plain: parts.plain,
            procs: parts.processes,
            memory: parts.memory,
            clock: parts.clock,
            tables: super::tables::Tables::new(&options.store, options.read_only),
            options,
            names,
            asked: Asked::default(),
            absences: Absences::default(),
            observed,
            sources: Sources::default(),
            guards: Guards::default(),
            rescue: Rescue::default(),
            last_saves: LastSaves::default(),
            report: Report::default(),
            buffers,
            handles: RwLock::default(),
            texts: Mutex::default(),
            past_sizes: Default::default(),
            dirs: Mutex::default(),
            adopted: Mutex::default(),
            closing: AtomicBool::new(false),
            owned: None,
            status_writer: RwLock::new(None),
            last_keep: Mutex::default(),
            last_mounts: Mutex::default(),
            next_fh: AtomicU64::new(1),
        };
        tree.recall_observations()?;
        Ok(tree)
    }

    /// The tree with files that belong to processes.
    pub fn with_owned(mut self, owned: Arc<Owned>) -> Tree {
        self.owned = Some(owned);
        self
    }

    /// How `.instancefs/status.json` is written; without it, as the plain [`Status`].
    pub fn set_status_writer(&self, writer: StatusWriter) {
        *self.status_writer.write() = Some(writer);
    }

    /// The state of the tree.
    pub fn status(&self) -> Status {
        let handles = self.handles.read().values().map(|h| h.info()).collect();
        self.report.status(handles)
    }

    /// The node of a document's name, for notifications.
    pub fn node_of(view: View) -> Node {
        if let View::File(file) = view {
            return managed::node_of(file);
        }
        FIRST_DOCUMENT + View::ALL.iter().position(|v| *v == view).unwrap_or(0) as Node
    }

    /// The store's directory.
    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.plain.root_fd()
    }

    pub(super) fn now(&self) -> Stamp {
        self.clock.now()
    }

    pub(super) fn new_fh(&self) -> Fh {
        OWN_FH | self.next_fh.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn process(&self, who: &Caller) -> Option<Process> {
        self.procs.of_thread(who.tid)
    }

    /// The daemon itself, for what it does to plain files on its own account.
    pub(super) fn us(&self) -> Caller {
        Caller {
            tid: 0,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    pub(super) fn procs_tick(&self, now: Stamp) {
        /// In nanoseconds: mounts come and go rarely.
        const EVERY: i64 = 2_000_000_000;
        let due = {
            let mut last = self.last_mounts.lock();
            let due = now.due(*last, EVERY);
            if due {
                *last = now;
            }
            due
        };
        if due {
            self.procs.tick();
            self.tables.rest();
            self.observed.thin(|id| self.procs.alive(id));
            self.sources.thin();
        }
    }

    /// What a name means. Of a name that fits a rule the store's file is looked at.
    pub(super) fn place(&self, parent: Node, name: &OsStr) -> Place {
        match self.fixed_place(parent, name) {
            Place::Plain => self.fits(parent, name).map_or(Place::Plain, Place::Ruled),
            place => place,
        }
    }

    /// Whether a new name may not be made here, and why.
    pub(super) fn forbid_new(&self, parent: Node, name: &OsStr) -> Result<()> {
        match self.fixed_place(parent, name) {
            Place::Plain | Place::Ruled(_) => {
                self.owned_clear(parent, name);
                Ok(())
            }
            Place::Document(_) | Place::Link(_) | Place::OwnDir => Err(Error::Exists),
            Place::Private => Err(Error::NotPermitted),
        }
    }

    /// The same without the managed files: they are plain.
    pub(super) fn fixed_place(&self, parent: Node, name: &OsStr) -> Place {
        if parent != ROOT {
            return Place::Plain;
        }
        let bytes = name.as_bytes();
        if let Some(view) = View::from_name(bytes) {
            return Place::Document(view);
        }
        if let Some(link) = LINKS.iter().position(|l| l.as_bytes() == bytes) {
            return Place::Link(link);
        }
        if bytes == OWN_DIR.as_bytes() || self.view_named(name).is_some() {
            return Place::OwnDir;
        }
        let sidecar = SIDECARS
            .iter()
            .filter_map(|s| bytes.strip_suffix(s.as_bytes()))
            .any(|b| b != LOCK.as_bytes() && LINKS.iter().any(|l| l.as_bytes() == b));
        if sidecar || bytes.starts_with(OWN_DIR.as_bytes()) {
            return Place::Private;
        }
        Place::Plain
    }

    /// What a node is; `NotFound` for a fixed number that nothing has.
    pub(super) fn fixed(&self, node: Node) -> Result<Fixed> {
        if super::own_dir::is_own(node) {
            return Ok(Fixed::Own);
        }
        if let Some(file) = managed::file_of(node) {
            return Ok(Fixed::Document(View::File(self.files.now(file))));
        }
        if node == ROOT || node >= FIRST_PLAIN {
            return Ok(Fixed::Plain);
        }
        if let Some(i) = node.checked_sub(FIRST_DOCUMENT)
            && let Some(view) = View::ALL.get(i as usize)
        {
            return Ok(Fixed::Document(*view));
        }
        if let Some(i) = node.checked_sub(FIRST_LINK)
            && (i as usize) < LINKS.len()
        {
            return Ok(Fixed::Link(i as usize));
        }
        Err(Error::NotFound)
    }

    /// Whether the document's name is there for this process: it is in the current version or
    /// being created by the process's kin, and not removed by them.
    pub(super) fn shows(&self, view: View, version: &Version, who: &Caller) -> bool {
        let exists = version.view(view).is_some();
        if exists && self.absences.none() {
            return true;
        }
        if !exists && !self.handles_on(view).iter().any(|h| h.created) {
            return false;
        }
        let process = self.process(who);
        let writer = self.who(who, process.as_ref());
        if self.hides(view, &writer) {
            return false;
        }
        exists
            || self.handles_on(view).iter().any(|h| {
                let (Some(opener), Some(_)) = (&h.opener, &process) else { return true };
                let opener = self.observed.who(Some(opener), h.uid);
                h.created && self.observed.are_kin(&writer, &opener, view.doc())
            })
    }

    /// The open handles on one name.
    pub(super) fn handles_on(&self, view: View) -> Vec<Arc<DocHandle>> {
        self.handles.read().values().filter(|h| h.view() == view).cloned().collect()
    }

    /// Those of them that have uncommitted bytes. The others, which may be very many, cost a look.
    pub(super) fn unsaved_on(&self, view: View) -> Vec<Arc<DocHandle>> {
        let handles = self.handles.read();
        handles.values().filter(|h| h.is_dirty() && h.view() == view).cloned().collect()
    }

    pub(super) fn handle(&self, fh: Fh) -> Result<Arc<DocHandle>> {
        self.handles.read().get(&fh).cloned().ok_or(Error::BadHandle)
    }

    /// The inode numbers under which `fdinfo` may show a document: that of the last GETATTR
    /// (which may have been before the last rename onto the name), or the node id of the last
    /// LOOKUP.
    pub(super) fn inos(&self, view: View) -> Vec<u64> {
        let View::File(file) = view else {
            let mut inos = self.names.inos(view);
            inos.push(Tree::node_of(view));
            return inos;
        };
        let mut inos = vec![Tree::node_of(view)];
        inos.extend(self.file_real(file).map(|real| self.file_shown(file, &real).ino));
        // A file that is gone or was renamed is shown as it was.
        for h in self.handles_on(view) {
            inos.push(h.node);
            inos.extend(h.start.as_ref().map(|s| s.attr.ino));
        }
        inos
    }

    /// Whether the process holds a lock on the document.
    pub(super) fn locks(&self, process: Option<&Process>, view: View) -> bool {
        process.is_some_and(|p| {
            self.procs.descriptors(p.id, &self.inos(view)).iter().any(|d| d.locked)
        })
    }

    /// Whether the process or an ancestor holds `missions.lock`. A free lock answers at once.
    pub(super) fn family_holds_missions_lock(&self, id: ProcId) -> bool {
        use rustix::fs::{FlockOperation, Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let Ok(fd) = rustix::fs::openat(self.root(), LOCK, flags, Mode::empty()) else {
            return false;
        };
        if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared).is_ok() {
            return false;
        }
        let Ok(stat) = rustix::fs::fstat(&fd) else { return false };
        self.procs.family_holds_lock(id, stat.st_ino)
    }

    /// The answer to a lookup of a document.
    pub(super) fn document_entry(&self, view: View, attr: Attr) -> Entry {
        Entry {
            node: Tree::node_of(view),
            generation: 0,
            attr,
            attr_ttl: Duration::ZERO,
            entry_ttl: Duration::ZERO,
        }
    }

    pub(super) fn link_target(&self, link: usize) -> OsString {
        self.options.store.join(LINKS[link]).into_os_string()
    }

    pub(super) fn link_attr(&self, link: usize) -> Attr {
        let created = self.started;
        Attr {
            ino: FIRST_LINK + link as u64,
            size: self.link_target(link).len() as u64,
            blocks: 0,
            atime: created,
            mtime: created,
            ctime: created,
            kind: FileType::Symlink,
            perm: 0o777,
            nlink: 1,
            uid: self.options.uid,
            gid: self.options.gid,
            rdev: 0,
            blksize: 4096,
        }
    }

    pub(super) fn link_entry(&self, link: usize) -> Entry {
        Entry {
            node: FIRST_LINK + link as Node,
            generation: 0,
            attr: self.link_attr(link),
            attr_ttl: Duration::from_secs(1),
            entry_ttl: Duration::ZERO,
        }
    }
}

impl DocHandle {
    fn info(&self) -> HandleInfo {
        HandleInfo {
            name: self.view().name(),
            pid: self.opener.as_ref().map_or(0, |p| p.id.pid),
            program: self.opener.as_ref().map_or_else(String::new, |p| p.program.clone()),
            writable: self.mode.write,
            uncommitted: self.is_dirty(),
        }
    }
}
