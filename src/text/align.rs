//! Which elements of two sequences are the same ones.

use std::collections::HashMap;

/// The largest product of lengths that is compared with the exact algorithm.
const EXACT: usize = 1 << 20;

/// Pairs `(index in a, index in b)` of equal elements, strictly increasing on both sides.
///
/// Equal ends are paired first, then elements that are unique on both sides are the fixed
/// points (longest increasing run of them), and the stretches between two fixed points are
/// compared exactly when they are small and greedily when not. `O(n log n)` but for the
/// small stretches, for any input.
pub fn align(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    stretch(a, b, 0, 0, true, &mut out);
    out
}

fn stretch(
    a: &[u32],
    b: &[u32],
    a0: usize,
    b0: usize,
    deeper: bool,
    out: &mut Vec<(usize, usize)>,
) {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    out.extend((0..head).map(|i| (a0 + i, b0 + i)));
    let (a, b, a0, b0) = (&a[head..], &b[head..], a0 + head, b0 + head);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (ma, mb) = (&a[..a.len() - tail], &b[..b.len() - tail]);
    if !ma.is_empty() && !mb.is_empty() {
        let fixed = if deeper { unique_pairs(ma, mb) } else { Vec::new() };
        if !fixed.is_empty() {
            let (mut ia, mut ib) = (0, 0);
            for (x, y) in fixed {
                stretch(&ma[ia..x], &mb[ib..y], a0 + ia, b0 + ib, false, out);
                out.push((a0 + x, b0 + y));
                (ia, ib) = (x + 1, y + 1);
            }
            stretch(&ma[ia..], &mb[ib..], a0 + ia, b0 + ib, false, out);
        } else if ma.len().saturating_mul(mb.len()) <= EXACT {
            exact(ma, mb, a0, b0, out);
        } else {
            greedy(ma, mb, a0, b0, out);
        }
    }
    let (ta, tb) = (a0 + ma.len(), b0 + mb.len());
    out.extend((0..tail).map(|i| (ta + i, tb + i)));
}

/// Elements that stand once on either side, those that keep their order.
fn unique_pairs(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    let mut seen: HashMap<u32, (usize, u32, usize, u32)> = HashMap::new();
    for (i, x) in a.iter().enumerate() {
        let e = seen.entry(*x).or_default();
        (e.0, e.1) = (i, e.1 + 1);
    }
    for (i, x) in b.iter().enumerate() {
        if let Some(e) = seen.get_mut(x) {
            (e.2, e.3) = (i, e.3 + 1);
        }
    }
    let mut pairs: Vec<(usize, usize)> = seen
        .into_values()
        .filter(|(_, in_a, _, in_b)| *in_a == 1 && *in_b == 1)
        .map(|(i, _, j, _)| (i, j))
        .collect();
    pairs.sort_unstable();
    let at: Vec<usize> = pairs.iter().map(|p| p.1).collect();
    longest_increasing(&at).into_iter().map(|i| pairs[i]).collect()
}

fn exact(a: &[u32], b: &[u32], a0: usize, b0: usize, out: &mut Vec<(usize, usize)>) {
    for op in similar::capture_diff_slices(similar::Algorithm::Myers, a, b) {
        if let similar::DiffOp::Equal { old_index, new_index, len } = op {
            out.extend((0..len).map(|i| (a0 + old_index + i, b0 + new_index + i)));
        }
    }
}

/// The n-th occurrence with the n-th occurrence, those that keep their order.
fn greedy(a: &[u32], b: &[u32], a0: usize, b0: usize, out: &mut Vec<(usize, usize)>) {
    let mut places: HashMap<u32, std::collections::VecDeque<usize>> = HashMap::new();
    for (j, y) in b.iter().enumerate() {
        places.entry(*y).or_default().push_back(j);
    }
    let pairs: Vec<(usize, usize)> = a
        .iter()
        .enumerate()
        .filter_map(|(i, x)| Some((i, places.get_mut(x)?.pop_front()?)))
        .collect();
    let at: Vec<usize> = pairs.iter().map(|p| p.1).collect();
    out.extend(longest_increasing(&at).into_iter().map(|i| (a0 + pairs[i].0, b0 + pairs[i].1)));
}

/// Indices of a longest strictly increasing subsequence, in order. `O(n log n)`.
pub fn longest_increasing<T: Ord>(values: &[T]) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(values.len());
    for (i, v) in values.iter().enumerate() {
        let k = ends.partition_point(|&e| values[e] < *v);
        before.push(k.checked_sub(1).map(|k| ends[k]));
        if k == ends.len() {
            ends.push(i);
        } else {
            ends[k] = i;
        }
    }
    let mut out = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(i) = at {
        out.push(i);
        at = before[i];
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_equal_and_increasing() {
        let cases: [(&[u32], &[u32], usize); 6] = [
            (&[1, 2, 3], &[1, 2, 3], 3),
            (&[1, 2, 3], &[1, 9, 2, 3], 3),
            (&[1, 2, 3, 4], &[4, 1, 2, 3], 3),
            (&[7, 7, 1, 7], &[7, 1, 7, 7], 3),
            (&[], &[1], 0),
            (&[5, 0, 6, 0, 7], &[5, 0, 0, 6, 0, 7], 5),
        ];
        for (a, b, want) in cases {
            let got = align(a, b);
            assert_eq!(got.len(), want, "{a:?} {b:?} {got:?}");
            assert!(got.iter().all(|(i, j)| a[*i] == b[*j]));
            assert!(got.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
        }
    }

    #[test]
    fn long_repetitive_input_stays_cheap() {
        let a: Vec<u32> = (0..20_000).map(|i| i % 7).collect();
        let b: Vec<u32> = (0..20_000).map(|i| (i * 3) % 7).collect();
        let got = align(&a, &b);
        assert!(got.len() > 2_000);
        assert!(got.iter().all(|(i, j)| a[*i] == b[*j]));
    }

    #[test]
    fn increasing() {
        assert_eq!(longest_increasing(&[3, 1, 2, 2, 5, 4]), vec![1, 3, 5]);
        assert_eq!(longest_increasing::<u8>(&[]), Vec::<usize>::new());
    }
}
