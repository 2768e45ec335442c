//! The smallest edit of a text that gives it other values.
//!
//! Unchanged parts keep their bytes: comments, order, quoting, number spelling. An edit is a
//! list of splices made by comparing the tree of the text with the wanted value; the result is
//! read again and compared, so a construct that the splices do not handle (an anchor whose
//! aliases must not follow, say) costs formatting, never a value.

use super::edit_block;
use super::lists;
use super::merge::identities;
use super::render::{self, Layout};
use super::scalar;
use super::tree::{Entry, Form, Item, Kind, Node, Role, Style, read};
use super::value::{Index, Value};

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
    let mut now = text.to_owned();
    for round in 0..4 {
        let Ok(doc) = read(form, &now) else { break };
        if doc.value.same(target) {
            return now;
        }
        match edited(form, &now, &doc.root, target, round > 0) {
            Some(next) => now = next,
            None => break,
        }
    }
    if read(form, &now).is_ok_and(|d| d.value.same(target)) {
        return now;
    }
    let fresh = render::document(form, target);
    if text.starts_with('\u{feff}') { format!("\u{feff}{fresh}") } else { fresh }
}

/// One round of edits; `careful` avoids block scalars, whose end depends on what follows.
fn edited(form: Form, text: &str, root: &Node, target: &Value, careful: bool) -> Option<String> {
    let eol =
        if text.find('\n').is_some_and(|n| text[..n].ends_with('\r')) { "\r\n" } else { "\n" };
    let open_end = form == Form::Yaml && !text.ends_with('\n');
    let whole = if open_end { format!("{text}{eol}") } else { text.to_owned() };
    let unit = whole
        .lines()
        .find(|l| l.starts_with([' ', '\t']) && !l.trim().is_empty())
        .map_or("  ", |l| &l[..l.len() - l.trim_start().len()]);
    let pretty = whole.trim().contains('\n') || whole.trim().len() <= 2;
    let mut ed =
        Editor { text: &whole, form, eol, unit: unit.to_owned(), pretty, careful, out: Vec::new() };
    ed.change(root, target, Place::Root);
    let mut done = apply(&whole, 0..whole.len(), ed.out)?;
    if open_end && done.ends_with(eol) {
        done.truncate(done.len() - eol.len());
    }
    Some(done)
}

/// The part of the text with the splices applied; `None` if they overlap or leave it.
fn apply(text: &str, range: std::ops::Range<usize>, mut splices: Vec<Splice>) -> Option<String> {
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
    /// Write no block scalars.
    pub careful: bool,
    /// The splices so far.
    pub out: Vec<Splice>,
}

/// What becomes of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is taken out.
    Goes,
    /// It stays as it is: the `<<` of a map.
    Stays,
    /// It is this one of the [`Members`] from now on.
    Becomes(usize),
}

/// A member of a map or sequence as it stands in the text.
pub(super) struct Child<'n> {
    /// Where it begins.
    pub start: usize,
    /// After its value.
    pub end: usize,
    /// What becomes of it.
    pub fate: Fate,
    /// Its value.
    pub node: &'n Node,
    /// After its mark.
    pub mark: usize,
}

/// The members that a map or sequence shall have.
pub(super) enum Members<'t> {
    /// Of a map.
    Map(&'t [(String, Value)]),
    /// Of a sequence.
    Seq(&'t [Value]),
}

impl Members<'_> {
    /// The value of one of them.
    pub fn value(&self, i: usize) -> &Value {
        match self {
            Members::Map(m) => &m[i].1,
            Members::Seq(s) => &s[i],
        }
    }
}

/// What a map or sequence becomes.
pub(super) struct Change<'n, 't> {
    /// The members it has.
    pub children: Vec<Child<'n>>,
    /// The members it shall have.
    pub members: Members<'t>,
    /// New members, with the child after which each stands; `None`: no child before it.
    pub new: Vec<(usize, Option<usize>)>,
}

impl Change<'_, '_> {
    fn same_members(&self) -> bool {
        self.new.is_empty() && self.children.iter().all(|c| c.fate != Fate::Goes)
    }

    fn survives(&self) -> bool {
        self.children.iter().any(|c| c.fate != Fate::Goes)
    }
}

