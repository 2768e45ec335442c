//! What must hold for any missions text, merge and rows (see [`crate::properties`]).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::Connection;

use super::entry::{Entry, Kind, Mission, Section, clean};
use super::marker::Markers;
use super::merge::{Ident, ident};
use super::parse::Parser;
use super::tree::MissionsState;
use super::{Missions, NestedBullets, archive, compare, plan, render};
use crate::documents::{Context, Document, Plan, Save, State, Written};
use crate::model::{Reason, Refusal, Stamp, View};
use crate::properties::{is_refusal, parts};

const CX: Context = Context { now: Stamp(1_800_000_000_000_000_000) };
/// Texts up to this many entries are looked at from each of them.
const FEW: usize = 40;

/// Parser, renderer and archive: a text is kept byte for byte, what it means too, and what is
/// rendered reads as what was meant.
pub fn text(bytes: &[u8]) {
    for nested in [NestedBullets::Text, NestedBullets::Item] {
        let text = match compare::checked(bytes) {
            Ok(text) => text,
            Err(refusal) => {
                assert_eq!(refusal.reason, Reason::Invalid);
                return is_refusal(&refusal, bytes);
            }
        };
        let state = plan::read(text, nested == NestedBullets::Item);
        assert!(state.content().equals(bytes), "not kept byte for byte");
        entries_are_whole(&state);
        archive_reads_back(&state);
        parts_read_alike(&state, text);
        for e in state.entries() {
            rendered_reads_back(e, state.nested_items);
        }
        saved_and_saved_again(nested, text);
    }
}

fn entries_are_whole(state: &MissionsState) {
    let mut entries = state.entries().peekable();
    let mut ids = HashSet::new();
    while let Some(e) = entries.next() {
        assert!(!e.raw.is_empty());
        assert!(e.raw.ends_with('\n') || entries.peek().is_none(), "{:?} is no line", e.raw);
        assert!(ids.insert(ident(e)), "{} is there twice", e.name());
        assert!(matches!(e.kind, Kind::Mission(_)) <= e.section.is_state());
    }
}

/// Kind, section and lines of all entries.
fn meaning(s: &MissionsState) -> Vec<(Kind, Section, &str)> {
    s.entries().map(|e| (e.kind.clone(), e.section, &*e.raw)).collect()
}

fn archive_reads_back(state: &MissionsState) {
    let mut bytes = archive::head(state).into_bytes();
    for s in state.slots.iter() {
        bytes.extend_from_slice(&s.core.archive());
    }
    let again = archive::decode(&bytes).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(meaning(&again), meaning(state));
    assert!(again.content() == state.content());
    let mut second = archive::head(&again).into_bytes();
    for s in again.slots.iter() {
        second.extend_from_slice(&s.core.archive());
    }
    assert!(second == bytes, "an archive is not the same again");
    assert!(archive::text(&bytes).is_some_and(|t| state.content().equals(&t)));
}

/// The parser never looks back: from the end of each entry on it finds the rest.
fn parts_read_alike(state: &MissionsState, text: &str) {
    let entries: Vec<&Arc<Entry>> = state.entries().take(FEW + 1).collect();
    if entries.len() > FEW {
        return;
    }
    let mut pos = 0;
    for (n, e) in entries.iter().enumerate() {
        pos += e.raw.len();
        let mut rest = Parser::new(text, pos, e.section, state.nested_items);
        for e in &entries[n + 1..] {
            let p = rest.next().unwrap_or_else(|| panic!("{:?} is missing", e.raw));
            assert_eq!((p.raw, p.section, &p.kind), (&*e.raw, e.section, &e.kind));
        }
        assert!(rest.next().is_none());
    }
}

