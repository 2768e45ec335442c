//! The tree driven by processes that do what real ones were seen doing, without a mount.

mod bounds;
mod clock;
mod disk;
mod early;
mod errors;
mod fakes;
mod live;
mod managed;
mod merge_base;
mod model;
mod names;
mod programs;
mod random;
mod reads;
mod rows;
mod saves;
mod told;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::Arc;

use parking_lot::Mutex;

use self::disk::Disk;
use self::fakes::{FakeClock, FakeDocs, FakeMemory, FakeProc, FakeProcs};
use super::*;
use crate::model::{DocId, View};
use crate::process::{Descriptor, Exit, ProcId, Process};

const ROOT: Node = 1;
const RD: i32 = libc::O_RDONLY;
const WR: i32 = libc::O_WRONLY;
const RW: i32 = libc::O_RDWR;
const CREAT: i32 = libc::O_CREAT;
const EXCL: i32 = libc::O_EXCL;
const TRUNC: i32 = libc::O_TRUNC;
const APPEND: i32 = libc::O_APPEND;

const FIRST: &str = "# Missions\n\n## Pending\n- a\n- b\n";

/// A file that somebody has open.
#[derive(Clone)]
struct Open {
    node: Node,
    fh: Fh,
    flags: i32,
    offset: u64,
    count: usize,
}

struct World {
    dir: tempfile::TempDir,
    tree: Tree,
    docs: Arc<FakeDocs>,
    procs: Arc<FakeProcs>,
    clock: Arc<FakeClock>,
    memory: Arc<FakeMemory>,
    open: Mutex<HashMap<u32, Open>>,
    next: Mutex<u32>,
    uid: u32,
}

fn build(
    dir: &std::path::Path,
    docs: &Arc<FakeDocs>,
    procs: &Arc<FakeProcs>,
    clock: &Arc<FakeClock>,
    memory: &Arc<FakeMemory>,
) -> Tree {
    let parts = Parts {
        documents: docs.clone(),
        plain: Arc::new(Disk::new(dir)),
        processes: procs.clone(),
        memory: memory.clone(),
        clock: clock.clone(),
        rules: None,
    };
    let mut options = Options::new(dir.to_owned());
    options.size_limit = 1 << 20;
    Tree::new(parts, options).unwrap()
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let docs = Arc::new(FakeDocs::new());
        let procs = Arc::<FakeProcs>::default();
        let clock = Arc::<FakeClock>::default();
        let memory = Arc::<FakeMemory>::default();
        let tree = build(dir.path(), &docs, &procs, &clock, &memory);
        let (open, next) = (Mutex::default(), Mutex::new(100));
        World { dir, tree, docs, procs, clock, memory, open, next, uid: 1000 }
    }

    /// A new daemon on the same store.
    fn restart(&mut self) {
        self.tree = build(self.dir.path(), &self.docs, &self.procs, &self.clock, &self.memory);
        self.open.lock().clear();
    }

    fn number(&self) -> u32 {
        let mut next = self.next.lock();
        *next += 1;
        *next
    }

    fn spawn(&self, program: &str, parent: Option<&Process>, session: u32) -> P<'_> {
        let pid = self.number();
        let above = parent
            .into_iter()
            .flat_map(|p| std::iter::once(p.id).chain(p.ancestors.iter().copied()));
        let process = Process {
            id: ProcId { pid, ident: u64::from(pid) << 8 },
            ancestors: above.collect(),
            session: if session == 0 { pid } else { session },
            program: program.to_owned(),
        };
        let proc =
            FakeProc { process, alive: true, exit: Exit::No, fds: Vec::new(), holds: Vec::new() };
        self.procs.all.lock().insert(pid, proc);
        P { w: self, pid }
    }

    /// A process with its own session and no known parent.
    fn stranger(&self, program: &str) -> P<'_> {
        self.spawn(program, None, 0)
    }

    fn text(&self) -> String {
        self.docs.text(DocId::Missions)
    }

    fn config(&self) -> String {
        self.docs.text(DocId::Config)
    }

    /// The text of a file of the store.
    fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join(name)).ok()
    }

    /// The store's files with this in their name, without the mount's own.
    fn names(&self, part: &str) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|n| n.contains(part) && !n.starts_with(".instancefs"))
            .collect();
        names.sort();
        names
    }
}

/// A process. What it does goes to the tree in the calls that the kernel would send.
#[derive(Clone, Copy)]
struct P<'w> {
    w: &'w World,
    pid: u32,
}

type Fd = u32;

impl<'w> P<'w> {
    fn who(&self) -> Caller {
        self.thread(0)
    }

    fn thread(&self, n: u32) -> Caller {
        Caller { tid: self.pid * 10 + n, uid: self.w.uid, gid: self.w.uid }
    }

    fn process(&self) -> Process {
        self.w.procs.with(self.pid, |p| p.process.clone())
    }

