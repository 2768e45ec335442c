//! How near two texts of a document are, judged by their lines and keys. Only for choosing
//! between versions that a writer may have seen; merging is the documents' own matter.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::documents::Version;
use crate::model::{DocId, View};

fn hash(bytes: &[u8]) -> u64 {
    let mut h = DefaultHasher::new();
    bytes.hash(&mut h);
    h.finish()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n').map(|l| l.trim_ascii_end()).filter(|l| !l.is_empty())
}

/// The number of lines that one text has and the other has not, counted with multiplicity.
pub fn distance(a: &[u8], b: &[u8]) -> u64 {
    let (a, b) = between(a, b);
    let mut counts: HashMap<u64, i64> = HashMap::new();
    for line in lines(a) {
        *counts.entry(hash(line)).or_default() += 1;
    }
    for line in lines(b) {
        *counts.entry(hash(line)).or_default() -= 1;
    }
    counts.values().map(|n| n.unsigned_abs()).sum()
}

/// Both without the whole lines that are equal at their beginnings and ends.
fn between<'t>(a: &'t [u8], b: &'t [u8]) -> (&'t [u8], &'t [u8]) {
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let head = a[..same].iter().rposition(|c| *c == b'\n').map_or(0, |at| at + 1);
    let (a, b) = (&a[head..], &b[head..]);
    let same = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let end = &a[a.len() - same..];
    let tail = end.iter().position(|c| *c == b'\n').map_or(0, |at| end.len() - at - 1);
    (&a[..a.len() - tail], &b[..b.len() - tail])
}

/// The distance of a version, as shown under `view`, from a text. Chunks that stand unchanged at
/// either end of the text cost a comparison of their bytes, no more.
pub fn distance_of(version: &Version, view: View, text: &[u8]) -> u64 {
    let Some(content) = version.view(view) else { return distance(b"", text) };
    let mut chunks: VecDeque<&[u8]> = content.chunks().map(|c| &**c).collect();
    let mut rest = text;
    while let Some(after) = chunks.front().and_then(|c| rest.strip_prefix(*c))
        && chunks.front().is_some_and(|c| c.ends_with(b"\n"))
    {
        rest = after;
        chunks.pop_front();
    }
    while let Some(before) = chunks.back().and_then(|c| rest.strip_suffix(*c))
        && (before.is_empty() || before.ends_with(b"\n"))
        && chunks.iter().nth_back(1).is_none_or(|c| c.ends_with(b"\n"))
    {
        rest = before;
        chunks.pop_back();
    }
    distance(&chunks.make_contiguous().concat(), rest)
}

/// What a document is about: its lines without headers and comments, or the keys of a config.
pub struct Marks(HashSet<u64>);

impl Marks {
    /// The marks of a text.
    pub fn of(doc: DocId, text: &[u8]) -> Marks {
        let mut found = HashSet::new();
        each(doc, text, |mark| {
            found.insert(mark);
            false
        });
        Marks(found)
    }

    /// Whether this text keeps at least one line or key of a version; a version without any has
    /// nothing that could be removed, so that it is kept by every text.
    pub fn keep_any(&self, version: &Version, view: View) -> bool {
        let shown = version.view(view).map(|c| c.to_vec()).unwrap_or_default();
        let mut none = true;
        let kept = each(version.doc, &shown, |mark| {
            none = false;
            self.0.contains(&mark)
        });
        kept || none
    }
}

/// Calls `f` with the marks of a text until it says that it has heard enough; whether it did.
fn each(doc: DocId, text: &[u8], mut f: impl FnMut(u64) -> bool) -> bool {
    match doc {
        DocId::Missions | DocId::Quarantine => {
            lines(text).map(<[u8]>::trim_ascii).filter(|l| !l.starts_with(b"#")).any(|l| f(hash(l)))
        }
        DocId::Config => lines(text).any(|l| keys(l, &mut f)),
        DocId::File(file) if has_keys(file.path()) => lines(text).any(|l| keys(l, &mut f)),
        DocId::File(_) => {
            lines(text).map(<[u8]>::trim_ascii).filter(|l| !l.is_empty()).any(|l| f(hash(l)))
        }
    }
}

