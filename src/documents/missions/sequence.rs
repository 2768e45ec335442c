//! Sequences for a list of rows in text order, changing as few as possible.

use super::chunk::RowKey;
use crate::text::longest_increasing;

/// The sequences of the rows in order, given their present keys (`None`: a new row, or one
/// that comes from another state). `after`: what a row behind all others gets at least
/// (max over all states + 1); `before`: what a row in front of all others gets at most (min
/// over all states - 1). Rows that keep their order keep their sequence; others get one in
/// the gap between their neighbours, and where a gap is too small the shorter side of it is
/// renumbered.
pub fn assign(present: &[Option<RowKey>], before: i64, after: i64) -> Vec<i64> {
    let known: Vec<(usize, RowKey)> =
        present.iter().enumerate().filter_map(|(i, k)| Some((i, (*k)?))).collect();
    let keys: Vec<RowKey> = known.iter().map(|(_, k)| *k).collect();
    let mut out: Vec<Option<i64>> = vec![None; present.len()];
    for i in longest_increasing(&keys) {
        out[known[i].0] = Some(known[i].1.sequence);
    }
    let mut i = 0;
    while i < out.len() {
        if out[i].is_some() {
            i += 1;
            continue;
        }
        let end = (i..out.len()).find(|k| out[*k].is_some()).unwrap_or(out.len());
        i = fill(&mut out, i, end, before, after);
    }
    out.into_iter().map(|s| s.unwrap_or(0)).collect()
}

/// Fills the gap `from..to`, widening it while it is too small. Returns where to go on.
fn fill(out: &mut [Option<i64>], from: usize, to: usize, before: i64, after: i64) -> usize {
    let (mut a, mut b) = (from, to);
    loop {
        let low = if a > 0 { out[a - 1] } else { None };
        let high = out.get(b).copied().flatten();
        let need = (b - a) as i64;
        match (low, high) {
            (_, None) => {
                // To the end: behind everything.
                let start = after.max(low.map_or(i64::MIN, |l| l.saturating_add(1)));
                for (n, slot) in out[a..b].iter_mut().enumerate() {
                    *slot = Some(start.saturating_add(n as i64));
                }
                return b;
            }
            (None, Some(high)) => {
                let end = before.min(high.saturating_sub(1));
                for (n, slot) in out[a..b].iter_mut().rev().enumerate() {
                    *slot = Some(end.saturating_sub(n as i64));
                }
                return b;
            }
            (Some(low), Some(high)) if high.saturating_sub(low) > need => {
                let step = high.saturating_sub(low) / (need + 1);
                for (n, slot) in out[a..b].iter_mut().enumerate() {
                    *slot = Some(low.saturating_add(step.saturating_mul(n as i64 + 1)));
                }
                return b;
            }
            // Towards the nearer end of the list, past gaps that are still open there.
            _ if a <= out.len() - b => a -= 1,
            _ => {
                b += 1;
                while b < out.len() && out[b].is_none() {
                    b += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(s: &[i64]) -> Vec<Option<RowKey>> {
        s.iter()
            .enumerate()
            .map(|(i, s)| (*s != i64::MIN).then_some(RowKey { sequence: *s, id: i as i64 }))
            .collect()
    }
    const NEW: i64 = i64::MIN;

    fn check(present: &[i64], want: &[i64]) {
        let (low, high) = (-10, 100);
        let got = assign(&keys(present), low, high);
        assert_eq!(got, want, "{present:?}");
    }

    #[test]
    fn ends_gaps_and_runs() {
        check(&[1, 2, NEW, NEW], &[1, 2, 100, 101]);
        check(&[NEW, NEW, 1, 2], &[-11, -10, 1, 2]);
        check(&[1, NEW, 9], &[1, 5, 9]);
        check(&[1, NEW, 2, 3, 4, 5], &[-11, -10, 2, 3, 4, 5]);
        check(&[1, 2, 3, 4, NEW, 5], &[1, 2, 3, 4, 100, 101]);
        check(&[NEW], &[100]);
        check(&[], &[]);
    }

    #[test]
    fn foreign_extremes() {
        check(&[i64::MIN + 1, NEW, i64::MAX], &[i64::MIN + 1, -(1 << 62), i64::MAX]);
        assert_eq!(assign(&keys(&[i64::MAX, NEW]), -1, i64::MAX), [i64::MAX, i64::MAX]);
    }

    #[test]
    fn one_moved_row_is_one_change() {
        // The last one moved to the front.
        check(&[9, 1, 2, 3, 4], &[-10, 1, 2, 3, 4]);
        // The first one moved to the end.
        check(&[2, 3, 4, 1], &[2, 3, 4, 100]);
    }
}
