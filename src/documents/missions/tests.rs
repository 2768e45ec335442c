//! The rules of merge.md and missions-format.md against rows in memory.

use std::sync::Arc;

use rusqlite::Connection;

use super::*;
use crate::documents::Written;
use crate::model::{Overlap, Stamp};

/// A store's part of the work: current version, rows, gate.
pub(super) struct Live {
    pub conn: Connection,
    pub doc: Missions,
    pub state: State,
    pub overlaps: Vec<Overlap>,
    now: i64,
}

pub(super) fn text_of(s: &State) -> String {
    String::from_utf8(s.view(View::MissionsMd).unwrap().to_vec()).unwrap()
}

impl Live {
    pub fn new() -> Live {
        Live::with(Missions::new(NestedBullets::Auto))
    }

    pub fn with(doc: Missions) -> Live {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(include_str!("../../store/migrations/shared.sql")).unwrap();
        let state = doc.fresh();
        let mut live = Live { conn, doc, state, overlaps: Vec::new(), now: 1_800_000_000 };
        live.refresh();
        live
    }

    pub fn cx(&mut self) -> Context {
        self.now += 60;
        Context { now: Stamp(self.now * 1_000_000_000) }
    }

    pub fn refresh(&mut self) -> bool {
        let cx = self.cx();
        let r = self.doc.refresh(&self.conn, &self.state, &self.state, &cx).unwrap();
        self.state = r.next;
        self.overlaps = r.overlaps;
        r.changed
    }

    pub fn save(
        &mut self,
        seen: Option<&State>,
        written: Written<'_>,
        outside: bool,
    ) -> Result<State, Refusal> {
        let cx = self.cx();
        let current = self.state.clone();
        let save = Save {
            view: View::MissionsMd,
            seen,
            written,
            current: &current,
            outside_since_seen: outside,
            rows: None,
        };
        let plan = self.doc.plan(&save, &cx)?;
        self.overlaps = plan.overlaps;
        if Arc::ptr_eq(&plan.next, &current) {
            return Ok(plan.believed);
        }
        let applied = self.doc.apply(&self.conn, &current, &plan.next, &cx).unwrap();
        assert_eq!(text_of(&applied), text_of(&plan.next));
        self.state = applied.clone();
        self.check();
        Ok(if Arc::ptr_eq(&plan.next, &plan.believed) { applied } else { plan.believed })
    }

    /// Rows and version agree: a refresh finds nothing, and the archive reads back.
    pub fn check(&mut self) {
        let before = self.state.clone();
        let met = std::mem::take(&mut self.overlaps);
        let changed = self.refresh();
        assert!(self.overlaps.is_empty());
        self.overlaps = met;
        assert_eq!(text_of(&before), text_of(&self.state));
        assert!(!changed, "rows differ from {}", text_of(&before));
        let archive = self.state.archive().to_vec();
        let again = self.doc.decode(&archive).unwrap();
        assert_eq!(text_of(&again), text_of(&self.state));
        assert_eq!(String::from_utf8(again.archive().to_vec()), String::from_utf8(archive));
    }

    pub fn whole(&mut self, seen: &State, text: &str) -> State {
        self.save(Some(seen), Written::Whole(text.as_bytes()), false).unwrap()
    }

    /// A whole save by someone who has seen the current version.
    pub fn edit(&mut self, text: &str) {
        let seen = self.state.clone();
        self.whole(&seen, text);
        assert_eq!(self.text(), text, "R6");
    }

    pub fn append(&mut self, text: &str) {
        self.save(None, Written::Fragment(text.as_bytes()), false).unwrap();
    }

    pub fn blind(&mut self, text: &str) {
        self.save(None, Written::Whole(text.as_bytes()), false).unwrap();
    }

    pub fn text(&self) -> String {
        text_of(&self.state)
    }

    pub fn sql(&mut self, sql: &str) {
        self.conn.execute_batch(sql).unwrap();
    }

    /// `state:text` in the order in which the rows are shown.
    pub fn rows(&self) -> Vec<String> {
        let rows = rows::read(&self.conn).unwrap();
        rows.into_iter()
            .filter_map(|r| match r.kind {
                Kind::Mission(m) => Some(format!("{}:{}", r.section.state()?, m.text)),
                _ => None,
            })
            .collect()
    }

    pub fn column(&self, column: &str, text: &str) -> Option<String> {
        let sql = format!("SELECT {column} FROM missions WHERE text = ?");
        self.conn.query_row(&sql, [text], |r| r.get(0)).unwrap()
    }

    pub fn no(&self, text: &str) -> u64 {
        let s = MissionsState::of(&self.state).unwrap();
        let mut found = s.entries().filter(|e| e.mission().is_some_and(|m| m.text == text));
        let first = found.next().unwrap_or_else(|| panic!("{text:?} in {}", self.text())).id;
        assert!(found.next().is_none(), "{text:?} is there twice");
        first
    }

    /// What Kōan's writer does: all rows go and come back with other ids.
    pub fn replace_all(&mut self) {
        self.sql(
            "CREATE TEMP TABLE t AS SELECT * FROM missions ORDER BY state, sequence, id;
             DELETE FROM missions;
             INSERT INTO missions (id, text, state, project, sequence, complexity, queued_at,
                 started_at, completed_at, recovery_count)
               SELECT rowid + 1000 + (SELECT count(*) FROM t), trim(text), state, project,
                 rowid, complexity, queued_at, started_at, completed_at, 0 FROM t;
             DROP TABLE t;",
        );
    }
}

fn refused(r: Result<State, Refusal>) -> Refusal {
    match r {
        Ok(s) => panic!("not refused: {}", text_of(&s)),
        Err(r) => r,
    }
}

const ABC: &str = "# Missions\n\n## Pending\n- alpha one\n- bravo two\n- charlie three\n\n\
                   ## In Progress\n\n## Done\n\n## Failed\n";

#[test]
fn a_fresh_text() {
    let live = Live::new();
    assert_eq!(live.text(), FRESH);
    assert!(live.rows().is_empty());
}

#[test]
fn appends_queue_at_the_end_of_pending() {
    let mut live = Live::new();
    live.append("- fix login\n");
    live.append("write docs\n");
    live.append("- [project:k] no newline\n  detail");
    assert_eq!(
        live.text(),
        "# Missions\n\n## Pending\n- fix login\n- write docs\n- [project:k] no newline\n  detail\n\n\
         ## In Progress\n\n## Done\n\n## Failed\n"
    );
    assert_eq!(
        live.rows(),
        ["pending:fix login", "pending:write docs", "pending:[project:k] no newline\n  detail"]
    );
    assert_eq!((live.no("fix login"), live.no("write docs")), (1, 2));
    assert!(live.column("queued_at", "fix login").is_some());
    assert_eq!(live.column("CAST(sequence AS TEXT)", "write docs").as_deref(), Some("2"));
    // Equal text again, and its own headers.
    live.append("- fix login\n## Done\n- old thing\n");
    assert_eq!(live.rows().iter().filter(|r| *r == "pending:fix login").count(), 2);
    assert!(live.rows().contains(&"done:old thing".to_owned()));
}

