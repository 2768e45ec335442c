//! What became of the lines of a text, for somebody who follows it.

use std::collections::HashMap;

use super::align::align;
use super::similar::similarity;

/// From this likeness on a line that stands in the place of another is that line, changed.
const ALIKE: f64 = 0.6;
/// So many lines that went are asked whether a line that came is one of them, changed.
const NEAR: usize = 16;
/// So many pairs of lines are compared in one step; what is left counts as gone and come.
const COMPARED: usize = 2000;

/// What happened to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Added,
    /// It stood there before, in other words.
    Changed,
    /// It is not there any more.
    Removed,
}

/// The lines that are not the same in both texts, each once, in the order of the new text and each
/// without its end: of a changed line the new one. Line ends are no part of a line. A line that
/// has moved past others is removed in one place and added in the other.
pub fn changes<'t>(old: &'t [u8], new: &'t [u8]) -> Vec<(Change, &'t [u8])> {
    let (old, new) = (lines(old), lines(new));
    let mut numbers = HashMap::new();
    let a = numbered(&old, &mut numbers);
    let b = numbered(&new, &mut numbers);
    let mut out = Vec::new();
    let mut left = COMPARED;
    let (mut i, mut j) = (0, 0);
    for (x, y) in align(&a, &b).into_iter().chain([(old.len(), new.len())]) {
        between(&old[i..x], &new[j..y], &mut left, &mut out);
        (i, j) = (x + 1, y + 1);
    }
    out
}

/// The lines of a stretch without equal ones.
fn between<'t>(
    mut old: &[&'t [u8]],
    new: &[&'t [u8]],
    left: &mut usize,
    out: &mut Vec<(Change, &'t [u8])>,
) {
    for line in new {
        let near = &old[..old.len().min(NEAR).min(*left)];
        let found = near.iter().position(|was| {
            *left -= 1;
            alike(was, line)
        });
        match found {
            Some(place) => {
                out.extend(old[..place].iter().map(|gone| (Change::Removed, *gone)));
                out.push((Change::Changed, line));
                old = &old[place + 1..];
            }
            None => out.push((Change::Added, line)),
        }
    }
    out.extend(old.iter().map(|gone| (Change::Removed, *gone)));
}

fn alike(a: &[u8], b: &[u8]) -> bool {
    let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
    similarity(&a, &b, ALIKE).is_some()
}

fn numbered<'t>(lines: &[&'t [u8]], numbers: &mut HashMap<&'t [u8], u32>) -> Vec<u32> {
    let mut number = |line| {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(line).or_insert(next)
    };
    lines.iter().map(|line| number(*line)).collect()
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    let bare = |line| -> &[u8] {
        let line = <[u8]>::strip_suffix(line, b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    };
    text.split_inclusive(|b| *b == b'\n').map(bare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(old: &str, new: &str) -> Vec<String> {
        let mark = |change| match change {
            Change::Added => '+',
            Change::Changed => '~',
            Change::Removed => '-',
        };
        let line = |l| String::from_utf8_lossy(l).into_owned();
        changes(old.as_bytes(), new.as_bytes())
            .into_iter()
            .map(|(change, l)| format!("{}{}", mark(change), line(l)))
            .collect()
    }

    #[test]
    fn each_line_is_told_once() {
        assert_eq!(told("a\nb\n", "a\nnew\nb\n"), ["+new"]);
        assert_eq!(told("a\nb\n", "b\n"), ["-a"]);
        assert_eq!(told("", "a\nb"), ["+a", "+b"]);
        assert_eq!(told("a\nb", ""), ["-a", "-b"]);
        assert_eq!(told("a\na\n", "a\na\na\n"), ["+a"]);
        assert_eq!(told("a\n", "a\n"), [""; 0]);
    }

    #[test]
    fn a_line_in_other_words_is_that_line() {
        let (old, new) = ("x\n- fix login\ny\n", "x\n- fix the login\ny\n");
        assert_eq!(told(old, new), ["~- fix the login"]);
        assert_eq!(told("- fix login\n", "- write docs\n"), ["+- write docs", "-- fix login"]);
        let (old, new) = ("alpha beta\ngone\n", "first\nalpha beta.\n");
        assert_eq!(told(old, new), ["+first", "~alpha beta.", "-gone"]);
        assert_eq!(told("gone\nalpha beta\n", "alpha beta.\n"), ["-gone", "~alpha beta."]);
    }

    #[test]
    fn line_ends_are_no_part_of_a_line() {
        assert_eq!(told("a\r\nb", "a\nb\n"), [""; 0]);
        assert_eq!(told("a", "a\nb"), ["+b"]);
    }

    #[test]
    fn the_texts_follow_from_each_other() {
        for n in 0..300u32 {
            let text = |seed: u32| -> Vec<String> {
                let len = seed * 7 % 23;
                (0..len).map(|k| format!("line {} x", (k * 5 + seed / (k + 1)) % 11)).collect()
            };
            let (old, new) = (text(n), text(n * 3 + 1));
            let (a, b) = (old.join("\n"), new.join("\n"));
            let changes = changes(a.as_bytes(), b.as_bytes());
            let count = |of: Change| changes.iter().filter(|(c, _)| *c == of).count();
            let (added, changed, removed) =
                (count(Change::Added), count(Change::Changed), count(Change::Removed));
            assert_eq!(old.len() + added - removed, new.len(), "{old:?} {new:?}");
            assert!(added + changed <= new.len() && removed + changed <= old.len());
        }
    }

    #[test]
    fn a_text_that_is_new_all_over_costs_no_time() {
        let text = |word: &str| -> String {
            (0..20_000).map(|n| format!("- {word} number {n} of the many\n")).collect()
        };
        let start = std::time::Instant::now();
        let (old, new) = (text("alpha"), text("omega"));
        let told = changes(old.as_bytes(), new.as_bytes());
        assert!(told.len() >= 20_000);
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
