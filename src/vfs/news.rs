//! `poll` on an open document (semantics section 7).

use super::handle::DocHandle;
use super::layer::Result;
use super::tree::Tree;

impl Tree {
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
