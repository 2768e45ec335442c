//! The bytes of one version of a document: immutable, cheap to clone, made of chunks that
//! versions share.

use std::sync::Arc;

/// Immutable bytes in chunks. Two versions that differ in one line share all chunks but
/// one or two, so that a copy, a comparison and a delta cost by the number of chunks.
#[derive(Clone)]
pub struct Content {
    chunks: Arc<[(u64, Arc<[u8]>)]>,
}

impl Content {
    /// From chunks in order; empty ones are left out.
    pub fn from_chunks(chunks: impl IntoIterator<Item = Arc<[u8]>>) -> Content {
        let mut end = 0u64;
        let chunks = chunks.into_iter();
        let mut all = Vec::with_capacity(chunks.size_hint().0);
        for chunk in chunks.filter(|c| !c.is_empty()) {
            end += chunk.len() as u64;
            all.push((end, chunk));
        }
        Content { chunks: all.into() }
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.chunks.last().map_or(0, |(end, _)| *end)
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The chunks in order.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = &Arc<[u8]>> + DoubleEndedIterator {
        self.chunks.iter().map(|(_, c)| c)
    }

    /// Up to `size` bytes from `offset`; fewer only at the end.
    pub fn read(&self, offset: u64, size: usize) -> Vec<u8> {
        let left = self.len().saturating_sub(offset);
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(size);
        let mut out = Vec::with_capacity(want);
        let first = self.chunks.partition_point(|(end, _)| *end <= offset);
        let mut at = offset;
        for (end, chunk) in &self.chunks[first..] {
            if out.len() == want {
                break;
            }
            let skip = chunk.len() - usize::try_from(end - at).unwrap_or(chunk.len());
            let take = (chunk.len() - skip).min(want - out.len());
            out.extend_from_slice(&chunk[skip..skip + take]);
            at = *end;
        }
        out
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.read(0, usize::MAX)
    }

    /// Whether the first bytes are these.
    pub fn starts_with(&self, beginning: &Content) -> bool {
        let mut rest = (0, 0);
        for chunk in beginning.chunks() {
            let mut chunk: &[u8] = chunk;
            while !chunk.is_empty() {
                let Some(own) = self.chunks().nth(rest.0) else { return false };
                let own = &own[rest.1..];
                let n = own.len().min(chunk.len());
                if own[..n] != chunk[..n] {
                    return false;
                }
                chunk = &chunk[n..];
                rest = if n == own.len() { (rest.0 + 1, 0) } else { (rest.0, rest.1 + n) };
            }
        }
        true
    }

    /// How many bytes from `offset` on are the same as those of `text`.
    pub fn begins_alike(&self, offset: u64, text: &[u8]) -> usize {
        let first = self.chunks.partition_point(|(end, _)| *end <= offset);
        let (mut at, mut same) = (offset, 0);
        for (end, chunk) in &self.chunks[first..] {
            let rest = &chunk[chunk.len() - usize::try_from(end - at).unwrap_or(chunk.len())..];
            let n = rest.len().min(text.len() - same);
            if rest[..n] != text[same..same + n] {
                return same + rest.iter().zip(&text[same..]).take_while(|(a, b)| a == b).count();
            }
            same += n;
            if n < rest.len() {
                break;
            }
            at = *end;
        }
        same
    }

    /// Whether the bytes are these.
    pub fn equals(&self, bytes: &[u8]) -> bool {
        if self.len() != bytes.len() as u64 {
            return false;
        }
        let mut rest = bytes;
        self.chunks().all(|c| {
            let (head, tail) = rest.split_at(c.len());
            rest = tail;
            head == &c[..]
        })
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Content {
        Content::from_chunks([Arc::from(bytes)])
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        if Arc::ptr_eq(&self.chunks, &other.chunks) {
            return true;
        }
        let ends = |c: &Content| c.chunks.iter().map(|(end, _)| *end).collect::<Vec<_>>();
        if self.len() != other.len() {
            return false;
        }
        if ends(self) != ends(other) {
            return self.to_vec() == other.to_vec();
        }
        self.chunks().zip(other.chunks()).all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
    }
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Content({:?})", String::from_utf8_lossy(&self.read(0, 400)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_across_chunks() {
        let parts: [&[u8]; 4] = [b"abc", b"", b"defg", b"h"];
        let c = Content::from_chunks(parts.map(Arc::from));
        assert_eq!(c.len(), 8);
        for from in 0..10u64 {
            for size in 0..10usize {
                let all = b"abcdefgh";
                let a = (from as usize).min(8);
                let b = (a + size).min(8);
                assert_eq!(c.read(from, size), all[a..b], "{from} {size}");
            }
        }
        assert!(c.equals(b"abcdefgh"));
        assert!(!c.equals(b"abcdefgx"));
        assert_eq!(c, Content::from(b"abcdefgh".to_vec()));
        assert_eq!(c, Content::from_chunks(parts.map(Arc::from)));
        assert_ne!(c, Content::from_chunks([&b"abc"[..], b"defX", b"h"].map(Arc::from)));
        assert_ne!(c, Content::from(b"abcdefgx".to_vec()));
    }
}
