//! Files of their own that actors write and that are renamed onto a document.

use super::base::{Choice, Question};
use super::ops::Doc;
use super::oracle::Seen;
use super::real::{Answer, Real};
use super::run::{Effect, Run, Verdict, What, expect, of};
use super::state::Draft;
use super::steps::{CREATE, OWN};
use super::text;

impl<R: Real> Run<R> {
    pub(super) fn draft(&mut self, who: usize, doc: Doc, text: &str) -> Verdict {
        let until = self.books[of(doc)].now();
        let write = |real: &mut R| -> Answer<()> {
            real.open(who, OWN, &format!("draft{who}"), CREATE | libc::O_TRUNC)?;
            real.write(who, OWN, 0, text.as_bytes())?;
            real.fsync(who, OWN)?;
            real.close(who, OWN)
        };
        expect("writing a plain file", &write(&mut self.real), 0)?;
        let actor = &mut self.actors[who];
        actor.draft =
            Some(Draft { doc, text: text.to_owned(), until, generation: actor.generation });
        self.check(None).map(drop)
    }

    /// `by` renames the file of `who` onto the document.
    pub(super) fn publish(&mut self, who: usize, by: usize) -> Verdict<bool> {
        let Some(draft) = self.actors[who].draft.clone() else { return Ok(false) };
        let (doc, from) = (draft.doc, format!("draft{who}"));
        let Some(shown) = self.shown(by, doc) else { return Ok(false) };
        let ino = self.real.stat(by, &from).map_err(|e| format!("stat of {from}: errno {e}"))?.ino;
        let equal = draft.text == self.docs[of(doc)].current();
        let good = match doc {
            Doc::Missions => !draft.text.trim().is_empty() && !draft.text.contains('\0'),
            Doc::Config => text::keys(&draft.text).is_ok(),
        };
        let answer = self.real.rename(by, &from, doc.name());
        if !good {
            expect("rename of a bad text", &answer, libc::EIO)?;
            self.refuse(who, None, doc, draft.text.into_bytes());
            self.refused.last_mut().expect("one").generation = draft.generation;
            return self.check(None);
        }
        expect("rename onto the name", &answer, 0)?;
        let removed = self.actors[by].removed[of(doc)].take();
        let removed = removed.filter(|_| !shown).map(|(_, seen)| seen);
        let (writer, renamer) = ((who, draft.generation), self.process(by));
        let what = if equal {
            What::Nothing
        } else {
            let choices = self.bases_of_draft(who, by, &draft, removed);
            self.starts_from(doc, &choices);
            What::Save(choices, draft.text.clone())
        };
        self.actors[who].draft = None;
        self.believes(writer, doc, &draft.text);
        if renamer != writer {
            self.believes(renamer, doc, &draft.text);
        }
        if self.process(who) == writer {
            self.actors[who].memory[of(doc)] = Some(draft.text.clone());
        }
        let effect = Effect { doc, what, may: false, ino: Some(ino) };
        self.published(who, draft.generation, effect)
    }

    /// What a file may have started from that is renamed onto a document: what its writer had met
    /// when it wrote it, else what the renamer has met.
    fn bases_of_draft(
        &self,
        who: usize,
        by: usize,
        draft: &Draft,
        removed: Option<Seen>,
    ) -> Vec<Choice> {
        let book = &self.books[of(draft.doc)];
        let writer = Question {
            by: (who, draft.generation),
            written: &draft.text,
            until: draft.until,
            removed: None,
            beside: Vec::new(),
            own_only: true,
        };
        let mut renamer = Question { removed, ..self.question(by, &draft.text) };
        if by == who {
            renamer.beside.clear();
        }
        let by_renamer = book.choices(&renamer);
        let by_writer = book.choices(&writer).into_iter().flat_map(|choice| match choice.seen {
            Some(_) => vec![choice],
            None => by_renamer.clone(),
        });
        by_writer.collect()
    }
}
