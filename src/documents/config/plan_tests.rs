//! Tests of saves, rows and archives.

use proptest::prelude::*;

use super::*;
use crate::model::Stamp;

const CX: Context = Context { now: Stamp(0) };
const YAML: &str = "# settings\nkoan:\n  budget: 1.0 # EUR\n  name: 'k'\ntools:\n  - id: web # W\n    on: true\n  - id: sh\n    on: false\nbig: 12345678901234567890\nlist: [a, b, c]\n";

fn doc() -> ConfigDocument {
    ConfigDocument::new(None, None)
}

fn state(form: Form, text: &str) -> State {
    Arc::new(ConfigState::read(form, text).unwrap())
}

fn text(s: &State, view: View) -> String {
    String::from_utf8(s.view(view).unwrap().to_vec()).unwrap()
}

fn yaml(s: &State) -> String {
    text(s, View::ConfigYaml)
}

fn json(s: &State) -> String {
    text(s, View::ConfigJson)
}

fn save_with(
    d: &ConfigDocument,
    view: View,
    seen: Option<&State>,
    written: Written<'_>,
    current: &State,
) -> Result<Plan, Refusal> {
    d.plan(&Save { view, seen, written, current, outside_since_seen: false, rows: None }, &CX)
}

fn whole(view: View, seen: Option<&State>, written: &str, current: &State) -> Plan {
    save_with(&doc(), view, seen, Written::Whole(written.as_bytes()), current).unwrap()
}

fn append(view: View, written: &str, current: &State) -> Result<Plan, Refusal> {
    save_with(&doc(), view, Some(current), Written::Fragment(written.as_bytes()), current)
}

fn refused(view: View, written: &[u8], current: &State) -> Refusal {
    match save_with(&doc(), view, Some(current), Written::Whole(written), current) {
        Ok(plan) => panic!("accepted as {}", plan.summary),
        Err(r) => r,
    }
}

use View::{ConfigJson as J, ConfigYaml as Y};

#[test]
fn fresh_shows_nothing_and_the_first_save_fixes_the_form() {
    let d = doc();
    let fresh = d.fresh();
    assert!(fresh.view(J).is_none() && fresh.view(Y).is_none());
    let p = whole(J, None, "{\"b\": 1,\n \"a\":1e3}", &fresh);
    assert_eq!(json(&p.next), "{\"b\": 1,\n \"a\":1e3}");
    assert_eq!(yaml(&p.next), "b: 1\na: 1.0e+3\n");
    let p = whole(Y, None, "a: 1 # c\n", &fresh);
    assert_eq!(yaml(&p.next), "a: 1 # c\n");
    assert_eq!(json(&p.next), "{\n  \"a\": 1\n}\n");
    let p = append(Y, "a: 1\n", &fresh).unwrap();
    assert_eq!(yaml(&p.next), "a: 1\n");
}

/// R6: the writer that saw the current version reads back its own bytes, from either name.
#[test]
fn reads_back_byte_for_byte() {
    let cur = state(Form::Yaml, YAML);
    let mine = "# other\nlist: [b]\nkoan: {budget: 2}\n\n\n";
    let p = whole(Y, Some(&cur), mine, &cur);
    assert_eq!(yaml(&p.next), mine);
    assert!(Arc::ptr_eq(&p.next, &p.believed));

    let mine = "{\"koan\":{\"budget\":1.0,\n\t\"name\":\"k\"}, \"x\":1e3}";
    let p = whole(J, Some(&cur), mine, &cur);
    assert_eq!(json(&p.next), mine);
    assert_eq!(yaml(&p.next), "# settings\nkoan:\n  budget: 1.0 # EUR\n  name: 'k'\nx: 1.0e+3\n");
    // A later change by somebody else touches only its own key in both.
    let q = whole(Y, Some(&p.next), &yaml(&p.next).replace("x: 1.0e+3", "x: 2"), &p.next);
    assert_eq!(json(&q.next), mine.replace("1e3", "2"));
}

/// The same with JSON as the source: YAML comments live in the text of the other name.
#[test]
fn comments_of_the_other_name() {
    let cur = state(Form::Json, "{\"a\":1,\"b\":{\"c\":[1]}}");
    let mine = "# hand-made\na: 1 # one\nb: {c: [1, 2]} # two\n";
    let p = whole(Y, Some(&cur), mine, &cur);
    assert_eq!(yaml(&p.next), mine);
    assert_eq!(json(&p.next), "{\"a\":1,\"b\":{\"c\":[1,2]}}");
    let q = whole(J, Some(&p.next), "{\"a\":7,\"b\":{\"c\":[1,2]}}", &p.next);
    assert_eq!(yaml(&q.next), mine.replace("a: 1", "a: 7"));
    let r = append(Y, "# more\nd: x # three\n", &q.next).unwrap();
    assert_eq!(yaml(&r.next), format!("{}# more\nd: x # three\n", yaml(&q.next)));
    assert_eq!(json(&r.next), "{\"a\":7,\"b\":{\"c\":[1,2]},\"d\":\"x\"}");
}

