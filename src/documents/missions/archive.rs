//! What the history keeps: one line per entry, independent of the others, after one line
//! with the counters.
//!
//! ```text
//! instancefs-missions 1 NEXT_NO NEXT_LINE NESTED START
//! L ID SECTION RAW
//! H ID SECTION RAW
//! M ID SECTION QUEUED STARTED COMPLETED CAUSE RECOVERIES PROJECT COMPLEXITY TEXT RAW
//! C ID SECTION RAW
//! I ID SECTION PROJECT ADDED TEXT RAW
//! ```
//!
//! Fields are separated by tabs; `\\`, `\t`, `\n`, `\r` inside one are escaped. A field that
//! follows from RAW is `=`, an absent one `-`. A leading `!` on the letter marks an opaque
//! entry, `~` an open fence. Row ids and sequences are not kept: a foreign replace-all
//! renews them all and is no change.

use std::collections::HashMap;
use std::sync::Arc;

use super::batch::{Piece, assemble};
use super::chunk::Slot;
use super::entry::{Entry, Idea, Kind, Mission, Section};
use super::marker::Markers;
use super::parse::{self, Parser};
use super::tree::MissionsState;

const MAGIC: &str = "instancefs-missions 1";

/// The first line.
pub fn head(s: &MissionsState) -> String {
    let nested = u8::from(s.nested_items);
    format!("{MAGIC} {} {} {nested} {}\n", s.next_no, s.next_line, s.start.letter())
}

/// The lines of a run of entries.
pub fn entries(run: &[Arc<Entry>]) -> Vec<u8> {
    let mut out = String::with_capacity(run.len() * 96);
    for e in run {
        line(e, &mut out);
    }
    out.into_bytes()
}

fn line(e: &Entry, out: &mut String) {
    if e.opaque {
        out.push('!');
    }
    if e.open_fence {
        out.push('~');
    }
    let letter = match &e.kind {
        Kind::Layout => 'L',
        Kind::Header => 'H',
        Kind::Mission(_) => 'M',
        Kind::Ci(_) => 'C',
        Kind::Idea(_) => 'I',
    };
    out.push(letter);
    field(out, &e.id.to_string());
    field(out, e.section.letter().encode_utf8(&mut [0; 4]));
    match &e.kind {
        Kind::Layout | Kind::Header => {}
        Kind::Ci(c) => {
            for f in [&c.branch, &c.repo, &c.queued] {
                option(out, f.as_deref());
            }
            value(out, &c.project);
            value(out, &c.url);
            field(out, &c.attempt.to_string());
            field(out, &c.max_attempts.to_string());
        }
        Kind::Mission(m) => {
            let read = read_mission(&e.raw, e.section);
            for t in [&m.times.queued, &m.times.started, &m.times.completed, &m.times.cause] {
                option(out, t.as_deref());
            }
            field(out, &m.recoveries.to_string());
            derived(out, &m.project, read.as_ref().map(|r| r.project.as_str()));
            match (&m.complexity, read.as_ref().map(|r| &r.complexity)) {
                (a, Some(b)) if a == b => field(out, "="),
                (a, _) => option(out, a.as_deref()),
            }
            derived(out, &m.text, read.as_ref().map(|r| r.text.as_str()));
        }
        Kind::Idea(i) => {
            value(out, &i.project);
            option(out, i.added.as_deref());
            value(out, &i.text);
        }
    }
    field(out, &e.raw);
    out.push('\n');
}

fn read_mission(raw: &str, section: Section) -> Option<Mission> {
    let mut parser = Parser::new(raw, 0, section, false);
    match (parser.next().map(|p| p.kind), parser.next()) {
        (Some(Kind::Mission(m)), None) => Some(*m),
        _ => None,
    }
}

fn derived(out: &mut String, v: &str, from_raw: Option<&str>) {
    if from_raw == Some(v) { field(out, "=") } else { value(out, v) }
}

fn option(out: &mut String, v: Option<&str>) {
    match v {
        Some(v) => value(out, v),
        None => field(out, "-"),
    }
}

/// A value is told from `=` and `-` by its colon.
fn value(out: &mut String, v: &str) {
    out.push_str("\t:");
    escape(out, v);
}

fn field(out: &mut String, v: &str) {
    out.push('\t');
    escape(out, v);
}

fn escape(out: &mut String, v: &str) {
    for c in v.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
}

fn unescape(v: &str) -> Result<String, String> {
    if !v.contains('\\') {
        return Ok(v.to_owned());
    }
    let mut out = String::with_capacity(v.len());
    let mut chars = v.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('\\') => '\\',
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                other => return Err(format!("unknown escape {other:?}")),
            },
            c => c,
        });
    }
    Ok(out)
}

/// The text of an archive, without reading what its lines mean; `None` when it is damaged.
pub fn text(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (_, rest) = text.split_once('\n')?;
    let mut out = String::with_capacity(rest.len());
    for line in rest.lines() {
        let (_, raw) = line.rsplit_once('\t')?;
        out.push_str(&unescape(raw).ok()?);
    }
    Some(out.into_bytes())
}

