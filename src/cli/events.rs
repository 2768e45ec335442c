//! What has happened to the documents of a store, as `watch` prints it: saves and refused saves.

use serde_json::{Value, json};

use super::log::{self, who};
use super::output::shown;
use crate::model::Reason;
use crate::store::{RefusalRow, Revision};

/// One thing that has happened.
pub enum Event {
    /// A version was made.
    Saved(Revision),
    /// A save was refused.
    Refused(RefusalRow),
}

/// Both as one list by their times. Each stays in its own order, whatever the clock did.
pub fn in_order(revisions: Vec<Revision>, refusals: Vec<RefusalRow>) -> Vec<Event> {
    let mut refusals = refusals.into_iter().peekable();
    let mut events = Vec::new();
    for revision in revisions {
        while let Some(row) = refusals.next_if(|row| row.at < revision.at) {
            events.push(Event::Refused(row));
        }
        events.push(Event::Saved(revision));
    }
    events.extend(refusals.map(Event::Refused));
    events
}

impl Event {
    /// One line for it.
    pub fn printed(&self, as_json: bool) -> String {
        match (self, as_json) {
            (Event::Saved(revision), false) => log::printed(revision, false),
            (Event::Saved(revision), true) => saved(revision).to_string(),
            (Event::Refused(row), false) => shown(&line(row)),
            (Event::Refused(row), true) => refused(row).to_string(),
        }
    }
}

/// As `log` prints it, and what kind of event it is; the overlaps are counted.
fn saved(revision: &Revision) -> Value {
    let mut object = log::json(revision);
    object["event"] = "saved".into();
    object["overlapping"] = object["overlaps"].take();
    object["overlaps"] = revision.overlaps.len().into();
    object
}

fn refused(row: &RefusalRow) -> Value {
    json!({
        "event": if is_unchanged(row) { "unchanged" } else { "refused" },
        "document": row.view.doc().shown(),
        "file": row.view.name(),
        "at": row.at.iso(),
        "program": row.actor.program,
        "pid": row.actor.pid,
        "session": row.actor.session,
        "uid": row.actor.uid,
        "reason": row.reason,
        "line": row.line,
        "key": row.key,
        "message": row.message,
        "hint": row.hint,
        "kept_as": row.kept_as,
    })
}

/// The save was taken and has changed nothing, though its text is another one.
pub fn is_unchanged(row: &RefusalRow) -> bool {
    row.reason == Reason::Unchanged.as_str()
}

/// One line for a refused save, or one without effect, for people.
pub fn line(row: &RefusalRow) -> String {
    let (at, name, who) = (row.at.iso(), row.view.name(), who(&row.actor));
    if is_unchanged(row) {
        return format!("{at} {name}: a save by {who} has changed nothing: {}", row.message);
    }
    let place = match (row.line, &row.key) {
        (Some(line), _) => format!("line {line}: "),
        (None, Some(key)) => format!("{key}: "),
        (None, None) => String::new(),
    };
    let kept = match &row.kept_as {
        Some(file) => format!("; the text is in {file}"),
        None => "; the text could not be kept".to_owned(),
    };
    format!("refused {at} {name} by {who}: {place}{}{kept}", row.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Actor, DocId, Rev, Stamp, View};

    #[test]
    fn both_kinds_are_put_in_order_and_each_keeps_its_own() {
        let saved = |rev, at| Revision {
            rev: Rev(rev),
            doc: DocId::Config,
            at: Stamp(at),
            actor: Actor::outside(),
            base: None,
            basis: None,
            summary: String::new(),
            overlaps: Vec::new(),
            delta_bytes: 0,
        };
        let refused = |id, at| RefusalRow {
            base: None,
            resolved: false,
            id,
            at: Stamp(at),
            view: View::ConfigJson,
            actor: Actor::outside(),
            reason: "syntax".to_owned(),
            line: Some(3),
            key: None,
            message: "no value".to_owned(),
            hint: String::new(),
            kept_as: None,
        };
        // The clock was set back between revisions 2 and 3.
        let revisions = vec![saved(1, 10), saved(2, 30), saved(3, 20)];
        let events = in_order(revisions, vec![refused(1, 15), refused(2, 16), refused(3, 40)]);
        let order: Vec<i64> = events
            .iter()
            .map(|event| match event {
                Event::Saved(revision) => revision.rev.0 as i64,
                Event::Refused(row) => -row.id,
            })
            .collect();
        assert_eq!(order, [1, -1, -2, 2, 3, -3]);
        let told = events[1].printed(false);
        assert!(told.ends_with(": line 3: no value; the text could not be kept"), "{told}");
    }
}
