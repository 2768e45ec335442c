//! Walking over a YAML text from one node to the next.

use saphyr_parser::Tag;

use super::tree::Style;

/// A YAML text. Places are byte offsets.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a>(pub &'a str);

/// Properties of a node as written.
pub(super) struct Props {
    /// Where the first of them begins, else the node.
    pub head: usize,
    /// Where the node itself begins.
    pub start: usize,
    /// After the last property, `None` without any.
    pub end: Option<usize>,
    /// The anchor token.
    pub anchor: Option<(usize, usize)>,
    /// The tag, unless it is of the core schema.
    pub tag: Option<String>,
}

impl Walk<'_> {
    /// The byte at `at`, 0 at the end.
    pub fn peek(&self, at: usize) -> u8 {
        self.0.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// After blanks, line ends and comments from `at`; in flow style also commas.
    pub fn skip(&self, mut at: usize, flow: bool) -> usize {
        loop {
            match self.peek(at) {
                b' ' | b'\t' | b'\n' | b'\r' => at += 1,
                b',' if flow => at += 1,
                b'#' => {
                    at = self.0[at..].find('\n').map_or(self.0.len(), |n| at + n);
                }
                _ => return at,
            }
        }
    }

    /// Walks over the properties that the event announces.
    pub fn props(&self, from: usize, anchor_id: usize, tag: Option<&Tag>, flow: bool) -> Props {
        let head = self.skip(from, flow);
        let mut p = Props { head, start: head, end: None, anchor: None, tag: None };
        let mut wanted = usize::from(anchor_id != 0) + usize::from(tag.is_some());
        while wanted > 0 && matches!(self.peek(p.start), b'&' | b'!') {
            let rest = &self.0[p.start..];
            let stop =
                |c: char| c.is_whitespace() || (flow && matches!(c, ',' | '[' | ']' | '{' | '}'));
            let len = if rest.starts_with("!<") {
                rest.find('>').map_or(rest.len(), |n| n + 1)
            } else {
                rest.find(stop).unwrap_or(rest.len())
            };
            let token = (p.start, p.start + len);
            if self.peek(p.start) == b'&' {
                p.anchor = Some(token);
            } else if tag.is_some_and(|t| !t.is_yaml_core_schema()) {
                p.tag = Some(self.0[token.0..token.1].to_owned());
            }
            p.end = Some(token.1);
            p.start = self.skip(token.1, false);
            wanted -= 1;
        }
        p
    }

    /// After the closing quote of the string at `start`.
    pub fn quoted(&self, start: usize, quote: u8) -> usize {
        let mut at = start + 1;
        loop {
            match self.peek(at) {
                _ if at >= self.0.len() => return self.0.len(),
                b'\\' if quote == b'"' => at += 2,
                b if b == quote && quote == b'\'' && self.peek(at + 1) == quote => at += 2,
                b if b == quote => return at + 1,
                _ => at += 1,
            }
        }
    }

    /// A block scalar whose header stands at `start` and which ends before `span_end`.
    pub fn block(&self, start: usize, span_end: usize) -> (Style, usize, usize) {
        let rest = &self.0[start..];
        let header = start + rest.find(char::is_whitespace).unwrap_or(rest.len());
        let body = rest.find('\n').map_or(self.0.len(), |n| start + n + 1);
        let keeps = self.0[start..header].contains('+');
        let inside = self.0.get(body..span_end).unwrap_or("");
        let end = if keeps {
            // The indentation of the next line is in the span, the last line end is not content
            // that an edit may touch.
            let whole = inside.rfind('\n').map_or(inside, |n| {
                if inside[n..].trim().is_empty() { &inside[..n] } else { inside }
            });
            body + whole.trim_end_matches('\r').len()
        } else {
            body + inside.trim_end().len()
        };
        let end = if inside.trim().is_empty() && !keeps { header } else { end };
        (Style::Block { body }, start, end)
    }
}
