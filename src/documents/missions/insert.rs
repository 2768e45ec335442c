//! Additions at the end of a section: appends, blind saves (R3, R5).

use std::collections::HashMap;
use std::sync::Arc;

use super::batch::{Batch, blank};
use super::compare::implied;
use super::entry::{Entry, Kind, Section};
use super::parse::{Parser, simple, stripped};
use super::render;
use super::settle::opens;
use super::tree::{Loc, MissionsState};

/// The entries of an append, without empty lines, in order, ids 0. A bare line is an item
/// (R5); its own headers and continuation lines count within it.
pub fn fragment(text: &str, nested_items: bool, eol: &str, now: &str) -> Vec<Entry> {
    let mut text = text.replace("\r\n", "\n");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let mut out: Vec<Entry> = Vec::new();
    let mut open_bare = false;
    for p in Parser::new(&text, 0, Section::Pending, nested_items) {
        let mut entry = p.entry(0);
        if entry.is_blank() {
            open_bare = false;
            continue;
        }
        let bare = matches!(entry.kind, Kind::Layout) && entry.section.is_state();
        if bare && open_bare && entry.raw.starts_with([' ', '\t']) {
            if let Some(above) = out.last_mut() {
                above.raw = format!("{}{}", above.raw, entry.raw).into();
                above.kind = Kind::Mission(Box::new(simple(&above.raw)));
            }
            continue;
        }
        open_bare = bare && bare_item(&mut entry);
        out.push(entry);
    }
    for e in &mut out {
        implied(e, None, now);
        if eol != "\n" {
            e.raw = e.raw.replace('\n', eol).into();
        }
    }
    out
}

/// Makes a bare line an item; comments and the like stay what they are.
fn bare_item(entry: &mut Entry) -> bool {
    let raw = format!("- {}\n", stripped(&entry.raw));
    let alone = stripped(&entry.raw);
    let mut probe = String::from("- x\n");
    probe.push_str(alone);
    let goes_on = Parser::new(&probe, 0, entry.section, true).count() == 1;
    if goes_on {
        entry.kind = Kind::Mission(Box::new(simple(&raw)));
        entry.raw = raw.into();
    }
    goes_on
}

/// An entry that is to be added.
pub struct Addition {
    entry: Entry,
    /// The end of the section that is not ours in which it stands, when that is there already.
    place: Option<Loc>,
}

/// Entries that go to the ends of their sections.
pub fn at_ends(entries: impl IntoIterator<Item = Entry>) -> Vec<Addition> {
    entries.into_iter().map(|entry| Addition { entry, place: None }).collect()
}

/// Adds entries at the ends of their sections; what stands under a header that is not ours and
/// not there goes to the end of the text with it. Gives them ids and returns them as inserted.
pub fn add(ids: &mut MissionsState, batch: &mut Batch, new: Vec<Addition>) -> Vec<Arc<Entry>> {
    let mut out = Vec::new();
    let mut order: Vec<Section> = Vec::new();
    let mut new = new;
    for Addition { entry, .. } in &new {
        if !order.contains(&entry.section) {
            order.push(entry.section);
        }
    }
    // Sections that must be made first stay whole.
    new.sort_by_key(|a| order.iter().position(|s| *s == a.entry.section));
    for Addition { entry: mut e, place } in new {
        if matches!(e.kind, Kind::Header) {
            continue;
        }
        if e.id == 0 {
            e.id = ids.fresh_id(&e.kind);
        }
        let e = Arc::new(e);
        if let Some(place) = place {
            batch.insert_item(place, e.clone(), e.section);
        } else if e.section.is_state() || matches!(e.section, Section::Ci | Section::Ideas) {
            insert_in_section(ids, batch, e.clone());
        } else if e.section == Section::Preamble {
            batch.insert(end_of_preamble(ids), e.clone());
        } else {
            batch.insert(ids.end(), e.clone());
        }
        out.push(e);
    }
    space(ids, batch);
    out
}

/// Behind what stands before the first header; in a text that has none, or none before anything
/// else, the beginning.
fn end_of_preamble(state: &MissionsState) -> Loc {
    let mut end = Loc { slot: 0, index: 0 };
    for (loc, e) in state.located().take_while(|(_, e)| e.section == Section::Preamble) {
        if !e.is_blank() {
            end = Loc { index: loc.index + 1, ..loc };
        }
    }
    end
}

