//! The quarantine document: `missions-quarantine.md`, a read-only view of the rows that some
//! program has set aside (missions-format section 4).

mod import;

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::Connection;

use super::{Content, Context, DocState, Document, Plan, Refreshed, Save, State, Written};
use crate::model::{DocId, Reason, Refusal, View};
use crate::store::StoreError;

pub use import::import;

const HEADING: &str = "# Quarantine\n\n";
const READ: &str = "SELECT CAST(added_at AS TEXT), CAST(source AS TEXT), CAST(reason AS TEXT), \
     CAST(text AS TEXT) FROM quarantine ORDER BY id";

/// The quarantine document.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quarantine;

struct Text(Content);

impl DocState for Text {
    fn view(&self, view: View) -> Option<Content> {
        (view == View::QuarantineMd).then(|| self.0.clone())
    }

    fn archive(&self) -> Content {
        self.0.clone()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn text(content: impl Into<Vec<u8>>) -> State {
    Arc::new(Text(Content::from(content.into())))
}

/// One visible line, whatever the column holds.
fn one_line(column: Option<Vec<u8>>) -> String {
    let bytes = column.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split(|c: char| c.is_control())
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn render(conn: &Connection) -> rusqlite::Result<String> {
    let mut out = HEADING.to_owned();
    let mut q = conn.prepare_cached(READ)?;
    let mut rows = q.query([])?;
    while let Some(row) = rows.next()? {
        let mut columns = Vec::with_capacity(4);
        for i in 0..4 {
            let bytes = row.get_ref(i)?.as_bytes_or_null().ok().flatten().map(<[u8]>::to_vec);
            columns.push(one_line(bytes));
        }
        if let [when, source, reason, text] = &columns[..] {
            out.push_str(&format!("- 🛡️ [{when}] ({source}) {reason}: {text}\n"));
        }
    }
    Ok(out)
}

/// Whether `written` has lines of the quarantine and none that `current` does not have.
fn shows(current: &[u8], written: &[u8]) -> bool {
    let lines = |text: &[u8]| -> Option<HashSet<String>> {
        let text = std::str::from_utf8(text).ok()?;
        let text = text.trim_start().strip_prefix(HEADING.trim_end()).unwrap_or(text);
        // The text of a row may be several lines there.
        let mut items = text.trim_start().split("- \u{1f6e1}");
        let nothing_above = items.next().is_some_and(|s| s.trim().is_empty());
        let one = |item: &str| item.split_whitespace().collect::<Vec<_>>().join(" ");
        nothing_above.then(|| items.map(one).collect())
    };
    match (lines(current), lines(written)) {
        (Some(current), Some(written)) => !written.is_empty() && written.is_subset(&current),
        _ => false,
    }
}

impl Document for Quarantine {
    fn id(&self) -> DocId {
        DocId::Quarantine
    }

    fn fresh(&self) -> State {
        text(HEADING)
    }

    fn decode(&self, archive: &[u8]) -> Result<State, String> {
        Ok(text(archive))
    }

    fn believe(
        &self,
        _view: View,
        written: &[u8],
        _near: &State,
        _cx: &Context,
    ) -> Result<State, Refusal> {
        Ok(text(written))
    }

    fn refresh(
        &self,
        conn: &Connection,
        _base: &State,
        last: &State,
        _cx: &Context,
    ) -> Result<Refreshed, StoreError> {
        let now = render(conn)?;
        let changed = !last.archive().equals(now.as_bytes());
        let next = if changed { text(now) } else { last.clone() };
        let summary = "set aside by another program".to_owned();
        Ok(Refreshed { next, changed, overlaps: Vec::new(), summary })
    }

    /// Read-only, but a program may put its own rendering of the rows here, as Kōan does after
    /// each row: that changes nothing.
    fn plan(&self, save: &Save<'_>, _cx: &Context) -> Result<Plan, Refusal> {
        if let Written::Whole(text) = save.written
            && shows(&save.current.archive().to_vec(), text)
        {
            let (next, believed) = (save.current.clone(), save.current.clone());
            return Ok(Plan { next, believed, overlaps: Vec::new(), summary: String::new() });
        }
        Err(Refusal::new(Reason::Invalid, "missions-quarantine.md is read-only")
            .hint("it shows what was set aside; change the missions in missions.md"))
    }

    fn apply(
        &self,
        _conn: &Connection,
        _before: &State,
        after: &State,
        _cx: &Context,
    ) -> Result<State, StoreError> {
        Ok(after.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Stamp;

    fn shown(s: &State) -> String {
        String::from_utf8(s.view(View::QuarantineMd).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn rows_show_as_lines_and_saves_are_refused() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(include_str!("../../store/migrations/shared.sql")).unwrap();
        let (doc, cx) = (Quarantine, Context { now: Stamp(0) });
        let fresh = doc.fresh();
        assert!(!doc.refresh(&conn, &fresh, &fresh, &cx).unwrap().changed);
        conn.execute_batch(
            "INSERT INTO quarantine (text, reason, source, added_at) VALUES
               ('rm -rf' || char(10) || '/', 'dangerous', 'telegram', '2026-07-01 10:00'),
               ('x', NULL, 5, NULL)",
        )
        .unwrap();
        let r = doc.refresh(&conn, &fresh, &fresh, &cx).unwrap();
        assert!(r.changed);
        assert_eq!(
            shown(&r.next),
            "# Quarantine\n\n- 🛡️ [2026-07-01 10:00] (telegram) dangerous: rm -rf /\n\
             - 🛡️ [] (5) : x\n"
        );
        assert!(!doc.refresh(&conn, &r.next, &r.next, &cx).unwrap().changed);
        let again = doc.decode(&r.next.archive().to_vec()).unwrap();
        assert_eq!(shown(&again), shown(&r.next));
        let save = Save {
            view: View::QuarantineMd,
            seen: None,
            written: crate::documents::Written::Whole(b"x"),
            current: &r.next,
            outside_since_seen: false,
            rows: None,
        };
        assert_eq!(doc.plan(&save, &cx).err().unwrap().reason, Reason::Invalid);
        // The rendering of rows by who put them there.
        let export = "- 🛡️ [2026-07-01 10:00] (telegram) dangerous: rm -rf\n/\n- 🛡️ [] (5) : x\n";
        let rendered =
            |text: &str| doc.plan(&Save { written: Written::Whole(text.as_bytes()), ..save }, &cx);
        assert!(Arc::ptr_eq(&rendered(export).unwrap().next, &r.next));
        assert!(rendered(&shown(&r.next)).is_ok());
        assert!(rendered(&export.replace("(5)", "(6)")).is_err());
        assert!(rendered(&format!("note\n{export}")).is_err());
        assert!(rendered("# Quarantine\n").is_err());
    }
}
