//! What must hold for any text that comes in pieces (see [`crate::properties`]).

use super::{Judge, Kind};
use crate::documents::config::{ConfigDocument, Form};
use crate::documents::files::FileDocument;
use crate::documents::missions::Missions;
use crate::documents::{Context, Document, Plan, Save, State, Written};
use crate::model::{FileId, FileKind, Refusal, Stamp, View};
use crate::properties::{is_refusal, parts};

const CX: Context = Context { now: Stamp(0) };

/// All kinds that are judged.
pub(super) const KINDS: [(&str, Kind); 6] = [
    ("missions", Kind::Missions),
    ("config.json", Kind::Config(Form::Json)),
    ("config.yaml", Kind::Config(Form::Yaml)),
    ("json", Kind::File(FileKind::Json)),
    ("event", Kind::File(FileKind::Event)),
    ("yaml", Kind::File(FileKind::Yaml)),
];

fn whole(kind: Kind, seen: bool, text: &[u8], now: Option<&[u8]>) -> Result<Plan, Refusal> {
    let plan = |view: View, now: &State, of: &dyn Fn(&Save<'_>) -> Result<Plan, Refusal>| {
        of(&Save {
            view,
            seen: seen.then_some(now),
            written: Written::Whole(text),
            current: now,
            outside_since_seen: false,
            rows: None,
        })
    };
    let document = |d: &dyn Document, view: View| {
        let fresh = d.fresh();
        let now = match now {
            Some(now) => d.believe(view, now, &fresh, &CX).unwrap_or(fresh),
            None => fresh,
        };
        plan(view, &now, &|save| d.plan(save, &CX))
    };
    match kind {
        Kind::Missions => document(&Missions::default(), View::MissionsMd),
        Kind::Config(form) => {
            let view = if form == Form::Json { View::ConfigJson } else { View::ConfigYaml };
            document(&ConfigDocument::new(None, None), view)
        }
        Kind::File(kind) => {
            let f = FileDocument::new(FileId::of("fuzzed"), kind);
            plan(View::File(f.id()), &f.state(now), &|save| f.plan(save, &CX))
        }
    }
}

/// What is there before the save.
fn filled(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Missions => b"# Missions\n\n## Pending\n- a\n- b\n",
        Kind::File(FileKind::Event) => b"{\"mission\": \"m\", \"run_at\": \"2026-07-01T09:00\"}\n",
        Kind::Config(Form::Json) | Kind::File(FileKind::Json) => b"{\"a\": 1, \"b\": [1, 2]}\n",
        _ => b"a: 1\nb: [1, 2]\n",
    }
}

/// The refusal of each of these saves of the text, or nothing when one of them is taken.
fn always_refused(kind: Kind, text: &[u8]) -> Option<Refusal> {
    let now = filled(kind);
    let mut last = None;
    for (seen, now) in [(false, None), (false, Some(now)), (true, None), (true, Some(now))] {
        last = Some(whole(kind, seen, text, now).err()?);
    }
    last
}

/// The length at which a text becomes hopeless that comes in pieces of these sizes, over and over.
pub(super) fn hopeless_at(kind: Kind, text: &[u8], sizes: &[usize]) -> Option<usize> {
    let mut judge = Judge::new(kind);
    let (mut at, mut sizes) = (0, sizes.iter().cycle());
    while at < text.len() {
        let to = text.len().min(at + sizes.next().copied().unwrap_or(1).max(1));
        if judge.more(&text[..to], at) {
            assert!(judge.more(text, to), "once hopeless, always");
            return Some(to);
        }
        at = to;
    }
    None
}

/// A kind, a text, and perhaps continuations of what makes it hopeless.
pub fn hopeless(input: &[u8]) {
    let parts = parts(input);
    let [kind, text, more @ ..] = &parts[..] else { return };
    let kind = String::from_utf8_lossy(kind);
    let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == kind.trim()) else { return };
    holds(*kind, text, more);
}

/// Both halves: what is taken is never hopeless before its end, and what is hopeless is never taken.
pub(super) fn holds(kind: Kind, text: &[u8], more: &[&[u8]]) {
    let ways: [&[usize]; 5] = [&[1], &[text.len()], &[3, 1, 7], &[64, 2], &[2, 5, 11, 1]];
    let found: Vec<_> = ways.iter().map(|sizes| hopeless_at(kind, text, sizes)).collect();
    let said = || String::from_utf8_lossy(text);
    let Some(first) = found.iter().flatten().min().copied() else { return };
    if let Some(Some(end)) = found.iter().find(|f| f.is_some())
        && always_refused(kind, text).is_none()
    {
        panic!("{kind:?}: hopeless at {end}, and taken: {:?}", said());
    }
    let begin = &text[..first];
    let why =
        kind.why(begin).unwrap_or_else(|| panic!("{kind:?}: hopeless for nothing: {begin:?}"));
    is_refusal(&why, begin);
    let closers: [&[u8]; 8] = [b"", b"\"", b"\n", b"\"}", b"}", b"]}", b"*/\n{}", b"'\n"];
    for rest in closers.iter().chain(more).chain([&&text[first..]]) {
        let all = [begin, rest].concat();
        let refusal = always_refused(kind, &all);
        assert!(refusal.is_some(), "{kind:?}: {:?} is taken", String::from_utf8_lossy(&all));
    }
}
