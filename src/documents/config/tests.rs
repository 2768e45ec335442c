//! Tests of texts and edits.

use super::edit::reach;
use super::path::KeyPath;
use super::tree::{Form, read};
use super::value::Value;

fn json(text: &str) -> Value {
    read(Form::Json, text).unwrap().value
}

/// Sets keys (path, JSON) or unsets them (path, "") in a YAML text.
fn edited(form: Form, text: &str, changes: &[(&str, &str)]) -> String {
    let mut v = read(form, text).unwrap().value;
    for (path, new) in changes {
        let path = KeyPath::parse(path).unwrap();
        if new.is_empty() {
            assert!(path.unset(&mut v), "{path}");
        } else {
            path.set(&mut v, json(&format!("{{\"x\": {new}}}")).entry("x").unwrap().clone())
                .unwrap();
        }
    }
    let out = reach(form, text, &v);
    assert!(read(form, &out).unwrap().value.same(&v), "{out}");
    out
}

#[track_caller]
fn yaml(text: &str, changes: &[(&str, &str)], want: &str) {
    assert_eq!(edited(Form::Yaml, text, changes), want);
}

#[track_caller]
fn jsn(text: &str, changes: &[(&str, &str)], want: &str) {
    assert_eq!(edited(Form::Json, text, changes), want);
}

#[test]
fn scalars_keep_their_surroundings() {
    yaml("a:   1   # one\nb: 2\n", &[("a", "5")], "a:   5   # one\nb: 2\n");
    yaml("a: 'x' # c\n", &[("a", "\"it's\"")], "a: 'it''s' # c\n");
    yaml("a: \"x\" # c\n", &[("a", "\"yes\"")], "a: \"yes\" # c\n");
    yaml("a: x\n", &[("a", "\"yes\"")], "a: \"yes\"\n");
    yaml("a: x\n", &[("a", "\"y z\"")], "a: y z\n");
    yaml("a:\nb: 1\n", &[("a", "true")], "a: true\nb: 1\n");
    yaml("a: # c\nb: 1\n", &[("a", "true")], "a: true # c\nb: 1\n");
    yaml("a: &n 1\nb: 2\n", &[("a", "3")], "a: &n 3\nb: 2\n");
    yaml("a: !secret x\n", &[("a", "\"!secret z\"")], "a: !secret z\n");
    yaml("a: !secret x\n", &[("a", "1")], "a: 1\n");
    yaml("a: one\n  two # c\nb: 1\n", &[("a", "3")], "a: 3 # c\nb: 1\n");
    yaml("a:\n  one # c\nb: 1\n", &[("a", "3")], "a: 3 # c\nb: 1\n");
    yaml("? a\n: 1\n? b\n: 2\n", &[("b", "3"), ("c", "4")], "? a\n: 1\n? b\n: 3\nc: 4\n");
    yaml("\"a b\": 1 # c\n", &[("\"a b\"", "2")], "\"a b\": 2 # c\n");
    yaml("a: 1\r\nb: 2\r\n", &[("a", "3"), ("c", "4")], "a: 3\r\nb: 2\r\nc: 4\r\n");
    yaml("\u{feff}a: é\nb: ü # ö\n", &[("b", "3")], "\u{feff}a: é\nb: 3 # ö\n");
    yaml("---\na: 1\n...\n# end\n", &[("a", "2"), ("b", "3")], "---\na: 2\nb: 3\n...\n# end\n");
}

#[test]
fn block_scalars() {
    let text = "a: | # head\n  one\n  two\n\n# between\nb: 1\n";
    yaml(text, &[("a", "\"x\\ny\\n\"")], "a: | # head\n  x\n  y\n\n# between\nb: 1\n");
    yaml(text, &[("a", "7")], "a: 7 # head\n\n# between\nb: 1\n");
    yaml(text, &[("a", "\"x\\ny\"")], "a: |- # head\n  x\n  y\n\n# between\nb: 1\n");
    yaml(text, &[("a", "")], "\n# between\nb: 1\n");
    yaml("a: 1 # c\nb: 2\n", &[("a", "\"x\\ny\\n\"")], "a: | # c\n  x\n  y\nb: 2\n");
    yaml("a: |+\n  x\n\n\nb: 1\n", &[("c", "2")], "a: |+\n  x\n\n\nb: 1\nc: 2\n");
    yaml("b: 1\na: |+\n  x\n\n", &[("c", "2")], "b: 1\na: |+\n  x\n\nc: 2\n");
    yaml("m:\n  a: >-\n    x\n    y\n\n  b: 1\n", &[("m.a", "\"z\"")], "m:\n  a: z\n\n  b: 1\n");
    yaml(
        "l:\n  - |\n    x\n  - b\n",
        &[("l[0]", "\"q\\nr\\n\"")],
        "l:\n  - |\n    q\n    r\n  - b\n",
    );
    yaml("a: |\n  x", &[("b", "1")], "a: |\n  x\nb: 1");
}

