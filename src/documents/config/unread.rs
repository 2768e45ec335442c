//! What a save that only sets keys must not do: put another kind of value in the place of an object
//! or an array that its writer has not read, and with it take out all that is in there (R3).

use std::collections::HashMap;

use super::merge::identities;
use super::path::{KeyPath, Step};
use super::value::{Index, Value};
use crate::model::{Reason, Refusal};

/// A blind save that would do so.
pub(super) struct Unread {
    /// Where.
    pub path: KeyPath,
    wrote: &'static str,
    there: &'static str,
}

impl Unread {
    /// The first place in `written` where it would be done to `current`. `seen`: what the writer
    /// has read, if anything; what is still as it was there may go.
    pub fn find(seen: Option<&Value>, written: &Value, current: &Value) -> Option<Unread> {
        let mut steps = Vec::new();
        let (wrote, there) = find(seen, written, current, &mut steps)?;
        steps.reverse();
        Some(Unread { path: KeyPath(steps), wrote, there })
    }

    /// Why the save is refused.
    pub fn refusal(&self) -> Refusal {
        let Unread { path, wrote, there } = self;
        let message = format!("{} in place of the {there} that its writer has not read", a(wrote));
        let refusal =
            Refusal::new(Reason::Invalid, message).hint("read the file before replacing it");
        if path.0.is_empty() { refusal } else { refusal.at_key(path.to_string()) }
    }
}

fn a(kind: &str) -> String {
    let an = kind.starts_with(['a', 'o']);
    format!("{} {kind}", if an { "an" } else { "a" })
}

/// The types of the two; the steps to them, last one first.
fn find(
    seen: Option<&Value>,
    written: &Value,
    current: &Value,
    steps: &mut Vec<Step>,
) -> Option<(&'static str, &'static str)> {
    let holds_something = match (written, current) {
        (Value::Map(w), Value::Map(c)) => {
            let names = Index::new(c.iter().map(|(k, _)| k.as_str()));
            return w.iter().find_map(|(k, v)| {
                let there = &c.get(names.get(k)?)?.1;
                let found = find(seen.and_then(|s| s.entry(k)), v, there, steps)?;
                steps.push(Step::Key(k.clone()));
                Some(found)
            });
        }
        (Value::Seq(w), Value::Seq(c)) => {
            // A list of values is a value.
            let (ids, field) = identities(&[w, c])?;
            let [wi, ci] = &ids[..] else { return None };
            let names = Index::new(ci.iter().map(String::as_str));
            let called = |v: &Value| v.entry(field).map(Value::canonical);
            let read: HashMap<String, &Value> = match seen {
                Some(Value::Seq(s)) => s.iter().filter_map(|v| Some((called(v)?, v))).collect(),
                _ => HashMap::new(),
            };
            return wi.iter().zip(w).enumerate().find_map(|(at, (id, v))| {
                let seen = called(v).and_then(|name| read.get(&name).copied());
                let found = find(seen, v, c.get(names.get(id)?)?, steps)?;
                steps.push(Step::At(at));
                Some(found)
            });
        }
        (_, Value::Map(m)) => !m.is_empty(),
        (_, Value::Seq(s)) => !s.is_empty(),
        _ => false,
    };
    let unread = holds_something && !seen.is_some_and(|s| s.same(current));
    unread.then(|| (written.type_name(), current.type_name()))
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Form, read_any};
    use super::*;

    #[test]
    fn what_was_not_read_is_not_replaced_by_something_else() {
        let value = |text: &str| read_any(Form::Yaml, text).unwrap().value;
        let found = |seen: Option<&str>, written: &str, current: &str| {
            Unread::find(seen.map(value).as_ref(), &value(written), &value(current))
                .map(|u| u.refusal().to_string())
        };
        for (seen, written, current, said) in [
            (None, "a: 1", "a: {b: 1}", Some("a: a number in place of the object that")),
            (None, "a: {b: x}", "a: {b: [1]}", Some("a.b: a string in place of the array that")),
            (None, "a: [1]", "a: {b: 1}", Some("a: an array in place of the object that")),
            (None, "a:", "a: {b: 1}", Some("a: a null in place of the object that")),
            (None, "x", "[1]", Some("a string in place of the array that")),
            (None, "t: [{id: 1, n: 1}]", "t: [{id: 2}, {id: 1, n: {x: 1}}]", Some("t[0].n: a num")),
            (None, "a: 1", "a: {}", None),
            (None, "a: {b: 1}", "a: 1", None),
            (None, "a: [1]", "a: [2, 3]", None),
            (Some("a: {b: 1}"), "a: 1", "a: {b: 1}", None),
            (Some("t: [{id: 1, n: [2]}]"), "t: [{id: 1, n: 1}]", "t: [{id: 1, n: [2]}]", None),
            (Some("a: {b: 2}"), "a: 1", "a: {b: 1}", Some("a: a number in place")),
        ] {
            let found = found(seen, written, current);
            let as_said = match (&found, said) {
                (Some(found), Some(said)) => found.starts_with(said),
                (found, said) => found.is_none() && said.is_none(),
            };
            assert!(as_said, "{written} over {current}: {found:?}");
        }
    }
}
