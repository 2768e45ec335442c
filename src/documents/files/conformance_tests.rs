//! What every kind of managed file must do with any input (architecture, a document kind).

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::documents::{Context, Plan, Save, State, Written};
use crate::model::{Refusal, Stamp, View};

const CX: Context = Context { now: Stamp(0) };

fn file(kind: FileKind) -> FileDocument {
    FileDocument::new(FileId::of("conformance"), kind)
}

fn save(
    f: &FileDocument,
    seen: Option<&State>,
    written: Written<'_>,
    current: &State,
) -> Result<Plan, Refusal> {
    let view = View::File(f.id());
    f.plan(&Save { view, seen, written, current, outside_since_seen: false, rows: None }, &CX)
}

fn bytes(s: &State) -> Option<Vec<u8>> {
    FileState::of(s).text().map(crate::documents::Content::to_vec)
}

/// A text that files of this kind may hold, by numbers.
fn sample(kind: FileKind, keys: &[(u8, u8)]) -> String {
    let entries = |form: &dyn Fn(u8, u8) -> String, between: &str| -> String {
        let unique: std::collections::BTreeMap<u8, u8> = keys.iter().copied().collect();
        unique.iter().map(|(k, v)| form(*k, *v)).collect::<Vec<_>>().join(between)
    };
    match kind {
        FileKind::Text | FileKind::Queue => {
            keys.iter().map(|(k, v)| format!("line {k} {v}\n")).collect()
        }
        FileKind::Json => format!("{{{}\n}}\n", entries(&|k, v| format!("\n  \"k{k}\": {v}"), ",")),
        FileKind::Event => format!(
            "{{\"mission\": \"- x\", \"run_at\": \"2026-07-01T09:00\"{}}}",
            entries(&|k, v| format!(", \"k{k}\": [{v}]"), "")
        ),
        FileKind::Yaml => {
            format!("# c\na: 1\n{}", entries(&|k, v| format!("k{k}: {v} # {k}\n"), ""))
        }
    }
}

fn kind() -> impl Strategy<Value = FileKind> {
    prop::sample::select(FileKind::ALL.to_vec())
}

fn keys() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0..12u8, any::<u8>()), 0..12)
}

/// Bytes that look like something.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let parts = vec![
        "{",
        "}",
        "[",
        "]",
        "\"a\"",
        ":",
        ",",
        "1",
        "null",
        "\n",
        "a: 1\n",
        "- x\n",
        "# c\n",
        "\r\n",
        "  ",
        "\u{feff}",
        "&a",
        "*a",
        "<<: *a\n",
        "|\n",
        "é",
        "\0",
        "'",
        "line\n",
        "line 1 2\n",
        "\t",
        "\"mission\": \"x\"",
        "\"run_at\": \"2026-07-01T09:00\"",
        "---\n",
    ];
    prop_oneof![
        3 => prop::collection::vec(prop::sample::select(parts), 0..20)
            .prop_map(|p| p.concat().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..100),
    ]
}

