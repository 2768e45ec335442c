//! What must hold for any managed file and any settings (see [`crate::properties`]).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{FileDocument, FileState, RuleSet};
use crate::documents::config::keyed::Reading;
use crate::documents::config::{Form, Value};
use crate::documents::settings::Settings;
use crate::documents::{Content, Context, Plan, Save, State, Written};
use crate::model::{FileId, FileKind, Overlap, Reason, Refusal, Stamp, View};
use crate::properties::{is_refusal, parts};

const CX: Context = Context { now: Stamp(0) };

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
    FileState::of(s).text().map(Content::to_vec)
}

fn lossy(s: &State) -> String {
    bytes(s).map_or_else(|| "(no file)".into(), |b| String::from_utf8_lossy(&b).into_owned())
}

/// A kind, base, ours (which is there now, whoever wrote it), theirs (saved by one who has seen
/// the base), and perhaps appends.
pub fn managed(input: &[u8]) {
    let parts = parts(input);
    let [kind, base, ours, theirs, more @ ..] = &parts[..] else { return };
    let Some(kind) = FileKind::parse(String::from_utf8_lossy(kind).trim()) else { return };
    let f = FileDocument::new(FileId::of("fuzzed"), kind);
    let none = f.state(None);
    let good = |text: &[u8]| save(&f, None, Written::Whole(text), &none).is_ok();
    let (b, c) = (f.state(Some(base)), f.state(Some(ours)));
    // merge(base, base, theirs).
    match save(&f, Some(&b), Written::Whole(theirs), &b) {
        Ok(plan) => assert_eq!(bytes(&plan.next).as_deref(), Some(*theirs)),
        Err(refusal) => refused(kind, &refusal, theirs),
    }
    // merge(base, ours, base) and merge(base, ours, ours); nobody saves what is broken.
    if good(base) && good(ours) {
        for text in [base, ours] {
            let says_nothing = |text: &[u8]| {
                let text = String::from_utf8_lossy(text);
                text.trim_start_matches('\u{feff}').trim().is_empty()
            };
            let blank = says_nothing(text) || says_nothing(ours);
            match save(&f, Some(&b), Written::Whole(text), &c) {
                Ok(plan) if kind == FileKind::Queue && text == ours && base != ours => {
                    doubled(ours, &plan.next);
                }
                // What was emptied behind the mount is brought back.
                Ok(_) if blank && !takes_anything(kind) => {}
                Ok(plan) => assert_eq!(bytes(&plan.next).as_deref(), Some(*ours), "{kind:?}"),
                Err(refusal) => assert!(blank && refusal.reason == Reason::Empty, "{refusal:?}"),
            }
        }
    }
    match save(&f, Some(&b), Written::Whole(theirs), &c) {
        Ok(plan) => merged(kind, &f, [base, ours, theirs], &plan),
        Err(refusal) => refused(kind, &refusal, theirs),
    }
    match save(&f, None, Written::Whole(theirs), &c) {
        Ok(plan) => blind(kind, ours, theirs, &plan),
        Err(refusal) => refused(kind, &refusal, theirs),
    }
    match save(&f, Some(&b), Written::Removed, &c) {
        Ok(plan) => removed(kind, base, ours, &plan),
        Err(refusal) => panic!("{refusal:?}"),
    }
    for fragment in more {
        match save(&f, None, Written::Fragment(fragment), &c) {
            Ok(plan) => appended(kind, ours, fragment, &plan),
            Err(refusal) => assert!(!refusal.message.is_empty() && !takes_anything(kind)),
        }
    }
}

fn takes_anything(kind: FileKind) -> bool {
    matches!(kind, FileKind::Text | FileKind::Queue)
}

fn refused(kind: FileKind, refusal: &Refusal, text: &[u8]) {
    assert!(!takes_anything(kind), "{refusal:?}");
    let reasons = [Reason::Invalid, Reason::Empty, Reason::Merged];
    assert!(reasons.contains(&refusal.reason), "{refusal:?}");
    is_refusal(refusal, text);
}

/// How often each line is there, without blanks at its end.
fn count(text: &[u8]) -> HashMap<Vec<u8>, i64> {
    let mut out = HashMap::new();
    for line in text.split(|b| *b == b'\n') {
        let line = line.trim_ascii_end();
        if !line.is_empty() {
            *out.entry(line.to_vec()).or_default() += 1;
        }
    }
    out
}

