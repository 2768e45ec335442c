//! YAML scalars: what a plain one means, and which way of writing a string is safe.
//!
//! Reading follows the core schema of YAML 1.2, except that numbers with leading zeros
//! (`0644`) are strings: 1.1 reads them as octal, 1.2 as decimal, and people mean neither.
//! Writing is safe for 1.1 as well: a string that either would read as another type is
//! quoted (merge.md, Config).

use super::tree::Style;
use super::value::Value;

/// What a plain scalar means.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    if is_number(text) { Value::Num(text.to_owned()) } else { Value::Str(text.to_owned()) }
}

/// `[-+]?[0-9]+`, `0o…`, `0x…` or a float of YAML 1.2, without leading zeros.
fn is_number(text: &str) -> bool {
    // Those of more than 128 bits are texts: JSON has no spelling for them.
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(d) = text.strip_prefix(prefix) {
            return !d.starts_with('+') && u128::from_str_radix(d, radix).is_ok();
        }
    }
    let s = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match s.find(['e', 'E']) {
        Some(at) => (&s[..at], Some(&s[at + 1..])),
        None => (s, None),
    };
    if let Some(e) = exponent {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        if e.is_empty() || !e.bytes().all(|b| b.is_ascii_digit()) {
            return false;
        }
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |d: &str| d.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && !(whole.len() > 1 && whole.starts_with('0'))
}

/// A number in a spelling that JSON allows: its own where that is legal.
pub(super) fn json_number(text: &str) -> String {
    if super::json::is_number(text) {
        return text.to_owned();
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(d) => ("-", d),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(n) =
            digits.strip_prefix(prefix).and_then(|d| u128::from_str_radix(d, radix).ok())
        {
            return format!("{sign}{n}");
        }
    }
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => digits.split_at(at),
        None => (digits, ""),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    let made = if mantissa.contains('.') {
        format!("{sign}{whole}.{fraction}{exponent}")
    } else {
        format!("{sign}{whole}{exponent}")
    };
    if super::json::is_number(&made) { made } else { "null".to_owned() }
}

/// A number in a spelling that readers of YAML 1.1 take for one too: an exponent needs a point
/// before it and a sign (`1e5` is a string to them, and would be saved as one).
fn yaml_number(text: &str) -> String {
    let at = match text.find(['e', 'E']) {
        Some(at) if !text.starts_with("0x") => at,
        _ => return text.to_owned(),
    };
    let (mantissa, exponent) = text.split_at(at);
    let (e, power) = exponent.split_at(1);
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if power.starts_with(['-', '+']) { "" } else { "+" };
    format!("{mantissa}{point}{e}{sign}{power}")
}

/// Whether a YAML 1.1 or 1.2 reader takes these bare letters as something else than text.
fn is_word(text: &str) -> bool {
    const WORDS: [&str; 12] =
        ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "none"];
    WORDS.iter().any(|w| text.eq_ignore_ascii_case(w))
}

/// Whether the string may be written without quotes.
fn plain_is_safe(text: &str, flow: bool) -> bool {
    let Some(first) = text.chars().next() else { return false };
    if !(first.is_alphabetic() || matches!(first, '_' | '/' | '$')) || is_word(text) {
        return false;
    }
    if text.ends_with([' ', ':']) || text.contains(": ") || text.contains(" #") {
        return false;
    }
    // In flow style readers differ over a dash that begins or ends a word.
    let odd = |w: &str| w.starts_with('-') || w.ends_with('-');
    if flow && text.split(' ').any(odd) {
        return false;
    }
    text.chars().all(|c| {
        printable(c)
            && !matches!(c, '\t' | '\n' | '\r')
            && (!flow || c.is_alphanumeric() || " _-./$%@+".contains(c))
    })
}

/// Whether every YAML reader takes the character as it is.
fn printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}'
        | '\u{10000}'..)
        && !matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}')
}

