//! Lines with their ends, which belong to the file rather than to its lines.

use super::lines::From;

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'t> {
    /// Without its end.
    pub body: &'t [u8],
    /// `\n`, `\r\n`, or nothing at the end of the text.
    pub end: &'t [u8],
}

impl<'t> Line<'t> {
    /// What is compared: without blanks at the end.
    pub fn key(&self) -> &'t [u8] {
        self.body.trim_ascii_end()
    }
}

/// The lines of a text.
pub(super) fn split(text: &[u8]) -> Vec<Line<'_>> {
    text.split_inclusive(|b| *b == b'\n')
        .map(|line| {
            let end = match line {
                [.., b'\r', b'\n'] => 2,
                [.., b'\n'] => 1,
                _ => 0,
            };
            let (body, end) = line.split_at(line.len() - end);
            Line { body, end }
        })
        .collect()
}

/// The line end that all lines of a text have; `None`: several, or no line has an end.
fn line_end<'t>(lines: &[Line<'t>]) -> Option<&'t [u8]> {
    let mut ends = lines.iter().map(|l| l.end).filter(|e| !e.is_empty());
    let first = ends.next()?;
    ends.all(|e| e == first).then_some(first)
}

/// Whether the last line has an end; `None`: there is no line.
fn closed(lines: &[Line<'_>]) -> Option<bool> {
    lines.last().map(|l| !l.end.is_empty())
}

/// What was changed by the writer, else what is there now, else what the writer has.
fn carried<T: PartialEq>(seen: Option<T>, written: Option<T>, current: Option<T>) -> Option<T> {
    match (seen, written, current) {
        (Some(s), Some(w), _) if s != w => Some(w),
        (_, written, current) => current.or(written),
    }
}

/// The line ends that a merged text shall have.
pub(super) struct Shape<'t> {
    /// Of all lines.
    end: Option<&'t [u8]>,
    /// Of the lines of each side, when they have all the same.
    written: Option<&'t [u8]>,
    current: Option<&'t [u8]>,
    /// Whether the last line has one.
    closed: bool,
}

impl<'t> Shape<'t> {
    /// Merges the shapes of three texts.
    pub fn merged(seen: &[Line<'t>], written: &[Line<'t>], current: &[Line<'t>]) -> Shape<'t> {
        let (w, c) = (line_end(written), line_end(current));
        let mixed = c.is_none() && current.iter().any(|l| !l.end.is_empty());
        Shape {
            end: if mixed { None } else { carried(line_end(seen), w, c) },
            written: w,
            current: c,
            closed: carried(closed(seen), closed(written), closed(current)).unwrap_or(true),
        }
    }

    /// Writes the lines out.
    pub fn write(&self, lines: &[(Line<'_>, From)]) -> Vec<u8> {
        let mut out = Vec::with_capacity(lines.iter().map(|(l, _)| l.body.len() + 2).sum());
        for (n, (line, from)) in lines.iter().enumerate() {
            let own = match from {
                From::Current => self.current,
                From::Written => self.written,
            };
            let end = match self.end {
                Some(end) if own.is_some() || line.end.is_empty() => end,
                _ if line.end.is_empty() => b"\n",
                _ => line.end,
            };
            out.extend_from_slice(line.body);
            if n + 1 < lines.len() || self.closed {
                out.extend_from_slice(end);
            }
        }
        out
    }
}
