//! Where a text differs from a version, found by the bytes: most of a text that somebody saves is what
//! was there before.

use std::ops::Range;

use crate::documents::Content;

/// Bytes of both in which the next equal lines are looked for.
const WINDOW: usize = 4096;
/// So many places are told apart; what follows is one.
const MOST: usize = 256;

/// Lines of the version and lines of the text that stand in their place. All others are the same.
#[derive(Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Of the version.
    pub there: Range<usize>,
    /// Of the text.
    pub here: Range<usize>,
}

/// The places where the two differ, in order. `ends`: whether what follows these lines means
/// something else because of them, so that the rest belongs to the same place.
pub fn hunks(content: &Content, text: &[u8], ends: impl Fn(&[u8]) -> bool) -> Vec<Hunk> {
    let (from, to) = ends_in_common(content, text);
    let (mut a, mut b) = (from, from);
    let there_ends = content.len() as usize - (text.len() - to);
    let mut found = Vec::new();
    loop {
        let most = (there_ends - a).min(to - b);
        let same = content.begins_alike(a as u64, &text[b..b + most]);
        if a + same == there_ends && b + same == to {
            return found;
        }
        let lines = text[b..b + same].iter().rposition(|c| *c == b'\n').map_or(0, |at| at + 1);
        (a, b) = (a + lines, b + lines);
        let rest = Hunk { there: a..there_ends, here: b..to };
        let there = content.read(a as u64, WINDOW.min(there_ends - a));
        let here = &text[b..to.min(b + WINDOW)];
        let Some((i, j)) = equal_lines(&there, here).filter(|_| found.len() < MOST) else {
            found.push(rest);
            return found;
        };
        if ends(&there[..i]) || ends(&here[..j]) {
            found.push(rest);
            return found;
        }
        found.push(Hunk { there: a..a + i, here: b..b + j });
        (a, b) = (a + i, b + j);
    }
}

/// Where two lines in a row are the same, as early as can be. The last line may be cut off.
fn equal_lines(a: &[u8], b: &[u8]) -> Option<(usize, usize)> {
    let starts = |text: &[u8]| -> Vec<usize> {
        let ends = text.iter().enumerate().filter(|(_, c)| **c == b'\n');
        std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect()
    };
    let (of_a, of_b) = (starts(a), starts(b));
    let two = |text: &'_ [u8], starts: &[usize], at: usize| -> Option<Range<usize>> {
        let lines = *starts.get(at)?..*starts.get(at + 2)?;
        (!text[lines.clone()].trim_ascii().is_empty()).then_some(lines)
    };
    for sum in 1..of_a.len() + of_b.len() {
        for i in sum.saturating_sub(of_b.len())..=sum.min(of_a.len()) {
            let (Some(in_a), Some(in_b)) = (two(a, &of_a, i), two(b, &of_b, sum - i)) else {
                continue;
            };
            if a[in_a.clone()] == b[in_b.clone()] {
                return Some((in_a.start, in_b.start));
            }
        }
    }
    None
}

/// How many bytes of a text are the beginning of a content too, in whole lines, and where the lines
/// begin that both end with.
fn ends_in_common(content: &Content, text: &[u8]) -> (usize, usize) {
    let mut from = content.begins_alike(0, text);
    let size = content.len() as usize;
    if from == size && from == text.len() {
        return (from, from);
    }
    from = text[..from].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let most = size.min(text.len()) - from;
    let mut tail = 0;
    for chunk in content.chunks().rev() {
        let chunk = &chunk[chunk.len().saturating_sub(most - tail)..];
        let end = &text[..text.len() - tail];
        if end.ends_with(chunk) {
            tail += chunk.len();
            if tail < most {
                continue;
            }
        } else {
            tail += chunk.iter().rev().zip(end.iter().rev()).take_while(|(a, b)| a == b).count();
        }
        break;
    }
    // Whole lines of both: behind a line end that is in the common part, or all that is left.
    let whole = tail == most && from + tail == size && from + tail == text.len();
    let start = text.len() - tail;
    let to = match whole {
        true => start,
        false => {
            text[start..].iter().position(|b| *b == b'\n').map_or(text.len(), |at| start + at + 1)
        }
    };
    (from, to.max(from))
}