#[test]
fn an_append_to_a_text_without_final_newline_keeps_it_so() {
    let mut live = Live::new();
    live.edit("## Pending\r\n- a\r\n- b");
    live.append("- c\n");
    assert_eq!(live.text(), "## Pending\r\n- a\r\n- b\r\n- c");
    assert_eq!(live.rows(), ["pending:a", "pending:b", "pending:c"]);
}

#[test]
fn a_blank_append_is_nothing() {
    let mut live = Live::new();
    live.append("\n\n");
    assert_eq!(live.text(), FRESH);
}

#[test]
fn whole_saves_read_back_and_rows_follow() {
    let mut live = Live::new();
    let text = "\u{feff}intro\n\n# Missions\n\n## En attente\n\n-  a \u{23f3}(2026-7-1 9:05)\n  \
                * sub\n\n  more\n### project:k block\n- inner\n\n## Notes\n- not one\n\n## DONE\n\
                - b ✅ (2026-07-01 10:00)\n* star\n1. one\n(none)\n# comment\n";
    live.edit(text);
    assert_eq!(
        live.rows(),
        [
            "pending:a ⏳(2026-7-1 9:05)\n  * sub\n\n  more",
            "pending:### project:k block\n- inner",
            "done:b"
        ]
    );
    assert_eq!(live.column("completed_at", "b").as_deref(), Some("2026-07-01T10:00"));
    assert_eq!(live.column("project", "### project:k block\n- inner").as_deref(), Some("k"));
    // Moves, an edit, an addition.
    live.edit("## Done\n- a\n- b\n");
    assert_eq!(live.rows().len(), 2);
}

#[test]
fn moves_stamp_and_keep_the_number() {
    let mut live = Live::new();
    live.edit(ABC);
    let no = live.no("alpha one");
    live.edit(
        "# Missions\n\n## Pending\n- bravo two\n- charlie three\n\n## In Progress\n- alpha one\n\n\
         ## Done\n\n## Failed\n",
    );
    assert_eq!(live.no("alpha one"), no);
    assert!(live.column("started_at", "alpha one").is_some());
    live.edit(
        "# Missions\n\n## Pending\n- bravo two\n- charlie three\n\n## In Progress\n\n\
         ## Done\n- alpha one (commit abc)\n\n## Failed\n",
    );
    assert_eq!(live.no("alpha one (commit abc)"), no);
    assert!(live.column("started_at", "alpha one (commit abc)").is_some());
    assert!(live.column("completed_at", "alpha one (commit abc)").is_some());
    live.edit(&format!("{ABC}\n"));
    assert_eq!(live.no("alpha one"), no);
    assert_eq!(live.column("started_at", "alpha one"), None);
    assert_eq!(live.column("completed_at", "alpha one"), None);
}

#[test]
fn reorder_and_edit_in_place() {
    let mut live = Live::new();
    live.edit(ABC);
    let no = live.no("charlie three");
    live.edit(&ABC.replace(
        "- alpha one\n- bravo two\n- charlie three",
        "- charlie three\n- alpha one\n- bravo 2 two",
    ));
    assert_eq!(live.no("charlie three"), no);
    assert_eq!(live.no("bravo 2 two"), 2);
    assert_eq!(live.rows(), ["pending:charlie three", "pending:alpha one", "pending:bravo 2 two"]);
}

#[test]
fn disjoint_edits_of_two_writers_merge_in_either_order() {
    let one = ABC
        .replace("- bravo two\n", "- bravo two\n- from one\n")
        .replace("alpha one", "alpha 1 one");
    let two =
        ABC.replace("- charlie three\n", "").replace("## Done\n", "## Done\n- charlie three\n");
    let mut texts = Vec::new();
    for order in [[&one, &two], [&two, &one]] {
        let mut live = Live::new();
        live.edit(ABC);
        let seen = live.state.clone();
        for text in order {
            live.whole(&seen, text);
        }
        assert!(live.overlaps.is_empty(), "{:?}", live.overlaps);
        texts.push(live.text());
    }
    assert_eq!(texts[0], texts[1]);
    assert_eq!(
        texts[0],
        "# Missions\n\n## Pending\n- alpha 1 one\n- bravo two\n- from one\n\n\
         ## In Progress\n\n## Done\n- charlie three\n\n## Failed\n"
    );
}

#[test]
fn appends_and_a_stale_save_are_all_kept() {
    let mut live = Live::new();
    live.edit(ABC);
    let seen = live.state.clone();
    live.append("- delta\n");
    live.append("- echo\n");
    let believed = live.whole(&seen, &ABC.replace("charlie three\n", "charlie three\n- mine\n"));
    assert_eq!(
        live.rows(),
        ["alpha one", "bravo two", "charlie three", "delta", "echo", "mine"]
            .map(|t| format!("pending:{t}"))
    );
    // The writer goes on from what it wrote.
    live.whole(
        &believed,
        &ABC.replace("- bravo two\n", "").replace("charlie three\n", "charlie three\n- mine too\n"),
    );
    assert_eq!(
        live.rows(),
        ["alpha one", "charlie three", "delta", "echo", "mine too"].map(|t| format!("pending:{t}"))
    );
}

#[test]
fn a_removal_never_beats_a_change() {
    let mut live = Live::new();
    live.edit(ABC);
    let seen = live.state.clone();
    live.edit(&ABC.replace("bravo two", "bravo two, now urgent"));
    live.whole(&seen, &ABC.replace("- bravo two\n", ""));
    assert!(live.text().contains("- bravo two, now urgent\n"));
    assert_eq!(live.overlaps.len(), 1);
    // And an edit brings back what somebody removed.
    let seen = live.state.clone();
    let no = live.no("alpha one");
    live.edit(&live.text().replace("- alpha one\n", ""));
    let edited = text_of(&seen).replace("alpha one", "alpha one, better");
    live.whole(&seen, &edited);
    assert_eq!(live.no("alpha one, better"), no);
}

#[test]
fn the_later_of_two_edits_wins_and_is_recorded() {
    let mut live = Live::new();
    live.edit(ABC);
    let seen = live.state.clone();
    live.edit(&ABC.replace("alpha one", "alpha one A"));
    live.whole(&seen, &ABC.replace("alpha one", "alpha one B"));
    assert!(live.text().contains("- alpha one B\n"), "{}", live.text());
    assert_eq!(live.overlaps[0].what, "#1 text");
    assert_eq!(live.overlaps[0].earlier, "alpha one A");
    // State and text are different fields.
    let seen = live.state.clone();
    let text = live.text();
    live.edit(&text.replace("- bravo two\n", "").replace("## Done\n", "## Done\n- bravo two\n"));
    live.whole(&seen, &text.replace("bravo two", "bravo two too"));
    assert!(live.overlaps.is_empty());
    assert!(live.rows().contains(&"done:bravo two too".to_owned()), "{:?}", live.rows());
}

