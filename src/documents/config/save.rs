//! What a save makes of the config.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::edit::reach;
use super::merge::{self, Merge};
use super::schema::Schema;
use super::state::ConfigState;
use super::summary;
use super::tree::{Form, Node, empty, read, read_any, read_value, text_of};
use super::unread::Unread;
use super::value::Value;
use super::version;
use crate::documents::files::lines::{self, Mode};
use crate::documents::{Plan, State};
use crate::model::{Overlap, Reason, Refusal};

/// What every save is held against.
pub(super) struct Rules<'a> {
    /// `config.schema.json`, if there is one.
    pub schema: Option<&'a Schema>,
    /// The newest `version` that is accepted, if there is a limit.
    pub version_limit: Option<i64>,
    /// A payload that says no `version` comes from a program older than any.
    pub unsaid_is_older: bool,
}

/// A save as a whole text.
pub(super) fn whole(
    form: Form,
    seen: Option<&State>,
    bytes: &[u8],
    current: &State,
    rules: &Rules<'_>,
) -> Result<Plan, Refusal> {
    taken(form, seen, text_of(bytes)?, current, rules, seen.is_none())
}

/// The same; `ask`: whether it puts something in the place of what its writer has not read.
fn taken(
    form: Form,
    seen: Option<&State>,
    text: &str,
    current: &State,
    rules: &Rules<'_>,
    ask: bool,
) -> Result<Plan, Refusal> {
    let cur = ConfigState::of(current);
    if cur.text(form) == Some(text) {
        return Ok(unchanged(current));
    }
    let writer = Writer::new(form, text, seen.map(ConfigState::of), cur, rules)?;
    if ask {
        set_only(None, form, text, &writer.read, cur.value())?;
    }
    let (target, overlaps) = writer.merge();
    if let Some(schema) = rules.schema {
        writer.check(&target, schema)?;
    }
    let (next, summary) = match writer.next(target) {
        Some(next) => (Arc::new(next) as State, None),
        None => (current.clone(), Some("no change".to_owned())),
    };
    let next = if same_texts(&next, current) { current.clone() } else { next };
    let summary =
        summary.unwrap_or_else(|| summary::of(cur.value(), ConfigState::of(&next).value()));
    let believed = match ConfigState::of(&next).text(form) == Some(text) {
        true => next.clone(),
        false => Arc::new(ConfigState::with(form, text, writer.read, None)),
    };
    Ok(Plan { next, believed, overlaps, summary })
}

/// A save that sets keys puts nothing else in the place of what its writer has not read.
fn set_only(
    seen: Option<&Value>,
    form: Form,
    text: &str,
    own: &Value,
    current: Option<&Value>,
) -> Result<(), Refusal> {
    let Some(unread) = current.and_then(|now| Unread::find(seen, own, now)) else { return Ok(()) };
    let refusal = unread.refusal();
    Err(match tree_of(form, text) {
        Some(root) => refusal.at_line(root.line_of(&unread.path)),
        None => refusal,
    })
}

/// Where everything stands in a text that was read: it is asked for refusals alone.
fn tree_of(form: Form, text: &str) -> Option<Node> {
    read(form, text).ok().map(|doc| doc.root)
}

/// A whole save on its way.
struct Writer<'a> {
    form: Form,
    text: &'a str,
    /// The value of the text.
    read: Arc<Value>,
    /// The same, with the stored version if its own is lower; of an older program with what that
    /// does not know.
    value: Arc<Value>,
    saw: Option<&'a ConfigState>,
    cur: &'a ConfigState,
}