#[test]
fn equal_content_keeps_the_bytes() {
    let cur = state(Form::Yaml, YAML);
    let same =
        json(&cur).replace("1.0", "1").replace("12345678901234567890", "12345678901234567000");
    // Blind, or having seen another version: no revision.
    assert!(Arc::ptr_eq(&whole(J, None, &same, &cur).next, &cur));
    let old = state(Form::Yaml, "koan: {}\n");
    assert!(Arc::ptr_eq(&whole(J, Some(&old), &same, &cur).next, &cur));
    // What was read, saved.
    assert!(Arc::ptr_eq(&whole(J, Some(&cur), &json(&cur), &cur).next, &cur));
    assert!(Arc::ptr_eq(&whole(Y, Some(&cur), YAML, &cur).next, &cur));
    // Having seen it: its bytes in its view, the source untouched.
    let p = whole(J, Some(&cur), &same, &cur);
    assert_eq!(json(&p.next), same);
    assert_eq!(yaml(&p.next), YAML);
}

#[test]
fn blind_saves_only_set() {
    let cur = state(Form::Yaml, YAML);
    let p =
        whole(J, None, r#"{"koan":{"new":[1]},"tools":[{"id":"sh","on":true},{"id":"py"}]}"#, &cur);
    let want = YAML
        .replace("  name: 'k'\n", "  name: 'k'\n  new:\n    - 1\n")
        .replace("on: false\n", "on: true\n  - id: py\n");
    assert_eq!(yaml(&p.next), want);
}

#[test]
fn disjoint_changes_merge_with_comments_of_both() {
    let seen = state(Form::Yaml, YAML);
    let theirs = whole(J, Some(&seen), &json(&seen).replace("\"k\"", "\"z\""), &seen).next;
    let mine =
        YAML.replace("# settings", "# my settings").replace("[a, b, c]", "[a, b, c, d] # more");
    let p = whole(Y, Some(&seen), &mine, &theirs);
    assert_eq!(yaml(&p.next), mine.replace("'k'", "'z'"));
    assert!(p.overlaps.is_empty());
    assert_eq!(yaml(&p.believed), mine);
}

/// Layout that a writer changed is kept although it changed no value.
#[test]
fn comments_merge_without_values() {
    let seen = state(Form::Yaml, YAML);
    let theirs = state(Form::Yaml, &YAML.replace("1.0", "5"));
    let mine = YAML.replace("# settings", "# my settings\n# of today");
    let p = whole(Y, Some(&seen), &mine, &theirs);
    assert_eq!(yaml(&p.next), mine.replace("1.0", "5"));
    assert_eq!(yaml(&p.believed), mine);
}

/// Programs that know only doubles do not change numbers, people who edit an id do.
#[test]
fn big_numbers() {
    let cur = state(Form::Yaml, "id: 123456789012345678 # mine\n");
    for (written, stands) in [
        ("123456789012345680", "123456789012345678"),
        ("1.2345678901234568e17", "123456789012345678"),
        ("123456789012345679", "123456789012345679"),
        ("5", "5"),
    ] {
        let p = whole(J, Some(&cur), &format!("{{\"id\": {written}}}"), &cur);
        assert_eq!(yaml(&p.next), format!("id: {stands} # mine\n"));
    }
}

#[test]
fn keys_for_commands() {
    let cur = state(Form::Yaml, YAML);
    assert_eq!(get(&cur, "koan.budget").unwrap().as_deref(), Some("1.0"));
    assert_eq!(get(&cur, "tools[1]").unwrap().unwrap(), "{\n  \"id\": \"sh\",\n  \"on\": false\n}");
    assert_eq!(get(&cur, "koan.nothing").unwrap(), None);
    assert!(get(&cur, "a..b").is_err());
    let with_key = keys::with_key;
    let (form, text) = with_key(&cur, "koan.budget", Some("2.50")).unwrap().unwrap();
    assert_eq!((form, text), (Form::Yaml, YAML.replace("1.0", "2.50")));
    let (_, text) = with_key(&cur, "list[1]", Some("\"plain text\"")).unwrap().unwrap();
    assert_eq!(text, YAML.replace("[a, b, c]", "[a, plain text, c]"));
    let (_, text) = with_key(&cur, "tools[id=sh].on", Some("true")).unwrap().unwrap();
    assert_eq!(text, YAML.replace("on: false", "on: true"));
    let (_, text) = with_key(&cur, "koan.name", None).unwrap().unwrap();
    assert_eq!(text, YAML.replace("  name: 'k'\n", ""));
    assert_eq!(with_key(&cur, "koan.nothing", None).unwrap(), None);
    assert!(with_key(&cur, "big.x", Some("1")).is_err());
    assert!(with_key(&cur, "big", Some("x")).is_err());
    let (form, text) = with_key(&doc().fresh(), "a.b", Some("true")).unwrap().unwrap();
    assert_eq!((form, &*text), (Form::Json, "{\n  \"a\": {\n    \"b\": true\n  }\n}\n"));
    assert_eq!(source_bytes(&cur), YAML.as_bytes());
    assert!(source_bytes(&doc().fresh()).is_empty());
}

#[test]
fn later_wins_and_the_overlap_is_recorded() {
    let seen = state(Form::Yaml, YAML);
    let theirs = state(Form::Yaml, &YAML.replace("1.0", "5"));
    let p = whole(Y, Some(&seen), &YAML.replace("1.0", "7"), &theirs);
    assert_eq!(yaml(&p.next), YAML.replace("1.0", "7"));
    let o = &p.overlaps[0];
    assert_eq!((&*o.what, &*o.earlier, &*o.later), ("koan.budget", "5", "7"));
}

#[test]
fn a_removal_never_beats_a_change() {
    let seen = state(Form::Yaml, "a:\n  x: 1\n  y: 2\nb: 1\n");
    let changed = state(Form::Yaml, "a:\n  x: 1\n  y: 3\nb: 1\n");
    let p = whole(Y, Some(&seen), "b: 2\n", &changed);
    assert_eq!(yaml(&p.next), "a:\n  x: 1\n  y: 3\nb: 2\n");
    assert_eq!(p.overlaps.len(), 1);
    let removed = state(Form::Yaml, "b: 1\n");
    let p = whole(Y, Some(&seen), "a:\n  x: 1\n  y: 3\nb: 1\n", &removed);
    assert_eq!(yaml(&p.next), "b: 1\na:\n  x: 1\n  \"y\": 3\n");
    assert_eq!(p.overlaps.len(), 1);
    let p = whole(J, Some(&seen), "{\"b\": 1}", &seen);
    assert_eq!(yaml(&p.next), "b: 1\n");
}

#[test]
fn keys_that_were_not_seen_stay() {
    let seen = state(Form::Json, "{\"a\": {\"x\": 1}}\n");
    let cur = state(Form::Json, "{\"a\": {\"x\": 1, \"new\": 2}, \"n\": {}}\n");
    let p = whole(J, Some(&seen), "{\"a\": {\"x\": 5}}\n", &cur);
    assert_eq!(json(&p.next), "{\"a\": {\"x\": 5, \"new\": 2}, \"n\": {}}\n");
}

#[test]
fn arrays_merge_by_identity_or_like_lines() {
    let merged = |s: &str, w: &str, c: &str| {
        let at = |t: &str| state(Form::Json, &format!("{{\"l\": {t}}}"));
        json(&whole(J, Some(&at(s)), &format!("{{\"l\": {w}}}"), &at(c)).next)
    };
    assert_eq!(merged("[1, 2, 3]", "[1, 2, 3, 4]", "[0, 1, 2, 3]"), "{\"l\": [0, 1, 2, 3, 4]}");
    assert_eq!(merged("[1, 2, 3]", "[1, 3]", "[1, 2, 3, 5]"), "{\"l\": [1, 3, 5]}");
    assert_eq!(merged("[1, 2, 3]", "[1, 9, 3]", "[1, 2, 8]"), "{\"l\": [1, 9, 8]}");
    assert_eq!(
        merged(
            r#"[{"id": 1, "a": 1}, {"id": 2, "a": 1}]"#,
            r#"[{"id": 2, "a": 1}, {"id": 1, "a": 1, "b": 1}]"#,
            r#"[{"id": 1, "a": 5}, {"id": 2, "a": 1}, {"id": 3}]"#
        ),
        r#"{"l": [{"id": 2, "a": 1}, {"id": 1, "a": 5, "b": 1}, {"id": 3}]}"#
    );
    assert_eq!(
        merged(
            r#"[{"name": "x"}, {"name": "y"}]"#,
            r#"[{"name": "y"}]"#,
            r#"[{"name": "x", "v": 1}, {"name": "y"}]"#
        ),
        r#"{"l": [{"name": "x", "v": 1}, {"name": "y"}]}"#
    );
}

#[test]
fn appends_set_keys() {
    let cur = state(Form::Yaml, "a: 1 # c\nm:\n  x: 1");
    let p = append(Y, "k: v # new\n", &cur).unwrap();
    assert_eq!(yaml(&p.next), "a: 1 # c\nm:\n  x: 1\nk: v # new\n");
    let p = append(Y, "a: 2\n", &cur).unwrap();
    assert_eq!(yaml(&p.next), "a: 2 # c\nm:\n  x: 1");
    let p = append(Y, "m: {z: 2}\n", &cur).unwrap();
    assert_eq!(yaml(&p.next), "a: 1 # c\nm:\n  x: 1\n  z: 2");
    let p = append(Y, "# note\n", &cur).unwrap();
    assert_eq!(yaml(&p.next), "a: 1 # c\nm:\n  x: 1\n# note\n");
    assert_eq!(append(Y, "k: [\n", &cur).map(|p| p.summary).unwrap_err().reason, Reason::Invalid);
    assert_eq!(
        append(Y, "just text\n", &cur).map(|p| p.summary).unwrap_err().reason,
        Reason::Invalid
    );
    // The JSON view of it, and JSON as such.
    assert_eq!(
        append(J, "{\"k\": 1}\n", &cur).map(|p| p.summary).unwrap_err().reason,
        Reason::Invalid
    );
    assert_eq!(json(&append(J, "\n", &cur).unwrap().next), json(&cur) + "\n");
    let p = append(J, "{\"k\": 1}\n", &doc().fresh()).unwrap();
    assert_eq!(json(&p.next), "{\"k\": 1}\n");
}

/// R3: what its writer has read may go, by an append too.
#[test]
fn an_append_replaces_what_its_writer_has_read() {
    let cur = state(Form::Yaml, "a:\n  b: 1\nc: 2\n");
    let p = append(Y, "a: 5\n", &cur).unwrap();
    assert_eq!(yaml(&p.next), "a: 5\nc: 2\n");
    // Read before somebody else set another key.
    let seen = state(Form::Yaml, "a:\n  b: 1\n");
    let fragment = Written::Fragment(b"a: 5\n");
    let p = save_with(&doc(), Y, Some(&seen), fragment, &cur).unwrap();
    assert_eq!((yaml(&p.next), yaml(&p.believed)), ("a: 5\nc: 2\n".into(), "a: 5\n".into()));
    // Changed since.
    let seen = state(Form::Yaml, "a:\n  b: 2\nc: 2\n");
    for seen in [Some(&seen), None] {
        let r = save_with(&doc(), Y, seen, fragment, &cur).map(|p| p.summary).unwrap_err();
        assert_eq!(r.key.as_deref(), Some("a"));
    }
    // An element of a list by its name.
    let cur = state(Form::Yaml, "t:\n  - id: x\n    n: {k: 1}\n");
    let p = append(Y, "t: [{id: x, n: 5}]\n", &cur).unwrap();
    assert_eq!(yaml(&p.next), "t:\n  - id: x\n    n: 5\n");
}

#[test]
fn what_an_appender_believes() {
    let seen = state(Form::Yaml, "a: 1\n");
    let cur = state(Form::Yaml, "a: 1\nb: 2\n");
    let fragment = Written::Fragment(b"c: 3\n");
    let p = save_with(&doc(), Y, Some(&seen), fragment, &cur).unwrap();
    assert_eq!(yaml(&p.next), "a: 1\nb: 2\nc: 3\n");
    assert_eq!(yaml(&p.believed), "a: 1\nc: 3\n");
    let p = save_with(&doc(), Y, None, fragment, &cur).unwrap();
    assert_eq!(yaml(&p.believed), "c: 3\n");
}

#[test]
fn refusals_say_where() {
    let cur = state(Form::Yaml, YAML);
    for (view, bytes, reason, line, key) in [
        (J, &b"{\"a\": 1,\n\"a\": 2}"[..], Reason::Invalid, Some(2), Some("a")),
        (J, b"", Reason::Empty, None, None),
        (J, b" \n\t\r\n", Reason::Empty, None, None),
        (J, b"[1]", Reason::Invalid, Some(1), None),
        (J, b"{\"a\":\n\xff}", Reason::Invalid, Some(2), None),
        (Y, b"a: 1\n\0", Reason::Invalid, Some(2), None),
        (Y, b"# only\n\n", Reason::Empty, None, None),
        (Y, b"---\n", Reason::Empty, None, None),
        (Y, b"a: 1\nm:\n  b: 1\n  b: 2\n", Reason::Invalid, Some(4), Some("m.b")),
        (Y, b"a: 1\n---\nb: 2\n", Reason::Invalid, Some(2), None),
        (Y, b"- a\n", Reason::Invalid, Some(1), None),
        (Y, b"a: 1\n b: 2\n", Reason::Invalid, Some(2), None),
        (Y, b"a: &x [*x]\n", Reason::Invalid, Some(1), Some("a[0]")),
        (Y, b"a: 1\n? [b]\n: 1\n", Reason::Invalid, Some(2), None),
    ] {
        let r = refused(view, bytes, &cur);
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!((r.reason, r.line, r.key.as_deref()), (reason, line, key), "{shown}: {r}");
    }
    let laughs: String = (1..12)
        .map(|i| format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(", ")))
        .collect();
    let r = refused(Y, format!("a0: &a0 x\n{laughs}").as_bytes(), &cur);
    assert!(r.message.contains("too large"), "{r}");
    let r = refused(Y, format!("a: {}{}\n", "[".repeat(500), "]".repeat(500)).as_bytes(), &cur);
    assert!(r.message.contains("deep"), "{r}");
}