#[test]
fn the_same_addition_by_both_is_one() {
    let mut live = Live::new();
    live.edit(ABC);
    let seen = live.state.clone();
    live.sql("INSERT INTO missions (text, state, sequence) VALUES ('new one', 'pending', 50)");
    assert!(live.refresh());
    let text = ABC.replace("charlie three\n", "charlie three\n- new one\n- new one\n");
    live.whole(&seen, &text);
    assert_eq!(live.rows().iter().filter(|r| r.ends_with("new one")).count(), 2);
}

#[test]
fn an_item_that_is_none_any_more_is_refused() {
    for (from, to, line) in [
        ("## Pending", "## Pendng", 4),
        ("- bravo two", "* bravo two", 5),
        ("- charlie three", "2. charlie three", 6),
        ("## Pending\n", "", 3),
    ] {
        let mut live = Live::new();
        live.edit(ABC);
        let seen = live.state.clone();
        let text = ABC.replace(from, to);
        let r = refused(live.save(Some(&seen), Written::Whole(text.as_bytes()), false));
        assert_eq!((r.reason, r.line), (Reason::LostItem, Some(line)), "{to}");
        assert!(!r.hint.is_empty());
        assert_eq!(live.text(), ABC);
    }
}

#[test]
fn refusals_name_line_and_reason() {
    let mut live = Live::new();
    let seen = live.state.clone();
    for (bytes, reason, line) in [
        (&b"## Pending\n- a\xff\n"[..], Reason::Invalid, Some(2)),
        (b"## Pending\n\n- a\0b\n", Reason::Invalid, Some(3)),
        (b"", Reason::Empty, None),
        (b" \n\t\r\n", Reason::Empty, None),
        (b"\xef\xbb\xbf\n", Reason::Empty, None),
    ] {
        let r = refused(live.save(Some(&seen), Written::Whole(bytes), false));
        assert_eq!((r.reason, r.line), (reason, line));
        assert!(!r.hint.is_empty());
    }
    let r = refused(live.save(None, Written::Fragment(b"- \xff\n"), false));
    assert_eq!(r.reason, Reason::Invalid);
}

#[test]
fn blind_saves_only_add() {
    let mut live = Live::new();
    live.edit(&ABC.replace("## Done\n", "## Done\n- delta done\n"));
    live.blind(
        "# Missions\n\n## Pending\n- alpha one\n- delta done\n- new\n\n## Done\n- bravo two\n",
    );
    assert_eq!(
        live.rows(),
        [
            "pending:alpha one",
            "pending:bravo two",
            "pending:charlie three",
            "pending:new",
            "done:delta done"
        ]
    );
    live.blind("- plain\nbare\n- new\n");
    assert_eq!(live.rows()[3..6], ["pending:new", "pending:plain\nbare", "done:delta done"]);
    // On a fresh store it is the text.
    let mut live = Live::new();
    live.blind("## Pending\n<!-- mine -->\n- x");
    assert_eq!(live.text(), "## Pending\n<!-- mine -->\n- x");
}

#[test]
fn saving_what_was_read_is_nothing() {
    let mut live = Live::new();
    live.edit(ABC);
    let seen = live.state.clone();
    live.append("- more\n");
    let before = live.state.clone();
    live.whole(&seen, ABC);
    assert!(Arc::ptr_eq(&before, &live.state));
    let now = live.state.clone();
    live.whole(&now, &live.text());
    assert!(Arc::ptr_eq(&now, &live.state));
}

#[test]
fn rows_changed_by_sql_show_in_place() {
    let mut live = Live::new();
    let text = ABC.replace("## Pending\n", "## Pending\n<!-- queue -->\n");
    live.edit(&text);
    live.sql("INSERT INTO missions (text, state, sequence) VALUES ('first', 'pending', -5)");
    assert!(live.refresh());
    live.sql(
        "UPDATE missions SET state='done', completed_at='2026-07-01T10:00' WHERE text='bravo two'",
    );
    assert!(live.refresh());
    live.sql("UPDATE missions SET text='charlie 3' WHERE text='charlie three'");
    live.sql("DELETE FROM missions WHERE text='alpha one'");
    assert!(live.refresh());
    let queued = live.column("queued_at", "charlie 3").unwrap();
    let b = live.column("queued_at", "bravo two").unwrap();
    assert_eq!(
        live.text(),
        format!(
            "# Missions\n\n## Pending\n<!-- queue -->\n- first\n- charlie 3 ⏳({queued})\n\n\
             ## In Progress\n\n## Done\n- bravo two ⏳({b}) ✅ (2026-07-01 10:00)\n\n## Failed\n"
        )
    );
    assert_eq!((live.no("bravo two"), live.no("charlie 3"), live.no("first")), (2, 3, 4));
    live.check();
    live.sql("UPDATE missions SET sequence=-9 WHERE text='charlie 3'");
    assert!(live.refresh());
    assert!(live.text().contains(&format!("- charlie 3 ⏳({queued})\n- first\n")));
}

#[test]
fn numbers_survive_a_replace_all() {
    let mut live = Live::new();
    live.edit(&ABC.replace("## Done\n", "## Done\n- done a\n- done b\n"));
    let text = live.text();
    let archive = live.state.archive().to_vec();
    live.replace_all();
    assert!(!live.refresh());
    assert_eq!(live.text(), text);
    assert_eq!(live.state.archive().to_vec(), archive);
    live.edit(&text.replace("- bravo two\n", ""));
    assert_eq!(live.no("charlie three"), 3);
    // One missing for a moment comes back as itself.
    live.sql("CREATE TABLE t AS SELECT * FROM missions; DELETE FROM missions;");
    assert!(live.refresh());
    live.now -= 60;
    live.sql("INSERT INTO missions SELECT * FROM t; DROP TABLE t;");
    assert!(live.refresh());
    assert_eq!((live.no("alpha one"), live.no("charlie three")), (1, 3));
}

