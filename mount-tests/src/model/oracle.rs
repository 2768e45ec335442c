//! What may come out of a save: R3 to R6, written down from the promises as conditions on four
//! texts: what the writer had seen, what it wrote, what was current, and what is there now.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::ops::Doc;
use super::order::{order, reordered};
use super::text::{self, Item, List};

/// What a writer has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The number of the version that it read, or that its own save became.
    pub version: usize,
    /// The oldest version that it knows lines of: an append adds to what was known before.
    pub since: usize,
    /// The text. After a save it is what was written, not what the merge made of it.
    pub text: String,
    /// It is so byte for byte, not only by what it says.
    pub exact: bool,
}

impl Seen {
    /// What is there in a version.
    pub fn of(version: usize, text: String) -> Seen {
        Seen { version, since: version, text, exact: true }
    }
}

/// A save of a whole text.
pub struct Save<'a> {
    /// The document.
    pub doc: Doc,
    /// `None`: the save is blind.
    pub seen: Option<&'a Seen>,
    /// What was written.
    pub written: &'a str,
    /// The version before; empty when there was none.
    pub current: &'a str,
    /// The versions from the oldest that the seen one knows lines of to the current one.
    pub between: &'a [String],
    /// One of them was made by another program's SQL. Such a program then exports its rows, and
    /// the order of Done and Failed in an export says nothing (R9).
    pub rows_changed: bool,
}

type Verdict = Result<(), String>;

fn same(what: &str, wanted: &str, next: &str) -> Verdict {
    match wanted == next {
        true => Ok(()),
        false => Err(format!("{what}; there should be\n{wanted}\nbut there is\n{next}")),
    }
}

impl Save<'_> {
    /// Whether this may be the next version.
    pub fn allows(&self, next: &str) -> Verdict {
        let Save { seen, written, current, .. } = self;
        if written == current {
            return same("a save of what is there changes nothing (R6)", current, next);
        }
        match seen.filter(|s| s.exact) {
            Some(s) if s.text == *current => {
                return same("the writer knew the current version (R6)", written, next);
            }
            Some(s) if s.text == *written => {
                return same("the writer changed nothing (R6)", current, next);
            }
            _ => {}
        }
        match (self.doc, seen) {
            (Doc::Config, _) if current.is_empty() => same("a first save", written, next),
            (Doc::Config, seen) => {
                let seen = seen.filter(|s| !s.text.is_empty());
                let seen = seen.map_or_else(|| Ok(Map::new()), |s| text::keys(&s.text))?;
                let merged = keys(&seen, &text::keys(written)?, &text::keys(current)?);
                let there = text::keys(next)?;
                match sorted(&merged) == sorted(&there) {
                    true => Ok(()),
                    false => Err(format!(
                        "there should be the keys {merged:?} (R3, R4) but there are {there:?}"
                    )),
                }
            }
            (Doc::Missions, None) => blind(written, current, next),
            (Doc::Missions, Some(seen)) => self.list(&seen.text, next),
        }
    }

    fn list(&self, seen: &str, next: &str) -> Verdict {
        let [s, w, c, n] = [seen, self.written, self.current, next].map(text::parse);
        let (s, w, c, n) = (s?, w?, c?, n?);
        let (moved_w, moved_c) = (reordered(&s, &w), reordered(&s, &c));
        let between: Vec<List> =
            self.between.iter().map(|text| text::parse(text)).collect::<Result<_, _>>()?;
        let numbers: BTreeSet<u32> =
            [&s, &w, &c, &n].iter().flat_map(|l| l.items.iter().map(|i| i.number)).collect();
        for number in numbers {
            let of = |list: &List| -> Vec<Item> {
                list.items.iter().filter(|i| i.number == number).cloned().collect()
            };
            let (s, w, c, n) = (of(&s), of(&w), of(&c), of(&n));
            let single = [&s, &w, &c].iter().all(|all| all.len() <= 1);
            let found = if single {
                // One that came back, or one of several, is perhaps another one than was seen; and
                // one that was elsewhere meanwhile has been changed.
                let same = between.iter().all(|list| {
                    let there = of(list);
                    there.len() == 1 && s.first().is_none_or(|s| s.section == there[0].section)
                });
                let (first, changed) = (s.first(), s.first().map(|i| (&i.text, i.section)));
                let own = w.first().map(|i| (&i.text, i.section));
                let brought_back = !same && own.is_some() && own != changed && n.len() == 2;
                match brought_back {
                    // The writer's beside another one.
                    true => Ok(()),
                    false => mission(first, w.first(), c.first(), &n, (moved_w, moved_c || !same)),
                }
            } else {
                copies(&s, &w, &c, n.len())
            };
            found.map_err(|what| format!("mission {number}: {what}"))?;
        }
        let kept = |line: &String| !line.starts_with("## ");
        let lines: BTreeSet<&String> =
            [&s, &w, &c, &n].iter().flat_map(|l| &l.layout).filter(|l| kept(l)).collect();
        for line in lines {
            let of = |list: &List| list.layout.iter().filter(|l| *l == line).count();
            let (s, w, c, n) = (of(&s), of(&w), of(&c), of(&n));
            let wanted = counted(s, w, c);
            // One that was moved meanwhile is not removed, and one that the writer has moved may come
            // back: a move is a change.
            let most = wanted.max(c).max(if moved_w { w } else { 0 });
            if !(wanted..=most).contains(&n) {
                return Err(format!("the line {line:?} should be there {wanted} times, not {n}"));
            }
        }
        order([&s, &w, &c, &n], &between, (moved_w, moved_c), self.rows_changed)
    }
}