#[test]
fn schema_violations() {
    let dir = tempfile::tempdir().unwrap();
    let d = ConfigDocument::new(Some(dir.path().into()), None);
    let cur = state(Form::Yaml, "a: 1\n");
    let save = |text: &str| save_with(&d, Y, Some(&cur), Written::Whole(text.as_bytes()), &cur);
    assert!(save("a: x\n").is_ok());
    let schema = r##"{"type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {"a": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10},
          "s": {"type": ["string", "null"], "maxLength": 3}, "e": {"enum": ["x", 2]},
          "l": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/t"}},
          "o": {"oneOf": [{"type": "string"}, {"const": 1}]},
          "n": {"not": {"type": "string"}}, "r": {"$ref": "#/properties/r"}},
        "$defs": {"t": {"type": "object", "properties": {"k": {"type": "boolean"}}}}}"##;
    std::fs::write(dir.path().join("config.schema.json"), schema).unwrap();
    for good in
        ["a: 9.0\n", "a: 1\ns: é\ne: 2\n", "a: 2\nl: [{k: true}, {}]\no: 1\nn: 3\n", "a: 1\nr: 1\n"]
    {
        assert!(save(good).is_ok(), "{good}");
    }
    for (bad, key, line) in [
        ("a: 10\n", "a", 1),
        ("a: 0\n", "a", 1),
        ("a: 1\nb: 2\n", "b", 2),
        ("a: 1\n\ns: long\n", "s", 3),
        ("a: 1\ne: 3\n", "e", 2),
        ("a: 1\nl:\n  - k: true\n  - k: 1\n", "l[1].k", 4),
        ("a: 1\nl: [{}, {}, {}]\n", "l", 2),
        ("a: 1\no: 2\n", "o", 2),
        ("a: 1\nn: x\n", "n", 2),
    ] {
        let r = save(bad).map(|p| p.summary).unwrap_err();
        assert_eq!(
            (r.reason, r.key.as_deref(), r.line),
            (Reason::Schema, Some(key), Some(line)),
            "{bad}"
        );
    }
    assert!(save("s: x\n").map(|p| p.summary).unwrap_err().message.contains("\"a\" is missing"));
    // A blind save need not be complete.
    let p = save_with(&d, Y, None, Written::Whole(b"e: x\n"), &cur).unwrap();
    assert_eq!(yaml(&p.next), "a: 1\ne: x\n");
    // One that never ends is left off somewhere.
    let endless = r##"{"allOf": [{"$ref": "#"}, {"$ref": "#"}], "required": ["a"]}"##;
    std::fs::write(dir.path().join("config.schema.json"), endless).unwrap();
    assert!(save("a: x\n").is_ok());
    assert!(save("b: x\n").is_err());
    // A schema that cannot be read refuses nothing.
    std::fs::write(dir.path().join("config.schema.json"), "{broken").unwrap();
    assert!(save("a: x\n").is_ok());
}