#[test]
fn foreign_rows_of_any_content_are_shown_and_kept() {
    let mut live = Live::new();
    live.conn.execute_batch("PRAGMA ignore_check_constraints=1").unwrap();
    for (i, odd) in [
        "a\n## Done\nb",
        "x\n\ny",
        "",
        "- dash",
        "\n\n",
        "m ⏳(2026-07-01T09:00)",
        "q\r\nr",
        "f\n```\n## Done\n",
        "### block\n\ntail",
        "a\n- b\n# c",
    ]
    .iter()
    .enumerate()
    {
        live.conn
            .execute(
                "INSERT INTO missions (text, state, sequence) VALUES (?, ?, ?)",
                rusqlite::params![odd, if i == 3 { "odd" } else { "pending" }, i as i64],
            )
            .unwrap();
        live.refresh();
        live.check();
        live.edit(&live.text().replace("# Missions", "# Missions "));
        live.edit(&live.text().replace("# Missions ", "# Missions"));
    }
    assert_eq!(live.rows().len(), 10);
    assert!(live.rows().contains(&"pending:a\n## Done\nb".to_owned()));
    assert!(
        live.text().contains("- a\n  ## Done\nb\n")
            || live.text().contains("- a\n  ## Done\n  b\n"),
        "{}",
        live.text()
    );
    live.append("- after\n");
    assert_eq!(live.rows().len(), 11);
    live.replace_all();
    live.refresh();
    assert_eq!(live.rows().len(), 11);
}

#[test]
fn an_existing_database_is_taken_over() {
    let mut live = Live::new();
    live.sql(
        "INSERT INTO missions (text, state, sequence, completed_at) VALUES
           ('p2', 'pending', 2, NULL), ('p1', 'pending', 1, NULL), ('old', 'done', 3, '2026-01-01T00:00'),
           ('new', 'done', 4, '2026-02-01T00:00'), ('f', 'failed', 9, NULL), ('i', 'in_progress', 7, NULL);
         INSERT INTO ci_queue (pr_url, branch, sequence) VALUES ('https://h/o/r/pull/7', 'b', 1);
         INSERT INTO ideas (text, sequence) VALUES ('- think', 1);",
    );
    assert!(live.refresh());
    assert_eq!(
        live.text(),
        "# Missions\n\n## CI\n- https://h/o/r/pull/7 branch:b (attempt 0/5)\n\n## Ideas\n- think\n\n\
         ## Pending\n- p1\n- p2\n\n## In Progress\n- i\n\n## Done\n- new ✅ (2026-02-01 00:00)\n\
         - old ✅ (2026-01-01 00:00)\n\n## Failed\n- f\n"
    );
    live.check();
    let text =
        live.text().replace("- think\n", "- think\n- more\n").replace("attempt 0", "attempt 1");
    live.edit(&text);
    let n: i64 = live
        .conn
        .query_row("SELECT count(*) FROM ideas WHERE text='- more'", [], |r| r.get(0))
        .unwrap();
    assert_eq!(n, 1);
}

#[test]
fn an_export_by_a_foreign_program_changes_nothing() {
    let mut live = Live::new();
    let text = "# Missions\n\nintro of mine\n\n## Pending\n<!-- c -->\n- a\n\n- b\n## Done\n- old\n- new\n";
    live.edit(text);
    let seen = live.state.clone();
    live.sql("INSERT INTO missions (text, state, sequence, queued_at) VALUES ('c', 'pending', 99, '2026-07-01T09:00')");
    assert!(live.refresh());
    let now = live.text();
    let q = live.column("queued_at", "a").unwrap();
    let export = format!(
        "# Missions\n\n## Pending\n- a ⏳({q})\n- b\n- c ⏳(2026-07-01T09:00)\n\n## In Progress\n\n## Done\n- new\n- old\n\n## Failed\n"
    );
    live.save(Some(&seen), Written::Whole(export.as_bytes()), true).unwrap();
    assert_eq!(live.text(), now);
    live.save(None, Written::Whole(export.as_bytes()), true).unwrap();
    assert_eq!(live.text(), now);
    // One more than the rows, at the edge.
    let more = export.replace("\n\n## In", "\n- d\n\n## In");
    live.save(Some(&seen), Written::Whole(more.as_bytes()), true).unwrap();
    assert_eq!(
        live.text(),
        now.replace("- c ⏳(2026-07-01T09:00)\n", "- c ⏳(2026-07-01T09:00)\n- d\n")
    );
}

#[test]
fn layout_lines_merge_by_line() {
    let mut live = Live::new();
    live.edit(ABC);
    let seen = live.state.clone();
    live.edit(&ABC.replace("# Missions\n", "# Missions\n\n<!-- theirs -->\n"));
    live.whole(
        &seen,
        &ABC.replace("## Done\n", "## Done\n<!-- mine -->\n")
            .replace("- bravo two", "# note\n- bravo two"),
    );
    assert_eq!(
        live.text(),
        "# Missions\n\n<!-- theirs -->\n\n## Pending\n- alpha one\n# note\n- bravo two\n- charlie three\n\n\
         ## In Progress\n\n## Done\n<!-- mine -->\n\n## Failed\n"
    );
}

#[test]
fn nested_bullets_follow_the_setting() {
    let text = "## Pending\n- a\n  - b\n- c\n";
    let (apart, together) = (
        ["pending:a", "pending:b", "pending:c", "pending:x", "pending:y"].as_slice(),
        ["pending:a\n  - b", "pending:c", "pending:x\n  - y"].as_slice(),
    );
    use NestedBullets::{Auto, Item, Text};
    for (setting, shared, want) in [
        (Auto, false, together),
        (Auto, true, apart),
        (Item, false, apart),
        (Item, true, apart),
        (Text, false, together),
        (Text, true, together),
    ] {
        let mut live = Live::with(Missions::new(setting));
        if shared {
            live.sql("INSERT INTO meta VALUES ('s8_synced', '2026-07-01T09:00')");
            live.refresh();
        }
        live.edit(text);
        live.append("- x\n  - y\n");
        assert_eq!(live.rows(), want, "{setting:?} {shared}");
        // What others make of the rows stands, whatever the setting; and reads back.
        live.replace_all();
        live.refresh();
        assert_eq!(live.rows(), want, "{setting:?} {shared}");
        let again = live.text();
        live.edit(&again.replace("- c", "- c, edited"));
        assert_eq!(live.rows().len(), want.len(), "{setting:?} {shared}");
        assert_eq!(NestedBullets::named(setting.name()), Some(setting));
    }
    assert_eq!(NestedBullets::named("Auto"), None);
}

#[test]
fn fences_are_opaque_only_when_closed() {
    let mut live = Live::new();
    live.edit("## Pending\n- a\n```\n## Done\n\n- no\n```\n- b\n~~~\n- c\n");
    assert_eq!(
        live.rows(),
        ["pending:a\n```\n## Done\n\n- no\n```", "pending:b\n~~~", "pending:c"]
    );
    // A line that closes the fence turns what is between into text of the item.
    live.edit("## Pending\n- a\n```\n## Done\n\n- no\n```\n- b\n~~~\n## Done\n~~~\n- c\n");
    assert_eq!(live.rows()[1..], ["pending:b\n~~~\n## Done\n~~~", "pending:c"]);
}