impl Editor<'_> {
    /// Adds a splice.
    pub fn splice(&mut self, start: usize, end: usize, text: impl Into<String>) {
        self.out.push(Splice { start, end, text: text.into() });
    }

    /// Makes `node` equal to `target`.
    pub fn change(&mut self, node: &Node, target: &Value, place: Place) {
        if node.value().same(target) {
            return;
        }
        let change = match (&node.kind, target, node.style) {
            (_, _, Style::Alias) => None,
            (Kind::Map(entries), Value::Map(t), _) => Some(map_change(entries, t)),
            (Kind::Seq(items), Value::Seq(t), _) => Some(seq_change(items, t)),
            _ => None,
        };
        match (change, node.style) {
            (Some(change), Style::Flow) => self.flow(node, &change, place),
            (Some(change), _) if change.survives() => {
                edit_block::members(self, &change);
            }
            _ => self.replace(node, target, place),
        }
    }

    fn replace(&mut self, node: &Node, target: &Value, place: Place) {
        match (self.form, place) {
            (Form::Json, _) => {
                let layout = self.layout(self.pretty);
                let base = self.indent_at(node.start);
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

    fn layout(&self, lines: bool) -> Layout {
        let colon = if !self.pretty && !self.text.contains("\": ") && self.text.contains("\":") {
            ":"
        } else {
            ": "
        };
        Layout { unit: lines.then(|| self.unit.clone()), eol: self.eol, colon: colon.to_owned() }
    }

    /// The blanks at the beginning of the line of `at`.
    fn indent_at(&self, at: usize) -> String {
        let line = &self.text[self.line_start(at)..at];
        line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
    }

    /// Where the line of `at` begins.
    pub fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |n| n + 1)
    }

    /// Where the line after that of `at` begins.
    pub fn line_after(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |n| at + n + 1)
    }

    /// Changes a container with brackets: its members are put together anew when some come
    /// or go, each kept one with the text that it has.
    fn flow(&mut self, node: &Node, change: &Change<'_, '_>, place: Place) {
        if change.same_members() {
            for c in &change.children {
                if let Fate::Becomes(i) = c.fate {
                    self.change(c.node, change.members.value(i), Place::Flow { mark: c.mark });
                }
            }
            return;
        }
        let (open, close) = (node.start + 1, node.end.saturating_sub(1));
        if open > close || change.children.iter().any(|c| c.start < open || c.end > close) {
            let target = match &change.members {
                Members::Map(m) => Value::Map(m.to_vec()),
                Members::Seq(s) => Value::Seq(s.to_vec()),
            };
            self.replace(node, &target, place);
            return;
        }
        // The text before each child, after it up to its comma, and before the bracket.
        let mut leads = Vec::new();
        let mut tails = Vec::new();
        let mut at = open;
        for c in &change.children {
            leads.push(&self.text[at..c.start]);
            let comma = self.blanks(c.end);
            if self.text[comma..].starts_with(',') {
                tails.push(&self.text[c.end..comma]);
                at = comma + 1;
            } else {
                tails.push("");
                at = c.end;
            }
        }
        // A comment behind the last child stays on its line.
        let rest = &self.text[at..close];
        let first_line = &rest[..rest.find('\n').unwrap_or(0)].trim_end_matches('\r');
        let remark = if first_line.contains('#') { first_line } else { "" };
        let mut closing = rest[remark.len()..].to_owned();
        let lines = leads.iter().any(|l| l.contains('\n'));
        let own_base = self.indent_at(node.start);
        let (first_lead, next_lead, base) =
            if let Some(l) = leads.iter().rfind(|l| l.contains('\n')) {
                let base = l[l.rfind('\n').map_or(0, |n| n + 1)..].to_owned();
                let lead = format!("{}{base}", self.eol);
                (lead.clone(), lead, base)
            } else if leads.is_empty() && self.form == Form::Json && self.pretty {
                let base = format!("{own_base}{}", self.unit);
                let lead = format!("{}{base}", self.eol);
                closing = format!("{}{own_base}", self.eol);
                (lead.clone(), lead, base)
            } else {
                let first = leads.first().copied().unwrap_or("").to_owned();
                let compact = self.form == Form::Json && self.layout(false).colon == ":";
                let next = leads.get(1).copied().unwrap_or(if compact { "" } else { " " });
                (first, next.to_owned(), own_base)
            };
        let lines = lines || (leads.is_empty() && first_lead.contains('\n'));
        let mut order: Vec<(Option<usize>, Fate)> = Vec::new();
        let newcomers = |after: Option<usize>| {
            change.new.iter().filter(move |n| n.1 == after).map(|n| (None, Fate::Becomes(n.0)))
        };
        order.extend(newcomers(None));
        for (i, c) in change.children.iter().enumerate() {
            if c.fate != Fate::Goes {
                order.push((Some(i), c.fate));
            }
            order.extend(newcomers(Some(i)));
        }
        let mut out = String::from(&self.text[node.start..open]);
        if order.is_empty() {
            closing.clear();
        }
        let last_child = change.children.len().checked_sub(1);
        let mut remarked = false;
        for (n, (child, fate)) in order.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            if n > 0 && order[n - 1].0.is_some() && order[n - 1].0 == last_child {
                out.push_str(remark);
                remarked = true;
            }
            let old_lead = child.map(|i| leads[i]);
            match old_lead {
                Some(l) if l.contains('\n') || (n > 0) == (*child != Some(0)) => out.push_str(l),
                _ => out.push_str(if n == 0 { &first_lead } else { &next_lead }),
            }
            match (child.map(|i| (&change.children[i], tails[i])), *fate) {
                (Some((c, tail)), Fate::Becomes(k)) => {
                    out.push_str(&self.sub(c, change.members.value(k)));
                    out.push_str(tail);
                }
                (Some((c, tail)), _) => {
                    out.push_str(&self.text[c.start..c.end]);
                    out.push_str(tail);
                }
                (None, Fate::Becomes(k)) => {
                    out.push_str(&self.member(&change.members, k, lines, &base));
                }
                (None, _) => {}
            }
        }
        if !remarked
            && order.last().is_some_and(|(child, _)| child.is_some() && *child == last_child)
        {
            out.push_str(remark);
        }
        out.push_str(&closing);
        out.push_str(&self.text[close..node.end]);
        self.splice(node.start, node.end, out);
    }

    /// The text of a kept child with the changes inside it.
    fn sub(&mut self, c: &Child<'_>, target: &Value) -> String {
        let outer = std::mem::take(&mut self.out);
        self.change(c.node, target, Place::Flow { mark: c.mark });
        let inner = std::mem::replace(&mut self.out, outer);
        apply(self.text, c.start..c.end, inner)
            .unwrap_or_else(|| self.text[c.start..c.end].to_owned())
    }

    /// A new member of a container with brackets.
    fn member(&self, members: &Members<'_>, i: usize, lines: bool, base: &str) -> String {
        let mut out = String::new();
        match (self.form, members) {
            (Form::Yaml, Members::Map(m)) => {
                out = format!("{}: {}", render::key(&m[i].0, true), render::flow(&m[i].1));
            }
            (Form::Yaml, Members::Seq(s)) => out = render::flow(&s[i]),
            (Form::Json, _) => {
                let layout = self.layout(lines);
                if let Members::Map(m) = members {
                    out.push_str(&render::json_string(&m[i].0));
                    out.push_str(&layout.colon);
                }
                render::json(members.value(i), &layout, base, &mut out);
            }
        }
        out
    }

    /// After blanks and comments.
    fn blanks(&self, mut at: usize) -> usize {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => at += 1,
                Some(b'#') => at = self.line_after(at),
                _ => return at,
            }
        }
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