#[test]
fn rows_of_other_programs() {
    let d = doc();
    let conn = Connection::open_in_memory().unwrap();
    migrate(&conn).unwrap();
    migrate(&conn).unwrap();
    let fresh = d.fresh();
    assert!(!d.refresh(&conn, &fresh, &fresh, &CX).unwrap().changed);
    let cur = state(Form::Yaml, YAML);
    d.apply(&conn, &fresh, &cur, &CX).unwrap();
    assert!(!d.refresh(&conn, &cur, &cur, &CX).unwrap().changed);
    let set = |text: &str| conn.execute("UPDATE ifs_config SET text = ?1", [text]).unwrap();
    set(&YAML.replace("1.0", "2"));
    let r = d.refresh(&conn, &cur, &cur, &CX).unwrap();
    assert!(r.changed);
    assert_eq!(yaml(&r.next), YAML.replace("1.0", "2"));
    assert_eq!(r.summary, "set koan.budget");
    // Merged with what is newer than the rows.
    let last = state(Form::Yaml, &YAML.replace("'k'", "'z'"));
    let r = d.refresh(&conn, &cur, &last, &CX).unwrap();
    assert_eq!(yaml(&r.next), YAML.replace("1.0", "2").replace("'k'", "'z'"));
    for bad in ["", "a: [", "- x"] {
        set(bad);
        let r = d.refresh(&conn, &cur, &cur, &CX).unwrap();
        assert!(!r.changed && r.summary.contains("kept out"), "{bad}");
        assert_eq!(yaml(&r.next), YAML);
    }
    conn.execute("UPDATE ifs_config SET text = x'ff00'", []).unwrap();
    assert!(!d.refresh(&conn, &cur, &cur, &CX).unwrap().changed);
    conn.execute("DELETE FROM ifs_config", []).unwrap();
    assert!(!d.refresh(&conn, &cur, &cur, &CX).unwrap().changed);
    conn.execute("INSERT INTO ifs_config VALUES(1, 'json', '{\"a\": 1}')", []).unwrap();
    let r = d.refresh(&conn, &cur, &cur, &CX).unwrap();
    assert_eq!(json(&r.next), "{\"a\": 1}");
}

