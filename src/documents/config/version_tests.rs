//! Tests of the version rule and of what older programs save.

use super::*;
use crate::model::Stamp;

const CX: Context = Context { now: Stamp(0) };

fn state(form: Form, text: &str) -> State {
    Arc::new(ConfigState::read(form, text).unwrap())
}

fn json(s: &State) -> String {
    String::from_utf8(s.view(View::ConfigJson).unwrap().to_vec()).unwrap()
}

fn same(s: &State, text: &str) -> bool {
    let wanted = tree::read(Form::Json, text).unwrap().value;
    ConfigState::of(s).value().is_some_and(|v| v.same(&wanted))
}

fn save_in(
    limit: Option<i64>,
    seen: Option<&State>,
    written: &str,
    current: &State,
) -> Result<Plan, Refusal> {
    let view = View::ConfigJson;
    let written = Written::Whole(written.as_bytes());
    let save = Save { view, seen, written, current, outside_since_seen: false, rows: None };
    ConfigDocument::new(None, limit).plan(&save, &CX)
}

fn save(seen: Option<&State>, written: &str, current: &State) -> State {
    save_in(None, seen, written, current).unwrap().next
}

fn order_in(limit: Option<i64>, edit: Edit, current: &State) -> Result<Plan, Refusal> {
    let order = Order { edit, expect_sha256: None, version_limit: None };
    ConfigDocument::new(None, limit).order(&order, current).map(|(plan, _)| plan)
}

/// Below, equal, above; without a limit, with one below, equal and above; by every kind of save.
#[test]
fn only_a_version_above_both_is_refused_and_the_stored_one_never_goes_down() {
    let mut refused = 0;
    for stored in [None, Some(3)] {
        for payload in [None, Some(1), Some(2), Some(3), Some(4), Some(5)] {
            for limit in [None, Some(1), Some(2), Some(3), Some(4), Some(5)] {
                let version =
                    |v: Option<i64>| v.map(|v| format!("\"version\": {v}, ")).unwrap_or_default();
                let cur = state(Form::Json, &format!("{{{}\"a\": 1}}", version(stored)));
                let old = state(Form::Json, "{\"a\": 0}");
                let text = format!("{{{}\"a\": 2}}", version(payload));
                let too_new = limit.is_some_and(|l| {
                    payload.is_some_and(|p| p > l && stored.is_none_or(|s| p > s))
                });
                let edit = Edit::Text { text: text.clone(), merge: false };
                let blind = Edit::Text { text: text.clone(), merge: true };
                let mut saves = vec![
                    save_in(limit, Some(&cur), &text, &cur),
                    save_in(limit, Some(&old), &text, &cur),
                    save_in(limit, None, &text, &cur),
                    order_in(limit, edit, &cur),
                    order_in(limit, blind, &cur),
                ];
                if let Some(p) = payload {
                    let edit = Edit::Set { key: "version".into(), json: p.to_string() };
                    saves.push(order_in(limit, edit, &cur));
                }
                for (how, plan) in saves.into_iter().enumerate() {
                    let case = format!("stored {stored:?}, {payload:?}, limit {limit:?}, {how}");
                    match plan {
                        Err(r) => {
                            assert!(too_new, "{case}: {r}");
                            assert_eq!(r.reason, Reason::Version, "{case}");
                            assert_eq!(r.key.as_deref(), Some("version"), "{case}");
                            refused += 1;
                        }
                        Ok(plan) => {
                            assert!(!too_new, "{case}");
                            let value = ConfigState::of(&plan.next).value().unwrap();
                            assert_eq!(version::of(value), stored.max(payload), "{case}");
                            let a = if how == 5 { "1" } else { "2" };
                            assert_eq!(value.entry("a").unwrap().canonical(), a, "{case}");
                        }
                    }
                }
            }
        }
    }
    assert_eq!(refused, (10 + 7) * 6, "the table is the one above");
}

