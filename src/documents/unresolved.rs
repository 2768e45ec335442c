//! Conflict markers of a version control system: a text that still has them is nobody's wish.

use super::Content;
use crate::model::{Reason, Refusal};

/// How each of the three markers begins, at the start of a line.
const OURS: &str = "<<<<<<< ";
const BETWEEN: &str = "=======";
const THEIRS: &str = ">>>>>>> ";

/// Why a text with an unresolved merge is refused; `None`: it has none, or what was there (`before`)
/// has the same first marker, so that somebody means it.
pub fn unresolved(text: &[u8], before: Option<&Content>) -> Option<Refusal> {
    let text = std::str::from_utf8(text).ok()?;
    if !text.contains(OURS) {
        return None;
    }
    let mut lines = text.lines().enumerate();
    let (line, first) = lines.find(|(_, l)| l.starts_with(OURS))?;
    lines.find(|(_, l)| *l == BETWEEN)?;
    lines.find(|(_, l)| l.starts_with(THEIRS))?;
    let before = before.map(|c| c.to_vec()).unwrap_or_default();
    if before.split(|b| *b == b'\n').any(|l| l.trim_ascii_end() == first.as_bytes()) {
        return None;
    }
    let what = "an unresolved merge: the conflict markers of a version control system are in it";
    Some(
        Refusal::new(Reason::Unresolved, what)
            .at_line(line + 1)
            .hint("choose between both sides, take the markers out and save again"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFLICT: &str = "- a\n<<<<<<< HEAD\n- b\n=======\n- c\n>>>>>>> other\n";

    #[test]
    fn all_three_markers_in_order_are_a_conflict() {
        let found = unresolved(CONFLICT.as_bytes(), None).unwrap();
        assert_eq!((found.reason, found.line), (Reason::Unresolved, Some(2)));
        for text in ["- a\n", "<<<<<<< HEAD\n", "=======\n>>>>>>> x\n<<<<<<< y\n", " <<<<<<< x\n"] {
            assert_eq!(unresolved(text.as_bytes(), None), None, "{text:?}");
        }
    }

    #[test]
    fn what_stands_there_already_is_meant() {
        let before = Content::from(CONFLICT.as_bytes().to_vec());
        assert_eq!(unresolved(CONFLICT.as_bytes(), Some(&before)), None);
    }
}
