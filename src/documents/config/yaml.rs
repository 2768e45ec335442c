//! One YAML document with places, from the events of saphyr-parser.
//!
//! The parser's spans take in properties, trailing comments or the next line's indentation,
//! by kind of node. So only the *order* of the events and a few ends are taken from them; where
//! a node begins is found by walking the text from where the one before it ended.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Input, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::path::{KeyPath, Step};
use super::scalar;
use super::tree::{Entry, Item, Kind, MAX_DEPTH, MAX_VALUES, Node, Role, Style};
use super::value::Value;
use super::yaml_walk::{Props, Walk};
use crate::model::{Reason, Refusal};

/// Most nodes that anchors, aliases and `<<` may add to those that are written.
const MAX_EXPANSION: usize = 200_000;

struct Reader<'a, I: Input> {
    walk: Walk<'a>,
    /// Byte offset of each character; `None` when they are the same.
    bytes_at: Option<Vec<usize>>,
    events: Parser<'a, I>,
    /// After the last token that was read.
    at: usize,
    anchors: HashMap<usize, Anchored>,
    budget: usize,
    values: usize,
    path: KeyPath,
}

/// What an anchor stands for.
struct Anchored {
    node: Node,
    size: usize,
    height: usize,
}

/// Reads one document.
pub(super) fn parse(text: &str) -> Result<Node, Refusal> {
    parse_from(text, StrInput::new(text))
}

/// The same; `input`: the text again, for the parser.
pub(super) fn parse_from(text: &str, input: impl Input) -> Result<Node, Refusal> {
    let bytes_at = (!text.is_ascii())
        .then(|| text.char_indices().map(|(at, _)| at).chain([text.len()]).collect());
    let at = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut r = Reader {
        walk: Walk(text),
        bytes_at,
        events: Parser::new(input),
        at,
        anchors: HashMap::new(),
        budget: MAX_EXPANSION,
        values: 0,
        path: KeyPath::default(),
    };
    r.document()
}

/// Refuses what readers of YAML 1.1 with libyaml's rules, as PyYAML is, cannot take as the
/// start of a token and this parser can: a tab as indentation.
pub(super) fn old_readers(text: &str) -> Result<(), Refusal> {
    if !text.contains('\t') {
        return Ok(());
    }
    let Err(e) = serde_yaml::from_str::<serde::de::IgnoredAny>(text) else { return Ok(()) };
    if !e.to_string().contains("cannot start any token") {
        return Ok(());
    }
    let refusal = Refusal::new(Reason::Invalid, "a tab stands where YAML wants blanks")
        .hint("indent with blanks: other programs cannot read this");
    Err(match e.location() {
        Some(l) => refusal.at_line(l.line()),
        None => refusal,
    })
}

fn scan_error(e: &ScanError) -> Refusal {
    let deep = e.info().contains("recursion limit");
    let what = if deep { "nested too deeply" } else { e.info() };
    Refusal::new(Reason::Invalid, format!("not valid YAML: {what}"))
        .at_line(e.marker().line())
        .hint("look at the indentation and the quotes of this line and the one before")
}

