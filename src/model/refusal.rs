//! Why a save was refused, and where two saves met.

/// The class of a refusal; it decides the errno (`fuse/errno.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Not UTF-8, a NUL byte, or not what the format allows.
    Invalid,
    /// Empty or blank (semantics section 5, rule 8).
    Empty,
    /// Violates `config.schema.json`.
    Schema,
    /// The config's version rule.
    Version,
    /// `expect-sha256` did not match.
    Expectation,
    /// An item would be lost by a formatting slip, such as a misspelt header.
    LostItem,
    /// The writer was fine, but the merged result is not.
    Merged,
    /// Larger than the limit.
    TooBig,
    /// The database stayed locked, or failed; the text itself may be fine.
    Store,
    /// Conflict markers of a version control system are still in it.
    Unresolved,
    /// Not refused: the save was taken and has changed nothing, though its text is another one.
    Unchanged,
}

impl Reason {
    /// The name used in the database and in `--json` output.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Invalid => "invalid",
            Reason::Empty => "empty",
            Reason::Schema => "schema",
            Reason::Version => "version",
            Reason::Expectation => "expectation",
            Reason::LostItem => "lost-item",
            Reason::Merged => "merged",
            Reason::TooBig => "too-big",
            Reason::Store => "store",
            Reason::Unresolved => "unresolved",
            Reason::Unchanged => "unchanged",
        }
    }
}

/// A refused save: nothing was changed (R7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", .line.map(|l| format!("line {l}: ")).unwrap_or_default(), .key.as_ref().map(|k| format!("{k}: ")).unwrap_or_default())]
pub struct Refusal {
    /// The class.
    pub reason: Reason,
    /// 1-based line in the text that was to be saved.
    pub line: Option<u32>,
    /// Key path in a config, such as `koan.budget.daily` or `tools[2].name`.
    pub key: Option<String>,
    /// What is wrong, one line of plain English.
    pub message: String,
    /// What to do about it, one line; empty when there is nothing to say.
    pub hint: String,
}

impl Refusal {
    /// A refusal without a place.
    pub fn new(reason: Reason, message: impl Into<String>) -> Refusal {
        Refusal { reason, line: None, key: None, message: message.into(), hint: String::new() }
    }

    /// The same, at this 1-based line.
    pub fn at_line(mut self, line: usize) -> Refusal {
        self.line = Some(u32::try_from(line).unwrap_or(u32::MAX));
        self
    }

    /// The same, at this key path.
    pub fn at_key(mut self, key: impl Into<String>) -> Refusal {
        self.key = Some(key.into());
        self
    }

    /// The same, with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = hint.into();
        self
    }
}

/// Two changes met in one thing (R4): the later one won.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Overlap {
    /// The thing: `#42 text`, `koan.budget`, `line 7`.
    pub what: String,
    /// What the earlier change had made of it.
    pub earlier: String,
    /// What stands now.
    pub later: String,
}