/// The state with this archive.
pub fn decode(bytes: &[u8]) -> Result<MissionsState, String> {
    decode_with(bytes, |lines| Ok(vec![Piece::Entries(all(lines)?)]))
}

/// The same, with the chunks of `near` whose lines stand in the archive as they are.
pub fn decode_near(bytes: &[u8], near: &MissionsState) -> Result<MissionsState, String> {
    let archives: Vec<Arc<[u8]>> = near.slots.iter().map(|s| s.core.archive()).collect();
    // A line has its number in it: no two chunks begin with the same one.
    let by_first: HashMap<&[u8], usize> =
        archives.iter().enumerate().map(|(i, a)| (first_line(a), i)).collect();
    decode_with(bytes, |lines| {
        let (mut pieces, mut run, mut rest) = (Vec::new(), Vec::new(), lines);
        while !rest.is_empty() {
            let line = first_line(rest.as_bytes());
            let known = by_first.get(line).filter(|i| rest.as_bytes().starts_with(&archives[**i]));
            if let Some(&i) = known {
                pieces.push(Piece::Entries(std::mem::take(&mut run)));
                pieces.push(Piece::Slot(Slot::new(near.slots[i].core.clone())));
                rest = &rest[archives[i].len()..];
                continue;
            }
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            run.push(Arc::new(read(line)?));
            rest = after;
        }
        pieces.push(Piece::Entries(run));
        Ok(pieces)
    })
}

fn first_line(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
    &bytes[..end]
}

fn decode_with(
    bytes: &[u8],
    pieces: impl FnOnce(&str) -> Result<Vec<Piece>, String>,
) -> Result<MissionsState, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| format!("not UTF-8: {e}"))?;
    let (first, rest) = text.split_once('\n').ok_or("no first line")?;
    let counters = first.strip_prefix(MAGIC).ok_or("unknown kind or version")?;
    let (counters, start) = counters.rsplit_once(' ').ok_or("too few counters")?;
    let start = Section::of_letter(start).ok_or("unknown start")?;
    let counters: Vec<u64> = counters
        .split_whitespace()
        .map(|n| n.parse().map_err(|_| format!("bad counter {n:?}")))
        .collect::<Result<_, String>>()?;
    let [next_no, next_line, nested] = counters[..] else {
        return Err("three counters expected".to_owned());
    };
    let slots = assemble(pieces(rest)?);
    keep_lines(&slots, rest);
    Ok(MissionsState {
        slots,
        next_no,
        next_line,
        nested_items: nested != 0,
        start,
        vanished: Arc::new([]),
    })
}

/// The chunks have their lines as they were read: what the history keeps of the version is what it
/// was made from, and needs no writing down again.
fn keep_lines(slots: &[Slot], lines: &str) {
    let mut rest = lines.as_bytes();
    for slot in slots {
        let mut ends = rest.iter().enumerate().filter(|(_, b)| **b == b'\n');
        // A last line without an end would not be written like that.
        let Some((end, _)) = ends.nth(slot.core.entries.len() - 1) else { return };
        let (own, after) = rest.split_at(end + 1);
        slot.core.keep_archive(own);
        rest = after;
    }
}

/// Archives of fewer bytes are read by one thread.
const LARGE: usize = 1 << 18;

/// The entries of all lines, a large archive by several threads at once.
fn all(rest: &str) -> Result<Vec<Arc<Entry>>, String> {
    let threads = if rest.len() < LARGE {
        1
    } else {
        std::thread::available_parallelism().map_or(1, usize::from).min(8)
    };
    let parts = parts(rest, threads);
    type Piece = Result<Vec<Arc<Entry>>, (usize, String)>;
    let read: Vec<Piece> = std::thread::scope(|scope| {
        let started: Vec<_> = parts[1..]
            .iter()
            .map(|part| {
                (*part, std::thread::Builder::new().spawn_scoped(scope, move || some(part)))
            })
            .collect();
        let first = some(parts[0]);
        let others = started.into_iter().map(|(part, thread)| {
            // Without a thread, or when it has panicked, the work is done here.
            thread.ok().and_then(|t| t.join().ok()).unwrap_or_else(|| some(part))
        });
        std::iter::once(first).chain(others).collect()
    });
    let mut entries = Vec::new();
    for (part, read) in parts.iter().zip(read) {
        let mut read = read.map_err(|(line, e)| {
            let before = part.as_ptr() as usize - rest.as_ptr() as usize;
            format!("line {}: {e}", rest[..before].lines().count() + line + 2)
        })?;
        entries.append(&mut read);
    }
    Ok(entries)
}

