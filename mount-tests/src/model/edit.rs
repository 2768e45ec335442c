//! How a program makes its edits to the text that it has in memory.

use serde_json::{Map, Value, json};

use super::ops::{Doc, Edit};
use super::text::{self, SECTIONS};

/// What a program writes that has never read the document.
pub fn blank_sheet(doc: Doc) -> String {
    match doc {
        Doc::Missions => {
            "# Missions\n\n## Pending\n\n## In Progress\n\n## Done\n\n## Failed\n".into()
        }
        Doc::Config => "{}\n".into(),
    }
}

/// The text with the edits made.
pub fn make(doc: Doc, text: &str, edits: &[Edit]) -> String {
    match doc {
        Doc::Missions => {
            let lines = text.lines().map(str::to_owned).collect();
            let lines = edits.iter().fold(lines, in_list);
            if edits.is_empty() { text.to_owned() } else { lines.join("\n") + "\n" }
        }
        Doc::Config if edits.is_empty() => text.to_owned(),
        Doc::Config => {
            let mut map = text::keys(text).unwrap_or_default();
            edits.iter().for_each(|edit| in_keys(&mut map, edit));
            text::dump(&map)
        }
    }
}

fn is_item(line: &str) -> bool {
    line.starts_with("- m")
}

/// The indices of the lines for which `what` holds.
fn places(lines: &[String], what: impl Fn(&str) -> bool) -> Vec<usize> {
    (0..lines.len()).filter(|i| what(&lines[*i])).collect()
}

/// Where the `at`th item of a section is, or the line behind its last one.
fn place_in(lines: &[String], section: usize, at: usize) -> Option<usize> {
    let title = format!("## {}", SECTIONS[section % 4].0);
    let start = lines.iter().position(|l| *l == title)? + 1;
    let end =
        lines[start..].iter().position(|l| l.starts_with("## ")).map_or(lines.len(), |n| start + n);
    let items: Vec<usize> = (start..end).filter(|i| is_item(&lines[*i])).collect();
    let behind = items.last().map_or(start, |last| last + 1);
    Some(items.get(at).copied().unwrap_or(behind))
}

fn in_list(mut lines: Vec<String>, edit: &Edit) -> Vec<String> {
    let items = places(&lines, is_item);
    let nth = |at: usize| (!items.is_empty()).then(|| items[at % items.len()]);
    match *edit {
        Edit::Add { number, section, at } => {
            if let Some(place) = place_in(&lines, section, at) {
                lines.insert(place, format!("- {}", text::mission(number)));
            }
        }
        Edit::Alter { number, at } => {
            if let Some(place) = nth(at) {
                let old = lines[place].trim_start_matches("- ").to_owned();
                let body = text::without_markers(&old);
                let markers = &old[body.len()..];
                lines[place] = format!("- {}{markers}", text::edited(body, number));
            }
        }
        Edit::Drop { at } => {
            if let Some(place) = nth(at) {
                lines.remove(place);
            }
        }
        Edit::Move { at, section, to } => {
            if let Some(place) = nth(at) {
                let line = lines.remove(place);
                let place = place_in(&lines, section, to).unwrap_or(place);
                lines.insert(place, line);
            }
        }
        Edit::Note { number, at } => {
            let place = nth(at).unwrap_or(lines.len());
            lines.insert(place, text::comment(number));
        }
        Edit::Unnote { at } => {
            let notes = places(&lines, |l| l.starts_with("# c"));
            if !notes.is_empty() {
                lines.remove(notes[at % notes.len()]);
            }
        }
    }
    lines
}

/// The object and the key in it that a number stands for.
fn inner(at: usize, section: usize) -> (String, String) {
    (format!("o{}", at % 3), format!("k{}", section % 4))
}

fn in_keys(map: &mut Map<String, Value>, edit: &Edit) {
    match *edit {
        Edit::Add { number, at, .. } => {
            map.insert(format!("k{at}"), json!(number));
        }
        Edit::Alter { number, at } => {
            let (object, key) = inner(at, at / 3);
            let inside = map.entry(object).or_insert_with(|| json!({}));
            inside[key] = json!(number);
        }
        Edit::Drop { at } => {
            let keys: Vec<String> = map.keys().cloned().collect();
            if !keys.is_empty() {
                map.shift_remove(&keys[at % keys.len()]);
            }
        }
        Edit::Move { at, section, .. } => {
            let (object, key) = inner(at, section);
            if let Some(Value::Object(inside)) = map.get_mut(&object) {
                inside.shift_remove(&key);
            }
        }
        Edit::Note { .. } | Edit::Unnote { .. } => {}
    }
}

/// What is appended for these edits: lines of missions.md or of config.yaml. `known`: a mission
/// that is there already, which may be queued once more. A line without its dash is a mission too if
/// it comes `alone`; below another one it goes on with that.
pub fn appended(doc: Doc, edits: &[Edit], known: Option<&str>, alone: bool) -> String {
    let line = |edit: &Edit| match (doc, *edit) {
        (Doc::Config, Edit::Add { number, at, .. }) => format!("k{at}: {number}\n"),
        (Doc::Config, _) => String::new(),
        (_, Edit::Add { number, section, .. }) => {
            let dash = if alone && section != 0 { "" } else { "- " };
            format!("{dash}{}\n", text::mission(number))
        }
        (_, Edit::Note { number, .. }) => text::comment(number) + "\n",
        (_, Edit::Alter { .. }) => known.map(|text| format!("- {text}\n")).unwrap_or_default(),
        _ => String::new(),
    };
    edits.iter().map(line).collect()
}
