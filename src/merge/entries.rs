//! Entries: what a document says, divided into the things that a writer adds, rewords and removes.
//! How a text is divided depends on its kind (`documents::entries`); here two lists are compared.
//! The comparison only chooses a merge base (SEMANTICS, section 4); it merges nothing.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::text::{begins, similarity};

/// Two texts that are at least this similar are one entry and its rewording.
pub const REWORDED: f64 = 0.6;
/// Entries of each side that are looked through for rewordings. Behind them an entry counts as gone
/// and another one as new, so that the work is bounded.
const REWORDED_TRIED: usize = 48;

/// One mission, one key with its value, one element of a list, one line of another text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Equal for equal entries, wherever they stand.
    pub key: u64,
    /// Where it stands: the section of a mission. An entry that is the same in another place counts
    /// as one change.
    pub place: u64,
    /// What it is a value of: the hash of a key path. Two values of one key are the same entry,
    /// however different. `None`: only the text says what belongs together.
    pub slot: Option<u64>,
    /// Its text, for similarity.
    pub text: Box<str>,
}

/// The hash that [`Entry::key`], `place` and `slot` are made with.
pub fn hash(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// An entry that one side has and the other has not as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Differing {
    /// [`Entry::key`].
    pub key: u64,
    /// The other side has it with something added at its end. That shows that a writer knew it;
    /// entries that are merely alike (`run 1`, `run 2`) may be two.
    pub extended: bool,
}

/// How a version and a text differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Entries that one of them has and the other has not; one that is reworded or stands in another
    /// place counts once.
    pub distance: usize,
    /// Evidence: entries of the version that the text has, or has reworded.
    pub kept: usize,
    /// Entries of the version.
    pub of_version: usize,
    /// Entries of the text.
    pub of_text: usize,
    /// Entries of the version that the text has in no form: what a save on it would take out.
    pub removed: usize,
    /// Entries of the version that the text has not as they are.
    pub missing: Vec<Differing>,
    /// Entries of the text that the version has not as they are.
    pub added: Vec<Differing>,
}

impl Comparison {
    /// Evidence for half of the smaller one. A version of which nothing would be taken out needs none.
    pub fn is_kin(&self) -> bool {
        self.removed == 0 || self.kept > 0 && self.kept * 2 >= self.of_version.min(self.of_text)
    }

    /// Evidence for half of each.
    pub fn is_of_a_stranger(&self) -> bool {
        self.kept > 0 && self.kept * 2 >= self.of_version.max(self.of_text)
    }

    /// Evidence for at least one entry, or nothing that would be taken out.
    pub fn keeps_any(&self) -> bool {
        self.kept > 0 || self.removed == 0
    }
}

/// Compares the entries of a version with those of a text. `common`: entries that both have and
/// that are not in the lists.
pub fn compare(version: &[Entry], text: &[Entry], common: usize) -> Comparison {
    let mut result = Comparison {
        kept: common,
        of_version: common + version.len(),
        of_text: common + text.len(),
        ..Comparison::default()
    };
    // Equal entries, those in the same place first.
    let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, entry) in text.iter().enumerate().rev() {
        open.entry(entry.key).or_default().push(at);
    }
    let mut taken = vec![false; text.len()];
    let mut left: Vec<&Entry> = Vec::new();
    let mut moved: Vec<&Entry> = Vec::new();
    for entry in version {
        let same = open.get(&entry.key).and_then(|all| {
            all.iter().rev().find(|at| !taken[**at] && text[**at].place == entry.place).copied()
        });
        match same {
            Some(at) => {
                taken[at] = true;
                result.kept += 1;
            }
            None => moved.push(entry),
        }
    }
    for entry in moved {
        let elsewhere =
            open.get(&entry.key).and_then(|all| all.iter().rev().find(|at| !taken[**at]).copied());
        match elsewhere {
            Some(at) => {
                taken[at] = true;
                result.kept += 1;
                result.distance += 1;
            }
            None => left.push(entry),
        }
    }
    let rest: Vec<&Entry> = text.iter().zip(&taken).filter(|(_, t)| !**t).map(|(e, _)| e).collect();
    pair_up(&left, &rest, &mut result);
    result
}

