//! What a text of each kind is divided into when a merge base is looked for (SEMANTICS, section 4):
//! missions, key paths with their values and elements of lists, or lines. Headers, blank lines and a
//! top-level `version` are none.

mod hunks;

use std::cell::OnceCell;
use std::sync::Arc;

use self::hunks::{Hunk, hunks};
use super::config::{self, Form, Value};
use super::missions::entry::Section;
use super::missions::marker;
use super::{Content, State, Version};
use crate::merge::entries::{Comparison, Entry, compare, hash};
use crate::model::{FileKind, View};

/// How a text is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// Missions by section, without their markers.
    Missions,
    /// Key paths with values.
    Keys(Form),
    /// Lines. Of a queue an emptied text is a removal, and a drain counts from what was read.
    Lines {
        /// It is a queue.
        queue: bool,
    },
}

impl Syntax {
    /// Of a document; `kind`: that of a managed file.
    pub fn of(view: View, kind: Option<FileKind>) -> Syntax {
        match view {
            View::MissionsMd | View::QuarantineMd => Syntax::Missions,
            View::ConfigJson => Syntax::Keys(Form::Json),
            View::ConfigYaml => Syntax::Keys(Form::Yaml),
            View::File(_) => match kind {
                Some(FileKind::Json | FileKind::Event) => Syntax::Keys(Form::Json),
                Some(FileKind::Yaml) => Syntax::Keys(Form::Yaml),
                Some(FileKind::Queue) => Syntax::Lines { queue: true },
                Some(FileKind::Text) | None => Syntax::Lines { queue: false },
            },
        }
    }

    /// The entry that a line is, without what is none.
    fn line(self, line: &[u8]) -> Option<&[u8]> {
        let line = line.trim_ascii();
        let header = match line.strip_prefix(b"#") {
            Some(rest) => {
                let after = rest.iter().find(|b| **b != b'#');
                let block = self == Syntax::Missions && line.starts_with(b"### ");
                !block && after.is_none_or(u8::is_ascii_whitespace)
            }
            None => self == Syntax::Missions && line.starts_with(b"<!--"),
        };
        (!line.is_empty() && !header).then_some(line)
    }

    /// The section that a line opens.
    fn section(self, line: &[u8]) -> Option<u64> {
        if self == Syntax::Missions { section(line) } else { None }
    }

    /// The entries of some lines; `place`: the section in force before them.
    fn lines(self, text: &[u8], mut place: u64) -> Vec<Entry> {
        let mut found = Vec::new();
        for line in text.split(|b| *b == b'\n') {
            if let Some(section) = self.section(line) {
                place = section;
                continue;
            }
            let Some(entry) = self.line(line) else { continue };
            let bullet = [b"- ", b"* ", b"+ "].iter().find_map(|b| entry.strip_prefix(*b));
            let text = String::from_utf8_lossy(bullet.unwrap_or(entry).trim_ascii_start());
            let text = match self {
                Syntax::Missions => marker::split(&text).0,
                _ => &text,
            };
            // Messages of a queue that are alike are two, not one and its rewording.
            let slot = (self == Syntax::Lines { queue: true }).then(|| hash(text));
            found.push(Entry { key: hash(text), place, slot, text: text.into() });
        }
        found
    }
}

/// The section that a header line opens.
fn section(line: &[u8]) -> Option<u64> {
    let name = line.trim_ascii().strip_prefix(b"## ")?;
    let name = String::from_utf8_lossy(name);
    Some(match Section::named(&name) {
        Section::Unknown => hash(name.trim().to_lowercase()),
        known => hash(known.letter()),
    })
}

/// The section of what stands above all headers. Without any everything is pending.
fn section_before(text: &[u8]) -> u64 {
    let headed = text.split(|b| *b == b'\n').any(|line| section(line).is_some());
    hash(if headed { Section::Preamble } else { Section::Pending }.letter())
}

/// How two texts were divided: by their keys, if both can be read.
enum By {
    Keys,
    Lines,
}

