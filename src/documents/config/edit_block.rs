//! Edits of YAML in block style, where lines and indentation are the syntax.

use super::change::{Change, Fate, Members};
use super::edit::{Editor, Mode, Place, tagged};
use super::render;
use super::scalar;
use super::tree::{Node, Style};
use super::value::Value;

/// Changes the members of a block map or sequence of which at least one stays.
pub(super) fn members(ed: &mut Editor<'_>, change: &Change<'_, '_>) {
    let Some(first) = change.children.first() else { return };
    let indent = ed.text[ed.line_start(first.start)..first.start].chars().count();
    let is_map = matches!(change.members, Members::Map(_));
    for c in &change.children {
        let Fate::Becomes(i) = c.fate else { continue };
        let place = if is_map {
            Place::Entry { mark: c.mark, indent }
        } else {
            Place::Item { mark: c.mark, indent }
        };
        ed.change(c.node, change.members.value(i), place);
    }
    remove(ed, change);
    let last = change.children.iter().rposition(|c| c.fate != Fate::Goes).unwrap_or(0);
    let lines = |i: usize| match &change.members {
        Members::Map(m) => render::entry_lines(&m[i].0, &m[i].1, indent),
        Members::Seq(s) => render::item_lines(&s[i], indent),
    };
    let place = |after: Option<usize>| ed.line_after(change.children[after.unwrap_or(last)].end);
    let mut new: Vec<(usize, String)> = Vec::new();
    let mut ends: Vec<(usize, String)> = Vec::new();
    for &(i, after) in &change.new {
        let text = lines(i).join(ed.eol);
        match (after, change.children.iter().find(|c| c.fate != Fate::Goes)) {
            // The first element goes before all others, behind the comments above them.
            (None, Some(first)) if !is_map => {
                let text = text.trim_start_matches(' ');
                new.push((first.start, format!("{text}{}{}", ed.eol, " ".repeat(indent))));
            }
            // The order of keys is no value: those without a place of their own come last.
            (None, _) => ends.push((place(None), text + ed.eol)),
            (after, _) => new.push((place(after), text + ed.eol)),
        }
    }
    for (at, text) in new.into_iter().chain(ends) {
        ed.splice(at, at, text);
    }
}

/// Takes out the children that do not stay, with their lines. Comments between them stay.
fn remove(ed: &mut Editor<'_>, change: &Change<'_, '_>) {
    let mut from = 0;
    if let Some(first) = change.children.first().filter(|c| c.fate == Fate::Goes) {
        let before = &ed.text[ed.line_start(first.start)..first.start];
        if !before.trim().is_empty() {
            // `- a: 1`: the next one that stays moves up behind the dash.
            if let Some(next) = change.children.iter().position(|c| c.fate != Fate::Goes) {
                ed.splice(first.start, change.children[next].start, "");
                from = next;
            }
        }
    }
    for c in &change.children[from..] {
        if c.fate == Fate::Goes {
            let (start, end) = (ed.line_start(c.start), ed.line_after(c.end));
            ed.splice(start, end, "");
        }
    }
}

/// What stands behind the mark for this value, and the lines below.
fn written(ed: &Editor<'_>, node: &Node, target: &Value, place: Place) -> (String, Vec<String>) {
    if let Some(text) = tagged(node, target, false) {
        return (format!(" {text}"), Vec::new());
    }
    let style = match node.style {
        Style::Single => Style::Single,
        Style::Double => Style::Double,
        _ if ed.mode == Mode::Careful => Style::Double,
        _ => Style::Plain,
    };
    match (place, target) {
        (Place::Item { indent, .. }, Value::Map(_) | Value::Seq(_)) => {
            let mut lines = render::item_lines(target, indent);
            let first = lines.remove(0);
            (first.trim_start_matches(' ')[1..].to_owned(), lines)
        }
        (Place::Item { indent, .. } | Place::Entry { indent, .. }, _) => {
            match target {
                // Only strings have styles.
                Value::Str(_) => render::after_mark(target, indent, style),
                _ => render::after_mark(target, indent, Style::Plain),
            }
        }
        _ => (format!(" {}", scalar::inline(target, style, false)), Vec::new()),
    }
}