fn map_change<'n, 't>(entries: &'n [Entry], target: &'t [(String, Value)]) -> Change<'n, 't> {
    let wanted = Index::new(target.iter().map(|(k, _)| k.as_str()));
    // A key that comes from a `<<` can be overridden but not taken out: without it the
    // whole `<<` goes, and what it brought is written out.
    let dissolve =
        entries.iter().any(|e| e.role == Role::Inherited && wanted.get(&e.key).is_none());
    let mut children = Vec::new();
    let mut placed = vec![None; target.len()];
    let mut merge_child = None;
    for e in entries {
        let fate = match e.role {
            Role::Own => wanted.get(&e.key).map_or(Fate::Goes, Fate::Becomes),
            Role::Merge if dissolve => Fate::Goes,
            Role::Merge => Fate::Stays,
            Role::Inherited => {
                if let Some(i) = wanted.get(&e.key) {
                    if !dissolve && e.value.value().same(&target[i].1) {
                        placed[i] = merge_child;
                    }
                }
                continue;
            }
        };
        if e.role == Role::Merge {
            merge_child = Some(children.len());
        } else if let Fate::Becomes(i) = fate {
            placed[i] = Some(children.len());
        }
        let end = e.value.end.max(e.mark);
        children.push(Child { start: e.start, end, fate, node: &e.value, mark: e.mark });
    }
    Change { children, members: Members::Map(target), new: newcomers(&placed) }
}

fn seq_change<'n, 't>(items: &'n [Item], target: &'t [Value]) -> Change<'n, 't> {
    let have: Vec<Value> = items.iter().map(|i| i.value.value()).collect();
    let (lists, by_id) = match identities(&[&have, target]) {
        Some((ids, _)) => (ids, true),
        None => {
            let forms = |l: &[Value]| l.iter().map(Value::canonical).collect();
            (vec![forms(&have), forms(target)], false)
        }
    };
    let classes = lists::classes(&lists);
    let mut fates = vec![Fate::Goes; items.len()];
    let mut placed = vec![None; target.len()];
    if let [from, to] = &classes[..] {
        for op in lists::diff(from, to) {
            let equal = matches!(op, similar::DiffOp::Equal { .. });
            let replaced = matches!(op, similar::DiffOp::Replace { .. });
            if equal || (replaced && !by_id) {
                for (i, j) in op.old_range().zip(op.new_range()) {
                    fates[i] = Fate::Becomes(j);
                    placed[j] = Some(i);
                }
            }
        }
    }
    let children = items
        .iter()
        .zip(fates)
        .map(|(i, fate)| Child {
            start: i.start,
            end: i.value.end.max(i.mark),
            fate,
            node: &i.value,
            mark: i.mark,
        })
        .collect();
    Change { children, members: Members::Seq(target), new: newcomers(&placed) }
}

/// The members without a child, each with the child of the nearest member before it.
fn newcomers(placed: &[Option<usize>]) -> Vec<(usize, Option<usize>)> {
    let mut after = None;
    let mut new = Vec::new();
    for (i, p) in placed.iter().enumerate() {
        match p {
            Some(child) => after = Some(*child),
            None => new.push((i, after)),
        }
    }
    new
}
