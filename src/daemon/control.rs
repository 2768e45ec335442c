//! The daemon's control socket: one JSON line asks, JSON lines answer.
//!
//! The socket lies in the store, mode 0600, and the daemon looks at the peer's user id: only
//! the daemon's own user and root are answered. Paths of sockets are short (108 bytes), those
//! of stores are not, so both sides go through a descriptor of the store's directory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::Outcome;
use super::error::{Result, io};
use super::names;
use crate::documents::config::Order;

/// The longest request and the longest answer, in bytes: a config of the largest size that is
/// read from standard input, with every second character written as an escape.
const LINE_LIMIT: u64 = 130 << 20;

/// What a command asks the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// How it is: answered with [`Answer::Status`].
    Status,
    /// Leave (R11). Answered with [`Answer::Leaving`] or [`Answer::Busy`], and at the end with
    /// [`Answer::Left`].
    Unmount {
        /// Also when programs still use the mount.
        force: bool,
    },
    /// Put on record what other programs have done to the rows until now, and to the managed
    /// files that are in use. Answered with [`Answer::Settled`].
    Settle {
        /// The path of a managed file that is looked at in any case.
        #[serde(default)]
        file: Option<String>,
    },
    /// Bring a version back. Answered with [`Answer::Restored`], [`Answer::Refused`] or
    /// [`Answer::Failed`].
    Restore {
        /// The name whose text is to be that of the revision.
        file: String,
        /// Which.
        rev: u64,
        /// Pid of the command.
        pid: u32,
        /// Its session.
        session: u32,
    },
    /// Change the config. Answered with [`Answer::Config`], [`Answer::Failed`] or
    /// [`Answer::Ending`].
    Config {
        /// How.
        order: Order,
        /// Pid of the command.
        pid: u32,
        /// Its session.
        session: u32,
    },
    /// The asking process and its descendants are one writer with all others of this name. Answered
    /// with [`Answer::Settled`] or [`Answer::Failed`].
    Writer {
        /// The name.
        name: String,
    },
    /// Make a lease of this name: an exclusively created file there belongs to its process.
    /// Answered with [`Answer::Settled`].
    Lease {
        /// Relative to the store.
        name: String,
    },
    /// Tell of new versions: answered with [`Answer::Watching`], then with one empty line
    /// whenever there may be something new, until either side closes.
    Watch {
        /// The path of a managed file that is in use as long as somebody listens.
        #[serde(default)]
        file: Option<String>,
    },
}

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The state of the daemon, as in `status --json`.
    Status {
        /// The object.
        status: serde_json::Value,
    },
    /// Nothing is mounted any more; the documents are being written out.
    Leaving {
        /// The daemon's pid.
        pid: u32,
    },
    /// Programs use the mount; nothing was done.
    Busy,
    /// All is written out; the daemon ends now.
    Left {
        /// What did not go as it should, one line each.
        warnings: Vec<String>,
    },
    /// It is on record, as far as the database was free.
    Settled,
    /// The version is back.
    Restored {
        /// The revision that is current now.
        rev: u64,
        /// It is a new one; otherwise everything was as it should be.
        changed: bool,
    },
    /// The version must not come back.
    Refused {
        /// Why, one line.
        message: String,
        /// What to do about it; may be empty.
        hint: String,
    },
    /// What became of a change of the config.
    Config {
        /// That.
        outcome: Outcome,
    },
    /// The daemon is ending and has done nothing.
    Ending,
    /// From here on every empty line means news.
    Watching,
    /// It cannot be done.
    Failed {
        /// Why, one line.
        message: String,
    },
}

/// The answering end of one connection.
pub struct Peer {
    stream: UnixStream,
}

impl Peer {
    /// Sends one answer. A peer that is gone does not matter.
    pub fn answer(&mut self, answer: &Answer) {
        let mut line = serde_json::to_vec(answer).unwrap_or_default();
        line.push(b'\n');
        if let Err(e) = self.stream.write_all(&line) {
            log::debug!("control: the peer did not take the answer: {e}");
        }
    }

    /// The user at the other end.
    pub fn uid(&self) -> u32 {
        peer_uid(&self.stream).unwrap_or_default()
    }

    /// The process at the other end; 0: it cannot be told.
    pub fn pid(&self) -> u32 {
        let peer = rustix::net::sockopt::socket_peercred(&self.stream);
        peer.map_or(0, |peer| peer.pid.as_raw_nonzero().get().cast_unsigned())
    }

    /// The bare connection.
    pub(super) fn into_stream(self) -> UnixStream {
        self.stream
    }
}

/// Listens in the store and hands each request to `handle`, each in a thread of its own. The
/// threads live as long as the process.
pub fn listen(store: &Path, handle: impl Fn(Request, Peer) + Send + Sync + 'static) -> Result<()> {
    let path = store.join(names::SOCKET);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(io(&path, "cannot remove")(e));
        }
        _ => {}
    }
    let (_dir, short) = short_path(store).map_err(io(store, "cannot open"))?;
    let listener = UnixListener::bind(&short).map_err(io(&path, "cannot listen on"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
        .map_err(io(&path, "cannot set the mode of"))?;
    let handle = Arc::new(handle);
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                let handle = Arc::clone(&handle);
                let served = std::thread::Builder::new()
                    .name("control-peer".into())
                    .spawn(move || serve(stream, &*handle));
                if let Err(e) = served {
                    log::warn!("control: no thread for a request: {e}");
                }
            }
        })
        .map_err(io(&path, "cannot serve"))?;
    Ok(())
}

