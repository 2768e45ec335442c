//! instancefs mounts an agent's instance directory as a virtual tree in which
//! `missions.md` and `config.json` are rendered live from SQLite and every save is one
//! serialized, validated, merged transaction.
//!
//! The rooms, from the top down; a room uses only those below it
//! (`scripts/layers.py` checks that):
//!
//! * [`cli`]: what was typed, one file per command, exit codes;
//! * [`daemon`]: the life of the serving process;
//! * [`fuse`]: the only room that knows fuser and errno numbers;
//! * [`vfs`]: what the file system means, without FUSE: names, handles, saves, plain files;
//! * [`fs`]: what each process has met of a document, and which version a save started from;
//! * [`documents`]: one folder per document kind, and [`documents::live`], where a save
//!   commits;
//! * [`foreign`]: the databases of atomic-agent beside ours, and taking in another one's;
//! * [`store`]: SQLite, migrations, the transaction gate, history;
//! * [`process`]: who asks: processes, their ancestors, their mounts;
//! * [`merge`]: how far a text is from a version, entry by entry;
//! * [`text`]: pure algorithms on lines;
//! * [`model`]: plain types.

pub mod cli;
pub mod daemon;
pub mod documents;
pub mod foreign;
pub mod fs;
pub mod fuse;
pub mod merge;
pub mod model;
pub mod process;
#[cfg(any(test, fuzzing))]
pub mod properties;
pub mod store;
pub mod text;
pub mod vfs;
