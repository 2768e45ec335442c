//! Processes: who is asking, from whom it descends, and what it still has open.
//!
//! Reading `/proc` inside a request can hang for good: during exec the kernel holds a lock that
//! `stat`, `exe`, `cwd`, `fd`, `environ` and `maps` need, and exec flushes files. Only `status`,
//! `comm`, `statm` and `fdinfo` are read here, `stat` only of a task that is exiting (`statm` all
//! zero). No lock of ours is held meanwhile.

mod known;
pub mod mountinfo;

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, Mode, OFlags, RawDir};
use rustix::path::Arg;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use self::known::Known;
use self::mountinfo::MountInfo;
use crate::model::session_of;

/// One process, never confused with a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcId {
    /// Thread group id.
    pub pid: u32,
    /// The inode number of its pidfd, unique for the boot.
    pub ident: u64,
}

/// A process as it was when it asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Which.
    pub id: ProcId,
    /// Its ancestors when it was first asked for, nearest first, without pid 1.
    pub ancestors: Arc<[ProcId]>,
    /// Session id in the daemon's pid namespace; 0 identifies nobody.
    pub session: u32,
    /// `comm`.
    pub program: String,
}

/// One descriptor that a process has on a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Open for writing.
    pub writable: bool,
    /// The process holds a `flock` or `fcntl` lock through it.
    pub locked: bool,
}

/// Whether a task is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It is not.
    No,
    /// It called exit, with whatever code.
    Normal,
    /// A signal ended it.
    Killed,
}

/// Questions about processes. No answer blocks on another process.
pub trait Processes: Send + Sync {
    /// The process of a thread; `None` when the id is 0 or gone.
    fn of_thread(&self, tid: u32) -> Option<Process>;
    /// Whether this task is exiting, and how.
    fn exiting(&self, tid: u32) -> Exit;
    /// Still the same process, and not a zombie without files.
    fn alive(&self, id: ProcId) -> bool;
    /// Its descriptors on files whose inode number is one of `inos`.
    fn descriptors(&self, id: ProcId, inos: &[u64]) -> Vec<Descriptor>;
    /// Whether it or an ancestor holds a lock on the file with inode number `ino`.
    fn family_holds_lock(&self, id: ProcId, ino: u64) -> bool;
    /// The daemon's own thread group id.
    fn own_pid(&self) -> u32;
    /// To be called from time to time, outside of requests.
    fn tick(&self) {}
}

/// The processes of this machine.
#[derive(Debug, Default)]
pub struct System {
    /// The place of the mount whose descriptors are asked for.
    mountpoint: Option<PathBuf>,
    /// Which mounts show our file system. `fdinfo` has inode numbers and mount ids; the numbers alone
    /// are those of other file systems too.
    mounts: RwLock<Mounts>,
    /// Ancestors by identity: they change only when a parent dies, and what counts is who they
    /// were at first.
    families: Mutex<Families>,
    /// Those that asked last.
    known: Known,
}

/// Processes whose ancestors are remembered, in each of the two halves.
const FAMILIES_KEPT: usize = 4096;
/// Ancestors that are asked for at most.
const GENERATIONS: usize = 64;

/// The ancestors of the processes that asked last. When the younger half is full it takes the place
/// of the older one; who is asked for again moves to the younger half.
#[derive(Debug, Default)]
struct Families {
    younger: HashMap<ProcId, Arc<[ProcId]>>,
    older: HashMap<ProcId, Arc<[ProcId]>>,
}

impl Families {
    fn get(&mut self, id: ProcId) -> Option<Arc<[ProcId]>> {
        if let Some(found) = self.younger.get(&id) {
            return Some(found.clone());
        }
        let found = self.older.remove(&id)?;
        self.put(id, found.clone());
        Some(found)
    }

