//! Does a new version, read as text, mean what it says? Only what changed is read.

use std::collections::HashMap;
use std::sync::Arc;

use super::apart;
use super::chunk::{Slot, Stretch};
use super::entry::Entry;
use super::parse::Parser;
use super::tree::MissionsState;

/// Whether what `next` has and `current` has not, read as text, gives the entries of `next`.
pub fn reads_back(next: &MissionsState, current: &MissionsState) -> bool {
    let change = Stretch::between(&current.slots, &next.slots);
    around(next, &change).unwrap_or_else(|| by_slots(next, &change))
}

/// The changed entries alone, from the last line in front of them whose meaning can depend on
/// them to the first one behind them. `None`: here that cannot be told from so little, because
/// of a fence (it reaches as far as the text does) or of an entry that stands for itself.
///
/// What is in front of it and behind it was read before, and the parser never looks back: it goes
/// on as before where the bytes that are left and the section are the same as before.
fn around(next: &MissionsState, change: &Stretch<'_>) -> Option<bool> {
    let cores = change.old.iter().chain(change.new).map(|s| &s.core);
    if cores.clone().any(|c| c.open_fence || c.opaque) {
        return None;
    }
    let (old, new) = (change.old_entries(), change.new_entries());
    let changed = change.front..new.len() - change.back;
    // An item goes on behind empty lines when what follows them is indented.
    let before = &new[..changed.start];
    let item = before.iter().rposition(|e| !e.is_blank());
    // In the slot before, anything could be.
    let from = item.or_else(|| (change.at == 0).then_some(0))?;
    // The following lines up to the first that says whether an item goes on.
    let further = &next.slots[change.at + change.new.len()..];
    let further = further.iter().flat_map(|s| s.core.entries.iter());
    let mut behind: Vec<&Arc<Entry>> = Vec::new();
    for e in new[changed.end..].iter().copied().chain(further) {
        behind.push(e);
        if !e.is_blank() {
            break;
        }
    }
    let read = new[from..changed.end].iter().chain(&behind);
    if read.clone().any(|e| fenced(e)) {
        return None;
    }
    let section = match from.checked_sub(1) {
        Some(before) => new[before].section,
        None => next.section_before(change.at),
    };
    // The section in force where the unchanged entries go on.
    let there = |entries: &[&Arc<Entry>], end: usize| match end.checked_sub(1) {
        Some(last) => entries[last].section,
        None => next.section_before(change.at),
    };
    if there(&new, changed.end) != there(&old, old.len() - change.back) && !behind.is_empty() {
        return Some(false);
    }
    let text: String = read.map(|e| &*e.raw).collect();
    let mut parser = Parser::new(&text, 0, section, next.nested_items);
    Some(new[from..changed.end].iter().all(|e| is_next(&mut parser, e)))
}

fn fenced(e: &Entry) -> bool {
    e.raw.contains("```") || e.raw.contains("~~~")
}

fn is_next(parser: &mut Parser<'_>, e: &Entry) -> bool {
    parser.next().is_some_and(|p| apart::reads_as(&p.kind, p.raw, e) && p.section == e.section)
}

/// All slots of `next` that `current` does not have, each run with the slots beside it.
fn by_slots(next: &MissionsState, change: &Stretch<'_>) -> bool {
    let b = &next.slots[..];
    let end = change.at + change.new.len();
    let new = change.new_entries();
    let changed = &new[change.front..new.len() - change.back];
    // A fence may close one that is open far above, and be closed far below.
    let open = b[..change.at].iter().position(|s| s.core.open_fence);
    if let Some(from) = open.filter(|_| changed.iter().any(|e| fenced(e))) {
        return run_reads_back(next, from, &b[from..end], &b[end..]);
    }
    if changed.iter().any(|e| e.open_fence) {
        return run_reads_back(next, change.at, change.new, &b[end..]);
    }
    // Each chunk with the one in front of it: what follows another one now may read differently.
    let core = |s: &Slot| Arc::as_ptr(&s.core);
    let mut above = change.at.checked_sub(1).map(|i| core(&b[i]));
    let beyond = b.get(end).filter(|_| change.at < end || !change.old.is_empty());
    let old: HashMap<_, _> =
        change.old.iter().chain(beyond).map(|s| (core(s), above.replace(core(s)))).collect();
    let mid = change.at..end + usize::from(beyond.is_some());
    let changed = |i: usize| {
        let above = i.checked_sub(1).map(|i| core(&b[i]));
        mid.contains(&i) && old.get(&core(&b[i])) != Some(&above)
    };
    let mut i = change.at.saturating_sub(1);
    while i < mid.end {
        if !changed(i) && !changed(i + 1) {
            i += 1;
            continue;
        }
        let from = i;
        while i < next.slots.len() && (changed(i) || changed(i + 1)) {
            i += 1;
        }
        let run = &next.slots[from..i];
        // Only an item that was there already is looked at beyond the run.
        let beyond = &next.slots[i..(i + 1).min(next.slots.len())];
        if !run_reads_back(next, from, run, beyond) {
            return false;
        }
    }
    true
}

fn run_reads_back(next: &MissionsState, from: usize, run: &[Slot], beyond: &[Slot]) -> bool {
    let mut bytes = Vec::new();
    for s in run.iter().chain(beyond) {
        bytes.extend_from_slice(&s.core.bytes);
    }
    let Ok(text) = String::from_utf8(bytes) else { return false };
    let mut parser = Parser::new(&text, 0, next.section_before(from), next.nested_items);
    let entries = run.iter().flat_map(|s| s.core.entries.iter());
    for e in entries.clone().filter(|e| e.opaque) {
        parser.knows(e);
    }
    entries.into_iter().all(|e| is_next(&mut parser, e))
}
