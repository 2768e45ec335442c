//! Edits of JSON and of YAML in flow style, where brackets and commas are the syntax.

use super::change::{Change, Child, Fate, Members};
use super::edit::{Editor, Place, apply};
use super::render;
use super::tree::{Form, Node};
use super::value::Value;

/// The text between the members of a container.
struct Gaps<'t> {
    /// Before each child, from the bracket or the comma before it.
    leads: Vec<&'t str>,
    /// Behind each child, up to its comma.
    tails: Vec<&'t str>,
    /// A comment on the line of the last child, which stays with it.
    remark: &'t str,
    /// Before the closing bracket.
    closing: String,
}

/// What stands before new members, and how they are indented.
struct Style {
    first: String,
    next: String,
    /// Indentation of a new member's own lines.
    base: String,
    /// New members take several lines.
    lines: bool,
}

/// Changes a container with brackets. When members come or go it is put together anew, each
/// kept one with the text that it has.
pub(super) fn members(ed: &mut Editor<'_>, node: &Node, change: &Change<'_, '_>, place: Place) {
    if change.same_members() {
        for c in &change.children {
            if let Fate::Becomes(i) = c.fate {
                ed.change(c.node, change.members.value(i), Place::Flow { mark: c.mark });
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
        ed.replace(node, &target, place);
        return;
    }
    let mut gaps = gaps(ed, change, open, close);
    let style = style(ed, node, &mut gaps);
    let text = rebuilt(ed, change, &gaps, &style);
    let (before, after) = (&ed.text[node.start..open], &ed.text[close..node.end]);
    let text = format!("{before}{text}{after}");
    ed.splice(node.start, node.end, text);
}

fn gaps<'t>(ed: &Editor<'t>, change: &Change<'_, '_>, open: usize, close: usize) -> Gaps<'t> {
    let text = ed.text;
    let (mut leads, mut tails) = (Vec::new(), Vec::new());
    let mut at = open;
    for c in &change.children {
        leads.push(&text[at..c.start]);
        let comma = blanks(ed, c.end);
        if comma < close && text[comma..].starts_with(',') {
            tails.push(&text[c.end..comma]);
            at = comma + 1;
        } else {
            tails.push("");
            at = c.end;
        }
    }
    let rest = &text[at..close];
    let line = rest[..rest.find('\n').unwrap_or(0)].trim_end_matches('\r');
    let remark = if line.contains('#') { line } else { "" };
    Gaps { leads, tails, remark, closing: rest[remark.len()..].to_owned() }
}

/// New members look like the last one that has a line of its own, else like their neighbours.
fn style(ed: &Editor<'_>, node: &Node, gaps: &mut Gaps<'_>) -> Style {
    let own = ed.indent_at(node.start);
    if let Some(lead) = gaps.leads.iter().rfind(|l| l.contains('\n')) {
        let base = lead[lead.rfind('\n').map_or(0, |n| n + 1)..].to_owned();
        let lead = format!("{}{base}", ed.eol);
        return Style { first: lead.clone(), next: lead, base, lines: true };
    }
    if gaps.leads.is_empty() && ed.form == Form::Json && ed.pretty {
        let base = format!("{own}{}", ed.unit);
        let lead = format!("{}{base}", ed.eol);
        gaps.closing = format!("{}{own}", ed.eol);
        return Style { first: lead.clone(), next: lead, base, lines: true };
    }
    let first = gaps.leads.first().copied().unwrap_or("").to_owned();
    let tight = ed.form == Form::Json && ed.layout(false).colon == ":";
    let next = gaps.leads.get(1).copied().unwrap_or(if tight { "" } else { " " }).to_owned();
    Style { first, next, base: own, lines: false }
}

/// Everything between the brackets.
fn rebuilt(ed: &mut Editor<'_>, change: &Change<'_, '_>, gaps: &Gaps<'_>, style: &Style) -> String {
    let order = order(change);
    let last_child = change.children.len().checked_sub(1);
    let remarked = |slot: Option<&(Option<usize>, Fate)>| {
        slot.is_some_and(|(child, _)| child.is_some() && *child == last_child)
    };
    let mut out = String::new();
    for (n, (child, fate)) in order.iter().enumerate() {
        if n > 0 {
            out.push(',');
            if remarked(order.get(n - 1)) {
                out.push_str(gaps.remark);
            }
        }
        match child.map(|i| gaps.leads[i]) {
            Some(l) if l.contains('\n') || (n > 0) == (*child != Some(0)) => out.push_str(l),
            _ => out.push_str(if n == 0 { &style.first } else { &style.next }),
        }
        match (child, *fate) {
            (Some(i), fate) => {
                let c = &change.children[*i];
                match fate {
                    Fate::Becomes(k) => out.push_str(&inside(ed, c, change.members.value(k))),
                    _ => out.push_str(&ed.text[c.start..c.end]),
                }
                out.push_str(gaps.tails[*i]);
            }
            (None, Fate::Becomes(k)) => out.push_str(&new(ed, &change.members, k, style)),
            (None, _) => {}
        }
    }
    if remarked(order.last()) {
        out.push_str(gaps.remark);
    }
    if !order.is_empty() {
        out.push_str(&gaps.closing);
    }
    out
}

/// The members after the change: the child that each was, if any.
fn order(change: &Change<'_, '_>) -> Vec<(Option<usize>, Fate)> {
    // Behind nothing, behind the first child, and so on.
    let mut newcomers = vec![Vec::new(); change.children.len() + 1];
    for &(member, after) in &change.new {
        newcomers[after.map_or(0, |child| child + 1)].push((None, Fate::Becomes(member)));
    }
    let mut newcomers = newcomers.into_iter();
    let mut order = newcomers.next().unwrap_or_default();
    for ((i, c), new) in change.children.iter().enumerate().zip(newcomers) {
        if c.fate != Fate::Goes {
            order.push((Some(i), c.fate));
        }
        order.extend(new);
    }
    order
}

/// The text of a kept child with the changes inside it.
fn inside(ed: &mut Editor<'_>, c: &Child<'_>, target: &Value) -> String {
    let outer = std::mem::take(&mut ed.out);
    ed.change(c.node, target, Place::Flow { mark: c.mark });
    let inner = std::mem::replace(&mut ed.out, outer);
    apply(ed.text, c.start..c.end, inner).unwrap_or_else(|| ed.text[c.start..c.end].to_owned())
}

/// A new member.
fn new(ed: &Editor<'_>, members: &Members<'_>, i: usize, style: &Style) -> String {
    match (ed.form, members) {
        (Form::Yaml, Members::Map(m)) => {
            format!("{}: {}", render::key(&m[i].0, true), render::flow(&m[i].1))
        }
        (Form::Yaml, Members::Seq(s)) => render::flow(&s[i]),
        (Form::Json, _) => {
            let layout = ed.layout(style.lines);
            let mut out = String::new();
            if let Members::Map(m) = members {
                out.push_str(&render::json_string(&m[i].0));
                out.push_str(&layout.colon);
            }
            render::json(members.value(i), &layout, &style.base, &mut out);
            out
        }
    }
}

/// After blanks and comments from `at`.
fn blanks(ed: &Editor<'_>, mut at: usize) -> usize {
    loop {
        match ed.text.as_bytes().get(at) {
            Some(b' ' | b'\t' | b'\n' | b'\r') => at += 1,
            Some(b'#') => at = ed.line_after(at),
            _ => return at,
        }
    }
}
