//! Which lines of a replaced stretch are the old ones, edited.

use super::layout::Line;
use crate::text::similarity;

/// The largest product of lengths for which lines are compared with each other.
const COMPARED: usize = 400;
/// The work that a merge may spend on it, in pairs of characters.
pub(super) const BUDGET: usize = 100_000_000;
/// Characters of a line that are compared, at most.
const LONGEST: usize = 400;
/// How alike an edited line is to what it was, at least.
const ALIKE: f64 = 0.5;

/// Pairs `(place in from, place in to)`, increasing on both sides: first those that are alike,
/// then, between them, the n-th with the n-th. `budget`: what is left of [`BUDGET`]; without it
/// only the latter.
pub(super) fn edited(
    from: &[Line<'_>],
    to: &[Line<'_>],
    budget: &mut usize,
) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (x, y) in alike(from, to, budget).into_iter().chain([(from.len(), to.len())]) {
        let n = (x - i).min(y - j);
        out.extend((0..n).map(|k| (i + k, j + k)));
        if x < from.len() {
            out.push((x, y));
        }
        (i, j) = (x + 1, y + 1);
    }
    out
}

/// Whether `b` is `a` in other words. Without a budget it is another line, which loses nothing.
pub(super) fn reworded(a: &Line<'_>, b: &Line<'_>, budget: &mut usize) -> bool {
    let (a, b) = (start(a), start(b));
    let left = budget.checked_sub(a.len() * b.len());
    *budget = left.unwrap_or(0);
    left.is_some() && !a.is_empty() && similarity(&a, &b, ALIKE).is_some()
}

/// Whether the line is a single word.
pub(super) fn is_word(line: &Line<'_>) -> bool {
    let text = line.key().trim_ascii_start();
    !text.is_empty() && !text.iter().any(u8::is_ascii_whitespace)
}

/// What is compared of a line.
fn start(line: &Line<'_>) -> String {
    let key = line.key();
    String::from_utf8_lossy(&key[..key.len().min(LONGEST)]).trim_start().to_owned()
}

/// The pairs of lines in order that are most alike altogether.
fn alike(from: &[Line<'_>], to: &[Line<'_>], budget: &mut usize) -> Vec<(usize, usize)> {
    let (n, m) = (from.len(), to.len());
    // One for one needs no looking.
    if n * m <= 1 || n * m > COMPARED {
        return Vec::new();
    }
    let length =
        |lines: &[Line<'_>]| -> usize { lines.iter().map(|l| l.key().len().min(LONGEST)).sum() };
    let Some(left) = budget.checked_sub(length(from) * length(to)) else {
        *budget = 0;
        return Vec::new();
    };
    *budget = left;
    let (a, b): (Vec<_>, Vec<_>) =
        (from.iter().map(start).collect(), to.iter().map(start).collect());
    let score = |i: usize, j: usize| match a[i].is_empty() || b[j].is_empty() {
        true => 0.0,
        false => similarity(&a[i], &b[j], ALIKE).unwrap_or(0.0),
    };
    let scores: Vec<f64> = (0..n * m).map(|k| score(k / m, k % m)).collect();
    // The best sum for the lines from i and j on.
    let mut best = vec![0.0f64; (n + 1) * (m + 1)];
    let at = |i: usize, j: usize| i * (m + 1) + j;
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            let s = scores[i * m + j];
            let both = if s > 0.0 { s + best[at(i + 1, j + 1)] } else { 0.0 };
            best[at(i, j)] = both.max(best[at(i + 1, j)]).max(best[at(i, j + 1)]);
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut out = Vec::new();
    while i < n && j < m {
        let s = scores[i * m + j];
        if best[at(i, j)] == best[at(i + 1, j)] {
            i += 1;
        } else if s > 0.0 && best[at(i, j)] == s + best[at(i + 1, j + 1)] {
            out.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else {
            j += 1;
        }
    }
    out
}