#[test]
fn archives_read_back() {
    let d = doc();
    let cur = state(Form::Yaml, YAML);
    let other = whole(J, Some(&cur), &json(&cur).replace(' ', ""), &cur).next;
    for s in [d.fresh(), cur, other, state(Form::Json, "{\"é\":1}")] {
        let bytes = s.archive().to_vec();
        let again = d.decode(&bytes).unwrap();
        assert_eq!(again.archive().to_vec(), bytes);
        for v in [J, Y] {
            assert_eq!(again.view(v), s.view(v));
        }
    }
    for bad in ["", "json", "xml\n{}", "json 9\n{}", "yaml 5\na: 1\n{\"a\":2}", "yaml x\na: 1\n"] {
        assert!(d.decode(bad.as_bytes()).is_err(), "{bad}");
    }
}

/// Issue 2: every comment of a 1,000-line config survives 100 changes made through config.json.
#[test]
fn a_thousand_commented_lines_survive_a_hundred_changes() {
    let mut source = String::from("# The head\n\n");
    for i in 0..250 {
        source.push_str(&format!(
            "# about section {i}\nsection{i}:\n  # why {i}\n  value: {i} # unit {i}\n"
        ));
    }
    let mut cur = state(Form::Yaml, &source);
    for i in 0..100 {
        let old = json(&cur);
        let written = match i % 3 {
            0 => old.replace(&format!("\"value\": {}\n", i + 7), &format!("\"value\": \"v{i}\"\n")),
            1 => old.replace(
                &format!("\"value\": {}\n", i + 7),
                &format!("\"value\": {},\n    \"more\": [{i}]\n", i + 7),
            ),
            _ => old.replacen("{\n", &format!("{{\n  \"new{i}\": {{\"a\": null}},\n"), 1),
        };
        assert_ne!(old, written);
        let p = whole(J, Some(&cur), &written, &cur);
        assert_eq!(json(&p.next), written);
        cur = p.next;
    }
    let now = yaml(&cur);
    assert!(
        source
            .lines()
            .all(|l| { l.find('#').is_none_or(|at| now.lines().any(|n| n.ends_with(&l[at..]))) })
    );
    assert_eq!(now.lines().count(), source.lines().count() + 33 * 2 + 33 * 2);
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![Just("1"), Just("1e3"), Just("-0.5"), Just("12345678901234567890")]
            .prop_map(|s| Value::Num(s.into())),
        prop_oneof!["[ -~]{0,6}", "(a|é|\n|:|#|-| |'|\"){0,6}", "\\PC{0,4}", any::<String>()]
            .prop_filter("no NUL", |s| !s.contains('\0'))
            .prop_map(Value::Str),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Seq), map(inner),]
    })
}

