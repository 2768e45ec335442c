//! One managed file as a document: what a save makes of it.

use std::sync::Arc;

use super::keyed::{self, Keyed};
use super::lines::{self, Mode};
use super::state::{FileState, extended, same, share};
use super::summary;
use crate::documents::{Content, Context, Plan, Save, State, Written};
use crate::model::{FileId, FileKind, Overlap, Refusal};

/// A managed file: its versions, and the pure part of its saves. What is on the disk, and in
/// the history, is the concern of others.
///
/// Texts and queues take any bytes. What the other kinds take is in [`FileKind`]; of these an
/// empty or blank text is a save only while the file has no content.
#[derive(Debug, Clone, Copy)]
pub struct FileDocument {
    id: FileId,
    kind: FileKind,
}

/// What a save makes of a file.
pub(super) struct Outcome {
    /// Its text afterwards.
    pub text: After,
    /// Where two changes met.
    pub overlaps: Vec<Overlap>,
    /// One line for the history; `None`: to be made from the two texts.
    pub summary: Option<String>,
}

/// The text after a save.
pub(super) enum After {
    /// As it was.
    Same,
    /// This one.
    Text(Content),
    /// No file.
    Gone,
}

impl Outcome {
    /// Nothing changes.
    pub(super) fn same() -> Outcome {
        Outcome { text: After::Same, overlaps: Vec::new(), summary: None }
    }

    /// The file has this text.
    pub(super) fn text(text: Content) -> Outcome {
        Outcome { text: After::Text(text), overlaps: Vec::new(), summary: None }
    }

    /// There is no file.
    pub(super) fn gone() -> Outcome {
        Outcome { text: After::Gone, overlaps: Vec::new(), summary: None }
    }
}

impl FileDocument {
    /// The file with this path as this kind.
    pub fn new(id: FileId, kind: FileKind) -> FileDocument {
        FileDocument { id, kind }
    }

    /// Which file.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Its kind.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// The version with this text; `None`: no such file.
    pub fn state(&self, text: Option<&[u8]>) -> State {
        Arc::new(FileState::new(text.map(|t| share(t, None))))
    }

    /// The same, sharing chunks with `near`; `near` itself when it has this text.
    pub fn state_near(&self, text: Option<&[u8]>, near: &State) -> State {
        let old = FileState::of(near).text();
        let new = text.map(|t| share(t, old));
        if same(new.as_ref(), old) { near.clone() } else { Arc::new(FileState::new(new)) }
    }

    /// The version with this archive. `Err` says what is wrong with it.
    pub fn decode(&self, archive: &[u8]) -> Result<State, String> {
        Ok(Arc::new(FileState::decode(archive, None)?))
    }

    /// The same, sharing chunks with `near`.
    pub fn decode_near(&self, archive: &[u8], near: &State) -> Result<State, String> {
        Ok(Arc::new(FileState::decode(archive, FileState::of(near).text())?))
    }

    /// The text as a version of its own, whatever is in it: what somebody has read may be
    /// what nobody could save.
    pub fn believe(&self, text: &[u8], near: &State, _cx: &Context) -> Result<State, Refusal> {
        Ok(self.state_near(Some(text), near))
    }

    /// What a save changes, or why it is refused (R3 to R7). Pure. An append to a text or a
    /// queue costs by its own size, everything else by the size of the texts.
    pub fn plan(&self, save: &Save<'_>, _cx: &Context) -> Result<Plan, Refusal> {
        let seen = save.seen.map(FileState::of);
        let current = FileState::of(save.current);
        let outcome = match Keyed::of(self.kind) {
            Some(keyed) => keyed::plan(keyed, seen, save.written, current)?,
            None => self.lines(seen, save.written, current),
        };
        let next: State = match outcome.text {
            After::Same => save.current.clone(),
            After::Text(text) if same(Some(&text), current.text()) => save.current.clone(),
            After::Text(text) => Arc::new(FileState::new(Some(text))),
            After::Gone if current.text().is_none() => save.current.clone(),
            After::Gone => Arc::new(FileState::new(None)),
        };
        let believed = self.believed(save, &next);
        let summary = outcome.summary.unwrap_or_else(|| self.summary(save.current, &next));
        Ok(Plan { next, believed, overlaps: outcome.overlaps, summary })
    }

    /// One line for the history about a change, also one that was made behind the mount.
    pub fn summary(&self, before: &State, after: &State) -> String {
        let (before, after) = (FileState::of(before), FileState::of(after));
        match (before.text(), after.text()) {
            (None, None) => "no file".into(),
            (None, Some(_)) => "created".into(),
            (Some(_), None) => "removed".into(),
            (Some(b), Some(a)) if same(Some(b), Some(a)) => "no change".into(),
            (Some(_), Some(a)) if a.is_empty() => "emptied".into(),
            (Some(b), Some(a)) => {
                let (b, a) = (b.to_vec(), a.to_vec());
                Keyed::of(self.kind)
                    .and_then(|k| keyed::summary(k, &b, &a))
                    .unwrap_or_else(|| summary::of_lines(&b, &a))
            }
        }
    }