#[test]
fn a_refusal_for_the_version_says_where() {
    let cur = state(Form::Json, "{\"version\": 2, \"a\": 1}");
    let r = save_in(Some(3), Some(&cur), "{\"a\": 1,\n \"version\": 4}", &cur);
    let r = r.map(|p| p.summary).unwrap_err();
    assert_eq!((r.line, r.key.as_deref()), (Some(2), Some("version")));
    assert!(r.message.contains("version 4 is newer than 3"), "{r}");
    // No spelling gets around it.
    for v in ["4.0", "1e3", "1e400", "99999999999999999999"] {
        let text = format!("{{\"version\": {v}}}");
        assert!(save_in(Some(3), Some(&cur), &text, &cur).is_err(), "{v}");
    }
}

/// In two steps neither: without the key, then with a lower one.
#[test]
fn the_key_itself_stays() {
    let cur = state(Form::Json, "{\"a\": 1, \"version\": 2, \"b\": 1}");
    for text in ["{\"a\": 1, \"b\": 1}", "{\"a\": 1, \"version\": \"x\", \"b\": 1}"] {
        assert_eq!(json(&save(Some(&cur), text, &cur)), json(&cur), "{text}");
    }
    let unset = Edit::Unset { key: "version".into() };
    let r = order_in(None, unset, &cur).map(|p| p.summary).unwrap_err();
    assert_eq!((r.reason, r.key.as_deref()), (Reason::Version, Some("version")));
}

const NEWER: &str = r#"{"version": 2, "model": "a", "ui": {"theme": "dark", "grid": {"rows": 3}},
  "tools": [{"id": "web", "on": true, "retry": {"max": 3}}, {"id": "new"}], "list": ["x", "y"]}"#;
const OLDER: &str = r#"{"version": 1, "model": "b", "ui": {"theme": "dark"},
  "tools": [{"id": "web", "on": false}], "list": ["x"]}"#;

/// It has read the newer file, and writes back the part of it that it knows.
#[test]
fn an_older_program_changes_only_what_it_changed() {
    let cur = state(Form::Json, NEWER);
    let wanted = r#"{"version": 2, "model": "b", "ui": {"theme": "dark", "grid": {"rows": 3}},
      "tools": [{"id": "web", "on": false, "retry": {"max": 3}}, {"id": "new"}], "list": ["x"]}"#;
    let next = save(Some(&cur), OLDER, &cur);
    assert!(same(&next, wanted), "{}", json(&next));
    // So does one that does not even know the key `version`.
    let next = save(Some(&cur), &OLDER.replace("\"version\": 1, ", ""), &cur);
    assert!(same(&next, wanted), "{}", json(&next));
    // And when somebody else has changed something meanwhile.
    let later = state(Form::Json, &NEWER.replace("\"rows\": 3", "\"rows\": 4, \"gap\": 1"));
    let next = save(Some(&cur), OLDER, &later);
    assert!(same(&next, &wanted.replace("\"rows\": 3", "\"rows\": 4, \"gap\": 1")));
    // What somebody else has removed meanwhile does not come back.
    let later = state(Form::Json, &NEWER.replace(", \"grid\": {\"rows\": 3}", ""));
    let next = save(Some(&cur), OLDER, &later);
    assert!(same(&next, &wanted.replace(", \"grid\": {\"rows\": 3}", "")));
    // By name and hash as well.
    let order = Order {
        edit: Edit::Text { text: OLDER.into(), merge: false },
        expect_sha256: Some(source_sha256(&cur)),
        version_limit: None,
    };
    let (plan, notes) = ConfigDocument::new(None, None).order(&order, &cur).unwrap();
    assert!(same(&plan.next, wanted));
    assert_eq!(notes.len(), 1, "it is told");
}

