//! Three-way merge of texts by line (merge.md, "All kinds", "Text and queues").
//!
//! Lines are compared without trailing blanks and line ends. What the two sides have in common
//! with the seen text is found first; a line that stands between the same common lines as
//! another one, and resembles it, is the same line, edited. One that only stands in its place is
//! another line: it was added, and the old one taken out. In a queue no line is ever edited, so that
//! nothing that was added can be lost.

use std::collections::HashMap;

use super::layout::{Line, Shape, split};
use super::pairs;
use crate::model::Overlap;
use crate::text::align;

/// Most lines of the three texts together that are compared one by one.
const MOST: usize = 1_000_000;
/// Most overlaps that are recorded one by one.
const OVERLAPS: usize = 100;
/// Longest text shown in an overlap, in characters.
const SHOWN: usize = 200;

/// What the lines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::documents) enum Mode {
    /// Lines of a text: the later change of a line wins, the same addition counts once.
    Text,
    /// Lines of a text with keys, whose values are merged by themselves: what stands in the place of
    /// a line is that line, or keys would come twice.
    Keys,
    /// Entries of a queue: all additions are kept.
    Queue,
}

/// A merged text, and where the two sides met (R4).
pub(in crate::documents) struct Merged {
    /// The text after both changes.
    pub text: Vec<u8>,
    /// Where they changed the same line.
    pub overlaps: Vec<Overlap>,
}

/// What one side made of the seen lines.
struct Side {
    /// For each seen line the place of what stands for it now; `None`: removed.
    slots: Vec<Option<usize>>,
    /// Places of what was put before each seen line, and after the last.
    gaps: Vec<Vec<usize>>,
}

/// Merges what `written` changed of `seen` into `current`.
pub(in crate::documents) fn merge(
    mode: Mode,
    seen: &[u8],
    written: &[u8],
    current: &[u8],
) -> Merged {
    if let Some(text) = shortened(seen, written, current) {
        return Merged { text, overlaps: Vec::new() };
    }
    let count = |text: &[u8]| text.iter().filter(|b| **b == b'\n').count();
    if count(seen) + count(written) + count(current) > MOST {
        return too_many(mode, written, current);
    }
    let (s, w, c) = (split(seen), split(written), split(current));
    let shape = Shape::merged(&s, &w, &c);
    let head = common(s.iter(), w.iter(), c.iter());
    let (s, w, c, before) = (&s[head..], &w[head..], &c[head..], &c[..head]);
    let tail = common(s.iter().rev(), w.iter().rev(), c.iter().rev());
    let after = &c[c.len() - tail..];
    let (s, w, c) = (&s[..s.len() - tail], &w[..w.len() - tail], &c[..c.len() - tail]);
    let numbers = numbered([s, w, c]);
    let mut m = Merger {
        mode,
        s,
        w,
        c,
        numbers: &numbers,
        budget: pairs::BUDGET,
        added: Vec::new(),
        out: before.iter().map(|l| (*l, From::Current)).collect(),
        overlaps: Vec::new(),
        more: 0,
    };
    m.run();
    let Merger { mut out, mut overlaps, more, .. } = m;
    out.extend(after.iter().map(|l| (*l, From::Current)));
    if more > 0 {
        let n = format!("{more} more lines");
        overlaps.push(Overlap { what: n, earlier: String::new(), later: String::new() });
    }
    Merged { text: shape.write(&out), overlaps }
}

/// The frequent case: lines were only added at the end, and the writer took some away from the
/// beginning or the end, or all.
fn shortened(seen: &[u8], written: &[u8], current: &[u8]) -> Option<Vec<u8>> {
    let whole = |text: &[u8]| text.is_empty() || text.ends_with(b"\n");
    let more = current.strip_prefix(seen)?;
    let before_rest = seen.strip_suffix(written)?;
    (whole(seen) && whole(written) && whole(before_rest) || written.is_empty() && whole(seen))
        .then(|| [written, more].concat())
}

