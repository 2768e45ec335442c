//! Changes to some entries come to the same as writing all of them anew.

use proptest::prelude::*;

use super::*;
use crate::documents::missions::parse::{Parser, stripped};
use crate::documents::missions::plan;
use crate::documents::missions::readback::reads_back;

#[test]
fn pieces_of_a_long_run_have_room_for_themselves_alone() {
    let run: Vec<_> = (0..50_000).map(|n| Arc::new(blank(n, Section::Pending, "\n"))).collect();
    let slots = assemble([Piece::Entries(run)]);
    let room: usize = slots.iter().map(|s| s.core.entries.capacity()).sum();
    assert_eq!(slots.iter().map(|s| s.core.entries.len()).sum::<usize>(), 50_000);
    assert!(room <= 50_000 + slots.len() * 8, "{room}");
}

const PARTS: [&str; 14] = [
    "- a\n",
    "- b\n  more\n",
    "### block\nbody\n",
    "\n",
    "free text\n",
    "  indented\n",
    "# comment\n",
    "* star\n",
    "## Done\n",
    "## Pending\n",
    "## Notes\n",
    "- c\n```\n",
    "```\n",
    "- d\n```\ncode\n```\n",
];

/// A text in chunks of these sizes.
fn version(parts: &[usize], sizes: &[usize], last_end: bool, crlf: bool) -> MissionsState {
    let mut text = String::from("## Pending\n");
    parts.iter().for_each(|p| text.push_str(PARTS[p % PARTS.len()]));
    if !last_end {
        text.truncate(text.trim_end().len());
    }
    if crlf {
        text = text.replace('\n', "\r\n");
    }
    let mut state = plan::read(&text, false);
    let mut entries = state.entries().cloned().collect::<Vec<_>>().into_iter().peekable();
    let mut sizes = sizes.iter().cycle();
    let mut slots = Vec::new();
    while entries.peek().is_some() {
        let size = sizes.next().copied().unwrap_or(1);
        slots.push(Slot::new(Core::new(entries.by_ref().take(size).collect())));
    }
    state.slots = slots.into();
    state
}

/// Removals, replacements and insertions at random places.
fn changes(state: &mut MissionsState, ops: &[(usize, usize, u8)]) -> Batch {
    let mut batch = Batch::default();
    let places: Vec<Loc> = state.located().map(|(loc, _)| loc).collect();
    for &(place, part, what) in ops {
        let mut at = places[place % places.len()];
        if what == 0 {
            batch.set.insert(at, None);
            continue;
        }
        let before = if what == 1 { state.previous(at) } else { Some(at) };
        let section = before.and_then(|b| state.at(b)).map_or(state.start, |e| e.section);
        let text = PARTS[part % PARTS.len()];
        let Some(parsed) = Parser::new(text, 0, section, false).next() else { continue };
        if parsed.section != section {
            continue;
        }
        let id = state.fresh_id(&parsed.kind);
        let entry = Arc::new(parsed.entry(id));
        match what {
            1 => {
                batch.set.insert(at, Some(entry));
            }
            _ => {
                at.index += 1;
                batch.insert(at, entry);
            }
        }
    }
    batch
}

/// Every entry of the touched chunks is looked at.
fn anew(mut batch: Batch, state: &MissionsState) -> String {
    let eol = state.eol();
    let ended = state.content().to_vec().ends_with(b"\n");
    let mut out = String::new();
    for (slot, s) in state.slots.iter().enumerate() {
        let mut run: Vec<Arc<Entry>> = Vec::new();
        for index in 0..=s.core.entries.len() {
            let at = Loc { slot, index };
            for e in batch.before.remove(&at).into_iter().flatten() {
                run.insert(apart::place(&run, &e, state.nested_items), e);
            }
            match (batch.set.remove(&at), s.core.entries.get(index)) {
                (Some(set), _) => run.extend(set),
                (None, old) => run.extend(old.cloned()),
            }
        }
        let following = state.slots.get(slot + 1).and_then(|s| s.core.entries.first());
        for (i, e) in run.iter().enumerate() {
            let after = run.get(i + 1).or(following);
            match (after, e.raw.ends_with('\n')) {
                (Some(_), false) => out.push_str(&format!("{}{eol}", e.raw)),
                (None, true) if !ended => out.push_str(e.raw.trim_end_matches(['\r', '\n'])),
                _ => out.push_str(&e.raw),
            }
            let goes_on =
                |s: &str| !(s.is_empty() || s.starts_with("## ") || s.starts_with("### "));
            if e.mission().is_some_and(|m| m.is_block())
                && after.is_some_and(|a| goes_on(stripped(&a.raw)))
            {
                out.push_str(eol);
            }
        }
    }
    out
}

#[test]
fn a_removed_chunk_changes_what_follows_it() {
    let mut state = version(&[3, 12, 0, 3, 0], &[1], true, false);
    let batch = changes(&mut state, &[(0, 0, 0), (3, 0, 0)]);
    assert!(!reads_back(&batch.apply(&state), &state));
}

proptest! {
    #[test]
    fn some_entries_are_changed_as_if_all_were_written(
        parts in prop::collection::vec(0usize..20, 1..30),
        sizes in prop::collection::vec(1usize..8, 1..4),
        ops in prop::collection::vec((0usize..40, 0usize..20, 0u8..4), 1..8),
        ended in any::<bool>(),
        crlf in any::<bool>(),
    ) {
        let mut state = version(&parts, &sizes, ended, crlf);
        let batch = changes(&mut state, &ops);
        let want = anew(batch.clone(), &state);
        let next = batch.apply(&state);
        let got = String::from_utf8(next.content().to_vec()).unwrap();
        prop_assert_eq!(&got, &want);

        let entries = |e: &Entry| (e.raw.clone(), e.section, std::mem::discriminant(&e.kind));
        let read = Parser::new(&got, 0, next.start, false).map(|p| entries(&p.entry(0)));
        let meant = next.entries().map(|e| entries(e));
        let all = read.eq(meant);
        // Where it is not sure all is read.
        prop_assert!(all || !reads_back(&next, &state), "{}", got);
    }
}
