use proptest::prelude::*;

use super::properties::{KINDS, holds, hopeless_at};
use super::*;
use crate::documents::config::{Form, MAX_DEPTH, MAX_VALUES};

const CONFIG: Kind = Kind::Config(Form::Json);
const YAML: Kind = Kind::Config(Form::Yaml);
const JSON: Kind = Kind::File(FileKind::Json);

/// Where it becomes hopeless, byte by byte.
fn at(kind: Kind, text: &str) -> Option<usize> {
    hopeless_at(kind, text.as_bytes(), &[1])
}

#[test]
fn plain_errors_in_json_are_hopeless_at_their_first_byte() {
    for (text, end) in [
        ("{\"a\": 1 \"b\"", "{\"a\": 1 \""),
        ("{\"a\": x", "{\"a\": x"),
        ("{\"a\": 01", "{\"a\": 01"),
        ("{\"a\": -x", "{\"a\": -x"),
        ("{\"a\": 1.,", "{\"a\": 1.,"),
        ("{\"a\": tru}", "{\"a\": tru}"),
        ("{'a'", "{'"),
        ("{a: 1}", "{a"),
        ("{\"a\": [1, 2,, 3]}", "{\"a\": [1, 2,,"),
        ("{,}", "{,"),
        ("{\"a\": 1]", "{\"a\": 1]"),
        ("{\"a\": 1}\nx", "{\"a\": 1}\nx"),
        ("{\"a\": \"x\ny\"}", "{\"a\": \"x\n"),
        ("{\"a\": \"x\\y\"}", "{\"a\": \"x\\y"),
        ("{\"a\": \"\\u12g", "{\"a\": \"\\u12g"),
        ("[1]", "["),
        ("# a comment", "#"),
        ("a: 1\n", "a"),
    ] {
        assert_eq!(at(CONFIG, text), Some(end.len()), "{text}");
    }
}

#[test]
fn what_readers_put_up_with_in_json_is_not_hopeless() {
    for text in [
        "{\"a\": \"\\ud83d\", \"b\": \"\\udc00x\"}",
        "{\"a\": NaN, \"b\": [Infinity, -Infinity]}",
        "{\"a\": 1, \"a\": 2}",
        "\u{feff}{\"a\":\t1}",
        "{\"a\": 123456789012345678901234567890e999999, \"b\": -0.0E-0}",
        "// one\n{ /* two * / **/ \"a\": [1, 2,], // three\r \"b\": {\"c\": 1,}, } // four",
        "{\"a\": \"\r\"}\u{2028}\r",
        "{\"a\": \"\u{7f}\u{2028}\u{1f600}\"}",
        "\u{c}\u{a0}\u{3000} {}",
        " ",
        "",
    ] {
        assert_eq!(at(CONFIG, text), None, "{text}");
    }
    for text in ["7", "\"x\"", "[1, [2], []]", "null", "-1.5e-7 ", "[NaN]"] {
        assert_eq!(at(JSON, text), None, "{text}");
    }
}

#[test]
fn too_deep_and_too_many_are_hopeless() {
    for (kind, open) in [(JSON, "["), (JSON, "{\"a\": "), (CONFIG, "{\"a\": ")] {
        assert_eq!(at(kind, &open.repeat(MAX_DEPTH)), None, "{open}");
        assert!(at(kind, &open.repeat(MAX_DEPTH + 1)).is_some(), "{open}");
    }
    let many = |n: usize| format!("[0{}", ",0".repeat(n - 1));
    // The list is a value itself.
    assert_eq!(hopeless_at(JSON, many(MAX_VALUES - 1).as_bytes(), &[1 << 16]), None);
    assert!(hopeless_at(JSON, many(MAX_VALUES).as_bytes(), &[1 << 16]).is_some());
}

#[test]
fn what_is_no_text_is_hopeless() {
    for (_, kind) in KINDS {
        let text =
            |end: &[u8]| [if kind == Kind::Missions { b"- " } else { &b""[..] }, end].concat();
        // Cut characters can still be finished.
        for good in [&b""[..], b"\xe2", b"\xe2\x80"] {
            assert_eq!(hopeless_at(kind, &text(good), &[1]), None, "{kind:?} {good:?}");
        }
        for bad in [&b"\xff"[..], b"\xe2(", b"\xed\xa0", b"\xc0\x80", b"\0", b"\xf5"] {
            assert!(hopeless_at(kind, &text(bad), &[1]).is_some(), "{kind:?} {bad:?}");
            assert!(hopeless_at(kind, &text(bad), &[64]).is_some(), "{kind:?} {bad:?}");
        }
    }
}

