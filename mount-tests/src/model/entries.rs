//! What a text says as a list of entries, and how far two texts are apart (section 4).

use serde_json::Value;

use super::ops::Doc;
use super::text;

/// A mission, or a key path with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The same for the same entry wherever it is.
    pub key: String,
    /// The section of a mission.
    pub place: usize,
    /// The key path.
    pub path: Option<String>,
    /// What may be reworded.
    pub text: String,
}

/// The entries of a text.
pub fn entries(doc: Doc, written: &str) -> Vec<Entry> {
    match doc {
        Doc::Missions => {
            let items = text::parse(written).unwrap_or_default().items;
            let entry = |i: text::Item| {
                let (key, place, path) = (i.text.clone(), i.section, None);
                Entry { key, place, path, text: i.text }
            };
            items.into_iter().map(entry).collect()
        }
        Doc::Config => {
            let mut all = Vec::new();
            for (key, value) in text::keys(written).unwrap_or_default() {
                values(&key, &value, &mut all);
            }
            all
        }
    }
}

fn values(path: &str, value: &Value, all: &mut Vec<Entry>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| values(&format!("{path}\0{key}"), value, all));
        }
        value => {
            let text = value.to_string();
            let (key, path) = (format!("{path}\0\0{text}"), Some(path.to_owned()));
            all.push(Entry { key, place: 0, path, text });
        }
    }
}

/// Whether one mission is the other one with more at its end.
pub fn longer(short: &Entry, long: &Entry) -> bool {
    let missions = short.path.is_none() && long.path.is_none();
    missions && long.text.len() > short.text.len() && long.text.starts_with(&short.text)
}

/// How alike two texts are that count as one and its rewording.
const REWORDED: f64 = 0.6;

/// The share of two texts that is in runs which both have, as `difflib` of Python finds them.
fn similar(a: &str, b: &str) -> f64 {
    fn matching(a: &[char], b: &[char]) -> usize {
        let mut best = (0, 0, 0);
        for i in 0..a.len() {
            for j in 0..b.len() {
                let run = a[i..].iter().zip(&b[j..]).take_while(|(x, y)| x == y).count();
                if run > best.0 {
                    best = (run, i, j);
                }
            }
        }
        let (run, i, j) = best;
        match run {
            0 => 0,
            run => run + matching(&a[..i], &b[..j]) + matching(&a[i + run..], &b[j + run..]),
        }
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    match a.len() + b.len() {
        0 => 1.0,
        all => 2.0 * matching(&a, &b) as f64 / all as f64,
    }
}

/// How a version and a text differ.
pub struct Compared {
    /// Entries that one has and the other has not.
    pub distance: usize,
    /// Entries of the version that the text has, or has reworded.
    pub kept: usize,
    /// Entries of the version that the text has not as they are.
    pub missing: usize,
}

/// How far a text is from a version, and how much of the version it has.
pub fn compare(version: &[Entry], written: &[Entry]) -> Compared {
    let mut rest: Vec<&Entry> = written.iter().collect();
    let (mut distance, mut kept) = (0, 0);
    // The same, first where it was, then elsewhere.
    let mut gone: Vec<&Entry> = version.iter().collect();
    for anywhere in [false, true] {
        gone.retain(|v| {
            let same = |w: &&Entry| w.key == v.key && (anywhere || w.place == v.place);
            let Some(at) = rest.iter().position(same) else { return true };
            rest.remove(at);
            kept += 1;
            distance += usize::from(anywhere);
            false
        });
    }
    let missing = gone.len();
    // Another value of the same key: one change; the same entry only if the values are alike.
    gone.retain(|v| {
        let Some(at) = rest.iter().position(|w| v.path.is_some() && w.path == v.path) else {
            return true;
        };
        kept += usize::from(similar(&v.text, &rest[at].text) >= REWORDED);
        distance += 1;
        rest.remove(at);
        false
    });
    // In other words, the most alike first.
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for (i, v) in gone.iter().enumerate().filter(|(_, v)| v.path.is_none()) {
            for (j, w) in rest.iter().enumerate().filter(|(_, w)| w.path.is_none()) {
                let ratio = similar(&v.text, &w.text);
                if ratio >= REWORDED && best.is_none_or(|(most, ..)| ratio > most) {
                    best = Some((ratio, i, j));
                }
            }
        }
        let Some((_, i, j)) = best else { break };
        gone.remove(i);
        rest.remove(j);
        kept += 1;
        distance += 1;
    }
    Compared { distance: distance + gone.len() + rest.len(), kept, missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(doc: Doc, version: &str, written: &str) -> (usize, usize) {
        let found = compare(&entries(doc, version), &entries(doc, written));
        (found.distance, found.kept)
    }

    #[test]
    fn missions_differ_by_words_and_sections() {
        let [a, b] = [1, 2].map(text::mission);
        let both = format!("## Pending\n- {a}\n- {b}\n\n## Done\n");
        assert_eq!(apart(Doc::Missions, &both, &both), (0, 2));
        let moved = format!("## Pending\n- {b}\n# a comment\n\n## Done\n- {a} ✅ (now)\n");
        assert_eq!(apart(Doc::Missions, &both, &moved), (1, 2));
        let reworded = both.replace(&a, &text::edited(&a, 7));
        assert_eq!(apart(Doc::Missions, &both, &reworded), (1, 2));
        assert_eq!(apart(Doc::Missions, &both, &format!("- {a}\n- {a}\n")), (2, 1));
    }

    #[test]
    fn keys_differ_by_paths_and_values() {
        let text = r#"{"a": 1, "o": {"x": 22, "y": 3}}"#;
        assert_eq!(apart(Doc::Config, text, r#"{"o": {"y": 3, "x": 221}}"#), (2, 2));
        assert_eq!(apart(Doc::Config, text, r#"{"a": 2, "p": {"x": 22}}"#), (4, 0));
        assert_eq!(apart(Doc::Config, "", text), (3, 0));
    }
}