impl<'a> Writer<'a> {
    fn new(
        form: Form,
        text: &'a str,
        saw: Option<&'a ConfigState>,
        cur: &'a ConfigState,
        rules: &Rules<'_>,
    ) -> Result<Writer<'a>, Refusal> {
        let read = Arc::new(read_value(form, text)?);
        version::check(&read, cur.value().and_then(version::of), rules.version_limit, |key| {
            tree_of(form, text).map(|root| root.line_of(key))
        })?;
        let mut value = match saw.and_then(ConfigState::value) {
            Some(seen) if version::is_older(&read, seen, rules.unsaid_is_older) => {
                Arc::new(version::complete(&read, seen))
            }
            _ => read.clone(),
        };
        if version::falls(&value, cur.value()) {
            version::keep(Arc::make_mut(&mut value), cur.value());
        }
        Ok(Writer { form, text, read, value, saw, cur })
    }

    /// It had seen the current bytes of the name that it saves (R6).
    fn is_current(&self) -> bool {
        self.saw.is_some_and(|s| s.text(self.form) == self.cur.text(self.form))
    }

    /// The value that it had seen; nothing is an object without keys.
    fn base(&self) -> Option<Value> {
        self.saw.map(|s| s.value().cloned().unwrap_or(Value::Map(Vec::new())))
    }

    fn merge(&self) -> (Arc<Value>, Vec<Overlap>) {
        match self.cur.value() {
            Some(now) if !self.is_current() => {
                let Merge { value, overlaps } =
                    merge::merge(self.base().as_ref(), &self.value, now);
                (Arc::new(value), overlaps)
            }
            _ => (self.value.clone(), Vec::new()),
        }
    }

    /// The text with its values changed to `target`.
    fn reached(&self, target: &Arc<Value>) -> Cow<'a, str> {
        match Arc::ptr_eq(target, &self.read) {
            true => Cow::Borrowed(self.text),
            false => Cow::Owned(reach(self.form, self.text, target)),
        }
    }

    /// A version whose source is what was written, with its values changed to `target`.
    fn as_written(&self, target: Arc<Value>, other: Option<String>) -> ConfigState {
        match self.reached(&target) {
            Cow::Borrowed(text) => ConfigState::with(self.form, text, target, other),
            Cow::Owned(text) => ConfigState::new(self.form, &text, target, other),
        }
    }

    /// What was written and what comes out of it are both held against the schema, but a
    /// blind save, which only adds, need not be complete by itself.
    fn check(&self, target: &Value, schema: &Schema) -> Result<(), Refusal> {
        let alone = target.same(&self.value);
        if alone || self.saw.is_some() {
            schema
                .check(&self.value)
                .map_err(|f| f.refusal(Reason::Schema, tree_of(self.form, self.text).as_ref()))?;
        }
        if !alone {
            let reason = if self.saw.is_some() { Reason::Merged } else { Reason::Schema };
            schema.check(target).map_err(|f| {
                f.refusal(reason, None).hint("the save was merged with what others had changed")
            })?;
        }
        Ok(())
    }

    /// The version whose value is `target`; `None`: the current one.
    fn next(&self, target: Arc<Value>) -> Option<ConfigState> {
        let (form, text) = (self.form, self.text);
        let (Some((source_form, source)), Some(value)) = (self.cur.source(), self.cur.value())
        else {
            return Some(self.as_written(target, None));
        };
        // The text behind the saved name is kept, and not rendered from the source.
        let own_text = form == source_form || self.cur.saved_other().is_some();
        if !self.is_current() && value.same(&target) {
            // A writer that changed only comments or layout changed something all the same.
            let layout_only = self.base().is_some_and(|b| b.same(&self.read));
            if !(own_text && layout_only) {
                return None;
            }
        }
        let mine = if self.is_current() {
            if form == source_form {
                let other = self.cur.saved_other().map(|o| reach(form.other(), o, &target));
                return Some(self.as_written(target, other));
            }
            Some(self.reached(&target).into_owned())
        } else if own_text {
            let now = self.cur.text(form).unwrap_or("");
            Some(carry(form, self.saw.and_then(|s| s.text(form)), text, now, &target))
        } else {
            target.same(&self.value).then(|| self.reached(&target).into_owned())
        };
        Some(if form == source_form {
            let other = self.cur.saved_other().map(|o| reach(form.other(), o, &target));
            ConfigState::new(form, mine.as_deref().unwrap_or(source), target, other)
        } else {
            ConfigState::new(source_form, &reach(source_form, source, &target), target, mine)
        })
    }
}

