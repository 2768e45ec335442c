//! One version of a managed file.

use std::any::Any;
use std::sync::{Arc, LazyLock, OnceLock};

use crate::documents::{Content, DocState, State};
use crate::model::View;

/// Bytes of a chunk, about. Versions share chunks; an append copies one of them.
const CHUNK: usize = 16 << 10;

/// The first line of the archive of a file; its bytes follow.
static THERE: LazyLock<Arc<[u8]>> = LazyLock::new(|| Arc::from(*b"file\n"));
/// The whole archive of no file.
static ABSENT: LazyLock<Arc<[u8]>> = LazyLock::new(|| Arc::from(*b"none\n"));

/// The text of a managed file, or that there is none.
pub struct FileState {
    text: Option<Content>,
    archive: OnceLock<Content>,
}

impl FileState {
    /// With this text; `None`: no such file.
    pub(super) fn new(text: Option<Content>) -> FileState {
        FileState { text, archive: OnceLock::new() }
    }

    /// No file.
    pub(super) const fn absent() -> FileState {
        FileState { text: None, archive: OnceLock::new() }
    }

    /// Behind a [`State`]; one of another kind counts as no file.
    pub(super) fn of(state: &State) -> &FileState {
        static NONE: FileState = FileState::absent();
        state.as_any().downcast_ref().unwrap_or(&NONE)
    }

    /// The text; `None`: no such file.
    pub fn text(&self) -> Option<&Content> {
        self.text.as_ref()
    }

    /// The text as one piece, of no file an empty one.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.text.as_ref().map(Content::to_vec).unwrap_or_default()
    }

    /// Reads an archive, sharing with `near` what is equal.
    pub(super) fn decode(archive: &[u8], near: Option<&Content>) -> Result<FileState, String> {
        match archive.strip_prefix(&THERE[..]) {
            Some(text) => Ok(FileState::new(Some(share(text, near)))),
            None if archive == &ABSENT[..] => Ok(FileState::new(None)),
            None => Err("the archive of a file begins with neither `file` nor `none`".into()),
        }
    }
}

impl DocState for FileState {
    fn view(&self, view: View) -> Option<Content> {
        match view {
            View::File(_) => self.text.clone(),
            View::MissionsMd | View::QuarantineMd | View::ConfigJson | View::ConfigYaml => None,
        }
    }

    fn archive(&self) -> Content {
        let make = || match &self.text {
            None => Content::from_chunks([ABSENT.clone()]),
            Some(text) => {
                Content::from_chunks(std::iter::once(THERE.clone()).chain(text.chunks().cloned()))
            }
        };
        self.archive.get_or_init(make).clone()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The bytes as content that shares the chunks of `near` before and behind what differs. Costs
/// one comparison and a copy of what differs.
pub(super) fn share(text: &[u8], near: Option<&Content>) -> Content {
    let old: Vec<&Arc<[u8]>> = near.map(|n| n.chunks().collect()).unwrap_or_default();
    let (mut head, mut from) = (0, 0);
    while head < old.len() && text[from..].starts_with(old[head]) {
        from += old[head].len();
        head += 1;
    }
    let (mut tail, mut to) = (old.len(), text.len());
    while tail > head && text[from..to].ends_with(old[tail - 1]) {
        tail -= 1;
        to -= old[tail].len();
    }
    // So that small insertions between two chunks do not pile up as chunks of their own.
    if head > 0 && from < to && to - from < CHUNK / 4 {
        head -= 1;
        from -= old[head].len();
    }
    Content::from_chunks(
        old[..head]
            .iter()
            .map(|c| Arc::clone(c))
            .chain(cut(&text[from..to]))
            .chain(old[tail..].iter().map(|c| Arc::clone(c))),
    )
}

/// The content with bytes at its end. Costs by the length of these and the number of chunks.
pub(super) fn extended(text: Option<&Content>, parts: &[&[u8]]) -> Content {
    let mut old: Vec<Arc<[u8]>> = text.map(|t| t.chunks().cloned().collect()).unwrap_or_default();
    let mut end = match old.last() {
        Some(last) if last.len() < CHUNK => old.pop().map(|c| c.to_vec()).unwrap_or_default(),
        _ => Vec::new(),
    };
    for part in parts {
        end.extend_from_slice(part);
    }
    old.extend(cut(&end));
    Content::from_chunks(old)
}

/// In chunks, cut behind line ends where there are any.
fn cut(mut text: &[u8]) -> Vec<Arc<[u8]>> {
    let mut out = Vec::new();
    while text.len() > CHUNK + CHUNK / 2 {
        let line_end = text[..CHUNK].iter().rposition(|b| *b == b'\n');
        let (chunk, rest) = text.split_at(line_end.map_or(CHUNK, |n| n + 1));
        out.push(Arc::from(chunk));
        text = rest;
    }
    out.push(Arc::from(text));
    out
}

/// Whether two contents are equal; shared chunks are not looked into.
pub(super) fn same(a: Option<&Content>, b: Option<&Content>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) if a.len() == b.len() => {
            let (mut x, mut y) = (a.chunks(), b.chunks());
            loop {
                match (x.next(), y.next()) {
                    (None, None) => return true,
                    (Some(p), Some(q)) if Arc::ptr_eq(p, q) => {}
                    (Some(p), Some(q)) if p.len() == q.len() => {
                        if p != q {
                            return false;
                        }
                    }
                    // Cut at other places.
                    _ => return a == b,
                }
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(lines: std::ops::Range<u32>) -> Vec<u8> {
        lines.flat_map(|n| format!("line {n} of the text\n").into_bytes()).collect()
    }

    fn shared(a: &Content, b: &Content) -> usize {
        a.chunks().filter(|c| b.chunks().any(|d| Arc::ptr_eq(c, d))).count()
    }

    #[test]
    fn versions_share_chunks() {
        let long = numbered(0..10_000);
        let a = share(&long, None);
        assert!(a.equals(&long) && a.chunks().len() > 5);
        let mut edited = long.clone();
        edited[100_000] = b'#';
        let b = share(&edited, Some(&a));
        assert!(b.equals(&edited));
        assert_eq!(shared(&a, &b), a.chunks().len() - 1);
        let mut longer = long.clone();
        longer.extend_from_slice(b"more\n");
        let c = extended(Some(&a), &[b"mo", b"re\n"]);
        assert!(c.equals(&longer) && shared(&a, &c) >= a.chunks().len() - 1);
        assert!(same(Some(&c), Some(&share(&longer, None))) && !same(Some(&a), Some(&b)));
    }

    #[test]
    fn many_small_changes_leave_few_chunks() {
        let mut text = numbered(0..4000);
        let mut now = share(&text, None);
        for n in 0..500usize {
            now = extended(Some(&now), &[b"an appended line\n"]);
            text.extend_from_slice(b"an appended line\n");
            let at = (n * 7919) % text.len();
            text.insert(at, b'+');
            now = share(&text, Some(&now));
            assert!(now.equals(&text));
        }
        assert!(now.chunks().len() < 40, "{}", now.chunks().len());
    }

    #[test]
    fn archives_tell_empty_from_absent() {
        for text in [None, Some(&b""[..]), Some(b"none\n"), Some(b"\xff\0")] {
            let state = FileState::new(text.map(|t| share(t, None)));
            let back = FileState::decode(&state.archive().to_vec(), None).unwrap();
            assert!(same(back.text(), state.text()));
            assert_eq!(back.text().map(Content::to_vec), text.map(<[u8]>::to_vec));
        }
        assert!(FileState::decode(b"other\n", None).is_err());
        assert!(FileState::decode(b"none\nx", None).is_err());
    }
}