/// How often something is there that was seen, written and current so many times (R3): what the
/// writer took out is gone, what it added is there, and what both added is one.
fn counted(seen: usize, written: usize, current: usize) -> usize {
    let removed = seen.saturating_sub(written);
    let added = written.saturating_sub(seen);
    let added_by_others = current.saturating_sub(seen);
    current.saturating_sub(removed) + added.saturating_sub(added_by_others)
}

/// The same for missions of which there are several. Of equal ones nobody can tell which one was
/// changed or removed meanwhile: who has changed one of them may bring it back, one that was changed
/// is not removed, and a copy that was added may be the one that was there.
fn copies(s: &[Item], w: &[Item], c: &[Item], next: usize) -> Verdict {
    let (seen, written, current) = (s.len(), w.len(), c.len());
    let wanted = counted(seen, written, current);
    let alike = [s, w, c]
        .concat()
        .windows(2)
        .all(|i| i[0].text == i[1].text && i[0].section == i[1].section);
    // What the writer has made of one may be what somebody else has made of it, or added.
    let is_in =
        |all: &[Item], i: &Item| all.iter().any(|j| (&j.text, j.section) == (&i.text, i.section));
    let made_by_both = w.iter().filter(|i| !is_in(s, i) && is_in(c, i)).count();
    let wanted_least = wanted - made_by_both.min(wanted.saturating_sub(1));
    let least = if written > seen { wanted.min(current.max(1)) } else { wanted_least };
    let most = match alike {
        true if written < seen => wanted.max(current),
        true => wanted,
        false => written + current,
    };
    match (least..=most).contains(&next) {
        true => Ok(()),
        false => Err(format!("should be there {wanted} times, not {next}")),
    }
}

/// What the later of two writers leaves of one field (R4).
fn field<T: PartialEq + Clone>(seen: &T, written: &T, current: &T) -> T {
    if written == seen { current.clone() } else { written.clone() }
}

/// One mission: in what was seen, written, current, and how it is there now.
fn mission(
    s: Option<&Item>,
    w: Option<&Item>,
    c: Option<&Item>,
    next: &[Item],
    (moved_w, moved_c): (bool, bool),
) -> Verdict {
    let alike = |a: &Item, b: &Item| a.text == b.text && a.section == b.section;
    // Whether it is gone, and how it is if it is there.
    let (may_go, may_stay): (bool, Option<(String, usize)>) = match (s, w, c) {
        (_, None, None) => (true, None),
        // Removed by the writer: unless somebody changed it since.
        (Some(s), None, Some(c)) => {
            let untouched = alike(s, c);
            let changed = !untouched || moved_c || s.line != c.line;
            (untouched, changed.then(|| (c.text.clone(), c.section)))
        }
        // Removed by somebody else: unless the writer changed it.
        (Some(s), Some(w), None) => {
            let untouched = alike(s, w);
            (untouched, (!untouched || moved_w).then(|| (w.text.clone(), w.section)))
        }
        (Some(s), Some(w), Some(c)) => (
            false,
            Some((field(&s.text, &w.text, &c.text), field(&s.section, &w.section, &c.section))),
        ),
        (None, Some(w), None) => (false, Some((w.text.clone(), w.section))),
        (None, None, Some(c)) => (false, Some((c.text.clone(), c.section))),
        // Both have added it: one if they are the same, else nobody can say.
        (None, Some(w), Some(c)) if alike(w, c) => (false, Some((c.text.clone(), c.section))),
        (None, Some(_), Some(_)) => {
            return match next.len() {
                1 | 2 => Ok(()),
                count => Err(format!("added by two should be there once or twice, not {count}")),
            };
        }
    };
    match (next, may_stay) {
        ([], _) if may_go => Ok(()),
        ([], _) => Err("is lost".to_owned()),
        ([one], Some((text, section))) => {
            if one.text != text {
                return Err(format!("should say {text:?} and says {:?}", one.text));
            }
            if one.section != section {
                let [wanted, is] = [section, one.section].map(|n| text::SECTIONS[n].0);
                return Err(format!("should be in {wanted} and is in {is}"));
            }
            verbatim(s, w, c, one)
        }
        ([_], None) => Err("was removed and is still there".to_owned()),
        (more, _) => Err(format!("is there {} times", more.len())),
    }
}

