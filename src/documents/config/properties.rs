//! What must hold for any config text, edit and merge (see [`crate::properties`]).

use std::collections::HashSet;
use std::sync::Arc;

use super::edit::reach;
use super::path::KeyPath;
use super::state::ConfigState;
use super::tree::{Form, Kind, Node, Style, read, read_any};
use super::value::{Value, number};
use super::{ConfigDocument, keys, render};
use crate::documents::{Context, Document, Plan, Save, State, Written};
use crate::model::{Reason, Refusal, Stamp, View};
use crate::properties::{is_refusal, parts};

const CX: Context = Context { now: Stamp(0) };
const FORMS: [Form; 2] = [Form::Json, Form::Yaml];

/// A text and what it is to say: another text, or lines `KEY.PATH = JSON` and `- KEY.PATH`. The
/// edited text says exactly that and is otherwise as it was.
pub fn edit(input: &[u8]) {
    let parts = parts(input);
    let Ok(text) = std::str::from_utf8(parts[0]) else { return };
    for form in FORMS {
        let doc = match read_any(form, text) {
            Ok(doc) => doc,
            Err(refusal) => {
                assert!(matches!(refusal.reason, Reason::Invalid | Reason::Empty), "{refusal:?}");
                is_refusal(&refusal, text.as_bytes());
                if form == Form::Json {
                    refused_json(text, &refusal);
                }
                continue;
            }
        };
        if form == Form::Json {
            read_as_others_do(text, &doc.value);
        }
        assert!(doc.root.is(&doc.value) && doc.value.same(&doc.root.value()));
        places_hold(text, &doc.root);
        assert_eq!(reach(form, text, &doc.value), text, "an edit that changes nothing");
        renders(&doc.value);
        for wanted in &parts[1..] {
            let Ok(wanted) = std::str::from_utf8(wanted) else { continue };
            for other in FORMS {
                if let Ok(target) = read_any(other, wanted) {
                    reached(form, text, &target.value);
                }
            }
            orders(form, text, &doc.root, wanted);
        }
    }
}

/// Values stand where the tree says: in the text, in order, inside each other.
fn places_hold(text: &str, node: &Node) {
    assert!(node.head <= node.start && node.start <= node.end && node.end <= text.len());
    for at in [node.head, node.start, node.end] {
        assert!(text.is_char_boundary(at));
    }
    if node.style == Style::Alias {
        return;
    }
    let mut from = node.start;
    let mut inside = |start: usize, node: &Node| {
        assert!(from <= start && start <= node.head.max(start), "{from} {start} {node:?}");
        places_hold(text, node);
        from = start;
    };
    match &node.kind {
        Kind::Scalar(_) => {}
        Kind::Seq(items) => items.iter().for_each(|i| inside(i.start, &i.value)),
        Kind::Map(entries) => entries
            .iter()
            .filter(|e| e.role == super::tree::Role::Own)
            .for_each(|e| inside(e.start, &e.value)),
    }
}

fn reached(form: Form, text: &str, target: &Value) {
    let edited = reach(form, text, target);
    let again = read_any(form, &edited);
    let again = again.unwrap_or_else(|r| panic!("{r:?} in {edited:?} from {text:?}"));
    assert!(again.value.same(target), "{edited:?} is not {}", target.canonical());
    assert_eq!(text.starts_with('\u{feff}'), edited.starts_with('\u{feff}'));
    // And back, which must be what it was again.
    if let Ok(was) = read_any(form, text) {
        let back = reach(form, &edited, &was.value);
        assert!(read_any(form, &back).is_ok_and(|d| d.value.same(&was.value)), "{back:?}");
    }
}

/// JSON that is taken is JSON to others, and says the same to them.
fn read_as_others_do(text: &str, value: &Value) {
    let theirs: serde_json::Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .unwrap_or_else(|e| panic!("{e}: {text:?} was taken"));
    assert!(same_json(value, &theirs), "{text:?} is {}", value.canonical());
}

