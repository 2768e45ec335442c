//! What a save changes: the cases of semantics R3 to R6.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::apart;
use super::batch::{Batch, Piece, assemble};
use super::compare::{Compared, New, checked, compare, compare_all, start_of};
use super::entry::{BELIEVED_ID, Entry, Kind, Section};
use super::insert::{Addition, add, at_ends, fragment, without_known};
use super::merge::{Merged, merge};
use super::parse::{Parser, stripped};
use super::readback::reads_back;
use super::tally::Tally;
use super::theirs;
use super::tree::MissionsState;
use crate::documents::{Context, Plan, Save, State, Written, never_removed};
use crate::model::{Overlap, Reason, Refusal};

/// What the save changes (see [`crate::documents::Document::plan`]).
pub fn plan(save: &Save<'_>, cx: &Context) -> Result<Plan, Refusal> {
    let foreign = || Refusal::new(Reason::Store, "not a version of missions.md");
    let current = MissionsState::of(save.current).ok_or_else(foreign)?;
    let seen = save.seen.map(|s| MissionsState::of(s).ok_or_else(foreign)).transpose()?;
    let now = cx.now.local_minute();
    let p = Planner { save, current, now: &now };
    match save.written {
        Written::Fragment(bytes) => p.append(checked(bytes)?, seen),
        Written::Removed => Err(never_removed(save.view)),
        Written::Whole(bytes) => {
            let text = checked(bytes)?;
            if text.trim_start_matches('\u{feff}').trim().is_empty() {
                if current.content().equals(bytes) {
                    return Ok(p.nothing(save.current.clone()));
                }
                return Err(Refusal::new(Reason::Empty, "the text is empty").hint(
                    "an empty file is never taken for \"remove all missions\"; \
                     keep the headers, such as \"## Pending\"",
                ));
            }
            if let Some(rows) = p.exported(text, seen) {
                let believed = believe(text, rows, &now);
                return Ok(p.nothing(Arc::new(believed)));
            }
            match seen {
                // What was taken away and has come back is what its writer has seen.
                Some(seen) if p.equals_current(seen) => p.whole(text, current),
                Some(seen) => p.whole(text, seen),
                None if pristine(current) => p.whole(text, current),
                None => p.blind(text),
            }
        }
    }
}

/// Nothing was ever saved: the text is still the fresh one.
fn pristine(s: &MissionsState) -> bool {
    s.slots.len() <= 1 && s.content().equals(super::FRESH.as_bytes())
}

struct Planner<'a> {
    save: &'a Save<'a>,
    current: &'a MissionsState,
    now: &'a str,
}