/// A queue that gets what is in it already: equal entries are all kept, so it may only grow.
fn doubled(ours: &[u8], next: &State) {
    let text = bytes(next).unwrap_or_default();
    let [c, m] = [ours, &text].map(count);
    for (line, nc) in &c {
        let m = m.get(line).copied().unwrap_or(0);
        assert!((*nc..=2 * nc).contains(&m), "{:?}", lossy(next));
    }
}

fn merged(kind: FileKind, f: &FileDocument, [base, ours, theirs]: [&[u8]; 3], plan: &Plan) {
    let text = bytes(&plan.next).unwrap_or_default();
    for s in [&plan.next, &plan.believed] {
        let again = f.decode(&s.archive().to_vec()).unwrap_or_else(|e| panic!("{e}"));
        assert!(bytes(&again) == bytes(s) && again.archive() == s.archive());
    }
    assert_eq!(Arc::ptr_eq(&plan.next, &f.state_near(Some(ours), &plan.next)), text == ours);
    if takes_anything(kind) {
        lines_kept(kind, [base, ours, theirs], plan);
    } else {
        keys_kept([base, ours, theirs], kind, &text);
    }
    let again = save(f, Some(&plan.believed), Written::Whole(theirs), &plan.next);
    let again = again.unwrap_or_else(|r| panic!("saved again: {r:?}"));
    assert_eq!(lossy(&again.next), lossy(&plan.next), "saved again");
}

fn lines_kept(kind: FileKind, texts: [&[u8]; 3], plan: &Plan) {
    let text = bytes(&plan.next).unwrap_or_default();
    let [nb, nc, nt, nm] = [texts[0], texts[1], texts[2], &text].map(count);
    let all: HashSet<&Vec<u8>> = [&nb, &nc, &nt, &nm].into_iter().flat_map(HashMap::keys).collect();
    for line in all {
        let n = |of: &HashMap<Vec<u8>, i64>| of.get(line).copied().unwrap_or(0);
        let (nb, nc, nt, nm) = (n(&nb), n(&nc), n(&nt), n(&nm));
        let said = || {
            let line = String::from_utf8_lossy(line);
            format!(
                "{line:?}: base {nb}, ours {nc}, theirs {nt}, merged {nm} in {:?}",
                lossy(&plan.next)
            )
        };
        // Of several equal lines counts do not tell whether one was taken out and another put in.
        let several = nb > 0 && nb.max(nc).max(nt) > 1;
        let kept = |own: i64, other: i64| own - if several { nb } else { (nb - other).max(0) };
        // Where both changed one line, the overlap has what was there before, if it is not cut short.
        let whole = |o: &Overlap| o.what.starts_with("line ") && !o.earlier.ends_with('…');
        if plan.overlaps.iter().all(whole) {
            let instead = |o: &&Overlap| {
                o.earlier != o.later && o.earlier.trim_ascii_end() == String::from_utf8_lossy(line)
            };
            let instead = plan.overlaps.iter().filter(instead).count() as i64;
            assert!(nm + instead >= kept(nc, nt), "lost of ours: {}", said());
        }
        assert!(plan.overlaps.is_empty() || kind == FileKind::Text);
        assert!(nm >= kept(nt, nc), "lost of theirs: {}", said());
        // Which of equal lines are the old ones is nobody's to say: each side's may be new.
        assert!(nm <= nc + nt, "doubled: {}", said());
    }
}

fn form(kind: FileKind) -> Option<Form> {
    match kind {
        FileKind::Json | FileKind::Event => Some(Form::Json),
        FileKind::Yaml => Some(Form::Yaml),
        FileKind::Text | FileKind::Queue => None,
    }
}

fn value(form: Form, text: &[u8]) -> Option<Value> {
    Reading::new(form, text).ok().map(|r| r.value().clone())
}

/// What is saved can be read, and keys of the top level that nobody took out are there.
fn keys_kept([base, ours, theirs]: [&[u8]; 3], kind: FileKind, merged: &[u8]) {
    let Some(form) = form(kind) else { return };
    let [b, c, t, m] = [base, ours, theirs, merged].map(|text| value(form, text));
    // Who changes nothing leaves also a text that holds no value.
    if t.is_some() && (c.is_some() || base != theirs) {
        assert!(m.is_some(), "{:?} is no {kind:?}", String::from_utf8_lossy(merged));
    }
    let (Some(Value::Map(b)), Some(Value::Map(c)), Some(Value::Map(t)), Some(m)) = (b, c, t, m)
    else {
        return;
    };
    let has = |map: &[(String, Value)], key: &str| map.iter().any(|(k, _)| k == key);
    for (key, _) in c.iter().chain(&t) {
        let taken_out = has(&b, key) && !(has(&c, key) && has(&t, key));
        assert!(taken_out || m.entry(key).is_some(), "{key:?} is lost in {}", m.type_name());
    }
}

