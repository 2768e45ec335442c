//! From a text to entries (missions-format sections 2 to 4).
//!
//! The parser is a pure function of the section in force and the bytes from its position
//! on: it never looks back. That is what makes it sound to parse only a changed stretch and
//! to go on with old entries from the first place where section and remaining bytes agree.

use std::collections::HashMap;

use super::entry::{Ci, Entry, Idea, Kind, Mission, Section};
use super::marker;

/// An entry without an id.
pub struct Parsed<'t> {
    /// What it means.
    pub kind: Kind,
    /// The section in force after it.
    pub section: Section,
    /// Its lines.
    pub raw: &'t str,
    /// As in [`Entry`].
    pub open_fence: bool,
    /// As in [`Entry`].
    pub opaque: bool,
}

impl Parsed<'_> {
    /// The entry with this id.
    pub fn entry(self, id: u64) -> Entry {
        Entry {
            id,
            kind: self.kind,
            section: self.section,
            raw: self.raw.into(),
            opaque: self.opaque,
            open_fence: self.open_fence,
        }
    }
}

/// Takes one entry after the other off a text.
pub struct Parser<'t> {
    text: &'t str,
    pos: usize,
    section: Section,
    nested_items: bool,
    /// First line of opaque entries -> the entries (they stand for themselves).
    opaque: HashMap<&'t str, Vec<&'t Entry>>,
    /// Per fence character: no closing fence of at least this length follows.
    unclosed: [usize; 2],
}

impl<'t> Parser<'t> {
    /// A parser for `text` from byte `pos` on, a line start, with `section` in force there.
    /// `nested_items`: indented bullets are items of their own.
    pub fn new(text: &'t str, pos: usize, section: Section, nested_items: bool) -> Parser<'t> {
        Parser {
            text,
            pos,
            section,
            nested_items,
            opaque: HashMap::new(),
            unclosed: [usize::MAX; 2],
        }
    }

    /// Lines that are to be read as this entry.
    pub fn knows(&mut self, entry: &'t Entry) {
        let first = entry.raw.split_inclusive('\n').next().unwrap_or_default();
        self.opaque.entry(first).or_default().push(entry);
    }

    /// Byte position of the next entry.
    pub fn pos(&self) -> usize {
        self.pos
    }

    /// The section in force there.
    pub fn section(&self) -> Section {
        self.section
    }

    /// Goes on at `pos` with `section` in force.
    pub fn skip_to(&mut self, pos: usize, section: Section) {
        self.pos = pos;
        self.section = section;
    }

    fn line_at(&self, pos: usize) -> &'t str {
        let rest = &self.text[pos..];
        match rest.as_bytes().iter().position(|b| *b == b'\n') {
            Some(n) => &rest[..=n],
            None => rest,
        }
    }

