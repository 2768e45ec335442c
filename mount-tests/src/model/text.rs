//! The two documents as the model understands them: a list of lines and a set of keys. Every
//! mission carries a number of its own, so that nothing has to be guessed about which line is
//! which; the texts of different missions have little in common and an edit leaves most of one.

use serde_json::{Map, Value};

use super::ops::Doc;

/// The sections of missions.md with the states of their rows, in the order of a fresh document.
pub const SECTIONS: [(&str, &str); 4] = [
    ("Pending", "pending"),
    ("In Progress", "in_progress"),
    ("Done", "done"),
    ("Failed", "failed"),
];

/// What stands at the end of a mission's line and is not its text.
const MARKERS: [char; 4] = ['⏳', '▶', '✅', '❌'];

/// A mission's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Which mission.
    pub number: u32,
    /// Its text without the leading `- ` and the markers.
    pub text: String,
    /// Index into [`SECTIONS`].
    pub section: usize,
    /// The line as it stands there.
    pub line: String,
}

/// What a text of missions.md says.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// The missions, in order.
    pub items: Vec<Item>,
    /// All other lines that are not blank, in order.
    pub layout: Vec<String>,
    /// Both, missions by their numbers.
    pub order: Vec<String>,
}

/// Four words that no other mission has.
pub fn mission(number: u32) -> String {
    let mut state = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x51_7c_c1_b7;
    let mut letters = |count: usize| -> String {
        let letter = |_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            char::from(b'a' + ((state >> 40) % 26) as u8)
        };
        (0..count).map(letter).collect()
    };
    format!("m{number} {} {} {}", letters(7), letters(8), letters(7))
}

/// The same mission after its `edit`th edit.
pub fn edited(text: &str, edit: u32) -> String {
    let kept = text.split(" +").next().unwrap_or_default();
    format!("{kept} +{edit}")
}

/// A comment that no other one is like.
pub fn comment(number: u32) -> String {
    format!("# c{number} {}", &mission(number + 10_000)[7..])
}

/// The number in front of a mission's text.
fn number_of(text: &str) -> Option<u32> {
    text.strip_prefix('m')?.split(' ').next()?.parse().ok()
}

/// The text of an item without the markers at its end.
pub fn without_markers(text: &str) -> &str {
    text.split(MARKERS).next().unwrap_or_default().trim_end()
}

/// The section that a line opens.
fn header(line: &str) -> Option<usize> {
    let name = line.strip_prefix("## ")?.trim();
    SECTIONS.iter().position(|(section, _)| *section == name)
}

/// Reads a text of missions.md. Items of a text without headers are pending.
///
/// # Errors
/// A mission without a number: nobody wrote it.
pub fn parse(text: &str) -> Result<List, String> {
    let mut list = List::default();
    let mut section = if text.lines().any(|l| header(l).is_some()) { None } else { Some(0) };
    for line in text.lines() {
        if let Some(opened) = header(line) {
            section = Some(opened);
        }
        match (section, line.strip_prefix("- ")) {
            (Some(section), Some(rest)) => {
                let text = without_markers(rest).to_owned();
                let number =
                    number_of(&text).ok_or_else(|| format!("nobody wrote the line {line:?}"))?;
                list.order.push(format!("m{number}"));
                list.items.push(Item { number, text, section, line: line.to_owned() });
            }
            _ if line.trim().is_empty() => {}
            _ => {
                list.order.push(line.to_owned());
                list.layout.push(line.to_owned());
            }
        }
    }
    Ok(list)
}

/// A bare line is an item like one with a dash.
pub fn dashed(line: &str) -> String {
    if line.starts_with(['-', '#']) { line.to_owned() } else { format!("- {line}") }
}

/// The text with these lines at the end of Pending: what somebody who appends believes to be
/// there.
pub fn with_appended(text: &str, lines: &str) -> String {
    let lines: Vec<String> = lines.lines().map(dashed).collect();
    let mut all: Vec<&str> = text.lines().collect();
    let Some(at) = all.iter().position(|l| header(l) == Some(0)) else {
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        return format!("## Pending\n{lines}{text}");
    };
    let next = all[at + 1..].iter().position(|l| l.starts_with("## "));
    let end = next.map_or(all.len(), |n| at + 1 + n);
    let last = all[at..end].iter().rposition(|l| !l.trim().is_empty()).map_or(at, |n| at + n);
    all.splice(last + 1..last + 1, lines.iter().map(String::as_str));
    all.join("\n") + "\n"
}

/// The keys and values of a config.
///
/// # Errors
/// Not a JSON object.
pub fn keys(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        other => Err(format!("{text:?} is no config: {other:?}")),
    }
}

/// A config as a program writes it.
pub fn dump(map: &Map<String, Value>) -> String {
    format!("{:#}\n", Value::Object(map.clone()))
}

/// What a read of so many bytes from here returns.
pub fn slice(text: &[u8], position: u64, size: usize) -> Vec<u8> {
    let from = (position as usize).min(text.len());
    text[from..from.saturating_add(size).min(text.len())].to_vec()
}

/// How many bytes of these texts tell at least two of them apart.
pub fn differ(texts: impl Iterator<Item = Vec<u8>>) -> Option<usize> {
    let texts: Vec<Vec<u8>> = texts.collect();
    let (first, rest) = texts.split_first()?;
    let common = |other: &Vec<u8>| first.iter().zip(other).take_while(|(a, b)| a == b).count();
    rest.iter().filter(|other| *other != first).map(|other| common(other) + 1).min()
}

/// Whether no text that begins like this is one of the document. Of what the sequences write only
/// these.
pub fn hopeless(doc: Doc, bytes: &[u8]) -> bool {
    match doc {
        Doc::Missions => bytes.contains(&0),
        Doc::Config => bytes.windows(3).any(|w| w == b": ,"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_reads_as_its_missions_and_its_other_lines() {
        let (a, b) = (mission(1), edited(&mission(2), 3));
        let text = format!(
            "# Missions\n\n## Pending\n- {a} ⏳(2026-01-01T10:00)\n# c\n\n## Done\n- {b}\n"
        );
        let list = parse(&text).unwrap();
        let read: Vec<_> = list.items.iter().map(|i| (i.number, &i.text, i.section)).collect();
        assert_eq!(read, [(1, &a, 0), (2, &b, 2)]);
        assert_eq!(list.layout, ["# Missions", "## Pending", "# c", "## Done"]);
        assert!(parse("- who wrote this?\n").is_err());
        let more = with_appended(&text, "- x\n");
        assert_eq!(more, text.replace("# c\n", "# c\n- x\n"));
    }
}