fn maybe<T: std::fmt::Debug>(s: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.8, s)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_give_a_plan_or_a_refusal(
        kind in kind(), seen in maybe(maybe(soup())), now in maybe(soup()), new in soup(),
    ) {
        let f = file(kind);
        let seen = seen.map(|s| f.state(s.as_deref()));
        let now = f.state(now.as_deref());
        for written in [Written::Whole(&new), Written::Fragment(&new), Written::Removed] {
            let Ok(plan) = save(&f, seen.as_ref(), written, &now) else { continue };
            // What is believed and what is there can both be kept and read again.
            for s in [&plan.next, &plan.believed] {
                let again = f.decode(&s.archive().to_vec()).unwrap();
                prop_assert_eq!(bytes(&again), bytes(s));
                prop_assert_eq!(again.archive(), s.archive());
            }
            if Arc::ptr_eq(&plan.next, &now) {
                prop_assert_eq!(f.summary(&now, &plan.next), if bytes(&now).is_some() { "no change" } else { "no file" });
            } else {
                prop_assert_ne!(bytes(&plan.next), bytes(&now));
            }
        }
    }

    #[test]
    fn saving_what_was_read_plans_nothing(kind in kind(), seen in soup(), now in soup()) {
        let f = file(kind);
        let (read, now) = (f.state(Some(&seen)), f.state(Some(&now)));
        // By one who has seen the current version.
        if let Ok(plan) = save(&f, Some(&read), Written::Whole(&seen), &read) {
            prop_assert!(Arc::ptr_eq(&plan.next, &read));
        }
        // By one who has seen an older one.
        if let Ok(plan) = save(&f, Some(&read), Written::Whole(&seen), &now)
            && !String::from_utf8_lossy(&bytes(&now).unwrap()).replace('\u{feff}', "").trim().is_empty()
            && save(&f, None, Written::Whole(&bytes(&now).unwrap()), &f.state(None)).is_ok()
            && save(&f, None, Written::Whole(&seen), &f.state(None)).is_ok()
        {
            prop_assert_eq!(bytes(&plan.next), bytes(&now), "{:?}", kind);
        }
    }

    /// R6.
    #[test]
    fn who_has_seen_the_current_version_reads_back_what_it_wrote(
        kind in kind(), now in soup(), new in soup(),
    ) {
        let f = file(kind);
        let now = f.state(Some(&now));
        if let Ok(plan) = save(&f, Some(&now), Written::Whole(&new), &now) {
            prop_assert_eq!(bytes(&plan.next).unwrap(), new);
            prop_assert!(Arc::ptr_eq(&plan.next, &plan.believed));
        }
    }

    #[test]
    fn disjoint_edits_merge_in_either_order(
        kind in kind(), values in prop::collection::vec(any::<u8>(), 9..12), i in 0..4u8, j in 5..9u8, what in (0..3u8, 0..3u8),
    ) {
        let f = file(kind);
        let base: Vec<(u8, u8)> = values.iter().enumerate().map(|(k, v)| (10 * k as u8, *v)).collect();
        let edit = |at: u8, what: u8| {
            let mut keys = base.clone();
            match what {
                0 => keys[usize::from(at)].1 ^= 1,
                1 => { keys.remove(usize::from(at)); }
                _ => keys.insert(usize::from(at), (10 * at - u8::from(at > 0) + u8::from(at == 0), 7)),
            }
            sample(kind, &keys)
        };
        let (one, two) = (edit(i, what.0), edit(j, what.1));
        let base = sample(kind, &base);
        let seen = f.state(Some(base.as_bytes()));
        let merged = |first: &str, second: &str| {
            let now = f.state(Some(first.as_bytes()));
            let plan = save(&f, Some(&seen), Written::Whole(second.as_bytes()), &now).unwrap();
            (bytes(&plan.next).map(|b| String::from_utf8(b).unwrap()), plan.overlaps.len())
        };
        let (a, b) = (merged(&one, &two), merged(&two, &one));
        prop_assert_eq!(&a, &b);
        prop_assert_eq!(a.1, 0);
    }

    /// What is saved stays valid, and keys that nobody removed stay.
    #[test]
    fn merges_of_keys_are_valid_and_lose_none(
        kind in prop::sample::select(vec![FileKind::Json, FileKind::Event, FileKind::Yaml]),
        base in keys(), one in keys(), two in keys(), blind in any::<bool>(),
    ) {
        let f = file(kind);
        let [base, one, two] = [base, one, two].map(|k| sample(kind, &k));
        let seen = f.state(Some(base.as_bytes()));
        let now = f.state(Some(one.as_bytes()));
        let plan = save(&f, (!blind).then_some(&seen), Written::Whole(two.as_bytes()), &now).unwrap();
        let merged = String::from_utf8(bytes(&plan.next).unwrap()).unwrap();
        prop_assert!(save(&f, None, Written::Whole(merged.as_bytes()), &f.state(None)).is_ok());
        for k in (0..12u8).map(|k| format!("k{k}")) {
            let has = |t: &str| t.contains(&format!("{k}:")) || t.contains(&format!("{k}\":"));
            let gone = !blind && has(&base) && (!has(&one) || !has(&two));
            if (has(&one) || has(&two)) && !gone {
                prop_assert!(has(&merged), "{k} of {one} and {two} is not in {merged}");
            }
        }
    }
}

