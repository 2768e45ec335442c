//! Which version of a text last touched each of its lines.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// The longest that one comparison may look for the smallest difference; after that it takes
/// what it has, and some lines count as touched that are not.
const PATIENCE: Duration = Duration::from_millis(200);

/// Versions of a text are given one after the other, the oldest first. One step costs a
/// comparison of bytes and, for the lines between the first and the last difference, a
/// comparison of lines.
#[derive(Debug, Default)]
pub struct Blame {
    text: Vec<u8>,
    /// One for each line of `text`.
    owners: Vec<u64>,
}

impl Blame {
    /// The next version: its lines that are not in the one before, in this order, are its own.
    pub fn next(&mut self, version: u64, text: Vec<u8>) {
        if text == self.text {
            return;
        }
        let old = std::mem::replace(&mut self.text, text);
        let new = &self.text;
        let head = line_start(&old, old.iter().zip(new).take_while(|(a, b)| a == b).count());
        let tail = same_tail(&old[head..], &new[head..]);
        let old_lines = lines(&old[head..old.len() - tail]);
        let new_lines = lines(&new[head..new.len() - tail]);
        let before = count(&old[..head]);
        let owned = &self.owners[before..before + old_lines.len()];
        let mut owners = Vec::with_capacity(new_lines.len());
        let deadline = Some(Instant::now() + PATIENCE);
        let ops = capture_diff_slices_deadline(Algorithm::Myers, &old_lines, &new_lines, deadline);
        for op in ops {
            match op {
                DiffOp::Equal { old_index, len, .. } => {
                    owners.extend_from_slice(&owned[old_index..old_index + len]);
                }
                DiffOp::Insert { new_len, .. } | DiffOp::Replace { new_len, .. } => {
                    owners.extend(std::iter::repeat_n(version, new_len));
                }
                DiffOp::Delete { .. } => {}
            }
        }
        self.owners.splice(before..before + old_lines.len(), owners);
    }

    /// The lines of the last version, each with its end, and the version that touched it last.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.owners.iter().copied().zip(lines(&self.text))
    }
}

/// The beginning of the line in which `at` lies.
fn line_start(text: &[u8], at: usize) -> usize {
    text[..at].iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1)
}

/// How many bytes of whole lines the two have in common at their ends.
fn same_tail(a: &[u8], b: &[u8]) -> usize {
    let same = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let tail = &a[a.len() - same..];
    let whole = (same == a.len() || a[a.len() - same - 1] == b'\n')
        && (same == b.len() || b[b.len() - same - 1] == b'\n');
    if whole {
        return same;
    }
    tail.iter().position(|c| *c == b'\n').map_or(0, |n| same - n - 1)
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|b| *b == b'\n').collect()
}

fn count(text: &[u8]) -> usize {
    text.iter().filter(|b| **b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blamed(versions: &[&str]) -> Vec<(u64, String)> {
        let mut blame = Blame::default();
        for (n, text) in versions.iter().enumerate() {
            blame.next(n as u64 + 1, text.as_bytes().to_vec());
        }
        blame.lines().map(|(n, l)| (n, String::from_utf8_lossy(l).into_owned())).collect()
    }

    fn owners(versions: &[&str]) -> Vec<u64> {
        blamed(versions).into_iter().map(|(n, _)| n).collect()
    }

    #[test]
    fn lines_belong_to_the_version_that_touched_them() {
        assert_eq!(owners(&["a\nb\nc\n"]), [1, 1, 1]);
        assert_eq!(owners(&["a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\nd\n"]), [1, 2, 1, 3]);
        assert_eq!(owners(&["a\nb\nc\n", "b\nc\n", "x\nb\nc\n"]), [3, 1, 1]);
        assert_eq!(owners(&["a\n", "", "a\n"]), [3]);
        assert_eq!(owners(&[]), [] as [u64; 0]);
    }

    #[test]
    fn equal_lines_and_missing_line_ends() {
        assert_eq!(owners(&["a\na\n", "a\na\na\n"]).iter().filter(|n| **n == 2).count(), 1);
        assert_eq!(owners(&["a\nb", "a\nb\n"]), [1, 2]);
        assert_eq!(owners(&["a\nb\n", "a\nb"]), [1, 2]);
        assert_eq!(owners(&["ab\n", "b\n"]), [2]);
        assert_eq!(owners(&["b\n", "ab\n"]), [2]);
        assert_eq!(owners(&["x\nab\n", "x\nb\nab\n"]), [1, 2, 1]);
    }

    #[test]
    fn every_line_has_an_owner_whatever_the_versions() {
        let texts: Vec<String> = (0..200u32)
            .map(|n| {
                let line = |k: u32| format!("{}\n", (k * 7 + n / (k + 1)) % 13);
                (0..n % 17).map(line).collect()
            })
            .collect();
        for n in 1..texts.len() {
            let versions: Vec<&str> = texts[..n].iter().map(String::as_str).collect();
            let joined: String = blamed(&versions).into_iter().map(|(_, l)| l).collect();
            assert_eq!(joined, texts[n - 1]);
        }
    }
}
