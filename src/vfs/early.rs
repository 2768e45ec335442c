//! Refusals at `write`: for programs that never look at the result of `close`.
//!
//! A text that comes in order from its beginning is judged as it comes. When nothing that could
//! follow makes it one that is taken, the write that has made it so answers the refusal, and so does
//! every later one in order, and the end. Its bytes are kept all the same: to the kernel a write that
//! failed has not moved the file's position, so that the next write in order comes to the place of
//! the failed one, be it the same bytes again or what a program that hears nothing has next.
//!
//! A write elsewhere or a truncation opens the case again. From then on the text is judged at its end
//! alone, unless it was emptied.

use super::commit::{Failed, Saver};
use super::handle::{DocHandle, State, Whole, blank};
use super::layer::Error;
use super::rescue::may_be_refused;
use super::tree::Tree;
use crate::documents::hopeless::{Judge, Kind};
use crate::model::{Refusal, View};
use crate::process::Process;

/// What is known of a text before its end.
#[derive(Default)]
pub struct Early {
    way: Way,
    /// The `.refused` file of a text that was given up for another one.
    left: Option<String>,
}

#[derive(Default)]
enum Way {
    /// It is not written in order.
    #[default]
    Elsewhere,
    /// Nothing has come.
    Begun,
    /// So much has come in order; without a judge it may be anything.
    InOrder { view: View, written: u64, judge: Option<(Kind, Judge)> },
    /// Refused; to the kernel the next write in order is at `from`. So many bytes are in the
    /// `.refused` file.
    Hopeless { refusal: Refusal, from: u64, kept: Option<usize> },
}

impl Early {
    /// The text is hopeless, and that is on record.
    pub(super) fn is_told(&self) -> bool {
        matches!(self.way, Way::Hopeless { kept: Some(_), .. })
    }
}

impl State {
    /// The text is empty and begins anew.
    pub(super) fn begins(&mut self) {
        self.leave();
        self.early.way = Way::Begun;
    }

    /// What was refused is given up; its file stays until something else is saved or refused.
    fn leave(&mut self) {
        if let Way::Hopeless { .. } = self.early.way {
            self.early.left = self.kept.take();
        }
        self.early.way = Way::Elsewhere;
    }

    /// The name of the file with what was refused before.
    pub(super) fn take_kept(&mut self) -> Option<String> {
        self.kept.take().or_else(|| self.early.left.take())
    }

    /// Where these bytes belong and which of them are new.
    pub(super) fn place<'d>(&mut self, offset: u64, data: &'d [u8]) -> (u64, &'d [u8]) {
        let (Way::Hopeless { from, .. }, Some(whole)) = (&self.early.way, &mut self.whole) else {
            return (offset, data);
        };
        let (from, end) = (*from, whole.bytes.len() as u64);
        if offset == end {
            return (offset, data);
        }
        let failed = whole.bytes.get(from as usize..).unwrap_or_default();
        if offset != from {
            // Who was told of an error takes what has failed for not written.
            whole.bytes.truncate(from as usize);
            self.leave();
            return (offset, data);
        }
        let again = failed.iter().zip(data).take_while(|(a, b)| a == b).count();
        match again == failed.len().min(data.len()) {
            true => (end, &data[again..]),
            false => (end, data),
        }
    }

    /// The size is about to be set. Whether it is that of a refused text.
    fn sized(&mut self, size: u64) -> bool {
        let (Way::Hopeless { from, .. }, Some(whole)) = (&self.early.way, &mut self.whole) else {
            return false;
        };
        if whole.bytes.len() as u64 == size {
            return true;
        }
        whole.bytes.truncate(*from as usize);
        self.leave();
        false
    }
}

