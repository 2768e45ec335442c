//! Files with keys: JSON, events, YAML. Read as a config is, merged by key path, and edited so
//! that everything unchanged keeps its text.

use super::document::Outcome;
use super::event;
use super::state::{FileState, same, share};
use crate::documents::Written;
use crate::documents::config::Form;
use crate::documents::config::keyed::{self, Merged, Reading, Seen};
use crate::model::{FileKind, Reason, Refusal};

/// How such a file is read and judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keyed {
    form: Form,
    event: bool,
}

impl Keyed {
    /// Of this kind, if it has keys.
    pub(super) fn of(kind: FileKind) -> Option<Keyed> {
        Some(match kind {
            FileKind::Json => Keyed { form: Form::Json, event: false },
            FileKind::Event => Keyed { form: Form::Json, event: true },
            FileKind::Yaml => Keyed { form: Form::Yaml, event: false },
            FileKind::Text | FileKind::Queue => return None,
        })
    }

    fn read(self, bytes: &[u8]) -> Result<Reading<'_>, Refusal> {
        Reading::new(self.form, bytes)
    }

    /// Reads a text that is to be saved; `None`: it is blank.
    fn judge(self, bytes: &[u8]) -> Result<Option<Reading<'_>>, Refusal> {
        match self.read(bytes) {
            Ok(text) => {
                if self.event {
                    event::check(&text)?;
                }
                Ok(Some(text))
            }
            Err(r) if r.reason == Reason::Empty => Ok(None),
            Err(r) => Err(r),
        }
    }
}

/// What is there.
enum Now<'t> {
    /// No file, or nothing in it.
    Blank,
    /// What no save could have left there: somebody broke it behind the mount.
    Broken,
    /// This.
    Text(Reading<'t>),
}

impl<'t> Now<'t> {
    fn of(kind: Keyed, bytes: &'t [u8]) -> Now<'t> {
        match kind.read(bytes) {
            Ok(text) => Now::Text(text),
            Err(r) if r.reason == Reason::Empty => Now::Blank,
            Err(_) => Now::Broken,
        }
    }
}

/// What a save changes, or why it is refused.
pub(super) fn plan(
    kind: Keyed,
    seen: Option<&FileState>,
    written: Written<'_>,
    current: &FileState,
) -> Result<Outcome, Refusal> {
    match written {
        Written::Removed => Ok(Outcome::gone()),
        Written::Whole(new) => whole(kind, seen, new, current),
        Written::Fragment(new) => fragment(kind, seen, new, current),
    }
}

/// Why this text is none of its kind, whatever is there now and whatever its writer has seen.
pub(super) fn refusal(kind: Keyed, text: &[u8]) -> Option<Refusal> {
    kind.judge(text).err()
}

fn whole(
    kind: Keyed,
    seen: Option<&FileState>,
    new: &[u8],
    current: &FileState,
) -> Result<Outcome, Refusal> {
    if current.text().is_some_and(|t| t.equals(new)) {
        return Ok(Outcome::same());
    }
    let as_written = || Outcome::text(share(new, current.text()));
    let now_bytes = current.bytes();
    let now = Now::of(kind, &now_bytes);
    let Some(text) = kind.judge(new)? else {
        // Comments alone, as they were read.
        let as_seen = !new.trim_ascii().is_empty() && seen.is_some_and(|s| s.bytes() == new);
        return match now {
            _ if as_seen => Ok(Outcome::same()),
            Now::Blank => Ok(as_written()),
            Now::Broken | Now::Text(_) => Err(empty(kind)),
        };
    };
    let now = match now {
        Now::Blank => {
            let seen = seen.map(FileState::bytes);
            let now = String::from_utf8_lossy(&now_bytes);
            if now.trim_start_matches('\u{feff}').trim().is_empty()
                || seen.as_ref() == Some(&now_bytes)
            {
                return Ok(as_written());
            }
            let seen = seen.as_deref().map(String::from_utf8_lossy);
            return Ok(match keyed::beside_comments(seen.as_deref(), &text, &now) {
                Some(text) => Outcome::text(share(text.as_bytes(), current.text())),
                None => Outcome::same(),
            });
        }
        Now::Broken => {
            let summary = Some(format!("replaced what was not valid {}", name(kind)));
            return Ok(Outcome { summary, ..as_written() });
        }
        Now::Text(_) if seen.is_some_and(|s| same(s.text(), current.text())) => {
            return Ok(as_written());
        }
        Now::Text(now) => now,
    };
    let seen_bytes = seen.map(FileState::bytes).unwrap_or_default();
    let seen_as = seen.map(|_| Now::of(kind, &seen_bytes));
    let seen = match &seen_as {
        // Nobody can tell what was seen in a broken text.
        None | Some(Now::Broken) => Seen::Nothing,
        Some(Now::Blank) => Seen::Blank,
        Some(Now::Text(_)) if seen_bytes == new => return Ok(Outcome::same()),
        Some(Now::Text(seen)) => Seen::Text(seen),
    };
    let Some(Merged { text, overlaps }) = keyed::merge(&seen, &text, &now)? else {
        return Ok(Outcome::same());
    };
    kind.judge(text.as_bytes()).map_err(|r| {
        Refusal { reason: Reason::Merged, line: None, ..r }
            .hint("the save was merged with what others had changed")
    })?;
    Ok(Outcome { overlaps, ..Outcome::text(share(text.as_bytes(), current.text())) })
}

fn fragment(
    kind: Keyed,
    seen: Option<&FileState>,
    new: &[u8],
    current: &FileState,
) -> Result<Outcome, Refusal> {
    let now_bytes = current.bytes();
    let open = kind.form == Form::Yaml && !now_bytes.is_empty() && !now_bytes.ends_with(b"\n");
    let joined = [&now_bytes[..], if open { b"\n" } else { b"" }, new].concat();
    let text = match Now::of(kind, &now_bytes) {
        Now::Text(now) => {
            let seen_bytes = seen.map(FileState::bytes).unwrap_or_default();
            let seen = kind.read(&seen_bytes).ok();
            let text = keyed::appended(seen.as_ref(), &now, keyed::text_of(new)?)?.into_bytes();
            kind.judge(&text)?;
            text
        }
        Now::Blank | Now::Broken => {
            kind.judge(&joined)?;
            joined
        }
    };
    Ok(Outcome::text(share(&text, current.text())))
}

fn name(kind: Keyed) -> &'static str {
    match kind.form {
        Form::Json => "JSON",
        Form::Yaml => "YAML",
    }
}

fn empty(kind: Keyed) -> Refusal {
    let hint = match kind.form {
        Form::Json => {
            "an empty text would reset it; to have nothing in it write {} or [], or remove the file"
        }
        Form::Yaml => {
            "an empty text would reset it; to have nothing in it write {}, or remove the file"
        }
    };
    Refusal::new(Reason::Empty, "the file would be empty").hint(hint)
}

/// One line about a change by key; `None` when one of the texts has no keys to compare.
pub(super) fn summary(kind: Keyed, before: &[u8], after: &[u8]) -> Option<String> {
    let (before, after) = (kind.read(before).ok()?, kind.read(after).ok()?);
    Some(keyed::summary(before.value(), after.value()))
}