/// An empty line after each section that was put in front of the states.
pub fn space(ids: &mut MissionsState, batch: &mut Batch) {
    let front = |e: &Entry| matches!(e.section, Section::Ci | Section::Ideas);
    let eol = ids.eol();
    for run in batch.before.values_mut() {
        if !run.iter().any(|e| front(e) && matches!(e.kind, Kind::Header)) {
            continue;
        }
        let mut spaced: Vec<Arc<Entry>> = Vec::with_capacity(run.len() + 2);
        for e in run.drain(..) {
            if let (Kind::Header, Some(last)) = (&e.kind, spaced.last())
                && !last.is_blank()
            {
                let section = last.section;
                spaced.push(Arc::new(blank(ids.line_id(), section, eol)));
            }
            spaced.push(e);
        }
        if let Some(section) = spaced.last().filter(|e| front(e)).map(|e| e.section) {
            spaced.push(Arc::new(blank(ids.line_id(), section, eol)));
        }
        *run = spaced;
    }
}

/// Inserts one entry at the end of its section, with the header when there is none.
pub fn insert_in_section(ids: &mut MissionsState, batch: &mut Batch, entry: Arc<Entry>) {
    let (place, in_force) = match ids.end_of(entry.section) {
        Some(place) => (place, entry.section),
        None => (new_section(ids, batch, entry.section), Section::Unknown),
    };
    batch.insert_item(place, entry, in_force);
}

/// Where a header that does not exist yet is put: CI and ideas before the states, states at
/// the end (missions-format section 2). Returns the place, behind the inserted header.
pub fn new_section(ids: &mut MissionsState, batch: &mut Batch, section: Section) -> Loc {
    let first_state = Section::STATES.iter().filter_map(|s| ids.header(*s)).min();
    let in_front = matches!(section, Section::Ci | Section::Ideas);
    let place = first_state.filter(|_| in_front).unwrap_or_else(|| ids.end());
    let there = batch.before.get(&place);
    let already = there
        .is_some_and(|v| v.iter().any(|e| matches!(e.kind, Kind::Header) && e.section == section));
    if already {
        return place;
    }
    let eol = ids.eol();
    let last = there.and_then(|v| v.last().cloned()).or_else(|| {
        let before = if place.index > 0 {
            Some(Loc { index: place.index - 1, ..place })
        } else {
            ids.previous(place)
        };
        before.and_then(|l| ids.at(l).cloned())
    });
    if last.is_some_and(|e| !e.is_blank()) && !in_front {
        let id = ids.line_id();
        batch.insert(place, Arc::new(blank(id, Section::Unknown, eol)));
    }
    let id = ids.line_id();
    batch.insert(place, Arc::new(render::entry(id, Kind::Header, section, eol, None)));
    place
}

/// Leaves out what `state` has already (R3: a mission whose text is there in any section
/// stays as and where it is), counted with multiplicity.
pub fn without_known(state: &MissionsState, entries: Vec<Entry>) -> Vec<Addition> {
    let mut known: HashMap<String, usize> = HashMap::new();
    for e in state.entries() {
        *known.entry(key(e)).or_default() += 1;
    }
    let mut place = None;
    entries
        .into_iter()
        .filter_map(|entry| {
            if let Some(section) = opens(&entry) {
                place = if section == Section::Unknown { end_under(state, &entry) } else { None };
            }
            match known.get_mut(&key(&entry)) {
                Some(n) if *n > 0 => {
                    *n -= usize::from(entry.is_item());
                    None
                }
                _ => Some(Addition { entry, place }),
            }
        })
        .collect()
}

/// Behind what stands under a header that is not ours; `None`: there is no such header.
fn end_under(state: &MissionsState, header: &Entry) -> Option<Loc> {
    let mut entries = state.located();
    let same = |e: &Entry| opens(e).is_some() && stripped(&e.raw) == stripped(&header.raw);
    let (mut end, _) = entries.find(|(_, e)| same(e))?;
    for (loc, _) in entries.take_while(|(_, e)| opens(e).is_none()).filter(|(_, e)| !e.is_blank()) {
        end = loc;
    }
    Some(Loc { index: end.index + 1, ..end })
}

fn key(e: &Entry) -> String {
    if e.is_item() { format!("i{}", e.clean()) } else { format!("l{}", stripped(&e.raw)) }
}