/// Replaces a whole value. Comments on its first and behind its last line stay.
pub(super) fn replace(ed: &mut Editor<'_>, node: &Node, target: &Value, place: Place) {
    let (Place::Entry { mark, .. } | Place::Item { mark, .. }) = place else {
        let indent = ed.text[ed.line_start(node.start)..node.start].chars().count();
        let lines = render::block_lines(target, indent);
        let text = lines.join(ed.eol);
        return ed.splice(node.start, node.end, text.trim_start_matches(' '));
    };
    let (tail, lines) = written(ed, node, target, place);
    let anchor = ed.anchor(node);
    let marked = |tail: &str| format!(" {anchor}{}", tail.trim_start()).trim_end().to_owned();
    let block = lines.join(ed.eol);
    let later = ed.text.get(mark..node.start).is_some_and(|t| t.contains('\n'));
    let body = match node.style {
        Style::Block { body } if !later => Some(body),
        _ => None,
    };
    if let Some(body) = body {
        let header = &ed.text[node.start..];
        let header = node.start + header.find(char::is_whitespace).unwrap_or(header.len());
        ed.splice(mark, header, marked(&tail));
        match (node.end > body, lines.is_empty()) {
            (true, true) => {
                let line_end = ed.text[..body].trim_end_matches('\n').trim_end_matches('\r').len();
                ed.splice(line_end.max(header), node.end, "");
            }
            (true, false) => ed.splice(body, node.end, block),
            (false, true) => {}
            (false, false) => {
                let at = ed.line_after(node.end);
                let text = block + ed.eol;
                ed.splice(at, at, text);
            }
        }
        return;
    }
    if later {
        // The value begins on a line below its key; what stands on the key's line before a
        // comment are properties.
        let line_end = ed.line_after(mark);
        let line = ed.text[mark..line_end].trim_end();
        let props = line.find(" #").map_or(line, |n| &line[..n]).trim_end().len();
        ed.splice(mark, mark + props, marked(&tail));
        if lines.is_empty() && node.style == Style::Indented {
            // Comments above its first line stay there, one behind its last gets a line.
            let (start, after) = (ed.line_start(node.start), ed.line_after(node.end));
            let rest = &ed.text[node.end..after];
            let remark = rest.trim();
            if remark.is_empty() {
                ed.splice(start, after, "");
            } else {
                let pad = " ".repeat(node.start - start);
                let blanks = rest.len() - rest.trim_start().len();
                ed.splice(start, node.end + blanks, pad);
            }
        } else if lines.is_empty() {
            ed.splice(mark + line.len(), node.end, "");
        } else {
            let start = ed.line_start(node.start);
            ed.splice(start, node.end, block);
        }
        return;
    }
    if let Place::Entry { indent, .. } = place
        && !ed.text[..mark].ends_with(':')
    {
        // `? key` without a value.
        let at = ed.line_after(mark);
        let first = format!("{}:{}", " ".repeat(indent), marked(&tail));
        let text: String = [first].into_iter().chain(lines).map(|l| l + ed.eol).collect();
        return ed.splice(at, at, text);
    }
    // The lines below a `-` have to stand under what is behind it.
    let aligned = !lines.is_empty() && matches!(target, Value::Map(_) | Value::Seq(_));
    if aligned || node.style == Style::Empty {
        ed.splice(mark, node.end.max(mark), marked(&tail));
    } else {
        ed.splice(node.head, node.end, marked(&tail).trim_start());
    }
    if !lines.is_empty() {
        let at = ed.line_after(node.end);
        let text = block + ed.eol;
        ed.splice(at, at, text);
    }
}
