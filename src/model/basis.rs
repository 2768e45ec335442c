//! How the merge base of a save was found (SEMANTICS, section 4).

use serde::{Deserialize, Serialize};

use super::Rev;

/// What decided which version a writer started from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The handle: the version read through it, that an edit in place patches, whose hash is
    /// expected, or that the writer has named.
    Handle,
    /// What the writer itself, or a descendant, has met.
    Own,
    /// What those have met that are nearest of kin.
    Kin,
    /// The name was unlinked and made anew: a replacement.
    Unlinked,
    /// What anybody of the same user has met.
    Stranger,
    /// Nothing: the save only adds.
    Blind,
    /// A command of ours, on the current version.
    Command,
    /// An append, which needs none.
    Append,
    /// Another program has changed the rows or the store's file.
    Outside,
}

impl Rule {
    /// The name in the history.
    pub fn as_str(self) -> &'static str {
        match self {
            Rule::Handle => "handle",
            Rule::Own => "own",
            Rule::Kin => "kin",
            Rule::Unlinked => "unlinked",
            Rule::Stranger => "stranger",
            Rule::Blind => "blind",
            Rule::Command => "command",
            Rule::Append => "append",
            Rule::Outside => "outside",
        }
    }

    /// One sentence for people.
    pub fn explained(self) -> &'static str {
        match self {
            Rule::Handle => "the writer's handle says which version it started from",
            Rule::Own => "the writer, or a descendant of it, has read or saved that version",
            Rule::Kin => "the nearest kin of the writer have read or saved that version",
            Rule::Unlinked => "the name was unlinked and made anew, which replaces what was there",
            Rule::Stranger => "nobody in the writer's family has met it, others of the user have",
            Rule::Blind => "nothing says which version the writer started from: it only adds",
            Rule::Command => "a command of instancefs, on the version that was current",
            Rule::Append => "an append starts from no version",
            Rule::Outside => "another program made the change in the store",
        }
    }
}

/// A version that was compared with the written text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its revision; of a text that only its writer had, the newest that it takes into account.
    pub rev: u64,
    /// It is such a text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_text: bool,
    /// Entries in which the written text differs from it.
    pub distance: usize,
    /// Entries of it that the written text has, as they are or reworded.
    pub kept: usize,
}

impl Candidate {
    /// Of a revision.
    pub fn new(rev: Rev, own_text: bool, distance: usize, kept: usize) -> Candidate {
        Candidate { rev: rev.0, own_text, distance, kept }
    }
}

/// How a merge base was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// The rule that decided.
    pub rule: Rule,
    /// The text is an older version, written back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// Entries that are there after the save and that the text did not have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others: usize,
    /// The versions that were compared, the newest first; empty where there was one only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Basis {
    /// By a rule that compares nothing.
    pub fn by(rule: Rule) -> Basis {
        Basis { rule, undo: false, others: 0, candidates: Vec::new() }
    }

    /// What the history keeps; `None`: what the revision says anyway.
    pub fn on_record(&self) -> Option<String> {
        match self.rule {
            Rule::Append | Rule::Outside => None,
            _ => serde_json::to_string(self).ok(),
        }
    }

    /// Reads it back.
    pub fn recorded(json: &str) -> Option<Basis> {
        serde_json::from_str(json).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_kept_as_short_as_it_can_be_and_reads_back() {
        let plain = Basis::by(Rule::Own);
        assert_eq!(plain.on_record().as_deref(), Some("{\"rule\":\"own\"}"));
        let candidates =
            vec![Candidate::new(Rev(4), true, 2, 7), Candidate::new(Rev(3), false, 3, 1)];
        let full = Basis { rule: Rule::Kin, undo: true, others: 3, candidates };
        assert_eq!(full.on_record().as_deref().and_then(Basis::recorded), Some(full));
        assert_eq!(Basis::by(Rule::Append).on_record(), None);
    }
}