/// R3 and its exception: a blind overwrite of a text replaces, of a queue appends; keys are set.
fn blind(kind: FileKind, ours: &[u8], theirs: &[u8], plan: &Plan) {
    let text = bytes(&plan.next).unwrap_or_default();
    match kind {
        FileKind::Text => assert!(text == theirs),
        FileKind::Queue => assert!(text.starts_with(ours) && text.ends_with(theirs)),
        FileKind::Json | FileKind::Event | FileKind::Yaml => {
            let Some(form) = form(kind) else { return };
            if let (Some(c), Some(m)) = (value(form, ours), value(form, &text)) {
                has_all(&c, &m);
            }
        }
    }
}

/// No key is gone, at any depth of maps.
fn has_all(c: &Value, m: &Value) {
    if let Value::Map(keys) = c {
        for (k, v) in keys {
            match m.entry(k) {
                Some(now) => has_all(v, now),
                None => panic!("{k:?} is gone"),
            }
        }
    }
}

/// A removal takes away what was read, of a queue no more than that.
fn removed(kind: FileKind, base: &[u8], ours: &[u8], plan: &Plan) {
    let Some(text) = bytes(&plan.next) else {
        if kind == FileKind::Queue {
            let [b, c] = [base, ours].map(count);
            let read = |line: &Vec<u8>, n: i64| b.get(line).copied().unwrap_or(0) >= n;
            assert!(c.iter().all(|(line, n)| read(line, *n)), "lines that nobody read are gone");
        }
        return;
    };
    assert_eq!(kind, FileKind::Queue);
    let [b, c, m] = [base, ours, &text].map(count);
    for (line, n) in &c {
        let unread = n - b.get(line).copied().unwrap_or(0);
        assert!(m.get(line).copied().unwrap_or(0) >= unread, "{:?}", lossy(&plan.next));
    }
}

fn appended(kind: FileKind, ours: &[u8], fragment: &[u8], plan: &Plan) {
    let text = bytes(&plan.next).unwrap_or_default();
    if takes_anything(kind) {
        assert!(text.starts_with(ours) && text.ends_with(fragment));
        assert!(text.len() - ours.len() - fragment.len() <= 1);
    } else if let Some(form) = form(kind) {
        // Comments alone are nothing, before and afterwards.
        let valid = value(form, &text).is_some() || value(form, ours).is_none();
        assert!(valid, "{:?}", lossy(&plan.next));
    }
}

/// The text of `instancefs.toml`, and perhaps paths that are judged by it.
pub fn settings(input: &[u8]) {
    let parts = parts(input);
    let Ok(text) = std::str::from_utf8(parts[0]) else { return };
    let one_line = |e: crate::documents::settings::SettingsError| {
        let said = e.to_string();
        assert!(!said.contains('\n') && !e.message.is_empty(), "{said:?}");
        let lines = 1 + text.matches('\n').count();
        assert!(e.line.is_none_or(|n| n >= 1 && n <= lines), "{said:?} in {lines} lines");
    };
    let settings = match Settings::parse(text) {
        Ok(settings) => settings,
        Err(e) => return one_line(e),
    };
    assert_eq!(Settings::parse(text).as_ref(), Ok(&settings));
    let rules = match RuleSet::new(&settings) {
        Ok(rules) => rules,
        Err(e) => return one_line(e),
    };
    assert!(rules.rules().count() >= settings.files.len());
    let paths = parts.get(1).map(|p| String::from_utf8_lossy(p)).unwrap_or_default();
    for path in paths.lines().take(16).chain(["missions.md", "a/b.json", "outbox.md"]) {
        let rule = rules.find(path);
        assert_eq!(rule, rules.find(path));
        assert!(rule.is_none_or(|r| !r.why().is_empty() && !r.why().contains('\n')), "{rule:?}");
    }
    // Nothing can be set that takes the documents away.
    let missions = rules.find("missions.md").map(|r| r.class);
    assert_eq!(missions, Some(super::Class::Document));
}