/// JSON that is refused is none to others either, but for what is refused on purpose.
fn refused_json(text: &str, refusal: &Refusal) {
    let ours = ["twice", "deeper", "values", "would be empty"];
    if text.starts_with('\u{feff}') || ours.iter().any(|w| refusal.message.contains(w)) {
        return;
    }
    let theirs = serde_json::from_str::<serde_json::Value>(text);
    assert!(theirs.is_err(), "{refusal:?}: {text:?}");
}

fn same_json(ours: &Value, theirs: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    match (ours, theirs) {
        (Value::Null, Json::Null) => true,
        (Value::Bool(a), Json::Bool(b)) => a == b,
        (Value::Num(a), Json::Number(b)) => number(a) == number(&b.to_string()),
        (Value::Str(a), Json::String(b)) => a == b,
        (Value::Seq(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(x, y)| same_json(x, y))
        }
        (Value::Map(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same_json(v, w)))
        }
        _ => false,
    }
}

/// A value written from nothing reads as the value, in either form, to other readers too.
fn renders(value: &Value) {
    for form in FORMS {
        let text = render::document(form, value);
        let read = read_any(form, &text).unwrap_or_else(|r| panic!("{r:?}: {text:?}"));
        assert!(read.value.same(value), "{text:?} is not {}", value.canonical());
        assert_eq!(render::document(form, &read.value), text, "rendered again");
        match form {
            Form::Json => read_as_others_do(&text, value),
            Form::Yaml => {
                let theirs: serde_yaml::Value = match serde_yaml::from_str(&text) {
                    // Not all of them have whole numbers of any size.
                    Err(e) if e.to_string().contains("128, expected") => continue,
                    theirs => theirs.unwrap_or_else(|e| panic!("{e}: {text:?} was written")),
                };
                assert!(same_yaml(value, &theirs), "{text:?} is {theirs:?} to others");
            }
        }
    }
}

fn same_yaml(ours: &Value, theirs: &serde_yaml::Value) -> bool {
    use serde_yaml::Value as Yaml;
    match (ours, theirs) {
        (Value::Null, Yaml::Null) => true,
        (Value::Bool(a), Yaml::Bool(b)) => a == b,
        // How large a number may be differs; that it is one does not.
        (Value::Num(_), Yaml::Number(_)) => true,
        (Value::Num(a), Yaml::String(b)) => {
            let no_float = a.parse::<f64>().is_ok_and(f64::is_infinite);
            no_float || a.len() > 18 && b.len() > 18
        }
        (Value::Str(a), Yaml::String(b)) => a == b,
        (Value::Seq(a), Yaml::Sequence(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(x, y)| same_yaml(x, y))
        }
        (Value::Map(a), Yaml::Mapping(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same_yaml(v, w)))
        }
        _ => false,
    }
}

/// Single keys, set and taken out: what is before and behind the changed value keeps its bytes.
fn orders(form: Form, text: &str, root: &Node, orders: &str) {
    for order in orders.lines().take(8) {
        let (path, new) = match order.strip_prefix("- ") {
            Some(path) => (path, None),
            None => match order.split_once(" = ") {
                Some((path, new)) => (path, keys::parse_json(new)),
                None => continue,
            },
        };
        let Ok(path) = KeyPath::parse(path) else { continue };
        let spelt = path.to_string();
        assert_eq!(KeyPath::parse(&spelt).as_ref(), Ok(&path), "{spelt}");
        let mut value = root.value();
        match new {
            Some(new) => {
                if path.set(&mut value, new.clone()).is_err() {
                    continue;
                }
                reached(form, text, &value);
                if scalar(&new) {
                    neighbours_stay(form, text, root, &path, &value);
                }
            }
            None => {
                let there = path.get(&value).is_some();
                assert_eq!(path.unset(&mut value), there && !path.0.is_empty(), "{spelt}");
                reached(form, text, &value);
            }
        }
    }
}

fn scalar(value: &Value) -> bool {
    !matches!(value, Value::Map(_) | Value::Seq(_))
}