#[test]
fn belief_keeps_identities_and_gives_out_no_numbers() {
    let mut live = Live::new();
    live.edit(ABC);
    let cx = live.cx();
    let text = ABC.replace("- bravo two\n", "- lost line\n");
    let belief = live.doc.believe(View::MissionsMd, text.as_bytes(), &live.state, &cx).unwrap();
    assert_eq!(text_of(&belief), text);
    live.append("- next\n");
    assert_eq!(live.no("next"), 4);
    // It saves the lost line again unchanged: not an addition, and bravo stays.
    live.whole(&belief, &text.replace("alpha one", "alpha one!"));
    assert_eq!(
        live.rows(),
        ["alpha one!", "bravo two", "charlie three", "next"].map(|t| format!("pending:{t}"))
    );
}

#[test]
fn counts_and_layout_of_an_import() {
    let mut live = Live::new();
    live.edit("# Missions\n\nintro\n## Pending\n- a\n* b\n## Failed\n- c\n");
    let r = report(&live.state).unwrap();
    assert_eq!((r.pending, r.failed, r.done), (1, 1, 0));
    assert_eq!(r.layout, [(3, "intro".to_owned()), (6, "* b".to_owned())]);
}

#[test]
fn rows_that_wait_merge_with_those_of_others() {
    let mut live = Live::new();
    live.edit(ABC);
    let cx = live.cx();
    let (mut rows, mut shown) = (live.state.clone(), live.state.clone());
    for step in ["- ours\n", "- ours too\n"] {
        let save = Save {
            view: View::MissionsMd,
            seen: None,
            written: Written::Fragment(step.as_bytes()),
            current: &shown,
            outside_since_seen: false,
            rows: None,
        };
        shown = live.doc.plan(&save, &cx).unwrap().next;
        live.sql("INSERT INTO missions (text, state, sequence) VALUES ('theirs', 'pending', 70)");
        let next = live.doc.refresh(&live.conn, &rows, &shown, &cx).unwrap();
        assert!(next.changed);
        rows = live.doc.refresh(&live.conn, &rows, &rows, &cx).unwrap().next;
        shown = next.next;
    }
    assert_eq!(text_of(&shown).matches("theirs").count(), 2);
    live.sql("DELETE FROM missions WHERE text = 'theirs'; UPDATE missions SET text = 'alpha 1' WHERE text = 'alpha one'");
    let next = live.doc.refresh(&live.conn, &rows, &shown, &cx).unwrap();
    rows = live.doc.refresh(&live.conn, &rows, &rows, &cx).unwrap().next;
    assert!(next.overlaps.is_empty(), "{:?}", next.overlaps);
    assert!(!text_of(&next.next).contains("theirs"), "{}", text_of(&next.next));
    live.state = live.doc.apply(&live.conn, &rows, &next.next, &cx).unwrap();
    live.check();
    assert_eq!(
        live.rows(),
        ["alpha 1", "bravo two", "charlie three", "ours", "ours too"]
            .map(|t| format!("pending:{t}"))
    );
}

#[test]
fn an_append_never_closes_a_fence_of_others() {
    let mut live = Live::new();
    live.edit("## Pending\n- a\n```\n- b\n\n## Done\n- c\n");
    live.append("- d\n```\n");
    let rows = ["pending:a\n```", "pending:b", "pending:d\n```", "done:c"];
    assert_eq!(live.rows(), rows);
    // Nor does a later save of something else.
    live.edit(&live.text().replace("- c\n", "- c\n- e\n"));
    assert_eq!(live.rows()[..3], rows[..3]);
}

/// However far away it is.
#[test]
fn a_fence_far_away_is_neither_closed_nor_taken_for_the_end_of_another() {
    let many: String = (0..700).map(|n| format!("- mission {n}\n")).collect();
    let mut live = Live::new();
    live.edit(&format!("## Pending\n- a\n```\n{many}\n## Done\n- b\n"));
    live.append("- c\n```\n");
    assert_eq!(live.rows().len(), 703);
    // Later saves, of something else and of everything, are taken.
    live.edit(&live.text().replace("- b\n", "- b\n- d\n"));
    live.edit(&live.text().replace("- mission", "- the mission"));
    assert_eq!(live.rows().len(), 704);

    let mut live = Live::new();
    live.edit(&format!("## Pending\n- a\n\n## Done\n{many}- b\n```\ncode\n```\n"));
    live.append("- c\n```\n");
    live.sql("INSERT INTO missions (text, state, sequence) VALUES ('d' || char(10) || '```', 'pending', 9)");
    live.refresh();
    assert_eq!(live.rows().len(), 704);
    live.edit(&live.text().replace("- a\n", "- a\n- e\n"));
    live.edit(&live.text().replace("- mission", "- the mission"));
    assert_eq!(live.rows().len(), 705);
}

#[test]
fn a_new_row_comes_behind_the_largest_sequence_and_before_the_smallest() {
    let mut live = Live::new();
    live.edit(ABC);
    let sequence = |live: &Live, text: &str| -> i64 {
        let sql = "SELECT sequence FROM missions WHERE text = ?";
        live.conn.query_row(sql, [text], |r| r.get(0)).unwrap()
    };
    live.edit(&ABC.replace("- charlie three\n", ""));
    live.append("- delta\n");
    assert_eq!(sequence(&live, "delta"), 3);
    live.edit(&live.text().replace("- alpha one\n", ""));
    live.edit(&live.text().replace("- bravo", "- first\n- bravo"));
    assert_eq!(sequence(&live, "first"), 1);
    live.edit("# Missions\n\n## Pending\n\n## Done\n");
    live.append("- again\n");
    assert_eq!(sequence(&live, "again"), 1);

    let mut live = Live::new();
    live.edit("## Pending\n\n## Done\n- x\n- y\n- z\n");
    live.append("- last\n");
    live.edit(&live.text().replace("- last", "- first\n- last"));
    assert_eq!((sequence(&live, "last"), sequence(&live, "first")), (4, 0));
}

#[test]
fn sections_that_are_missing_are_made() {
    let mut live = Live::new();
    live.append("### project:k block\nbody\n");
    live.append("- after block\n");
    live.append("## CI\n- https://h/o/r/pull/7 branch:b (attempt 1/5)\n## Ideas\n- an idea\n");
    live.append("# a comment\n\n## Notes\nhi\n- no item\n");
    assert_eq!(
        live.text(),
        "# Missions\n\n## CI\n- https://h/o/r/pull/7 branch:b (attempt 1/5)\n\n## Ideas\n\
         - an idea\n\n## Pending\n### project:k block\nbody\n\n- after block\n# a comment\n\n\
         ## In Progress\n\n## Done\n\n## Failed\n## Notes\nhi\n- no item\n"
    );
    live.edit("## Done\n- x\n");
    live.append("- y\n");
    assert_eq!(live.text(), "## Done\n- x\n\n## Pending\n- y\n");
}

