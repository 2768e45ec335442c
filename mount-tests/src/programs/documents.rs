//! The documents of the matrix and the edits that every program makes in them.

use serde_json::{Value, json};

/// One document of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doc {
    /// `missions.md`
    Missions,
    /// `config.json`
    Json,
    /// `config.yaml`
    Yaml,
}

/// How an edit changes the length of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As many bytes as before.
    InPlace,
    /// More bytes.
    Growing,
    /// Fewer bytes.
    Shrinking,
}

/// The words that the edits replace by each other: every document has exactly one of them.
const SHORT: &str = "middle";
const OTHER: &str = "centre";
const LONG: &str = "centre, in words that take a good deal more room than the one before";

impl Doc {
    /// All of them.
    pub const ALL: [Doc; 3] = [Doc::Missions, Doc::Json, Doc::Yaml];

    /// The file's name.
    pub fn name(self) -> &'static str {
        match self {
            Doc::Missions => "missions.md",
            Doc::Json => "config.json",
            Doc::Yaml => "config.yaml",
        }
    }

    /// Its name in `ifs_revisions`.
    pub fn table_name(self) -> &'static str {
        match self {
            Doc::Missions => "missions",
            Doc::Json | Doc::Yaml => "config",
        }
    }

    /// What it holds at the start: more than one page, the word of the edits in its second
    /// one, and the Pending section last, so that an append to the file is one to the queue.
    pub fn text(self) -> String {
        match self {
            Doc::Missions => missions(),
            Doc::Json => config_json(),
            Doc::Yaml => config_yaml(),
        }
    }

    /// The line that appending programs add.
    pub fn line(self, number: u32) -> String {
        match self {
            Doc::Missions => format!("- appended number {number}"),
            Doc::Json | Doc::Yaml => format!("appended_{number}: {number}"),
        }
    }

    /// The text after somebody else's change, and what tells that it is there.
    pub fn stranger(self, text: &str, number: u32) -> (String, String) {
        match self {
            Doc::Missions => {
                let line = format!("- from a stranger, number {number}");
                (format!("{text}{line}\n"), line)
            }
            Doc::Yaml => {
                let line = format!("stranger_{number}: {number}");
                (format!("{text}{line}\n"), line)
            }
            Doc::Json => {
                let line = format!("  \"stranger_{number}\": {number}");
                let body = text.trim_end().trim_end_matches('}').trim_end();
                (format!("{body},\n{line}\n}}\n"), line)
            }
        }
    }

    /// How many bytes the last line that can go without harm has: a mission, a comment, or
    /// the final newline of a JSON text.
    pub fn cut(self, text: &str) -> usize {
        match self {
            Doc::Json => 1,
            Doc::Missions | Doc::Yaml => text.lines().last().map_or(0, str::len) + 1,
        }
    }

    /// The word of the edits that the text has now.
    pub fn word(self, text: &str) -> &'static str {
        let word = [LONG, OTHER, SHORT].into_iter().find(|word| text.contains(word));
        word.unwrap_or_else(|| panic!("no word to edit in {}: {text}", self.name()))
    }

    /// What replaces what to come back to the text of the start.
    pub fn way_back(self, text: &str) -> (&'static str, &'static str) {
        (self.word(text), SHORT)
    }

    /// What replaces what in an edit of this kind, for a text as it is now.
    pub fn words(self, kind: Kind, text: &str) -> (&'static str, &'static str) {
        let old = self.word(text);
        let new = match kind {
            Kind::InPlace if old == SHORT => OTHER,
            Kind::InPlace => SHORT,
            Kind::Growing => LONG,
            Kind::Shrinking => SHORT,
        };
        let same = match kind {
            Kind::InPlace => new.len() == old.len(),
            Kind::Growing => new.len() > old.len(),
            Kind::Shrinking => new.len() < old.len(),
        };
        assert!(same && old != new, "{kind:?}: {old:?} to {new:?}");
        (old, new)
    }
}

impl Kind {
    /// In the order in which each can follow the one before.
    pub const ALL: [Kind; 3] = [Kind::InPlace, Kind::Growing, Kind::Shrinking];

    /// As in the table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::InPlace => "in place",
            Kind::Growing => "growing",
            Kind::Shrinking => "shrinking",
        }
    }
}

fn missions() -> String {
    let mut text = String::from(
        "# Missions\n\nRead this before you add anything.\n\n## In Progress\n\n\
         - the running one ▶(2026-07-01T09:05)\n\n## Done\n\n\
         - the finished one ✅ (2026-07-01 10:00)\n\n## Notes\n\nNothing here is a mission.\n\n\
         ## Pending\n\n",
    );
    for i in 0..110 {
        match i {
            96 => text.push_str("- look at the middle of the pond\n"),
            i if i % 9 == 0 => text.push_str(&format!("\n# a comment over task {i}\n")),
            _ => {
                text.push_str(&format!("- feed the fish of pond number {i}, each with its food\n"))
            }
        }
    }
    text
}

fn config_json() -> String {
    let mut text = String::from("{\n  \"version\": 1,\n");
    for i in 0..140 {
        match i {
            126 => text.push_str("  \"note\": \"look at the middle of the pond\",\n"),
            _ => text.push_str(&format!("  \"pond_{i}\": {{\"fish\": {i}, \"depth\": {i}.50}},\n")),
        }
    }
    text.push_str("  \"last\": true\n}\n");
    text
}

fn config_yaml() -> String {
    let mut text = String::from("# Settings of the ponds.\nversion: 1\n\n");
    for i in 0..140 {
        match i {
            126 => text.push_str("note: \"look at the middle of the pond\"   # the only note\n"),
            i if i % 10 == 0 => text.push_str(&format!("\n# ponds from {i} on\n")),
            _ => text.push_str(&format!("pond_{i}: {i}   # fish in pond {i}, counted by hand\n")),
        }
    }
    text.push_str("last: true\n# the end\n");
    text
}

/// Whether two JSON texts mean the same, however their numbers are spelled.
pub fn same_json(one: &str, other: &str) -> bool {
    let parse = |text: &str| -> Option<Value> { serde_json::from_str(text).ok().map(plain) };
    parse(one).is_some_and(|one| parse(other) == Some(one))
}

fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, plain(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edits_go_round() {
        for doc in Doc::ALL {
            let start = doc.text();
            assert!(start.len() > 4500, "{}: {}", doc.name(), start.len());
            let mut text = start.clone();
            for kind in [Kind::ALL, Kind::ALL].concat() {
                let (old, new) = doc.words(kind, &text);
                assert_eq!(text.matches(old).count(), 1);
                assert!(text.find(old).is_some_and(|at| at > 4096));
                text = text.replace(old, new);
            }
            assert_eq!(text, start);
        }
    }
}
