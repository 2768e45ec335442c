//! Deltas between archives: what to keep of the old bytes and what to insert.
//!
//! Format: the lengths of the old and of the new archive, then splices in order, each *bytes to
//! copy, bytes to skip, length of the insertion, the insertion*; what is left of the old
//! bytes is copied. All numbers are unsigned LEB128.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

/// A delta that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// It was made for other old bytes.
    #[error("a delta for {wanted} bytes was applied to {found}")]
    Base {
        /// Length that it was made for.
        wanted: u64,
        /// Length that was found.
        found: u64,
    },
    /// It ends too early or points outside.
    #[error("a damaged delta")]
    Damaged,
}

/// One replaced range: old bytes `old` become new bytes `new`.
type Splice = (Range<usize>, Range<usize>);

/// Differences smaller than this are not looked into any further.
const FINE: usize = 256;

/// The delta that makes `new` from `old`; chunks that the two share (the same `Arc`) are not
/// looked into, so that the cost of a small change follows the number of chunks, not of bytes.
pub fn between(old: &[&Arc<[u8]>], new: &[&Arc<[u8]>]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, size(old));
    put(&mut out, size(new));
    // Where the chunks that are being looked at begin in the old bytes, and the end of the last
    // splice there.
    let (mut start, mut at, mut i) = (0, 0, 0);
    for (o, n) in differences(old, new) {
        start += size(&old[i..o.start]);
        i = o.end;
        let (old_bytes, new_bytes) = (joined(&old[o]), joined(&new[n]));
        let mut splices = Vec::new();
        let all = (0..old_bytes.len(), 0..new_bytes.len());
        refine(&old_bytes, &new_bytes, all.0, all.1, &mut splices);
        for (old, new) in splices {
            put(&mut out, start + old.start - at);
            put(&mut out, old.len());
            put(&mut out, new.len());
            out.extend_from_slice(&new_bytes[new]);
            at = start + old.end;
        }
        start += old_bytes.len();
    }
    out
}

/// Runs of pieces that differ: a range of old ones and one of new ones.
type Gap = (Range<usize>, Range<usize>);

/// A run of different chunks up to this long is found without asking where else each chunk stands.
const NEAR: usize = 8;

