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

/// The program's name as the table has it.
pub fn title(program: &Program) -> String {
    program.title.replace('|', "\\|")
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
    format!("| {} | {documents} | {kinds} | {meanwhile} | {said} | {kept} |\n", title(program))
}

fn outcome(program: &Program) -> (String, String) {
    if program.broken == Broken::Never {
        return ("–".into(), "–".into());
    }
    let file = std::fs::read(rows().join(format!("{}.json", program.id))).ok();
    let found: Option<Vec<Value>> = file.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(found) = found else { return ("not run".into(), "not run".into()) };
    let said: Vec<String> = found.iter().map(said).collect();
    let kept: Vec<Vec<String>> = found.iter().map(kept).collect();
    let longest = kept.iter().map(Vec::len).max().unwrap_or(0);
    let kept: Vec<String> = (0..longest)
        .flat_map(|at| alike(kept.iter().filter_map(|all| all.get(at).cloned()).collect()))
        .collect();
    let kept = if kept.is_empty() { "nowhere, but told".into() } else { kept.join(", ") };
    (alike(said).join("; "), kept)
}

fn said(one: &Value) -> String {
    let document = one["document"].as_str().unwrap_or_default();
    let words = one["said"].as_str().unwrap_or_default();
    let words = words.replace(document, "T").replace('|', "\\|").replace('`', "'");
    let code = &one["code"];
    if words.is_empty() { format!("{code}, silent") } else { format!("{code}, `{words}`") }
}

/// Names in the order: what the mount keeps, then what the program does.
fn kept(one: &Value) -> Vec<String> {
    let names = one["kept"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut names: Vec<String> = names
        .map(|name| if name.starts_with("its ") { name.into() } else { format!("`{name}`") })
        .collect();
    names.sort_by_key(|name| (!name.contains(".refused"), name.starts_with("its ")));
    names
}

/// The different texts among those of the documents. Where they differ only inside of words
/// (random names, line numbers), that part of the word becomes `…`.
fn alike(texts: Vec<String>) -> Vec<String> {
    let words: Vec<Vec<&str>> = texts.iter().map(|text| text.split(' ').collect()).collect();
    let Some(first) = words.first() else { return Vec::new() };
    if words.iter().all(|other| other.len() == first.len()) {
        let merged: Vec<String> = (0..first.len())
            .map(|at| words.iter().map(|text| text[at]).fold(first[at].to_owned(), common))
            .collect();
        return vec![merged.join(" ")];
    }
    let mut different: Vec<String> = Vec::new();
    for text in texts {
        if !different.contains(&text) {
            different.push(text);
        }
    }
    different
}

fn common(one: String, other: &str) -> String {
    if one == other {
        return one;
    }
    let same = |pair: &(char, char)| pair.0 == pair.1 && pair.0 != '…';
    let head: String = one.chars().zip(other.chars()).take_while(same).map(|p| p.0).collect();
    let rest = (one[head.len()..].chars().rev()).zip(other[head.len()..].chars().rev());
    let tail: Vec<char> = rest.take_while(same).map(|pair| pair.0).collect();
    format!("{head}…{}", tail.into_iter().rev().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_names_become_one() {
        let said = ["4, `cannot rename ./sedmQhEPL: x`", "4, `cannot rename ./sedGgdEld: x`"];
        let one = alike(said.map(str::to_owned).to_vec());
        assert_eq!(one, ["4, `cannot rename ./sed…: x`"]);
        let three = ["line 121.", "line 127.", "line 139."].map(str::to_owned).to_vec();
        assert_eq!(alike(three), ["line 1…."]);
        let other = ["0, silent", "1, `it cannot`"].map(str::to_owned).to_vec();
        assert_eq!(alike(other.clone()), other);
        assert_eq!(alike(vec!["a".into(), "a".into()]), ["a"]);
    }
}