#[test]
fn plain_errors_in_yaml_are_hopeless() {
    let bomb: String =
        (1..12).map(|n| format!("k{n}: &k{n} [*k{0}, *k{0}, *k{0}, *k{0}]\n", n - 1)).collect();
    let bomb = format!("k0: &k0 [1, 2, 3, 4]\n{bomb}");
    let (open, close) = ("[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    let deep = format!("a: {open}{close}\nb: 1\n");
    for text in [
        "a: 1\n\tb: 2\n",
        "a: b: c\nd",
        "a:\n  b: 1\n c: 2\n",
        "a: [1, 2\nb: 3\nc: 4\n",
        "a: }\nb: 1\n",
        "a: 'x' y\nb: 1\n",
        "a: *nobody\nb: 1\n",
        "a: 1\n---\nb: 2\n",
        "? [a]\n: 1\n",
        "@a: 1\n",
        &bomb,
        &deep,
    ] {
        assert!(at(YAML, text).is_some(), "{text} {:?}", YAML.refusal(text.as_bytes()));
        assert!(hopeless_at(YAML, text.as_bytes(), &[1 << 16]).is_some(), "{text}");
    }
    for text in [
        "a: \"\\ud83d\"\nb: 1\n",
        "a:\t1\nb: 1\n",
        "a: .nan\na: 2\nb: 1\n",
        "\u{feff}a: 1\n",
        "a: [1, 2\n",
        "a: \"x\n",
        "# only a comment\n",
        "",
    ] {
        assert_eq!(at(YAML, text), None, "{text}");
    }
}

#[test]
fn the_reason_is_that_of_the_whole_text() {
    for (kind, text, rest) in [
        (CONFIG, "{\"a\": 1,\n \"b\": x", "}"),
        (CONFIG, "{\"a\": \"\\x", "\"}"),
        (CONFIG, "{\"a\": \"x\n", "y\"}"),
        (CONFIG, "{\"\u{e4}\": [1,, \u{e4}", "]}"),
        (Kind::Missions, "- a\n- b\0", "\n- c\n"),
        (YAML, "a: 1\n\tb: 2\n", "c: 3\n"),
        (YAML, "a: 1\nb: b: c\n", "d: 1\n"),
    ] {
        assert!(at(kind, text).is_some(), "{text}");
        assert_eq!(kind.why(text.as_bytes()), kind.refusal(format!("{text}{rest}").as_bytes()));
    }
    let cut = [b"{\"a\": x \"", &"\u{1f600}".as_bytes()[..2]].concat();
    assert!(CONFIG.why(&cut).is_some_and(|r| r.message.contains("a value")));
}

/// Values as other programs write them, with what readers put up with.
fn json(tolerant: bool) -> impl Strategy<Value = String> {
    let odd =
        ["NaN", "-Infinity", "\"\\ud83d\"", "1e999", "\"\r\"", "[1,]", "/* x */ 1", "1 // y\n"];
    let plain = ["1", "-0.5e+3", "\"\"", "\"a \\u00e9 \u{1f600}\\n\"", "true", "null", "[]", "{}"];
    let leaf = prop_oneof![
        4 => prop::sample::select(plain.to_vec()).prop_map(str::to_owned),
        1 => prop::sample::select(odd.to_vec())
            .prop_map(move |s| if tolerant { s.to_owned() } else { "false".to_owned() }),
        1 => any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap_or_default()),
    ];
    let blank = prop::sample::select(vec!["", " ", "\n  ", "\r\n\t"]);
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let blank = blank.clone();
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..5), blank.clone())
                .prop_map(|(all, b)| format!("[{b}{}{b}]", all.join(&format!("{b},{b}")))),
            (prop::collection::vec(inner, 0..5), blank).prop_map(|(all, b)| {
                let entry = |(n, v): (usize, &String)| format!("\"k{n}\\t\"{b}:{b}{v}");
                let all: Vec<_> = all.iter().enumerate().map(entry).collect();
                format!("{{{b}{}{b}}}", all.join(&format!(",{b}")))
            }),
        ]
    })
}

fn object(tolerant: bool) -> impl Strategy<Value = String> {
    json(tolerant).prop_map(|v| format!("{{\"top\": {v}}}"))
}

/// Lines of which some are YAML.
fn yaml() -> impl Strategy<Value = String> {
    let words = [
        "a",
        "b: ",
        "c:",
        "- ",
        "? ",
        ": ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "'",
        "\"",
        "\\",
        "&x ",
        "*x",
        "!t ",
        "!!str ",
        "|",
        ">-",
        "2",
        "# c",
        " #c",
        "\t",
        "\n",
        "\n",
        "\n  ",
        "\n    ",
        "\n- ",
        "\na: ",
        "\n---\n",
        "...",
        "%YAML 1.2",
        "<<: ",
        "@",
        "`",
        "\u{e9}",
        "\u{feff}",
        "\r",
        "1.5",
        "key",
        "\n  k: v",
        "\n  - v",
        "\\ud83d",
        "~",
        "\u{2028}",
        "\u{7}",
        "\u{85}",
        "-",
        ":",
        "?",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..14).prop_map(|w| w.concat())
}