impl Planner<'_> {
    fn nothing(&self, believed: State) -> Plan {
        Plan {
            next: self.save.current.clone(),
            believed,
            overlaps: Vec::new(),
            summary: String::new(),
        }
    }

    /// The rows, when the text is a rendering of exactly them: its writer, who holds
    /// `missions.lock`, read the rows, whatever it read in the mount before, and its order,
    /// spelling and missing comments say nothing (R9). What waits for the lock is not among the
    /// rows and was not seen. A writer that has seen the current text may as well have edited
    /// that; then only the rendering program's own form with the queue in its order counts.
    fn exported(&self, text: &str, seen: Option<&MissionsState>) -> Option<&MissionsState> {
        let rows = self.save.rows.and_then(MissionsState::of)?;
        let text = &*theirs::read(text, rows);
        let sees_all = self.is_current(rows)
            && (pristine(self.current) || seen.is_some_and(|s| self.is_current(s)));
        if sees_all && !theirs::form(text, rows) {
            return None;
        }
        match compare(rows, text, start_of(text, rows), self.now) {
            None => Some(rows),
            Some(c) if strays(rows, rows, &c) != Some(0) => None,
            Some(c) if sees_all => {
                let live = |e: &Entry| matches!(e.section, Section::Pending | Section::InProgress);
                let moved =
                    |n: &New| live(&n.entry) && n.pair.as_ref().is_none_or(|p| p.moved || p.edited);
                let items = c.new.iter().filter(|n| n.entry.is_item());
                (!items.clone().any(moved)).then_some(rows)
            }
            Some(_) => Some(rows),
        }
    }

    /// Byte for byte, whatever came between.
    fn equals_current(&self, seen: &MissionsState) -> bool {
        let (seen, current) = (seen.content(), self.current.content());
        seen.len() == current.len() && seen.equals(&current.to_vec())
    }

    fn is_current(&self, seen: &MissionsState) -> bool {
        std::ptr::eq(seen, self.current) || seen.same_text(self.current)
    }

    /// A whole-file save by a writer that had seen `seen`.
    fn whole(&self, text: &str, seen: &MissionsState) -> Result<Plan, Refusal> {
        let start = start_of(text, seen);
        let Some(mut c) = compare(seen, text, start, self.now) else {
            let seen = self.save.seen.unwrap_or(self.save.current).clone();
            return Ok(self.nothing(if self.is_current_state(&seen) {
                self.save.current.clone()
            } else {
                seen
            }));
        };
        if let Some(refusal) = c.lost_item(seen) {
            return Err(refusal);
        }
        if self.is_current(seen) {
            let mut ids = self.current.clone();
            c.number(|e| ids.fresh_id(&e.kind));
            let tally = tally(&c);
            let next: State = Arc::new(c.state(seen, &ids, start));
            return Ok(Plan {
                believed: next.clone(),
                next,
                overlaps: Vec::new(),
                summary: tally.summary(),
            });
        }
        // What is written is what is there already.
        if self.current.content().equals(text.as_bytes()) {
            return Ok(self.nothing(self.save.current.clone()));
        }
        let export = self.save.outside_since_seen
            && strays(self.current, seen, &c).is_some_and(|n| n <= 1)
            && in_their_order(self.current, &c.state(seen, seen, start));
        let Merged { next, overlaps, tally } = merge(seen, &mut c, self.current, export);
        let mut next = next;
        c.number(|e| next.fresh_id(&e.kind));
        let believed = c.state(seen, &next, start);
        if tally == Tally::default() {
            return Ok(Plan { overlaps, ..self.nothing(Arc::new(believed)) });
        }
        let next = validated(next, self.current, self.now)?;
        if self.equals_current(&next) && same_rows(&next, self.current) {
            // Moved to where it is by now, say.
            return Ok(Plan { overlaps, ..self.nothing(Arc::new(believed)) });
        }
        Ok(self.finish(next, believed, overlaps, tally))
    }

    fn is_current_state(&self, seen: &State) -> bool {
        MissionsState::of(seen).is_some_and(|s| self.is_current(s))
    }

    fn finish(
        &self,
        next: MissionsState,
        believed: MissionsState,
        overlaps: Vec<Overlap>,
        tally: Tally,
    ) -> Plan {
        let next: State = Arc::new(next);
        Plan { next, believed: Arc::new(believed), overlaps, summary: tally.summary() }
    }

    /// An append (R5): it adds, it never edits.
    fn append(&self, text: &str, seen: Option<&MissionsState>) -> Result<Plan, Refusal> {
        let entries = fragment(text, self.current.nested_items, self.current.eol(), self.now);
        let seen_state = || self.save.seen.cloned();
        if entries.is_empty() {
            return Ok(self.nothing(seen_state().unwrap_or_else(|| Arc::new(self.only(&[])))));
        }
        let (next, added) = self.with(self.current, at_ends(entries));
        let tally = Tally { added: added.len(), ..Tally::default() };
        let next: State = Arc::new(added_to(next, self.current, self.now));
        let believed: State = match seen {
            Some(s) if self.is_current(s) => next.clone(),
            Some(s) => {
                let again = added.iter().map(|e| (**e).clone());
                Arc::new(self.with(s, at_ends(again)).0)
            }
            None => Arc::new(self.only(&added)),
        };
        Ok(Plan { next, believed, overlaps: Vec::new(), summary: tally.summary() })
    }

    /// `base` with additions; counters of the current version.
    fn with(&self, base: &MissionsState, new: Vec<Addition>) -> (MissionsState, Vec<Arc<Entry>>) {
        let mut ids = MissionsState {
            next_no: self.current.next_no,
            next_line: self.current.next_line,
            ..base.clone()
        };
        let mut batch = Batch::default();
        let added = add(&mut ids, &mut batch, new);
        (batch.apply(&ids), added)
    }

    /// A version that holds nothing but these entries: what a blind writer believes.
    fn only(&self, entries: &[Arc<Entry>]) -> MissionsState {
        let run = entries.to_vec();
        let pieces = if run.is_empty() { None } else { Some(Piece::Entries(run)) };
        MissionsState { slots: assemble(pieces), start: Section::Pending, ..self.current.clone() }
    }

    /// A whole-file save by a writer that has seen nothing (R3): it only adds.
    fn blind(&self, text: &str) -> Result<Plan, Refusal> {
        let header = |l: &str| stripped(l).starts_with("## ");
        let headerless = !text.lines().any(header);
        let eol = self.current.eol();
        let entries = if headerless {
            fragment(text, self.current.nested_items, eol, self.now)
        } else {
            let start = self.current.start;
            let parser = Parser::new(text, 0, start, self.current.nested_items);
            // A title says nothing that a document with missions needs at its end.
            let says = |e: &Entry| !e.is_blank() && stripped(&e.raw) != "# Missions";
            let mut v: Vec<Entry> = parser.map(|p| p.entry(0)).filter(says).collect();
            for e in &mut v {
                super::compare::implied(e, None, self.now);
                let lines = e.raw.replace("\r\n", "\n");
                let ended = if lines.ends_with('\n') { "" } else { "\n" };
                e.raw = format!("{lines}{ended}").replace('\n', eol).into();
            }
            v
        };
        let whole = if headerless { Some(entries.clone()) } else { None };
        let fresh = without_known(self.current, entries);
        let (next, added) = self.with(self.current, fresh);
        let items = added.iter().filter(|e| e.is_item()).count();
        let tally = Tally { added: items, lines: added.len() - items, ..Tally::default() };
        let next =
            if added.is_empty() { None } else { Some(validated(next, self.current, self.now)?) };
        let near = next.as_ref().unwrap_or(self.current);
        let believed = match whole {
            Some(own) => {
                let by_text: HashMap<String, &Arc<Entry>> =
                    near.entries().map(|e| (e.clean().into_owned(), e)).collect();
                let own: Vec<Arc<Entry>> = own
                    .into_iter()
                    .filter_map(|e| by_text.get(&*e.clean()).map(|e| (*e).clone()))
                    .collect();
                self.only(&own)
            }
            None => believe(text, near, self.now),
        };
        Ok(match next {
            Some(next) => self.finish(next, believed, Vec::new(), tally),
            None => self.nothing(Arc::new(believed)),
        })
    }
}

