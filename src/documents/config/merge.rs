//! Three-way merge of config values by key path (merge.md, Config).

use super::lists::{self, Merged};
use super::path::{KeyPath, Step};
use super::render;
use super::value::{Index, Value};
use crate::model::Overlap;
use crate::text::similarity;

/// Longest value shown in an overlap, in characters.
const SHOWN: usize = 200;

/// A merged value, and where the two sides met.
pub(super) struct Merge {
    /// The value after both changes.
    pub value: Value,
    /// Where they changed the same thing (R4).
    pub overlaps: Vec<Overlap>,
}

/// How alike an element is to what it was, at least.
const ALIKE: f64 = 0.5;

/// Merges `written` into `current`. `seen` is what the writer had looked at; without it the
/// save only sets keys and removes nothing (R3).
pub(super) fn merge(seen: Option<&Value>, written: &Value, current: &Value) -> Merge {
    let mut m = Merger { overlaps: Vec::new() };
    let at = KeyPath::default();
    let value = match seen {
        Some(seen) => m.three(Some(seen), written, current, &at),
        None => m.set(written, current),
    };
    Merge { value, overlaps: m.overlaps }
}

struct Merger {
    overlaps: Vec<Overlap>,
}

fn show(value: Option<&Value>) -> String {
    let Some(value) = value else { return "(removed)".into() };
    let mut out = String::new();
    let layout = render::Layout { unit: None, ..render::Layout::default() };
    render::json(value, &layout, "", &mut out);
    match out.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &out[..at]),
        None => out,
    }
}

impl Merger {
    fn overlap(&mut self, at: &KeyPath, earlier: Option<&Value>, stands: &Value) {
        self.overlaps.push(Overlap {
            what: at.to_string(),
            earlier: show(earlier),
            later: show(Some(stands)),
        });
    }

    /// A blind save: keys are set at any depth, elements with an identity too.
    fn set(&mut self, written: &Value, current: &Value) -> Value {
        match (written, current) {
            (Value::Map(w), Value::Map(c)) => {
                let names = Index::new(w.iter().map(|(k, _)| k.as_str()));
                let merged = c
                    .iter()
                    .map(|(k, v)| match names.get(k) {
                        Some(i) => (k.clone(), self.set(&w[i].1, v)),
                        None => (k.clone(), v.clone()),
                    })
                    .collect();
                weave(merged, w)
            }
            (Value::Seq(w), Value::Seq(c)) => match identity(&[w, c]) {
                Some((wi, ci)) => {
                    let names = Index::new(wi.iter().map(String::as_str));
                    let merged = ci
                        .iter()
                        .zip(c)
                        .map(|(id, v)| match names.get(id) {
                            Some(i) => (id.clone(), self.set(&w[i], v)),
                            None => (id.clone(), v.clone()),
                        })
                        .collect();
                    unkeyed(weave(merged, &keyed(&wi, w)))
                }
                None => keep_spelling(written, current),
            },
            _ => keep_spelling(written, current),
        }
    }

    fn three(
        &mut self,
        seen: Option<&Value>,
        written: &Value,
        current: &Value,
        at: &KeyPath,
    ) -> Value {
        if written.same(current) || seen.is_some_and(|s| s.same(written)) {
            return current.clone();
        }
        match (written, current) {
            (Value::Map(w), Value::Map(c)) => {
                let nothing = Vec::new();
                let s = match seen {
                    Some(Value::Map(s)) => s,
                    _ => &nothing,
                };
                return Value::Map(self.maps(s, w, c, &|k| at.key(k)));
            }
            (Value::Seq(w), Value::Seq(c)) => {
                let nothing = Vec::new();
                let s = match seen {
                    Some(Value::Seq(s)) => s,
                    _ => &nothing,
                };
                return Value::Seq(self.arrays(s, w, c, at));
            }
            _ => {}
        }
        if !seen.is_some_and(|s| s.same(current)) {
            self.overlap(at, Some(current), written);
        }
        written.clone()
    }

