//! Headers after a merge: what one writer did to headers changes the section of no entry that
//! another one put, changed or kept under them.

use std::collections::HashSet;
use std::sync::Arc;

use super::batch::Batch;
use super::entry::{Entry, Kind, Section};
use super::insert::insert_in_section;
use super::merge::{Ident, Sides, ident};
use super::parse::stripped;
use super::tree::{Loc, MissionsState};

/// The section that a line opens, when it is a header, known or not.
pub fn opens(e: &Entry) -> Option<Section> {
    match e.kind {
        Kind::Header => Some(e.section),
        Kind::Layout if !e.opaque => stripped(&e.raw).strip_prefix("## ").map(Section::named),
        _ => None,
    }
}

/// `ids` (the current version with its counters) after `batch`. Where the batch changes
/// headers, one that was removed comes back while an item or a new line of others would else
/// stand in another section, and items that a new header would take over go to the end of
/// their own section.
pub fn apply(batch: Batch, mut ids: MissionsState, sides: &Sides<'_>) -> MissionsState {
    if !touches_headers(&batch, &ids) {
        return batch.apply(&ids);
    }
    let mut batch = batch;
    let mut next = batch.clone().apply(&ids);
    let mut strays = strays(&next, sides);
    if !strays.is_empty() && restore(&mut batch, &mut ids, &strays) {
        next = batch.apply(&ids);
        strays = self::strays(&next, sides);
    }
    strays.retain(|(mission, _)| *mission);
    if strays.is_empty() {
        return next;
    }
    let (mut out, mut away) = (Batch::default(), Vec::new());
    for (loc, e) in next.located().filter(|(_, e)| strays.contains(&ident(e))) {
        out.set.insert(loc, None);
        away.push(e.clone());
    }
    ids = out.apply(&next);
    let mut back = Batch::default();
    for e in away {
        insert_in_section(&mut ids, &mut back, e);
    }
    back.apply(&ids)
}

fn touches_headers(batch: &Batch, current: &MissionsState) -> bool {
    let was = |loc: &Loc| current.at(*loc).and_then(|e| opens(e));
    batch.set.iter().any(|(loc, new)| {
        let now = new.as_ref().and_then(|e| opens(e));
        was(loc) != now
    }) || batch.before.values().flatten().any(|e| opens(e).is_some())
}

/// Entries of others, and items of anybody, that stand under a header of another section.
fn strays(next: &MissionsState, sides: &Sides<'_>) -> HashSet<Ident> {
    let mut section = next.start;
    let mut out = HashSet::new();
    for e in next.entries() {
        if let Some(opened) = opens(e) {
            section = opened;
        } else if e.section != section && (e.is_item() || !e.is_blank() && sides.is_news(e)) {
            out.insert(ident(e));
        }
    }
    out
}

/// Takes back the removal of headers of which something strays. Whether there was one.
fn restore(batch: &mut Batch, ids: &mut MissionsState, strays: &HashSet<Ident>) -> bool {
    let current = ids.clone();
    let mut header: Option<Loc> = None;
    let mut back = Vec::new();
    for (loc, e) in current.located() {
        if opens(e).is_some() {
            header = batch.set.get(&loc).is_some_and(Option::is_none).then_some(loc);
        } else if let Some(h) = header
            && strays.contains(&ident(e))
            && !batch.set.get(&loc).is_some_and(Option::is_none)
        {
            back.push(h);
            header = None;
        }
    }
    let elsewhere: HashSet<Ident> = batch.before.values().flatten().map(|e| ident(e)).collect();
    for h in &back {
        // With the empty line above it.
        let above = current.previous(*h).filter(|above| {
            current.at(*above).is_some_and(|e| e.is_blank())
                && batch.set.get(above).is_some_and(Option::is_none)
        });
        for loc in above.into_iter().chain([*h]) {
            batch.set.remove(&loc);
            if let Some(e) = current.at(loc).filter(|e| elsewhere.contains(&ident(e))) {
                // It was moved: what stays here is another one.
                let id = ids.line_id();
                batch.set.insert(loc, Some(Arc::new(Entry { id, ..Entry::clone(e) })));
            }
        }
    }
    !back.is_empty()
}
