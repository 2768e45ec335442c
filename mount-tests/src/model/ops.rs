//! What a sequence consists of. Every operation can be done in every state (one that has nothing
//! to work on does nothing), so that what is left of a sequence after some were taken out is one
//! again. `Debug` prints Rust that can be pasted into a test.

use std::fmt;

use crate::sequences::Dice;

/// `Debug` with the name of the type, as a test needs it.
macro_rules! printed {
    ($type:ident: $($variant:ident),*) => {
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($type::$variant => concat!(stringify!($type), "::", stringify!($variant))),*
                })
            }
        }
    };
}

/// A document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doc {
    /// `missions.md`, a list of lines.
    Missions,
    /// `config.json`, a set of keys.
    Config,
}

printed!(Doc: Missions, Config);

impl Doc {
    /// Both.
    pub const ALL: [Doc; 2] = [Doc::Missions, Doc::Config];

    /// Its name in the mount.
    pub fn name(self) -> &'static str {
        match self {
            Doc::Missions => "missions.md",
            Doc::Config => "config.json",
        }
    }
}

/// A change that a program makes to the text it has in memory. `at` counts from the first and
/// starts over behind the last. `number` is used by one edit of a sequence only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// A new mission in front of the `at`th of a section; a top-level key.
    Add { number: u32, section: usize, at: usize },
    /// Another text for a mission; a key inside an object.
    Alter { number: u32, at: usize },
    /// A mission taken out; a top-level key removed.
    Drop { at: usize },
    /// A mission to another place; a key removed from inside an object.
    Move { at: usize, section: usize, to: usize },
    /// A new comment above a mission; nothing in a config.
    Note { number: u32, at: usize },
    /// A comment taken out; nothing in a config.
    Unnote { at: usize },
}

/// Edits that are made at once.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Edits(pub Vec<Edit>);

/// The same as [`Edits`], as `Debug` prints it.
pub fn edits<const N: usize>(all: [Edit; N]) -> Edits {
    Edits(all.to_vec())
}

impl fmt::Debug for Edits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "edits({:?})", self.0)
    }
}

/// How a program saves a whole text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Truncating open, two writes, close.
    Truncate,
    /// A temporary file, fsync, rename onto the name.
    Rename,
    /// One handle for reading and writing: read, overwrite, cut, close.
    Keep,
    /// Unlink, exclusive create, write, close.
    Unlink,
    /// Rename away, create, write, fsync, close, unlink what was renamed away.
    Backup,
}

printed!(Way: Truncate, Rename, Keep, Unlink, Backup);

/// What is wrong with a text that must be refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Nothing in it.
    Empty,
    /// Only white space.
    Blank,
    /// A NUL in a list of missions; no JSON in a config.
    Broken,
}

printed!(Wrong: Empty, Blank, Broken);

/// What an open is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `O_RDONLY`.
    Read,
    /// `O_RDWR`.
    Both,
    /// `O_WRONLY | O_CREAT | O_TRUNC`.
    Truncate,
    /// `O_WRONLY | O_CREAT | O_APPEND`.
    Append,
}

printed!(Mode: Read, Both, Truncate, Append);

/// One step of a sequence. `who` is one of the actors, `slot` one of its handles.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are who does it, with which handle, to what")]
pub enum Op {
    /// `open`; what the slot held is closed first.
    Open { who: usize, slot: usize, doc: Doc, mode: Mode },
    /// `read` of at most so many bytes.
    Read { who: usize, slot: usize, size: usize },
    /// Back to the beginning.
    Rewind { who: usize, slot: usize },
    /// Writes the whole text of memory with these edits over what the handle holds, or appends.
    Write { who: usize, slot: usize, edits: Edits },
    /// Overwrites a few letters in place (`pwrite`).
    Patch { who: usize, slot: usize, at: usize, number: u32 },
    /// `ftruncate` to nothing.
    Truncate { who: usize, slot: usize },
    /// Writes a text that must be refused.
    Spoil { who: usize, slot: usize, wrong: Wrong },
    /// `fsync`.
    Fsync { who: usize, slot: usize },
    /// `close`.
    Close { who: usize, slot: usize },
    /// `stat` by name: the size that is told must be right.
    Stat { who: usize, doc: Doc },
    /// Open, read to the end, close: the text is in memory from now on.
    Look { who: usize, doc: Doc },
    /// A save of the text in memory with these edits; without any memory, of a text of its own.
    Save { who: usize, doc: Doc, way: Way, edits: Edits },
    /// A save that must be refused.
    Bad { who: usize, doc: Doc, way: Way, wrong: Wrong },
    /// `>>`: a new mission, one that is there already, or a comment; a key of config.yaml.
    Append { who: usize, doc: Doc, edits: Edits },
    /// Puts the text in memory with these edits into a file of its own.
    Draft { who: usize, doc: Doc, edits: Edits },
    /// `by` renames that file onto the document.
    Publish { who: usize, by: usize },
    /// `unlink` of the document.
    Unlink { who: usize, doc: Doc },
    /// The process ends, and another one takes its place, which knows nothing.
    Exit { who: usize },
    /// The same by `kill -9`, with its files open.
    Kill { who: usize },
    /// Another program changes a row.
    Sql { edit: Edit },
    /// `instancefs config set`.
    Command { number: u32, at: usize },
    /// Nobody does anything for a while.
    Rest,
    /// A clean end of the daemon with nothing open, and a new one.
    Remount,
    /// SIGTERM with everything open, and a new one.
    Term,
    /// `kill -9` of the daemon, and a new one.
    Crash,
    /// The same while an actor saves: in the middle of it, `after` microseconds from its start.
    /// `way: None` is an append.
    CrashIn { who: usize, doc: Doc, way: Option<Way>, edits: Edits, after: u64 },
}

