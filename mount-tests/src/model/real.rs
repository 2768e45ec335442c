//! What a sequence is done to.

use super::ops::{Doc, Way};

/// What `stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes.
    pub size: u64,
    /// Nanoseconds.
    pub mtime: i128,
    /// `st_ino`.
    pub ino: u64,
}

/// The answer of a system call; an error is its errno.
pub type Answer<T> = Result<T, i32>;

/// The real thing. Actors are numbered from 0 and have numbered slots for open files, which are
/// open when they are used. Whatever is not a system call's answer panics when it fails.
pub trait Real {
    /// Time stands still but for [`Real::rest`], which is long enough for everything that takes
    /// its time; what is not acknowledged before a crash is lost by it.
    fn exact(&self) -> bool;
    /// Milliseconds since some moment.
    fn now(&self) -> u64;

    /// `open(name, flags, 0644)`.
    fn open(&mut self, who: usize, slot: usize, name: &str, flags: i32) -> Answer<()>;
    /// `pread`.
    fn read(&mut self, who: usize, slot: usize, offset: u64, size: usize) -> Answer<Vec<u8>>;
    /// `pwrite` of all bytes.
    fn write(&mut self, who: usize, slot: usize, offset: u64, bytes: &[u8]) -> Answer<()>;
    /// `ftruncate`.
    fn truncate(&mut self, who: usize, slot: usize, size: u64) -> Answer<()>;
    /// `fsync`.
    fn fsync(&mut self, who: usize, slot: usize) -> Answer<()>;
    /// `close`.
    fn close(&mut self, who: usize, slot: usize) -> Answer<()>;
    /// `rename`.
    fn rename(&mut self, who: usize, from: &str, to: &str) -> Answer<()>;
    /// `unlink`.
    fn unlink(&mut self, who: usize, name: &str) -> Answer<()>;
    /// `stat`.
    fn stat(&mut self, who: usize, name: &str) -> Answer<Stat>;

    /// Ends an actor's process, which has nothing open, and starts another in its place.
    fn exit(&mut self, who: usize);
    /// The same by `kill -9`, whatever it has open.
    fn kill(&mut self, who: usize);

    /// What a stranger reads and is told; `None`: there is no such file.
    fn observe(&mut self, doc: Doc) -> Option<(Vec<u8>, Stat)>;
    /// Text and state of all missions, by sequence and id.
    fn rows(&mut self) -> Vec<(String, String)>;
    /// Another program's statement on `missions.db`.
    fn sql(&mut self, statement: &str);
    /// `instancefs config set`.
    fn command(&mut self, key: &str, value: u32);
    /// Name and content of the files with `.refused` or `.unsaved-` in their name.
    fn kept(&mut self) -> Vec<(String, Vec<u8>)>;
    /// The texts of all revisions of the document, oldest first.
    fn history(&mut self, doc: Doc) -> Vec<Vec<u8>>;

    /// Lets more time pass than anything waits for but a freed name.
    fn rest(&mut self);
    /// A clean end with nothing open, and a new daemon. The documents as plain files in between,
    /// where they are written out.
    fn remount(&mut self) -> Vec<(Doc, Vec<u8>)>;
    /// An end by SIGTERM, whatever is open, and a new daemon.
    fn term(&mut self);
    /// `kill -9` of the daemon, and a new one.
    fn crash(&mut self);
    /// The same `after` microseconds from the start of a save by `who` (`way` `None`: an append to
    /// the name); whether the save was acknowledged.
    fn crash_in(
        &mut self,
        who: usize,
        name: &str,
        way: Option<Way>,
        text: &str,
        after: u64,
    ) -> bool;
}
