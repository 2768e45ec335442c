//! A change that somebody who holds `missions.lock` makes while earlier saves of others wait
//! for that lock (R9): it becomes rows at once, and what waits does not.

use std::sync::Arc;

use super::chunk::RowKey;
use super::entry::Entry;
use super::refresh::{Given, Refresh, items};
use super::rows::Row;
use super::tree::MissionsState;
use crate::model::Stamp;

/// `rows` with what is different between `before` and `after`, item by item. Row keys in the
/// result mean nothing; identities are those of `after`.
pub fn carry(
    before: &MissionsState,
    after: &MissionsState,
    rows: &MissionsState,
    now: Stamp,
) -> MissionsState {
    let mut own: Vec<&Arc<Entry>> = after.entries().filter(|e| e.is_item()).collect();
    // As rows are read: by section, in the order in which they are shown.
    own.sort_by_key(|e| e.section);
    let mut known = Given::new();
    let mut written = Vec::with_capacity(own.len());
    for (number, e) in (0i64..).zip(&own) {
        known.insert((e.section.table(), number), e.id);
        let key = RowKey { id: number, sequence: number };
        written.push(Row { key, section: e.section, kind: e.kind.clone() });
    }
    let ids: Vec<_> = own.iter().map(|e| super::merge::ident(e)).collect();
    let mut r = Refresh::new(written, items(before).collect(), before, rows, now);
    r.known = known;
    r.pair_by_identity(&ids);
    // All of them are looked at.
    let _done = r.carry_over();
    let next = r.finish().next;
    MissionsState { vanished: rows.vanished.clone(), ..next }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Live, text_of};
    use super::super::*;
    use crate::documents::Written;

    const TEXT: &str = "# Missions\n\n## Pending\n- alpha one\n- bravo two\n- charlie three\n\n## In Progress\n\n## Done\n\n## Failed\n";

    fn planned(live: &mut Live, current: &State, written: Written<'_>) -> State {
        let cx = live.cx();
        let save = Save {
            view: View::MissionsMd,
            seen: Some(current),
            written,
            current,
            outside_since_seen: false,
            rows: None,
        };
        live.doc.plan(&save, &cx).unwrap().next
    }

    #[test]
    fn the_holders_changes_are_rows_and_what_waits_is_not() {
        let mut live = Live::new();
        live.edit(TEXT);
        let rows = live.state.clone();
        let waits = planned(&mut live, &rows, Written::Fragment(b"- waits\n"));
        let waits = {
            let text = text_of(&waits).replace("- bravo two", "- bravo two, by hand");
            planned(&mut live, &waits, Written::Whole(text.as_bytes()))
        };
        let own = {
            let text = text_of(&waits)
                .replace("- alpha one\n", "")
                .replace("- charlie three", "- own\n- charlie three!")
                .replace("## Done\n", "## Done\n- alpha one\n");
            planned(&mut live, &waits, Written::Whole(text.as_bytes()))
        };
        let cx = live.cx();
        let carried = live.doc.carry(&waits, &own, &rows, &cx).unwrap();
        let now = live.doc.apply(&live.conn, &rows, &carried, &cx).unwrap();
        let numbers = |s: &State| {
            let s = MissionsState::of(s).unwrap();
            let mut all: Vec<(String, u64)> =
                s.entries().filter_map(|e| Some((e.mission()?.text.clone(), e.id))).collect();
            all.sort();
            all
        };
        let want = ["pending:bravo two", "pending:own", "pending:charlie three!", "done:alpha one"];
        assert_eq!(live.rows(), want);
        for (text, number) in numbers(&now) {
            let same = |(t, n): &(String, u64)| *n == number && t.starts_with(&text);
            assert!(numbers(&own).iter().any(same), "{text} keeps its number");
        }
        // And the rest when the lock is free.
        live.state = live.doc.apply(&live.conn, &now, &own, &cx).unwrap();
        live.check();
        let want = [
            "pending:bravo two, by hand",
            "pending:own",
            "pending:charlie three!",
            "pending:waits",
            "done:alpha one",
        ];
        assert_eq!(live.rows(), want);
    }
}
