//! How alike two texts are.

use std::collections::HashMap;

/// Texts longer than this many characters are compared word by word.
const BY_CHARACTER: usize = 240;
/// Words beyond this many are not looked at.
const WORDS: usize = 400;

/// Twice the matched length over the whole length, 0.0 to 1.0, where matched is the longest
/// common run and, left and right of it, again the longest common run (Ratcliff and
/// Obershelp). Never below `at_least` by mistake: `None` says that it is below.
pub fn similarity(a: &str, b: &str, at_least: f64) -> Option<f64> {
    if a == b {
        return Some(1.0);
    }
    let ratio = if a.len().max(b.len()) <= BY_CHARACTER {
        let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        ratio(&a, &b, at_least)
    } else {
        let words = |s: &str| -> Vec<String> {
            s.split_whitespace().take(WORDS).map(str::to_owned).collect()
        };
        ratio(&words(a), &words(b), at_least)
    };
    Some(ratio).filter(|r| *r >= at_least)
}

/// Whether one text is the beginning of the other, ending at a word boundary.
pub fn begins(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    !short.is_empty()
        && long
            .strip_prefix(short)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

fn ratio<T: Eq + std::hash::Hash>(a: &[T], b: &[T], at_least: f64) -> f64 {
    let all = a.len() + b.len();
    if all == 0 {
        return 1.0;
    }
    let of = |n: usize| 2.0 * n as f64 / all as f64;
    if of(a.len().min(b.len())) < at_least || of(in_common(a, b)) < at_least {
        return 0.0;
    }
    let mut matched = 0;
    let mut todo = vec![(a, b)];
    while let Some((a, b)) = todo.pop() {
        let (i, j, n) = longest_run(a, b);
        if n > 0 {
            matched += n;
            todo.push((&a[..i], &b[..j]));
            todo.push((&a[i + n..], &b[j + n..]));
        }
    }
    of(matched)
}

/// Upper bound of what can match: elements in common, order aside.
fn in_common<T: Eq + std::hash::Hash>(a: &[T], b: &[T]) -> usize {
    let mut count: HashMap<&T, usize> = HashMap::new();
    for x in a {
        *count.entry(x).or_default() += 1;
    }
    b.iter()
        .filter(|y| match count.get_mut(y) {
            Some(n) if *n > 0 => {
                *n -= 1;
                true
            }
            _ => false,
        })
        .count()
}

fn longest_run<T: Eq>(a: &[T], b: &[T]) -> (usize, usize, usize) {
    let mut best = (0, 0, 0);
    let mut row = vec![0usize; b.len() + 1];
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y { diagonal + 1 } else { 0 };
            if row[j + 1] > best.2 {
                best = (i + 1 - row[j + 1], j + 1 - row[j + 1], row[j + 1]);
            }
            diagonal = above;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_and_unlike() {
        assert!(similarity("fix login", "fix logout", 0.5).is_some());
        assert!(similarity("fix the login page", "fix the login page on Safari", 0.5).is_some());
        assert!(similarity("fix login", "write the release notes", 0.5).is_none());
        assert_eq!(similarity("abcd", "bcde", 0.0), Some(0.75));
        let long = "word ".repeat(200);
        assert!(similarity(&long, &format!("{long} more"), 0.9).is_some());
    }

    #[test]
    fn beginnings_end_at_words() {
        assert!(begins("fix x", "fix x (commit abc)"));
        assert!(begins("fix x (commit abc)", "fix x"));
        assert!(!begins("fix", "fixture"));
        assert!(!begins("", "x"));
    }
}
