//! Strict JSON (RFC 8259) with places. Comments, trailing commas, `NaN`, duplicate keys and
//! anything after the value are refused with line and key.

use std::borrow::Cow;
use std::collections::HashSet;

use super::path::{KeyPath, Step};
use super::tree::{Entry, Item, Kind, MAX_DEPTH, MAX_VALUES, Node, Role, Style};
use super::value::Value;
use crate::model::{Reason, Refusal};

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Lines are counted up to here.
    counted: usize,
    line: usize,
    path: Vec<Place<'a>>,
    values: usize,
}

/// A step of the path to what is being read; a key as it is written, quotes included.
enum Place<'a> {
    Key(&'a str),
    At(usize),
}

/// Reads one JSON value.
pub(super) fn parse(text: &str) -> Result<Node, Refusal> {
    let at = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut p = Parser::new(text, at);
    let node = p.value()?;
    p.blanks();
    if p.at < text.len() {
        return Err(p.refuse("there is something after the end of the value"));
    }
    Ok(node)
}

/// Whether the text is a number as JSON writes them.
pub(super) fn is_number(text: &str) -> bool {
    let mut p = Parser::new(text, 0);
    p.number().is_ok() && p.at == text.len()
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, at: usize) -> Parser<'a> {
        Parser { text, at, depth: 0, counted: 0, line: 1, path: Vec::new(), values: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The line at `self.at`; places only grow, so that all of them cost one pass.
    fn line(&mut self) -> usize {
        let bytes = self.text.as_bytes();
        let to = self.at.min(bytes.len());
        if to > self.counted {
            self.line += bytes[self.counted..to].iter().filter(|b| **b == b'\n').count();
            self.counted = to;
        }
        self.line
    }

    fn refuse(&mut self, message: impl Into<String>) -> Refusal {
        let line = self.line();
        let r = Refusal::new(Reason::Invalid, message)
            .at_line(line)
            .hint("strict JSON is wanted: no comments, no trailing commas, no duplicate keys");
        if self.path.is_empty() { r } else { r.at_key(self.key_path().to_string()) }
    }

    fn key_path(&self) -> KeyPath {
        let step = |place: &Place<'_>| match *place {
            Place::Key(raw) => Step::Key(serde_json::from_str(raw).unwrap_or_default()),
            Place::At(i) => Step::At(i),
        };
        KeyPath(self.path.iter().map(step).collect())
    }

    fn unexpected(&mut self, wanted: &str) -> Refusal {
        match self.text[self.at..].chars().next() {
            Some(c) => self.refuse(format!("not valid JSON: {wanted} expected, found {c:?}")),
            None => self.refuse(format!("not valid JSON: {wanted} expected, found the end")),
        }
    }

    fn value(&mut self) -> Result<Node, Refusal> {
        self.blanks();
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.refuse(format!("more than {MAX_VALUES} values")));
        }
        let line = self.line();
        let start = self.at;
        let (kind, style) = match self.peek() {
            Some(b'{') => (self.nested(Self::map)?, Style::Flow),
            Some(b'[') => (self.nested(Self::seq)?, Style::Flow),
            Some(b'"') => (Kind::Scalar(Value::Str(self.string()?.into_owned())), Style::Double),
            Some(b'-' | b'0'..=b'9') => (Kind::Scalar(Value::Num(self.number()?)), Style::Plain),
            _ => {
                let words = [
                    ("true", Value::Bool(true)),
                    ("false", Value::Bool(false)),
                    ("null", Value::Null),
                ];
                let rest = &self.text[self.at..];
                let word = words.into_iter().find(|(w, _)| rest.starts_with(w));
                let Some((word, value)) = word else { return Err(self.unexpected("a value")) };
                self.at += word.len();
                (Kind::Scalar(value), Style::Plain)
            }
        };
        let end = self.at;
        Ok(Node { kind, style, head: start, start, end, anchor: None, tag: None, line })
    }

    fn nested(&mut self, inside: fn(&mut Self) -> Result<Kind, Refusal>) -> Result<Kind, Refusal> {
        if self.depth >= MAX_DEPTH {
            return Err(self.refuse(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        self.at += 1;
        let kind = inside(self)?;
        self.depth -= 1;
        Ok(kind)
    }

    fn map(&mut self) -> Result<Kind, Refusal> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut keys: HashSet<Cow<'a, str>> = HashSet::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Map(entries));
        }
        loop {
            self.blanks();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key = self.string()?;
            let line = self.line();
            self.path.push(Place::Key(&self.text[start..self.at]));
            let key_text = key.clone().into_owned();
            if !keys.insert(key) {
                return Err(self.refuse("the key stands twice"));
            }
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("`:`"));
            }
            self.at += 1;
            let mark = self.at;
            let value = self.value()?;
            self.path.pop();
            entries.push(Entry { key: key_text, start, mark, line, role: Role::Own, value });
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Kind::Map(entries));
                }
                _ => return Err(self.unexpected("`,` or `}`")),
            }
        }
    }

    fn seq(&mut self) -> Result<Kind, Refusal> {
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Kind::Seq(items));
        }
        loop {
            self.path.push(Place::At(items.len()));
            let value = self.value()?;
            self.path.pop();
            items.push(Item { start: value.start, mark: value.start, value });
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Kind::Seq(items));
                }
                _ => return Err(self.unexpected("`,` or `]`")),
            }
        }
    }

    fn digits(&mut self) -> Result<(), Refusal> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected("a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<String, Refusal> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(self.text[start..self.at].to_owned())
    }

    /// The string at the current `"`. Its end is found here, its escapes are read by
    /// serde_json, which refuses lone surrogates and raw control characters; one without either
    /// is what it says.
    fn string(&mut self) -> Result<Cow<'a, str>, Refusal> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        let mut plain = true;
        loop {
            match bytes.get(end) {
                None => return Err(self.refuse("not valid JSON: a string has no end")),
                Some(b'"') => break,
                Some(b'\\') => {
                    plain = false;
                    end += 2;
                }
                Some(b'\n') => {
                    return Err(self.refuse("not valid JSON: a line ends inside a string"));
                }
                Some(c) => {
                    plain &= *c >= b' ';
                    end += 1;
                }
            }
        }
        let raw = &self.text[start..=end];
        if plain {
            self.at = end + 1;
            return Ok(Cow::Borrowed(&raw[1..raw.len() - 1]));
        }
        let s = serde_json::from_str::<String>(raw)
            .map_err(|_| self.refuse("not valid JSON: a string holds a bad escape or character"))?;
        self.at = end + 1;
        Ok(Cow::Owned(s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_with_line_and_key() {
        for (text, line, key, word) in [
            ("{\"a\": 1,\n \"b\": {\"c\": 1,\n \"c\": 2}}", 3, Some("b.c"), "twice"),
            ("{\"a\": 1}\nx", 2, None, "after the end"),
            ("{\"a\": 1,\n}", 2, None, "double quotes"),
            ("{\"a\": NaN}", 1, Some("a"), "value"),
            ("{\"a\": 01}", 1, None, "`,` or `}`"),
            ("{\"a\":\n [1, 2,, 3]}", 2, Some("a[2]"), "value"),
            ("{\"a\": \"x\ny\"}", 1, Some("a"), "line ends"),
            ("{\"a\": \"\\ud800\"}", 1, Some("a"), "bad escape"),
            ("{'a': 1}", 1, None, "double quotes"),
            ("{\"a\": 1 // c\n}", 1, None, "`,` or `}`"),
        ] {
            let r = parse(text).unwrap_err();
            assert_eq!(r.line, Some(line), "{text}");
            assert_eq!(r.key.as_deref(), key, "{text}");
            assert!(r.message.contains(word), "{text}: {}", r.message);
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |n: usize| format!("{{\"a\": {}{}}}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&deep(MAX_DEPTH - 1)).is_ok());
        assert!(parse(&deep(MAX_DEPTH)).unwrap_err().message.contains("deeper"));
        assert!(parse(&"[".repeat(1_000_000)).is_err());
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let list = |n: usize| format!("[0{}]", ",0".repeat(n - 1));
        assert!(parse(&list(1000)).is_ok());
        assert!(parse(&list(MAX_VALUES)).unwrap_err().message.contains("values"));
    }
}