    /// What the writer takes for the file's content now.
    fn believed(&self, save: &Save<'_>, next: &State) -> State {
        let after = FileState::of(next);
        let text = match save.written {
            // Of a queue there may be lines that it has not met.
            Written::Removed => after.text().map(|_| share(b"", None)),
            Written::Whole(text) if after.text().is_some_and(|t| t.equals(text)) => {
                return next.clone();
            }
            Written::Whole(text) => Some(share(text, after.text())),
            Written::Fragment(new) => {
                let seen = save.seen.map(FileState::of);
                let current = FileState::of(save.current);
                if seen.is_some_and(|s| same(s.text(), current.text())) {
                    return next.clone();
                }
                match self.lines_appended(new, seen) {
                    After::Text(text) => Some(text),
                    After::Same | After::Gone => seen.and_then(FileState::text).cloned(),
                }
            }
        };
        if same(text.as_ref(), after.text()) {
            return next.clone();
        }
        Arc::new(FileState::new(text))
    }

    /// What the writer had seen, plus its own lines.
    fn lines_appended(&self, new: &[u8], seen: Option<&FileState>) -> After {
        static NOTHING: FileState = FileState::absent();
        appended(self.kind == FileKind::Queue, new, seen.unwrap_or(&NOTHING)).text
    }

    fn lines(
        &self,
        seen: Option<&FileState>,
        written: Written<'_>,
        current: &FileState,
    ) -> Outcome {
        let queue = self.kind == FileKind::Queue;
        match written {
            Written::Fragment(new) => appended(queue, new, current),
            Written::Removed if queue => removed(seen, current),
            Written::Removed => Outcome::gone(),
            Written::Whole(new) if queue => whole_queue(seen, new, current),
            Written::Whole(new) => whole_text(seen, new, current),
        }
    }
}

/// An append (R5). In a queue it begins a line of its own.
fn appended(queue: bool, new: &[u8], current: &FileState) -> Outcome {
    let text = current.text();
    if new.is_empty() && text.is_some() {
        return Outcome::same();
    }
    let open = queue && !new.is_empty() && text.is_some_and(|t| !ends_line(t));
    let added = text.map(|_| format!("{} added", summary::lines(summary::count(new))));
    Outcome {
        summary: added,
        ..Outcome::text(extended(text, &[if open { b"\n" } else { b"" }, new]))
    }
}

fn ends_line(text: &Content) -> bool {
    text.chunks().next_back().is_none_or(|c| c.ends_with(b"\n"))
}

fn whole_text(seen: Option<&FileState>, new: &[u8], current: &FileState) -> Outcome {
    let shared = || Outcome::text(share(new, current.text()));
    let Some(now) = current.text() else { return shared() };
    match seen {
        _ if now.equals(new) => Outcome::same(),
        // The exception of R3: a blind overwrite replaces.
        None => shared(),
        Some(s) if same(s.text(), current.text()) => shared(),
        Some(s) if s.text().is_some_and(|s| s.equals(new)) => Outcome::same(),
        Some(s) => merged(Mode::Text, &s.bytes(), new, current),
    }
}

fn whole_queue(seen: Option<&FileState>, new: &[u8], current: &FileState) -> Outcome {
    let shared = || Outcome::text(share(new, current.text()));
    let Some(now) = current.text() else {
        // Taken away by somebody else: what is new stays; if nothing is, it was put back.
        let read = seen.map(FileState::bytes).unwrap_or_default();
        let left = lines::merge(Mode::Queue, &read, new, b"").text;
        return if left.is_empty() { shared() } else { Outcome::text(share(&left, None)) };
    };
    match seen {
        // Blind: it adds, also what is there already; and takes nothing away.
        None => appended(true, new, current),
        Some(s) if same(s.text(), current.text()) => {
            if now.equals(new) {
                Outcome::same()
            } else {
                shared()
            }
        }
        Some(s) if s.text().is_some_and(|s| s.equals(new)) => Outcome::same(),
        Some(s) => merged(Mode::Queue, &s.bytes(), new, current),
    }
}

/// `unlink` of a queue: what the remover has not read stays.
fn removed(seen: Option<&FileState>, current: &FileState) -> Outcome {
    let Some(read) = seen.and_then(FileState::text) else { return Outcome::gone() };
    if same(Some(read), current.text()) {
        return Outcome::gone();
    }
    let left = lines::merge(Mode::Queue, &read.to_vec(), b"", &current.bytes()).text;
    if left.trim_ascii().is_empty() {
        return Outcome::gone();
    }
    Outcome {
        summary: Some(format!("removed; {} not read stay", summary::lines(summary::count(&left)))),
        ..Outcome::text(share(&left, current.text()))
    }
}

fn merged(mode: Mode, seen: &[u8], written: &[u8], current: &FileState) -> Outcome {
    let m = lines::merge(mode, seen, written, &current.bytes());
    Outcome { overlaps: m.overlaps, ..Outcome::text(share(&m.text, current.text())) }
}