#[test]
fn keys_come_and_go() {
    let text = "# top\na: 1 # one\n# about m\nm:\n  # first\n  x: 1\n  y: 2 # why\n# end\n";
    yaml(
        text,
        &[("m.x", "")],
        "# top\na: 1 # one\n# about m\nm:\n  # first\n  y: 2 # why\n# end\n",
    );
    yaml(
        text,
        &[("m.z", "{\"k\": [1]}"), ("o", "null")],
        "# top\na: 1 # one\n# about m\nm:\n  # first\n  x: 1\n  y: 2 # why\n  z:\n    k:\n      - 1\no: null\n# end\n",
    );
    yaml("m:\n  x: 1\nn: 2\n", &[("m.x", "")], "m: {}\nn: 2\n");
    yaml("m: # c\n  x: 1 # d\nn: 2\n", &[("m.x", "")], "m: {} # c\n  # d\nn: 2\n");
    yaml("m:\n  # one\n  x: 1\n# n\nn: 2\n", &[("m.x", "")], "m: {}\n  # one\n# n\nn: 2\n");
    yaml("m:\n  x: 1\n  y: 2\n", &[("m", "5")], "m: 5\n");
    yaml("m: 1 # c\nn: 2\n", &[("m", "{\"a\": 1}")], "m: # c\n  a: 1\nn: 2\n");
    yaml("m:\n  x: 1\nn: 2\n", &[("m.z", "3"), ("n", "")], "m:\n  x: 1\n  z: 3\n");
    yaml("m:\n  x: 1\n  y: 2\nn: 2\n", &[("m.y", ""), ("o", "3")], "m:\n  x: 1\nn: 2\no: 3\n");
    yaml("a: 1", &[("b", "2")], "a: 1\nb: 2");
    yaml("a: 1\n", &[("a", "")], "{}\n");
    yaml("{}\n", &[("a", "1")], "{a: 1}\n");
    yaml("a: &x\n  b: 1\n", &[("a", "{\"c\": 1}")], "a: &x\n  c: 1\n");
}

#[test]
fn block_sequences() {
    let text = "l:\n  # one\n  - a # A\n  - b # B\n  - c # C\n";
    yaml(text, &[("l[1]", "")], "l:\n  # one\n  - a # A\n  - c # C\n");
    yaml(text, &[("l[1]", "\"x\"")], "l:\n  # one\n  - a # A\n  - x # B\n  - c # C\n");
    yaml(text, &[("l[3]", "{\"k\": 1, \"j\": []}")], &format!("{text}  - k: 1\n    j: []\n"));
    yaml("l:\n- a\n- b\nm: 1\n", &[("l[2]", "3")], "l:\n- a\n- b\n- 3\nm: 1\n");
    yaml("l:\n- a: 1\n  b: 2 # c\n- a: 3\n", &[("l[0].a", "")], "l:\n- b: 2 # c\n- a: 3\n");
    yaml("l:\n- a: 1\n  b: 2 # c\n", &[("l[0].c", "4")], "l:\n- a: 1\n  b: 2 # c\n  c: 4\n");
    yaml("l:\n- - 1\n  - 2\n- x\n", &[("l[0][2]", "3")], "l:\n- - 1\n  - 2\n  - 3\n- x\n");
    yaml(
        "l: # c\n  # one\n  - a # A\n",
        &[("l", "[7, \"a\"]")],
        "l: # c\n  # one\n  - 7\n  - a # A\n",
    );
    yaml(
        "l:\n- - 1\n",
        &[("l[0]", "[{\"x\": 1, \"z\": 2}, 1]")],
        "l:\n- - x: 1\n    z: 2\n  - 1\n",
    );
    yaml("l:\n- a\n", &[("l[0]", "")], "l: []\n");
    yaml("l:\n- a\n- b\n", &[("l[0]", "{\"x\": 1, \"z\": 2}")], "l:\n- x: 1\n  z: 2\n- b\n");
    yaml("l:\n- x: 1\n  y: 2\n- b\n", &[("l[0]", "7")], "l:\n- 7\n- b\n");
    yaml("l:\n  -\n    a: 1\n  - 2\n", &[("l[0].b", "7")], "l:\n  -\n    a: 1\n    b: 7\n  - 2\n");
    yaml(
        "t:\n  - id: a # A\n    v: 1\n  - id: b # B\n    v: 2\n",
        &[("t[0]", ""), ("t[0].v", "9")],
        "t:\n  - id: b # B\n    v: 9\n",
    );
}

#[test]
fn flow_style() {
    yaml("m: {a: 1, b: [1, 2], } # c\n", &[("m.b[1]", "3")], "m: {a: 1, b: [1, 3], } # c\n");
    yaml("m: {a: 1, b: 2}\n", &[("m.c", "\"x, y\"")], "m: {a: 1, b: 2, c: \"x, y\"}\n");
    yaml("m: {a: 1, b: 2}\n", &[("m.a", "")], "m: {b: 2}\n");
    yaml("m: { a: 1, b: 2 }\n", &[("m.a", "")], "m: { b: 2 }\n");
    yaml("m: {a: 1, b: 2}\n", &[("m.a", ""), ("m.b", "")], "m: {}\n");
    yaml("m: [a, b]\n", &[("m[0]", "{\"x\": [true]}")], "m: [{x: [true]}, b]\n");
    yaml("m: {a, b: }\n", &[("m.a", "1"), ("m.b", "2")], "m: {a: 1, b: 2 }\n");
    yaml(
        "m: {\n  a: 1, # one\n  b: 2 # two\n}\n",
        &[("m.c", "3")],
        "m: {\n  a: 1, # one\n  b: 2, # two\n  c: 3\n}\n",
    );
    yaml("m: [a: 1]\n", &[("m[0].a", "2")], "m: [{a: 2}]\n");
    yaml("m: {\"a\":1,\"b\":'x'}\n", &[("m.b", "\"y\"")], "m: {\"a\":1,\"b\":'y'}\n");
}