impl Tree {
    /// Bytes were put at `at` into the whole text. The refusal if it is hopeless.
    pub(super) fn judge_early(
        &self,
        h: &DocHandle,
        state: &mut State,
        at: u64,
        append: bool,
    ) -> Option<Refusal> {
        let State { early, whole: Some(whole), .. } = state else { return None };
        if let Way::Begun = early.way {
            early.way = self.judged(h.view());
        }
        let (view, written, judge) = match &mut early.way {
            Way::Hopeless { refusal, .. } => return Some(refusal.clone()),
            Way::InOrder { view, written, judge } => (view, written, judge),
            Way::Begun | Way::Elsewhere => return None,
        };
        let in_order = *written == at && !whole.in_place && whole.start.is_none();
        if append || !in_order || *view != h.view() {
            early.way = Way::Elsewhere;
            return None;
        }
        *written = whole.bytes.len() as u64;
        let (kind, judge) = judge.as_mut()?;
        let bytes = &whole.bytes[..];
        if may_be_refused(bytes) {
            // The lines on top of a `.refused` are no part of the text.
            early.way = Way::Elsewhere;
            return None;
        }
        if !judge.more(bytes, at as usize) || self.is_there(*view, bytes) {
            return None;
        }
        let refusal = kind.why(bytes)?;
        early.way = Way::Hopeless { refusal: refusal.clone(), from: at, kept: None };
        Some(refusal)
    }

    /// Judges a text from here on.
    fn judged(&self, view: View) -> Way {
        let file = view.doc().file().and_then(|file| self.files.kind(file));
        let judge = Kind::of(view, file).map(|kind| (kind, Judge::new(kind)));
        Way::InOrder { view, written: 0, judge }
    }

    /// Whether a version that is there begins with it: what somebody has broken behind the mount is
    /// saved as it is.
    fn is_there(&self, view: View, text: &[u8]) -> bool {
        let now = self.docs.cached(view.doc()).view(view);
        now.is_some_and(|now| now.len() >= text.len() as u64 && now.read(0, text.len()) == text)
    }

    /// The size is about to be set to this, which the text may have. That ends a text that has come in
    /// order: the refusal of one that cannot be saved as it is.
    pub(super) fn judge_end(&self, h: &DocHandle, state: &mut State, size: u64) -> Option<Refusal> {
        if state.sized(size)
            && let Way::Hopeless { refusal, .. } = &state.early.way
        {
            return Some(refusal.clone());
        }
        let State { early, whole, .. } = state;
        match (&early.way, whole) {
            (Way::InOrder { view, written, judge }, Some(Whole { bytes, .. }))
                if *written == size && bytes.len() as u64 == size && *view == h.view() =>
            {
                let (kind, _) = judge.as_ref()?;
                if self.is_there(*view, bytes) {
                    return None;
                }
                match h.start.is_none() && super::is_blank(bytes) {
                    true => Some(blank()),
                    false => kind.refusal(bytes),
                }
            }
            // Every other size is the beginning of something else.
            _ => {
                early.way = Way::Elsewhere;
                None
            }
        }
    }

    /// A text was refused before its end, or `again`: it is kept now. The error to answer.
    pub(super) fn refuse_early(
        &self,
        h: &DocHandle,
        process: Option<&Process>,
        refusal: Refusal,
        again: bool,
    ) -> Error {
        if again {
            return Error::Refused(refusal);
        }
        let saver = self.saver_of(h, process);
        let mut state = h.state.lock();
        let hopeless = matches!(state.early.way, Way::Hopeless { .. });
        if hopeless {
            self.keep_rest(h, &mut state, &saver);
        } else if state.refused.as_ref() == Some(&refusal) {
            let text = state.whole.take();
            let bytes = text.as_ref().map_or(&[][..], |w| &w.bytes);
            self.refused(h, &mut state, &saver, bytes, Failed::refused(refusal.clone()));
            state.whole = text;
        }
        Error::Refused(refusal)
    }

    /// What has come of a hopeless text since its `.refused` file was written goes there.
    pub(super) fn keep_rest(&self, h: &DocHandle, state: &mut State, saver: &Saver) {
        let text = state.whole.take();
        let bytes = text.as_ref().map_or(&[][..], |w| &w.bytes);
        match &state.early.way {
            Way::Hopeless { refusal, kept: None, .. } => {
                let failed = Failed::refused(refusal.clone());
                self.refused(h, state, saver, bytes, failed);
            }
            Way::Hopeless { refusal, kept: Some(kept), .. } if *kept != bytes.len() => {
                let failed = Failed::refused(refusal.clone());
                let old = state.kept.take();
                state.kept = self.keep_text(h.view(), bytes, &failed, saver, old.as_deref());
            }
            _ => {}
        }
        if let Way::Hopeless { kept, .. } = &mut state.early.way {
            *kept = Some(bytes.len());
        }
        state.whole = text;
    }
}