/// Comments and layout of a YAML source stay, wherever the older program saves.
#[test]
fn an_older_program_leaves_the_source_as_it_is() {
    let yaml = "# mine\nversion: 2\nui: # look\n  theme: dark # at night\n  rows: 3 # of cards\n";
    let cur = state(Form::Yaml, yaml);
    let next = save(Some(&cur), r#"{"version": 1, "ui": {"theme": "light"}}"#, &cur);
    let text = String::from_utf8(next.view(View::ConfigYaml).unwrap().to_vec()).unwrap();
    assert_eq!(text, yaml.replace("dark", "light"));
}

/// What an older program has written itself it knows: the second save can remove it.
#[test]
fn an_older_program_can_remove_its_own_keys() {
    let cur = state(Form::Json, NEWER);
    let plan = save_in(None, Some(&cur), OLDER, &cur).unwrap();
    let again = OLDER.replace("\"model\": \"b\", ", "");
    let next = save(Some(&plan.believed), &again, &plan.next);
    assert!(same(&next, &json(&plan.next).replace("\"model\": \"b\", ", "")), "{}", json(&next));
}

/// An editor, `jq del`, a program that passes on what it has read.
#[test]
fn whoever_keeps_the_version_can_remove() {
    let cur = state(Form::Json, NEWER);
    for (part, without) in [
        ("\"model\": \"a\", ", ""),
        (", \"grid\": {\"rows\": 3}", ""),
        (", {\"id\": \"new\"}", ""),
        (", \"retry\": {\"max\": 3}", ""),
    ] {
        let text = NEWER.replace(part, without);
        assert_eq!(json(&save(Some(&cur), &text, &cur)), text);
    }
    // A newer program, too.
    let text = NEWER.replace("\"version\": 2, \"model\": \"a\", ", "\"version\": 3, ");
    assert_eq!(json(&save(Some(&cur), &text, &cur)), text);
    // And where no version is stored, everybody is of the same age.
    let plain = state(Form::Json, "{\"a\": 1, \"b\": {\"c\": 1, \"d\": 1}}");
    assert_eq!(json(&save(Some(&plain), "{\"b\": {\"c\": 1}}", &plain)), "{\"b\": {\"c\": 1}}");
}

/// The text of an older program need not be what the schema of today asks for; what comes of it
/// has to be.
#[test]
fn an_older_payload_is_checked_with_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let d = ConfigDocument::new(Some(dir.path().into()), None);
    let schema = r#"{"required": ["ui"], "properties": {"version": {"const": 2},
        "model": {"type": "string"}, "ui": {"required": ["rows"]}}}"#;
    std::fs::write(dir.path().join("config.schema.json"), schema).unwrap();
    let cur = state(Form::Json, r#"{"version": 2, "model": "a", "ui": {"rows": 1}}"#);
    let plan = |written: &str| {
        let (view, written) = (View::ConfigJson, Written::Whole(written.as_bytes()));
        let seen = Some(&cur);
        d.plan(
            &Save { view, seen, written, current: &cur, outside_since_seen: false, rows: None },
            &CX,
        )
    };
    let next = plan(r#"{"version": 1, "model": "b"}"#).unwrap().next;
    assert!(same(&next, r#"{"version": 2, "model": "b", "ui": {"rows": 1}}"#));
    let r = plan(r#"{"version": 1, "model": 5}"#).map(|p| p.summary).unwrap_err();
    assert_eq!((r.reason, r.key.as_deref()), (Reason::Schema, Some("model")));
}

/// `restore` is the one way back, also to a lower version; a limit does not stand against
/// versions that the store has had.
#[test]
fn restore_brings_back_any_version() {
    let d = ConfigDocument::new(None, Some(1));
    let (old, cur) = (state(Form::Json, "{\"version\": 2}"), state(Form::Json, "{\"version\": 3}"));
    let plan = d.restore(View::ConfigJson, &old, &cur, &CX).unwrap();
    assert_eq!(json(&plan.next), "{\"version\": 2}");
}
