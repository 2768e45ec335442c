//! Three-way merge of lists: the elements of an array, the lines of a text.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// After so long a comparison of huge lists with little in common is no longer refined; what
/// is left counts as replaced. Far beyond what a config takes.
const PATIENCE: Duration = Duration::from_secs(2);

/// What one side made of a base list.
struct Side {
    /// For each base element the place of what stands for it now; `None`: removed.
    slots: Vec<Option<usize>>,
    /// Places of what was put before each base element, and after the last.
    gaps: Vec<Vec<usize>>,
}

/// Numbers strings so that equal ones, in any of the lists, have the same number.
pub(super) fn classes<S: AsRef<str>>(lists: &[Vec<S>]) -> Vec<Vec<u32>> {
    let mut known: HashMap<&str, u32> = HashMap::new();
    lists
        .iter()
        .map(|list| {
            list.iter()
                .map(|x| {
                    let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
                    *known.entry(x.as_ref()).or_insert(next)
                })
                .collect()
        })
        .collect()
}

/// How a list of classes became another one. Elements of a replaced run stand for each
/// other in order; what is left over of it was removed or added.
pub(super) fn diff(from: &[u32], to: &[u32]) -> Vec<DiffOp> {
    let mut ops = Vec::new();
    let deadline = Instant::now().checked_add(PATIENCE);
    for op in capture_diff_slices_deadline(Algorithm::Myers, from, to, deadline) {
        match op {
            DiffOp::Replace { old_index, old_len, new_index, new_len } if old_len != new_len => {
                let n = old_len.min(new_len);
                ops.push(DiffOp::Replace { old_index, old_len: n, new_index, new_len: n });
                if old_len > n {
                    ops.push(DiffOp::Delete {
                        old_index: old_index + n,
                        old_len: old_len - n,
                        new_index: new_index + n,
                    });
                } else {
                    ops.push(DiffOp::Insert {
                        old_index: old_index + n,
                        new_index: new_index + n,
                        new_len: new_len - n,
                    });
                }
            }
            op => ops.push(op),
        }
    }
    ops
}

fn side(base: usize, ops: &[DiffOp]) -> Side {
    let mut s = Side { slots: vec![None; base], gaps: vec![Vec::new(); base + 1] };
    for op in ops {
        match *op {
            DiffOp::Equal { old_index, new_index, len }
            | DiffOp::Replace { old_index, old_len: len, new_index, .. } => {
                for i in 0..len {
                    s.slots[old_index + i] = Some(new_index + i);
                }
            }
            DiffOp::Delete { .. } => {}
            DiffOp::Insert { old_index, new_index, new_len } => {
                s.gaps[old_index].extend(new_index..new_index + new_len);
            }
        }
    }
    s
}

/// An element of the merged list.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum Merged {
    /// Element of the current list.
    Current(usize),
    /// Element of the written list.
    Written(usize),
    /// Both changed the same element, differently: base, written, current.
    Both(usize, usize, usize),
}

/// Additions since the last element that stands for a base one, by class.
#[derive(Default)]
struct Added {
    written: HashMap<u32, usize>,
    current: HashMap<u32, usize>,
}

impl Added {
    /// Whether this addition of one side is none that the other has made already.
    fn is_new(own: &mut HashMap<u32, usize>, other: &mut HashMap<u32, usize>, class: u32) -> bool {
        let there = other.get_mut(&class).filter(|n| **n > 0);
        let new = there.is_none();
        match there {
            Some(n) => *n -= 1,
            None => *own.entry(class).or_default() += 1,
        }
        new
    }

    fn written(&mut self, class: u32) -> bool {
        Added::is_new(&mut self.written, &mut self.current, class)
    }

    fn current(&mut self, class: u32) -> bool {
        Added::is_new(&mut self.current, &mut self.written, class)
    }
}

/// Merges by the rules of merge.md "All kinds": the same change is one; what one side removed
/// and the other changed stays changed; insertions at one place are both kept, the current
/// ones first. `apart`: whether what stands now in the place of a base element (base, written,
/// current) are two elements.
pub(super) fn merge(
    seen: &[u32],
    written: &[u32],
    current: &[u32],
    apart: impl Fn(usize, usize, usize) -> bool,
) -> Vec<Merged> {
    let w = side(seen.len(), &diff(seen, written));
    let c = side(seen.len(), &diff(seen, current));
    let mut out = Vec::new();
    let mut added = Added::default();
    for i in 0..=seen.len() {
        let mut also: [Vec<usize>; 2] = [c.gaps[i].clone(), w.gaps[i].clone()];
        let mut stands = None;
        if i < seen.len() {
            match (w.slots[i], c.slots[i]) {
                (Some(a), Some(b)) if written[a] == seen[i] || written[a] == current[b] => {
                    stands = Some(Merged::Current(b));
                }
                (Some(a), Some(b)) if current[b] == seen[i] => stands = Some(Merged::Written(a)),
                (Some(a), Some(b)) if !apart(i, a, b) => stands = Some(Merged::Both(i, a, b)),
                (a, b) => {
                    also[0].extend(b.filter(|b| current[*b] != seen[i]));
                    also[1].extend(a.filter(|a| written[*a] != seen[i]));
                }
            }
        }
        out.extend(
            also[0].iter().filter(|j| added.current(current[**j])).map(|j| Merged::Current(*j)),
        );
        out.extend(
            also[1].iter().filter(|j| added.written(written[**j])).map(|j| Merged::Written(*j)),
        );
        if let Some(stands) = stands {
            out.push(stands);
            added = Added::default();
        }
    }
    out
}