fn map(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]|[ -~]{1,4}", inner, 0..4)
        .prop_map(|m| Value::Map(m.into_iter().collect()))
}

fn source() -> impl Strategy<Value = (Form, String)> {
    prop_oneof![
        map(value()).prop_map(|v| (Form::Json, render::document(Form::Json, &v))),
        map(value()).prop_map(|v| (Form::Yaml, render::document(Form::Yaml, &v))),
        prop::sample::select(TEXTS).prop_map(|t| (Form::Yaml, t.to_owned())),
    ]
}

const TEXTS: &[&str] = &[
    YAML,
    "a: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n  e: |\n    t\n    u\n\n# end",
    "{a: [1, {b: 2}], 'c d': \"e\", f: }\n",
    "a:\n- - 1\n  - b: 2\n    c: >\n      x\n      y\n-\n  d: 1\nb:\n",
    "\u{feff}a: 1\r\nb: !t x # é\r\n? c\r\n: - 1\r\n",
    "---\na: |+\n  x\n\n\nb: 'q'\n...\n",
    "a:\n    b:  1   # one\n\n    # two\n    c:\n        - x   # three\n        # four\n        -   y: 1\n            z: [ 1, 2 ]\n# five\nd: \"two\n  lines\" # six\ne: 'it''s\n\n  more'\n",
    "a: # one\n\n  # two\n  b: >+ # three\n    x\n\n    y\n\n  # four\n\n  c: !t |2\n     z\n  d: !u {e: 1}\n  f: !v\n    - 1\n# five\n",
    "{\n  \"a\": 1, # one\n  b: [ # two\n    x, y # three\n  ], # four\n  c: {d: {e: {}}}\n}\n# five\n",
    "a:\n- b: 1\n  c:\n  - 1\n  - 2\n- - 1\n- {x: 1}\n- |\n  t\n- \n- ~\nd: {}\ne: []\n'f': !!str 1\n",
    "? a\n: b\n? c\nd :  e\n\"f\":  # two\n  g\nh:\n\n\n  # three\n  i: 1\n\n\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn rendering_is_read_back(v in map(value())) {
        for form in [Form::Json, Form::Yaml] {
            let text = render::document(form, &v);
            let read = tree::read(form, &text).map_err(|r| r.to_string());
            prop_assert!(read.as_ref().is_ok_and(|d| d.value.same(&v)), "{text}\n{read:?}");
        }
    }

    #[test]
    fn any_value_is_reached((form, text) in source(), v in map(value())) {
        let out = edit::reach(form, &text, &v);
        let read = tree::read(form, &out).map_err(|r| r.to_string());
        prop_assert!(read.is_ok_and(|d| d.value.same(&v)), "{out}");
    }

    #[test]
    fn conformance((form, text) in source(), v in map(value()), view in prop_oneof![Just(J), Just(Y)]) {
        let d = doc();
        let cur = state(form, &text);
        // Saving what was read plans nothing, and an archive reads back.
        for view in [J, Y] {
            let bytes = cur.view(view).unwrap().to_vec();
            let p = save_with(&d, view, Some(&cur), Written::Whole(&bytes), &cur).unwrap();
            prop_assert!(Arc::ptr_eq(&p.next, &cur));
            let b = d.believe(view, &bytes, &d.fresh(), &CX).unwrap();
            prop_assert_eq!(b.view(view), cur.view(view));
        }
        // R6 in either view.
        let form = state::form_of(view).unwrap();
        let mine = render::document(form, &v);
        let p = whole(view, Some(&cur), &mine, &cur);
        if ConfigState::of(&cur).text(form) != Some(&mine) {
            prop_assert_eq!(text_of(&p.next, view), mine);
        }
        let other = ConfigState::of(&p.next).text(form.other()).unwrap().to_owned();
        prop_assert!(tree::read(form.other(), &other).unwrap().value.same(&v));
        let again = d.decode(&p.next.archive().to_vec()).unwrap();
        prop_assert_eq!(again.view(J), p.next.view(J));
        prop_assert_eq!(again.view(Y), p.next.view(Y));
    }

    #[test]
    fn disjoint_edits_commute((form, source) in source(), a in value(), b in value()) {
        let base = state(form, &source);
        let with = |k: &str, v: &Value| {
            let mut m = ConfigState::of(&base).value().unwrap().clone();
            KeyPath::default().key(k).set(&mut m, v.clone()).unwrap();
            edit::reach(form, &source, &m)
        };
        let view = if form == Form::Json { J } else { Y };
        let (x, y) = (with("mine", &a), with("theirs", &b));
        let xy = whole(view, Some(&base), &y, &whole(view, Some(&base), &x, &base).next);
        let yx = whole(view, Some(&base), &x, &whole(view, Some(&base), &y, &base).next);
        let (p, q) = (ConfigState::of(&xy.next).value().unwrap(), ConfigState::of(&yx.next).value().unwrap());
        prop_assert!(p.same(q));
        prop_assert!(xy.overlaps.is_empty() && yx.overlaps.is_empty());
    }

    /// Edits do it, without writing the text anew: every comment line that is not inside what
    /// goes survives.
    #[test]
    fn keys_are_changed_by_edits(
        text in prop::sample::select(TEXTS),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::option::of(value())),
            1..3,
        ),
    ) {
        let mut after = tree::read(Form::Yaml, text).unwrap().value;
        let mut path = KeyPath::default();
        for (at, new) in changes {
            let mut paths = vec![KeyPath::default().key("new")];
            all_paths(&after, &KeyPath::default(), &mut paths);
            path = at.get(&paths).clone();
            match new {
                Some(new) => path.set(&mut after, new).unwrap(),
                None => { path.unset(&mut after); }
            }
        }
        let out = edit::by_edits(Form::Yaml, text, &after)
            .or_else(|| text.contains('&').then(|| edit::reach(Form::Yaml, text, &after)));
        prop_assert!(out.is_some(), "{path}: {after:?}");
        let out = out.unwrap();
        for line in text.lines().filter(|l| l.starts_with('#')) {
            prop_assert!(out.contains(line), "{path}\n{out}");
        }
    }

    #[test]
    fn any_bytes_give_a_plan_or_a_refusal(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(&bytes)?;
    }

    #[test]
    fn mutated_texts_give_a_plan_or_a_refusal(
        (_, text) in source(),
        at in any::<prop::sample::Index>(),
        len in 0usize..4,
        new in "[-:{}\\[\\],&*!|>'\"#?% \n\ta1<]{0,4}",
    ) {
        let mut chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len());
        let end = (at + len).min(chars.len());
        chars.splice(at..end, new.chars());
        survives(chars.into_iter().collect::<String>().as_bytes())?;
    }
}