    /// Also elements with an identity, which are keys then; the order is that of `c`, what
    /// only `w` has stands after what it follows there.
    fn maps(
        &mut self,
        s: &[(String, Value)],
        w: &[(String, Value)],
        c: &[(String, Value)],
        path: &dyn Fn(&str) -> KeyPath,
    ) -> Vec<(String, Value)> {
        let names = |m: &'_ [(String, Value)]| -> std::collections::HashMap<String, usize> {
            m.iter().enumerate().map(|(i, (k, _))| (k.clone(), i)).collect()
        };
        let (si, wi, ci) = (names(s), names(w), names(c));
        let mut merged: Vec<(String, Value)> = Vec::new();
        for (k, cv) in c {
            let sv = si.get(k).map(|i| &s[*i].1);
            match wi.get(k) {
                Some(i) => {
                    let v = self.three(sv, &w[*i].1, cv, &path(k));
                    merged.push((k.clone(), v));
                }
                None => match sv {
                    // Seen and left out: removed, unless it was changed meanwhile.
                    Some(sv) if sv.same(cv) => {}
                    Some(_) => {
                        self.overlap(&path(k), Some(cv), cv);
                        merged.push((k.clone(), cv.clone()));
                    }
                    None => merged.push((k.clone(), cv.clone())),
                },
            }
        }
        let mut new: Vec<(String, Value)> = Vec::new();
        for (k, wv) in w {
            let gone = !ci.contains_key(k) && si.get(k).is_some_and(|i| s[*i].1.same(wv));
            if !ci.contains_key(k) && !gone && si.contains_key(k) {
                // Removed by the other side, changed by this one: it stays, whole.
                self.overlap(&path(k), None, wv);
            }
            if !gone {
                new.push((k.clone(), wv.clone()));
            }
        }
        match weave(merged, &new) {
            Value::Map(m) => m,
            _ => Vec::new(),
        }
    }

    fn arrays(&mut self, s: &[Value], w: &[Value], c: &[Value], at: &KeyPath) -> Vec<Value> {
        if let Some((ids, field)) = identities(&[s, w, c]) {
            let [si, wi, ci] = &ids[..] else { return w.to_vec() };
            let places = Index::new(wi.iter().map(String::as_str));
            let path = |id: &str| match places.get(id) {
                Some(i) => at.at(i),
                None => at.step(Step::Element {
                    field: Some(field.to_owned()),
                    is: id.get(1..).unwrap_or("").to_owned(),
                }),
            };
            let (s, w, c) = (keyed(si, s), keyed(wi, w), keyed(ci, c));
            let merged = self.maps(&s, &w, &c, &path);
            return reordered(merged, si, wi, ci).into_iter().map(|(_, v)| v).collect();
        }
        let forms = [s, w, c].map(|l| l.iter().map(Value::canonical).collect::<Vec<_>>());
        let classes = lists::classes(&forms);
        let [sn, wn, cn] = &classes[..] else { return w.to_vec() };
        lists::merge(sn, wn, cn, |i, j, k| apart(&s[i], &w[j], &c[k]))
            .into_iter()
            .map(|m| match m {
                Merged::Current(i) => c[i].clone(),
                Merged::Written(i) => w[i].clone(),
                Merged::Both(i, j, k) => self.three(Some(&s[i]), &w[j], &c[k], &at.at(j)),
            })
            .collect()
    }
}

/// Whether what stands in the place of an element of a list are two elements: sentences that are not
/// both the old one in other words. Of a word, as in a list of arguments, the place decides.
fn apart(seen: &Value, written: &Value, current: &Value) -> bool {
    let (Value::Str(s), Value::Str(w), Value::Str(c)) = (seen, written, current) else {
        return false;
    };
    let alike = |text: &str| similarity(s, text, ALIKE).is_some();
    s.trim().contains(char::is_whitespace) && !(alike(w) && alike(c))
}

/// The written value, but numbers that did not change keep the current spelling.
fn keep_spelling(written: &Value, current: &Value) -> Value {
    if written.same(current) { current.clone() } else { written.clone() }
}

/// Puts what `from` has more into `into`, each after what it follows in `from` and after
/// what only `into` has there.
fn weave(into: Vec<(String, Value)>, from: &[(String, Value)]) -> Value {
    let have = Index::new(into.iter().map(|(k, _)| k.as_str()));
    let theirs = Index::new(from.iter().map(|(k, _)| k.as_str()));
    let mut after: Vec<Vec<(String, Value)>> = vec![Vec::new(); into.len() + 1];
    let mut slot = into.len();
    let mut first = true;
    for (k, v) in from {
        match have.get(k) {
            Some(i) => {
                slot = i + 1;
                while slot < into.len() && !theirs.has(&into[slot].0) {
                    slot += 1;
                }
                first = false;
            }
            None => {
                let at = if first { into.len() } else { slot };
                after[at].push((k.clone(), v.clone()));
            }
        }
    }
    let mut out = Vec::with_capacity(into.len() + from.len());
    let mut after = after.into_iter();
    out.extend(after.next().unwrap_or_default());
    for (entry, more) in into.into_iter().zip(after) {
        out.push(entry);
        out.extend(more);
    }
    Value::Map(out)
}

