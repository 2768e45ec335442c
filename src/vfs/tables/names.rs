//! File names of rows whose id may be anything.
//!
//! A byte that a name cannot hold, or that would act on a terminal, stands as `%XX`; so do `%`,
//! `~` and a dot at the beginning. An empty id is `%`. A name that would be longer than 255 bytes
//! is cut and ends in `~` and 32 hexadecimal digits of the id's SHA-256. Every id has one name,
//! and no two ids have the same one.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::foreign::view::Id;

/// The longest name of a file.
const LONGEST: usize = 255;
/// Digits of the hash in a name that was cut.
const DIGITS: usize = 32;

/// What a name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    /// The row with this id.
    Row(Id),
    /// One of the rows whose id begins with these bytes: the one with this name.
    Begins(Vec<u8>),
}

/// The name of a row, with the extension (`.json`).
pub(super) fn name(id: &Id, extension: &str) -> String {
    let bytes = match id {
        Id::Number(n) => return format!("{n}{extension}"),
        Id::Text(bytes) => bytes,
    };
    let pieces = pieces(bytes);
    let length: usize = pieces.iter().map(String::len).sum();
    if length + extension.len() <= LONGEST {
        return pieces.concat() + extension;
    }
    let room = LONGEST - extension.len() - 1 - DIGITS;
    let mut out = String::with_capacity(LONGEST);
    for piece in pieces {
        if out.len() + piece.len() > room {
            break;
        }
        out.push_str(&piece);
    }
    let _ = write!(out, "~{}{extension}", hash(bytes));
    out
}

/// What a name in a directory of text ids says; `None`: no row can have it.
pub(super) fn parse_text(name: &str, extension: &str) -> Option<Named> {
    let stem = name.strip_suffix(extension)?;
    if let Some((head, digits)) = stem.rsplit_once('~') {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let fits = digits.len() == DIGITS && digits.bytes().all(hex);
        return fits.then(|| unescaped(head)).flatten().map(Named::Begins);
    }
    let id = Id::Text(if stem == "%" { Vec::new() } else { unescaped(stem)? });
    // One spelling only.
    (self::name(&id, extension) == name).then_some(Named::Row(id))
}

/// What a name in a directory of numbers says.
pub(super) fn parse_number(name: &str, extension: &str) -> Option<Named> {
    let id = Id::Number(name.strip_suffix(extension)?.parse().ok()?);
    (self::name(&id, extension) == name).then_some(Named::Row(id))
}

/// 56 bits that stand for an id.
pub(super) fn number(id: &Id) -> u64 {
    let digest = match id {
        Id::Text(bytes) => Sha256::digest(bytes),
        Id::Number(n) => Sha256::digest(n.to_le_bytes()),
    };
    digest.iter().take(7).fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// The id as it stands in a name, in pieces that must not be cut.
fn pieces(bytes: &[u8]) -> Vec<String> {
    if bytes.is_empty() {
        return vec!["%".to_owned()];
    }
    let mut pieces = Vec::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            let first_dot = c == '.' && pieces.is_empty();
            let mut buffer = [0; 4];
            let text = c.encode_utf8(&mut buffer);
            if c.is_control() || turns || first_dot || "%~/".contains(c) {
                pieces.push(escaped(text.as_bytes()));
            } else {
                pieces.push(text.to_owned());
            }
        }
        pieces.extend(chunk.invalid().iter().map(|byte| escaped(&[*byte])));
    }
    pieces
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "%{byte:02X}");
        out
    })
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            out.push(*first);
        }
    }
    Some(out)
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(DIGITS / 2).fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn text(id: impl AsRef<[u8]>) -> Id {
        Id::Text(id.as_ref().to_vec())
    }

    #[test]
    fn any_id_has_one_safe_name_that_leads_back() {
        let long = "é/".repeat(200);
        let longer = format!("{long}x");
        let exact = "a".repeat(250);
        let over = "a".repeat(251);
        let ids: Vec<&[u8]> = vec![
            b"plain-1",
            b"",
            b".",
            b"..",
            b".hidden",
            b"a/b",
            b"%41",
            b"A",
            b"a%",
            b"~",
            b"a~b",
            b"a\nb",
            b"\x1b[31m",
            b"\0",
            b"\xff\xfe",
            b"a.json",
            "ünï".as_bytes(),
            "\u{202e}x".as_bytes(),
            "\u{9b}".as_bytes(),
            long.as_bytes(),
            longer.as_bytes(),
            exact.as_bytes(),
            over.as_bytes(),
            b"%",
            b" ",
            b"-rf",
        ];
        let mut names = HashSet::new();
        for id in ids {
            let name = name(&text(id), ".json");
            assert!(name.len() <= 255 && !name.starts_with('.') && !name.contains('/'), "{name}");
            assert!(!name.chars().any(char::is_control), "{name:?}");
            match parse_text(&name, ".json").unwrap() {
                Named::Row(found) => assert_eq!(found, text(id)),
                Named::Begins(head) => assert!(id.starts_with(&head) && head.len() > 60, "{name}"),
            }
            assert!(names.insert(name));
        }
        assert_eq!(name(&text(&exact), ".json").len(), 255);
        assert_eq!(name(&text("a.b/c"), ".json"), "a.b%2Fc.json");
    }

    #[test]
    fn other_spellings_are_no_names() {
        for bad in [
            "a",
            ".json",
            "%41.json",
            "%2f.json",
            "a%.json",
            "a%4.json",
            ".a.json",
            "a~b.json",
            "a%zz.json",
            "a%+1.json",
        ] {
            assert_eq!(parse_text(bad, ".json"), None, "{bad}");
        }
        for bad in ["01.md", "+1.md", "1", "x.md", "99999999999999999999.md"] {
            assert_eq!(parse_number(bad, ".md"), None, "{bad}");
        }
        assert_eq!(parse_number("-5.md", ".md"), Some(Named::Row(Id::Number(-5))));
    }
}