fn serve(stream: UnixStream, handle: &dyn Fn(Request, Peer)) {
    match peer_uid(&stream) {
        Ok(uid) if uid == 0 || uid == rustix::process::geteuid().as_raw() => {}
        Ok(uid) => return log::warn!("control: user {uid} was turned away"),
        Err(e) => return log::warn!("control: peer unknown: {e}"),
    }
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let _ = stream.set_write_timeout(Some(Duration::from_secs(5)));
    let mut line = String::new();
    let Ok(reading) = stream.try_clone() else { return };
    if BufReader::new(reading.take(LINE_LIMIT)).read_line(&mut line).is_err() {
        return;
    }
    let mut peer = Peer { stream };
    match serde_json::from_str(&line) {
        Ok(request) => handle(request, peer),
        Err(e) => peer.answer(&Answer::Failed { message: format!("request not understood: {e}") }),
    }
}

/// A connection to the daemon of a store.
pub struct Connection {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl Connection {
    /// Connects; `None` when no daemon listens.
    pub fn open(store: &Path) -> Option<Connection> {
        let (_dir, short) = short_path(store).ok()?;
        let stream = UnixStream::connect(short).ok()?;
        Some(Connection { stream: BufReader::new(stream), path: store.join(names::SOCKET) })
    }

    /// Sends the request.
    pub fn ask(&mut self, request: &Request) -> Result<()> {
        let mut line = serde_json::to_vec(request).unwrap_or_default();
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(io(&self.path, "cannot ask"))
    }

    /// The next answer within this time; `None` when the daemon closed the connection.
    pub fn answer(&mut self, patience: Duration) -> Result<Option<Answer>> {
        let failed = io::<std::io::Error>(&self.path, "no answer");
        self.stream
            .get_ref()
            .set_read_timeout(Some(patience.max(Duration::from_millis(1))))
            .map_err(io(&self.path, "cannot wait for"))?;
        let mut line = String::new();
        match (&mut self.stream).take(LINE_LIMIT).read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => serde_json::from_str(&line).map(Some).map_err(|e| failed(e.into())),
            Err(e) => match e.kind() {
                std::io::ErrorKind::ConnectionReset => Ok(None),
                // What the system calls a time-out is no help to a person.
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                    Err(failed(std::io::Error::other("the daemon is silent")))
                }
                _ => Err(failed(e)),
            },
        }
    }
}

impl Connection {
    /// After [`Answer::Watching`]: waits until there may be news, at most this long. `None`
    /// when the daemon closed the connection, else whether it said something.
    pub fn news(&mut self, patience: Duration) -> Result<Option<bool>> {
        let failed = io::<std::io::Error>(&self.path, "cannot wait for");
        let patience = Some(patience.max(Duration::from_millis(1)));
        if let Err(e) = self.stream.get_ref().set_read_timeout(patience) {
            return Err(failed(e));
        }
        match self.stream.fill_buf() {
            Ok([]) => Ok(None),
            Ok(some) => {
                let len = some.len();
                self.stream.consume(len);
                Ok(Some(true))
            }
            Err(e) => match e.kind() {
                std::io::ErrorKind::WouldBlock
                | std::io::ErrorKind::TimedOut
                | std::io::ErrorKind::Interrupted => Ok(Some(false)),
                std::io::ErrorKind::ConnectionReset => Ok(None),
                _ => Err(failed(e)),
            },
        }
    }
}

/// A short path to the store's socket; it works while the descriptor is open.
fn short_path(store: &Path) -> std::io::Result<(File, PathBuf)> {
    let dir =
        File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(store)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), names::SOCKET));
    Ok((dir, short))
}

/// The user id of the process at the other end, as it was when it connected.
fn peer_uid(stream: &UnixStream) -> std::io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw())
}

/// Takes over a descriptor that was passed to this process by number.
///
/// # Errors
/// The number is not an open descriptor.
pub(super) fn adopt_fd(fd: i32) -> std::io::Result<OwnedFd> {
    // SAFETY: F_GETFD on any number is harmless; it tells whether the number is open.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open (just asked) and was passed to this process for its sole
    // use: nothing else in the process knows the number.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
    Ok(owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_and_answers_in_a_store_with_a_long_path() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("x".repeat(120));
        std::fs::create_dir(&store).unwrap();
        assert!(Connection::open(&store).is_none());
        listen(&store, |request, mut peer| {
            assert_eq!(request, Request::Unmount { force: true });
            peer.answer(&Answer::Leaving { pid: 7 });
            peer.answer(&Answer::Left { warnings: vec!["a\nb".into()] });
        })
        .unwrap();
        let mode = std::fs::metadata(store.join(names::SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut c = Connection::open(&store).unwrap();
        c.ask(&Request::Unmount { force: true }).unwrap();
        let wait = Duration::from_secs(10);
        assert_eq!(c.answer(wait).unwrap(), Some(Answer::Leaving { pid: 7 }));
        assert_eq!(c.answer(wait).unwrap(), Some(Answer::Left { warnings: vec!["a\nb".into()] }));
        assert_eq!(c.answer(wait).unwrap(), None);
    }

    #[test]
    fn nonsense_is_answered_not_obeyed() {
        let dir = tempfile::tempdir().unwrap();
        listen(dir.path(), |_, _| panic!("obeyed")).unwrap();
        let mut c = Connection::open(dir.path()).unwrap();
        c.stream.get_mut().write_all(b"{\"do\":\"format-disk\"}\n").unwrap();
        let got = c.answer(Duration::from_secs(10)).unwrap();
        assert!(matches!(got, Some(Answer::Failed { .. })), "{got:?}");
    }
}
