//! One line about a change of a text, for the history.

use std::collections::HashMap;

/// How many lines: `1 line`, `2 lines`.
pub(super) fn lines(n: usize) -> String {
    if n == 1 { "1 line".into() } else { format!("{n} lines") }
}

/// The number of lines of a text.
pub(super) fn count(text: &[u8]) -> usize {
    text.split_inclusive(|b| *b == b'\n').count()
}

/// Such as `2 lines added, 1 removed`. Lines that only moved are counted as neither.
pub(super) fn of_lines(before: &[u8], after: &[u8]) -> String {
    let head = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let head = before[..head].iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
    let mut seen: HashMap<&[u8], i64> = HashMap::new();
    for line in before[head..].split_inclusive(|b| *b == b'\n') {
        *seen.entry(line.trim_ascii_end()).or_default() -= 1;
    }
    for line in after[head..].split_inclusive(|b| *b == b'\n') {
        *seen.entry(line.trim_ascii_end()).or_default() += 1;
    }
    let added = seen.values().filter(|n| **n > 0).sum::<i64>().unsigned_abs() as usize;
    let gone = seen.values().filter(|n| **n < 0).sum::<i64>().unsigned_abs() as usize;
    match (added, gone) {
        (0, 0) => "layout changed".into(),
        (n, 0) => format!("{} added", lines(n)),
        (0, n) => format!("{} removed", lines(n)),
        (a, g) if a == g => format!("{} changed", lines(a)),
        (a, g) => format!("{} added, {g} removed", lines(a)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_changed() {
        let of = |a: &str, b: &str| of_lines(a.as_bytes(), b.as_bytes());
        assert_eq!(of("a\nb\n", "a\nb\nc\n"), "1 line added");
        assert_eq!(of("a\nb\n", "b\n"), "1 line removed");
        assert_eq!(of("a\nb\n", "a\nc\n"), "1 line changed");
        assert_eq!(of("a\nb\n", "x\ny\nz\n"), "3 lines added, 2 removed");
        assert_eq!(of("a\nb\n", "b\na\n"), "layout changed");
        assert_eq!(of("a\n", "a\r\n"), "layout changed");
    }
}