/// A scalar in the place of one written on one line, without anchors anywhere: all other bytes
/// stay.
fn neighbours_stay(form: Form, text: &str, root: &Node, path: &KeyPath, value: &Value) {
    let Some(node) = find(root, path) else { return };
    // Texts with other ends of lines than ours, as older versions of YAML have them, and those with
    // control characters are written anew.
    let odd =
        |c: char| (c.is_control() && c != '\n' && c != '\t') || "\u{2028}\u{2029}".contains(c);
    if text.replace("\r\n", "\n").contains(odd) {
        return;
    }
    let plain = matches!(node.style, Style::Plain | Style::Single | Style::Double);
    if !plain || anchored(root) || node.tag.is_some() || text[node.start..node.end].contains('\n') {
        return;
    }
    // A value that stands on a line of its own may go up to its key.
    if text[..node.head].trim_end_matches([' ', '\t']).ends_with('\n') {
        return;
    }
    let edited = reach(form, text, value);
    assert!(edited.starts_with(&text[..node.head]), "{path}: {text:?} became {edited:?}");
    assert!(edited.ends_with(&text[node.end..]), "{path}: {text:?} became {edited:?}");
}

fn find<'n>(root: &'n Node, path: &KeyPath) -> Option<&'n Node> {
    use super::path::Step;
    path.0.iter().try_fold(root, |node, step| match (step, &node.kind) {
        (Step::Key(k), Kind::Map(entries)) => {
            entries.iter().find(|e| e.key == *k).map(|e| &e.value)
        }
        (Step::At(i), Kind::Seq(items)) => items.get(*i).map(|i| &i.value),
        _ => None,
    })
}

fn anchored(node: &Node) -> bool {
    node.anchor.is_some()
        || node.style == Style::Alias
        || match &node.kind {
            Kind::Scalar(_) => false,
            Kind::Seq(items) => items.iter().any(|i| anchored(&i.value)),
            Kind::Map(entries) => entries.iter().any(|e| anchored(&e.value)),
        }
}

fn view(form: Form) -> View {
    match form {
        Form::Json => View::ConfigJson,
        Form::Yaml => View::ConfigYaml,
    }
}

fn save(
    form: Form,
    seen: Option<&State>,
    written: Written<'_>,
    current: &State,
) -> Result<Plan, Refusal> {
    let (view, rows) = (view(form), None);
    let save = Save { view, seen, written, current, outside_since_seen: false, rows };
    ConfigDocument::new(None, None).plan(&save, &CX)
}

fn whole(form: Form, seen: Option<&State>, text: &[u8], now: &State) -> Result<Plan, Refusal> {
    save(form, seen, Written::Whole(text), now)
}

fn shown(form: Form, state: &State) -> String {
    ConfigState::of(state).text(form).unwrap_or_default().to_owned()
}

/// Base, ours (committed first), theirs (saved by one who has seen the base), each JSON or YAML,
/// and perhaps appends to `config.yaml`.
pub fn merge(input: &[u8]) {
    let parts = parts(input);
    let [base, ours, theirs, more @ ..] = &parts[..] else { return };
    let none = ConfigDocument::new(None, None).fresh();
    let form_of = |text: &[u8]| match text.trim_ascii_start() {
        [b'{', ..] => Form::Json,
        _ => Form::Yaml,
    };
    let (fb, fo, ft) = (form_of(base), form_of(ours), form_of(theirs));
    let Ok(b) = whole(fb, None, base, &none) else { return };
    let b = b.next;
    sound(&b);
    let c = match whole(fo, Some(&b), ours, &b) {
        Ok(plan) => plan.next,
        Err(refusal) => return is_refusal(&refusal, ours),
    };
    sound(&c);
    let has_version = [&b, &c].iter().any(|s| value(s).entry("version").is_some());
    if !has_version {
        assert_eq!(shown(fo, &c).as_bytes(), *ours, "merge(base, base, ours)");
    }
    for form in FORMS {
        // merge(base, ours, base) and merge(base, ours, ours).
        for state in [&b, &c] {
            let plan = whole(form, Some(&b), shown(form, state).as_bytes(), &c);
            let plan = plan.unwrap_or_else(|r| panic!("{r:?}"));
            assert!(value(&plan.next).same(&value(&c)), "{}", shown(form, &plan.next));
        }
    }
    match whole(ft, Some(&b), theirs, &c) {
        Ok(plan) => merged(&b, &c, ft, theirs, &plan),
        Err(refusal) => is_refusal(&refusal, theirs),
    }
    match whole(ft, None, theirs, &c) {
        Ok(plan) => only_set(&c, &plan.next),
        Err(refusal) => is_refusal(&refusal, theirs),
    }
    for fragment in more {
        match save(Form::Yaml, None, Written::Fragment(fragment), &c) {
            Ok(plan) => only_set(&c, &plan.next),
            Err(refusal) => assert!(!refusal.message.is_empty()),
        }
    }
}