    fn known(&self, line: &str) -> Option<Parsed<'t>> {
        let rest = &self.text[self.pos..];
        let fits = |e: &&&Entry| {
            e.section == self.section
                && rest.starts_with(&*e.raw)
                && (e.raw.ends_with('\n') || rest.len() == e.raw.len())
        };
        // One may be the beginning of another.
        let entry = self.opaque.get(line)?.iter().filter(fits).max_by_key(|e| e.raw.len())?;
        Some(Parsed {
            kind: entry.kind.clone(),
            section: entry.section,
            raw: &rest[..entry.raw.len()],
            open_fence: entry.open_fence,
            opaque: true,
        })
    }

    /// The end of the item whose first line ends at `end`; whether a fence stays open.
    fn item_end(&mut self, first: &str, mut end: usize) -> (usize, bool) {
        let indent = indent_of(first);
        let mut open = false;
        if let Some(fence) = fence(stripped(first).get(2..).unwrap_or_default()) {
            match self.fence_end(fence, end) {
                Some(after) => end = after,
                None => open = true,
            }
        }
        while end < self.text.len() {
            let line = self.line_at(end);
            let s = stripped(line);
            if s.is_empty() {
                match self.indented_after_blank(end, indent) {
                    Some(next) => {
                        end = next;
                        continue;
                    }
                    None => break,
                }
            }
            if !self.continues(line, s, indent) {
                break;
            }
            end += line.len();
            if let Some(fence) = fence(s) {
                match self.fence_end(fence, end) {
                    Some(after) => end = after,
                    None => open = true,
                }
            }
        }
        (end, open)
    }

    /// Whether a line that is not blank belongs to the item above it.
    fn continues(&self, line: &str, s: &str, indent: usize) -> bool {
        if s.starts_with("## ") || s.starts_with("### ") {
            return false;
        }
        let here = indent_of(line);
        if s.starts_with("- ") {
            return here > indent && !self.nested_items;
        }
        here > 0 || !layout_like(s)
    }

    /// Start of the first line after blank ones at `pos` when it goes on with the item.
    fn indented_after_blank(&self, mut pos: usize, indent: usize) -> Option<usize> {
        while pos < self.text.len() {
            let line = self.line_at(pos);
            let s = stripped(line);
            if !s.is_empty() {
                return (indent_of(line) > 0 && self.continues(line, s, indent)).then_some(pos);
            }
            pos += line.len();
        }
        None
    }

    fn block_end(&mut self, mut end: usize) -> (usize, bool) {
        let mut open = false;
        while end < self.text.len() {
            let line = self.line_at(end);
            let s = stripped(line);
            if s.is_empty() || s.starts_with("### ") || s.starts_with("## ") {
                break;
            }
            end += line.len();
            if let Some(fence) = fence(s) {
                match self.fence_end(fence, end) {
                    Some(after) => end = after,
                    None => open = true,
                }
            }
        }
        (end, open)
    }

    /// The end of the line that closes the fence, searched from `pos` on.
    fn fence_end(&mut self, (glyph, len): (u8, usize), mut pos: usize) -> Option<usize> {
        let memo = usize::from(glyph == b'~');
        if len >= self.unclosed[memo] {
            return None;
        }
        while pos < self.text.len() {
            let line = self.line_at(pos);
            pos += line.len();
            if closes((glyph, len), line.trim()) {
                return Some(pos);
            }
        }
        self.unclosed[memo] = len;
        None
    }

    fn take(&mut self, end: usize, kind: Kind, open_fence: bool) -> Parsed<'t> {
        let raw = &self.text[self.pos..end];
        self.pos = end;
        Parsed { kind, section: self.section, raw, open_fence, opaque: false }
    }
}

impl<'t> Iterator for Parser<'t> {
    type Item = Parsed<'t>;

    fn next(&mut self) -> Option<Parsed<'t>> {
        if self.pos >= self.text.len() {
            return None;
        }
        let line = self.line_at(self.pos);
        if !self.opaque.is_empty()
            && let Some(known) = self.known(line)
        {
            self.pos += known.raw.len();
            return Some(known);
        }
        let s = stripped(line);
        let end = self.pos + line.len();
        if let Some(name) = s.strip_prefix("## ") {
            self.section = Section::named(name);
            let kind = if self.section == Section::Unknown { Kind::Layout } else { Kind::Header };
            return Some(self.take(end, kind, false));
        }
        let section = self.section;
        let (kind, end, open) = match section {
            Section::Preamble | Section::Unknown => (Kind::Layout, end, false),
            Section::Ci => match ci(s) {
                Some(ci) => (Kind::Ci(Box::new(ci)), end, false),
                None => (Kind::Layout, end, false),
            },
            _ if s.starts_with("### ") && section != Section::Ideas => {
                let (end, open) = self.block_end(end);
                (Kind::Mission(Box::new(block(&self.text[self.pos..end]))), end, open)
            }
            _ if s.starts_with("- ") => {
                let (end, open) = self.item_end(line, end);
                let raw = &self.text[self.pos..end];
                let kind = match section {
                    Section::Ideas => Kind::Idea(Box::new(idea(raw))),
                    _ => Kind::Mission(Box::new(simple(raw))),
                };
                (kind, end, open)
            }
            _ => (Kind::Layout, end, false),
        };
        Some(self.take(end, kind, open))
    }
}

/// A line as the format looks at it: without blanks around it, line end and byte order mark.
pub fn stripped(line: &str) -> &str {
    line.trim_start_matches('\u{feff}').trim()
}