/// What a row looks like reads as the row, and looks the same again.
fn rendered_reads_back(e: &Entry, nested: bool) {
    if !e.is_item() {
        return;
    }
    let rendered = render::entry(e.id, e.kind.clone(), e.section, "\n", Some(&e.raw));
    assert!(rendered.raw.ends_with('\n'));
    if rendered.opaque {
        // Only what has lines of its own meaning, or ends like a marker and shows none behind it.
        let like_marker = |m: &Mission| {
            super::parse::simple(&format!("- {}\n", m.text)).times != Markers::default()
        };
        let own = e.raw.trim_end().contains(['\n', '\r']) || e.mission().is_some_and(like_marker);
        assert!(own, "{:?} as {:?}", e.raw, rendered.raw);
        return;
    }
    let mut parser = Parser::new(&rendered.raw, 0, e.section, nested && !e.raw.contains('\n'));
    let (Some(read), None) = (parser.next(), parser.next()) else {
        panic!("{:?} is rendered as {:?}", e.raw, rendered.raw)
    };
    let texts = |k: &Kind| match k {
        // Lines that would read as something else are indented.
        Kind::Mission(m) => (clean(&m.text).into_owned(), m.project.clone(), m.complexity.clone()),
        Kind::Idea(i) => (clean(&i.text).into_owned(), i.project.clone(), None),
        Kind::Ci(c) => (format!("{c:?}"), String::new(), None),
        Kind::Layout | Kind::Header => Default::default(),
    };
    assert_eq!(texts(&read.kind), texts(&e.kind), "as {:?}", rendered.raw);
    let again = render::entry(e.id, read.kind, e.section, "\n", Some(&rendered.raw));
    assert_eq!(again.raw, rendered.raw, "of {:?}", e.raw);
}

fn save(
    seen: Option<&State>,
    written: Written<'_>,
    current: &State,
    nested: NestedBullets,
) -> Result<Plan, Refusal> {
    let view = View::MissionsMd;
    let save = Save { view, seen, written, current, outside_since_seen: false, rows: None };
    Missions::new(nested).plan(&save, &CX)
}

fn whole(seen: Option<&State>, text: &[u8], current: &State) -> Result<Plan, Refusal> {
    save(seen, Written::Whole(text), current, NestedBullets::Auto)
}

fn of(state: &State) -> &MissionsState {
    MissionsState::of(state).unwrap_or_else(|| panic!("no missions"))
}

fn bytes(state: &State) -> Vec<u8> {
    of(state).content().to_vec()
}

/// R6: a save by one who has seen the current version is read back, and saved again is none.
fn saved_and_saved_again(nested: NestedBullets, text: &str) {
    let fresh = Missions::new(nested).fresh();
    match save(Some(&fresh), Written::Whole(text.as_bytes()), &fresh, nested) {
        Err(refusal) => {
            assert!(matches!(refusal.reason, Reason::Empty | Reason::LostItem), "{refusal:?}");
            is_refusal(&refusal, text.as_bytes());
        }
        Ok(plan) => {
            assert_eq!(bytes(&plan.next), text.as_bytes());
            assert!(Arc::ptr_eq(&plan.next, &plan.believed));
            let again = save(Some(&plan.next), Written::Whole(text.as_bytes()), &plan.next, nested);
            assert!(again.is_ok_and(|p| Arc::ptr_eq(&p.next, &plan.next)));
        }
    }
}

/// How often each mission text is there, in any section.
fn missions(state: &MissionsState) -> HashMap<String, i64> {
    let mut out = HashMap::new();
    for e in state.entries().filter(|e| e.mission().is_some()) {
        *out.entry(e.clean().into_owned()).or_default() += 1;
    }
    out
}

/// How often each line is there that is not blank, in entries for which `which` holds.
fn lines(state: &MissionsState, which: fn(&Entry) -> bool) -> HashMap<String, i64> {
    let mut out = HashMap::new();
    for e in state.entries().filter(|e| which(e)) {
        for line in e.raw.lines().map(str::trim).filter(|l| !l.is_empty()) {
            *out.entry(line.to_owned()).or_default() += 1;
        }
    }
    out
}

fn by_ident(state: &MissionsState) -> HashMap<Ident, &Entry> {
    state.entries().map(|e| (ident(e), &**e)).collect()
}