/// The lines of a text.
struct Divided {
    /// How many are entries.
    entries: usize,
    /// Where sections begin, and which.
    sections: Vec<(usize, u64)>,
}

/// A text that was written, divided once for any number of comparisons.
pub struct Written<'t> {
    bytes: &'t [u8],
    syntax: Syntax,
    divided: OnceCell<Divided>,
    keys: OnceCell<Option<Vec<Entry>>>,
}

impl<'t> Written<'t> {
    /// The text of a save.
    pub fn new(bytes: &'t [u8], syntax: Syntax) -> Written<'t> {
        Written { bytes, syntax, divided: OnceCell::new(), keys: OnceCell::new() }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &'t [u8] {
        self.bytes
    }

    /// How it is divided.
    pub fn syntax(&self) -> Syntax {
        self.syntax
    }

    fn divided(&self) -> &Divided {
        self.divided.get_or_init(|| {
            let mut divided = Divided { entries: 0, sections: Vec::new() };
            let mut at = 0;
            for line in self.bytes.split(|b| *b == b'\n') {
                divided.entries += usize::from(self.syntax.line(line).is_some());
                if let Some(section) = self.syntax.section(line) {
                    divided.sections.push((at, section));
                }
                at += line.len() + 1;
            }
            divided
        })
    }

    /// The section in force at a place; `None`: above all headers.
    fn section_at(&self, at: usize) -> Option<u64> {
        let sections = &self.divided().sections;
        Some(sections[..sections.partition_point(|(from, _)| *from < at)].last()?.1)
    }

    /// Compares a version, as shown under `view`, with the text. `keys`: the version's own
    /// [`keys_of`], if they are at hand.
    pub fn compared(&self, version: &Version, view: View, keys: Option<&[Entry]>) -> Comparison {
        self.compared_with(&version.state, view, keys)
    }

    /// Whether a version has no entry at all.
    pub fn has_no_entry_in(&self, version: &Version, view: View) -> bool {
        if let Syntax::Keys(form) = self.syntax {
            let value = version.state.as_any().downcast_ref::<config::ConfigState>();
            match value.and_then(config::ConfigState::value) {
                Some(Value::Map(keys)) if keys.iter().any(|(key, _)| key != "version") => {
                    return false;
                }
                _ => return keys_of(version, view, form).is_some_and(|keys| keys.is_empty()),
            }
        }
        let Some(text) = version.view(view) else { return true };
        let has_entry =
            |text: &[u8]| text.split(|b| *b == b'\n').any(|line| self.syntax.line(line).is_some());
        // Most have one in their first lines.
        let first = text.read(0, 4096);
        let lines = first.iter().rposition(|b| *b == b'\n').unwrap_or(0);
        !has_entry(&first[..lines]) && !has_entry(&text.to_vec())
    }

    fn compared_with(&self, version: &State, view: View, keys: Option<&[Entry]>) -> Comparison {
        let (of_version, written, by) = self.differing(version, view, keys);
        let all = match by {
            By::Keys => written.len(),
            By::Lines => self.divided().entries,
        };
        compare(&of_version, &written, all - written.len())
    }

    /// Entries of the version and of the text, without those that both have in the same place, as far
    /// as that is easily seen.
    fn differing(
        &self,
        version: &State,
        view: View,
        keys: Option<&[Entry]>,
    ) -> (Vec<Entry>, Vec<Entry>, By) {
        if let Syntax::Keys(form) = self.syntax
            && let Some(written) = self.keys.get_or_init(|| keys_in(form, self.bytes))
        {
            let of_version = match keys {
                Some(keys) => Some(keys.to_vec()),
                None => keys_of_state(version, view, form).map(|keys| keys.to_vec()),
            };
            if let Some(of_version) = of_version {
                return (of_version, written.clone(), By::Keys);
            }
        }
        let nothing = Content::from_chunks(std::iter::empty());
        let content = version.view(view).unwrap_or(nothing);
        let headed = |lines: &[u8]| {
            lines.split(|b| *b == b'\n').any(|line| self.syntax.section(line).is_some())
        };
        let (mut of_version, mut written) = (Vec::new(), Vec::new());
        let above = OnceCell::new();
        for Hunk { there, here } in hunks(&content, self.bytes, headed) {
            let (place_there, place_here) = match (self.syntax, self.section_at(here.start)) {
                (Syntax::Missions, Some(place)) => (place, place),
                (Syntax::Missions, None) => *above.get_or_init(|| {
                    (section_before(&content.to_vec()), section_before(self.bytes))
                }),
                _ => (0, 0),
            };
            let lines = content.read(there.start as u64, there.len());
            of_version.extend(self.syntax.lines(&lines, place_there));
            written.extend(self.syntax.lines(&self.bytes[here], place_here));
        }
        (of_version, written, By::Lines)
    }
}

/// How many entries there are after a save (`next`) that its text (`believed`) did not have.
pub fn others(next: &State, believed: &State, view: View, syntax: Syntax) -> usize {
    if Arc::ptr_eq(next, believed) {
        return 0;
    }
    let text = believed.view(view).map(|c| c.to_vec()).unwrap_or_default();
    let (of_version, written, _) = Written::new(&text, syntax).differing(next, view, None);
    compare(&of_version, &written, 0).missing.len()
}

/// What has come and gone between two versions: entries of the later one that the earlier one had
/// not as they are, and the other way round.
pub fn between(earlier: &Version, later: &Version, view: View, syntax: Syntax) -> Comparison {
    let text = later.view(view).map(|c| c.to_vec()).unwrap_or_default();
    let (of_earlier, of_later, _) =
        Written::new(&text, syntax).differing(&earlier.state, view, None);
    compare(&of_earlier, &of_later, 0)
}

/// The entries of a keyed version; `None`: it cannot be read by keys.
pub fn keys_of(version: &Version, view: View, form: Form) -> Option<Arc<[Entry]>> {
    keys_of_state(&version.state, view, form)
}

fn keys_of_state(version: &State, view: View, form: Form) -> Option<Arc<[Entry]>> {
    if let Some(state) = version.as_any().downcast_ref::<config::ConfigState>() {
        return Some(state.value().map(entries_of).unwrap_or_default().into());
    }
    let text = version.view(view).map(|c| c.to_vec()).unwrap_or_default();
    Some(keys_in(form, &text)?.into())
}

fn keys_in(form: Form, text: &[u8]) -> Option<Vec<Entry>> {
    let text = std::str::from_utf8(text).ok()?;
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Some(Vec::new());
    }
    Some(entries_of(&config::value_of(form, text)?))
}

