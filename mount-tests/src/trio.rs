//! The three kinds of files in which tests of the merge base make the same changes: a list of
//! missions, keys of a config, lines of a note.

/// One of the three files, with what tests do to it. Every change is far from the others, so
/// that all of them go together.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The name in the mount.
    pub name: &'static str,
    /// What it begins with.
    pub start: &'static str,
    /// One entry taken out, then one reworded: `(old, new)`.
    first: [(&'static str, &'static str); 2],
    /// The same elsewhere, by somebody with another mind.
    second: [(&'static str, &'static str); 2],
    /// What another program appends.
    pub other: &'static str,
    /// What it appends later.
    pub later: &'static str,
    /// A text by somebody who knows nothing of the file.
    pub blind: &'static str,
    /// What an appended text stands before.
    tail: &'static str,
}

/// The three.
pub const ALL: [Sample; 3] = [MISSIONS, CONFIG, NOTE];

/// `missions.md`.
pub const MISSIONS: Sample = Sample {
    name: "missions.md",
    start: "# Missions\n\n## Pending\n\n- alpha one\n- beta two\n- gamma three\n- delta four\n\
            - epsilon five\n- zeta six\n- eta seven\n- theta eight\n- iota nine\n\n\
            ## In Progress\n\n## Done\n",
    first: [("- beta two\n", ""), ("gamma three", "gamma three, with tests")],
    second: [("- eta seven\n", ""), ("theta eight", "theta eight, at night")],
    other: "- kappa ten\n",
    later: "- lambda eleven\n",
    blind: "## Pending\n- omega last\n",
    tail: "\n## In Progress",
};

/// `config.yaml`.
pub const CONFIG: Sample = Sample {
    name: "config.yaml",
    start: "# top\nmodel: gpt  # which\nlimits:\n  max: 3\n  min: 1\nname: alpha one\n\
            mode: fast  # or slow\nold: gone\nregion: north\nlevel: low\nstale: yes please\n\
            colour: red\nshape: round\n",
    first: [("old: gone\n", ""), ("max: 3", "max: 4")],
    second: [("stale: yes please\n", ""), ("colour: red", "colour: blue")],
    other: "extra: 5\n",
    later: "later: 6\n",
    blind: "omega: 9\n",
    tail: "",
};

/// A note in `memory/`.
pub const NOTE: Sample = Sample {
    name: "memory/note.md",
    start: "# Notes\n\nalpha one\nbeta two\ngamma three\ndelta four\nepsilon five\nzeta six\n\
            eta seven\ntheta eight\niota nine\n",
    first: [("beta two\n", ""), ("gamma three", "gamma three, with tests")],
    second: [("eta seven\n", ""), ("theta eight", "theta eight, at night")],
    other: "kappa ten\n",
    later: "lambda eleven\n",
    blind: "omega last\n",
    tail: "",
};

/// An instance that is made from the three files.
pub fn files(builder: crate::Builder) -> crate::Builder {
    ALL.iter().fold(builder, |builder, sample| builder.file(sample.name, sample.start))
}

impl Sample {
    /// The text after one entry was taken out and another one reworded.
    pub fn edited(&self, text: &str) -> String {
        apply(text, &self.first)
    }

    /// The text after the other mind's removal and rewording.
    pub fn edited_elsewhere(&self, text: &str) -> String {
        apply(text, &self.second)
    }

    /// The text with this appended.
    pub fn with(&self, text: &str, added: &str) -> String {
        match text.find(self.tail).filter(|_| !self.tail.is_empty()) {
            Some(at) => format!("{}{added}{}", &text[..at], &text[at..]),
            None => format!("{text}{added}"),
        }
    }

    /// A word of the file that a program may edit, and what it becomes.
    pub fn word(&self) -> (&'static str, &'static str) {
        self.first[1]
    }
}

#[track_caller]
fn apply(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (old, new)| {
        assert_eq!(text.matches(old).count(), 1, "{old:?} in {text}");
        text.replace(old, new)
    })
}