/// Both have the same rows in the same order.
fn same_rows(a: &MissionsState, b: &MissionsState) -> bool {
    let items = |s: &MissionsState| -> Vec<Arc<Entry>> {
        s.entries().filter(|e| e.is_item()).cloned().collect()
    };
    let (a, b) = (items(a), items(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.id == b.id && a.same_row(b))
}

fn tally(c: &Compared) -> Tally {
    let mut t = Tally::default();
    for o in c.old.iter().filter(|o| !o.found) {
        t.count(Some(&o.entry), None);
    }
    for n in &c.new {
        let old = n.pair.as_ref().and_then(|p| c.old.get(p.old)).map(|o| &*o.entry);
        if old.is_none_or(|o| *o != *n.entry) {
            t.count(old, Some(&n.entry));
        }
    }
    t
}

/// Ids of entries that exist only in what a writer believes.
static BELIEVED: AtomicU64 = AtomicU64::new(BELIEVED_ID);

/// `text` as a version of its own, with the identities of `near` where they match.
pub fn believe(text: &str, near: &MissionsState, now: &str) -> MissionsState {
    let start = start_of(text, near);
    match compare(near, text, start, now) {
        None => near.clone(),
        Some(mut c) => {
            c.number(|_| BELIEVED.fetch_add(1, Ordering::Relaxed));
            c.state(near, near, start)
        }
    }
}

/// A text as the first version of its kind, numbered from 1.
pub fn read(text: &str, nested_items: bool) -> MissionsState {
    let mut state = MissionsState {
        slots: Vec::new().into(),
        next_no: 1,
        next_line: 1,
        nested_items,
        start: Section::Preamble,
        vanished: Arc::new([]),
    };
    let start = start_of(text, &state);
    let run = Parser::new(text, 0, start, nested_items).map(|p| {
        let id = state.fresh_id(&p.kind);
        Arc::new(p.entry(id))
    });
    let run: Vec<_> = run.collect();
    state.start = start;
    state.slots = assemble([Piece::Entries(run)]);
    state
}

/// How many items more or less the written text has than `rows`, if it looks like a rendering
/// of rows by the program that changed them: known headers, `# Missions`, items and empty
/// lines only.
fn strays(rows: &MissionsState, seen: &MissionsState, c: &Compared) -> Option<u64> {
    let plain = |e: &Entry| {
        e.is_item()
            || e.is_blank()
            || matches!(e.kind, Kind::Header)
            || stripped(&e.raw) == "# Missions"
    };
    let written = c.state(seen, seen, seen.start);
    let mut count: HashMap<(Section, String), i64> = HashMap::new();
    for e in written.entries() {
        if !plain(e) {
            return None;
        }
        if e.is_item() {
            *count.entry((e.section, e.clean().into_owned())).or_default() += 1;
        }
    }
    for e in rows.entries().filter(|e| e.is_item()) {
        *count.entry((e.section, e.clean().into_owned())).or_default() -= 1;
    }
    Some(count.values().map(|n| n.unsigned_abs()).sum())
}

/// Whether what is queued or in work stands in the order of the rows, as in every rendering of them:
/// who has another order has moved something.
fn in_their_order(rows: &MissionsState, written: &MissionsState) -> bool {
    let live = |s: &MissionsState| -> Vec<(Section, String)> {
        let live = |e: &&Arc<Entry>| {
            e.is_item() && matches!(e.section, Section::Pending | Section::InProgress)
        };
        s.entries().filter(live).map(|e| (e.section, e.clean().into_owned())).collect()
    };
    let (rows, written) = (live(rows), live(written));
    let known: std::collections::HashSet<_> = rows.iter().collect();
    let mut rest = rows.iter();
    written.iter().filter(|e| known.contains(e)).all(|e| rest.any(|row| row == e))
}

/// Checks that the merged text means what was merged (merge.md): what was changed is parsed
/// again. Where its lines read differently that counts, as long as no mission is lost by it and
/// none gets another text; else each entry stands for itself.
fn validated(
    next: MissionsState,
    current: &MissionsState,
    now: &str,
) -> Result<MissionsState, Refusal> {
    if reads_back(&next, current) {
        return Ok(next);
    }
    let bytes = next.content().to_vec();
    let text = checked(&bytes)?;
    let mut c = compare_all(&next, text, next.start, now);
    let lost = c.old.iter().find(|o| !o.found && o.entry.mission().is_some());
    if let Some(o) = lost {
        return Err(Refusal::new(
            Reason::Merged,
            format!("merged with the newer version, mission {} would be lost", o.entry.name()),
        )
        .hint("read the file again and repeat the change"));
    }
    let mut ids = next.clone();
    c.number(|e| ids.fresh_id(&e.kind));
    let read = c.state(&next, &ids, next.start);
    Ok(if same_missions(&read, &next) { read } else { apart::stand_alone(&next) })
}

/// The version after additions, which are never refused for what they were added to. A fence
/// in an addition may close one that was open until now: then the entries keep their meaning.
fn added_to(next: MissionsState, current: &MissionsState, now: &str) -> MissionsState {
    validated(next.clone(), current, now).unwrap_or_else(|_| apart::stand_alone(&next))
}

fn same_missions(a: &MissionsState, b: &MissionsState) -> bool {
    let missions = |s: &MissionsState| {
        let mut all: Vec<(Section, String)> =
            s.entries().filter_map(|e| Some((e.section, e.mission()?.text.clone()))).collect();
        all.sort_unstable();
        all
    };
    Section::STATES.iter().all(|s| a.count(*s) == b.count(*s)) && missions(a) == missions(b)
}
