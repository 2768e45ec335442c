//! A value written from nothing: the view that is not the source, and new parts of a source.

use super::scalar;
use super::tree::{Form, Style};
use super::value::Value;

/// A JSON string with its quotes.
pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// How JSON is laid out.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// One level of indentation; `None`: all on one line.
    pub unit: Option<String>,
    /// Line end.
    pub eol: &'static str,
    /// Between a key and its value, `: ` or `:`.
    pub colon: String,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { unit: Some("  ".into()), eol: "\n", colon: ": ".into() }
    }
}

/// A whole document in this form: two-space indentation, final newline.
pub(super) fn document(form: Form, value: &Value) -> String {
    let mut out = String::new();
    match form {
        Form::Json => json(value, &Layout::default(), "", &mut out),
        Form::Yaml => match value {
            _ if is_empty(value) || !matches!(value, Value::Map(_) | Value::Seq(_)) => {
                out.push_str(&flow(value));
            }
            _ => {
                block(value, 0, &mut out);
                return out;
            }
        },
    }
    out.push('\n');
    out
}

/// Writes JSON whose lines after the first begin with `base`.
pub(super) fn json(value: &Value, layout: &Layout, base: &str, out: &mut String) {
    let (open, close, len) = match value {
        Value::Null => return out.push_str("null"),
        Value::Bool(b) => return out.push_str(if *b { "true" } else { "false" }),
        Value::Num(n) => return out.push_str(&scalar::json_number(n)),
        Value::Str(s) => return out.push_str(&json_string(s)),
        Value::Seq(s) => ('[', ']', s.len()),
        Value::Map(m) => ('{', '}', m.len()),
    };
    out.push(open);
    let inner = format!("{base}{}", layout.unit.as_deref().unwrap_or(""));
    let comma = if layout.colon.ends_with(' ') { ", " } else { "," };
    for i in 0..len {
        if layout.unit.is_some() {
            if i > 0 {
                out.push(',');
            }
            out.push_str(layout.eol);
            out.push_str(&inner);
        } else if i > 0 {
            out.push_str(comma);
        }
        match value {
            Value::Map(m) => {
                out.push_str(&json_string(&m[i].0));
                out.push_str(&layout.colon);
                json(&m[i].1, layout, &inner, out);
            }
            Value::Seq(s) => json(&s[i], layout, &inner, out),
            _ => {}
        }
    }
    if layout.unit.is_some() && len > 0 {
        out.push_str(layout.eol);
        out.push_str(base);
    }
    out.push(close);
}

/// YAML on one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::Seq(s) => {
            format!("[{}]", s.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::Map(m) => {
            let inside: Vec<_> =
                m.iter().map(|(k, v)| format!("{}: {}", key(k, true), flow(v))).collect();
            format!("{{{}}}", inside.join(", "))
        }
        other => scalar::inline(other, Style::Plain, true),
    }
}

/// A YAML key.
pub(super) fn key(text: &str, flow: bool) -> String {
    scalar::string(text, Style::Plain, flow)
}

/// The lines of a map or array in block style, indented by `indent` spaces, without line
/// ends; of an empty one or a scalar a single line.
pub(super) fn block_lines(value: &Value, indent: usize) -> Vec<String> {
    lines_of(|out| block(value, indent, out))
}

/// The lines of `key: value`.
pub(super) fn entry_lines(k: &str, v: &Value, indent: usize) -> Vec<String> {
    lines_of(|out| entry(k, v, indent, out))
}

/// The lines of `- value`.
pub(super) fn item_lines(v: &Value, indent: usize) -> Vec<String> {
    lines_of(|out| item(v, indent, out))
}

/// What stands behind `key:` or `-` on its line, and the lines below it.
pub(super) fn after_mark(v: &Value, indent: usize, style: Style) -> (String, Vec<String>) {
    let mut lines = lines_of(|out| tail(v, indent, style, out));
    let first = if lines.is_empty() { String::new() } else { lines.remove(0) };
    (first, lines)
}

