//! Standing between a program and the kernel: every call that a thread or a child makes on files
//! below a directory can be counted, failed, written down, or answered by a kill.
//!
//! A seccomp filter with a listener makes the kernel ask before it does such a call. It sees all
//! of them, whoever makes them: SQLite, the standard library, direct system calls. Nothing of the
//! watched program is changed for it. What is not below the directory is let through.

mod kinds;
mod listener;
pub mod power;

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use kinds::Kind;

/// A call that is about to be made.
pub struct Call {
    /// The thread that makes it.
    pub thread: u32,
    /// What it does.
    pub kind: Kind,
    /// The file, relative to the watched directory; empty: the directory itself.
    pub path: PathBuf,
    /// The second file of a rename or a link, relative too; `None` when it is outside.
    pub to: Option<PathBuf>,
    args: [u64; 6],
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is made.
    Go,
    /// It is not made and fails with this number.
    Fail(i32),
    /// The process that wants to make it is killed before.
    Kill,
}

/// Who is asked about each call. One call at a time; the caller waits meanwhile.
pub type Judge = Box<dyn FnMut(&Call) -> Verdict + Send>;

/// Which calls are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that change something or make it durable.
    Changes,
    /// Those that read, open and ask, too.
    All,
}

impl Call {
    /// The bytes of a write. Others: none.
    pub fn data(&self) -> Vec<u8> {
        let [_, start, len, ..] = self.args;
        match self.kind {
            Kind::Write { vector: false, .. } => listener::memory(self.thread, start, len as usize),
            Kind::Write { vector: true, .. } => {
                let list = listener::memory(self.thread, start, len as usize * 16);
                let number = |b: &[u8]| u64::from_ne_bytes(b.try_into().unwrap_or_default());
                let parts = list.chunks_exact(16).map(|one| (number(&one[..8]), number(&one[8..])));
                let part = |(at, len)| listener::memory(self.thread, at, len as usize);
                parts.flat_map(part).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Where a write begins, in bytes.
    pub fn offset(&self) -> u64 {
        let Kind::Write { at_offset, vector } = self.kind else { return 0 };
        let fd = self.args[0] as i32;
        let info = std::fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", self.thread));
        let info = info.unwrap_or_default();
        let field = |name: &str, radix: u32| {
            let text = info.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(text.trim(), radix).ok()
        };
        let at_end = self.args[5] as i32 & libc::RWF_APPEND != 0 && vector;
        if at_end || field("flags:", 8).unwrap_or(0) as i32 & libc::O_APPEND != 0 {
            let path = format!("/proc/{}/fd/{fd}", self.thread);
            return std::fs::metadata(path).map_or(0, |meta| meta.len());
        }
        if at_offset {
            return self.args[3];
        }
        field("pos:", 10).unwrap_or(0)
    }

    /// The new size, for a truncation.
    pub fn size(&self) -> u64 {
        self.args[1]
    }

    /// What a symlink is to lead to.
    pub fn target(&self) -> OsString {
        OsString::from_vec(listener::text(self.thread, self.args[0]))
    }
}

/// Makes a call that fails of every call below `root` that the calling thread makes from now on,
/// and threads and processes that it starts, for as long as the thread lives: ends only with it,
/// so it is for threads of their own. Panics when the machine cannot do it.
pub fn watch_this_thread(root: &Path, which: Which, judge: Judge) {
    let root = root.canonicalize().expect("a directory");
    let (send, receive) = std::sync::mpsc::channel::<OwnedFd>();
    // Started first: whoever is started later is watched, too.
    std::thread::spawn(move || {
        if let Ok(fd) = receive.recv() {
            serve(&fd, &root, judge);
        }
    });
    let fd = listener::install(which).unwrap_or_else(|e| panic!("{}", unusable(&e)));
    send.send(fd).expect("the other thread waits for it");
}

/// Why a listener cannot be had.
fn unusable(e: &std::io::Error) -> String {
    format!(
        "system calls cannot be watched here: {e}; it needs Linux 5.5, root or no_new_privs, \
         and no other seccomp listener above"
    )
}

/// A child whose calls are watched from its first one on.
pub struct Watched {
    /// The child.
    pub child: std::process::Child,
    server: Option<std::thread::JoinHandle<()>>,
}

impl Watched {
    /// Starts a command, whose own `pre_exec` comes first.
    pub fn start(
        mut command: std::process::Command,
        root: &Path,
        which: Which,
        judge: Judge,
    ) -> std::io::Result<Watched> {
        use std::os::unix::process::CommandExt;
        let root = root.canonicalize()?;
        let (ours, theirs) = listener::socket_pair()?;
        // SAFETY: between fork and exec, only system calls are made and no memory is asked for.
        unsafe {
            command.pre_exec(move || {
                let fd = listener::install(which)?;
                listener::send_fd(theirs.as_raw_fd(), &fd)
            });
        }
        // The child waits for nobody when it sends; but its exec may be a call to be asked about.
        let root = Arc::new(root);
        let server = std::thread::spawn(move || {
            if let Ok(fd) = listener::receive_fd(&ours) {
                serve(&fd, &root, judge);
            }
        });
        let child = command.spawn()?;
        drop(command);
        Ok(Watched { child, server: Some(server) })
    }

    /// Waits until every process and thread that was watched has ended.
    pub fn wait(mut self) -> std::io::Result<std::process::ExitStatus> {
        let status = self.child.wait()?;
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
        Ok(status)
    }
}

/// Answers the kernel until nobody is left who could ask.
fn serve(fd: &OwnedFd, root: &Path, mut judge: Judge) {
    while let Some(asked) = listener::next(fd) {
        let verdict = match call(&asked, root) {
            Some(call) => judge(&call),
            None => Verdict::Go,
        };
        if verdict == Verdict::Kill {
            // SAFETY: plain kill; the process waits in the call that is asked about, so the number
            // is still its own.
            unsafe { libc::kill(asked.pid as i32, libc::SIGKILL) };
        }
        listener::answer(fd, asked.id, verdict);
    }
}

/// The call as far as it concerns files below `root`.
fn call(asked: &listener::Asked, root: &Path) -> Option<Call> {
    let kinds::Shape { kind, file, to } = kinds::shape(asked)?;
    let whole = |place: kinds::Place| match place {
        kinds::Place::Descriptor(fd) => link(asked.pid, fd),
        kinds::Place::Path { dir, path } => {
            let name = PathBuf::from(OsString::from_vec(listener::text(asked.pid, path)));
            if name.is_absolute() {
                return Some(name);
            }
            // An empty name means the descriptor itself.
            let dir = match dir {
                libc::AT_FDCWD => std::fs::read_link(format!("/proc/{}/cwd", asked.pid)).ok()?,
                fd => link(asked.pid, fd)?,
            };
            Some(if name.as_os_str().is_empty() { dir } else { dir.join(name) })
        }
    };
    let below = |path: PathBuf| {
        let clean: PathBuf = path.components().collect();
        clean.strip_prefix(root).ok().map(Path::to_owned)
    };
    let from = whole(file).and_then(below);
    let to = to.and_then(whole).and_then(below);
    let path = from.or_else(|| to.clone())?;
    Some(Call { thread: asked.pid, kind, path, to, args: asked.args })
}

/// What a descriptor of a thread leads to.
fn link(thread: u32, fd: i32) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/{thread}/fd/{fd}")).ok()?;
    // A file without a name is nobody's any more.
    (!path.as_os_str().as_bytes().ends_with(b" (deleted)")).then_some(path)
}
