//! Kōan's own rendering of rows (missions-format section 2).

use std::borrow::Cow;

use super::marker;
use super::parse::Parser;
use super::tree::MissionsState;

/// Whether a text has its form, as far as headers show. What looks like one inside an item is
/// none.
pub fn form(text: &str, near: &MissionsState) -> bool {
    let mut parser = Parser::new(text, 0, near.start, near.nested_items);
    near.entries().filter(|e| e.opaque).for_each(|e| parser.knows(e));
    let headers: Vec<&str> =
        parser.filter(|p| p.raw.starts_with("## ")).map(|p| p.raw.trim_end()).collect();
    let states = ["## Pending", "## In Progress", "## Done", "## Failed"];
    text.starts_with("# Missions\n\n## CI\n")
        && matches!(&headers[..], ["## CI", rest @ ..] | ["## CI", "## Ideas", rest @ ..] if *rest == states)
}

/// A text that may be its rendering of `rows`, with our lines for those rows whose text reads as
/// something else when it is written down as it is (a header in it): it writes them so.
pub fn read<'t>(text: &'t str, rows: &MissionsState) -> Cow<'t, str> {
    let mut text = Cow::Borrowed(text);
    for e in rows.entries().filter(|e| e.opaque) {
        let Some(m) = e.mission() else { continue };
        let bullet = if m.is_block() { "" } else { "- " };
        let mut times = m.times.clone();
        times.cause = None;
        let failed = e.section.state() == Some("failed");
        let lines = format!("\n{bullet}{}{}\n", m.text, marker::render(&times, failed));
        if let Some(at) = text.find(&lines) {
            let mut ours = text.into_owned();
            ours.replace_range(at + 1..at + lines.len(), &e.raw);
            text = Cow::Owned(ours);
        }
    }
    text
}