/// Base, ours (committed first), theirs (saved by one who has seen the base), and perhaps an
/// append: three-way merges, blind saves and appends (R3 to R6, merge.md).
pub fn merge(input: &[u8]) {
    let parts = parts(input);
    let [base, ours, theirs, more @ ..] = &parts[..] else { return };
    let fresh = Missions::default().fresh();
    let Ok(b) = whole(Some(&fresh), base, &fresh) else { return };
    let b = b.next;
    let base = bytes(&b);
    let c = match whole(Some(&b), ours, &b) {
        Ok(plan) => plan.next,
        Err(refusal) => return is_refusal(&refusal, ours),
    };
    assert_eq!(bytes(&c), *ours, "merge(base, base, ours)");
    // merge(base, ours, base) and merge(base, ours, ours).
    for text in [&base[..], ours] {
        let plan = whole(Some(&b), text, &c).unwrap_or_else(|r| panic!("{r:?}"));
        assert!(Arc::ptr_eq(&plan.next, &c), "{:?}", String::from_utf8_lossy(&bytes(&plan.next)));
    }
    match whole(Some(&b), theirs, &c) {
        Ok(plan) => merged(&b, &c, theirs, &plan),
        Err(refusal) => {
            let reasons = [Reason::Empty, Reason::Invalid, Reason::LostItem, Reason::Merged];
            assert!(reasons.contains(&refusal.reason), "{refusal:?}");
            is_refusal(&refusal, theirs);
        }
    }
    if let Ok(plan) = whole(None, theirs, &c) {
        only_added(&c, &plan);
    }
    for fragment in more {
        match save(None, Written::Fragment(fragment), &c, NestedBullets::Auto) {
            Ok(plan) => appended(&c, fragment, &plan),
            Err(refusal) => {
                assert_eq!(refusal.reason, Reason::Invalid);
                is_refusal(&refusal, fragment);
            }
        }
    }
}

fn merged(b: &State, c: &State, theirs: &[u8], plan: &Plan) {
    let t = plan::believe(std::str::from_utf8(theirs).unwrap_or_default(), of(b), "");
    let (b_state, c_state, m) = (of(b), of(c), of(&plan.next));
    version_is_sound(m);
    let shown_m = String::from_utf8_lossy(&bytes(&plan.next)).into_owned();
    // A mission of the current version goes only if it was seen as it is.
    let (seen, there) = (by_ident(b_state), by_ident(m));
    for e in c_state.entries().filter(|e| e.is_item() && !there.contains_key(&ident(e))) {
        let removed = seen.get(&ident(e)).is_some_and(|s| s.same_row(e));
        assert!(removed, "{:?} is lost in {shown_m:?}", e.raw);
    }
    // By texts, as often as they are there.
    let [nb, nc, nt, nm] = [b_state, c_state, &t, m].map(missions);
    let n = |of: &HashMap<String, i64>, text: &str| of.get(text).copied().unwrap_or(0);
    let all: HashSet<&String> =
        nb.keys().chain(nc.keys()).chain(nt.keys()).chain(nm.keys()).collect();
    for text in all {
        let [nb, nc, nt, nm] = [n(&nb, text), n(&nc, text), n(&nt, text), n(&nm, text)];
        let said =
            format!("{text:?}: base {nb}, ours {nc}, theirs {nt}, merged {nm} in {shown_m:?}");
        if plan.overlaps.is_empty() {
            assert!(nm >= nc - (nb - nt).max(0), "lost of ours: {said}");
            assert!(nm >= nt - (nb - nc).max(0), "lost of theirs: {said}");
        }
        assert!(nm <= nc.max(nb) + (nt - nb).max(0), "doubled: {said}");
    }
    // Lines that mean nothing to the format stay as well.
    let layout = |e: &Entry| matches!(e.kind, Kind::Layout);
    let (lc, lb, lm) = (lines(c_state, layout), lines(b_state, |_| true), lines(m, |_| true));
    for (line, nc) in lc.iter().filter(|(line, _)| n(&lb, line) == 0) {
        assert!(n(&lm, line) >= *nc, "line {line:?} is lost in {shown_m:?}");
    }
    // What was saved and is saved again by the same writer changes nothing.
    let again = whole(Some(&plan.believed), theirs, &plan.next);
    let again = again.unwrap_or_else(|r| panic!("saved again: {r:?}"));
    let differs = || String::from_utf8_lossy(&bytes(&again.next)).into_owned();
    assert!(Arc::ptr_eq(&again.next, &plan.next), "{shown_m:?} saved again: {:?}", differs());
}