    /// What was known first stays.
    fn put(&mut self, id: ProcId, ancestors: Arc<[ProcId]>) {
        if self.younger.len() >= FAMILIES_KEPT {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.entry(id).or_insert(ancestors);
    }
}

struct Status {
    tgid: u32,
    ppid: u32,
    session: u32,
    zombie: bool,
}

/// Room for most files of `/proc`.
const PAGE: usize = 4096;

/// The text of a file of `/proc`. As a rule one read is enough: `read_to_string` would start with
/// a few bytes and ask again and again.
fn text(dir: impl AsFd, name: impl Arg) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?;
    let mut text = Vec::with_capacity(PAGE);
    loop {
        match rustix::io::read(&fd, spare_capacity(&mut text)) {
            // The end, told or to be seen from what is left of the room.
            Ok(0) => break,
            Ok(_) if text.len() < text.capacity() => break,
            Ok(_) => text.reserve(PAGE),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    // Names may hold anything.
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn status(pid: u32) -> Option<Status> {
    let text = text(CWD, format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    Some(Status {
        tgid: field("Tgid:")?.parse().ok()?,
        ppid: field("PPid:")?.parse().ok()?,
        session: field("NSsid:").and_then(|s| s.parse().ok()).unwrap_or(0),
        zombie: matches!(field("State:").as_deref(), Some("Z" | "X")),
    })
}

/// The identity of a thread group leader.
fn identify(pid: u32) -> Option<ProcId> {
    Some(open_process(pid)?.0)
}

/// The same with the pidfd.
fn open_process(pid: u32) -> Option<(ProcId, OwnedFd)> {
    let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let fd = pidfd_open(number, PidfdFlags::empty()).ok()?;
    let ident = rustix::fs::fstat(&fd).ok()?.st_ino;
    Some((ProcId { pid, ident }, fd))
}

fn comm(pid: u32) -> String {
    let name = text(CWD, format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end_matches('\n').to_owned()
}

fn parent_of(pid: u32) -> Option<ProcId> {
    let parent = status(pid)?.ppid;
    if parent <= 1 { None } else { identify(parent) }
}

impl System {
    /// The processes that use the mount at `mountpoint`.
    pub fn at(mountpoint: &Path) -> System {
        System { mountpoint: Some(mountpoint.to_owned()), ..System::default() }
    }

    fn look(&self, id: ProcId, inos: &[u64], mount: impl Fn(u64) -> bool) -> Vec<Descriptor> {
        if !self.known.lives(id) && identify(id.pid) != Some(id) {
            return Vec::new();
        }
        let (path, flags) = (format!("/proc/{}/fdinfo", id.pid), OFlags::RDONLY | OFlags::CLOEXEC);
        let dir = rustix::fs::openat(CWD, path, flags | OFlags::DIRECTORY, Mode::empty());
        let Ok(dir) = dir else { return Vec::new() };
        let mut names = [MaybeUninit::uninit(); PAGE];
        let mut names = RawDir::new(&dir, &mut names);
        let mut found = Vec::new();
        while let Some(Ok(entry)) = names.next() {
            if entry.file_name().to_bytes().starts_with(b".") {
                continue;
            }
            let Some(text) = text(&dir, entry.file_name()) else { continue };
            if let Some(info) = fdinfo(&text)
                && inos.contains(&info.ino)
                && mount(info.mount)
            {
                found.push(info.descriptor);
            }
        }
        found
    }

    /// Whether the mount of a descriptor of this process can be ours: it is, or it was inherited from
    /// another mount namespace, where only the inode number tells.
    fn may_be_ours(&self, pid: u32, mount: u64) -> bool {
        if let Some(ours) = self.mounts.read().known.get(&mount) {
            return *ours;
        }
        if self.mounts.read().own.is_none() {
            self.look_at_mounts();
        }
        let Some(own) = self.mounts.read().own.clone() else { return true };
        let theirs = text(CWD, format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let ours = own.among(&mountinfo::parse(theirs.as_bytes()), mount);
        if let Some(ours) = ours {
            self.mounts.write().known.insert(mount, ours);
        }
        ours.unwrap_or(true)
    }

    fn look_at_mounts(&self) {
        if let Some(mountpoint) = &self.mountpoint
            && let Ok(all) = mountinfo::all()
        {
            *self.mounts.write() = Mounts::of(&all, mountpoint);
        }
    }

    /// The ancestors of a process whose parent is `ppid`: one question for the parent if that is
    /// known already, else one for each generation up to one that is.
    fn ancestors(&self, id: ProcId, ppid: u32) -> Arc<[ProcId]> {
        if let Some(known) = self.families.lock().get(id) {
            return known;
        }
        let mut found = vec![id];
        let mut above: Arc<[ProcId]> = Arc::from([]);
        let mut next = if ppid <= 1 { None } else { identify(ppid) };
        while let Some(ancestor) = next.filter(|_| found.len() < GENERATIONS) {
            found.push(ancestor);
            if let Some(known) = self.families.lock().get(ancestor) {
                above = known;
                break;
            }
            next = parent_of(ancestor.pid);
        }
        let mut families = self.families.lock();
        let mut own = above.to_vec();
        while let Some(process) = found.pop() {
            families.put(process, Arc::from(&own[..]));
            own.insert(0, process);
        }
        families.get(id).unwrap_or_else(|| Arc::from(&own[1..]))
    }
}

impl Processes for System {
    fn of_thread(&self, tid: u32) -> Option<Process> {
        if tid == 0 {
            return None;
        }
        // A pidfd is had of whole processes only: this thread is the one that stands for its own.
        let family = |id| self.families.lock().get(id);
        if let Some((id, program)) = self.known.of(tid)
            && let (Some(ancestors), Some(session)) = (family(id), session_of(tid))
        {
            return Some(Process { id, ancestors, session, program });
        }
        if let Some((id, pidfd)) = open_process(tid) {
            self.known.hold(id, pidfd);
            if let (Some(ancestors), Some(session)) = (family(id), session_of(tid)) {
                return Some(Process { id, ancestors, session, program: comm(tid) });
            }
        }
        let status = status(tid)?;
        let id = identify(status.tgid)?;
        let program = comm(id.pid);
        let ancestors = self.ancestors(id, status.ppid);
        Some(Process { id, ancestors, session: status.session, program })
    }

    fn exiting(&self, tid: u32) -> Exit {
        let Some(statm) = text(CWD, format!("/proc/{tid}/statm")) else { return Exit::No };
        if statm.split_whitespace().any(|n| n != "0") {
            return Exit::No;
        }
        let code = text(CWD, format!("/proc/{tid}/stat")).and_then(|text| {
            // The name in parentheses may hold anything; exit_code is field 52, the last.
            let (_, rest) = text.rsplit_once(')')?;
            rest.split_whitespace().nth(49)?.parse::<u32>().ok()
        });
        match code {
            Some(code) if code & 0x7f != 0 => Exit::Killed,
            _ => Exit::Normal,
        }
    }

    fn alive(&self, id: ProcId) -> bool {
        self.known.lives(id)
            || identify(id.pid) == Some(id) && status(id.pid).is_some_and(|s| !s.zombie)
    }

    fn descriptors(&self, id: ProcId, inos: &[u64]) -> Vec<Descriptor> {
        self.look(id, inos, |mount| self.may_be_ours(id.pid, mount))
    }

    fn family_holds_lock(&self, id: ProcId, ino: u64) -> bool {
        let mut next = Some(id);
        for _ in 0..GENERATIONS {
            let Some(id) = next else { return false };
            if self.look(id, &[ino], |_| true).iter().any(|d| d.locked) {
                return true;
            }
            next = parent_of(id.pid);
        }
        false
    }

    fn own_pid(&self) -> u32 {
        std::process::id()
    }

    fn tick(&self) {
        self.known.rest();
        self.look_at_mounts();
    }
}

/// Mount ids, and whether they are of our file system.
#[derive(Debug, Default)]
struct Mounts {
    /// Those of the daemon's namespace, and those of others that were asked for.
    known: HashMap<u64, bool>,
    /// What is mounted topmost at our place.
    own: Option<MountInfo>,
}

impl Mounts {
    /// Empty when nothing is mounted at `mountpoint`.
    fn of(all: &[MountInfo], mountpoint: &Path) -> Mounts {
        let Some(own) = all.iter().rfind(|m| m.point == mountpoint) else {
            return Mounts::default();
        };
        let known = all.iter().map(|m| (m.id, m.device == own.device)).collect();
        Mounts { known, own: Some(own.clone()) }
    }
}

impl MountInfo {
    /// Whether a mount is of the same file system as this one. `all` is what a process sees that has
    /// a file there: what is nowhere in a namespace that has this one was taken away from under
    /// that file, as the mount of a daemon that was killed. `None`: it cannot be told.
    fn among(&self, all: &[MountInfo], mount: u64) -> Option<bool> {
        match all.iter().find(|m| m.id == mount) {
            Some(there) => Some(there.device == self.device),
            None => all.iter().any(|m| m.id == self.id).then_some(false),
        }
    }
}

/// What a file of `/proc/PID/fdinfo` tells.
#[derive(Debug, PartialEq, Eq)]
struct Info {
    ino: u64,
    mount: u64,
    descriptor: Descriptor,
}

fn fdinfo(text: &str) -> Option<Info> {
    let mut ino = None;
    let mut mount = 0;
    let mut flags = 0;
    let mut locked = false;
    for line in text.lines() {
        if let Some(n) = line.strip_prefix("ino:") {
            ino = n.trim().parse().ok();
        } else if let Some(n) = line.strip_prefix("mnt_id:") {
            mount = n.trim().parse().unwrap_or(0);
        } else if let Some(n) = line.strip_prefix("flags:") {
            flags = i32::from_str_radix(n.trim(), 8).unwrap_or(0);
        } else if line.starts_with("lock:") {
            locked = true;
        }
    }
    if flags & libc::O_PATH != 0 {
        return None;
    }
    let writable = flags & libc::O_ACCMODE != libc::O_RDONLY;
    Some(Info { ino: ino?, mount, descriptor: Descriptor { writable, locked } })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn knows_itself_and_its_child() {
        let system = System::default();
        let me = system.of_thread(std::process::id()).unwrap();
        assert_eq!(me.id.pid, std::process::id());
        assert!(system.alive(me.id));
        assert!(!system.alive(ProcId { ident: me.id.ident + 1, ..me.id }));
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        let c = system.of_thread(child.id()).unwrap();
        assert_eq!(c.ancestors[0], me.id);
        assert_eq!(c.ancestors.get(1), me.ancestors.first());
        assert_eq!(system.exiting(child.id()), Exit::No);
        child.kill().unwrap();
        // Until it is waited for it is a zombie: exiting, by a signal.
        for _ in 0..200 {
            if system.exiting(child.id()) == Exit::Killed {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(system.exiting(child.id()), Exit::Killed);
        assert!(!system.alive(c.id));
        child.wait().unwrap();
    }

    #[test]
    fn knows_a_program_whose_name_is_no_utf_8() {
        use std::os::unix::process::ExitStatusExt;
        let dir = tempfile::tempdir().unwrap();
        // The kernel cuts names after 15 bytes, if need be in the middle of a letter.
        let path = dir.path().join("ein-sehr-langeé");
        fs::copy("/bin/sleep", &path).unwrap();
        let system = System::default();
        // A leader of a session, whatever session this test is in.
        let mut child = std::process::Command::new("setsid").arg(&path).arg("30").spawn().unwrap();
        // Our wait for the exec may end just before it has set the name.
        let pause = || std::thread::sleep(std::time::Duration::from_millis(5));
        let known = (0..400).find_map(|_| {
            pause();
            system.of_thread(child.id()).filter(|p| p.program.starts_with("ein"))
        });
        child.kill().unwrap();
        let killed = (0..400).any(|_| {
            pause();
            system.exiting(child.id()) == Exit::Killed
        });
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let known = known.expect("a process");
        assert_eq!((known.id.pid, known.program.as_str()), (child.id(), "ein-sehr-lange\u{fffd}"));
        assert_eq!((known.session, killed), (child.id(), true));
    }

    #[test]
    fn a_thread_is_its_process() {
        let system = System::default();
        let tid = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let tid = tid.join().unwrap();
        assert_ne!(tid, std::process::id());
        let (send, receive) = std::sync::mpsc::channel::<u32>();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = stopped.recv();
        });
        let tid = receive.recv().unwrap();
        assert_eq!(system.of_thread(tid).unwrap().id.pid, std::process::id());
        drop(stop);
        thread.join().unwrap();
    }

    #[test]
    fn sees_descriptors_and_locks() {
        let system = System::default();
        let me = system.of_thread(std::process::id()).unwrap().id;
        let file = tempfile::NamedTempFile::new().unwrap();
        let ino = file.as_file().metadata().unwrap().ino();
        let own = system.descriptors(me, &[ino]);
        assert_eq!(own, [Descriptor { writable: true, locked: false }]);
        assert!(!system.family_holds_lock(me, ino));
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert!(system.family_holds_lock(me, ino));
        let other = fs::File::open(file.path()).unwrap();
        assert_eq!(system.descriptors(me, &[ino]).len(), 2);
        drop(other);
    }

    #[test]
    fn descriptors_for_paths_only_do_not_count() {
        assert_eq!(fdinfo("pos:\t0\nflags:\t010000000\nmnt_id:\t20\nino:\t5\n"), None);
        let text = "pos:\t0\nflags:\t02\nmnt_id:\t31\nino:\t7\nlock:\t1: POSIX  ADVISORY  WRITE 1 00:2e:7 0 EOF";
        let descriptor = Descriptor { writable: true, locked: true };
        assert_eq!(fdinfo(text), Some(Info { ino: 7, mount: 31, descriptor }));
    }

    #[test]
    fn other_mounts_of_the_namespace_are_not_ours() {
        let text = b"21 1 0:5 / /dev rw - devtmpfs x rw\n\
            40 1 0:50 / /a\\040b rw shared:1 - fuse.x x rw\n\
            41 1 0:51 / /a\\040b rw shared:1 - fuse.x x rw\n\
            42 1 0:51 / /bind rw shared:1 - fuse.x x rw\n";
        let all = mountinfo::parse(text);
        let mounts = Mounts::of(&all, Path::new("/a b"));
        assert_eq!([21, 40, 41, 42].map(|id| mounts.known[&id]), [false, false, true, true]);
        let own = mounts.own.unwrap();
        // One that is nowhere any more, and those of another namespace.
        assert_eq!(own.among(&all, 39), Some(false));
        let theirs = b"81 1 0:5 / /dev rw - devtmpfs x rw\n82 1 0:51 / /in rw - fuse.x x rw\n";
        let theirs = mountinfo::parse(theirs);
        assert_eq!([81, 82, 83].map(|id| own.among(&theirs, id)), [Some(false), Some(true), None]);
        assert!(Mounts::of(&all, Path::new("/nowhere")).own.is_none());
    }
}