/// About equal parts of whole lines, at least one.
fn parts(text: &str, count: usize) -> Vec<&str> {
    let mut parts = Vec::with_capacity(count);
    let mut rest = text;
    for left in (2..=count).rev() {
        let near = rest.len() / left;
        let Some(end) = rest.as_bytes()[near..].iter().position(|b| *b == b'\n') else { break };
        let (part, after) = rest.split_at(near + end + 1);
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

/// The entries of some lines; or the index of the line that is wrong, and why.
fn some(lines: &str) -> Result<Vec<Arc<Entry>>, (usize, String)> {
    let lines = lines.lines().enumerate();
    lines.map(|(n, line)| read(line).map(Arc::new).map_err(|e| (n, e))).collect()
}

struct Fields<'t>(std::str::Split<'t, char>);

impl<'t> Fields<'t> {
    fn next(&mut self) -> Result<&'t str, String> {
        self.0.next().ok_or_else(|| "too few fields".to_owned())
    }

    fn text(&mut self) -> Result<String, String> {
        unescape(self.next()?)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        let f = self.next()?;
        f.parse().map_err(|_| format!("not a number: {f:?}"))
    }

    /// `None` for `-`.
    fn option(&mut self) -> Result<Option<String>, String> {
        match self.next()? {
            "-" => Ok(None),
            f => value_of(f).map(Some),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        value_of(self.next()?)
    }
}

fn value_of(f: &str) -> Result<String, String> {
    unescape(f.strip_prefix(':').ok_or_else(|| format!("not a value: {f:?}"))?)
}

fn read(line: &str) -> Result<Entry, String> {
    let mut f = Fields(line.split('\t'));
    let mut letter = f.next()?;
    let mut flag = |c: char| match letter.strip_prefix(c) {
        Some(rest) => {
            letter = rest;
            true
        }
        None => false,
    };
    let (opaque, open_fence) = (flag('!'), flag('~'));
    let id = f.number()?;
    let section = f.next()?;
    let section =
        Section::of_letter(section).ok_or_else(|| format!("unknown section {section:?}"))?;
    let entry =
        |kind, raw: String| Entry { id, kind, section, raw: raw.into(), opaque, open_fence };
    match letter {
        "L" => Ok(entry(Kind::Layout, f.text()?)),
        "H" => Ok(entry(Kind::Header, f.text()?)),
        "C" => {
            let (branch, repo, queued) = (f.option()?, f.option()?, f.option()?);
            let (project, url) = (f.value()?, f.value()?);
            let (attempt, max_attempts) = (f.number()?, f.number()?);
            let ci = super::entry::Ci { project, url, branch, repo, queued, attempt, max_attempts };
            Ok(entry(Kind::Ci(Box::new(ci)), f.text()?))
        }
        "I" => {
            let (project, added, text) = (f.value()?, f.option()?, f.value()?);
            Ok(entry(Kind::Idea(Box::new(Idea { text, project, added })), f.text()?))
        }
        "M" => {
            let times = Markers {
                queued: f.option()?,
                started: f.option()?,
                completed: f.option()?,
                cause: f.option()?,
            };
            let recoveries = f.number()?;
            let (project, complexity, text) = (f.next()?, f.next()?, f.next()?);
            let raw = f.text()?;
            let mut from_raw = if [project, complexity, text].contains(&"=") {
                Some(read_mission(&raw, section).unwrap_or_else(|| parse::simple(&raw)))
            } else {
                None
            };
            let m = Mission {
                project: match (project, &mut from_raw) {
                    ("=", Some(r)) => std::mem::take(&mut r.project),
                    (v, _) => value_of(v)?,
                },
                complexity: match (complexity, &mut from_raw) {
                    ("=", Some(r)) => r.complexity.take(),
                    ("-", _) => None,
                    (v, _) => Some(value_of(v)?),
                },
                text: match (text, &mut from_raw) {
                    ("=", Some(r)) => std::mem::take(&mut r.text),
                    (v, _) => value_of(v)?,
                },
                times,
                recoveries,
            };
            Ok(entry(Kind::Mission(Box::new(m)), raw))
        }
        other => Err(format!("unknown entry {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;
    use crate::documents::DocState;

    #[test]
    fn decoded_near_another_version_it_is_the_same_and_shares() {
        let lines = (0..5_000).map(|n| format!("- line {n}\n"));
        let near = plan::read(&format!("## Pending\n{}", lines.collect::<String>()), false);
        let mut old = near.clone();
        let (mut slots, moved) = (near.slots.to_vec(), near.slots[3].clone());
        slots.remove(3);
        slots.push(moved);
        let other = plan::read("## Done\n- another\n\n", false);
        slots.insert(9, other.slots[0].clone());
        old.slots = slots.into();
        let archive = old.archive().to_vec();
        let (alone, shared) = (decode(&archive).unwrap(), decode_near(&archive, &near).unwrap());
        assert_eq!(shared.archive().to_vec(), archive);
        assert!(shared.entries().eq(alone.entries()));
        let known = |s: &&Slot| near.slots.iter().any(|n| Arc::ptr_eq(&n.core, &s.core));
        assert!(shared.slots.iter().filter(known).count() + 2 >= near.slots.len());
        let cut = &archive[..archive.len() - 4];
        assert_eq!(decode(cut).is_err(), decode_near(cut, &near).is_err());
        let broken = [&archive[..], b"X 1\n"].concat();
        assert!(decode(&broken).is_err() && decode_near(&broken, &near).is_err());
    }
}