#[test]
fn a_start_by_sql_and_a_stale_edit_meet() {
    let mut live = Live::new();
    live.edit(ABC);
    let seen = live.state.clone();
    live.sql(
        "UPDATE missions SET state='in_progress', started_at='2026-07-01T09:05',
           recovery_count=2 WHERE text='alpha one'",
    );
    assert!(live.refresh());
    live.whole(
        &seen,
        &ABC.replace("alpha one", "alpha one!").replace("three\n", "three\n- four\n"),
    );
    assert!(live.overlaps.is_empty());
    assert_eq!(
        live.rows(),
        ["pending:bravo two", "pending:charlie three", "pending:four", "in_progress:alpha one!"]
    );
    let kept = live.column("started_at || recovery_count", "alpha one!");
    assert_eq!(kept.as_deref(), Some("2026-07-01T09:052"));
}

#[test]
fn a_sorted_file_is_saved_as_it_is() {
    let mut live = Live::new();
    live.edit(&ABC.replace("## Done\n", "## Done\n- zulu\n"));
    let mut lines: Vec<String> = live.text().lines().map(|l| format!("{l}\n")).collect();
    lines.sort();
    live.edit(&lines.concat());
    assert_eq!(live.rows().len(), 4);
    assert_eq!((live.no("alpha one"), live.no("zulu")), (1, 4));
}

#[test]
fn an_export_under_the_lock_does_not_undo_or_double_what_waits_for_it() {
    let mut live = Live::new();
    live.edit(ABC);
    let cx = live.cx();
    let rows = live.state.clone();
    let changed = ABC.replace("- bravo two", "- bravo two, edited");
    let save = Save {
        view: View::MissionsMd,
        seen: Some(&rows),
        written: Written::Whole(changed.as_bytes()),
        current: &rows,
        outside_since_seen: false,
        rows: None,
    };
    let waits = live.doc.plan(&save, &cx).unwrap().next;
    let export = text_of(&rows).replace("- bravo two", "- bravo two ⏳(2026-07-01T09:00)");
    for seen in [None, Some(&rows)] {
        let save = Save {
            view: View::MissionsMd,
            seen,
            written: Written::Whole(export.as_bytes()),
            current: &waits,
            outside_since_seen: true,
            rows: Some(&rows),
        };
        let plan = live.doc.plan(&save, &cx).unwrap();
        let text = text_of(&plan.next);
        assert_eq!(text.matches("- bravo").count(), 1, "{text}");
        assert!(text.contains("- bravo two, edited"), "{text}");
    }
}

/// Two writers who have seen `seen` save `first` and then `second`.
fn met(seen: &str, first: &str, second: &str) -> Live {
    let mut live = Live::new();
    live.edit(seen);
    let state = live.state.clone();
    for text in [first, second] {
        live.save(Some(&state), Written::Whole(text.as_bytes()), false).unwrap();
    }
    live
}

const TWO: &str = "## Pending\n- a\n\n## Done\n- old\n";

#[test]
fn a_header_that_is_removed_stays_while_others_need_it() {
    let moved = TWO.replace("- a\n", "").replace("## Done\n", "## Done\n- a\n");
    let live = met(TWO, &moved, "## Pending\n- a\n\n");
    assert_eq!(live.text(), "## Pending\n\n## Done\n- a\n");

    let live = met(TWO, &TWO.replace("old", "older"), "## Pending\n- a\n\n");
    assert_eq!(live.text(), "## Pending\n- a\n\n## Done\n- older\n");

    let titled = format!("# Mine\n\n{TWO}");
    let live = met(&titled, &titled.replace("- a\n", "- a\n- n\n"), "# Mine\n\n## Done\n- old\n");
    assert_eq!(live.text(), "# Mine\n\n## Pending\n- n\n## Done\n- old\n");

    let notes = format!("{TWO}\n## Notes\n- keep\n");
    let live = met(&notes, &notes.replace("- keep\n", "- keep\n- more\n"), TWO);
    assert_eq!(live.text(), format!("{TWO}\n## Notes\n- more\n"));
}

#[test]
fn a_header_that_is_removed_with_all_that_is_under_it_is_gone() {
    let live = met(TWO, &TWO.replace("- a\n", "- a\n- n\n"), "## Pending\n- a\n\n");
    assert_eq!(live.text(), "## Pending\n- a\n- n\n\n");
}

#[test]
fn a_new_header_takes_no_item_of_others_over() {
    let appended = TWO.replace("- a\n", "- a\n- n\n");
    let started = "## Pending\n\n## In Progress\n- a\n\n## Done\n- old\n";
    let live = met(TWO, &appended, started);
    assert_eq!(live.text(), "## Pending\n- n\n\n## In Progress\n- a\n\n## Done\n- old\n");

    let renamed = TWO.replace("## Pending", "## In Progress");
    let live = met(TWO, &appended, &renamed);
    assert_eq!(live.rows(), ["pending:n", "in_progress:a", "done:old"]);

    let live =
        met(TWO, &TWO.replace("- old\n", "- old\n- n\n"), &TWO.replace("Done", "Termin\u{e9}es"));
    assert_eq!(
        live.text(),
        TWO.replace("Done", "Termin\u{e9}es").replace("- old\n", "- old\n- n\n")
    );
}

#[test]
fn what_a_writer_has_only_appended_to_is_not_doubled_by_its_whole_save() {
    let mut live = Live::new();
    live.save(None, Written::Whole(b"# Missions\n\n## Pending\n- a\n\n## Done\n"), false).unwrap();
    let seen = live.save(None, Written::Fragment(b"- b\n"), false).unwrap();
    let text = "# Missions\n\n## Pending\n- b\n- c\n\n## Done\n";
    live.save(Some(&seen), Written::Whole(text.as_bytes()), false).unwrap();
    assert_eq!(text_of(&live.state), "# Missions\n\n## Pending\n- a\n- b\n- c\n\n## Done\n");
}

#[test]
fn a_merge_that_changes_nothing_makes_no_version() {
    let mut live = Live::new();
    let text = "## Pending\n- one thing\n- second matter\n";
    let seen = live.save(None, Written::Whole(text.as_bytes()), false).unwrap();
    let without = "## Pending\n- second matter\n";
    live.save(Some(&seen), Written::Whole(without.as_bytes()), false).unwrap();
    let current = live.state.clone();
    let moved = "## Pending\n- second matter\n- one thing\n";
    live.save(Some(&seen), Written::Whole(moved.as_bytes()), false).unwrap();
    assert_eq!(text_of(&live.state), without);
    assert!(Arc::ptr_eq(&live.state, &current));
}