fn value(state: &State) -> Value {
    ConfigState::of(state).value().cloned().unwrap_or(Value::Map(Vec::new()))
}

/// Both names say the same, and the archive says all of it.
fn sound(state: &State) {
    let s = ConfigState::of(state);
    for form in FORMS {
        let Some(text) = s.text(form) else { return };
        let read = read(form, text).unwrap_or_else(|r| panic!("{r:?}: {text:?}"));
        assert!(read.value.same(&value(state)), "{text:?}");
    }
    let archive = state.archive();
    let again = ConfigState::decode(&archive.to_vec()).unwrap_or_else(|e| panic!("{e}"));
    let again: State = Arc::new(again);
    assert!(again.archive() == archive);
    for form in FORMS {
        assert_eq!(shown(form, &again), shown(form, state));
    }
}

fn merged(b: &State, c: &State, form: Form, theirs: &[u8], plan: &Plan) {
    sound(&plan.next);
    let Ok(theirs_text) = std::str::from_utf8(theirs) else { return };
    let Ok(t) = read(form, theirs_text) else { return };
    let (b_value, c_value, m) = (value(b), value(c), value(&plan.next));
    let said = || format!("{} in {:?}", m.canonical(), shown(form, &plan.next));
    // A program of an older version is another matter.
    if [&b_value, &c_value, &t.value].iter().all(|v| v.entry("version").is_none()) {
        if [&b_value, &c_value, &t.value].iter().all(|v| no_list(v)) {
            let wanted = three(Some(&b_value), Some(&t.value), Some(&c_value));
            assert!(
                wanted.as_ref().is_some_and(|w| w.same(&m)),
                "{wanted:?} is wanted: {}",
                said()
            );
            let target = super::merge::merge(Some(&b_value), &t.value, &c_value).value;
            in_order(&c_value, &target);
        }
        comments_stay(form, b, c, theirs_text, &plan.next);
    }
    let again = whole(form, Some(&plan.believed), theirs, &plan.next);
    let again = again.unwrap_or_else(|r| panic!("saved again: {r:?}"));
    assert!(
        value(&again.next).same(&m),
        "saved again: {} was {}",
        shown(form, &again.next),
        said()
    );
    if m.same(&c_value) && plan.overlaps.is_empty() && !Arc::ptr_eq(&plan.next, c) {
        // Layout alone may have changed; its texts must still be those of this value.
        assert!(b_value.same(&t.value), "a revision that changes nothing: {}", said());
    }
}

fn no_list(value: &Value) -> bool {
    match value {
        Value::Seq(_) => false,
        Value::Map(m) => m.iter().all(|(_, v)| no_list(v)),
        _ => true,
    }
}

