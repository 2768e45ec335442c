//! Rows as text: JSON, or Markdown with a front matter.

use serde_json::{Map, Number, Value};

use crate::foreign::view::{Cell, Cells};
use crate::model::Stamp;

/// Columns that hold JSON, which is shown as such when it is valid.
const JSON: [&str; 3] = ["payload", "tags", "keywords"];

/// A row as a JSON object, two spaces for each level, with a final newline.
pub(super) fn json(row: &Cells) -> Vec<u8> {
    written(&object(row))
}

/// Facts as one JSON object by their keys.
pub(super) fn facts(rows: &[Cells]) -> Vec<u8> {
    let mut facts = Map::new();
    for row in rows {
        let mut fact = object(row);
        // A key of another type, or none, is shown by its text.
        let key = match fact.shift_remove("key") {
            Some(Value::String(key)) => key,
            Some(other) => other.to_string(),
            None => String::new(),
        };
        facts.insert(key, Value::Object(fact));
    }
    written(&facts)
}

/// A note: everything but its content as front matter (each value is JSON, and so YAML), then the
/// content.
pub(super) fn markdown(row: &Cells) -> Vec<u8> {
    let mut out = b"---\n".to_vec();
    for (name, value) in object(row).iter().filter(|(name, _)| *name != "content") {
        out.extend_from_slice(format!("{name}: {value}\n").as_bytes());
    }
    out.extend_from_slice(b"---\n\n");
    match row.iter().find(|(name, _)| name == "content") {
        Some((_, Cell::Text(text))) => out.extend_from_slice(text),
        Some((_, other)) => out.extend_from_slice(value("", other).to_string().as_bytes()),
        None => {}
    }
    if out.last() != Some(&b'\n') {
        out.push(b'\n');
    }
    out
}

/// When the row was changed, as it says itself (`updated_at`, milliseconds since 1970).
pub(super) fn changed(row: &Cells) -> Option<Stamp> {
    match row.iter().find(|(name, _)| name == "updated_at") {
        Some((_, Cell::Integer(ms))) => Some(Stamp(ms.saturating_mul(1_000_000))),
        _ => None,
    }
}

fn object(row: &Cells) -> Map<String, Value> {
    row.iter().map(|(name, cell)| (name.clone(), value(name, cell))).collect()
}

fn value(name: &str, cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Integer(n) => Value::from(*n),
        Cell::Real(x) => Number::from_f64(*x).map_or(Value::Null, Value::Number),
        Cell::Text(bytes) => {
            let parsed = JSON.contains(&name).then(|| serde_json::from_slice(bytes).ok()).flatten();
            parsed.unwrap_or_else(|| Value::String(String::from_utf8_lossy(bytes).into_owned()))
        }
        Cell::Blob(bytes) => {
            Value::String(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        }
    }
}

fn written(object: &Map<String, Value>) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(object).unwrap_or_default();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(pairs: &[(&str, Cell)]) -> Cells {
        pairs.iter().map(|(name, cell)| ((*name).to_owned(), cell.clone())).collect()
    }

    fn text(text: &str) -> Cell {
        Cell::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn rows_are_json_whatever_they_hold() {
        let row = cells(&[
            ("id", text("a\"b")),
            ("payload", text("{\"n\":1.50,\"z\":1,\"a\":[]}")),
            ("updated_at", Cell::Integer(1_700_000_000_123)),
            ("turn_owner", Cell::Null),
            ("odd", Cell::Blob(vec![0, 255])),
            ("bytes", Cell::Text(b"\xff".to_vec())),
        ]);
        let written = String::from_utf8(json(&row)).unwrap();
        assert_eq!(
            written,
            "{\n  \"id\": \"a\\\"b\",\n  \"payload\": {\n    \"n\": 1.50,\n    \"z\": 1,\n    \"a\": []\n  },\n  \
             \"updated_at\": 1700000000123,\n  \"turn_owner\": null,\n  \"odd\": \"00ff\",\n  \
             \"bytes\": \"\u{fffd}\"\n}\n"
        );
        assert_eq!(changed(&row), Some(Stamp(1_700_000_000_123_000_000)));
        let broken = cells(&[("payload", text("{no json"))]);
        assert_eq!(json(&broken), b"{\n  \"payload\": \"{no json\"\n}\n");
    }

    #[test]
    fn a_note_is_markdown_with_front_matter_that_nothing_breaks_out_of() {
        let row = cells(&[
            ("id", Cell::Integer(7)),
            ("content", text("# Title\n---\nbody")),
            ("source", text("a\n---\nb: c")),
            ("tags", text("[\"x\", \"y\"]")),
        ]);
        let written = String::from_utf8(markdown(&row)).unwrap();
        assert_eq!(
            written,
            "---\nid: 7\nsource: \"a\\n---\\nb: c\"\ntags: [\"x\",\"y\"]\n---\n\n# Title\n---\nbody\n"
        );
    }

    #[test]
    fn facts_stand_by_their_keys() {
        let row = cells(&[("id", Cell::Integer(1)), ("key", text("name")), ("value", text("Ada"))]);
        let written: Value = serde_json::from_slice(&facts(&[row])).unwrap();
        assert_eq!(written["name"]["value"], "Ada");
        assert_eq!(facts(&[]), b"{}\n");
    }
}