/// The text with one byte changed, left out or put in.
fn spoilt(text: &str, place: prop::sample::Index, by: u8, way: u8) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let at = place.index(bytes.len() + 1);
    match way % 3 {
        0 if at < bytes.len() => bytes[at] = by,
        1 if at < bytes.len() => drop(bytes.remove(at)),
        _ => bytes.insert(at, by),
    }
    bytes
}

fn byte() -> impl Strategy<Value = u8> {
    let marks = b"{}[]\",:\\/*\n\t 0-.eIN#'\0\xe2\xef".to_vec();
    prop_oneof![3 => prop::sample::select(marks), 1 => any::<u8>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn good_json_is_never_hopeless(text in json(true), sizes in prop::collection::vec(1usize..20, 1..6)) {
        prop_assert_eq!(hopeless_at(JSON, text.as_bytes(), &sizes), None);
        prop_assert_eq!(hopeless_at(JSON, text.as_bytes(), &[1]), None);
    }

    #[test]
    fn strict_json_is_taken_and_not_hopeless(text in object(false)) {
        prop_assert!(CONFIG.refusal(text.as_bytes()).is_none(), "{}", text);
        for size in [1, 2, 7, 1000] {
            prop_assert_eq!(hopeless_at(CONFIG, text.as_bytes(), &[size]), None);
        }
    }

    #[test]
    fn spoilt_json_that_is_hopeless_is_never_taken(
        text in object(false), rest in object(true),
        place in any::<prop::sample::Index>(), by in byte(), way in any::<u8>(),
    ) {
        let bytes = spoilt(&text, place, by, way);
        let event = format!("{{\"mission\": \"m\", \"run_at\": \"2026-07-01T09:00\", \"x\": {text}}}");
        for kind in [CONFIG, JSON] {
            holds(kind, &bytes, &[rest.as_bytes(), &text.as_bytes()[text.len() / 2..]]);
        }
        holds(Kind::File(FileKind::Event), event.as_bytes(), &[]);
        holds(Kind::File(FileKind::Event), &spoilt(&event, place, by, way), &[b"}", rest.as_bytes()]);
    }

    #[test]
    fn a_broken_string_is_found_wherever_it_stands(
        before in "[ -~&&[^\"\\\\]]{0,40}", by in 0u8..0x20, after in "[a-z]{0,20}",
    ) {
        let text = [b"{\"a\": \"", before.as_bytes(), &[by], after.as_bytes()].concat();
        let wanted = (by != b'\r').then_some(8 + before.len() - 1 + 1);
        prop_assert_eq!(hopeless_at(CONFIG, &text, &[1]), wanted);
        prop_assert_eq!(hopeless_at(CONFIG, &text, &[1000]).is_some(), wanted.is_some());
    }

    #[test]
    fn yaml_that_is_hopeless_is_never_taken(text in yaml(), rest in yaml(), more in yaml()) {
        for kind in [YAML, Kind::File(FileKind::Yaml)] {
            holds(kind, text.as_bytes(), &[rest.as_bytes(), more.as_bytes()]);
        }
    }

    #[test]
    fn spoilt_yaml_that_is_hopeless_is_never_taken(
        lines in prop::collection::vec((0usize..3, "[a-d]{1,2}", "[a-z ]{0,6}|'[a-z]*'|\\[1, 2\\]|[|]|"), 1..8),
        rest in yaml(), place in any::<prop::sample::Index>(), by in byte(), way in any::<u8>(),
    ) {
        let text: String =
            lines.iter().map(|(n, k, v)| format!("{}{k}: {v}\n", "  ".repeat(*n))).collect();
        holds(YAML, text.as_bytes(), &[rest.as_bytes()]);
        holds(YAML, &spoilt(&text, place, by, way), &[rest.as_bytes()]);
    }

    #[test]
    fn missions_are_hopeless_for_what_is_no_text_alone(
        text in any::<String>(), place in any::<prop::sample::Index>(), by in byte(), way in any::<u8>(),
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let good = text.replace('\0', "");
        prop_assert_eq!(hopeless_at(Kind::Missions, good.as_bytes(), &[1]), None);
        prop_assert_eq!(hopeless_at(Kind::Missions, good.as_bytes(), &[3, 2]), None);
        holds(Kind::Missions, &spoilt(&text, place, by, way), &[&rest]);
    }
}