/// It can be kept, and read from its text it means the same.
fn version_is_sound(m: &MissionsState) {
    entries_are_whole(m);
    archive_reads_back(m);
    let text = String::from_utf8(m.content().to_vec()).unwrap_or_else(|e| panic!("{e}"));
    let mut parser = Parser::new(&text, 0, m.start, m.nested_items);
    let opaque: Vec<&Entry> = m.entries().filter(|e| e.opaque).map(|e| &**e).collect();
    // Where one of them begins like another one, the same lines may stand for either.
    let begins =
        |a: &&Entry| opaque.iter().any(|b| a.raw.len() < b.raw.len() && b.raw.starts_with(&*a.raw));
    if opaque.iter().any(begins) {
        return;
    }
    opaque.iter().for_each(|e| parser.knows(e));
    let read: Vec<Entry> = parser.map(|p| p.entry(0)).collect();
    let mut entries = m.entries();
    for read in &read {
        let e = entries.next().unwrap_or_else(|| panic!("{:?} is read from {text:?}", read.raw));
        let same = match (&read.kind, &e.kind) {
            // Of what stands for itself only the row says what it means.
            _ if read.opaque => true,
            // Blanks make no other text.
            (Kind::Mission(a), Kind::Mission(b)) => clean(&a.text) == clean(&b.text),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        };
        let section = read.section == e.section || matches!(e.kind, Kind::Layout);
        assert!(same && section && read.raw == e.raw, "{e:?} is read as {read:?} from {text:?}");
    }
    assert!(entries.next().is_none());
}

/// R3: a blind save adds, and touches nothing that is there.
fn only_added(c: &State, plan: &Plan) {
    let (c, m) = (of(c), of(&plan.next));
    version_is_sound(m);
    let there = by_ident(m);
    for e in c.entries().filter(|e| e.is_item()) {
        let now = there.get(&ident(e));
        assert!(
            now.is_some_and(|n| n.section == e.section && n.clean() == e.clean()),
            "{:?}",
            e.raw
        );
    }
    assert!(plan.overlaps.is_empty());
}

/// R5: an append adds its items, each once more, and touches nothing that is there.
fn appended(c: &State, fragment: &[u8], plan: &Plan) {
    only_added(c, plan);
    let text = std::str::from_utf8(fragment).unwrap_or_default();
    let own = super::insert::fragment(text, of(c).nested_items, "\n", "");
    let own = own.iter().filter(|e| e.mission().is_some()).count();
    let count = |s: &State| of(s).entries().filter(|e| e.mission().is_some()).count();
    assert_eq!(count(&plan.next), count(c) + own);
    if let [first, ..] = fragment
        && fragment.iter().all(|b| b.is_ascii_alphanumeric())
    {
        assert!(own == 1, "a bare line is no item: {first}");
    }
}

/// A text, then rows as another program leaves them (a line `STATE|TEXT` each, with `\\n` for a
/// line end and perhaps `|QUEUED|COMPLETED|SEQUENCE` behind it), then texts that are saved one
/// after the other: rows are untrusted, and each of them shows (R9).
pub fn rows(input: &[u8]) {
    thread_local! {
        static ROWS: Connection = Connection::open_in_memory()
            .and_then(|conn| {
                conn.execute_batch(include_str!("../../store/migrations/shared.sql"))?;
                Ok(conn)
            })
            .unwrap_or_else(|e| panic!("{e}"));
    }
    ROWS.with(|conn| {
        let tables = "DELETE FROM missions; DELETE FROM ci_queue; DELETE FROM ideas";
        conn.execute_batch(tables).unwrap_or_else(|e| panic!("{e}"));
        rows_in(conn, &parts(input));
    });
}