fn indent_of(line: &str) -> usize {
    let line = line.trim_start_matches('\u{feff}');
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Lines that Kōan drops rather than take them as the rest of an item (section 3).
fn layout_like(s: &str) -> bool {
    let numbered = s.find(['.', ')']).is_some_and(|n| {
        n > 0 && s[..n].bytes().all(|b| b.is_ascii_digit()) && s[n + 1..].starts_with(' ')
    });
    let rule = s.len() >= 3
        && ["-", "*", "_"].iter().any(|r| s.trim_matches(|c| r.contains(c)).is_empty());
    numbered
        || rule
        || s == "-"
        || s == "(none)"
        || s.starts_with('#')
        || s.starts_with("* ")
        || s.starts_with("+ ")
        || s.starts_with("<!--")
}

/// Whether a line without blanks around it closes the fence.
pub fn closes((glyph, len): (u8, usize), s: &str) -> bool {
    let glyphs = s.bytes().take_while(|b| *b == glyph).count();
    // The markers of an item stand at the end of its last line, which this may be.
    glyphs >= len && (glyphs == s.len() || marker::split(s).0.trim().len() == glyphs)
}

/// Glyph and length of the fence that a line opens.
pub fn fence(s: &str) -> Option<(u8, usize)> {
    let glyph = *s.as_bytes().first()?;
    let len = s.bytes().take_while(|b| *b == glyph).count();
    ((glyph == b'`' || glyph == b'~') && len >= 3).then_some((glyph, len))
}

/// The lines of an item without line ends and trailing blanks.
fn plain_lines(raw: &str) -> Vec<&str> {
    raw.trim_start_matches('\u{feff}').lines().map(str::trim_end).collect()
}

/// A simple item from its lines.
pub fn simple(raw: &str) -> Mission {
    let mut lines = plain_lines(raw);
    if let Some(first) = lines.first_mut() {
        let s = first.trim_start();
        *first = s.strip_prefix("- ").unwrap_or(s).trim_start();
    }
    without_markers(lines)
}

/// Lines without the markers at the end of the last one.
fn without_markers(mut lines: Vec<&str>) -> Mission {
    let last = lines.len().saturating_sub(1);
    let (text, times) = marker::split(lines.get(last).copied().unwrap_or_default());
    if text.is_empty() && last == 0 {
        return Mission::of_text(lines.join("\n"), Default::default());
    }
    if let Some(l) = lines.last_mut() {
        *l = text;
    }
    let mut joined = lines.join("\n");
    joined.truncate(joined.trim_end().len());
    Mission::of_text(joined, times)
}

/// A `### ` block: stored whole, but for the markers at its end.
fn block(raw: &str) -> Mission {
    without_markers(plain_lines(raw))
}

fn idea(raw: &str) -> Idea {
    let mut lines = plain_lines(raw);
    if let Some(first) = lines.first_mut() {
        *first = first.trim_start();
    }
    let text = lines.join("\n");
    Idea { project: marker::project(&text), text, added: None }
}

/// `- [project:k] https://HOST/o/r/pull/7 branch:b repo:o/r queued:T (attempt 1/5)`
pub fn ci(s: &str) -> Option<Ci> {
    let body = s.strip_prefix("- ")?.trim();
    let mut ci = Ci { max_attempts: 5, ..Ci::default() };
    let mut words = body.split_whitespace();
    while let Some(word) = words.next() {
        if word.starts_with("[project:") && word.ends_with(']') && ci.project.is_empty() {
            ci.project = word[9..word.len() - 1].to_owned();
        } else if (word.starts_with("https://") || word.starts_with("http://")) && ci.url.is_empty()
        {
            ci.url = word.to_owned();
        } else if let Some(v) = word.strip_prefix("branch:") {
            ci.branch = Some(v.to_owned());
        } else if let Some(v) = word.strip_prefix("repo:") {
            ci.repo = Some(v.to_owned());
        } else if let Some(v) = word.strip_prefix("queued:") {
            ci.queued = Some(v.to_owned());
        } else if word == "(attempt" {
            let (n, of) = words.next()?.strip_suffix(')')?.split_once('/')?;
            (ci.attempt, ci.max_attempts) = (n.parse().ok()?, of.parse().ok()?);
        } else {
            return None;
        }
    }
    (!ci.url.is_empty()).then_some(ci)
}