/// How many lines all three begin with.
fn common<'a>(
    s: impl Iterator<Item = &'a Line<'a>>,
    w: impl Iterator<Item = &'a Line<'a>>,
    c: impl Iterator<Item = &'a Line<'a>>,
) -> usize {
    s.zip(w).zip(c).take_while(|((s, w), c)| s == w && s == c).count()
}

/// Of texts that are too long to compare: nobody's entries are lost, the later text wins.
fn too_many(mode: Mode, written: &[u8], current: &[u8]) -> Merged {
    match mode {
        Mode::Text | Mode::Keys => {
            let what = "the whole text, which has too many lines to compare".to_owned();
            let overlap = Overlap { what, earlier: shown(current), later: shown(written) };
            Merged { text: written.to_vec(), overlaps: vec![overlap] }
        }
        Mode::Queue => {
            let glue: &[u8] =
                if current.is_empty() || current.ends_with(b"\n") { b"" } else { b"\n" };
            Merged { text: [current, glue, written].concat(), overlaps: Vec::new() }
        }
    }
}

/// Numbers the lines so that equal ones, in any of the lists, have the same number.
fn numbered(lists: [&[Line<'_>]; 3]) -> [Vec<u32>; 3] {
    let mut known: HashMap<&[u8], u32> = HashMap::new();
    lists.map(|list| {
        list.iter()
            .map(|line| {
                let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
                *known.entry(line.key()).or_insert(next)
            })
            .collect()
    })
}

/// Which side a line of the merged text was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// The current text.
    Current,
    /// The written text.
    Written,
}

struct Merger<'t, 'n> {
    mode: Mode,
    s: &'t [Line<'t>],
    w: &'t [Line<'t>],
    c: &'t [Line<'t>],
    numbers: &'n [Vec<u32>; 3],
    budget: usize,
    /// Additions, in order, since the last line that stands for a seen one.
    added: Vec<(usize, From)>,
    out: Vec<(Line<'t>, From)>,
    overlaps: Vec<Overlap>,
    more: usize,
}

