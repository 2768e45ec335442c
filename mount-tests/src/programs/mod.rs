//! The programs of the matrix: how each of them saves a file, and one way to run them all.
//!
//! Every program is a bash script (most of them one line) that reads the file `$T` in the
//! current directory, calls `pause`, and saves it with `$OLD` replaced by `$NEW`. `pause` tells
//! the test that the file has been read and waits until it may go on, so that a test can
//! change the file in between. The same scripts run in an ordinary directory and in a mount.

mod agents;
mod documents;
mod editors;
mod languages;
mod place;
mod shell;
pub mod table;
mod tools;

pub use documents::{Doc, Kind, same_json};
pub use place::{Job, Place, Saved, installed};

/// What a program's edit makes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// One word becomes another one, all other bytes stay.
    Replace,
    /// One line more at the end.
    Append,
    /// The end of the text goes.
    Cut,
    /// As [`Style::Replace`], but the program writes the JSON text in its own manner.
    Json,
}

/// What happens to a change that somebody else made between the program's read and its save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// Both are there.
    Merged,
    /// The program writes at offsets of the text that it knew: either both are there, or the
    /// save is refused and the program's own text kept; the other change is there in any case.
    Offsets,
    /// The program never looks at the text: what it removes is the end of the newest one.
    Blind,
}

/// How a save that is no valid document is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A quotation mark in a string of the config, a NUL byte in missions.md.
    Nul,
    /// The same for configs; the program cannot write a NUL byte, so in missions.md the
    /// header of a section with missions becomes something that is none.
    Header,
    /// There is no such save by this program.
    Never,
}

/// One way of one program to save a file.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// A name that is a Rust identifier.
    pub id: &'static str,
    /// As in the table.
    pub title: &'static str,
    /// The heading in the table.
    pub family: &'static str,
    /// The script.
    pub script: &'static str,
    /// What its edit does.
    pub style: Style,
    /// The documents that it can edit.
    pub docs: &'static [Doc],
    /// The kinds of edits that it can make.
    pub kinds: &'static [Kind],
    /// What happens to a concurrent change.
    pub meanwhile: Meanwhile,
    /// How it saves something invalid.
    pub broken: Broken,
    /// The program's own backup, `T` standing for the file's name.
    pub backup: Option<&'static str>,
    /// It works in an ordinary directory, too: it does not read what it has truncated.
    pub on_disk: bool,
}

const ALL_DOCS: &[Doc] = &Doc::ALL;
const ALL_KINDS: &[Kind] = &Kind::ALL;

impl Program {
    const fn new(id: &'static str, title: &'static str, script: &'static str) -> Program {
        Program {
            id,
            title,
            family: "",
            script,
            style: Style::Replace,
            docs: ALL_DOCS,
            kinds: ALL_KINDS,
            meanwhile: Meanwhile::Merged,
            broken: Broken::Nul,
            backup: None,
            on_disk: true,
        }
    }

    const fn style(mut self, style: Style) -> Program {
        self.style = style;
        match style {
            Style::Replace => {}
            Style::Append => {
                self.docs = &[Doc::Missions, Doc::Yaml];
                self.kinds = &[Kind::Growing];
                self.broken = Broken::Never;
            }
            Style::Cut => {
                self.kinds = &[Kind::Shrinking];
                self.broken = Broken::Never;
            }
            Style::Json => {
                self.docs = &[Doc::Json];
                self.broken = Broken::Never;
            }
        }
        self
    }

    const fn kinds(mut self, kinds: &'static [Kind]) -> Program {
        self.kinds = kinds;
        self
    }

    const fn meanwhile(mut self, meanwhile: Meanwhile) -> Program {
        self.meanwhile = meanwhile;
        self
    }

    const fn broken(mut self, broken: Broken) -> Program {
        self.broken = broken;
        self
    }

    const fn backup(mut self, backup: &'static str) -> Program {
        self.backup = Some(backup);
        self
    }

    const fn only_in_a_mount(mut self) -> Program {
        self.on_disk = false;
        self
    }

    /// The text after the edit, for programs whose edit keeps all other bytes.
    pub fn after(&self, text: &str, job: &Job) -> String {
        match self.style {
            Style::Replace | Style::Json => text.replacen(&job.old, &job.new, 1),
            Style::Append => format!("{text}{}\n", job.line),
            Style::Cut => text[..text.len() - job.cut].to_owned(),
        }
    }
}

/// All programs, in the order of the table.
pub fn all() -> Vec<Program> {
    let families = [
        ("Shell", shell::ALL),
        ("Tools", tools::ALL),
        ("Languages", languages::ALL),
        ("Coding agents", agents::ALL),
        ("Editors", editors::ALL),
    ];
    families
        .into_iter()
        .flat_map(|(family, all)| all.iter().map(move |program| Program { family, ..*program }))
        .collect()
}

/// The program with this id.
pub fn by_id(id: &str) -> Program {
    all().into_iter().find(|program| program.id == id).unwrap_or_else(|| panic!("no program {id}"))
}
