//! A store with everything above it but the kernel.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::daemon::instance::Instance;
use crate::daemon::ports::StoreMemory;
use crate::daemon::{Result as DaemonResult, writeout};
use crate::documents::files::Rules;
use crate::model::SystemClock;
use crate::process::{Descriptor, Exit, ProcId, Process, Processes};
use crate::vfs::plain::Plain;
use crate::vfs::ports::Documents;
use crate::vfs::{Caller, Error, Layer, Node, Options, Parts, Renaming, Result, Tree};

/// Every thread number is a process and a session of its own that lives for ever and closes each
/// file at once.
struct Strangers;

impl Processes for Strangers {
    fn of_thread(&self, tid: u32) -> Option<Process> {
        let id = ProcId { pid: tid, ident: u64::from(tid) };
        let program = format!("program-{tid}");
        (tid != 0).then_some(Process { id, ancestors: Arc::from([]), session: tid, program })
    }
    fn exiting(&self, _: u32) -> Exit {
        Exit::No
    }
    fn alive(&self, _: ProcId) -> bool {
        true
    }
    fn descriptors(&self, _: ProcId, _: &[u64]) -> Vec<Descriptor> {
        Vec::new()
    }
    fn family_holds_lock(&self, _: ProcId, _: u64) -> bool {
        false
    }
    fn own_pid(&self) -> u32 {
        999_999
    }
}

pub struct World {
    pub instance: Instance,
    pub tree: Tree,
}

/// How a text is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// Closed, no more.
    No,
    /// With an `fsync` first.
    Yes,
}

impl World {
    /// As the daemon begins to serve.
    pub fn open(dir: &Path) -> DaemonResult<World> {
        let instance = Instance::open(dir)?;
        writeout::take_in(&instance)?;
        writeout::write_out(&instance)?;
        let failed = |e: Error| crate::daemon::DaemonError::InTheWay {
            path: dir.to_owned(),
            reason: e.to_string(),
        };
        let parts = Parts {
            documents: Arc::clone(&instance.documents) as Arc<dyn Documents>,
            plain: Arc::new(Plain::new(dir).map_err(failed)?),
            processes: Arc::new(Strangers),
            memory: Arc::new(StoreMemory::new(Arc::clone(&instance.store))?),
            clock: Arc::new(SystemClock),
            rules: Some(Arc::clone(&instance.rules) as Arc<dyn Rules>),
        };
        let tree = Tree::new(parts, Options::new(dir.to_owned())).map_err(failed)?;
        Ok(World { instance, tree })
    }

    /// As the daemon ends.
    pub fn close(self) -> DaemonResult<()> {
        self.tree.shutdown();
        drop(self.tree);
        let it = self.instance;
        it.live.settle()?;
        writeout::take_in(&it)?;
        writeout::write_out(&it)?;
        it.documents.managed.settle()?;
        it.documents.managed.leave();
        it.documents.maintain()?;
        it.documents.sync()?;
        Ok(())
    }

    pub fn who(tid: u32) -> Caller {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Caller { tid, uid: uid.as_raw(), gid: gid.as_raw() }
    }

    fn at<'p>(&self, who: &Caller, path: &'p str) -> Result<(Node, &'p OsStr)> {
        let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut at = 1;
        for dir in dirs.split('/').filter(|d| !d.is_empty()) {
            at = self.tree.lookup(who, at, OsStr::new(dir))?.node;
        }
        Ok((at, OsStr::new(name)))
    }

    /// Opens, makes if need be, writes, syncs, closes. The first failure is the answer; the file
    /// is closed in any case.
    pub fn put(
        &self,
        tid: u32,
        path: &str,
        flags: i32,
        text: &str,
        durable: Durable,
    ) -> Result<()> {
        let who = World::who(tid);
        let (parent, name) = self.at(&who, path)?;
        let flags = flags | libc::O_WRONLY;
        let (node, fh) = match self.tree.lookup(&who, parent, name) {
            Ok(entry) => (entry.node, self.tree.open(&who, entry.node, flags)?.fh),
            Err(Error::NotFound | Error::Os(rustix::io::Errno::NOENT)) => {
                let flags = flags | libc::O_CREAT;
                let made = self.tree.create(&who, parent, name, 0o644, 0o022, flags)?;
                (made.entry.node, made.opened.fh)
            }
            Err(e) => return Err(e),
        };
        let written = self.tree.write(&who, node, fh, 0, text.as_bytes(), flags).map(|_| ());
        let synced = match durable {
            Durable::Yes => written.and_then(|()| self.tree.fsync(&who, node, fh, false)),
            Durable::No => written,
        };
        let flushed = self.tree.flush(&who, node, fh);
        let released = self.tree.release(node, fh);
        synced.and(flushed).and(released)
    }

    pub fn save(&self, tid: u32, path: &str, text: &str, durable: Durable) -> Result<()> {
        self.put(tid, path, libc::O_TRUNC, text, durable)
    }

    pub fn append(&self, tid: u32, path: &str, line: &str, durable: Durable) -> Result<()> {
        self.put(tid, path, libc::O_APPEND, line, durable)
    }

    pub fn rename(&self, tid: u32, from: &str, to: &str) -> Result<()> {
        let who = World::who(tid);
        let ((from, old), (to, new)) = (self.at(&who, from)?, self.at(&who, to)?);
        let once = || self.tree.rename(&who, from, old, to, new, Renaming::Replace);
        match once() {
            // The kernel looks the names up again and sends it once more.
            Err(Error::Os(rustix::io::Errno::STALE)) => {
                self.tree.lookup(&who, from, old)?;
                once()
            }
            done => done,
        }
    }

    pub fn read(&self, tid: u32, path: &str) -> Result<String> {
        let who = World::who(tid);
        let (parent, name) = self.at(&who, path)?;
        let node = self.tree.lookup(&who, parent, name)?.node;
        let fh = self.tree.open(&who, node, libc::O_RDONLY)?.fh;
        let mut all = Vec::new();
        let end = loop {
            match self.tree.read(&who, node, fh, all.len() as u64, 1 << 20) {
                Ok(part) if part.is_empty() => break Ok(()),
                Ok(part) => all.extend(part),
                Err(e) => break Err(e),
            }
        };
        self.tree.release(node, fh)?;
        end.map(|()| String::from_utf8(all).unwrap())
    }
}

/// After the end there is nothing of ours that a running or interrupted daemon would have.
pub fn nothing_left(dir: &Path, what: &str) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let ours = name.starts_with(".instancefs-new-")
            || name.starts_with(".instancefs-put-")
            || name.starts_with(".instancefs-swap")
            || name.ends_with("-journal");
        assert!(!ours, "{what}: {name} is left behind");
    }
}
