//! The `version` of a config: which of two programs is the older one.
//!
//! A whole number at the top level, if there is one. A save is refused for it only when it is
//! newer than both the stored one and the limit of the store; the stored one never goes down.
//!
//! A program writes its own `version`, so a payload whose version is below that of the text its
//! writer had seen comes from a program that is older than that text and knows only a part of
//! it. What it lacks, at any depth, it has not removed: it is put back as the writer had seen it
//! before anything is compared ([`complete`]). Programs and people of the same version pass
//! `version` on, and what they leave out is removed as R3 has it. So can an older program what
//! it has written itself: after its save it has seen its own text, with its own version.

use super::lists;
use super::merge::identities;
use super::path::KeyPath;
use super::value::{Index, Value, number};
use crate::model::{Reason, Refusal};

const KEY: &str = "version";

/// The version of a config; what is no whole number is none. One that is too large to be told
/// apart counts as the largest.
pub(super) fn of(value: &Value) -> Option<i64> {
    let entry = value.entry(KEY)?;
    if let Some(n) = entry.integer() {
        return Some(n);
    }
    let Value::Num(text) = entry else { return None };
    let n = number(text)?;
    (n.is_infinite() || n.fract() == 0.0).then_some(n as i64)
}

/// Refuses a version that is newer than both the one stored and the limit. `line`: where the
/// text says its version.
pub(super) fn check(
    value: &Value,
    stored: Option<i64>,
    limit: Option<i64>,
    line: impl FnOnce(&KeyPath) -> Option<usize>,
) -> Result<(), Refusal> {
    let (Some(new), Some(limit)) = (of(value), limit) else { return Ok(()) };
    if new <= limit || stored.is_some_and(|s| new <= s) {
        return Ok(());
    }
    let refusal = Refusal::new(
        Reason::Version,
        format!("version {new} is newer than {}", limit.max(stored.unwrap_or(limit))),
    )
    .at_key(KEY)
    .hint("this store takes no newer version (--config-version-limit)");
    Err(match line(&KeyPath::default().key(KEY)) {
        Some(line) => refusal.at_line(line),
        None => refusal,
    })
}

/// Whether the stored version would go down or away.
pub(super) fn falls(target: &Value, current: Option<&Value>) -> bool {
    current.and_then(of).is_some_and(|stored| of(target).is_none_or(|v| v < stored))
}

/// The stored version never goes down, nor away.
pub(super) fn keep(target: &mut Value, current: Option<&Value>) {
    if !falls(target, current) {
        return;
    }
    let (Value::Map(target), Some(Value::Map(current))) = (target, current) else { return };
    let Some(place) = current.iter().position(|(k, _)| k == KEY) else { return };
    match target.iter_mut().find(|(k, _)| k == KEY) {
        Some(e) => e.1 = current[place].1.clone(),
        None => {
            let before = Index::new(current[..place].iter().map(|(k, _)| k.as_str()));
            let at = target.iter().rposition(|(k, _)| before.has(k)).map_or(0, |i| i + 1);
            target.insert(at, current[place].clone());
        }
    }
}

/// Whether a payload comes from an older program than the text that its writer had seen.
/// `unsaid_is_older`: also when it says no version at all, as programs do that are older than
/// the key itself.
pub(super) fn is_older(written: &Value, seen: &Value, unsaid_is_older: bool) -> bool {
    match (of(written), of(seen)) {
        (Some(mine), Some(theirs)) => mine < theirs,
        (None, Some(_)) => unsaid_is_older,
        (_, None) => false,
    }
}

/// What was written, with all that it lacks of `seen` at any depth.
pub(super) fn complete(written: &Value, seen: &Value) -> Value {
    match (written, seen) {
        (Value::Map(w), Value::Map(s)) => Value::Map(with_keys(w, s)),
        (Value::Seq(w), Value::Seq(s)) => Value::Seq(with_elements(w, s)),
        _ => written.clone(),
    }
}