/// An append (R5).
pub(super) fn fragment(
    form: Form,
    seen: Option<&State>,
    bytes: &[u8],
    current: &State,
    rules: &Rules<'_>,
) -> Result<Plan, Refusal> {
    let fragment = text_of(bytes)?;
    let cur = ConfigState::of(current).value();
    if form == Form::Yaml
        && let Ok(own) = read_value(form, fragment)
    {
        let seen = seen.and_then(|s| ConfigState::of(s).value());
        set_only(seen, form, fragment, &own, cur)?;
    }
    let plan = appended(form, fragment, current, rules)?;
    let believed = match seen {
        Some(seen) if same_texts(seen, current) => plan.next.clone(),
        // What it had seen plus its own lines.
        Some(seen) => match appended(form, fragment, seen, &Rules { schema: None, ..*rules }) {
            Ok(p) => p.next,
            Err(_) => seen.clone(),
        },
        None => match ConfigState::read(form, fragment) {
            Ok(own) => Arc::new(own),
            Err(_) => Arc::new(ConfigState::none()),
        },
    };
    Ok(Plan { believed, ..plan })
}

/// The same once [`set_only`] has nothing against it.
fn appended(
    form: Form,
    fragment: &str,
    current: &State,
    rules: &Rules<'_>,
) -> Result<Plan, Refusal> {
    let cur = ConfigState::of(current);
    let (Some(now), Some(value)) = (cur.text(form), cur.value()) else {
        return whole(form, None, fragment.as_bytes(), current, rules);
    };
    let glue = if now.is_empty() || now.ends_with('\n') || form == Form::Json { "" } else { "\n" };
    let joined = format!("{now}{glue}{fragment}");
    if form == Form::Json {
        return whole(form, Some(current), joined.as_bytes(), current, rules);
    }
    // Keys at the margin are set, whatever the text ends with.
    match read(form, fragment) {
        Ok(doc) if !fragment.starts_with([' ', '\t']) => {
            let mut target = merge::merge(None, &doc.value, value).value;
            version::keep(&mut target, Some(value));
            match read(form, &joined) {
                Ok(both) if both.value.same(&target) => {
                    whole(form, Some(current), joined.as_bytes(), current, rules)
                }
                _ => taken(form, None, fragment, current, rules, false),
            }
        }
        // A comment, or lines that continue the last block.
        Ok(_) => whole(form, Some(current), joined.as_bytes(), current, rules),
        Err(r) => match read(form, &joined) {
            Ok(_) => whole(form, Some(current), joined.as_bytes(), current, rules),
            Err(_) if r.reason == Reason::Empty => Err(empty()),
            Err(_) => Err(r.hint("append whole lines such as key: value")),
        },
    }
}

/// A writer's belief: its text as a version of its own.
pub(super) fn believe(form: Form, text: &str, near: &State) -> Result<State, Refusal> {
    if ConfigState::of(near).text(form) == Some(text) {
        return Ok(near.clone());
    }
    Ok(Arc::new(ConfigState::read(form, text)?))
}

fn same_texts(a: &State, b: &State) -> bool {
    let (a, b) = (ConfigState::of(a), ConfigState::of(b));
    a.source() == b.source() && a.saved_other() == b.saved_other()
}

fn unchanged(current: &State) -> Plan {
    Plan {
        next: current.clone(),
        believed: current.clone(),
        overlaps: Vec::new(),
        summary: "no change".into(),
    }
}

/// The text of this form after both changes: by lines first, so that comments of both sides
/// are in it, then by keys until the values are right.
pub(super) fn carry(
    form: Form,
    seen: Option<&str>,
    written: &str,
    now: &str,
    target: &Value,
) -> String {
    let Some(seen) = seen else { return reach(form, now, target) };
    let merged = lines::merge(Mode::Keys, seen.as_bytes(), written.as_bytes(), now.as_bytes());
    let merged = String::from_utf8(merged.text).ok().filter(|m| read_any(form, m).is_ok());
    let Some(merged) = merged else { return reach(form, now, target) };
    let by_lines = reach(form, &merged, target);
    // Where both have changed the same lines, the later one's count. A comment of others that is
    // lost in this way stays where keys alone do it, if the writer has none there.
    if lacks(&by_lines, now, seen) {
        let by_keys = reach(form, now, target);
        if !lacks(&by_keys, written, seen) {
            return by_keys;
        }
    }
    by_lines
}

fn comments(text: &str) -> HashSet<&str> {
    text.lines().map(str::trim).filter(|line| line.starts_with('#')).collect()
}

/// Whether a line of comment that `text` has and `before` had not is missing.
fn lacks(of: &str, text: &str, before: &str) -> bool {
    let (there, before) = (comments(of), comments(before));
    comments(text).into_iter().any(|line| !before.contains(line) && !there.contains(line))
}
