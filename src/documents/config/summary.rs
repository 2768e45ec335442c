//! One line about a change, for the history.

use super::path::KeyPath;
use super::value::{Index, Value};

/// Most key paths that are named.
const NAMED: usize = 4;

/// Such as `set koan.budget, tools; removed old`.
pub(super) fn of(before: Option<&Value>, after: Option<&Value>) -> String {
    let (before, after) = match (before, after) {
        (None, None) => return "no config".into(),
        (None, Some(_)) => return "config created".into(),
        (Some(_), None) => return "config removed".into(),
        (Some(b), Some(a)) => (b, a),
    };
    let (mut set, mut gone) = (Vec::new(), Vec::new());
    compare(before, after, &KeyPath::default(), &mut set, &mut gone);
    let list = |word: &str, paths: &[KeyPath]| {
        let mut named: Vec<String> = paths.iter().take(NAMED).map(KeyPath::to_string).collect();
        if paths.len() > NAMED {
            named.push(format!("{} more", paths.len() - NAMED));
        }
        format!("{word} {}", named.join(", "))
    };
    match (set.is_empty(), gone.is_empty()) {
        (true, true) => "layout changed".into(),
        (false, true) => list("set", &set),
        (true, false) => list("removed", &gone),
        (false, false) => format!("{}; {}", list("set", &set), list("removed", &gone)),
    }
}

fn compare(a: &Value, b: &Value, at: &KeyPath, set: &mut Vec<KeyPath>, gone: &mut Vec<KeyPath>) {
    let (Value::Map(x), Value::Map(y)) = (a, b) else {
        if !a.same(b) {
            set.push(at.clone());
        }
        return;
    };
    if x.len() == y.len() && x.iter().zip(y).all(|(a, b)| a.0 == b.0) {
        for ((k, a), (_, b)) in x.iter().zip(y) {
            // The path of what is the same need not be made.
            if !a.same(b) {
                compare(a, b, &at.key(k), set, gone);
            }
        }
        return;
    }
    let (was, is) =
        (Index::new(x.iter().map(|(k, _)| &**k)), Index::new(y.iter().map(|(k, _)| &**k)));
    for (k, v) in y {
        match was.get(k) {
            Some(i) => compare(&x[i].1, v, &at.key(k), set, gone),
            None => set.push(at.key(k)),
        }
    }
    gone.extend(x.iter().filter(|(k, _)| !is.has(k)).map(|(k, _)| at.key(k)));
}
