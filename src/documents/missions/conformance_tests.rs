//! What every document kind must do with any input (architecture, rooms).

use proptest::prelude::*;

use super::tests::{Live, text_of};
use super::*;
use crate::documents::Written;

/// Lines that mean something, in any order.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0..40u8).prop_map(|n| format!("- task {n} of many")),
        2 => prop::sample::select(vec![
            "## Pending", "## In Progress", "## done", "## Failed", "## Notes", "## CI",
            "## Ideas", "# Missions", "", "", "", "  ", "  more", "plain", "# c", "* x",
            "- x ⏳(2026-07-01T09:00)", "- y ✅ (2026-07-01 10:00)", "### block", "```", "~~~",
            "  - nested", "- https://h/o/r/pull/7 branch:b", "  ## Done", "-", "- ", "- a\r",
        ]).prop_map(str::to_owned),
    ]
}

fn text() -> impl Strategy<Value = String> {
    (prop::collection::vec(line(), 0..30), any::<bool>()).prop_map(|(lines, end)| {
        let t = format!("## Pending\n{}", lines.join("\n"));
        if end { t + "\n" } else { t }
    })
}

/// `text` with some lines removed, doubled, swapped, added.
fn edited(text: &str, edits: &[(usize, u8, String)]) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    for (at, what, new) in edits {
        let at = at % (lines.len() + 1);
        match what % 4 {
            0 if at < lines.len() => {
                lines.remove(at);
            }
            1 if at + 1 < lines.len() => lines.swap(at, at + 1),
            2 if at < lines.len() => {
                let l = lines.remove(at);
                let to = (at * 7) % (lines.len() + 1);
                lines.insert(to, l);
            }
            _ => lines.insert(at, format!("{new}\n")),
        }
    }
    lines.concat()
}

fn edits() -> impl Strategy<Value = Vec<(usize, u8, String)>> {
    prop::collection::vec((any::<usize>(), any::<u8>(), line()), 1..4)
}

/// Kind, section and lines of all entries.
fn meaning(s: &State) -> Vec<(String, Section, String)> {
    let s = MissionsState::of(s).unwrap();
    s.entries()
        .map(|e| {
            let what = match &e.kind {
                Kind::Mission(m) => format!("m {}", m.text),
                k => format!("{:?}", std::mem::discriminant(k)),
            };
            // What stands before the first header depends on how the text began.
            let section = if e.kind == Kind::Layout { Section::Unknown } else { e.section };
            (what, section, e.raw.to_string())
        })
        .collect()
}

fn save(live: &mut Live, seen: Option<&State>, text: &str) -> bool {
    live.save(seen, Written::Whole(text.as_bytes()), false).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_give_a_plan_or_a_refusal(
        bytes in prop::collection::vec(any::<u8>(), 0..200), base in text(), blind in any::<bool>(),
    ) {
        let mut live = Live::new();
        let fresh = live.state.clone();
        save(&mut live, Some(&fresh), &base);
        let seen = (!blind).then_some(&fresh);
        let _ = live.save(seen, Written::Whole(&bytes), false);
        let _ = live.save(seen, Written::Fragment(&bytes), false);
    }

    #[test]
    fn a_save_by_one_who_has_seen_reads_back_and_means_what_it_says(
        base in text(), first in edits(), second in edits(),
    ) {
        let mut live = Live::new();
        let mut text = base;
        for edits in [first, second] {
            let seen = live.state.clone();
            if save(&mut live, Some(&seen), &text) {
                prop_assert_eq!(live.text(), text.clone());
                prop_assert_eq!(meaning(&live.state), meaning(&reread(&live.state)));
            }
            text = edited(&live.text(), &edits);
        }
    }

    #[test]
    fn a_long_text_is_read_the_same_in_part(base in prop::collection::vec(line(), 700..900), edit in edits()) {
        let mut live = Live::new();
        let base = format!("## Pending\n{}\n", base.join("\n"));
        for text in [base.clone(), edited(&base, &edit)] {
            let seen = live.state.clone();
            if save(&mut live, Some(&seen), &text) {
                prop_assert_eq!(meaning(&live.state), meaning(&reread(&live.state)));
            }
        }
    }

    #[test]
    fn merges_lose_no_mission_and_end_in_a_text_that_means_the_rows(
        base in text(), one in edits(), two in edits(), more in line(),
    ) {
        let mut live = Live::new();
        let fresh = live.state.clone();
        prop_assume!(save(&mut live, Some(&fresh), &base));
        let seen = live.state.clone();
        let now = live.state.clone();
        save(&mut live, Some(&now), &edited(&base, &one));
        live.append(&format!("- appended\n{more}\n"));
        prop_assert!(live.text().contains("- appended"));
        let _ = save(&mut live, Some(&seen), &edited(&base, &two));
        prop_assert!(live.rows().iter().any(|r| r.contains("appended")), "{}", live.text());
        let s = MissionsState::of(&live.state).unwrap();
        if s.start == Section::Preamble && !s.entries().any(|e| e.opaque) {
            prop_assert_eq!(meaning(&live.state), meaning(&reread(&live.state)));
        }
        // What was read plans nothing.
        let (now, text) = (live.state.clone(), live.text());
        prop_assert!(save(&mut live, Some(&now), &text));
        prop_assert!(Arc::ptr_eq(&now, &live.state));
    }

    #[test]
    fn foreign_changes_are_carried_over(
        base in text(), sql in prop::collection::vec((0..6u8, 0..40u8), 1..6),
    ) {
        let mut live = Live::new();
        let fresh = live.state.clone();
        prop_assume!(save(&mut live, Some(&fresh), &base));
        for (what, n) in sql {
            let pick = format!("(SELECT id FROM missions ORDER BY id LIMIT 1 OFFSET {})", n % 7);
            match what {
                0 => live.sql(&format!("DELETE FROM missions WHERE id = {pick}")),
                1 => live.sql(&format!("UPDATE missions SET state='done', completed_at='2026-07-{:02}T10:00' WHERE id = {pick}", n % 28 + 1)),
                2 => live.sql(&format!("UPDATE missions SET text='changed {n}' WHERE id = {pick}")),
                3 => live.sql(&format!("INSERT INTO missions (text, state, sequence) VALUES ('sql {n}', 'pending', {n})")),
                4 => live.sql(&format!("UPDATE missions SET sequence = {n} WHERE id = {pick}")),
                _ => live.replace_all(),
            }
            live.refresh();
            live.check();
            let shown: Vec<String> = live.rows();
            let s = MissionsState::of(&live.state).unwrap();
            let mut own: Vec<String> = s.entries()
                .filter_map(|e| Some(format!("{}:{}", e.section.state()?, e.mission()?.text)))
                .collect();
            let mut rows = shown.clone();
            own.sort();
            rows.sort();
            prop_assert_eq!(own, rows);
            let queue = |v: &[String]| v.iter().filter(|r| r.starts_with("pending")).cloned().collect::<Vec<_>>();
            let in_text: Vec<String> = s.entries()
                .filter_map(|e| Some(format!("{}:{}", e.section.state()?, e.mission()?.text)))
                .collect();
            prop_assert_eq!(queue(&in_text), queue(&shown), "{}", live.text());
        }
    }
}

/// The text parsed from its beginning.
fn reread(s: &State) -> State {
    let state = MissionsState::of(s).unwrap();
    Arc::new(plan::read(&text_of(s), state.nested_items))
}
