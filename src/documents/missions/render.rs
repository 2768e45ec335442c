//! From rows to lines: used only for lines that a command or another program has changed.

use super::entry::{Ci, Entry, Idea, Kind, Mission, Section, clean};
use super::marker;
use super::parse::{Parser, closes, fence, stripped};

/// The entry of a row in Kōan's spelling, with line end `eol`. `like`: the lines that it
/// replaces, whose indentation is kept.
pub fn entry(id: u64, kind: Kind, section: Section, eol: &str, like: Option<&str>) -> Entry {
    let indent: &str = like.map_or("", |raw| {
        let raw = raw.trim_start_matches('\u{feff}');
        &raw[..raw.len() - raw.trim_start_matches([' ', '\t']).len()]
    });
    let lines = match &kind {
        Kind::Mission(m) => {
            // An item whose text begins like a block stays an item.
            let block = m.is_block() && !like.is_some_and(|l| stripped(l).starts_with("- "));
            mission_lines(m, section, indent, block)
        }
        Kind::Ci(c) => vec![ci_line(c)],
        Kind::Idea(i) => idea_lines(i),
        Kind::Layout | Kind::Header => vec![section.header().to_owned()],
    };
    let mut raw = String::new();
    if like.is_some_and(|l| l.starts_with('\u{feff}')) {
        raw.push('\u{feff}');
    }
    for line in lines {
        raw.push_str(&line);
        raw.push_str(eol);
    }
    let (opaque, open_fence) = {
        let mut parser = Parser::new(&raw, 0, section, false);
        match (parser.next(), parser.next()) {
            (Some(p), None) => (!reads_as(&p.kind, &kind), p.open_fence),
            _ => (true, false),
        }
    };
    // Markers and other control characters stay as they are: R6, a text is verbatim.
    Entry { id, kind, section, raw: raw.into(), opaque, open_fence }
}

fn reads_as(read: &Kind, meant: &Kind) -> bool {
    match (read, meant) {
        // Blanks make no other text, and the row keeps its own as long as its lines stay.
        (Kind::Mission(a), Kind::Mission(b)) => clean(&a.text) == clean(&b.text),
        (Kind::Idea(a), Kind::Idea(b)) => clean(&a.text) == clean(&b.text),
        (Kind::Ci(a), Kind::Ci(b)) => a == b,
        (a, b) => a == b,
    }
}

/// Lines of a text: `\r` and `\0` would be taken for something else in the file.
fn split_lines(text: &str) -> Vec<String> {
    text.split('\n')
        .map(|l| l.replace('\r', "").replace('\0', "\u{fffd}").trim_end().to_owned())
        .collect()
}

fn mission_lines(m: &Mission, section: Section, indent: &str, block: bool) -> Vec<String> {
    let mut lines = split_lines(&m.text);
    if block {
        // An empty line ends it, but not in a fence.
        if lines.iter().any(|l| l.is_empty()) && !is_one(&lines, section) {
            lines.retain(|l| !l.is_empty());
        }
    } else {
        continued(&mut lines, indent);
    }
    let mut shown = m.times.clone();
    match section {
        Section::Pending => (shown.started, shown.completed, shown.cause) = (None, None, None),
        Section::InProgress => (shown.completed, shown.cause) = (None, None),
        _ => {}
    }
    if let Some(last) = lines.last_mut() {
        last.push_str(&marker::render(&shown, section == Section::Failed));
    }
    lines
}

/// Whether the lines are read as one entry.
fn is_one(lines: &[String], section: Section) -> bool {
    let text = lines.join("\n");
    let mut parser = Parser::new(&text, 0, section, false);
    parser.next().is_some_and(|p| p.raw.len() == text.len())
}

/// Makes an item of the lines of its text.
fn continued(lines: &mut Vec<String>, indent: &str) {
    while lines.len() > 1 && lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    if let Some((first, more)) = lines.split_first_mut() {
        let text = first.trim_start().to_owned();
        *first = format!("{indent}- {text}");
        hanging(&text, more);
    }
}

/// Continuation lines must not read as something else at the margin; in a fence nothing does.
/// `first`: the first line, without its dash.
fn hanging(first: &str, lines: &mut [String]) {
    // Lines before this one are in a fence.
    let mut fenced = fence(stripped(first)).map_or(0, |f| after_fence(f, lines, 0));
    let mut after_blank = false;
    for i in 0..lines.len() {
        let s = stripped(&lines[i]);
        let below_blank = std::mem::replace(&mut after_blank, s.is_empty());
        if i < fenced {
            continue;
        }
        if let Some(f) = fence(s) {
            fenced = after_fence(f, lines, i + 1);
            if fenced > 0 {
                continue;
            }
        }
        let at_margin = !lines[i].starts_with([' ', '\t']);
        if at_margin && !s.is_empty() && (below_blank || !reads_as_continuation(s)) {
            lines[i].insert_str(0, "  ");
        }
    }
}

/// The number of lines up to and with the one that closes the fence; 0: none does.
fn after_fence(fence: (u8, usize), lines: &[String], from: usize) -> usize {
    lines.iter().skip(from).position(|l| closes(fence, l.trim())).map_or(0, |n| from + n + 1)
}

/// Whether an unindented line goes on with the item above it.
fn reads_as_continuation(s: &str) -> bool {
    let two = format!("- x\n{s}\n");
    let mut parser = Parser::new(&two, 0, Section::Pending, true);
    parser.next();
    parser.next().is_none()
}

fn ci_line(c: &Ci) -> String {
    let mut out = String::from("-");
    let mut word = |w: String| {
        out.push(' ');
        out.push_str(&w.replace(['\n', '\r', '\0'], " "));
    };
    if !c.project.is_empty() {
        word(format!("[project:{}]", c.project));
    }
    word(c.url.clone());
    if let Some(b) = &c.branch {
        word(format!("branch:{b}"));
    }
    if let Some(r) = &c.repo {
        word(format!("repo:{r}"));
    }
    if let Some(q) = &c.queued {
        word(format!("queued:{q}"));
    }
    word(format!("(attempt {}/{})", c.attempt, c.max_attempts));
    out
}

fn idea_lines(i: &Idea) -> Vec<String> {
    let mut lines = split_lines(&i.text);
    if let Some((first, more)) = lines.split_first_mut() {
        let s = stripped(first);
        let text = s.strip_prefix("- ").unwrap_or(s).to_owned();
        if !s.starts_with("- ") {
            *first = format!("- {s}");
        }
        hanging(&text, more);
    }
    lines
}