/// What is left of both sides: values of one key, then rewordings, the most similar first.
fn pair_up(left: &[&Entry], rest: &[&Entry], result: &mut Comparison) {
    let mut pair_of = vec![None; left.len()];
    let mut taken = vec![false; rest.len()];
    let slots: HashMap<u64, usize> =
        rest.iter().enumerate().filter_map(|(at, e)| Some((e.slot?, at))).collect();
    for (pair, entry) in pair_of.iter_mut().zip(left) {
        if let Some(at) = entry.slot.and_then(|slot| slots.get(&slot).copied())
            && !taken[at]
        {
            taken[at] = true;
            *pair = Some(at);
            let alike = similarity(&entry.text, &rest[at].text, REWORDED).is_some();
            result.kept += usize::from(alike);
        }
    }
    let free = |taken: &[bool]| -> Vec<usize> {
        let open = |at: &usize| !taken[*at] && rest[*at].slot.is_none();
        (0..rest.len()).filter(open).take(REWORDED_TRIED).collect()
    };
    let words = free(&taken);
    let mut alike: Vec<(f64, usize, usize)> = Vec::new();
    let unpaired = |at: &usize| left[*at].slot.is_none() && pair_of[*at].is_none();
    for a in (0..left.len()).filter(unpaired).take(REWORDED_TRIED) {
        for b in &words {
            if let Some(ratio) = similarity(&left[a].text, &rest[*b].text, REWORDED) {
                alike.push((ratio, a, *b));
            }
        }
    }
    alike.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)).then(x.2.cmp(&y.2)));
    for (_, a, b) in alike {
        if pair_of[a].is_none() && !taken[b] {
            taken[b] = true;
            pair_of[a] = Some(b);
            result.kept += 1;
        }
    }
    let pairs = pair_of.iter().flatten().count();
    result.distance += left.len() + rest.len() - pairs;
    result.removed = left.len() - pairs;
    let missing = left.iter().zip(&pair_of).map(|(e, pair)| {
        let other = pair.map(|at| rest[at]).filter(|_| e.slot.is_none());
        let longer = |other: &&Entry| other.text.len() > e.text.len();
        let extended = other.filter(longer).is_some_and(|other| begins(&e.text, &other.text));
        Differing { key: e.key, extended }
    });
    result.missing = missing.collect();
    result.added = rest.iter().map(|e| Differing { key: e.key, extended: false }).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(place: u64, text: &str) -> Entry {
        Entry { key: hash(text), place, slot: None, text: text.into() }
    }

    fn key(slot: &str, value: &str) -> Entry {
        Entry { key: hash((slot, value)), place: 0, slot: Some(hash(slot)), text: value.into() }
    }

    fn compared(a: &[Entry], b: &[Entry]) -> (usize, usize) {
        let c = compare(a, b, 0);
        (c.distance, c.kept)
    }

    #[test]
    fn counts_what_one_side_has_and_the_other_has_not() {
        let [a, b, c] = ["alpha one", "beta two", "gamma three"].map(|t| entry(0, t));
        assert_eq!(compared(&[a.clone(), b.clone()], &[a.clone(), b.clone()]), (0, 2));
        assert_eq!(compared(&[a.clone(), b.clone()], &[a.clone(), c.clone()]), (2, 1));
        assert_eq!(compared(&[a.clone(), a.clone()], std::slice::from_ref(&a)), (1, 1));
        assert_eq!(compared(&[], &[c]), (1, 0));
    }

    #[test]
    fn a_rewording_and_a_move_are_one_change_and_evidence() {
        let old = entry(0, "gamma three");
        assert_eq!(
            compared(std::slice::from_ref(&old), &[entry(0, "gamma three, with tests")]),
            (1, 1)
        );
        assert_eq!(compared(std::slice::from_ref(&old), &[entry(1, "gamma three")]), (1, 1));
        assert_eq!(compared(std::slice::from_ref(&old), &[entry(0, "something else")]), (2, 0));
        // The one that stands in its place is the same, the other one has come.
        let c = compare(std::slice::from_ref(&old), &[entry(1, "gamma three"), old.clone()], 0);
        assert_eq!((c.distance, c.missing.len(), c.added.len()), (1, 0, 1));
    }

    #[test]
    fn values_of_one_key_are_one_entry_but_no_evidence_unless_they_are_alike() {
        assert_eq!(compared(&[key("max", "3")], &[key("max", "4")]), (1, 0));
        assert_eq!(compared(&[key("max", "3")], &[key("min", "3")]), (2, 0));
        let long = [key("name", "alpha one"), key("name", "alpha one, more")];
        assert_eq!(compared(&long[..1], &long[1..]), (1, 1));
    }

    #[test]
    fn halves() {
        let list = |n: usize| -> Vec<Entry> {
            (0..n).map(|i| Entry { key: i as u64, ..entry(0, &format!("{}", i * 7919)) }).collect()
        };
        let c = compare(&list(4), &list(2), 0);
        assert!(c.is_kin() && c.is_of_a_stranger());
        let c = compare(&list(5), &list(2), 0);
        assert!(c.is_kin() && !c.is_of_a_stranger());
        assert!(compare(&[], &list(2), 0).is_kin());
        assert!(compare(&[key("max", "3")], &[key("max", "x"), key("b", "1")], 0).is_kin());
        assert!(!compare(&list(2), &[], 0).is_kin());
    }
}