impl<'a, I: Input> Reader<'a, I> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Refusal> {
        match self.events.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(e)) => Err(scan_error(&e)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn byte(&self, char_at: usize) -> usize {
        match &self.bytes_at {
            None => char_at.min(self.walk.0.len()),
            Some(map) => map.get(char_at).copied().unwrap_or(self.walk.0.len()),
        }
    }

    fn refuse(&self, span: &Span, message: impl Into<String>) -> Refusal {
        let r = Refusal::new(Reason::Invalid, message).at_line(span.start.line());
        if self.path.0.is_empty() { r } else { r.at_key(self.path.to_string()) }
    }

    fn document(&mut self) -> Result<Node, Refusal> {
        let mut root: Option<Node> = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(explicit) => {
                    if root.is_some() {
                        return Err(self
                            .refuse(&span, "a second document begins here")
                            .hint("only one YAML document is taken; take the `---` out"));
                    }
                    if explicit {
                        self.at = self.at.max(self.byte(span.end.index()));
                    }
                    let (event, span) = self.next()?;
                    root = Some(self.node(event, span, 0, false, self.at)?);
                }
                _ => {}
            }
        }
        match root {
            Some(Node { style: Style::Empty, .. }) | None => Err(super::tree::empty()),
            Some(root) => Ok(root),
        }
    }

    /// The node that begins with this event; `from`: where the text before it ended.
    fn node(
        &mut self,
        event: Event<'a>,
        span: Span,
        depth: usize,
        flow: bool,
        from: usize,
    ) -> Result<Node, Refusal> {
        let collection = matches!(event, Event::SequenceStart(..) | Event::MappingStart(..));
        if depth + usize::from(collection) > MAX_DEPTH {
            return Err(self.refuse(&span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.refuse(&span, format!("more than {MAX_VALUES} values")));
        }
        let (node, anchor_id) = match event {
            Event::Alias(id) => (self.alias(id, &span, depth, flow, from)?, 0),
            Event::Scalar(text, style, id, tag) => {
                (self.scalar(&text, style, id, tag.as_deref(), &span, flow, from), id)
            }
            Event::SequenceStart(id, tag) => {
                let p = self.walk.props(from, id, tag.as_deref(), flow);
                (self.seq(p, depth, flow)?, id)
            }
            Event::MappingStart(id, tag) => {
                let p = self.walk.props(from, id, tag.as_deref(), flow);
                (self.map(p, depth, flow)?, id)
            }
            _ => return Err(self.refuse(&span, "not valid YAML: a value is missing")),
        };
        self.at = self.at.max(node.end);
        if anchor_id != 0 {
            let size = self.spend(&node, &span)?;
            let height = height(&node);
            self.anchors.insert(anchor_id, Anchored { node: node.clone(), size, height });
        }
        Ok(node)
    }

    /// Takes the size of a copy of `node` out of the budget.
    fn spend(&mut self, node: &Node, span: &Span) -> Result<usize, Refusal> {
        let size = size(node);
        self.spend_size(size, span)?;
        Ok(size)
    }

    fn spend_size(&mut self, size: usize, span: &Span) -> Result<(), Refusal> {
        match self.budget.checked_sub(size) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => Err(self.refuse(span, "aliases and merges make this too large")),
        }
    }

    fn alias(
        &mut self,
        id: usize,
        span: &Span,
        depth: usize,
        flow: bool,
        from: usize,
    ) -> Result<Node, Refusal> {
        let start = self.walk.skip(from, flow);
        let stop =
            |c: char| c.is_whitespace() || (flow && matches!(c, ',' | '[' | ']' | '{' | '}'));
        let rest = &self.walk.0[start..];
        let end = start + rest.find(stop).unwrap_or(rest.len());
        let Some(target) = self.anchors.get(&id) else {
            return Err(self.refuse(span, "an alias stands inside what it means"));
        };
        if depth + target.height > MAX_DEPTH {
            return Err(self.refuse(span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let (kind, size) = (target.node.kind.clone(), target.size);
        self.spend_size(size, span)?;
        Ok(Node {
            kind,
            style: Style::Alias,
            head: start,
            start,
            end,
            anchor: None,
            tag: None,
            line: span.start.line(),
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        id: usize,
        tag: Option<&Tag>,
        span: &Span,
        flow: bool,
        from: usize,
    ) -> Node {
        let p = self.walk.props(from, id, tag, flow);
        let span_end = self.byte(span.end.index());
        let plain = style == ScalarStyle::Plain;
        let value = match (tag, &p.tag) {
            (_, Some(written)) => Value::Str(format!("{written} {text}").trim_end().to_owned()),
            (Some(t), None) if t.suffix == "str" => Value::Str(text.to_owned()),
            (Some(t), None) if matches!(&t.suffix[..], "int" | "float" | "bool" | "null") => {
                scalar::resolve(text)
            }
            _ if plain => scalar::resolve(text),
            _ => Value::Str(text.to_owned()),
        };
        let (style, start, end) = match style {
            ScalarStyle::Plain if text.is_empty() => {
                let at = p.end.unwrap_or(from);
                (Style::Empty, at, at)
            }
            ScalarStyle::Plain => {
                let upto = self.walk.0.get(p.start..span_end).unwrap_or("");
                (Style::Plain, p.start, p.start + upto.trim_end().len())
            }
            ScalarStyle::SingleQuoted => (Style::Single, p.start, self.walk.quoted(p.start, b'\'')),
            ScalarStyle::DoubleQuoted => (Style::Double, p.start, self.walk.quoted(p.start, b'"')),
            ScalarStyle::Literal | ScalarStyle::Folded => self.walk.block(p.start, span_end),
        };
        let head = if style == Style::Empty && p.end.is_none() { start } else { p.head };
        Node {
            kind: Kind::Scalar(value),
            style,
            head,
            start,
            end,
            anchor: p.anchor,
            tag: p.tag,
            line: span.start.line(),
        }
    }

    fn seq(&mut self, p: Props, depth: usize, flow: bool) -> Result<Node, Refusal> {
        let brackets = self.walk.peek(p.start) == b'[';
        let mut at = if brackets { p.start + 1 } else { p.start };
        let mut items = Vec::new();
        let (line, end) = loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                break (span.start.line(), self.byte(span.end.index()));
            }
            let start = self.walk.skip(at, brackets);
            let mark =
                if brackets { start } else { start + usize::from(self.walk.peek(start) == b'-') };
            self.path.0.push(Step::At(items.len()));
            let value = self.node(event, span, depth + 1, flow || brackets, mark)?;
            self.path.0.pop();
            at = value.end.max(mark);
            items.push(Item { start, mark, value });
        };
        let line = items.first().map_or(line, |i: &Item| i.value.line);
        let style = if brackets { Style::Flow } else { Style::Indented };
        let end = if brackets { end } else { at };
        Ok(self.collection(Kind::Seq(items), style, p, end, line))
    }

    fn collection(&self, kind: Kind, style: Style, p: Props, end: usize, line: usize) -> Node {
        Node { kind, style, head: p.head, start: p.start, end, anchor: p.anchor, tag: None, line }
    }

    fn map(&mut self, p: Props, depth: usize, flow: bool) -> Result<Node, Refusal> {
        let brackets = self.walk.peek(p.start) == b'{';
        let inside = flow || brackets;
        let mut at = if brackets { p.start + 1 } else { p.start };
        let mut entries: Vec<Entry> = Vec::new();
        let mut keys: HashSet<String> = HashSet::new();
        let (line, end) = loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break (span.start.line(), self.byte(span.end.index()));
            }
            let start = self.walk.skip(at, inside);
            let explicit = self.walk.peek(start) == b'?'
                && matches!(self.walk.peek(start + 1), b' ' | b'\n' | b'\r' | b'\t');
            let key_from = if explicit { start + 1 } else { start };
            let merges = matches!(&event, Event::Scalar(t, ScalarStyle::Plain, ..) if t == "<<");
            let text = match &event {
                Event::Scalar(t, ..) => t.to_string(),
                Event::Alias(id) => match self.anchors.get(id).map(|a| a.node.value()) {
                    Some(Value::Str(s) | Value::Num(s)) => s,
                    _ => return Err(self.refuse(&span, "a key must be a text")),
                },
                _ => {
                    return Err(self
                        .refuse(&span, "a key is a list or a mapping")
                        .hint("keys must be texts, as in JSON"));
                }
            };
            self.path.0.push(Step::Key(text.clone()));
            if !keys.insert(text.clone()) {
                return Err(self
                    .refuse(&span, "the key stands twice")
                    .hint("YAML readers would silently take the last one"));
            }
            let line = span.start.line();
            let key = self.node(event, span, depth + 1, inside, key_from)?;
            let colon = self.walk.skip(key.end, false);
            let mark = if self.walk.peek(colon) == b':' { colon + 1 } else { key.end };
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1, inside, mark)?;
            at = value.end.max(mark);
            let role = if merges { Role::Merge } else { Role::Own };
            if merges {
                let bases = self.bases(&value, &span)?;
                entries.push(Entry { key: text, start, mark, line, role, value });
                entries.extend(bases);
            } else {
                entries.push(Entry { key: text, start, mark, line, role, value });
            }
            self.path.0.pop();
        };
        // A key written here beats one that comes from a `<<`.
        entries.retain(|e| e.role != Role::Inherited || !keys.contains(&e.key));
        let line = entries.first().map_or(line, |e| e.line);
        let style = match (brackets, flow) {
            (true, _) => Style::Flow,
            (false, false) => Style::Indented,
            (false, true) => Style::Alias, // `[a: b]`, replaced as a whole
        };
        let end = if brackets { end } else { at };
        Ok(self.collection(Kind::Map(entries), style, p, end, line))
    }

    /// What a `<<` brings; of equal keys the first counts.
    fn bases(&mut self, value: &Node, span: &Span) -> Result<Vec<Entry>, Refusal> {
        let maps: Vec<&Node> = match &value.kind {
            Kind::Seq(items) => items.iter().map(|i| &i.value).collect(),
            _ => vec![value],
        };
        let mut out: Vec<Entry> = Vec::new();
        let mut have = HashSet::new();
        for map in maps {
            let Kind::Map(entries) = &map.kind else {
                return Err(self.refuse(span, "`<<` takes a mapping or a list of mappings"));
            };
            for e in entries.iter().filter(|e| e.role != Role::Merge) {
                self.spend(&e.value, span)?;
                if have.insert(e.key.clone()) {
                    out.push(Entry { role: Role::Inherited, ..e.clone() });
                }
            }
        }
        Ok(out)
    }
}

/// Levels of collections in it.
fn height(node: &Node) -> usize {
    match &node.kind {
        Kind::Scalar(_) => 0,
        Kind::Seq(items) => 1 + items.iter().map(|i| height(&i.value)).max().unwrap_or(0),
        Kind::Map(entries) => 1 + entries.iter().map(|e| height(&e.value)).max().unwrap_or(0),
    }
}

fn size(node: &Node) -> usize {
    1 + match &node.kind {
        Kind::Scalar(_) => 0,
        Kind::Seq(items) => items.iter().map(|i| size(&i.value)).sum(),
        Kind::Map(entries) => entries.iter().map(|e| 1 + size(&e.value)).sum(),
    }
}
