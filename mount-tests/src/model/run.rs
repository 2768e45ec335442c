//! The model at work: what each system call must answer, and what everybody must read after it.

use super::base::{Choice, Observations, Process};
use super::ops::Doc;
use super::oracle::RowChange;
use super::real::{Answer, Real, Stat};
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
    /// A save of a whole text that may have started from one of these.
    Save(Vec<Choice>, String),
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
    Save(Vec<Choice>, String),
    Append(String),
}

/// A sequence in progress.
pub struct Run<R> {
    pub(super) real: R,
    pub(super) docs: [Versions; 2],
    pub(super) books: [Observations; 2],
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
        let mut books = Doc::ALL.map(Observations::new);
        for doc in Doc::ALL {
            let text = real.observe(doc).map(|(text, _)| text).unwrap_or_default();
            let text = String::from_utf8(text).expect("UTF-8");
            books[of(doc)].observed(0, &text);
            docs[of(doc)].texts.push(text);
        }
        Run {
            real,
            docs,
            books,
            actors: (0..actors).map(|_| Actor::default()).collect(),
            refused: Vec::new(),
            unsaved: Vec::new(),
            count: Count::default(),
            ids: 0,
        }
    }

    /// An actor as it is now.
    pub(super) fn process(&self, who: usize) -> Process {
        (who, self.actors[who].generation)
    }

    pub(super) fn book(&mut self, doc: Doc) -> &mut Observations {
        &mut self.books[of(doc)]
    }

    /// What a stranger finds there.
    pub(super) fn observe(&mut self, doc: Doc) -> Option<(Vec<u8>, Stat)> {
        let found = self.real.observe(doc);
        let text = found.as_ref().map(|(text, _)| String::from_utf8_lossy(text).into_owned());
        let docs = &self.docs[of(doc)];
        let text = text.unwrap_or_default();
        let version = docs.last() + usize::from(text != docs.current());
        self.books[of(doc)].observed(version, &text);
        found
    }

    /// A save that may have started from one of these was committed.
    pub(super) fn starts_from(&mut self, doc: Doc, choices: &[Choice]) {
        match choices {
            [one] => self.book(doc).use_up(one.uses, one.by),
            _ => self.book(doc).doubt(),
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
        match &self.actors[who].removed[of(doc)] {
            Some((since, _)) => match self.real.now() - since {
                0..4000 => Some(false),
                4000..7000 => None,
                _ => Some(!self.docs[of(doc)].current().is_empty()),
            },
            None => Some(!self.docs[of(doc)].current().is_empty()),
        }
    }
}