    /// A child with the same open files, in the same session.
    fn fork(&self, program: &str) -> P<'w> {
        let me = self.process();
        let child = self.w.spawn(program, Some(&me), me.session);
        let fds = self.w.procs.with(self.pid, |p| p.fds.clone());
        for (id, _) in &fds {
            if let Some(open) = self.w.open.lock().get_mut(&((*id >> 32) as u32)) {
                open.count += 1;
            }
        }
        self.w.procs.with(child.pid, |p| p.fds = fds);
        child
    }

    fn exec(&self, program: &str) {
        self.w.procs.with(self.pid, |p| p.process.program = program.to_owned());
    }

    /// The directory and the name of a path, as the kernel finds them.
    fn at(&self, path: &str) -> (Node, std::ffi::OsString) {
        let mut parts: Vec<&str> = path.split('/').collect();
        let name = parts.pop().unwrap_or_default();
        let down = |at, part: &str| {
            self.w.tree.lookup(&self.who(), at, OsStr::new(part)).expect("a directory").node
        };
        (parts.into_iter().fold(ROOT, down), name.into())
    }

    fn open(&self, name: &str, flags: i32) -> Result<Fd> {
        self.open_by(&self.who(), name, flags)
    }

    fn open_by(&self, who: &Caller, name: &str, flags: i32) -> Result<Fd> {
        let tree = &self.w.tree;
        let (parent, name) = self.at(name);
        let found = tree.lookup(who, parent, &name);
        let (node, fh) = match found {
            Ok(_) if flags & (CREAT | EXCL) == CREAT | EXCL => return Err(Error::Exists),
            Ok(entry) => (entry.node, tree.open(who, entry.node, flags)?.fh),
            Err(Error::NotFound | Error::Os(rustix::io::Errno::NOENT)) if flags & CREAT != 0 => {
                let made = tree.create(who, parent, &name, 0o644, 0o022, flags)?;
                (made.entry.node, made.opened.fh)
            }
            Err(e) => return Err(e),
        };
        let fd = self.w.number();
        self.w.open.lock().insert(fd, Open { node, fh, flags, offset: 0, count: 0 });
        self.attach(fd, node, flags);
        Ok(fd)
    }

    /// One more descriptor of an open file. The upper half of the number in the list tells
    /// which file, so that descriptors can be taken away again.
    fn attach(&self, fd: Fd, node: Node, flags: i32) {
        if let Some(open) = self.w.open.lock().get_mut(&fd) {
            open.count += 1;
        }
        let d = Descriptor { writable: flags & libc::O_ACCMODE != RD, locked: false };
        self.w.procs.with(self.pid, |p| p.fds.push((u64::from(fd) << 32 | fakes::key(node), d)));
    }

    fn dup(&self, fd: Fd) {
        let open = self.get(fd);
        self.attach(fd, open.node, open.flags);
    }

    fn get(&self, fd: Fd) -> Open {
        self.w.open.lock().get(&fd).cloned().expect("an open descriptor")
    }

    fn advance(&self, fd: Fd, by: u64) {
        if let Some(open) = self.w.open.lock().get_mut(&fd) {
            open.offset += by;
        }
    }

    fn seek(&self, fd: Fd, to: u64) {
        if let Some(open) = self.w.open.lock().get_mut(&fd) {
            open.offset = to;
        }
    }

    fn pread(&self, fd: Fd, offset: u64, size: u32) -> Result<String> {
        let open = self.get(fd);
        let bytes = self.w.tree.read(&self.who(), open.node, open.fh, offset, size)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    fn read_some(&self, fd: Fd, size: u32) -> String {
        let text = self.pread(fd, self.get(fd).offset, size).unwrap();
        self.advance(fd, text.len() as u64);
        text
    }

    /// Reads until end of file.
    fn read_on(&self, fd: Fd) -> String {
        let mut all = String::new();
        loop {
            let part = self.read_some(fd, 4096);
            if part.is_empty() {
                return all;
            }
            all.push_str(&part);
        }
    }

    fn write_by(&self, who: &Caller, fd: Fd, text: &[u8]) -> Result<()> {
        let open = self.get(fd);
        let n = self.w.tree.write(who, open.node, open.fh, open.offset, text, open.flags)?;
        self.advance(fd, u64::from(n));
        assert_eq!(n as usize, text.len());
        Ok(())
    }

    fn write(&self, fd: Fd, text: &str) -> Result<()> {
        self.write_by(&self.who(), fd, text.as_bytes())
    }

    fn ftruncate(&self, fd: Fd, size: u64) -> Result<()> {
        let open = self.get(fd);
        let set = SetAttr { size: Some(size), fh: Some(open.fh), ..SetAttr::default() };
        self.w.tree.setattr(&self.who(), open.node, &set).map(|_| ())
    }

    fn fsync(&self, fd: Fd) -> Result<()> {
        let open = self.get(fd);
        self.w.tree.fsync(&self.who(), open.node, open.fh, false)
    }

    fn close(&self, fd: Fd) -> Result<()> {
        self.close_by(&self.who(), fd)
    }

    fn close_by(&self, who: &Caller, fd: Fd) -> Result<()> {
        self.w.procs.with(self.pid, |p| {
            let at = p.fds.iter().position(|(id, _)| (id >> 32) as u32 == fd).expect("open");
            p.fds.remove(at);
        });
        self.closed(who, fd)
    }

    fn closed(&self, who: &Caller, fd: Fd) -> Result<()> {
        let open = self.get(fd);
        let flushed = self.w.tree.flush(who, open.node, open.fh);
        let last = {
            let mut all = self.w.open.lock();
            let open = all.get_mut(&fd).unwrap();
            open.count -= 1;
            let last = open.count == 0;
            if last {
                all.remove(&fd);
            }
            last
        };
        if last {
            self.w.tree.release(open.node, open.fh).unwrap();
        }
        flushed
    }

    fn end(&self, exit: Exit) {
        let fds = self.w.procs.with(self.pid, |p| {
            p.exit = exit;
            std::mem::take(&mut p.fds)
        });
        for (id, _) in fds {
            let _ = self.closed(&self.who(), (id >> 32) as u32);
        }
        self.w.procs.with(self.pid, |p| p.alive = false);
    }

    fn exit(&self) {
        self.end(Exit::Normal);
    }

    fn kill(&self) {
        self.end(Exit::Killed);
    }

    fn lock(&self, fd: Fd, on: bool) {
        self.w.procs.with(self.pid, |p| {
            for (id, d) in &mut p.fds {
                if (*id >> 32) as u32 == fd {
                    d.locked = on;
                }
            }
        });
    }

    fn stat(&self, name: &str) -> Result<Attr> {
        let (parent, name) = self.at(name);
        let entry = self.w.tree.lookup(&self.who(), parent, &name)?;
        Ok(self.w.tree.getattr(&self.who(), entry.node, None)?.0)
    }

    fn fstat(&self, fd: Fd) -> Attr {
        self.w.tree.getattr(&self.who(), self.get(fd).node, None).unwrap().0
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.rename2(from, to, Renaming::Replace)
    }

    fn rename2(&self, from: &str, to: &str, how: Renaming) -> Result<()> {
        let ((from, old), (to, new)) = (self.at(from), self.at(to));
        let rename = || self.w.tree.rename(&self.who(), from, &old, to, &new, how);
        match rename() {
            // The kernel looks the names up again and sends it once more.
            Err(Error::Os(rustix::io::Errno::STALE)) => {
                let fresh = self.w.tree.lookup(&self.who(), from, &old)?;
                assert_eq!(fresh.entry_ttl, std::time::Duration::ZERO);
                rename()
            }
            done => done,
        }
    }

    fn unlink(&self, name: &str) -> Result<()> {
        let (parent, name) = self.at(name);
        self.w.tree.unlink(&self.who(), parent, &name)
    }

    /// `cat name`, in this very process.
    fn cat(&self, name: &str) -> Result<String> {
        let fd = self.open(name, RD)?;
        let text = self.read_on(fd);
        self.close(fd)?;
        Ok(text)
    }

    /// Truncating open, one write, close.
    fn save(&self, name: &str, text: &str) -> Result<()> {
        let fd = self.open(name, WR | CREAT | TRUNC)?;
        let written = self.write(fd, text);
        let closed = self.close(fd);
        written.and(closed)
    }

    /// `echo text >> name` by a shell that is this process.
    fn append(&self, name: &str, text: &str) -> Result<()> {
        let fd = self.open(name, WR | CREAT | APPEND)?;
        self.dup(fd);
        self.close(fd)?;
        self.write(fd, text)?;
        self.close(fd)
    }

    fn ls(&self) -> Vec<String> {
        self.entries(ROOT).into_iter().map(|e| e.name.into_string().unwrap()).collect()
    }

    fn entries(&self, node: Node) -> Vec<DirEntry> {
        let tree = &self.w.tree;
        let dir = tree.opendir(&self.who(), node, 0).unwrap();
        let mut entries = Vec::new();
        let mut at = 0;
        loop {
            let page = tree.readdir(&self.who(), node, dir.fh, at).unwrap();
            let Some(last) = page.last() else { break };
            at = last.next;
            entries.extend(page);
        }
        tree.releasedir(node, dir.fh);
        entries
    }
}

#[track_caller]
fn refused<T>(result: Result<T>) -> crate::model::Refusal {
    match result {
        Err(Error::Refused(refusal)) => refusal,
        Err(other) => panic!("refused was expected, not {other:?}"),
        Ok(_) => panic!("refused was expected, not success"),
    }
}

fn view_name(view: View) -> &'static str {
    view.name()
}