fn lines_of(write: impl FnOnce(&mut String)) -> Vec<String> {
    let mut out = String::new();
    write(&mut out);
    out.split_terminator('\n').map(str::to_owned).collect()
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Writes a value in block style, every line with its end.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Map(m) if !m.is_empty() => m.iter().for_each(|(k, v)| entry(k, v, indent, out)),
        Value::Seq(s) if !s.is_empty() => s.iter().for_each(|v| item(v, indent, out)),
        other => {
            pad(indent, out);
            out.push_str(&scalar::inline(other, Style::Plain, false));
            out.push('\n');
        }
    }
}

fn entry(k: &str, v: &Value, indent: usize, out: &mut String) {
    pad(indent, out);
    let name = key(k, false);
    // A reader gives up on keys beyond 1024 characters unless they are marked with `?`.
    if name.len() > 1000 && name.chars().count() > 1000 {
        out.push_str("? ");
        out.push_str(&name);
        out.push('\n');
        pad(indent, out);
    } else {
        out.push_str(&name);
    }
    out.push(':');
    tail(v, indent, Style::Plain, out);
}

fn item(v: &Value, indent: usize, out: &mut String) {
    let start = out.len();
    if matches!(v, Value::Map(_) | Value::Seq(_)) && !is_empty(v) {
        // The first line of what is inside begins after the dash.
        block(v, indent + 2, out);
        out.replace_range(start + indent..start + indent + 1, "-");
    } else {
        pad(indent, out);
        out.push('-');
        tail(v, indent, Style::Plain, out);
    }
}

/// Writes what stands behind `key:` or `-` on its line, and the lines below it.
fn tail(v: &Value, indent: usize, style: Style, out: &mut String) {
    if let Value::Map(_) | Value::Seq(_) = v
        && !is_empty(v)
    {
        out.push('\n');
        return block(v, indent + 2, out);
    }
    out.push(' ');
    if let Value::Str(s) = v
        && !matches!(style, Style::Single | Style::Double)
        && let Some((header, lines)) = scalar::literal(s)
    {
        out.push_str(header);
        out.push('\n');
        for line in lines {
            if !line.is_empty() {
                pad(indent + 2, out);
                out.push_str(line);
            }
            out.push('\n');
        }
        return;
    }
    out.push_str(&scalar::inline(v, style, false));
    out.push('\n');
}

fn is_empty(v: &Value) -> bool {
    match v {
        Value::Map(m) => m.is_empty(),
        Value::Seq(s) => s.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::read;
    use super::*;

    fn yaml_of(json: &str) -> String {
        document(Form::Yaml, &read(Form::Json, json).unwrap().value)
    }

    #[test]
    fn json_as_yaml() {
        let yaml = yaml_of(
            r#"{"a": 1e3, "b": {"c": [1, {"x": "yes", "z": []}, [2, 3]], "d": {}}, "e": "l1\nl2\n",
                "f": "l1\nl2", "g": null, "1": "2024-01-01", "h": " l\nm", "on": "a: b"}"#,
        );
        let want = "a: 1.0e+3\nb:\n  c:\n    - 1\n    - x: \"yes\"\n      z: []\n    - - 2\n      - 3\n  d: {}\ne: |\n  l1\n  l2\nf: |-\n  l1\n  l2\ng: null\n\"1\": \"2024-01-01\"\nh: \" l\\nm\"\n\"on\": \"a: b\"\n";
        assert_eq!(yaml, want);
    }

    #[test]
    fn yaml_as_json() {
        let text = "a: 0x10 # c\nb: &x {c: [1.0, 12345678901234567890]}\nd: *x\ne: !secret k\nf: .inf\ng: 1_000\nh: 2024-01-01\ni:\nj: \"é\\n\"\nk:\n  <<: *x\n  z: ${VAR}\n";
        let json = document(Form::Json, &read(Form::Yaml, text).unwrap().value);
        let want = "{\n  \"a\": 16,\n  \"b\": {\n    \"c\": [\n      1.0,\n      12345678901234567890\n    ]\n  },\n  \"d\": {\n    \"c\": [\n      1.0,\n      12345678901234567890\n    ]\n  },\n  \"e\": \"!secret k\",\n  \"f\": \".inf\",\n  \"g\": \"1_000\",\n  \"h\": \"2024-01-01\",\n  \"i\": null,\n  \"j\": \"é\\n\",\n  \"k\": {\n    \"c\": [\n      1.0,\n      12345678901234567890\n    ],\n    \"z\": \"${VAR}\"\n  }\n}\n";
        assert_eq!(json, want);
    }
}
