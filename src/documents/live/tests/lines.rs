//! A small document for tests: lines that are rows of a table.

use std::any::Any;
use std::sync::Arc;

use rusqlite::Connection;

use crate::documents::{
    Content, Context, DocState, Document, Plan, Refreshed, Save, State, Written,
};
use crate::model::{DocId, Reason, Refusal, View};
use crate::store::StoreError;

#[derive(Clone, PartialEq)]
pub(super) struct Line {
    id: Option<i64>,
    text: Arc<[u8]>,
}

pub(super) struct LinesState(Vec<Line>);

impl DocState for LinesState {
    fn view(&self, view: View) -> Option<Content> {
        (view == View::MissionsMd)
            .then(|| Content::from_chunks(self.0.iter().map(|l| l.text.clone())))
    }
    fn archive(&self) -> Content {
        Content::from_chunks(self.0.iter().map(|l| l.text.clone()))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(super) struct Lines;

fn lines_of(state: &State) -> &[Line] {
    &state.as_any().downcast_ref::<LinesState>().unwrap().0
}

fn split(text: &[u8]) -> Vec<Line> {
    text.split_inclusive(|b| *b == b'\n').map(|l| Line { id: None, text: Arc::from(l) }).collect()
}

fn state(lines: Vec<Line>) -> State {
    Arc::new(LinesState(lines))
}

/// `last` without what `from` has and `to` lacks, with what `to` has and `from` lacks.
fn carry(from: &[Line], to: &[Line], last: &[Line]) -> Vec<Line> {
    let mut gone: Vec<&Line> = from.iter().collect();
    let mut new: Vec<Line> = Vec::new();
    for line in to {
        match gone.iter().position(|g| g.text == line.text) {
            Some(at) => drop(gone.remove(at)),
            None => new.push(line.clone()),
        }
    }
    let mut out = last.to_vec();
    for g in gone {
        if let Some(at) = out.iter().position(|l| l.text == g.text) {
            out.remove(at);
        }
    }
    out.extend(new);
    // Rows that are there already are not to be made again.
    let mut ids: Vec<Line> =
        to.iter().filter(|l| !out.iter().any(|o| o.id == l.id)).cloned().collect();
    for line in out.iter_mut().filter(|l| l.id.is_none()) {
        if let Some(at) = ids.iter().position(|i| i.text == line.text) {
            line.id = ids.remove(at).id;
        }
    }
    out
}

impl Document for Lines {
    fn id(&self) -> DocId {
        DocId::Missions
    }
    fn schema(&self) -> &'static str {
        "CREATE TABLE IF NOT EXISTS ifs_lines (id INTEGER PRIMARY KEY, text BLOB NOT NULL)"
    }
    fn under_missions_lock(&self) -> bool {
        true
    }
    fn fresh(&self) -> State {
        state(Vec::new())
    }
    fn decode(&self, archive: &[u8]) -> Result<State, String> {
        Ok(state(split(archive)))
    }
    fn believe(&self, _: View, text: &[u8], _: &State, _: &Context) -> Result<State, Refusal> {
        Ok(state(split(text)))
    }
    fn refresh(
        &self,
        conn: &Connection,
        base: &State,
        last: &State,
        _: &Context,
    ) -> Result<Refreshed, StoreError> {
        let mut stmt = conn.prepare("SELECT id, CAST(text AS BLOB) FROM ifs_lines ORDER BY id")?;
        let rows: Vec<Line> = stmt
            .query_map([], |r| {
                Ok(Line { id: r.get(0)?, text: Arc::from(r.get::<_, Vec<u8>>(1)?) })
            })?
            .collect::<Result<_, _>>()?;
        let next = match Arc::ptr_eq(base, last) {
            true => rows,
            false => carry(lines_of(base), &rows, lines_of(last)),
        };
        let text = |l: &[Line]| l.iter().map(|l| l.text.clone()).collect::<Vec<_>>();
        let changed = text(&next) != text(lines_of(last));
        let summary = if changed { "rows changed".to_owned() } else { String::new() };
        Ok(Refreshed { next: state(next), changed, overlaps: Vec::new(), summary })
    }
    fn plan(&self, save: &Save<'_>, _: &Context) -> Result<Plan, Refusal> {
        let current = lines_of(save.current);
        let done = |next: State, believed: State| {
            Ok(Plan { next, believed, overlaps: Vec::new(), summary: "saved".to_owned() })
        };
        match save.written {
            Written::Removed => done(state(Vec::new()), state(Vec::new())),
            Written::Whole(text) if text.contains(&0) => {
                Err(Refusal::new(Reason::Invalid, "a NUL byte").at_line(1))
            }
            Written::Fragment(text) => {
                let next = state([current, &split(text)].concat());
                done(next.clone(), next)
            }
            Written::Whole(text) => {
                let written = split(text);
                let seen = save.seen.map(lines_of).unwrap_or_default();
                let next = carry(seen, &written, current);
                if next == current {
                    return done(save.current.clone(), state(written));
                }
                done(state(next), state(written))
            }
        }
    }
    fn carry(
        &self,
        before: &State,
        after: &State,
        rows: &State,
        _: &Context,
    ) -> Result<State, StoreError> {
        Ok(state(carry(lines_of(before), lines_of(after), lines_of(rows))))
    }
    fn apply(
        &self,
        conn: &Connection,
        before: &State,
        after: &State,
        _: &Context,
    ) -> Result<State, StoreError> {
        let mut out = lines_of(after).to_vec();
        for gone in lines_of(before).iter().filter(|l| !out.iter().any(|o| o.id == l.id)) {
            conn.execute("DELETE FROM ifs_lines WHERE id = ?1", [gone.id])?;
        }
        for line in out.iter_mut().filter(|l| l.id.is_none()) {
            conn.execute("INSERT INTO ifs_lines (text) VALUES (?1)", [&line.text[..]])?;
            line.id = Some(conn.last_insert_rowid());
        }
        Ok(state(out))
    }
}
