//! Refused texts: which of them a good save settles.

use super::ops::Doc;
use super::real::Real;
use super::run::{Effect, Run, Verdict, What, of};
use super::state::{Handle, Refused};

impl<R: Real> Run<R> {
    /// A good save: its `.refused` files go if it changed something, those of its handle always.
    pub(super) fn saved(
        &mut self,
        who: usize,
        handle: Option<u64>,
        effect: Effect,
    ) -> Verdict<bool> {
        let (doc, generation) = (effect.doc, self.actors[who].generation);
        let changes = self.look(&effect);
        let its = |r: &Refused| handle.is_some() && r.handle == handle;
        let appends = matches!(effect.what, What::Appends(_));
        let mine = |r: &Refused| {
            (r.who, r.generation, r.doc) == (who, generation, doc) && !(appends && r.append)
        };
        // Equal texts of one process are one file.
        let gone: Vec<Vec<u8>> =
            self.refused.iter().filter(|r| its(r) && !r.stays).map(|r| r.text.clone()).collect();
        self.refused.retain(|r| {
            let goes = changes || gone.contains(&r.text);
            r.stays || !(its(r) || mine(r) && goes)
        });
        self.check(Some(effect))
    }

    /// The same for a file of `who` that was renamed onto the name.
    pub(super) fn published(
        &mut self,
        who: usize,
        generation: usize,
        effect: Effect,
    ) -> Verdict<bool> {
        let changes = self.look(&effect);
        let doc = effect.doc;
        self.refused.retain(|r| {
            r.stays || !changes || (r.who, r.generation, r.doc) != (who, generation, doc)
        });
        self.check(Some(effect))
    }

    /// Whether the document is another one than before.
    fn look(&mut self, effect: &Effect) -> bool {
        let now = self.observe(effect.doc).map(|(text, _)| text).unwrap_or_default();
        now != self.docs[of(effect.doc)].current().as_bytes()
    }

    pub(super) fn refuse(&mut self, who: usize, handle: Option<u64>, doc: Doc, text: Vec<u8>) {
        self.count.refusals += 1;
        let same = |r: &Refused| !r.stays && handle.is_some() && r.handle == handle;
        if text.is_empty() && self.refused.iter().any(same) {
            // A text that was emptied says nothing more than what was refused before.
            return;
        }
        self.refused.retain(|r| r.stays || handle.is_none() || r.handle != handle);
        let generation = self.actors[who].generation;
        let of_handle = |h: &&Handle| Some(h.id) == handle;
        let open = self.actors[who].handles.iter().flatten().find(of_handle);
        let append = open.is_some_and(Handle::appends);
        self.refused.push(Refused { who, generation, handle, doc, text, append, stays: false });
    }

    /// A good append: what was refused to the same process before is gone, but for lines.
    pub(super) fn forgive(&mut self, who: usize, doc: Doc) {
        let generation = self.actors[who].generation;
        let own = |r: &Refused| (r.who, r.generation, r.doc) == (who, generation, doc);
        self.refused.retain(|r| r.stays || r.append || !own(r));
    }

    /// Forgets the refused texts of an actor that are not there any more.
    pub(super) fn forgiven(&mut self, who: usize, doc: Doc) -> Verdict {
        let generation = self.actors[who].generation;
        let own = |r: &Refused| !r.stays && (r.who, r.generation, r.doc) == (who, generation, doc);
        let there = self.kept()?;
        let others: Vec<_> = self.refused.iter().filter(|r| !own(r)).cloned().collect();
        let count =
            |text: &Vec<u8>| others.iter().filter(|r| r.doc == doc && r.text == *text).count();
        self.refused.retain(|r| {
            let found = there.iter().filter(|(d, text)| *d == doc && *text == r.text).count();
            !own(r) || found > count(&r.text)
        });
        Ok(())
    }
}
