//! What is refused whatever follows it, and whatever is there.

use std::cell::Cell;

use saphyr_parser::Input;

use super::tree::{Form, read_value, text_of};
use super::yaml;
use crate::model::Refusal;

/// Why this text is no config, whatever is there now and whatever its writer has seen.
pub fn refusal(form: Form, text: &[u8]) -> Option<Refusal> {
    text_of(text).and_then(|text| read_value(form, text)).err()
}

/// Whether every text that begins with this one is refused as YAML, and by no more than one that
/// other readers put up with: a tab behind a colon, half a surrogate pair, a key that stands twice, a
/// byte order mark.
///
/// The text is read as always, by a reader that knows whether anybody has asked for what follows it.
/// What is refused before that is refused with any continuation.
pub fn never_yaml(text: &str) -> bool {
    if text.trim_start_matches('\u{feff}').trim_start().is_empty() {
        return false;
    }
    let ended = Cell::new(false);
    let Err(refusal) = yaml::parse_from(text, Watched { rest: text, asked: 0, ended: &ended })
    else {
        return false;
    };
    !ended.get() && !others_take(&refusal)
}

fn others_take(refusal: &Refusal) -> bool {
    let indentation = ["block indentation", "used as indentation", "plain scalar, found a tab"];
    let said = |words: &[&str]| words.iter().any(|w| refusal.message.contains(w));
    said(&["tab", "valid YAML whitespace", "escape", "byte order mark", "stands twice"])
        && !said(&indentation)
}

/// A text that tells when somebody has looked behind its end.
struct Watched<'a> {
    rest: &'a str,
    /// Characters that were asked for at once.
    asked: usize,
    ended: &'a Cell<bool>,
}

impl Watched<'_> {
    fn nth(&self, n: usize) -> Option<char> {
        let found = self.rest.chars().nth(n);
        if found.is_none() {
            self.ended.set(true);
        }
        found
    }
}

impl Input for Watched<'_> {
    fn lookahead(&mut self, count: usize) {
        self.asked = self.asked.max(count);
    }

    fn buflen(&self) -> usize {
        self.asked
    }

    fn bufmaxlen(&self) -> usize {
        // As the parser's own for a text.
        128
    }

    fn raw_read_ch(&mut self) -> char {
        let next = self.peek();
        self.skip();
        next
    }

    fn raw_read_non_breakz_ch(&mut self) -> Option<char> {
        let next = self.nth(0).filter(|c| !matches!(c, '\n' | '\r' | '\0' | '\u{feff}'))?;
        self.skip();
        Some(next)
    }

    fn skip(&mut self) {
        if let Some(c) = self.nth(0) {
            self.rest = &self.rest[c.len_utf8()..];
        }
    }

    fn skip_n(&mut self, count: usize) {
        (0..count).for_each(|_| self.skip());
    }

    fn peek(&self) -> char {
        self.nth(0).unwrap_or('\0')
    }

    fn peek_nth(&self, n: usize) -> char {
        self.nth(n).unwrap_or('\0')
    }

    fn peek_opt(&self) -> Option<char> {
        self.nth(0)
    }
}
