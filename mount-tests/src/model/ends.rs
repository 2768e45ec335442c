//! The ends of processes and daemons, and what must be left after them (R8, R11).

use super::base::Observations;
use super::edit;
use super::ops::{Doc, Edits, Way};
use super::real::Real;
use super::run::{Effect, Run, Verdict, What, of};
use super::state::{Actor, Refused, Versions};

impl<R: Real> Run<R> {
    pub(super) fn exit(&mut self, who: usize) -> Verdict {
        for slot in self.open_slots(who) {
            self.close(who, slot)?;
        }
        self.real.exit(who);
        self.replaced(who);
        self.check(None).map(drop)
    }

    /// The next process in the place of an actor knows nothing.
    fn replaced(&mut self, who: usize) {
        let old = std::mem::take(&mut self.actors[who]);
        self.actors[who] =
            Actor { generation: old.generation + 1, draft: old.draft, ..Actor::default() };
    }

    /// What becomes of the texts in open files when their writers, or the daemon, are made to end
    /// (rule 7, R11): whole texts are set aside, appends committed. The appends.
    fn cut_off(&mut self, who: usize) -> Vec<String> {
        let mut appends = Vec::new();
        for slot in self.open_slots(who) {
            let Some(h) = self.actors[who].handles[slot].take() else { continue };
            match h.buffer {
                _ if !h.dirty || h.refused => {}
                Some(text) => self.unsaved.push((h.doc, text)),
                None if h.fragment.contains(&0) => {
                    self.refuse(who, Some(h.id), h.doc, h.fragment);
                }
                None => {
                    let lines = String::from_utf8_lossy(&h.fragment).into_owned();
                    self.has_appended(self.process(who), h.doc, h.base.as_ref(), &lines);
                    appends.push(lines);
                }
            }
        }
        appends
    }

    /// Everything that was appended at such an end.
    fn all_appended(&mut self, appends: Vec<String>) -> Verdict {
        self.docs[of(Doc::Missions)].unseen += appends.len().saturating_sub(1);
        let appends: Vec<String> = appends.into_iter().filter(|a| !a.is_empty()).collect();
        let some = !appends.is_empty();
        let effect =
            Effect { doc: Doc::Missions, what: What::Appends(appends), may: false, ino: None };
        self.check(some.then_some(effect)).map(drop)
    }

    pub(super) fn kill(&mut self, who: usize) -> Verdict {
        let appends = self.cut_off(who);
        if !appends.is_empty() {
            self.forgive(who, Doc::Missions);
        }
        self.real.kill(who);
        self.replaced(who);
        self.all_appended(appends)
    }

    pub(super) fn rest(&mut self) -> Verdict {
        self.real.rest();
        self.books.iter_mut().for_each(Observations::rest);
        let resting = self.resting();
        self.appends_rest(&resting)
    }

    pub(super) fn remount(&mut self) -> Verdict {
        for who in 0..self.actors.len() {
            for slot in self.open_slots(who) {
                self.close(who, slot)?;
            }
        }
        self.kept_at_end();
        self.count.remounts += 1;
        for (doc, text) in self.real.remount() {
            if text != self.docs[of(doc)].current().as_bytes() {
                let text = String::from_utf8_lossy(&text);
                return Err(format!("{} was written out as\n{text} (R11)", doc.name()));
            }
        }
        self.ended();
        self.check(None).map(drop)
    }

    pub(super) fn term(&mut self) -> Verdict {
        let doc = Doc::Missions;
        let mut appends = Vec::new();
        for who in 0..self.actors.len() {
            let own = self.cut_off(who);
            if !own.is_empty() {
                self.forgive(who, doc);
            }
            appends.extend(own);
        }
        self.kept_at_end();
        self.count.remounts += 1;
        self.real.term();
        self.ended();
        self.all_appended(appends)
    }

    /// A clean end: what is known of who has met what is put on record.
    fn kept_at_end(&mut self) {
        let exact = self.real.exact();
        for book in &mut self.books {
            book.keep();
            if exact {
                book.recall();
            } else {
                book.doubt();
            }
        }
    }

    /// A daemon has ended: what it knew of files that are not documents is gone.
    fn ended(&mut self) {
        for actor in &mut self.actors {
            actor.handles = Default::default();
            actor.removed = Default::default();
            actor.draft = None;
        }
        let mut once: Vec<Refused> = Vec::new();
        for r in self.refused.drain(..) {
            let same = |o: &Refused| {
                !o.stays
                    && (o.who, o.generation, o.doc, &o.text)
                        == (r.who, r.generation, r.doc, &r.text)
            };
            if r.stays || !once.iter().any(same) {
                once.push(r);
            }
        }
        once.iter_mut().for_each(|r| r.stays = true);
        self.refused = once;
    }

    pub(super) fn crashed(&mut self) {
        self.count.crashes += 1;
        self.ended();
        let exact = self.real.exact();
        if !exact {
            self.docs.iter_mut().for_each(Versions::killed);
        }
        for book in &mut self.books {
            if exact {
                book.recall();
            } else {
                book.doubt();
            }
        }
    }

    pub(super) fn crash_in(
        &mut self,
        who: usize,
        doc: Doc,
        way: Option<Way>,
        edits: &Edits,
        after: u64,
    ) -> Verdict {
        if self.shown(who, doc) != Some(true) {
            return Ok(());
        }
        let (text, what) = match way {
            Some(_) => {
                let text = self.text(who, doc, edits);
                let choices = self.books[of(doc)].choices(&self.question(who, &text));
                (text.clone(), What::Save(choices, text))
            }
            None => {
                let text = edit::appended(Doc::Missions, &edits.0, None, false);
                (text.clone(), What::Appends(vec![text]))
            }
        };
        if text.is_empty() || (doc == Doc::Config && way.is_none()) {
            return Ok(());
        }
        let acknowledged = self.real.crash_in(who, doc.name(), way, &text, after);
        // It may have taken its own refused texts away before the end.
        self.forgiven(who, doc)?;
        self.crashed();
        // A rename may have given its number before the end.
        if let Some((_, stat)) = self.observe(doc)
            && way == Some(Way::Rename)
        {
            let told = &mut self.docs[of(doc)].told;
            *told = told.map(|(mtime, _)| (mtime, stat.ino));
        }
        let changed = self.check(Some(Effect { doc, what, may: !acknowledged, ino: None }))?;
        let exact = self.real.exact();
        if !exact && (changed || acknowledged) && way.is_some() {
            self.believes(self.process(who), doc, &text);
            let (version, current) = (self.docs[of(doc)].last(), self.docs[of(doc)].current());
            self.books[of(doc)].settle(version, current);
            self.books[of(doc)].doubt();
        }
        Ok(())
    }
}
