//! A config text as a tree that knows where each value stands.

use super::value::{Index, Value};
use crate::model::{Reason, Refusal};

/// The two ways to write a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Strict JSON (RFC 8259).
    Json,
    /// YAML, one document.
    Yaml,
}

impl Form {
    /// The name used in rows and archives.
    pub fn as_str(self) -> &'static str {
        match self {
            Form::Json => "json",
            Form::Yaml => "yaml",
        }
    }

    /// The form with this name.
    pub fn parse(name: &str) -> Option<Form> {
        [Form::Json, Form::Yaml].into_iter().find(|f| f.as_str() == name)
    }

    /// The other one.
    pub fn other(self) -> Form {
        match self {
            Form::Json => Form::Yaml,
            Form::Yaml => Form::Json,
        }
    }
}

/// Deepest nesting that is read.
pub(in crate::documents) const MAX_DEPTH: usize = 128;
/// Most values that are read; each takes some hundred bytes.
pub(in crate::documents) const MAX_VALUES: usize = 1_000_000;

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Nothing at all (`key:`), a null.
    Empty,
    /// A JSON value, or a plain or quoted YAML scalar.
    Plain,
    /// `'…'`
    Single,
    /// `"…"`
    Double,
    /// `|` or `>`; `body` is where the line after the header begins.
    Block {
        /// Start of the first body line.
        body: usize,
    },
    /// `{…}` or `[…]`
    Flow,
    /// A map or sequence by indentation.
    Indented,
    /// `*name`; what it stands for cannot be edited here.
    Alias,
}

/// A value in a text. Places are byte offsets.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// What it is.
    pub kind: Kind,
    /// How it is written.
    pub style: Style,
    /// Where its anchor or tag begins, else `start`.
    pub head: usize,
    /// Where the value itself begins.
    pub start: usize,
    /// After its last byte, without line end, trailing blanks or comment.
    pub end: usize,
    /// Its anchor token (`&name`), which outlives a change of the value.
    pub anchor: Option<(usize, usize)>,
    /// Its tag as written, if it is not one of the core schema.
    pub tag: Option<String>,
    /// Line of `start`, from 1.
    pub line: usize,
}

/// What a [`Node`] is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Anything but an array or an object.
    Scalar(Value),
    /// An array.
    Seq(Vec<Item>),
    /// An object.
    Map(Vec<Entry>),
}

/// An element of an array.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Where its `-` stands; in flow style where it begins.
    pub start: usize,
    /// After the `-`; in flow style the same as `start`.
    pub mark: usize,
    /// The element.
    pub value: Node,
}

/// Why an entry is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Written in this map.
    Own,
    /// A `<<` itself: no value of the config.
    Merge,
    /// Comes from a `<<`.
    Inherited,
}

/// An entry of an object.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The key as text.
    pub key: String,
    /// Where it begins (`? ` and properties included).
    pub start: usize,
    /// After the `:`; where a value without one would begin.
    pub mark: usize,
    /// Line of the key, from 1.
    pub line: usize,
    /// Why it is there.
    pub role: Role,
    /// The value.
    pub value: Node,
}

impl Node {
    /// The value without its places.
    pub fn value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(v) => v.clone(),
            Kind::Seq(items) => Value::Seq(items.iter().map(|i| i.value.value()).collect()),
            Kind::Map(entries) => Value::Map(
                entries
                    .iter()
                    .filter(|e| e.role != Role::Merge)
                    .map(|e| (e.key.clone(), e.value.value()))
                    .collect(),
            ),
        }
    }

    /// The same, without a copy.
    pub fn into_value(self) -> Value {
        match self.kind {
            Kind::Scalar(v) => v,
            Kind::Seq(items) => {
                Value::Seq(items.into_iter().map(|i| i.value.into_value()).collect())
            }
            Kind::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .filter(|e| e.role != Role::Merge)
                    .map(|e| (e.key, e.value.into_value()))
                    .collect(),
            ),
        }
    }

    /// Whether its value is [the same](Value::same) as this one.
    pub fn is(&self, value: &Value) -> bool {
        match (&self.kind, value) {
            (Kind::Scalar(v), _) => v.same(value),
            (Kind::Seq(items), Value::Seq(s)) => {
                items.len() == s.len() && items.iter().zip(s).all(|(i, v)| i.value.is(v))
            }
            (Kind::Map(entries), Value::Map(m)) => {
                let own = || entries.iter().filter(|e| e.role != Role::Merge);
                if own().count() != m.len() {
                    return false;
                }
                if own().zip(m).all(|(e, (k, _))| e.key == *k) {
                    return own().zip(m).all(|(e, (_, v))| e.value.is(v));
                }
                let at = Index::new(m.iter().map(|(k, _)| k.as_str()));
                own().all(|e| at.get(&e.key).is_some_and(|i| e.value.is(&m[i].1)))
            }
            _ => false,
        }
    }

    /// The line of what stands at this path, or of the nearest thing above it.
    pub fn line_of(&self, path: &super::path::KeyPath) -> usize {
        use super::path::Step;
        let mut node = self;
        let mut line = self.line;
        for step in &path.0 {
            match (step, &node.kind) {
                (Step::Key(k), Kind::Map(entries)) => {
                    let Some(e) = entries.iter().find(|e| e.key == *k && e.role != Role::Merge)
                    else {
                        break;
                    };
                    if e.role == Role::Inherited || node.style == Style::Alias {
                        break;
                    }
                    line = e.line;
                    node = &e.value;
                }
                (Step::At(i), Kind::Seq(items)) => {
                    let Some(item) = items.get(*i) else { break };
                    node = &item.value;
                    line = node.line;
                }
                _ => break,
            }
        }
        line
    }
}