fn keyed(ids: &[String], list: &[Value]) -> Vec<(String, Value)> {
    ids.iter().cloned().zip(list.iter().cloned()).collect()
}

fn unkeyed(map: Value) -> Value {
    match map {
        Value::Map(m) => Value::Seq(m.into_iter().map(|(_, v)| v).collect()),
        other => other,
    }
}

/// A reorder by the writer holds when nobody else reordered.
fn reordered(
    merged: Vec<(String, Value)>,
    s: &[String],
    w: &[String],
    c: &[String],
) -> Vec<(String, Value)> {
    let common = |list: &[String], others: [&[String]; 2]| -> Vec<String> {
        let [a, b] = others.map(|o| Index::new(o.iter().map(String::as_str)));
        list.iter().filter(|id| a.has(id) && b.has(id)).cloned().collect()
    };
    let (in_s, in_w, in_c) = (common(s, [w, c]), common(w, [s, c]), common(c, [s, w]));
    if in_w == in_s || in_c != in_s {
        return merged;
    }
    let place = Index::new(in_w.iter().map(String::as_str));
    let mut moved: Vec<(String, Value)> =
        merged.iter().filter(|(id, _)| place.has(id)).cloned().collect();
    moved.sort_by_key(|(id, _)| place.get(id));
    let mut moved = moved.into_iter();
    merged
        .into_iter()
        .map(|e| if place.has(&e.0) { moved.next().unwrap_or(e) } else { e })
        .collect()
}

fn identity(lists: &[&[Value]; 2]) -> Option<(Vec<String>, Vec<String>)> {
    let (ids, _) = identities(lists)?;
    let [a, b] = &ids[..] else { return None };
    Some((a.clone(), b.clone()))
}

/// The identities of the elements when these are arrays of objects that all have a unique
/// `id`, or all a unique `name`, and which of the two it is.
pub(super) fn identities(lists: &[&[Value]]) -> Option<(Vec<Vec<String>>, &'static str)> {
    if lists.iter().all(|l| l.is_empty()) {
        return None;
    }
    ["id", "name"].into_iter().find_map(|field| {
        let ids: Option<Vec<Vec<String>>> = lists
            .iter()
            .map(|list| {
                let mut seen = std::collections::HashSet::new();
                list.iter()
                    .map(|v| {
                        let id = match v.entry(field)? {
                            Value::Str(s) => format!("s{s}"),
                            Value::Num(n) => format!("n{}", super::value::number(n)?),
                            _ => return None,
                        };
                        seen.insert(id.clone()).then_some(id)
                    })
                    .collect()
            })
            .collect();
        ids.map(|ids| (ids, field))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Value {
        Value::Seq(texts.iter().map(|t| Value::Str((*t).into())).collect())
    }

    #[track_caller]
    fn merges(seen: &[&str], written: &[&str], current: &[&str], to: &[&str]) {
        let m = merge(Some(&list(seen)), &list(written), &list(current));
        assert!(m.value.same(&list(to)), "{}", show(Some(&m.value)));
    }

    #[test]
    fn a_sentence_in_the_place_of_one_that_is_reworded_stays() {
        let (old, reworded, other) = ("fix the login", "fix the login today", "mango lagoon");
        merges(&[old, "z"], &[reworded, "z"], &[other, "z"], &[other, reworded, "z"]);
        merges(&[old, "z"], &[other, "z"], &[reworded, "z"], &[reworded, other, "z"]);
        merges(&[old, "z"], &[other, "z"], &["write it down", "z"], &["write it down", other, "z"]);
        // Two wordings of one are one; of a word the place decides.
        merges(&[old], &[reworded], &["fix the login soon"], &[reworded]);
        merges(&["--port", "80"], &["--port", "81"], &["--port", "443"], &["--port", "81"]);
        // What both have put there is there once, whatever else was taken out beside it.
        let two = [old, "violet oyster"];
        merges(&two, &["write it down", other], &[other], &[other, "write it down"]);
    }
}