/// R6: a line that only one of the two has touched stands there as that one left it.
fn verbatim(s: Option<&Item>, w: Option<&Item>, c: Option<&Item>, next: &Item) -> Verdict {
    let unlike = |a: Option<&Item>, b: Option<&Item>| match (a, b) {
        (Some(a), Some(b)) => a.line != b.line || a.section != b.section,
        (a, b) => a.is_some() != b.is_some(),
    };
    let wanted = match (unlike(s, w), unlike(s, c)) {
        (false, _) => c,
        (true, false) => w,
        (true, true) => None,
    };
    match wanted {
        Some(wanted) if wanted.line != next.line => {
            Err(format!("should stand there as {:?}, not as {:?} (R6)", wanted.line, next.line))
        }
        _ => Ok(()),
    }
}

/// A blind save only adds (R3): every line that was there is there as it was, in its order, and
/// of the missions that were written those whose text was nowhere are there, once.
fn blind(written: &str, current: &str, next: &str) -> Verdict {
    let mut rest = current.lines().filter(|l| !l.trim().is_empty()).peekable();
    let mut added = String::new();
    let mut under = None;
    for line in next.lines().filter(|l| !l.trim().is_empty()) {
        if line.starts_with("## ") {
            under = Some(line);
        }
        if rest.peek() == Some(&line) {
            rest.next();
        } else {
            added.push_str(
                under.filter(|u| *u != line).map(|u| format!("{u}\n")).unwrap_or_default().as_str(),
            );
            added.push_str(line);
            added.push('\n');
        }
    }
    if let Some(lost) = rest.next() {
        return Err(format!("a blind save has changed or moved {lost:?} or something above it"));
    }
    let (w, c) = (text::parse(written)?, text::parse(current)?);
    let mut there: Vec<String> = c.items.into_iter().map(|i| i.text).collect();
    let mut wanted = Vec::new();
    for item in w.items {
        match there.iter().position(|text| *text == item.text) {
            Some(at) => drop(there.swap_remove(at)),
            None => wanted.push((item.text, item.section)),
        }
    }
    let mut found: Vec<_> =
        text::parse(&added)?.items.into_iter().map(|i| (i.text, i.section)).collect();
    wanted.sort();
    found.sort();
    match wanted == found {
        true => Ok(()),
        false => Err(format!("a blind save should have added {wanted:?} and has added {found:?}")),
    }
}

/// The merge of two configs by key path (R3, R4).
fn keys(
    seen: &Map<String, Value>,
    written: &Map<String, Value>,
    current: &Map<String, Value>,
) -> Map<String, Value> {
    let names: BTreeSet<&String> =
        seen.keys().chain(written.keys()).chain(current.keys()).collect();
    let value = |name: &&String| {
        let merged = key(seen.get(*name), written.get(*name), current.get(*name))?;
        Some(((*name).clone(), merged))
    };
    names.iter().filter_map(value).collect()
}

fn key(seen: Option<&Value>, written: Option<&Value>, current: Option<&Value>) -> Option<Value> {
    if written == seen {
        return current.cloned();
    }
    match (written, current) {
        (Some(Value::Object(w)), Some(Value::Object(c))) => {
            let none = Map::new();
            let s = seen.and_then(Value::as_object).unwrap_or(&none);
            Some(Value::Object(keys(s, w, c)))
        }
        // A removal never beats a change made since the look.
        (None, Some(c)) if seen != Some(c) => Some(c.clone()),
        (written, _) => written.cloned(),
    }
}