fn double_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if printable(c) => out.push(c),
            c if (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

/// A string on one line, in the given style where that can hold it.
pub(super) fn string(text: &str, style: Style, flow: bool) -> String {
    let single_line = text.chars().all(|c| printable(c) && c != '\n' && c != '\t');
    match style {
        Style::Single if single_line => format!("'{}'", text.replace('\'', "''")),
        Style::Double | Style::Single => double_quoted(text),
        _ if plain_is_safe(text, flow) => text.to_owned(),
        _ => double_quoted(text),
    }
}

/// A string as a literal block: its header and its lines without indentation. `None` when it
/// has no line end or cannot be told from its indentation or line ends.
pub(super) fn literal(text: &str) -> Option<(&'static str, Vec<&str>)> {
    let body = text.trim_end_matches('\n');
    if body.is_empty() || !text.contains('\n') {
        return None;
    }
    if !text.chars().all(|c| printable(c) && c != '\u{85}') || body.starts_with([' ', '\n', '\t']) {
        return None;
    }
    let blank = |l: &str| !l.is_empty() && l.trim().is_empty();
    if body.split('\n').any(blank) {
        return None;
    }
    let ends = text.len() - body.len();
    let header = match ends {
        0 => "|-",
        1 => "|",
        _ => "|+",
    };
    let mut lines: Vec<&str> = body.split('\n').collect();
    lines.extend(std::iter::repeat_n("", ends.saturating_sub(1)));
    Some((header, lines))
}

/// Any scalar on one line.
pub(super) fn inline(value: &Value, style: Style, flow: bool) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Num(n) => yaml_number(n),
        Value::Str(s) => string(s, style, flow),
        Value::Seq(_) => "[]".to_owned(),
        Value::Map(_) => "{}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_by_yaml_1_2() {
        for n in ["1", "-1", "+1", "1e3", "0x10", "0o17", "1.0", ".5", "1.", "12345678901234567890"]
        {
            assert!(matches!(resolve(n), Value::Num(s) if s == n), "{n}");
        }
        for s in
            ["1_000", "0644", "yes", "on", "2024-01-01", "1:30", ".inf", "1.2.3", "-", "e3", "."]
        {
            assert!(matches!(resolve(s), Value::Str(t) if t == s), "{s}");
        }
        assert!(matches!(resolve("~"), Value::Null));
        assert!(matches!(resolve("True"), Value::Bool(true)));
    }

    #[test]
    fn spellings_for_json() {
        for (yaml, json) in [
            ("1e3", "1e3"),
            ("1.0", "1.0"),
            ("12345678901234567890", "12345678901234567890"),
            ("0x10", "16"),
            ("0o17", "15"),
            ("+1", "1"),
            (".5", "0.5"),
            ("1.", "1.0"),
            ("-.5e-7", "-0.5e-7"),
        ] {
            assert_eq!(json_number(yaml), json);
        }
    }

    #[test]
    fn written_numbers_are_numbers_to_yaml_1_1_as_well() {
        for (number, yaml) in [
            ("1e-05", "1.0e-05"),
            ("1e3", "1.0e+3"),
            ("-2.5E10", "-2.5E+10"),
            ("1.5e+7", "1.5e+7"),
            ("0x1e3", "0x1e3"),
            ("12", "12"),
            ("0.1", "0.1"),
        ] {
            let written = inline(&Value::Num(number.to_owned()), Style::Plain, false);
            assert_eq!(written, yaml);
            assert!(Value::Num(number.to_owned()).same(&resolve(yaml)), "{yaml}");
        }
    }

    #[test]
    fn strings_that_look_like_something_else_are_quoted() {
        for s in [
            "yes",
            "No",
            "on",
            "y",
            "null",
            "~",
            "true",
            "1",
            "1_000",
            "0x1f",
            "1:30",
            "2024-01-01",
            ".inf",
            "1e3",
            "",
            " a",
            "a ",
            "a: b",
            "a #b",
            "- a",
            "#a",
            "*a",
            "&a",
            "!a",
            "a:",
            "=",
            "<<",
            "?",
            "{a",
            "[a",
            "%a",
            "@a",
            "`a",
            "\"a",
            "'a",
            "|",
            ">",
            "a\tb",
            "a\nb",
        ] {
            assert!(string(s, Style::Plain, false).starts_with('"'), "{s}");
        }
        for s in ["abc", "a b", "${VAR}", "$HOME/x", "http://x/y", "it's", "ünï", "a-b_c", "a,b"]
        {
            assert_eq!(string(s, Style::Plain, false), s);
        }
        assert_eq!(string("it's", Style::Single, false), "'it''s'");
        for s in ["a,b", "a?", "a:b", "a -", "a-", "a [", "${x}"] {
            assert!(string(s, Style::Plain, true).starts_with('"'), "{s}");
        }
        assert_eq!(string("a-b c.d", Style::Plain, true), "a-b c.d");
        assert_eq!(string("a\u{7}\u{feff}", Style::Plain, false), "\"a\\u0007\\ufeff\"");
    }
}
