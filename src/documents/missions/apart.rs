//! What several writers put beside each other keeps its own meaning: a line that is no item does
//! not go on with an item of somebody else, and a fence does not take in what it was not put around.

use std::sync::Arc;

use super::batch::{Piece, assemble};
use super::chunk::Slots;
use super::entry::{Entry, Kind};
use super::parse::Parser;
use super::tree::MissionsState;

/// Where an entry that is to come behind `run` may stand: a line that would go on with the items
/// there stands before them.
pub fn place(run: &[Arc<Entry>], entry: &Entry, nested_items: bool) -> usize {
    let mut at = run.len();
    if !matches!(entry.kind, Kind::Layout) || entry.is_blank() {
        return at;
    }
    while let Some(above) = run[..at].iter().rposition(|e| !e.is_blank())
        && goes_on(&run[above..at], entry, nested_items)
    {
        at = above;
    }
    at
}

/// Whether the line is read as a part of the item that is the first of `run`, with nothing but
/// empty lines behind it.
fn goes_on(run: &[Arc<Entry>], line: &Entry, nested_items: bool) -> bool {
    let Some(item) = run.first().filter(|e| e.is_item() && !e.opaque) else { return false };
    let mut text = String::new();
    for raw in run.iter().map(|e| &*e.raw).chain([&*line.raw]) {
        text.push_str(raw);
        if !raw.ends_with('\n') {
            text.push('\n');
        }
    }
    let own = item.raw.len() + usize::from(!item.raw.ends_with('\n'));
    let mut parser = Parser::new(&text, 0, item.section, nested_items);
    parser.next().is_some_and(|p| p.raw.len() > own)
}

/// How often entries that now stand for themselves may change how others are read.
const ROUNDS: usize = 4;

/// The version with every entry standing for itself whose lines, as they stand now, would be read
/// as something else.
pub fn stand_alone(state: &MissionsState) -> MissionsState {
    let mut state = state.clone();
    for _ in 0..ROUNDS {
        match marked(&state) {
            Some(slots) => state.slots = slots,
            None => break,
        }
    }
    state
}

/// One round; `None`: all is read as it is meant.
fn marked(state: &MissionsState) -> Option<Slots> {
    let bytes = state.content().to_vec();
    let text = std::str::from_utf8(&bytes).ok()?;
    let opaque: Vec<&Arc<Entry>> = state.entries().filter(|e| e.opaque).collect();
    let parser = |pos, section| {
        let mut parser = Parser::new(text, pos, section, state.nested_items);
        opaque.iter().for_each(|e| parser.knows(e));
        parser
    };
    let mut reader = parser(0, state.start);
    let (mut pos, mut section, mut any) = (0, state.start, false);
    let pieces: Vec<Piece> = state
        .slots
        .iter()
        .map(|slot| {
            let mut entries: Option<Vec<Arc<Entry>>> = None;
            for (i, e) in slot.core.entries.iter().enumerate() {
                match reader.pos() <= pos {
                    true => reader.skip_to(pos, section),
                    // What it knows of fences is about what follows its place.
                    false => reader = parser(pos, section),
                }
                let read = reader.next();
                let lines = read.as_ref().is_some_and(|p| reads_as(&p.kind, p.raw, e));
                let under = read.map_or(section, |p| p.section);
                if !e.opaque && (!lines || under != e.section) {
                    let entries = entries.get_or_insert_with(|| slot.core.entries.clone());
                    let e = Arc::make_mut(&mut entries[i]);
                    // A line stands where it stands; what it looks like must not make it an item.
                    let moved = matches!(e.kind, Kind::Layout) && e.section != section;
                    if !lines || !moved {
                        (e.opaque, e.open_fence) = (true, false);
                    }
                    if moved {
                        e.section = if lines { under } else { section };
                    }
                    any = true;
                }
                pos += e.raw.len();
                // Lines that stand for themselves are no header.
                if lines && !e.opaque {
                    section = under;
                }
            }
            entries.map_or_else(|| Piece::Slot(slot.clone()), Piece::Entries)
        })
        .collect();
    any.then(|| assemble(pieces))
}

/// Whether lines that were read are this entry.
pub fn reads_as(kind: &Kind, raw: &str, e: &Entry) -> bool {
    raw == &*e.raw && std::mem::discriminant(kind) == std::mem::discriminant(&e.kind)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Live;
    use super::*;

    #[test]
    fn a_line_of_somebody_else_does_not_go_on_with_an_item() {
        let mut live = Live::new();
        live.edit("## Pending\n- a\n- b\n\n## Notes\nx\n\n## Done\n");
        live.blind("# Mine\n\n## Pending\nfree text\n- c\n## Notes\ny\n");
        assert_eq!(
            live.text(),
            "# Mine\n## Pending\nfree text\n- a\n- b\n- c\n\n## Notes\nx\ny\n\n## Done\n"
        );
        // Of two saves: the line stands above the item that came first.
        let seen = live.state.clone();
        live.edit(&live.text().replace("free text\n", "free text\n- first\n"));
        let theirs = String::from_utf8_lossy(&MissionsState::of(&seen).unwrap().content().to_vec())
            .replace("free text\n", "free text\nmore text\n");
        live.whole(&seen, &theirs);
        assert!(live.text().contains("free text\nmore text\n- first\n- a\n"), "{}", live.text());
        assert_eq!(live.rows().len(), 4);
    }

    #[test]
    fn rows_with_open_fences_are_not_taken_into_each_other() {
        let mut live = Live::new();
        live.sql(
            "INSERT INTO missions (text, state, sequence) VALUES
               ('a' || char(10) || '```' || char(10) || 'b', 'pending', 1), ('c', 'pending', 2),
               ('d' || char(10) || '```' || char(10) || 'e', 'pending', 3)",
        );
        live.refresh();
        let text = live.text();
        let seen = live.state.clone();
        live.whole(&seen, &format!("{text}\n## Notes\n"));
        assert_eq!(live.rows(), ["pending:a\n```\nb", "pending:c", "pending:d\n```\ne"]);
    }

    #[test]
    fn a_row_of_an_empty_last_section_stands_in_it() {
        let mut live = Live::new();
        live.edit("# Missions\n\n## Failed\n");
        live.sql(
            "INSERT INTO missions (text, state, completed_at) VALUES
               ('a', 'pending', NULL), ('z', 'failed', '2026-07-01T10:00'), ('b', 'done', NULL)",
        );
        live.refresh();
        assert_eq!(
            live.text(),
            "# Missions\n\n## Failed\n- z ❌ (2026-07-01 10:00)\n\n## Pending\n- a\n\n## Done\n- b\n"
        );
    }
}