/// The order of keys is nobody's business but the writer's.
fn sorted(map: &Map<String, Value>) -> BTreeMap<String, String> {
    let inner = |v: &Value| match v {
        Value::Object(map) => format!("{:?}", sorted(map)),
        other => other.to_string(),
    };
    map.iter().map(|(k, v)| (k.clone(), inner(v))).collect()
}

/// Whether `next` is `current` with these appends, committed in any order (R5): all of their
/// lines, those of one append in their order, missions at the end of Pending, and every other line
/// untouched.
pub fn appended(doc: Doc, appends: &[String], current: &str, next: &str) -> Verdict {
    if doc == Doc::Config {
        let mut wanted = if current.is_empty() { Map::new() } else { text::keys(current)? };
        for line in appends.iter().flat_map(|text| text.lines()) {
            let (key, value) = line.split_once(": ").ok_or("an append without a key")?;
            wanted.insert(key.to_owned(), value.parse::<u32>().map_err(|e| e.to_string())?.into());
        }
        let there = text::keys(next)?;
        return match sorted(&wanted) == sorted(&there) {
            true => Ok(()),
            false => Err(format!("there should be the keys {wanted:?} but there are {there:?}")),
        };
    }
    let mut left: Vec<Vec<String>> =
        appends.iter().map(|text| text.lines().map(text::dashed).rev().collect()).collect();
    let mut rest: Vec<&str> = Vec::new();
    let end = pending_end(current);
    for line in next.lines() {
        // Equal lines may stand there already: those above the end of Pending are not the new ones.
        let bare = line.split(" ⏳").next().unwrap_or(line);
        let expected = left.iter_mut().find(|lines| lines.last().is_some_and(|l| l == bare));
        match expected {
            Some(lines) if rest.len() >= end => drop(lines.pop()),
            _ => rest.push(line),
        }
    }
    if let Some(lost) = left.iter().flatten().next() {
        return Err(format!(
            "the appended line {lost:?} is not there, or not at the end of Pending"
        ));
    }
    same("an append touches no other line (R5)", &(rest.join("\n") + "\n"), current)?;
    // No item of Pending below what was appended.
    let (c, n) = (text::parse(current)?, text::parse(next)?);
    let pending = |list: &List| list.items.iter().filter(|i| i.section == 0).count();
    let count: usize =
        appends.iter().flat_map(|t| t.lines()).filter(|l| !l.starts_with('#')).count();
    match pending(&n) == pending(&c) + count {
        true => Ok(()),
        false => Err(format!(
            "{count} missions were appended, {} are queued more",
            pending(&n) - pending(&c)
        )),
    }
}

/// How many lines there are up to the last mission of Pending.
fn pending_end(text: &str) -> usize {
    let mut inside = false;
    let mut end = 0;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("## ") {
            inside = line == "## Pending";
        }
        if inside && (line.starts_with("- ") || line.starts_with("## ")) {
            end = at + 1;
        }
    }
    end
}

/// A row of one mission was changed (R9).
#[derive(Debug, Clone)]
pub struct RowChange {
    /// The mission.
    pub number: u32,
    /// Its text and section, as far as they are other ones now; `None`: the row is gone.
    pub now: Option<(Option<String>, Option<usize>)>,
}

impl RowChange {
    /// Whether `next` is `current` with the change and with no other line touched (R6).
    pub fn allows(&self, current: &str, next: &str) -> Verdict {
        let (c, n) = (text::parse(current)?, text::parse(next)?);
        let of = |list: &List| list.items.iter().find(|i| i.number == self.number).cloned();
        let (before, after) = (of(&c), of(&n));
        let wanted = self.now.as_ref().map(|(text, section)| {
            let text = text.clone().or(before.as_ref().map(|i| i.text.clone()));
            (text.unwrap_or_default(), section.or(before.as_ref().map(|i| i.section)).unwrap_or(0))
        });
        let found = after.map(|i| (i.text, i.section));
        if wanted != found {
            return Err(format!(
                "the row of mission {} is {wanted:?}, shown is {found:?} (R9)",
                self.number
            ));
        }
        let others = |text: &str| -> String {
            let own = format!("- m{} ", self.number);
            let lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with(&own));
            lines.map(|l| format!("{l}\n")).collect()
        };
        same("a change of one row touches no other line (R6)", &others(current), &others(next))
    }
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