fn rows_in(conn: &Connection, parts: &[&[u8]]) {
    let [text, rows, more @ ..] = parts else { return };
    let doc = Missions::default();
    let fresh = doc.fresh();
    let Ok(plan) = whole(Some(&fresh), text, &fresh) else { return };
    let apply = |before: &State, after: &State| {
        doc.apply(conn, before, after, &CX).unwrap_or_else(|e| panic!("{e}"))
    };
    let refresh =
        |base: &State| doc.refresh(conn, base, base, &CX).unwrap_or_else(|e| panic!("{e}"));
    let base = apply(&fresh, &plan.next);
    let same = |state: &State| {
        let again = refresh(state);
        assert!(!again.changed && bytes(&again.next) == bytes(state), "{:?}", again.summary);
        again.next
    };
    let base = same(&base);
    replace_all(conn, &String::from_utf8_lossy(rows));
    let mut state = refresh(&base).next;
    rows_show(conn, &state);
    state = same(&state);
    // What is read can be saved, and changes nothing.
    let read = bytes(&state);
    let plan = whole(Some(&state), &read, &state).unwrap_or_else(|r| panic!("{r:?}"));
    assert!(Arc::ptr_eq(&plan.next, &state));
    for text in more {
        let plan = match whole(Some(&state), text, &state) {
            Ok(plan) => plan,
            Err(refusal) => {
                is_refusal(&refusal, text);
                continue;
            }
        };
        assert_eq!(bytes(&plan.next), *text);
        state = same(&apply(&state, &plan.next));
        rows_show(conn, &state);
    }
}

/// What a program does that writes all rows anew.
fn replace_all(conn: &Connection, rows: &str) {
    const INSERT: &str = "INSERT INTO missions (state, text, queued_at, completed_at, sequence)
        VALUES (?1, ?2, ?3, ?4, coalesce(?5, 0))";
    conn.execute_batch("DELETE FROM missions").unwrap_or_else(|e| panic!("{e}"));
    for row in rows.lines() {
        let mut columns = row.split('|').map(|c| c.replace("\\n", "\n").replace("\\r", "\r"));
        let state = columns.next().unwrap_or_default();
        let Some(text) = columns.next() else { continue };
        let rest: [Option<String>; 3] = std::array::from_fn(|_| columns.next());
        let [queued, completed, sequence] = rest;
        // A state that the table does not take is no row.
        let _ = conn.execute(INSERT, rusqlite::params![state, text, queued, completed, sequence]);
    }
}

/// Every row is a mission of its section, and nothing else is; pending ones in their order.
fn rows_show(conn: &Connection, state: &State) {
    let state = of(state);
    version_is_sound(state);
    let rows = super::rows::read(conn).unwrap_or_else(|e| panic!("{e}"));
    let row = |section: Section, kind: &Kind| match kind {
        // Blanks make no other text.
        Kind::Mission(m) => Some((section, clean(&m.text).into_owned())),
        _ => None,
    };
    let mut wanted: Vec<_> = rows.iter().filter_map(|r| row(r.section, &r.kind)).collect();
    let mut there: Vec<_> = state.entries().filter_map(|e| row(e.section, &e.kind)).collect();
    let queue = |all: &[(Section, String)]| -> Vec<String> {
        all.iter().filter(|(s, _)| *s == Section::Pending).map(|(_, t)| t.clone()).collect()
    };
    assert_eq!(queue(&there), queue(&wanted), "the queue");
    wanted.sort();
    there.sort();
    assert_eq!(there, wanted);
}