#[test]
fn anchors_and_merges() {
    let text = "base: &b\n  x: 1\n  k: 2\nuse:\n  <<: *b # merge\n  z: 3\nalso: *b\n";
    yaml(
        text,
        &[("use.x", "9")],
        "base: &b\n  x: 1\n  k: 2\nuse:\n  <<: *b # merge\n  z: 3\n  x: 9\nalso: *b\n",
    );
    yaml(
        text,
        &[("use.z", "4"), ("also", "{\"x\": 1}")],
        "base: &b\n  x: 1\n  k: 2\nuse:\n  <<: *b # merge\n  z: 4\nalso:\n  x: 1\n",
    );
    // The base alone changes: what used it keeps its old values.
    let out = edited(Form::Yaml, text, &[("base.x", "5")]);
    assert!(out.contains("x: 5"), "{out}");
    // The anchor goes: what needs it is written out.
    yaml(text, &[("base", "")], "use:\n  z: 3\n  x: 1\n  k: 2\nalso:\n  x: 1\n  k: 2\n");
}

#[test]
fn json_edits() {
    let text = "{\n  \"a\": 1e3,\n  \"b\": {\n    \"c\": [1, 2]\n  }\n}\n";
    jsn(text, &[("b.c[2]", "3")], "{\n  \"a\": 1e3,\n  \"b\": {\n    \"c\": [1, 2, 3]\n  }\n}\n");
    jsn(
        text,
        &[("b.d", "{\"x\": 1}")],
        "{\n  \"a\": 1e3,\n  \"b\": {\n    \"c\": [1, 2],\n    \"d\": {\n      \"x\": 1\n    }\n  }\n}\n",
    );
    jsn(text, &[("b", "")], "{\n  \"a\": 1e3\n}\n");
    jsn(text, &[("a", "")], "{\n  \"b\": {\n    \"c\": [1, 2]\n  }\n}\n");
    jsn(text, &[("a", ""), ("b", "")], "{}\n");
    jsn("{}\n", &[("a", "[1]")], "{\n  \"a\": [\n    1\n  ]\n}\n");
    jsn(
        "{\"a\":1,\"b\":{}}",
        &[("b.c", "[1,2]"), ("d", "2")],
        "{\"a\":1,\"b\":{\"c\":[1,2]},\"d\":2}",
    );
    jsn("{\"a\": 1}", &[("b", "2")], "{\"a\": 1, \"b\": 2}");
    jsn(
        "{\r\n\t\"a\": 1\r\n}",
        &[("b", "{\"c\": 1}")],
        "{\r\n\t\"a\": 1,\r\n\t\"b\": {\r\n\t\t\"c\": 1\r\n\t}\r\n}",
    );
}

#[test]
fn long_keys_and_strings() {
    let long = "k ".repeat(1500) + "k";
    let v = json(&format!("{{\"a\": {{\"{long}\": \"{long}\", \"b\": [{{\"{long}\": 1}}]}}}}"));
    for start in ["{}\n", "a:\n  x: 1\n", "a: {x: 1}\n"] {
        let out = reach(Form::Yaml, start, &v);
        assert!(read(Form::Yaml, &out).unwrap().value.same(&v), "{start}");
    }
}

#[test]
fn lists_of_maps_by_identity_keep_their_lines() {
    let text = "tools: # all\n  # the web\n  - name: web # W\n    args: [a, b] # A\n\n  # the shell\n  - name: sh # S\n    on: yes\n\n# end\n";
    yaml(
        text,
        &[("tools[0].args[2]", "\"c\""), ("tools[2]", "{\"name\": \"py\"}")],
        "tools: # all\n  # the web\n  - name: web # W\n    args: [a, b, c] # A\n\n  # the shell\n  - name: sh # S\n    on: yes\n  - name: py\n\n# end\n",
    );
    yaml(
        text,
        &[("tools[0]", "")],
        "tools: # all\n  # the web\n\n  # the shell\n  - name: sh # S\n    on: yes\n\n# end\n",
    );
    yaml(text, &[("tools[1].on", "true")], &text.replace("on: yes", "on: true"));
}

#[test]
fn an_error_at_the_end_is_in_the_last_line() {
    for (text, line) in [("{\"a\": ==\nx===\nx", 3), ("a: [1,\n", 1)] {
        let refusal = super::tree::read(Form::Yaml, text).unwrap_err();
        assert_eq!(refusal.line, Some(line), "{refusal} in {text:?}");
    }
}
