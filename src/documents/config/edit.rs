//! The smallest edit of a text that gives it other values.
//!
//! Unchanged parts keep their bytes: comments, order, quoting, number spelling. An edit is a
//! list of splices made by comparing the tree of the text with the wanted value; the result is
//! read again and compared, so a construct that the splices do not handle (an anchor whose
//! aliases must not follow, say) costs formatting, never a value.

use super::change::{map_change, seq_change};
use super::render::{self, Layout};
use super::scalar;
use super::tree::{Form, Kind, Node, Style, read_any};
use super::value::Value;
use super::{edit_block, edit_flow};

/// The bytes from `start` to `end` become `text`.
#[derive(Debug)]
pub(super) struct Splice {
    /// First byte.
    pub start: usize,
    /// After the last byte.
    pub end: usize,
    /// What stands there instead.
    pub text: String,
}

/// The text with its values changed to `target`. A byte order mark, the line ends and a
/// missing final newline stay as they are.
pub(super) fn reach(form: Form, text: &str, target: &Value) -> String {
    let edited = by_edits(form, text, target).or_else(|| {
        // An anchor cannot go while its aliases need it: write those out, then try again.
        let doc = read_any(form, text).ok()?;
        let spelt = round(form, text, &doc.root, &doc.value, Mode::WriteOut)?;
        by_edits(form, &spelt, target)
    });
    edited.unwrap_or_else(|| {
        let fresh = render::document(form, target);
        if text.starts_with('\u{feff}') { format!("\u{feff}{fresh}") } else { fresh }
    })
}

/// The same by edits alone; `None` when they do not get there.
pub(super) fn by_edits(form: Form, text: &str, target: &Value) -> Option<String> {
    let mut now = text.to_owned();
    let mut mode = Mode::Free;
    for _ in 0..4 {
        let doc = read_any(form, &now).ok()?;
        if doc.value.same(target) {
            return Some(now);
        }
        now = round(form, &now, &doc.root, target, mode)?;
        mode = Mode::Careful;
    }
    read_any(form, &now).is_ok_and(|d| d.value.same(target)).then_some(now)
}

/// How a round of edits goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Any way of writing.
    Free,
    /// No new block scalars: where they end depends on what follows them.
    Careful,
    /// Replace what aliases and `<<` bring by itself.
    WriteOut,
}

/// One round of edits.
fn round(form: Form, text: &str, root: &Node, target: &Value, mode: Mode) -> Option<String> {
    let eol =
        if text.find('\n').is_some_and(|n| text[..n].ends_with('\r')) { "\r\n" } else { "\n" };
    let open_end = form == Form::Yaml && !text.ends_with('\n');
    let whole = if open_end { format!("{text}{eol}") } else { text.to_owned() };
    let unit = whole
        .lines()
        .find(|l| l.starts_with([' ', '\t']) && !l.trim().is_empty())
        .map_or("  ", |l| &l[..l.len() - l.trim_start().len()])
        .to_owned();
    let pretty = whole.trim().contains('\n') || whole.trim().len() <= 2;
    let tight = !pretty && !whole.contains("\": ") && whole.contains("\":");
    let mut ed = Editor { text: &whole, form, eol, unit, pretty, tight, mode, out: Vec::new() };
    ed.change(root, target, Place::Root);
    let mut done = apply(&whole, 0..whole.len(), ed.out)?;
    if open_end && done.ends_with(eol) {
        done.truncate(done.len() - eol.len());
    }
    Some(done)
}

/// The part of the text with the splices applied; `None` if they overlap or leave it.
pub(super) fn apply(
    text: &str,
    range: std::ops::Range<usize>,
    mut splices: Vec<Splice>,
) -> Option<String> {
    // Of those at one place insertions come first, in the order in which they were made.
    splices.sort_by_key(|s| (s.start, s.end > s.start));
    let mut out = String::with_capacity(range.len());
    let mut at = range.start;
    for s in splices {
        if s.start < at || s.end < s.start || s.end > range.end {
            return None;
        }
        out.push_str(text.get(at..s.start)?);
        out.push_str(&s.text);
        at = s.end;
    }
    out.push_str(text.get(at..range.end)?);
    Some(out)
}

/// Where a node stands, as far as its replacement depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// The whole document.
    Root,
    /// After the `:` at `mark`, in a block map indented by `indent`.
    Entry {
        /// After the `:`.
        mark: usize,
        /// Columns before the key.
        indent: usize,
    },
    /// After the `-` at `mark`, in a block sequence indented by `indent`.
    Item {
        /// After the `-`.
        mark: usize,
        /// Columns before the `-`.
        indent: usize,
    },
    /// In JSON or in flow style; `mark` is where it would begin.
    Flow {
        /// After the `:`, or where the element begins.
        mark: usize,
    },
}