#[test]
fn a_reorder_counts_though_another_program_has_just_added_a_row() {
    let mut live = Live::new();
    let text = "## Pending\n- one thing\n- second matter\n- last of all\n";
    let seen = live.save(None, Written::Whole(text.as_bytes()), false).unwrap();
    let sql =
        "INSERT INTO missions (text, state, sequence) VALUES ('from a program', 'pending', 9)";
    live.conn.execute(sql, []).unwrap();
    live.refresh();
    let moved = "## Pending\n- one thing\n- last of all\n- second matter\n";
    live.save(Some(&seen), Written::Whole(moved.as_bytes()), true).unwrap();
    let now = text_of(&live.state);
    let place = |line| now.find(line).unwrap();
    assert!(place("last of all") < place("second matter"), "{now}");
    assert!(now.contains("- from a program\n"), "{now}");
}

#[test]
fn what_has_come_back_as_it_was_is_what_its_writer_has_seen() {
    let mut live = Live::new();
    let text = "# Missions\n\n## Pending\n- one thing\n- second matter\n\n## Done\n";
    let seen = live.save(None, Written::Whole(text.as_bytes()), false).unwrap();
    let empty = "# Missions\n\n## Pending\n\n## Done\n";
    live.save(Some(&seen), Written::Whole(empty.as_bytes()), false).unwrap();
    let again = live.state.clone();
    live.save(Some(&again), Written::Whole(text.as_bytes()), false).unwrap();
    let edited = text.replace("- one thing\n- second matter\n", "- one thing, edited\n");
    live.save(Some(&seen), Written::Whole(edited.as_bytes()), false).unwrap();
    assert_eq!(text_of(&live.state), edited);
}

#[test]
fn a_blind_save_leaves_no_title_at_the_end() {
    let mut live = Live::new();
    live.edit(TWO);
    live.blind("# Missions\n\n## Pending\n- a\n- b\n\n# a comment\n");
    assert_eq!(live.text(), "## Pending\n- a\n- b\n# a comment\n\n## Done\n- old\n");
}

#[test]
fn appended_lines_keep_their_order_whatever_they_are() {
    for before in ["- a\n", "### a\nb\n\n", ""] {
        let mut live = Live::new();
        live.edit(&format!("## Pending\n{before}\n<!-- of what follows -->\n## Done\n- old\n"));
        for line in ["# one\n", "* two\n", "- three\n", "# four\n", "# five\n", "- six\n"] {
            live.append(line);
        }
        let text = live.text();
        let at: Vec<_> = ["one", "two", "three", "four", "five", "six"]
            .iter()
            .map(|w| text.find(w).unwrap())
            .collect();
        assert!(at.is_sorted(), "{text}");
        assert!(text.find("six") < text.find("## Done"), "{text}");
    }
}

#[test]
fn times_that_are_none_stay_in_their_columns() {
    let mut live = Live::new();
    live.edit(ABC);
    let odd = ["2026-07-01T09:00:00Z", "2026-07-01", "1751360400", ""];
    for (n, t) in odd.iter().enumerate() {
        live.sql(&format!(
            "INSERT INTO missions (text, state, sequence, queued_at)
             VALUES ('odd {n}', 'pending', {}, '{t}')",
            50 + n
        ));
    }
    live.refresh();
    let edited = live.text().replace("- odd", "- quite odd");
    live.edit(&edited);
    for (n, t) in odd.iter().enumerate() {
        assert_eq!(live.column("queued_at", &format!("quite odd {n}")).as_deref(), Some(*t));
    }
}

/// What the exporting program writes: rows as it renders them, no comments.
fn rendered(live: &Live) -> String {
    let mut out = "# Missions\n\n## CI\n\n".to_owned();
    for (state, title) in [
        ("pending", "Pending"),
        ("in_progress", "In Progress"),
        ("done", "Done"),
        ("failed", "Failed"),
    ] {
        out += &format!("## {title}\n");
        for row in live.rows() {
            if let Some(text) = row.strip_prefix(&format!("{state}:")) {
                let block = text.starts_with("### ");
                let bullet = if block { "" } else { "- " };
                out += &format!("{bullet}{text} ⏳(2026-07-01T09:00)\n");
                if block {
                    out.push('\n');
                }
            }
        }
        out.push('\n');
    }
    format!("{}\n", out.trim_end())
}

#[test]
fn an_export_under_the_lock_is_no_change_whatever_its_writer_read_before() {
    let mut live = Live::new();
    live.edit("# Missions\n\n## Pending\n# a comment\n- ed64x by editor\n- other\n\n## Done\n");
    let seen = live.state.clone();
    live.append("- ed67x by editor\n");
    live.sql("DELETE FROM missions WHERE text = 'ed64x by editor'");
    assert!(live.refresh());
    let export = rendered(&live);
    for seen in [Some(&seen), None] {
        let cx = live.cx();
        let current = live.state.clone();
        let save = Save {
            view: View::MissionsMd,
            seen,
            written: Written::Whole(export.as_bytes()),
            current: &current,
            outside_since_seen: true,
            rows: Some(&current),
        };
        let plan = live.doc.plan(&save, &cx).unwrap();
        assert!(Arc::ptr_eq(&plan.next, &current), "{}", text_of(&plan.next));
    }
    // Without the lock nothing doubles either.
    live.save(Some(&seen), Written::Whole(export.as_bytes()), true).unwrap();
    assert_eq!(live.rows(), ["pending:other", "pending:ed67x by editor"]);
    assert!(live.text().contains("# a comment\n"), "{}", live.text());
}

#[test]
fn a_save_by_the_holder_of_the_lock_who_has_seen_the_text_counts_whole() {
    let mut live = Live::new();
    live.edit("# Missions\n\n## Pending\n# a comment\n- a\n- b\n\n## Done\n");
    let cx = live.cx();
    let current = live.state.clone();
    let save = Save {
        view: View::MissionsMd,
        seen: Some(&current),
        written: Written::Whole(b"# Missions\n\n## Pending\n- b\n- a\n\n## Done\n"),
        current: &current,
        outside_since_seen: false,
        rows: Some(&current),
    };
    let plan = live.doc.plan(&save, &cx).unwrap();
    assert_eq!(text_of(&plan.next), "# Missions\n\n## Pending\n- b\n- a\n\n## Done\n");
}

#[test]
fn a_mission_that_is_given_up_with_a_tag_keeps_its_number() {
    let mut live = Live::new();
    live.edit(
        "# Missions\n\n## Pending\n- a\n\n## In Progress\n- fix it\n- fix it all\n\n## Failed\n",
    );
    let (one, two) = (live.no("fix it"), live.no("fix it all"));
    live.sql(
        "UPDATE missions SET text = text || ' [flushed]', state = 'failed' WHERE text = 'fix it'",
    );
    live.replace_all();
    assert!(live.refresh());
    assert_eq!((live.no("fix it [flushed]"), live.no("fix it all")), (one, two));
}

