//! What is said of a save: in the log, in the status, and that it has changed nothing.

use std::sync::Arc;

use super::commit::Saver;
use super::ports::KeptRefusal;
use super::tree::Tree;
use crate::documents::Version;
use crate::documents::live::Saved;
use crate::model::{Actor, FileId, Reason, Refusal, Rule, View};

/// A commit, for the log.
fn told(view: View, actor: &Actor, saved: &Saved) -> String {
    let (name, rev, by) = (view.name(), saved.version.rev, actor.named());
    let met = match saved.overlaps.len() {
        0 => String::new(),
        n => format!(", merged over {n} overlapping changes"),
    };
    let base = match saved.basis.rule {
        Rule::Blind => ", blind",
        _ if saved.basis.undo => ", an undo",
        _ => "",
    };
    format!("{name}: revision {rev} by {by}{base}{met}")
}

impl Tree {
    /// A save that was taken and changes nothing, though its text is neither what is there nor what
    /// its writer started from, is not passed over in silence.
    pub(super) fn say_unchanged(
        &self,
        saver: &Saver,
        view: View,
        text: &[u8],
        saved: &Saved,
        base: Option<&Arc<Version>>,
    ) {
        let is = |v: &Arc<Version>| v.view(view).is_some_and(|c| c.equals(text));
        if is(&saved.version) || base.is_some_and(is) {
            return;
        }
        let why = match base {
            None => "nothing that it has is missing, and a writer that has met no version \
                     removes nothing"
                .to_owned(),
            Some(base) => format!(
                "what it changes of revision {} is there already, or is not to be changed by it",
                base.rev
            ),
        };
        let refusal = Refusal::new(Reason::Unchanged, why)
            .hint("read the file again; its lines that are not there were taken out by others");
        let (actor, at) = (&saver.actor, self.now());
        log::info!("{}: save by {} has changed nothing: {refusal}", view.name(), actor.named());
        let recorded = self.memory.record_refusal(&KeptRefusal {
            at,
            view,
            actor,
            refusal: &refusal,
            kept_as: None,
            base: base.map(|v| v.rev),
            append: false,
        });
        if let Err(e) = recorded {
            log::warn!("{}: a save without effect could not be recorded: {e}", view.name());
        }
    }

    /// What follows from a committed save, apart from what its writer has met.
    pub(super) fn report_saved(
        &self,
        saver: &Saver,
        view: View,
        saved: Saved,
        number: Option<(FileId, u64)>,
    ) -> Saved {
        self.report.saved(saved.changed);
        if saved.changed {
            if let Some((file, ino)) = number
                && saved.version.view(view).is_some()
            {
                self.files.numbers.keep(file, ino);
            }
            let append = saved.basis.rule == Rule::Append;
            self.forgive(view, saver, Some(&saver.actor.program), append);
            log::info!("{}", told(view, &saver.actor, &saved));
        }
        saved
    }
}
