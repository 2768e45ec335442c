//! The model at work: what each system call must answer, and what everybody must read after it.

use super::ops::Doc;
use super::oracle::{RowChange, Seen};
use super::real::{Answer, Real};
use super::state::{Actor, Handle, Refused, Versions};

/// What is wrong, or nothing.
pub type Verdict<T = ()> = Result<T, String>;

/// What was done.
#[derive(Debug, Default, Clone, Copy)]
pub struct Count {
    /// Sequences done to their ends.
    pub sequences: u64,
    /// Operations.
    pub operations: u64,
    /// Saves that became versions.
    pub saves: u64,
    /// Saves that were refused.
    pub refusals: u64,
    /// Ends by `kill -9`.
    pub crashes: u64,
    /// Clean ends.
    pub remounts: u64,
    /// Changes by another program's SQL.
    pub rows: u64,
}

impl Count {
    /// Both together.
    pub fn add(&mut self, other: &Count) {
        self.sequences += other.sequences;
        self.operations += other.operations;
        self.saves += other.saves;
        self.refusals += other.refusals;
        self.crashes += other.crashes;
        self.remounts += other.remounts;
        self.rows += other.rows;
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Count { sequences, operations, saves, refusals, crashes, remounts, rows } = self;
        write!(
            f,
            "{sequences} sequences, {operations} operations, {saves} versions, {refusals} refusals, \
             {crashes} crashes, {remounts} remounts, {rows} SQL changes"
        )
    }
}

/// What an operation does to a document.
pub struct Effect {
    pub doc: Doc,
    pub what: What,
    /// It was not acknowledged: it is there entirely or not at all.
    pub may: bool,
    /// The inode number of a file that was renamed onto the name.
    pub ino: Option<u64>,
}

pub enum What {
    /// A save of a whole text by somebody who may have seen one of these.
    Save(Vec<Option<Seen>>, String),
    /// Appends in any order.
    Appends(Vec<String>),
    /// A changed row.
    Row(RowChange),
    /// A key that was set.
    Key(String),
    /// Nothing but what is said beside it.
    Nothing,
}

/// What a call that may commit has to do.
pub enum Plan {
    Nothing,
    /// It was refused before and has to fail again.
    Sticky,
    Refuse(Vec<u8>),
    Save(Vec<Option<Seen>>, String),
    Append(String),
}

/// A sequence in progress.
pub struct Run<R> {
    pub(super) real: R,
    pub(super) docs: [Versions; 2],
    pub(super) actors: Vec<Actor>,
    pub(super) refused: Vec<Refused>,
    pub(super) unsaved: Vec<(Doc, Vec<u8>)>,
    pub(super) count: Count,
    /// Handles opened so far.
    pub(super) ids: u64,
}

/// A document's place in arrays.
pub fn of(doc: Doc) -> usize {
    doc as usize
}

/// Fails unless the answer is this.
#[track_caller]
pub fn expect<T: std::fmt::Debug>(what: &str, answer: &Answer<T>, errno: i32) -> Verdict {
    match (answer, errno) {
        (Ok(_), 0) => Ok(()),
        (Err(e), wanted) if *e == wanted => Ok(()),
        (Ok(_), wanted) => Err(format!("{what} should have failed with errno {wanted}")),
        (Err(e), 0) => Err(format!("{what} failed with errno {e}")),
        (Err(e), wanted) => Err(format!("{what} failed with errno {e}, not {wanted}")),
    }
}

impl<R: Real> Run<R> {
    /// Begins with a store as it is made.
    pub fn new(mut real: R, actors: usize) -> Run<R> {
        let mut docs = [Versions::default(), Versions::default()];
        for doc in Doc::ALL {
            let text = real.observe(doc).map(|(text, _)| text).unwrap_or_default();
            docs[of(doc)].texts.push(String::from_utf8(text).expect("UTF-8"));
        }
        Run {
            real,
            docs,
            actors: (0..actors).map(|_| Actor::default()).collect(),
            refused: Vec::new(),
            unsaved: Vec::new(),
            count: Count::default(),
            ids: 0,
        }
    }

    pub(super) fn handle(&mut self, who: usize, slot: usize) -> Option<&mut Handle> {
        self.actors[who].handles[slot].as_mut()
    }

    /// Whether the name is there for an actor; `None`: that depends on more than the model knows.
    pub(super) fn shown(&self, who: usize, doc: Doc) -> Option<bool> {
        let mut open = self.actors[who].handles.iter().flatten();
        if self.docs[of(doc)].current().is_empty() && open.any(|h| h.doc == doc) {
            // It has made the file, and nobody else knows of it.
            return None;
        }
        match self.actors[who].removed[of(doc)] {
            Some(since) => match self.real.now() - since {
                0..4000 => Some(false),
                4000..7000 => None,
                _ => Some(!self.docs[of(doc)].current().is_empty()),
            },
            None => Some(!self.docs[of(doc)].current().is_empty()),
        }
    }
}