/// Actors of a sequence.
pub const ACTORS: usize = 3;
/// Handles of an actor.
pub const SLOTS: usize = 2;

/// Which operations there are and how often ends of the daemon happen.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// Out of 1000 operations: remounts, SIGTERMs, crashes, crashes in the middle of a save.
    pub ends: [usize; 4],
    /// Out of 1000: rests.
    pub rests: usize,
}

/// Makes sequences.
pub struct Generator {
    dice: Dice,
    numbers: u32,
}

impl Generator {
    /// The sequences of this seed.
    pub fn new(seed: u64) -> Generator {
        Generator { dice: Dice::new(seed), numbers: 0 }
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// A sequence of this length.
    pub fn sequence(&mut self, length: usize, mix: &Mix) -> Vec<Op> {
        (0..length).map(|_| self.op(mix)).collect()
    }

    fn edit(&mut self) -> Edit {
        let (at, section, to) =
            (self.dice.below(8), self.dice.of(&[0, 0, 1, 2, 3]), self.dice.below(8));
        match self.dice.below(12) {
            0..4 => Edit::Add { number: self.number(), section, at },
            4..6 => Edit::Alter { number: self.number(), at },
            6..8 => Edit::Drop { at },
            8..10 => Edit::Move { at, section, to },
            10 => Edit::Note { number: self.number(), at },
            _ => Edit::Unnote { at },
        }
    }

    fn edits(&mut self) -> Edits {
        let count = self.dice.of(&[0, 1, 1, 1, 2, 3]);
        Edits((0..count).map(|_| self.edit()).collect())
    }

    fn op(&mut self, mix: &Mix) -> Op {
        let who = self.dice.below(ACTORS);
        let slot = self.dice.below(SLOTS);
        let doc = self.dice.of(&[Doc::Missions, Doc::Missions, Doc::Config]);
        let way = self.dice.of(&[
            Way::Truncate,
            Way::Truncate,
            Way::Rename,
            Way::Keep,
            Way::Unlink,
            Way::Backup,
        ]);
        let wrong = self.dice.of(&[Wrong::Empty, Wrong::Blank, Wrong::Broken]);
        let mut roll = self.dice.below(1000);
        let [remount, term, crash, crash_in] = mix.ends;
        for (weight, end) in [(remount, 0), (term, 1), (crash, 2), (crash_in, 3), (mix.rests, 4)] {
            if roll < weight {
                return match end {
                    0 => Op::Remount,
                    1 => Op::Term,
                    2 => Op::Crash,
                    4 => Op::Rest,
                    _ => {
                        let way = self.dice.of(&[Some(Way::Truncate), Some(Way::Rename), None]);
                        let after = [0, 100, 400, 1000, 2000, 5000][self.dice.below(6)];
                        Op::CrashIn { who, doc, way, edits: self.edits(), after }
                    }
                };
            }
            roll -= weight;
        }
        match self.dice.below(100) {
            0..8 => {
                let mode = self.dice.of(&[
                    Mode::Read,
                    Mode::Both,
                    Mode::Both,
                    Mode::Truncate,
                    Mode::Append,
                ]);
                Op::Open { who, slot, doc, mode }
            }
            8..18 => Op::Read { who, slot, size: self.dice.of(&[1, 20, 100, 5000, 5000]) },
            18..20 => Op::Rewind { who, slot },
            20..29 => Op::Write { who, slot, edits: self.edits() },
            29..31 => Op::Patch { who, slot, at: self.dice.below(8), number: self.number() },
            31..32 => Op::Truncate { who, slot },
            32..33 => Op::Spoil { who, slot, wrong },
            33..35 => Op::Fsync { who, slot },
            35..41 => Op::Close { who, slot },
            41..44 => Op::Stat { who, doc },
            44..54 => Op::Look { who, doc },
            54..72 => Op::Save { who, doc, way, edits: self.edits() },
            72..75 => Op::Bad { who, doc, way, wrong },
            75..83 => Op::Append { who, doc, edits: Edits(vec![self.edit()]) },
            83..85 => Op::Draft { who, doc, edits: self.edits() },
            85..87 => Op::Publish { who, by: self.dice.below(ACTORS) },
            87..89 => Op::Unlink { who, doc },
            89..91 => Op::Exit { who },
            91..93 => Op::Kill { who },
            93..99 => Op::Sql { edit: self.edit() },
            _ => Op::Command { number: self.number(), at: self.dice.below(8) },
        }
    }
}