/// The chunks that the two do not share, in order.
fn differences(old: &[&Arc<[u8]>], new: &[&Arc<[u8]>]) -> Vec<Gap> {
    let same = |(a, b): &(&&Arc<[u8]>, &&Arc<[u8]>)| Arc::ptr_eq(a, b);
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    loop {
        let equal = old[i..].iter().zip(&new[j..]).take_while(same).count();
        (i, j) = (i + equal, j + equal);
        let (a, b) = (&old[i..], &new[j..]);
        if a.is_empty() && b.is_empty() {
            return out;
        }
        let Some((x, y)) = near(a, b) else { break };
        out.push((i..i + x, j..j + y));
        (i, j) = (i + x, j + y);
    }
    let (a, b) = (&old[i..], &new[j..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(same).count();
    // Both lists are alive, so an address stands for one piece.
    let far = gaps(&a[..a.len() - tail], &b[..b.len() - tail], |c| c.as_ptr() as usize);
    let moved = |by: usize, range: Range<usize>| by + range.start..by + range.end;
    out.extend(far.into_iter().map(|(o, n)| (moved(i, o), moved(j, n))));
    out
}

/// How many chunks of each to leave out, so that the next ones are shared or both lists end.
fn near(old: &[&Arc<[u8]>], new: &[&Arc<[u8]>]) -> Option<(usize, usize)> {
    let meet = |&(a, b): &(usize, usize)| match (old.get(a), new.get(b)) {
        (Some(x), Some(y)) => Arc::ptr_eq(x, y),
        _ => a == old.len() && b == new.len(),
    };
    (1..=NEAR).flat_map(|sum| (0..=sum).map(move |a| (a, sum - a))).find(meet)
}

fn size(chunks: &[&Arc<[u8]>]) -> usize {
    chunks.iter().map(|c| c.len()).sum()
}

fn joined(chunks: &[&Arc<[u8]>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(chunks.iter().map(|c| c.len()).sum());
    chunks.iter().for_each(|c| out.extend_from_slice(c));
    out
}

/// The bytes after the change.
pub fn apply(old: &[u8], delta: &[u8]) -> Result<Vec<u8>, DeltaError> {
    let mut replay = Replay::new(old.to_vec());
    replay.then(delta.to_vec())?;
    Ok(replay.bytes())
}

/// A chain of deltas being followed. A step costs by the number of splices so far, not by the
/// size of the archive.
pub struct Replay {
    pieces: Vec<Part>,
    len: usize,
}

/// A range of some bytes.
type Part = (Arc<[u8]>, Range<usize>);

/// Pieces from which on they are joined.
const MANY: usize = 8_192;

impl Replay {
    /// From these bytes on.
    pub fn new(bytes: Vec<u8>) -> Replay {
        let len = bytes.len();
        Replay { pieces: vec![(Arc::from(bytes), 0..len)], len }
    }

    /// The next delta. After an error this is of no use any more.
    pub fn then(&mut self, delta: Vec<u8>) -> Result<(), DeltaError> {
        let delta: Arc<[u8]> = Arc::from(delta);
        let mut rest = &delta[..];
        let wanted = take(&mut rest)?;
        if wanted != self.len {
            return Err(DeltaError::Base { wanted: wanted as u64, found: self.len as u64 });
        }
        let size = take(&mut rest)?;
        let mut old = std::mem::take(&mut self.pieces).into_iter().peekable();
        let mut copied = 0usize;
        while !rest.is_empty() {
            let (copy, skip, insert) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
            move_on(&mut old, copy, Some(&mut self.pieces))?;
            move_on(&mut old, skip, None)?;
            copied += copy + insert;
            if insert > rest.len() {
                return Err(DeltaError::Damaged);
            }
            let from = delta.len() - rest.len();
            self.pieces.push((delta.clone(), from..from + insert));
            rest = &rest[insert..];
        }
        for piece in old {
            copied += piece.1.len();
            self.pieces.push(piece);
        }
        if copied != size {
            return Err(DeltaError::Damaged);
        }
        self.len = size;
        if self.pieces.len() > MANY {
            *self = Replay::new(self.bytes());
        }
        Ok(())
    }

    /// The bytes now.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len);
        self.pieces.iter().for_each(|(b, range)| out.extend_from_slice(&b[range.clone()]));
        out
    }
}

/// Takes `count` bytes off the front of `old`.
fn move_on(
    old: &mut std::iter::Peekable<std::vec::IntoIter<Part>>,
    count: usize,
    mut to: Option<&mut Vec<Part>>,
) -> Result<(), DeltaError> {
    let mut left = count;
    while left > 0 {
        let (bytes, range) = old.peek_mut().ok_or(DeltaError::Damaged)?;
        let step = range.len().min(left);
        if let Some(to) = to.as_deref_mut() {
            to.push((bytes.clone(), range.start..range.start + step));
        }
        range.start += step;
        left -= step;
        if range.start == range.end {
            old.next();
        }
    }
    Ok(())
}

/// The differences between two lists of pieces, around the pieces that occur once in each and
/// stand in the same order in both (patience).
fn gaps<P, K: Hash + Eq>(old: &[P], new: &[P], key: impl Fn(&P) -> K) -> Vec<Gap> {
    // Occurrences and last place, for old and for new.
    let mut seen: HashMap<K, (u32, usize, u32)> = HashMap::with_capacity(old.len());
    for (i, p) in old.iter().enumerate() {
        let e = seen.entry(key(p)).or_insert((0, 0, 0));
        (e.0, e.1) = (e.0 + 1, i);
    }
    for p in new {
        if let Some(e) = seen.get_mut(&key(p)) {
            e.2 += 1;
        }
    }
    let pairs: Vec<(usize, usize)> = new
        .iter()
        .enumerate()
        .filter_map(|(j, p)| match seen.get(&key(p)) {
            Some((1, i, 1)) => Some((*i, j)),
            _ => None,
        })
        .collect();
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (a, b) in increasing(&pairs).into_iter().chain([(old.len(), new.len())]) {
        if i < a || j < b {
            out.push((i..a, j..b));
        }
        (i, j) = (a + 1, b + 1);
    }
    out
}

/// The longest run of pairs whose first members grow; the second ones grow already.
fn increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // `ends[k]`: the pair with which a run of k + 1 pairs ends, the smallest there is.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![usize::MAX; pairs.len()];
    for (n, pair) in pairs.iter().enumerate() {
        let k = ends.partition_point(|e| pairs[*e].0 < pair.0);
        if k > 0 {
            before[n] = ends[k - 1];
        }
        if k == ends.len() {
            ends.push(n);
        } else {
            ends[k] = n;
        }
    }
    let mut run = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied().unwrap_or(usize::MAX);
    while let Some(pair) = pairs.get(at) {
        run.push(*pair);
        at = before[at];
    }
    run.reverse();
    run
}

/// Looks into one difference: common bytes at its ends go, and a large one is split by lines.
fn refine(old: &[u8], new: &[u8], o: Range<usize>, n: Range<usize>, out: &mut Vec<Splice>) {
    let (o, n) = trim(old, new, o, n);
    if o.is_empty() || n.is_empty() || o.len().max(n.len()) < FINE {
        push(o, n, out);
        return;
    }
    let old_lines: Vec<&[u8]> = old[o.clone()].split_inclusive(|b| *b == b'\n').collect();
    let new_lines: Vec<&[u8]> = new[n.clone()].split_inclusive(|b| *b == b'\n').collect();
    let bytes = |lines: &[&[u8]]| lines.iter().map(|l| l.len()).sum::<usize>();
    // Bytes and lines so far.
    let (mut i, mut j) = ((o.start, 0), (n.start, 0));
    for (x, y) in gaps(&old_lines, &new_lines, |l| *l) {
        i.0 += bytes(&old_lines[i.1..x.start]);
        j.0 += bytes(&new_lines[j.1..y.start]);
        let ends = (i.0 + bytes(&old_lines[x.clone()]), j.0 + bytes(&new_lines[y.clone()]));
        let (a, b) = trim(old, new, i.0..ends.0, j.0..ends.1);
        push(a, b, out);
        (i, j) = ((ends.0, x.end), (ends.1, y.end));
    }
}

/// Without the bytes that are equal at both ends.
fn trim(old: &[u8], new: &[u8], o: Range<usize>, n: Range<usize>) -> (Range<usize>, Range<usize>) {
    let (a, b) = (&old[o.clone()], &new[n.clone()]);
    let head = common(a, b);
    let (a, b) = (&a[head..], &b[head..]);
    let tail = common_tail(a, b);
    (o.start + head..o.end - tail, n.start + head..n.end - tail)
}

/// Bytes that are compared at once.
const BLOCK: usize = 128;

/// How many bytes are equal at the beginning.
fn common(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK));
    let at = BLOCK * blocks.take_while(|(x, y)| x == y).count();
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