/// Makes the splices of one round.
pub(super) struct Editor<'a> {
    /// The text; a YAML text ends with a line end here.
    pub text: &'a str,
    /// How it is written.
    pub form: Form,
    /// Its line ends.
    pub eol: &'static str,
    /// One level of its indentation.
    pub unit: String,
    /// JSON over several lines.
    pub pretty: bool,
    /// JSON on one line without a blank behind its colons.
    pub tight: bool,
    /// How it goes about it.
    pub mode: Mode,
    /// The splices so far.
    pub out: Vec<Splice>,
}

impl Editor<'_> {
    /// Adds a splice.
    pub fn splice(&mut self, start: usize, end: usize, text: impl Into<String>) {
        self.out.push(Splice { start, end, text: text.into() });
    }

    /// Makes `node` equal to `target`.
    pub fn change(&mut self, node: &Node, target: &Value, place: Place) {
        let write_out = self.mode == Mode::WriteOut;
        if !write_out && node.is(target) {
            return;
        }
        let change = match (&node.kind, target, node.style) {
            (_, _, Style::Alias) => None,
            (Kind::Map(entries), Value::Map(t), _) => Some(map_change(entries, t, write_out)),
            (Kind::Seq(items), Value::Seq(t), _) => Some(seq_change(items, t)),
            _ if write_out => return,
            _ => None,
        };
        match (change, node.style) {
            (Some(change), Style::Flow) => edit_flow::members(self, node, &change, place),
            (Some(change), _) if change.survives() => {
                edit_block::members(self, &change);
            }
            _ => self.replace(node, target, place),
        }
    }

    /// Puts `target` in the place of the whole node.
    pub fn replace(&mut self, node: &Node, target: &Value, place: Place) {
        match (self.form, place) {
            (Form::Json, _) => {
                let layout = self.layout(self.pretty);
                // On one line nothing is indented, and it may be long.
                let base = if self.pretty { self.indent_at(node.start) } else { String::new() };
                let mut text = String::new();
                render::json(target, &layout, &base, &mut text);
                self.splice(node.start, node.end, text);
            }
            (Form::Yaml, Place::Flow { mark }) => {
                let anchor = self.anchor(node);
                let text = tagged(node, target, true).unwrap_or_else(|| match target {
                    Value::Map(_) | Value::Seq(_) => render::flow(target),
                    _ => scalar::inline(target, node.style, true),
                });
                if node.style == Style::Empty {
                    let colon = if self.text[..mark].ends_with(':') { " " } else { ": " };
                    self.splice(mark, node.end.max(mark), format!("{colon}{anchor}{text}"));
                } else {
                    self.splice(node.head, node.end, format!("{anchor}{text}"));
                }
            }
            (Form::Yaml, _) => edit_block::replace(self, node, target, place),
        }
    }

    /// The anchor of a node with a blank behind it; empty without one.
    pub fn anchor(&self, node: &Node) -> String {
        match node.anchor {
            Some((a, b)) if node.style != Style::Alias => format!("{} ", &self.text[a..b]),
            _ => String::new(),
        }
    }

    /// How new JSON is laid out, over several lines or on one.
    pub fn layout(&self, lines: bool) -> Layout {
        let colon = if self.tight { ":" } else { ": " };
        Layout { unit: lines.then(|| self.unit.clone()), eol: self.eol, colon: colon.to_owned() }
    }

    /// The blanks at the beginning of the line of `at`.
    pub fn indent_at(&self, at: usize) -> String {
        let line = &self.text[self.line_start(at)..at];
        line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
    }

    /// Where the line of `at` begins, behind a byte order mark.
    pub fn line_start(&self, at: usize) -> usize {
        let bom = if self.text.starts_with('\u{feff}') { 3 } else { 0 };
        self.text[..at].rfind('\n').map_or(bom.min(at), |n| n + 1)
    }

    /// Where the line after that of `at` begins.
    pub fn line_after(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |n| at + n + 1)
    }
}

/// A scalar with its tag when the new text begins with that tag.
pub(super) fn tagged(node: &Node, target: &Value, flow: bool) -> Option<String> {
    let (tag, Value::Str(s)) = (node.tag.as_ref()?, target) else { return None };
    let rest = s.strip_prefix(tag.as_str())?.strip_prefix(' ')?;
    let style = match node.style {
        Style::Single => Style::Single,
        Style::Double => Style::Double,
        _ => Style::Plain,
    };
    Some(format!("{tag} {}", scalar::string(rest, style, flow)))
}