/// An entry for each value at the end of a key path, and for each element of a list.
fn entries_of(value: &Value) -> Vec<Entry> {
    let mut found = Vec::new();
    match value {
        Value::Map(entries) => {
            for (key, value) in entries.iter().filter(|(key, _)| key != "version") {
                collect(hash((0, key)), value, &mut found);
            }
        }
        other => collect(0, other, &mut found),
    }
    found
}

fn collect(path: u64, value: &Value, found: &mut Vec<Entry>) {
    match value {
        Value::Map(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                collect(hash((path, key)), value, found);
            }
        }
        Value::Seq(elements) if !elements.is_empty() => {
            for element in elements {
                let name = ["id", "name"].iter().find_map(|key| match element.entry(key) {
                    Some(Value::Str(name) | Value::Num(name)) => Some(name),
                    _ => None,
                });
                match name {
                    Some(name) => collect(hash((path, "[]", name)), element, found),
                    None => {
                        let text = element.canonical();
                        let key = hash((path, "[]", &text));
                        found.push(Entry { key, place: 0, slot: None, text: text.into() });
                    }
                }
            }
        }
        value => {
            let text = value.canonical();
            let key = hash((path, &text));
            found.push(Entry { key, place: 0, slot: Some(path), text: text.into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::DocState;
    use crate::model::{DocId, Rev, Stamp};

    struct Shown(Content);

    impl DocState for Shown {
        fn view(&self, _: View) -> Option<Content> {
            Some(self.0.clone())
        }
        fn archive(&self) -> Content {
            self.0.clone()
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    fn version(text: &[u8], chunk: usize) -> Version {
        let content = Content::from_chunks(text.chunks(chunk).map(Arc::from));
        let state: State = Arc::new(Shown(content));
        Version { doc: DocId::Missions, rev: Rev(1), mtime: Stamp(1), state, belief: false }
    }

    fn distance(syntax: Syntax, a: &str, b: &str) -> (usize, usize) {
        let found = Written::new(b.as_bytes(), syntax).compared(
            &version(a.as_bytes(), 5),
            View::MissionsMd,
            None,
        );
        (found.distance, found.kept)
    }

    const NOTE: Syntax = Syntax::Lines { queue: false };

    #[test]
    fn equal_ends_do_not_count_however_the_version_is_cut() {
        let text = "alpha\nbeta\nbeta\ngamma\n\ndelta\nepsilon";
        let others = [
            text,
            "alpha\ngamma\n\ndelta\nepsilon",
            "",
            "epsilon",
            "alpha\nbeta\nx1y2\ndelta\nepsilon\n",
            "delta\nepsilon\nalpha\n",
            "beta\nbeta\n",
        ];
        for size in 1..=text.len() {
            for other in others {
                for (a, b) in [(text, other), (other, text)] {
                    let found = Written::new(b.as_bytes(), NOTE).compared(
                        &version(a.as_bytes(), size),
                        View::MissionsMd,
                        None,
                    );
                    let all =
                        compare(&NOTE.lines(a.as_bytes(), 0), &NOTE.lines(b.as_bytes(), 0), 0);
                    let numbers = |c: &Comparison| (c.distance, c.kept, c.of_version, c.of_text);
                    assert_eq!(numbers(&found), numbers(&all), "{size} {a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn missions_are_compared_by_section_and_without_markers() {
        let old =
            "# Missions\n\n## Pending\n- one task here\n- and a second\n\n## Done\n- finished\n";
        let moved = "# Missions\n\n## Pending\n- and a second\n\n## Done\n- finished\n\
                     - one task here ✅ (2026-07-01 10:00)\n";
        assert_eq!(distance(Syntax::Missions, old, moved), (1, 3));
        let marked = old.replace("second\n", "second ⏳(2026-07-01T09:00)\n");
        assert_eq!(distance(Syntax::Missions, old, &marked), (0, 3));
        let bare = "- one task here\n- and a second\n";
        assert_eq!(distance(Syntax::Missions, bare, old), (1, 2), "without headers all is pending");
        let headed = old.replace("## Done", "## Completed").replace("# Missions", "# My list");
        assert_eq!(distance(Syntax::Missions, old, &headed), (0, 3));
    }

    #[test]
    fn a_heading_is_no_line_of_a_note_but_a_tag_is() {
        assert_eq!(distance(NOTE, "# A\nx y z\n", "# B\nx y z\n"), (0, 1));
        assert_eq!(distance(NOTE, "#tag\n", "#\n"), (1, 0));
    }

    #[test]
    fn keys_count_with_their_paths_and_values() {
        let json = Syntax::Keys(Form::Json);
        let text = "{\"version\": 1, \"a\": {\"r0\": 0, \"r1\": 1}, \"l\": [1, 2]}";
        assert_eq!(distance(json, text, text), (0, 4));
        assert_eq!(distance(json, text, "{\"version\": 2, \"b\": {\"r0\": 0}}"), (5, 0));
        // A comma at the end of a line is no change.
        let more = "{\"a\": {\n\"r0\": 0,\n\"r1\": 1,\n\"r2\": 2\n}, \"l\": [1, 2]}";
        assert_eq!(distance(json, text, more), (1, 4));
        let named = "{\"s\": [{\"name\": \"x\", \"on\": true}, {\"name\": \"y\", \"on\": true}]}";
        let other = "{\"s\": [{\"name\": \"y\", \"on\": true}, {\"name\": \"x\", \"on\": false}]}";
        assert_eq!(distance(json, named, other), (1, 3));
    }

    #[test]
    fn a_version_that_cannot_be_read_by_keys_is_compared_by_lines() {
        for form in [Form::Json, Form::Yaml] {
            let syntax = Syntax::Keys(form);
            let text = "{\n  \"a\": 1,\n  \"b\": 2\n}\n";
            let written = Written::new(text.as_bytes(), syntax);
            for broken in ["{\"a\": 1,\n", "{\n  \"a\": 1,\n  \"b\": 2\n}\n]\n", "{", "x: ["] {
                let version = version(broken.as_bytes(), 5);
                let found = written.compared(&version, View::MissionsMd, None);
                assert!(found.kept <= 4 && found.of_text == 4, "{form:?} {broken:?} {found:?}");
            }
            let good = version(b"{\"b\": 2, \"c\": 3}", 5);
            let found = written.compared(&good, View::MissionsMd, None);
            assert_eq!((found.kept, found.of_text, found.of_version), (1, 2, 2));
        }
    }

    /// Numbers in an order that is the same each time.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % n
        }
    }

    #[test]
    fn texts_that_differ_in_many_places_compare_as_if_all_lines_were_looked_at() {
        for seed in 0..300 {
            let mut dice = Dice(seed);
            let heads = ["## Pending", "## In Progress", "## Done", "", "- twice", "- twice"];
            let any = |dice: &mut Dice| match dice.below(8) {
                0 => heads[dice.below(heads.len())].to_owned(),
                n => format!("- a mission with number {} {}", dice.below(200), "x".repeat(n * 9)),
            };
            let old: Vec<String> = (0..dice.below(400)).map(|_| any(&mut dice)).collect();
            let mut new = old.clone();
            // Lines that both have count as the same also where a header above them has changed.
            let headers_stay = seed % 2 == 0;
            for _ in 0..dice.below(9) {
                let at = dice.below(new.len() + 1);
                let header = new.get(at).is_none_or(|line| line.starts_with('#'));
                match dice.below(4) {
                    0 => {
                        let line = any(&mut dice);
                        new.insert(at, if headers_stay { line.replace('#', "") } else { line });
                    }
                    1 if !header => drop(new.remove(at)),
                    2 if !header => new[at].push_str(" more"),
                    _ if headers_stay => {}
                    _ => {
                        let rest = new.split_off(at);
                        new.splice(0..0, rest);
                    }
                }
            }
            let (old, new) = (old.join("\n"), new.join("\n"));
            for syntax in [NOTE, Syntax::Lines { queue: true }, Syntax::Missions] {
                if syntax == Syntax::Missions && !headers_stay {
                    continue;
                }
                let place = |text: &str| match syntax {
                    Syntax::Missions => section_before(text.as_bytes()),
                    _ => 0,
                };
                let lines = |text: &str| syntax.lines(text.as_bytes(), place(text));
                let all = compare(&lines(&old), &lines(&new), 0);
                let version = version(old.as_bytes(), 1 + dice.below(90));
                let found =
                    Written::new(new.as_bytes(), syntax).compared(&version, View::MissionsMd, None);
                let sorted = |of: &[crate::merge::entries::Differing]| {
                    let mut keys: Vec<u64> = of.iter().map(|d| d.key).collect();
                    keys.sort_unstable();
                    keys
                };
                let told = |c: &Comparison| {
                    let counts = (c.distance, c.kept, c.of_version, c.of_text, c.removed);
                    (counts, sorted(&c.missing), sorted(&c.added))
                };
                assert_eq!(told(&found), told(&all), "seed {seed} {syntax:?}\n{old}\n---\n{new}");
            }
        }
    }
}
