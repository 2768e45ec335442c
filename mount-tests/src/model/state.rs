//! What the model knows: the versions of each document, what each actor has in memory and has
//! seen, and what is open.

use super::ops::{Doc, SLOTS};
use super::oracle::Seen;

/// A document.
#[derive(Debug, Default)]
pub struct Versions {
    /// The texts, oldest first; an empty one: there is no file yet.
    pub texts: Vec<String>,
    /// The versions that changed rows have made.
    pub by_rows: Vec<usize>,
    /// Of those the ones that may be missing in the history: the daemon was killed when another
    /// program had made the next one already, perhaps before it could record anything.
    pub unrecorded: Vec<usize>,
    /// Versions that may have come and gone between two looks at the document.
    pub unseen: usize,
    /// `st_mtime` and `st_ino` as last told.
    pub told: Option<(i128, u64)>,
}

impl Versions {
    /// The number of the current version.
    pub fn last(&self) -> usize {
        self.texts.len() - 1
    }

    /// The daemon was killed.
    pub fn killed(&mut self) {
        let by_rows = |version: &usize| self.by_rows.contains(version);
        let latest: Vec<usize> = (0..=self.last()).rev().take_while(by_rows).skip(1).collect();
        self.unrecorded.extend(latest);
    }

    /// Its text.
    pub fn current(&self) -> &str {
        self.texts.last().map_or("", |text| text)
    }
}

/// An open file.
#[derive(Debug)]
pub struct Handle {
    /// Its number: no other one has it.
    pub id: u64,
    /// Of which document.
    pub doc: Doc,
    /// The flags of the open.
    pub flags: i32,
    /// The name was not there for the opener.
    pub created: bool,
    /// What was there when the opener removed the name, which it has made anew by this open.
    pub removed: Option<Seen>,
    /// The version current then.
    pub opened: usize,
    /// Where the next read begins.
    pub position: u64,
    /// The version that reads return.
    pub reading: Option<usize>,
    /// The last read returned end of file: the next one moves on.
    pub at_end: bool,
    /// It was committed: the next read moves on, wherever it begins.
    pub moves: bool,
    /// The version whose size the opener has asked for since the open.
    pub told: Option<usize>,
    /// The version that was last noted as read through it.
    pub met: Option<usize>,
    /// What was last read or saved through it (section 4, rule 1).
    pub base: Option<Seen>,
    /// The text that was written over the document.
    pub buffer: Option<Vec<u8>>,
    /// The version that the buffer began as.
    pub start: Option<usize>,
    /// So many bytes of it from the beginning on were written anew.
    pub anew: usize,
    /// The text has begun empty, and each write came at its end.
    pub in_order: bool,
    /// Nothing that follows could mend it: so many bytes had been written without an error.
    pub hopeless: Option<usize>,
    /// Bytes that were appended.
    pub fragment: Vec<u8>,
    /// There is something that no commit has seen.
    pub dirty: bool,
    /// Its opener has written or cut something of it.
    pub touched: bool,
    /// Truncated or created by the open, and nothing written since.
    pub only_truncated: bool,
    /// The last commit was refused.
    pub refused: bool,
    /// What was read since the beginning of the text.
    pub got: Vec<u8>,
    /// That is all of it.
    pub complete: bool,
    /// What was read since the beginning is of two versions, as a follower reads.
    pub mixed: bool,
}

impl Handle {
    /// May read.
    pub fn reads(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_WRONLY
    }

    /// May write.
    pub fn writes(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    /// Appends.
    pub fn appends(&self) -> bool {
        self.flags & libc::O_APPEND != 0
    }

    /// The text that its own reads return instead of a version.
    pub fn own_text(&self) -> Option<&[u8]> {
        self.buffer.as_deref().filter(|_| self.dirty || self.only_truncated)
    }

    /// Something is done elsewhere than at the end: who was told of an error takes what has failed
    /// for not written.
    pub fn leaves_order(&mut self) {
        if let (Some(written), Some(buffer)) = (self.hopeless.take(), &mut self.buffer) {
            buffer.truncate(written);
        }
        self.in_order = false;
    }

    /// New bytes came.
    pub fn soil(&mut self) {
        self.dirty = true;
        self.only_truncated = false;
        self.refused = false;
    }

    /// Everything is committed: reads move on, later writes continue the text.
    pub fn clean(&mut self, base: Option<Seen>) {
        (self.dirty, self.touched) = (false, false);
        self.only_truncated = false;
        self.refused = false;
        self.fragment.clear();
        self.start = None;
        self.moves = true;
        if base.is_some() {
            self.base = base;
        }
    }
}

/// A file of an actor that may be renamed onto a document.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Onto which.
    pub doc: Doc,
    /// What is in it.
    pub text: String,
    /// What had been observed when it was written.
    pub until: u64,
    /// The process that wrote it.
    pub generation: usize,
}

/// One of those who do something: a process with a session of its own.
#[derive(Debug, Default)]
pub struct Actor {
    /// Counts its processes.
    pub generation: usize,
    /// The text that it would edit, per document.
    pub memory: [Option<String>; 2],
    /// When it has removed the name, which is free for it for a while, and what was there.
    pub removed: [Option<(u64, Seen)>; 2],
    /// The last one is for operations that open and close a file.
    pub handles: [Option<Handle>; SLOTS + 1],
    /// Its file.
    pub draft: Option<Draft>,
}

/// A text that was refused and has to be kept.
#[derive(Debug, Clone)]
pub struct Refused {
    /// Who wrote it.
    pub who: usize,
    /// Its process.
    pub generation: usize,
    /// Through which handle, if it was one.
    pub handle: Option<u64>,
    /// Of which document.
    pub doc: Doc,
    /// The text.
    pub text: Vec<u8>,
    /// They were lines for the end: what else is appended says nothing of them.
    pub append: bool,
    /// The daemon has ended since: it stays until somebody removes it.
    pub stays: bool,
}