/// A text that was read.
#[derive(Debug, Clone)]
pub(super) struct Doc {
    /// The tree.
    pub root: Node,
    /// Its value.
    pub value: Value,
}

/// The bytes as text (R7: what is wrong with them, with the line).
pub fn text_of(bytes: &[u8]) -> Result<&str, Refusal> {
    let line = |at: usize| 1 + bytes[..at].iter().filter(|b| **b == b'\n').count();
    let text = std::str::from_utf8(bytes).map_err(|e| {
        Refusal::new(Reason::Invalid, "the text is not UTF-8")
            .at_line(line(e.valid_up_to()))
            .hint("save it as UTF-8")
    })?;
    if let Some(at) = bytes.iter().position(|b| *b == 0) {
        return Err(Refusal::new(Reason::Invalid, "a NUL byte in the text").at_line(line(at)));
    }
    Ok(text)
}

/// Reads a whole config. A byte order mark is skipped. Refuses what is not strict JSON, or
/// not one YAML document; blank texts and comments alone as [`Reason::Empty`]; a top level
/// that is not an object; duplicate keys; nesting over [`MAX_DEPTH`].
pub(super) fn read(form: Form, text: &str) -> Result<Doc, Refusal> {
    let root = object(form, text)?;
    let value = root.value();
    Ok(Doc { root, value })
}

/// Its value alone; refuses the same.
pub(super) fn read_value(form: Form, text: &str) -> Result<Value, Refusal> {
    Ok(object(form, text)?.into_value())
}

/// The tree of a text whose top level is an object.
fn object(form: Form, text: &str) -> Result<Node, Refusal> {
    let root = parse(form, text)?;
    if !matches!(root.kind, Kind::Map(_)) {
        let line = root.line;
        let name = root.into_value().type_name();
        let message = format!("the top level is of type {name}, not an object with keys");
        return Err(Refusal::new(Reason::Invalid, message).at_line(line).hint(match form {
            Form::Json => "write {\"key\": value}",
            Form::Yaml => "write lines such as key: value",
        }));
    }
    Ok(root)
}

/// The same as [`read`] with any value at the top level.
pub(super) fn read_any(form: Form, text: &str) -> Result<Doc, Refusal> {
    let root = parse(form, text)?;
    let value = root.value();
    Ok(Doc { root, value })
}

fn parse(form: Form, text: &str) -> Result<Node, Refusal> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Err(empty());
    }
    let read = match form {
        Form::Json => super::json::parse(text),
        Form::Yaml => {
            super::yaml::parse(text).and_then(|root| super::yaml::old_readers(text).map(|()| root))
        }
    };
    read.map_err(|mut r| {
        // What is missing at the end is missing in the last line.
        let lines = u32::try_from(text.lines().count()).unwrap_or(u32::MAX).max(1);
        r.line = r.line.map(|line| line.clamp(1, lines));
        r
    })
}

/// The refusal of a text without content (semantics section 5, rule 8).
pub(super) fn empty() -> Refusal {
    Refusal::new(Reason::Empty, "the config would be empty")
        .hint("an empty file is never a save; to have no settings write {}")
}
