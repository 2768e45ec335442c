//! What must hold for any input, as functions of bytes.
//!
//! The fuzzer (`fuzz/`, `scripts/fuzz.sh`) looks for bytes that break one of these; what it has
//! found before lies in `fuzz/corpus/TARGET/` and is held against them by ordinary tests. Only
//! built for tests and with `--cfg fuzzing`.
//!
//! An input is a text in parts, divided by lines `=====`, so that a found input can be read and
//! written by hand. A property panics when it is broken; a refusal with a reason breaks none.

use crate::model::Refusal;

/// A property.
pub type Property = fn(&[u8]);

/// All of them, by the names of their fuzz targets.
pub const TARGETS: &[(&str, Property)] = &[
    ("missions_text", crate::documents::missions::properties::text),
    ("missions_merge", crate::documents::missions::properties::merge),
    ("missions_rows", crate::documents::missions::properties::rows),
    ("config_edit", crate::documents::config::properties::edit),
    ("config_merge", crate::documents::config::properties::merge),
    ("managed", crate::documents::files::properties::managed),
    ("hopeless", crate::documents::hopeless::properties::hopeless),
    ("settings", crate::documents::files::properties::settings),
    ("refused", crate::vfs::properties::refused),
    ("import", crate::foreign::properties::import),
    ("control", crate::daemon::properties::control),
    ("sizes", sizes),
];

/// Holds `bytes` against the property of a target.
///
/// # Panics
/// It is broken, or there is no such target.
pub fn check(target: &str, bytes: &[u8]) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    let (_, property) = found.unwrap_or_else(|| panic!("{target}: no such target"));
    property(bytes);
}

/// The parts of an input: what stands between lines that are exactly `=====`. The line end before
/// such a line belongs to the part above it.
pub(crate) fn parts(bytes: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    let (mut from, mut at) = (0, 0);
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        if line == b"=====\n" || line == b"=====" {
            out.push(&bytes[from..at]);
            from = at + line.len();
        }
        at += line.len();
    }
    out.push(&bytes[from..]);
    out
}

/// What every refusal must be: one line that says something, at a line that the text has.
pub(crate) fn is_refusal(refusal: &Refusal, text: &[u8]) {
    assert!(!refusal.message.trim().is_empty(), "{refusal:?}");
    assert!(!refusal.message.contains('\n') && !refusal.hint.contains('\n'), "{refusal:?}");
    let lines = 1 + text.iter().filter(|b| **b == b'\n').count();
    if let Some(line) = refusal.line {
        assert!(line >= 1 && line as usize <= lines, "{refusal:?} in a text of {lines} lines");
    }
}

/// The size to which [`sizes`] blows a text up, in bytes; less in builds without optimisation.
const BLOWN_UP: usize = if cfg!(fuzzing) { 256 << 10 } else { 16 << 10 };
/// What the fuzzer allows for that, in seconds of the thread's own time.
const ALLOWED: i64 = 5;

/// Nothing costs more than its size allows: an input `TARGET`, a beginning, a piece and an end is
/// taken for a text of that target in which the piece stands as often as fits into 256 KiB. Time and,
/// by the fuzzer's limit, memory are what can be broken here.
fn sizes(bytes: &[u8]) {
    let parts = parts(bytes);
    let [target, begin, piece, end, more @ ..] = &parts[..] else { return };
    let target = String::from_utf8_lossy(target);
    let (target, first) = target.split_once('\n').unwrap_or((&target, ""));
    if piece.is_empty() || target == "sizes" || target == "import" {
        return;
    }
    let Some((_, property)) = TARGETS.iter().find(|(name, _)| *name == target) else { return };
    let mut text = first.as_bytes().to_vec();
    text.extend_from_slice(begin);
    while text.len() < BLOWN_UP {
        text.extend_from_slice(piece);
    }
    text.extend_from_slice(end);
    for part in more {
        text.extend_from_slice(b"\n=====\n");
        text.extend_from_slice(part);
    }
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
    let begin = now();
    property(&text);
    assert!(!cfg!(fuzzing) || now() - begin <= ALLOWED, "takes longer than {ALLOWED} s");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every input that is kept for the target.
    fn corpus(target: &str) {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
        let mut inputs: Vec<_> =
            std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{}: nothing is kept there", dir.display());
        for path in inputs {
            let bytes = std::fs::read(&path).unwrap();
            let held = std::panic::catch_unwind(|| check(target, &bytes));
            assert!(held.is_ok(), "{}: see above", path.display());
        }
    }

    macro_rules! corpora {
        ($($target:ident)*) => {
            $(#[test] fn $target() { corpus(stringify!($target)); })*

            #[test]
            fn every_target_has_its_test() {
                let tested = [$(stringify!($target)),*];
                assert!(TARGETS.iter().map(|(name, _)| *name).eq(tested));
            }
        };
    }

    corpora! {
        missions_text missions_merge missions_rows config_edit config_merge managed hopeless
        settings refused import control sizes
    }

    #[test]
    fn parts_are_divided_by_lines() {
        let parts = |text: &str| -> Vec<String> {
            super::parts(text.as_bytes())
                .iter()
                .map(|p| String::from_utf8_lossy(p).into())
                .collect()
        };
        assert_eq!(parts("a\n=====\nb"), ["a\n", "b"]);
        assert_eq!(parts("=====\n=====\n"), ["", "", ""]);
        assert_eq!(parts("a =====\n======\n"), ["a =====\n======\n"]);
        assert_eq!(parts(""), [""]);
    }
}