/// What only `s` has stands after what it follows there.
fn with_keys(w: &[(String, Value)], s: &[(String, Value)]) -> Vec<(String, Value)> {
    let seen = Index::new(s.iter().map(|(k, _)| k.as_str()));
    let have = Index::new(w.iter().map(|(k, _)| k.as_str()));
    let mut lacking: Vec<Vec<&(String, Value)>> = vec![Vec::new(); w.len() + 1];
    let mut after = 0;
    for entry in s {
        match have.get(&entry.0) {
            Some(i) => after = i + 1,
            None => lacking[after].push(entry),
        }
    }
    let mut out = Vec::with_capacity(w.len() + s.len());
    for (i, more) in lacking.into_iter().enumerate() {
        if let Some((k, v)) = i.checked_sub(1).and_then(|i| w.get(i)) {
            let v = seen.get(k).map_or_else(|| v.clone(), |at| complete(v, &s[at].1));
            out.push((k.clone(), v));
        }
        out.extend(more.into_iter().cloned());
    }
    out
}

/// Elements with an identity stay; of others, which are values of their array, the keys do.
fn with_elements(w: &[Value], s: &[Value]) -> Vec<Value> {
    if let Some((ids, _)) = identities(&[w, s])
        && let [wi, si] = &ids[..]
    {
        let keyed = |ids: &[String], list: &[Value]| -> Vec<(String, Value)> {
            ids.iter().cloned().zip(list.iter().cloned()).collect()
        };
        return with_keys(&keyed(wi, w), &keyed(si, s)).into_iter().map(|(_, v)| v).collect();
    }
    let forms = [s, w].map(|l| l.iter().map(Value::canonical).collect::<Vec<_>>());
    let mut out = w.to_vec();
    if let [from, to] = &lists::classes(&forms)[..] {
        for op in lists::diff(from, to) {
            if let similar::DiffOp::Replace { .. } = op {
                for (i, j) in op.old_range().zip(op.new_range()) {
                    out[j] = complete(&w[j], &s[i]);
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Form, read};
    use super::*;

    fn json(text: &str) -> Value {
        read(Form::Json, text).unwrap().value
    }

    #[test]
    fn what_an_older_program_lacks_is_put_back_at_every_depth() {
        for (written, seen, complete_is) in [
            (r#"{"a": 2}"#, r#"{"a": 1, "b": {"c": 1}}"#, r#"{"a": 2, "b": {"c": 1}}"#),
            (
                r#"{"a": {"b": {"x": 2}}}"#,
                r#"{"a": {"b": {"x": 1, "y": {"z": 1}}, "k": []}}"#,
                r#"{"a": {"b": {"x": 2, "y": {"z": 1}}, "k": []}}"#,
            ),
            (
                r#"{"t": [{"id": 2, "n": 2}]}"#,
                r#"{"t": [{"id": 1}, {"id": 2, "n": 1, "new": true}]}"#,
                r#"{"t": [{"id": 1}, {"id": 2, "n": 2, "new": true}]}"#,
            ),
            (
                r#"{"t": [{"n": 2}, {"n": 5}]}"#,
                r#"{"t": [{"n": 1, "new": true}, {"n": 5}]}"#,
                r#"{"t": [{"n": 2, "new": true}, {"n": 5}]}"#,
            ),
            // A list of values is a value.
            (r#"{"l": ["a"]}"#, r#"{"l": ["a", "b"]}"#, r#"{"l": ["a"]}"#),
            (r#"{"a": 1}"#, r#"{"a": {"b": 1}}"#, r#"{"a": 1}"#),
        ] {
            let got = complete(&json(written), &json(seen));
            assert!(got.same(&json(complete_is)), "{written}: {}", got.canonical());
        }
    }

    #[test]
    fn versions_are_whole_numbers() {
        for (text, version) in [
            ("3", Some(3)),
            ("3.0", Some(3)),
            ("-1", Some(-1)),
            ("1e400", Some(i64::MAX)),
            ("99999999999999999999", Some(i64::MAX)),
            ("2.5", None),
            ("\"3\"", None),
            ("null", None),
        ] {
            assert_eq!(of(&json(&format!("{{\"version\": {text}}}"))), version, "{text}");
        }
        assert_eq!(of(&json("{}")), None);
    }
}
