//! The table of docs/SAVES.md: each test leaves its row in the build directory, and
//! [`markdown`] puts them together.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Broken, Kind, Meanwhile, Program, Style, all, place::installed};

/// What became of a save that was no valid document.
#[derive(Debug)]
pub struct Outcome {
    /// The document's name.
    pub document: String,
    /// The program's exit code.
    pub code: i32,
    /// The first line of what it said.
    pub said: String,
    /// Where the text is now.
    pub kept: Vec<String>,
}

/// What the tests of one program have found.
#[derive(Debug)]
pub struct Row {
    id: &'static str,
    /// One for each document.
    pub outcomes: Vec<Outcome>,
}

impl Row {
    /// An empty row.
    pub fn new(program: &Program) -> Row {
        Row { id: program.id, outcomes: Vec::new() }
    }

    /// Leaves the row where [`markdown`] finds it. To be called when all checks have passed.
    pub fn leave(&self) {
        let outcomes: Vec<Value> = self
            .outcomes
            .iter()
            .map(|one| {
                json!({"document": one.document, "code": one.code, "said": one.said, "kept": one.kept})
            })
            .collect();
        std::fs::create_dir_all(rows()).expect("mkdir");
        let path = rows().join(format!("{}.json", self.id));
        std::fs::write(path, json!(outcomes).to_string()).expect("write");
    }
}

fn rows() -> PathBuf {
    installed().join("rows")
}

/// The two tables, from the rows of the last run. Programs whose tests have not passed stand
/// as "not run".
pub fn markdown() -> String {
    let mut text = String::new();
    let mut family = "";
    for program in all() {
        if program.family != family {
            family = program.family;
            text.push_str(&format!(
                "\n### {family}\n\n| program | documents | edits | concurrent change | invalid save: \
                 exit, first words | the text is then in |\n|---|---|---|---|---|---|\n"
            ));
        }
        text.push_str(&line(&program));
    }
    text
}

fn line(program: &Program) -> String {
    let documents: Vec<_> = program.docs.iter().map(|doc| doc.name()).collect();
    let documents = if documents.len() == 3 { "all".to_owned() } else { documents.join(", ") };
    let kinds: Vec<_> = program.kinds.iter().map(|kind| kind.name()).collect();
    let kinds = match (program.style, kinds.len()) {
        (Style::Append, _) => "append".to_owned(),
        (_, n) if n == Kind::ALL.len() => "all".to_owned(),
        _ => kinds.join(", "),
    };
    let meanwhile = match program.meanwhile {
        Meanwhile::Merged => "merged",
        Meanwhile::Offsets => "stays; the save is merged or refused",
        Meanwhile::Blind => "(never reads)",
    };
    let (said, kept) = outcome(program);
    format!("| {} | {documents} | {kinds} | {meanwhile} | {said} | {kept} |\n", program.title)
}

fn outcome(program: &Program) -> (String, String) {
    if program.broken == Broken::Never {
        return ("–".into(), "–".into());
    }
    let file = std::fs::read(rows().join(format!("{}.json", program.id))).ok();
    let found: Option<Vec<Value>> = file.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(found) = found else { return ("not run".into(), "not run".into()) };
    let mut said: Vec<String> = Vec::new();
    let mut kept: Vec<String> = Vec::new();
    for one in &found {
        let document = one["document"].as_str().unwrap_or_default();
        let words = one["said"].as_str().unwrap_or_default().replace(document, "T");
        let words = words.replace('|', "\\|");
        let code = &one["code"];
        let cell =
            if words.is_empty() { format!("{code}, silent") } else { format!("{code}, `{words}`") };
        if !said.contains(&cell) {
            said.push(cell);
        }
        for place in one["kept"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let place =
                if place.starts_with("its ") { place.to_owned() } else { format!("`{place}`") };
            if !kept.contains(&place) {
                kept.push(place);
            }
        }
    }
    (said.join("; "), if kept.is_empty() { "nowhere, but told".into() } else { kept.join(", ") })
}