/// The merge by key path, as merge.md has it; `None`: not there.
fn three(s: Option<&Value>, w: Option<&Value>, c: Option<&Value>) -> Option<Value> {
    let same = |a: Option<&Value>, b: Option<&Value>| match (a, b) {
        (Some(a), Some(b)) => a.same(b),
        (a, b) => a.is_none() && b.is_none(),
    };
    if same(w, s) || same(w, c) {
        return c.cloned();
    }
    if same(c, s) {
        return w.cloned();
    }
    match (w, c) {
        (Some(Value::Map(w)), Some(Value::Map(c))) => {
            let in_map =
                |m: &[(String, Value)], k: &str| m.iter().find(|e| e.0 == k).map(|e| e.1.clone());
            let mut keys: Vec<&String> = c.iter().chain(w).map(|(k, _)| k).collect();
            let mut had = HashSet::new();
            keys.retain(|k| had.insert(*k));
            let merged = keys.into_iter().filter_map(|k| {
                let (w, c) = (in_map(w, k), in_map(c, k));
                let s = s.and_then(|s| s.entry(k));
                Some((k.clone(), three(s, w.as_ref(), c.as_ref())?))
            });
            Some(Value::Map(merged.collect()))
        }
        // A removal never beats a change; else the later one wins.
        (None, c) => c.cloned(),
        (w, _) => w.cloned(),
    }
}

/// Keys that both have stand in the order of the current version.
fn in_order(c: &Value, m: &Value) {
    let (Value::Map(c), Value::Map(m)) = (c, m) else { return };
    let in_c: HashSet<&String> = c.iter().map(|(k, _)| k).collect();
    let common: Vec<&String> = m.iter().map(|(k, _)| k).filter(|k| in_c.contains(k)).collect();
    let in_m: HashSet<&String> = m.iter().map(|(k, _)| k).collect();
    let wanted: Vec<&String> = c.iter().map(|(k, _)| k).filter(|k| in_m.contains(k)).collect();
    assert_eq!(common, wanted, "the order of keys");
    for (k, v) in c {
        if let Some((_, n)) = m.iter().find(|(n, _)| n == k) {
            in_order(v, n);
        }
    }
}

/// Comments on lines of their own that came since the base stay, when the writer took nothing
/// out.
fn comments_stay(form: Form, b: &State, c: &State, theirs: &str, next: &State) {
    let texts = (form == Form::Yaml).then(|| (shown(form, b), shown(form, c)));
    let Some((base, ours)) = texts else { return };
    let comments = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|l| l.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    let odd = |t: &str| t.contains(['|', '>', '&', '*', '"', '\'', '\r', '\t']);
    let (in_base, in_theirs) = (comments(&base), comments(theirs));
    // Of comments that both have put among lines which both have changed, the later ones stay.
    let none_own = in_theirs.iter().all(|l| in_base.contains(l));
    let kept_all = in_base.iter().all(|l| in_theirs.contains(l));
    if !kept_all || !none_own || [&base, &ours, theirs].iter().any(|t| odd(t)) {
        return;
    }
    let (base_value, theirs_value) = (value(b), read(form, theirs).map(|d| d.value));
    let Ok(theirs_value) = theirs_value else { return };
    if !keeps_keys(&base_value, &theirs_value) || !keeps_keys(&base_value, &value(c)) {
        return;
    }
    let after = comments(&shown(form, next));
    // A line that was made a comment is an edited line, and the later edit wins.
    for line in comments(&ours).iter().filter(|l| !in_base.contains(l) && !l.contains(':')) {
        assert!(after.contains(line), "{line:?} is lost in {:?}", shown(form, next));
    }
}

fn keeps_keys(base: &Value, theirs: &Value) -> bool {
    match (base, theirs) {
        (Value::Map(b), Value::Map(_)) => {
            b.iter().all(|(k, v)| theirs.entry(k).is_some_and(|w| keeps_keys(v, w)))
        }
        (Value::Map(_), _) | (Value::Seq(_), _) => base.same(theirs),
        _ => true,
    }
}

/// R3: a save by one who has seen nothing sets keys and takes none out, at any depth.
fn only_set(c: &State, next: &State) {
    sound(next);
    has_keys(&value(c), &value(next));
}

fn has_keys(c: &Value, m: &Value) {
    if let Value::Map(keys) = c {
        for (k, v) in keys {
            let now = m.entry(k);
            assert!(now.is_some(), "{k:?} is gone in {}", m.canonical());
            now.into_iter().for_each(|n| has_keys(v, n));
        }
    }
}