/// A step of a program that works on a queue.
#[derive(Debug, Clone)]
enum Step {
    /// Adds a line at the end.
    Append(u8),
    /// Looks at the file.
    Read,
    /// Empties the file, having delivered what it has read.
    Drain,
    /// Unlinks the file, having delivered what it has read.
    Unlink,
    /// Delivers the first entry that it has read and writes the others back.
    DrainOne,
    /// Replaces the file by what it has read and one line more.
    Replace(u8),
    /// `echo line > file`, by somebody who has read nothing.
    Blind(u8),
    /// `> file`, by somebody who has read nothing.
    BlindEmpty,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let n = 0..6u8;
    let step = prop_oneof![
        4 => n.clone().prop_map(Step::Append),
        4 => Just(Step::Read),
        2 => Just(Step::Drain),
        1 => Just(Step::Unlink),
        2 => Just(Step::DrainOne),
        2 => n.clone().prop_map(Step::Replace),
        1 => n.prop_map(Step::Blind),
        1 => Just(Step::BlindEmpty),
    ];
    (0..3usize, step)
}

fn entries(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).lines().filter(|l| !l.is_empty()).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    /// Whatever three programs do, every entry is delivered or still there, as often as it
    /// was added.
    #[test]
    fn no_entry_of_a_queue_is_ever_lost(
        steps in prop::collection::vec(step(), 1..40), open_end in any::<bool>(),
    ) {
        let f = file(FileKind::Queue);
        let mut now = f.state(None);
        // What each program takes for the content.
        let mut seen: [Option<State>; 3] = Default::default();
        let mut added: HashMap<String, i64> = HashMap::new();
        let mut delivered: HashMap<String, i64> = HashMap::new();
        let line = |n: u8| if open_end && n.is_multiple_of(2) { format!("m{n}") } else { format!("m{n}\n") };
        for (who, step) in steps {
            let read = seen[who].clone();
            let known = read.as_ref().and_then(bytes).unwrap_or_default();
            let mut add = |n: u8| *added.entry(format!("m{n}")).or_default() += 1;
            let mut deliver = |list: &[String]| {
                for entry in list {
                    *delivered.entry(entry.clone()).or_default() += 1;
                }
            };
            let (by, text, removed) = match step {
                Step::Read => {
                    seen[who] = Some(now.clone());
                    continue;
                }
                Step::Append(n) => {
                    add(n);
                    let text = line(n).into_bytes();
                    let plan = save(&f, read.as_ref(), Written::Fragment(&text), &now).unwrap();
                    now = plan.next;
                    seen[who] = Some(plan.believed);
                    continue;
                }
                Step::Blind(n) => { add(n); (None, line(n).into_bytes(), false) }
                Step::BlindEmpty => (None, Vec::new(), false),
                _ if read.is_none() => continue,
                Step::Drain => { deliver(&entries(&known)); (read, Vec::new(), false) }
                Step::Unlink if bytes(read.as_ref().unwrap()).is_none() => continue,
                Step::Unlink => { deliver(&entries(&known)); (read, Vec::new(), true) }
                Step::DrainOne => {
                    let mut list = entries(&known);
                    if list.is_empty() { continue }
                    deliver(&list[..1]);
                    list.remove(0);
                    (read, list.iter().flat_map(|l| format!("{l}\n").into_bytes()).collect(), false)
                }
                Step::Replace(n) => {
                    add(n);
                    let glue = if known.is_empty() || known.ends_with(b"\n") { "" } else { "\n" };
                    (read, [&known, glue.as_bytes(), line(n).as_bytes()].concat(), false)
                }
            };
            let written = if removed { Written::Removed } else { Written::Whole(&text) };
            let plan = save(&f, by.as_ref(), written, &now).unwrap();
            now = plan.next;
            if by.is_some() {
                seen[who] = Some(plan.believed);
            }
            let mut have = delivered.clone();
            for entry in entries(&bytes(&now).unwrap_or_default()) {
                *have.entry(entry).or_default() += 1;
            }
            for (entry, n) in &added {
                prop_assert!(have.get(entry).copied().unwrap_or(0) >= *n, "{entry} is lost: {now:?}", now = bytes(&now));
            }
        }
    }
}