impl<'t> Merger<'t, '_> {
    fn run(&mut self) {
        let [sn, wn, cn] = self.numbers;
        let w = side(self.mode, (sn, self.s), (wn, self.w), &mut self.budget);
        let c = side(self.mode, (sn, self.s), (cn, self.c), &mut self.budget);
        for i in 0..=self.s.len() {
            self.added.extend(c.gaps[i].iter().map(|j| (*j, From::Current)));
            self.added.extend(w.gaps[i].iter().map(|j| (*j, From::Written)));
            if i < self.s.len() {
                self.slot(i, w.slots[i], c.slots[i]);
            }
        }
        self.write_added();
    }

    /// What both have added in one place is there once.
    fn write_added(&mut self) {
        let added = std::mem::take(&mut self.added);
        let of = |side: From| -> Vec<usize> {
            added.iter().filter(|(_, from)| *from == side).map(|(j, _)| *j).collect()
        };
        let mut twice = match self.mode {
            Mode::Text | Mode::Keys => self.in_both(&of(From::Written), &of(From::Current)),
            Mode::Queue => Vec::new(),
        }
        .into_iter();
        for (j, from) in added {
            match from {
                From::Current => self.out.push((self.c[j], from)),
                From::Written if twice.next() == Some(true) => {}
                From::Written => self.out.push((self.w[j], from)),
            }
        }
    }

    /// A line that stands for a seen one.
    fn write(&mut self, line: Line<'t>, from: From) {
        self.write_added();
        self.out.push((line, from));
    }

    /// Which of the written additions are among the current ones. Blank lines count only
    /// together with a line beside them.
    fn in_both(&self, w: &[usize], c: &[usize]) -> Vec<bool> {
        let mut twice = vec![false; w.len()];
        if w.is_empty() || c.is_empty() {
            return twice;
        }
        let of = |places: &[usize], numbers: &[u32]| -> Vec<u32> {
            places.iter().map(|j| numbers[*j]).collect()
        };
        let pairs = align(&of(w, &self.numbers[1]), &of(c, &self.numbers[2]));
        let runs = pairs.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 + 1 == b.1);
        for run in runs {
            if run.iter().any(|(n, _)| !self.w[w[*n]].key().is_empty()) {
                run.iter().for_each(|(n, _)| twice[*n] = true);
            }
        }
        twice
    }

    fn slot(&mut self, i: usize, w: Option<usize>, c: Option<usize>) {
        let [sn, wn, cn] = self.numbers;
        if let (Some(a), Some(b)) = (w, c)
            && wn[a] == cn[b]
        {
            // Equal but for blanks at the end: who changed those has them.
            let mine = self.w[a].body != self.s[i].body && wn[a] == sn[i];
            return match mine && self.c[b].body == self.s[i].body {
                true => self.write(self.w[a], From::Written),
                false => self.write(self.c[b], From::Current),
            };
        }
        let (w, c) = self.same_line(i, w, c);
        match (w.map(|a| (a, wn[a] != sn[i])), c.map(|b| (b, cn[b] != sn[i]))) {
            (Some((a, true)), Some((_, false))) => self.write(self.w[a], From::Written),
            (Some((a, true)), other) => {
                self.overlap(other.map(|(b, _)| self.c[b]), self.w[a]);
                self.out.push((self.w[a], From::Written));
            }
            (Some((_, false)), Some((b, _))) => self.write(self.c[b], From::Current),
            (None, Some((b, true))) => {
                self.overlap(Some(self.c[b]), self.c[b]);
                self.out.push((self.c[b], From::Current));
            }
            _ => {}
        }
    }

    /// Without what is another line than the seen one: that is an addition.
    fn same_line(
        &mut self,
        i: usize,
        w: Option<usize>,
        c: Option<usize>,
    ) -> (Option<usize>, Option<usize>) {
        let old = self.s[i];
        let (wl, cl) = (w.map(|a| self.w[a]), c.map(|b| self.c[b]));
        let mode = self.mode;
        let mut other = |line: Option<Line<'_>>| {
            mode == Mode::Text
                && line.is_some_and(|l| {
                    l.key() != old.key() && !pairs::reworded(&old, &l, &mut self.budget)
                })
        };
        let (w_other, c_other) = (other(wl), other(cl));
        // A word says too little: there the place counts.
        let words = [Some(old), wl, cl].into_iter().flatten().all(|l| pairs::is_word(&l));
        if w_other && c_other && words {
            return (w, c);
        }
        self.added.extend(c.filter(|_| c_other).map(|b| (b, From::Current)));
        self.added.extend(w.filter(|_| w_other).map(|a| (a, From::Written)));
        (w.filter(|_| !w_other), c.filter(|_| !c_other))
    }

    /// Notes that both changed the line that is written out next.
    fn overlap(&mut self, earlier: Option<Line<'_>>, later: Line<'_>) {
        self.write_added();
        if self.overlaps.len() == OVERLAPS {
            self.more += 1;
            return;
        }
        self.overlaps.push(Overlap {
            what: format!("line {}", self.out.len() + 1),
            earlier: earlier.map_or_else(|| "(removed)".into(), |l| shown(l.body)),
            later: shown(later.body),
        });
    }
}

fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN)]).into_owned();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn side(
    mode: Mode,
    from: (&[u32], &[Line<'_>]),
    to: (&[u32], &[Line<'_>]),
    budget: &mut usize,
) -> Side {
    let mut s = Side { slots: vec![None; from.0.len()], gaps: vec![Vec::new(); from.0.len() + 1] };
    let (mut i, mut j) = (0, 0);
    let end = (from.0.len(), to.0.len());
    for (x, y) in align(from.0, to.0).into_iter().chain([end]) {
        let edited = match mode {
            Mode::Text | Mode::Keys => pairs::edited(&from.1[i..x], &to.1[j..y], budget),
            Mode::Queue => Vec::new(),
        };
        let mut gap = i;
        let mut edited = edited.into_iter().peekable();
        for n in j..y {
            match edited.next_if(|(_, b)| j + b == n) {
                Some((a, _)) => {
                    s.slots[i + a] = Some(n);
                    gap = i + a + 1;
                }
                None => s.gaps[gap].push(n),
            }
        }
        if (x, y) != end {
            s.slots[x] = Some(y);
        }
        (i, j) = (x + 1, y + 1);
    }
    s
}