/// How many bytes are equal at the end.
fn common_tail(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.rchunks_exact(BLOCK).zip(b.rchunks_exact(BLOCK));
    let at = BLOCK * blocks.take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - at], &b[..b.len() - at]);
    at + a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count()
}

fn push(o: Range<usize>, n: Range<usize>, out: &mut Vec<Splice>) {
    if !o.is_empty() || !n.is_empty() {
        out.push((o, n));
    }
}

fn put(out: &mut Vec<u8>, number: usize) {
    let mut left = number;
    while left >= 0x80 {
        out.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn take(from: &mut &[u8]) -> Result<usize, DeltaError> {
    let mut number = 0usize;
    for (n, byte) in from.iter().enumerate().take(9) {
        number |= usize::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            *from = &from[n + 1..];
            return Ok(number);
        }
    }
    Err(DeltaError::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &[&str]) -> Vec<Arc<[u8]>> {
        text.iter().map(|t| Arc::from(t.as_bytes())).collect()
    }

    fn refs(chunks: &[Arc<[u8]>]) -> Vec<&Arc<[u8]>> {
        chunks.iter().collect()
    }

    fn check(old: &[Arc<[u8]>], new: &[Arc<[u8]>]) -> usize {
        let delta = between(&refs(old), &refs(new));
        assert_eq!(apply(&old.concat(), &delta).unwrap(), new.concat());
        delta.len()
    }

    #[test]
    fn shared_chunks_cost_nothing() {
        let line = |i: usize| Arc::from(format!("- line {i} of many\n").as_bytes());
        let old: Vec<Arc<[u8]>> = (0..10_000).map(line).collect();
        let mut new = old.clone();
        new[17] = Arc::from(&b"- other\n"[..]);
        new.remove(400);
        new.insert(9_000, Arc::from(&b"- new\n"[..]));
        new.swap(5_000, 5_001);
        assert!(check(&old, &new) < 150);
        assert!(check(&old, &old) < 10);
        check(&old, &[]);
        check(&[], &old);
    }

    #[test]
    fn two_far_changes_in_one_chunk_stay_small() {
        let mut text: Vec<String> = (0..5_000).map(|i| format!("key{i}: value\n")).collect();
        let old = chunks(&[&text.concat()]);
        text[3] = "key3: other\n".into();
        text[4_990] = "key4990: other\n".into();
        text.insert(2_000, "\n\n\n".into());
        let new = chunks(&[&text.concat()]);
        assert!(check(&old, &new) < 60);
    }

    #[test]
    fn repeated_and_moved_pieces_come_back_right() {
        let a: Arc<[u8]> = Arc::from(&b"same\n"[..]);
        let b: Arc<[u8]> = Arc::from(&b"b\n"[..]);
        let c: Arc<[u8]> = Arc::from(&b"c\n"[..]);
        let old = vec![a.clone(), b.clone(), a.clone(), c.clone(), a.clone()];
        let new = vec![c.clone(), a.clone(), a.clone(), b.clone(), a.clone(), a.clone(), c];
        check(&old, &new);
        check(&new, &old);
    }

    #[test]
    fn damaged_deltas_are_errors() {
        let (old, new) = (chunks(&["abc"]), chunks(&["abxc"]));
        let delta = between(&refs(&old), &refs(&new));
        assert_eq!(apply(b"abcd", &delta), Err(DeltaError::Base { wanted: 3, found: 4 }));
        for cut in 0..delta.len() {
            assert!(apply(b"abc", &delta[..cut]).is_err(), "{cut}");
        }
        assert_eq!(apply(b"abc", &[3, 4, 9, 0, 0]), Err(DeltaError::Damaged));
        assert_eq!(apply(b"abc", &[0x80; 12]), Err(DeltaError::Damaged));
    }

    proptest::proptest! {
        #[test]
        fn any_two_lists_of_pieces(
            pool in proptest::collection::vec("[ab\n]{0,400}", 1..6),
            old in proptest::collection::vec(0usize..6, 0..20),
            new in proptest::collection::vec(0usize..6, 0..20),
        ) {
            let pool: Vec<Arc<[u8]>> = pool.iter().map(|t| Arc::from(t.as_bytes())).collect();
            let pick = |ns: &[usize]| -> Vec<Arc<[u8]>> {
                ns.iter().map(|n| pool[n % pool.len()].clone()).collect()
            };
            check(&pick(&old), &pick(&new));
        }
    }
}