fn all_paths(v: &Value, at: &KeyPath, out: &mut Vec<KeyPath>) {
    match v {
        Value::Map(m) => m.iter().for_each(|(k, v)| {
            out.push(at.key(k));
            all_paths(v, &at.key(k), out);
        }),
        Value::Seq(s) => s.iter().enumerate().for_each(|(i, v)| {
            out.push(at.at(i));
            all_paths(v, &at.at(i), out);
        }),
        _ => {}
    }
}

fn text_of(s: &State, view: View) -> String {
    text(s, view)
}

fn survives(bytes: &[u8]) -> Result<(), TestCaseError> {
    let d = doc();
    let cur = state(Form::Yaml, YAML);
    for view in [J, Y] {
        for seen in [None, Some(&cur)] {
            for w in [Written::Whole(bytes), Written::Fragment(bytes)] {
                let Ok(plan) = save_with(&d, view, seen, w, &cur) else { continue };
                for v in [J, Y] {
                    let bytes = plan.next.view(v).unwrap().to_vec();
                    let read = tree::text_of(&bytes)
                        .and_then(|t| tree::read(state::form_of(v).unwrap(), t))
                        .map_err(|r| r.to_string());
                    let value = ConfigState::of(&plan.next).value().unwrap();
                    prop_assert!(read.is_ok_and(|r| r.value.same(value)));
                }
                if let (Written::Whole(b), Some(_)) = (w, seen) {
                    prop_assert!(plan.next.view(view).unwrap().equals(b));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_comment_above_a_line_that_both_changed_stays() {
    let seen = state(Form::Yaml, "a: 0\nb: 2\n");
    let now = whole(Y, Some(&seen), "# top\na: 1\nb: 2\n# end\n", &seen).next;
    let p = whole(Y, Some(&seen), "a: 1\nb: 3\nc: 4\n", &now);
    assert_eq!(yaml(&p.next), "# top\na: 1\nb: 3\n# end\nc: 4\n");
}

#[test]
fn a_comment_stays_that_came_into_lines_which_both_changed() {
    let seen = state(Form::Yaml, "a: 1\nb: 2\n 2\n");
    let now = whole(Y, Some(&seen), "# top\na: 1\n# mid\nb: 2\n# end\n", &seen).next;
    let p = whole(Y, Some(&seen), "a: 1\nb: 3\nc: 4\n", &now);
    assert_eq!(yaml(&p.next), "# top\na: 1\n# mid\nb: 3\nc: 4\n# end\n");
    // The writer's own one counts more.
    let p = whole(Y, Some(&seen), "a: 1\nb: 3\n# mine\n", &now);
    assert_eq!(yaml(&p.next), "# top\na: 1\n# mid\nb: 3\n# mine\n");
}

#[test]
fn a_number_too_large_for_json_is_a_text_there() {
    let large = format!("0x{}", "1".repeat(99));
    let read = state(Form::Yaml, &format!("a: {large}\nb: 0x10\n"));
    assert_eq!(json(&read), format!("{{\n  \"a\": \"{large}\",\n  \"b\": 16\n}}\n"));
}
