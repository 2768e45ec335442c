use super::*;
use crate::model::text::mission;

const ALL: &str = "## Pending\n- A\n- B\n- C\n\n## Done\n";

/// Letters are missions.
fn full(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("- ").and_then(|l| l.chars().next()) {
        Some(letter) => {
            let edit = &line[3..];
            format!("- {}{edit}\n", mission(letter as u32))
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn merged(seen: Option<&str>, written: &str, current: &str, next: &str) -> Result<(), String> {
    let [written, current, next] = [written, current, next].map(full);
    let seen = seen.map(|text| Seen::of(0, full(text)));
    let (written, current) = (&*written, &*current);
    Save {
        doc: Doc::Missions,
        seen: seen.as_ref(),
        written,
        current,
        between: &[],
        rows_changed: false,
    }
    .allows(&next)
}

#[test]
fn what_others_added_must_stay_and_what_the_writer_removed_must_go() {
    let written = ALL.replace("- B\n", "");
    let current = ALL.replace("- C\n", "- C\n- D\n");
    let good = "## Pending\n- A\n- C\n- D\n\n## Done\n";
    merged(Some(ALL), &written, &current, good).unwrap();
    for bad in [
        ALL,
        &written,
        &current,
        &good.replace("- D\n", "- D\n- D\n"),
        &good.replace("- A\n- C\n", "- C\n- A\n"),
    ] {
        assert!(merged(Some(ALL), &written, &current, bad).is_err(), "{bad}");
    }
}

#[test]
fn order_is_kept_beside_equal_missions_too() {
    let all = "## Pending\n- A\n- B\n- A\n- C\n";
    let written = all.replace("- C\n", "- C\n- D\n");
    let current = all.replace("- C\n", "- C\n- E\n");
    let good = "## Pending\n- A\n- B\n- A\n- C\n- E\n- D\n";
    merged(Some(all), &written, &current, good).unwrap();
    let bad = "## Pending\n- A\n- C\n- A\n- B\n- E\n- D\n";
    assert!(merged(Some(all), &written, &current, bad).is_err());
}

#[test]
fn what_was_added_beside_one_of_equal_missions_may_stand_beside_any_of_them() {
    // Somebody has put another A on top. Whether that is the one below which D was written, nobody knows.
    let (seen, written) = ("## Pending\n- B\n- A\n- C\n", "## Pending\n- B\n- A\n- D\n- C\n");
    let current = "## Pending\n- A\n- B\n- A\n- C\n";
    for good in ["## Pending\n- A\n- B\n- A\n- D\n- C\n", "## Pending\n- A\n- D\n- B\n- A\n- C\n"] {
        merged(Some(seen), written, current, good).unwrap();
    }
    // Beside another one it must stay.
    let (written, bad) =
        (seen.replace("- B\n", "- D\n- B\n"), "## Pending\n- A\n- B\n- A\n- D\n- C\n");
    assert!(merged(Some(seen), &written, current, bad).is_err());
}

#[test]
fn what_both_have_made_of_a_mission_is_there_once_or_twice() {
    let seen = "## Pending\n- A\n- B\n";
    let (written, current) = ("## Pending\n- A +1\n- B\n", "## Pending\n- A\n- A +1\n- B\n");
    for good in [written, "## Pending\n- A +1\n- A +1\n- B\n"] {
        merged(Some(seen), written, current, good).unwrap();
    }
    assert!(merged(Some(seen), written, current, "## Pending\n- B\n").is_err());
    let other = "## Pending\n- A +2\n- B\n";
    assert!(
        merged(Some(seen), other, current, other).is_err(),
        "the added one is not the writer's"
    );
}

#[test]
fn a_removal_never_beats_a_change() {
    let (removed, changed) = (ALL.replace("- B\n", ""), ALL.replace("- B\n", "- B +1\n"));
    for (written, current) in [(&removed, &changed), (&changed, &removed)] {
        merged(Some(ALL), written, current, &changed).unwrap();
        assert!(merged(Some(ALL), written, current, &removed).is_err());
    }
}

#[test]
fn the_later_wins_field_by_field() {
    let edited = ALL.replace("- B\n", "- B +1\n");
    let done = "## Pending\n- A\n- C\n\n## Done\n- B\n";
    merged(Some(ALL), &edited, done, &done.replace("- B", "- B +1")).unwrap();
    assert!(merged(Some(ALL), &edited, done, done).is_err());
    let twice = ALL.replace("- B\n", "- B +2\n");
    merged(Some(ALL), &twice, &edited, &twice).unwrap();
    assert!(merged(Some(ALL), &twice, &edited, &edited).is_err());
}

#[test]
fn who_knew_the_current_version_reads_back_every_byte() {
    let written = ALL.replace("## Done", "\n## Done");
    merged(Some(ALL), &written, ALL, &written).unwrap();
    assert!(merged(Some(ALL), &written, ALL, ALL).is_err());
    assert!(merged(Some(ALL), ALL, &written, ALL).is_err(), "who changed nothing changes nothing");
}

#[test]
fn a_blind_save_adds_and_that_is_all() {
    let written = "## Pending\n- B\n- X\n";
    merged(None, written, ALL, &ALL.replace("- C\n", "- C\n- X\n")).unwrap();
    for bad in [written, ALL, &ALL.replace("- C\n", "- C\n- B\n- X\n"), &format!("{ALL}- X\n")] {
        assert!(merged(None, written, ALL, bad).is_err(), "{bad}");
    }
}

#[test]
fn keys_merge_one_by_one() {
    let seen = Seen::of(0, r#"{"a":1,"b":{"x":1,"y":2},"c":3}"#.into());
    let current = r#"{"a":1,"b":{"x":5,"y":2},"c":4,"d":9}"#;
    let written = r#"{"a":2,"b":{"x":1}}"#;
    let save = Save {
        doc: Doc::Config,
        seen: Some(&seen),
        written,
        current,
        between: &[],
        rows_changed: false,
    };
    save.allows(r#"{"d":9,"c":4,"a":2,"b":{"x":5}}"#).unwrap();
    for bad in [written, current, r#"{"c":4,"a":2,"b":{"x":5}}"#, r#"{"d":9,"a":2,"b":{"x":5}}"#] {
        assert!(save.allows(bad).is_err(), "{bad}");
    }
    let blind = Save { seen: None, ..save };
    blind.allows(r#"{"a":2,"b":{"x":1,"y":2},"c":4,"d":9}"#).unwrap();
    assert!(blind.allows(written).is_err());
}

#[test]
fn an_append_is_at_the_end_of_pending_once() {
    let all = full(ALL);
    let line = format!("- {}\n", mission(1));
    let last = full("- C\n");
    let good = all.replace(&last, &format!("{last}{line}"));
    let check = |next: &str| appended(Doc::Missions, std::slice::from_ref(&line), &all, next);
    check(&good).unwrap();
    check(&good.replace(line.trim_end(), &format!("{} ⏳(2026-01-01T10:00)", line.trim_end())))
        .unwrap();
    let first = full("- A\n");
    for bad in [
        &all,
        &good.replace(&first, ""),
        &good.replace(&line, &line.repeat(2)),
        &format!("{all}{line}"),
        &all.replace(&first, &format!("{line}{first}")),
    ] {
        assert!(check(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_changed_row_is_shown_and_nothing_else_is_touched() {
    let all = full(ALL);
    let number = 'B' as u32;
    let gone = RowChange { number, now: None };
    gone.allows(&all, &full(&ALL.replace("- B\n", ""))).unwrap();
    assert!(gone.allows(&all, &all).is_err());
    let done = RowChange { number, now: Some((None, Some(2))) };
    let next = full("## Pending\n- A\n- C\n\n## Done\n- B\n");
    done.allows(&all, &next).unwrap();
    assert!(done.allows(&all, &next.replace("- m65", "- m65 ")).is_err());
    assert!(done.allows(&all, &all).is_err());
}
