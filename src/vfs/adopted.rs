//! Plain files that were still open when they were renamed onto a document: what comes through
//! such a handle later is a save of the document (section 5, rule 10). The bytes are read from
//! the file, so that it does not matter by which way they got there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::commit::Failed;
use super::handle::{blank, too_big};
use super::layer::{Caller, Error, Fh, Result};
use super::observing::Start;
use super::tree::Tree;
use crate::documents::{Version, Written};
use crate::fs::observed::Choice;
use crate::model::{Refusal, Rule, View};
use crate::process::{Exit, Process};

/// A handle that belongs to a document now.
pub struct Adopted {
    view: View,
    file: Arc<File>,
    writer: Option<Process>,
    uid: u32,
    state: Mutex<State>,
}

struct State {
    /// The text that was saved last.
    saved: Vec<u8>,
    /// What the writer believes to be there.
    base: Option<Arc<Version>>,
    refused: Option<(Vec<u8>, Refusal)>,
    kept: Option<String>,
    killed: bool,
}

/// All bytes of a file, `None` when they are more than `limit`.
pub(super) fn read_all(file: &File, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    let size = file.metadata()?.len();
    if size > limit {
        return Ok(None);
    }
    let mut text = vec![0; size as usize];
    let mut at = 0;
    while at < text.len() {
        match file.read_at(&mut text[at..], at as u64)? {
            0 => break,
            n => at += n,
        }
    }
    text.truncate(at);
    Ok(Some(text))
}

impl Tree {
    /// From now on the handles' bytes, those of `file`, are the document's. `saved`: what the rename saved.
    #[expect(clippy::too_many_arguments, reason = "what a handle must know of its past")]
    pub(super) fn adopt(
        &self,
        handles: &[Fh],
        file: &Arc<File>,
        view: View,
        saved: &[u8],
        base: Option<&Arc<Version>>,
        writer: Option<&Process>,
        uid: u32,
    ) {
        for fh in handles {
            let state = State {
                saved: saved.to_vec(),
                base: base.cloned(),
                refused: None,
                kept: None,
                killed: false,
            };
            let (file, writer) = (file.clone(), writer.cloned());
            let adopted = Adopted { view, file, writer, uid, state: Mutex::new(state) };
            self.adopted.lock().insert(*fh, Arc::new(adopted));
        }
    }

    pub(super) fn adopted(&self, fh: Fh) -> Option<Arc<Adopted>> {
        self.adopted.lock().get(&fh).cloned()
    }

    /// FLUSH or FSYNC of such a handle.
    pub(super) fn adopted_flush(&self, who: &Caller, a: &Adopted, sync: bool) -> Result<()> {
        let flusher = self.process(who);
        let foreign = match (&flusher, &a.writer) {
            (Some(f), Some(w)) => f.id != w.id && self.procs.alive(w.id),
            _ => false,
        };
        if self.procs.exiting(who.tid) == Exit::Killed && !foreign {
            a.state.lock().killed = true;
            return Ok(());
        }
        if sync || !foreign {
            self.adopted_save(a, flusher.as_ref().filter(|_| !foreign))?;
        }
        if sync {
            self.docs.sync()?;
        }
        Ok(())
    }

    /// The last descriptor is gone.
    pub(super) fn adopted_release(&self, fh: Fh) {
        let Some(a) = self.adopted.lock().remove(&fh) else { return };
        if a.state.lock().killed {
            self.adopted_set_aside(&a);
        } else if let Err(e) = self.adopted_save(&a, None) {
            log::debug!("{}: refused at release: {e}", a.view.name());
        }
    }

    /// At the end: what was written and not flushed is kept as unsaved.
    pub(super) fn settle_adopted(&self) {
        let all: Vec<_> = self.adopted.lock().drain().map(|(_, a)| a).collect();
        for a in all {
            self.adopted_set_aside(&a);
        }
    }

    fn adopted_set_aside(&self, a: &Adopted) {
        let saver = self.saver(a.writer.as_ref(), a.uid, a.view);
        let state = a.state.lock();
        if let Ok(Some(text)) = read_all(&a.file, self.options.size_limit)
            && text != state.saved
            && state.refused.as_ref().is_none_or(|(refused, _)| *refused != text)
        {
            self.keep_unsaved(a.view, &text, &saver.actor);
        }
    }

    fn adopted_save(&self, a: &Adopted, asking: Option<&Process>) -> Result<()> {
        let saver = self.saver(asking.or(a.writer.as_ref()), a.uid, a.view);
        let mut state = a.state.lock();
        let limit = self.options.size_limit;
        let text = read_all(&a.file, limit).map_err(|e| Error::Os(errno(&e)))?;
        if text.as_ref() == Some(&state.saved) {
            return Ok(());
        }
        if let Some((refused, refusal)) = &state.refused
            && text.as_ref() == Some(refused)
        {
            return Err(Error::Refused(refusal.clone()));
        }
        let answer = match &text {
            None => Err(Failed::refused(too_big(limit))),
            Some(text) if super::is_blank(text) && a.view.doc().file().is_none() => {
                Err(Failed::refused(blank()))
            }
            Some(text) => {
                let choice = match &state.base {
                    Some(base) => Choice::of(Some(base.clone()), Rule::Handle),
                    None => self.merge_base(&saver, a.view, text, &Start::default()),
                };
                self.save(&saver, a.view, choice, Written::Whole(text))
            }
        };
        let text = text.unwrap_or_default();
        match answer {
            Ok(saved) => {
                state.base = Some(saved.believed);
                state.saved = text;
                state.refused = None;
                if let Some(name) = state.kept.take() {
                    let writer = self.saver_as_writer(&saver);
                    self.resolved(self.rescue.forgive_file(self.root(), &name, &writer));
                }
                Ok(())
            }
            Err(failed) => {
                let again = state.kept.take();
                state.kept = self.keep_refused(a.view, &text, &failed, &saver, again.as_deref());
                state.refused = Some((text, *failed.refusal));
                Err(failed.error)
            }
        }
    }
}

pub(super) fn errno(e: &std::io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(e).unwrap_or(rustix::io::Errno::IO)
}
