//! `poll` on an open document, and who is to be told what (semantics section 7).

use super::handle::DocHandle;
use super::layer::Result;
use super::tree::Tree;
use crate::model::View;

impl Tree {
    /// Whether a handle on it has been written and is not committed yet. During a commit it is
    /// still so for the handle that commits. Whoever commits holds the state of its handle, so this
    /// waits for nobody: while the list of handles is being changed, it may be so.
    pub fn is_written(&self, view: View) -> bool {
        let Some(handles) = self.handles.try_read() else { return true };
        handles.values().any(|h| h.is_dirty() && h.view() == view)
    }

    /// Whether there is a newer version than the one that the handle's reads returned last, its
    /// own save left, or, before both, it was opened at. May wait for a commit of the handle.
    pub(super) fn doc_has_news(&self, h: &DocHandle) -> Result<bool> {
        let current = self.docs.current(h.view().doc())?;
        let state = h.state.lock();
        let known = [state.base.as_ref(), state.reading.as_ref().map(|(v, _)| v)];
        let known = known.into_iter().flatten().map(|v| v.rev).fold(h.opened_at, Ord::max);
        Ok(current.rev > known)
    }
}