#[test]
fn rows_that_the_holder_read_in_the_mount_are_those_that_wait() {
    let mut live = Live::new();
    live.append("- a\n");
    let base = live.state.clone();
    // Two appends while somebody holds the lock; the holder reads after the first one.
    let read = {
        let cx = live.cx();
        let save = Save {
            view: View::MissionsMd,
            seen: None,
            written: Written::Fragment(b"- waits\n"),
            current: &base,
            outside_since_seen: false,
            rows: None,
        };
        live.doc.plan(&save, &cx).unwrap().next
    };
    let last = {
        let cx = live.cx();
        let save = Save {
            view: View::MissionsMd,
            seen: None,
            written: Written::Fragment(b"- waits\n"),
            current: &read,
            outside_since_seen: false,
            rows: None,
        };
        live.doc.plan(&save, &cx).unwrap().next
    };
    // It makes rows of what it read.
    live.replace_all();
    live.sql("INSERT INTO missions (text, state, sequence) VALUES ('waits', 'pending', 9)");
    let cx = live.cx();
    let found = live.doc.refresh_after_read(&live.conn, &base, &last, &read, &cx).unwrap();
    assert_eq!(text_of(&found.next).matches("- waits\n").count(), 2, "one read, one not");
    let rows = live.doc.refresh(&live.conn, &base, &base, &cx).unwrap();
    live.state = live.doc.apply(&live.conn, &rows.next, &found.next, &cx).unwrap();
    live.check();
    assert_eq!(live.rows(), ["pending:a", "pending:waits", "pending:waits"]);
}

#[test]
fn a_cause_that_another_program_made_text_is_not_shown_twice() {
    let mut live = Live::new();
    live.edit("# Missions\n\n## Pending\n\n## Failed\n- bad ❌ (2026-07-01 10:00) [aborted]\n");
    let no = live.no("bad");
    live.sql("UPDATE missions SET text = text || ' [aborted]'");
    live.replace_all();
    assert!(live.refresh());
    assert_eq!(live.text().matches("[aborted]").count(), 1, "{}", live.text());
    assert_eq!(live.no("bad [aborted]"), no);
}

#[test]
fn the_file_counts_as_imported_once() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(include_str!("../../store/migrations/shared.sql")).unwrap();
    let marks = || -> Vec<String> {
        let mut q = conn.prepare("SELECT key || '=' || value FROM meta").unwrap();
        q.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let doc = Missions::default();
    conn.execute_batch(doc.schema()).unwrap();
    assert_eq!(marks().len(), 1);
    assert!(marks()[0].starts_with("initialized_at=20"), "{:?}", marks());
    conn.execute("UPDATE meta SET value = '2026-07-01T09:00'", []).unwrap();
    conn.execute_batch(doc.schema()).unwrap();
    assert_eq!(marks(), ["initialized_at=2026-07-01T09:00"]);
}

/// Whoever holds the lock, has seen the current text and writes it in the form of an export.
#[test]
fn an_export_by_a_writer_that_has_seen_the_text_keeps_comments_but_not_an_edit() {
    let mut live = Live::new();
    live.edit("# Missions\n\n## CI\n\n## Pending\n- a\n# c\n- b\n\n## In Progress\n\n## Done\n\n## Failed\n");
    let written = |live: &mut Live, text: &str| {
        let cx = live.cx();
        let current = live.state.clone();
        let save = Save {
            view: View::MissionsMd,
            seen: Some(&current),
            written: Written::Whole(text.as_bytes()),
            current: &current,
            outside_since_seen: false,
            rows: Some(&current),
        };
        let plan = live.doc.plan(&save, &cx).unwrap();
        (text_of(&plan.next), text_of(&plan.believed))
    };
    let export = rendered(&live);
    let (before, reordered) = (
        live.text(),
        export.replace("- a ", "- x ").replace("- b ", "- a ").replace("- x ", "- b "),
    );
    assert_eq!(written(&mut live, &export), (before, export));
    assert_eq!(written(&mut live, &reordered), (reordered.clone(), reordered));
}

#[test]
fn markers_behind_a_block_and_behind_a_fence_are_markers() {
    let mut live = Live::new();
    let block = "### Refactor\n- step\n```\n## Done\n```";
    let text = format!(
        "# Missions\n\n## Pending\n{block} ⏳(2026-07-01T09:00)\n\n- item\n  ```\n  ## Done\n  ``` ⏳(2026-07-01T09:01)\n- after\n\n## Done\n"
    );
    live.edit(&text);
    assert_eq!(
        live.rows(),
        [
            format!("pending:{block}"),
            "pending:item\n  ```\n  ## Done\n  ```".to_owned(),
            "pending:after".to_owned()
        ]
    );
    assert_eq!(live.column("queued_at", block).as_deref(), Some("2026-07-01T09:00"));
    // Started and finished by another program, block and item show it and are read back.
    live.sql("UPDATE missions SET state = 'in_progress', started_at = '2026-07-01T10:00' WHERE text NOT LIKE 'after%'");
    assert!(live.refresh());
    let shown = live.text();
    assert!(shown.contains("``` ⏳(2026-07-01T09:00) ▶(2026-07-01T10:00)\n"), "{shown}");
    assert!(shown.contains("  ``` ⏳(2026-07-01T09:01) ▶(2026-07-01T10:00)\n"), "{shown}");
    live.check();
    let edited = shown.replace("- after", "- after that");
    live.edit(&edited);
    assert_eq!(live.rows().len(), 3, "{:?}", live.rows());
}

#[test]
fn an_export_of_rows_that_read_as_something_else_is_no_change() {
    let mut live = Live::new();
    live.edit(ABC);
    live.sql(
        "INSERT INTO missions (text, state, sequence, queued_at) VALUES
           ('header' || char(10) || '## Done' || char(10) || '- inside', 'pending', 50, '2026-07-01T09:00'),
           ('### Block' || char(10) || char(10) || '## Failed', 'done', 51, '2026-07-01T09:00')",
    );
    live.refresh();
    let before = live.text();
    let export = rendered(&live);
    assert!(export.contains("\n- header\n## Done\n- inside ⏳(2026-07-01T09:00)\n"), "{export}");
    let (rows, current) = (live.state.clone(), live.state.clone());
    for seen in [None, Some(&current)] {
        let cx = live.cx();
        let save = Save {
            view: View::MissionsMd,
            seen,
            written: Written::Whole(export.as_bytes()),
            current: &current,
            outside_since_seen: true,
            rows: Some(&rows),
        };
        let plan = live.doc.plan(&save, &cx).unwrap();
        assert!(Arc::ptr_eq(&plan.next, &current), "{}", text_of(&plan.next));
    }
    assert_eq!(live.text(), before);
}