/// Whether a managed file is about keys rather than lines.
fn has_keys(path: &str) -> bool {
    [".json", ".yaml", ".yml"].iter().any(|end| path.ends_with(end))
}

/// The words before a colon in a line: `"key": 1`, `key: 1`, `{key: 1}`.
fn keys(line: &[u8], f: &mut impl FnMut(u64) -> bool) -> bool {
    let mut start = 0;
    for (i, b) in line.iter().enumerate() {
        match b {
            b':' => {
                let word = line[start..i].trim_ascii();
                let word = word.strip_prefix(b"- ").unwrap_or(word).trim_ascii();
                let word = word.strip_prefix(b"\"").unwrap_or(word);
                let word = word.strip_suffix(b"\"").unwrap_or(word);
                if !word.is_empty() && !word.starts_with(b"#") && f(hash(word)) {
                    return true;
                }
                start = i + 1;
            }
            b'{' | b',' | b'[' | b'}' | b']' => start = i + 1,
            _ => {}
        }
    }
    false
}

/// Nothing but white space, perhaps behind a byte order mark.
pub fn is_blank(text: &[u8]) -> bool {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::documents::{Content, DocState};
    use crate::model::{Rev, Stamp};

    #[test]
    fn counts_differing_lines() {
        assert_eq!(distance(b"a\nb\n", b"a\nb"), 0);
        assert_eq!(distance(b"a\na\nb\n", b"a\nc\n"), 3);
        assert_eq!(distance(b"a\nxb\nc\n", b"a\nb\nc\n"), 2);
        assert_eq!(distance(b"ax\nb\n", b"a\nb\n"), 2);
        assert_eq!(distance(b"", b"a\n"), 1);
        assert_eq!(distance(b"a", b"b\na"), 1);
    }

    #[test]
    fn equal_ends_do_not_count_however_the_version_is_cut() {
        let text = b"a\nb\nb\nc\n\nd\ne";
        let others: [&[u8]; 6] =
            [b"a\nb\nb\nc\n\nd\ne", b"a\nc\n\nd\ne", b"", b"e", b"a\nb\nx\nd\ne\n", b"d\ne\na\n"];
        for size in 1..=text.len() {
            let state = Arc::new(Shown(Content::from_chunks(text.chunks(size).map(Arc::from))));
            let (doc, rev, mtime) = (DocId::Missions, Rev(1), Stamp(1));
            let version = Version { doc, rev, mtime, state, belief: false };
            for other in others {
                let found = distance_of(&version, View::MissionsMd, other);
                assert_eq!(found, counted(text, other), "{size} {}", other.escape_ascii());
            }
        }
    }

    /// The distance, line by line.
    fn counted(a: &[u8], b: &[u8]) -> u64 {
        let of = |text: &[u8], line: &[u8]| lines(text).filter(|l| *l == line).count() as u64;
        let all: HashSet<&[u8]> = lines(a).chain(lines(b)).collect();
        all.into_iter().map(|line| of(a, line).abs_diff(of(b, line))).sum()
    }

    struct Shown(Content);

    impl DocState for Shown {
        fn view(&self, _: View) -> Option<Content> {
            Some(self.0.clone())
        }
        fn archive(&self) -> Content {
            self.0.clone()
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    #[test]
    fn headers_are_no_marks_and_keys_are() {
        let text = Marks::of(DocId::Missions, b"# T\n\n## Pending\n- a\n  more\n").0;
        assert_eq!(text.len(), 2);
        assert!(text.is_superset(&Marks::of(DocId::Missions, b"- a\n").0));
        let json = Marks::of(DocId::Config, b"{\"a\": 1, \"b\": {\"c\": [1, 2]}}\n").0;
        assert_eq!(json, Marks::of(DocId::Config, b"# x: y\na: 1\nb:\n  - c: 3\n").0);
        assert_eq!(json.len(), 3);
    }

    #[test]
    fn blank_texts() {
        assert!(is_blank(b""));
        assert!(is_blank(b"\xef\xbb\xbf \r\n\t"));
        assert!(!is_blank(b"x"));
    }
}
