//! Texts in JSON or YAML that are no config: read, merged by key and edited in the same way,
//! with anything at their top level.

use std::collections::{HashMap, HashSet};

use super::KeyPath;
use super::edit::reach;
use super::merge::{self, identities};
use super::save::carry;
use super::summary;
pub use super::tree::text_of;
use super::tree::{Doc, Form, read_any};
use super::unread::Unread;
use super::value::Value;
use crate::model::{Overlap, Refusal};

/// A text and what it says.
pub struct Reading<'t> {
    /// The form that it was read as.
    pub form: Form,
    /// The text itself.
    pub text: &'t str,
    doc: Doc,
}

impl<'t> Reading<'t> {
    /// Reads a whole text. Refuses what is not UTF-8, not strict JSON or not one YAML document,
    /// and as [`crate::model::Reason::Empty`] what holds no value.
    pub fn new(form: Form, bytes: &'t [u8]) -> Result<Reading<'t>, Refusal> {
        let text = text_of(bytes)?;
        Ok(Reading { form, text, doc: read_any(form, text)? })
    }

    /// Its value.
    pub fn value(&self) -> &Value {
        &self.doc.value
    }

    /// The line, from 1, of this key at the top level, or of the whole.
    pub fn line_of(&self, key: &str) -> usize {
        self.doc.root.line_of(&KeyPath::default().key(key))
    }
}

/// A merged text, and where the two sides met (R4).
pub struct Merged {
    /// The text after both changes.
    pub text: String,
    /// Where they changed the same thing.
    pub overlaps: Vec<Overlap>,
}

/// What a writer had seen.
pub enum Seen<'a> {
    /// Nothing: its save only sets keys (R3).
    Nothing,
    /// A file without content.
    Blank,
    /// This text.
    Text(&'a Reading<'a>),
}

/// Merges a whole text into the current one. `None`: nothing changes. Refused is a blind save
/// that would put something else in the place of everything that is there.
pub fn merge(
    seen: &Seen<'_>,
    written: &Reading<'_>,
    current: &Reading<'_>,
) -> Result<Option<Merged>, Refusal> {
    let (w, c) = (written.value(), current.value());
    let empty = match w {
        Value::Seq(_) => Value::Seq(Vec::new()),
        _ => Value::Map(Vec::new()),
    };
    let (base, base_text) = match seen {
        Seen::Nothing => (None, None),
        Seen::Blank => (Some(&empty), None),
        Seen::Text(r) => (Some(r.value()), Some(r.text)),
    };
    if base.is_none()
        && let Some(unread) = Unread::find(None, w, c)
    {
        return Err(unread.refusal().at_line(written.doc.root.line_of(&unread.path)));
    }
    let (target, overlaps) = match (base, w, c) {
        (None, Value::Seq(w), Value::Seq(c)) if identities(&[w, c]).is_none() => {
            (Value::Seq(united(w, c)), Vec::new())
        }
        _ => {
            let mut m = merge::merge(base, w, c);
            for overlap in m.overlaps.iter_mut().filter(|o| o.what.is_empty()) {
                overlap.what = "the whole value".into();
            }
            (m.value, m.overlaps)
        }
    };
    // A writer that changed only comments or layout changed something all the same.
    let layout_only = base.is_some_and(|b| b.same(w)) && base_text != Some(written.text);
    if target.same(c) && !layout_only {
        return Ok(None);
    }
    let text = carry(written.form, base_text, written.text, current.text, &target);
    Ok((text != current.text).then_some(Merged { text, overlaps }))
}

/// The text of a save onto one that holds nothing but comments: these stay, unless the writer had
/// seen them and left them out. `None`: nothing changes, the writer had seen what it wrote.
pub fn beside_comments(seen: Option<&str>, written: &Reading<'_>, current: &str) -> Option<String> {
    if seen == Some(written.text) {
        return None;
    }
    let had: HashSet<&str> = seen.unwrap_or_default().lines().map(str::trim).collect();
    let unseen = current.split_inclusive('\n').filter(|l| !had.contains(l.trim()));
    let mut joined: String = unseen.collect();
    if !(joined.is_empty() || joined.ends_with('\n')) {
        joined.push('\n');
    }
    joined.push_str(written.text);
    let same = read_any(written.form, &joined).is_ok_and(|d| d.value.same(written.value()));
    Some(if same { joined } else { written.text.to_owned() })
}

/// A blind save of a list without identities: it adds what is not there, as often as it has it.
fn united(written: &[Value], current: &[Value]) -> Vec<Value> {
    let mut have: HashMap<String, usize> = HashMap::new();
    for v in current {
        *have.entry(v.canonical()).or_default() += 1;
    }
    let mut out = current.to_vec();
    for v in written {
        match have.get_mut(&v.canonical()) {
            Some(n) if *n > 0 => *n -= 1,
            _ => out.push(v.clone()),
        }
    }
    out
}

/// The current text with a fragment at its end (R5). In YAML keys at the margin are set,
/// whatever the text ends with.
pub fn appended(
    seen: Option<&Reading<'_>>,
    current: &Reading<'_>,
    fragment: &str,
) -> Result<String, Refusal> {
    let (form, now, value) = (current.form, current.text, current.value());
    let glue = if now.is_empty() || now.ends_with('\n') || form == Form::Json { "" } else { "\n" };
    let joined = format!("{now}{glue}{fragment}");
    let both = read_any(form, &joined);
    if form == Form::Json {
        return match both {
            Ok(_) => Ok(joined),
            Err(r) => Err(r.hint("what is appended to JSON must leave one valid value")),
        };
    }
    match (read_any(form, fragment), both) {
        (Ok(own), both)
            if !fragment.starts_with([' ', '\t'])
                && matches!((&own.value, value), (Value::Map(_), Value::Map(_))) =>
        {
            let seen = seen.map(Reading::value);
            if let Some(unread) = Unread::find(seen, &own.value, value) {
                return Err(unread.refusal().at_line(own.root.line_of(&unread.path)));
            }
            let target = merge::merge(None, &own.value, value).value;
            match both {
                Ok(both) if both.value.same(&target) => Ok(joined),
                _ => Ok(reach(form, now, &target)),
            }
        }
        (_, Ok(_)) => Ok(joined),
        (Ok(_), Err(r)) | (Err(r), Err(_)) => Err(r.hint("append whole lines such as key: value")),
    }
}

/// One line about a change, such as `set a.b; removed c`. Both have content.
pub fn summary(before: &Value, after: &Value) -> String {
    summary::of(Some(before), Some(after))
}
