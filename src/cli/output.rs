//! What commands print. Names and texts come from files and rows that anybody may have
//! written, so control characters are shown, not sent to the terminal (semantics section 9).

use std::io::{self, ErrorKind, Write as _};
use std::sync::OnceLock;

use super::failure::{Failure, Result};
pub use crate::model::shown;

/// Why output was lost, the first time that it was.
static LOST: OnceLock<String> = OnceLock::new();

/// Whether a write to standard output arrived. That it did not is kept for [`finish`], except
/// when the reader is gone (`| head`): that is no error, but there is no use in going on.
pub fn arrived(written: io::Result<()>) -> bool {
    match written {
        Ok(()) => true,
        Err(e) => {
            if e.kind() != ErrorKind::BrokenPipe {
                LOST.get_or_init(|| e.to_string());
            }
            false
        }
    }
}

/// Fails if anything that was printed did not arrive.
pub fn finish() -> Result<()> {
    arrived(io::stdout().lock().flush());
    match LOST.get() {
        Some(why) => Err(Failure::new(format!("standard output: {why}"))),
        None => Ok(()),
    }
}

/// Prints one line on standard output.
pub fn line(text: &str) {
    arrived(writeln!(io::stdout().lock(), "{}", shown(text)));
}

/// Prints bytes as they are: the text of a document, `--json`, generated pages.
pub fn raw(bytes: impl AsRef<[u8]>) {
    arrived(io::stdout().lock().write_all(bytes.as_ref()));
}

/// Prints a remark on standard error that does not change the outcome.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "instancefs: {}", shown(text));
}

/// Prints a line on standard error word for word: the ones that programs look for.
pub fn words(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints why a command failed.
pub fn failure(failure: &Failure) {
    if failure.message.is_empty() {
        return;
    }
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "instancefs: {}", shown(&without_numbers(&failure.message)));
    if let Some(hint) = &failure.hint {
        let _ = writeln!(err, "  hint: {}", shown(hint));
    }
}

/// Without the numbers that the standard library adds: `(os error 2)`.
fn without_numbers(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        let digits = after.trim_start_matches(|c: char| c.is_ascii_digit());
        out.push_str(before);
        match digits.strip_prefix(')') {
            Some(tail) if digits.len() < after.len() => rest = tail,
            _ => {
                out.push_str(" (os error ");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// `1 file`, `2 files`.
pub fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_would_act_on_a_terminal() {
        assert_eq!(shown("a\x1b[31mb\u{9b}c\nd\te"), "a\\x1b[31mb\\x9bc\\nd\\te");
        assert_eq!(shown("x\u{202e}y ✅ é"), "x\\u{202e}y ✅ é");
    }

    #[test]
    fn leaves_out_the_numbers_of_errors() {
        let missing = "x: No such file or directory";
        assert_eq!(without_numbers(&format!("{missing} (os error 2)")), missing);
        for same in ["a (os error x) b", "a (os error ", "(os error 2)"] {
            assert_eq!(without_numbers(same), same);
        }
    }

    #[test]
    fn counts_in_words() {
        assert_eq!((count(1, "file"), count(0, "file")), ("1 file".into(), "0 files".into()));
    }
}
