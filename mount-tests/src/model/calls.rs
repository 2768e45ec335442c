//! The system calls of actors on documents: what they must answer and what the model knows then.

use super::base::{Choice, Process, Question};
use super::ops::Doc;
use super::oracle::Seen;
use super::real::{Answer, Real};
use super::run::{Effect, Plan, Run, Verdict, What, expect, of};
use super::state::Handle;
use super::text;

/// Whether the text is one that a save may have; else it must be refused.
fn judge(doc: Doc, bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8(bytes.to_vec()).ok()?;
    let good = match doc {
        Doc::Missions => !text.trim().is_empty() && !text.contains('\0'),
        Doc::Config => text::keys(&text).is_ok(),
    };
    good.then_some(text)
}

impl<R: Real> Run<R> {
    pub(super) fn open(
        &mut self,
        who: usize,
        slot: usize,
        doc: Doc,
        name: &str,
        flags: i32,
    ) -> Verdict<bool> {
        let shown = if name == doc.name() { self.shown(who, doc) } else { Some(true) };
        let Some(shown) = shown else { return Ok(false) };
        self.looks_for(who, doc);
        let answer = self.real.open(who, slot, name, flags);
        let errno = match (shown, flags & libc::O_CREAT != 0, flags & libc::O_EXCL != 0) {
            (false, false, _) => libc::ENOENT,
            (true, true, true) => libc::EEXIST,
            _ => 0,
        };
        expect(&format!("open of {name}"), &answer, errno)?;
        if answer.is_err() {
            return Ok(false);
        }
        let removed = match shown {
            true => None,
            false => self.actors[who].removed[of(doc)].take().map(|(_, seen)| seen),
        };
        let empty = !shown || flags & libc::O_TRUNC != 0;
        self.ids += 1;
        self.actors[who].handles[slot] = Some(Handle {
            id: self.ids,
            doc,
            flags,
            created: !shown,
            removed,
            opened: self.docs[of(doc)].last(),
            position: 0,
            reading: None,
            at_end: false,
            moves: false,
            told: None,
            met: None,
            base: None,
            buffer: empty.then(Vec::new),
            start: None,
            anew: 0,
            in_order: empty,
            hopeless: None,
            fragment: Vec::new(),
            dirty: false,
            touched: false,
            only_truncated: empty,
            refused: false,
            got: Vec::new(),
            complete: false,
            mixed: false,
        });
        self.check(None)?;
        Ok(true)
    }

    /// A read from where the last one ended. It returns what one version has there.
    pub(super) fn read(&mut self, who: usize, slot: usize, size: usize) -> Verdict {
        let Some(h) = self.actors[who].handles[slot].as_mut().filter(|h| h.reads()) else {
            return Ok(());
        };
        let docs = &self.docs[of(h.doc)];
        let mut look = None;
        let first = h.reading.is_none();
        let mut wanted = match h.own_text() {
            Some(own) => text::slice(own, h.position, size),
            None => {
                let last = docs.last();
                let told = h.told.take();
                let version = match h.reading {
                    None => told.unwrap_or(last),
                    Some(_) if h.moves || (h.at_end && h.position == 0) => last,
                    Some(old) if h.at_end => {
                        // A follower gets what was added; of other changes it is told in time.
                        if !docs.current().starts_with(&docs.texts[old]) {
                            h.position = 0;
                            h.got.clear();
                        }
                        h.mixed = h.position > 0 && old != last;
                        last
                    }
                    Some(old) => old,
                };
                if first || h.moves || h.at_end {
                    look = Some(version);
                    h.buffer = None;
                }
                (h.reading, h.moves, h.at_end) = (Some(version), false, false);
                text::slice(docs.texts[version].as_bytes(), h.position, size)
            }
        };
        let own = h.own_text().is_some();
        let answer = self.real.read(who, slot, h.position, size);
        if first && look.is_some() && !self.real.exact() {
            // A kernel may ask for the size on its own account, between the open and the first read.
            let text =
                |v: usize, size: usize| text::slice(docs.texts[v].as_bytes(), h.position, size);
            let mut shown: Vec<usize> = (h.opened..=docs.last())
                .filter(|v| answer.as_ref() == Ok(&text(*v, size)))
                .collect();
            // Where a few bytes are the same in all of them, a few more tell them apart.
            while let Some(more) = text::differ(shown.iter().map(|v| text(*v, usize::MAX))) {
                let answer = self.real.read(who, slot, h.position, more);
                shown.retain(|v| answer.as_ref() == Ok(&text(*v, more)));
            }
            if let Some(newest) = shown.last()
                && !look.is_some_and(|version| shown.contains(&version))
            {
                wanted = text(*newest, size);
                (h.reading, look) = (Some(*newest), Some(*newest));
            }
        }
        if let Some(version) = look {
            let seen = Seen::of(version, docs.texts[version].clone());
            h.base = Some(seen.clone());
            let (doc, again) = (h.doc, h.met == Some(version));
            h.met = Some(version);
            if !again {
                let process = self.process(who);
                self.book(doc).read(process, seen);
            }
        }
        let h = self.actors[who].handles[slot].as_mut().expect("the handle");
        if answer.as_ref() != Ok(&wanted) {
            let shown = answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let wanted = String::from_utf8_lossy(&wanted);
            return Err(format!(
                "a read from {} should give\n{wanted:?}\nand gave\n{shown:?}",
                h.position
            ));
        }
        h.position += wanted.len() as u64;
        h.got.extend_from_slice(&wanted);
        if wanted.is_empty() && !own {
            h.at_end = true;
            if !h.mixed {
                h.complete = true;
                let text = String::from_utf8(h.got.clone()).map_err(|e| e.to_string())?;
                let doc = h.doc;
                self.actors[who].memory[of(doc)] = Some(text);
            }
        }
        self.check(None).map(drop)
    }

    pub(super) fn rewind(&mut self, who: usize, slot: usize) {
        if let Some(h) = self.handle(who, slot) {
            (h.position, h.complete, h.mixed) = (0, false, false);
            h.got.clear();
        }
    }

    /// The text that is written into, as a write at `offset` finds it.
    fn buffer(&mut self, who: usize, slot: usize, offset: u64) -> &mut Vec<u8> {
        let h = self.actors[who].handles[slot].as_mut().expect("an open handle");
        let docs = &self.docs[of(h.doc)];
        if h.buffer.is_none() {
            let read = h.reading.filter(|v| offset <= docs.texts[*v].len() as u64);
            let version = read.unwrap_or(docs.last());
            (h.start, h.anew) = (Some(version), 0);
            h.buffer = Some(docs.texts[version].clone().into_bytes());
        }
        h.soil();
        h.touched = true;
        h.buffer.get_or_insert_default()
    }

    pub(super) fn write(&mut self, who: usize, slot: usize, offset: u64, bytes: &[u8]) -> Verdict {
        let h = self.handle(who, slot).expect("an open handle");
        let (id, doc, appends) = (h.id, h.doc, h.appends());
        let mut errno = 0;
        if appends {
            if h.refused {
                h.fragment.clear();
            }
            h.fragment.extend_from_slice(bytes);
            h.soil();
            h.touched = true;
        } else {
            let at_end = h.buffer.as_ref().is_some_and(|b| b.len() as u64 == offset);
            if !at_end {
                h.leaves_order();
            }
            let again = h.hopeless.is_some();
            let buffer = self.buffer(who, slot, offset);
            let end = offset as usize + bytes.len();
            buffer.resize(buffer.len().max(end), 0);
            buffer[offset as usize..end].copy_from_slice(bytes);
            let text = buffer.clone();
            let h = self.handle(who, slot).expect("an open handle");
            if offset as usize <= h.anew {
                h.anew = h.anew.max(end);
            }
            if h.in_order && text::hopeless(doc, &text) {
                errno = libc::EIO;
                h.refused = true;
                h.hopeless.get_or_insert(offset as usize);
                assert!(!again, "no sequence goes on after the error");
                self.refuse(who, Some(id), doc, text);
            }
        }
        let answer = self.real.write(who, slot, offset, bytes);
        expect("write", &answer, errno)?;
        // Left alone for some time whole lines are committed, which on a busy machine is at any
        // moment from now on; what comes next, a close or a rest, tells whether they are there.
        match appends && !self.real.exact() {
            true => Ok(()),
            false => self.check(None).map(drop),
        }
    }

    pub(super) fn truncate(&mut self, who: usize, slot: usize, size: u64) -> Verdict {
        let h = self.handle(who, slot).expect("an open handle");
        let (id, doc) = (h.id, h.doc);
        let mut errno = 0;
        if size == 0 {
            h.buffer = Some(Vec::new());
            (h.start, h.anew) = (None, 0);
            (h.in_order, h.hopeless) = (true, None);
            h.soil();
            h.touched = true;
        } else {
            // A size that the text has ends it.
            let ends = h.in_order && h.buffer.as_ref().is_some_and(|b| b.len() as u64 == size);
            if !ends {
                h.leaves_order();
            }
            let again = h.hopeless.is_some();
            self.buffer(who, slot, 0).resize(size as usize, 0);
            let h = self.handle(who, slot).expect("an open handle");
            let text = h.buffer.clone().unwrap_or_default();
            if ends && (again || judge(doc, &text).is_none()) {
                errno = libc::EIO;
                h.refused = true;
                if !again {
                    self.refuse(who, Some(id), doc, text);
                }
            }
        }
        let answer = self.real.truncate(who, slot, size);
        expect("ftruncate", &answer, errno)?;
        self.check(None).map(drop)
    }

    pub(super) fn fsync(&mut self, who: usize, slot: usize) -> Verdict {
        let Some(h) = self.handle(who, slot) else { return Ok(()) };
        if h.only_truncated && h.writes() && (!h.created || h.flags & libc::O_TRUNC != 0) {
            h.soil();
        }
        let plan = self.plan(who, slot);
        let answer = self.real.fsync(who, slot);
        self.committed(who, slot, plan, &answer, "fsync").map(drop)
    }

    pub(super) fn close(&mut self, who: usize, slot: usize) -> Verdict<bool> {
        let Some(h) = self.handle(who, slot) else { return Ok(false) };
        let (doc, empties) = (h.doc, !h.created || h.flags & libc::O_TRUNC != 0);
        if h.only_truncated && h.writes() && empties && !h.appends() {
            self.refuse(who, None, doc, Vec::new());
        }
        let plan = self.plan(who, slot);
        let answer = self.real.close(who, slot);
        let done = self.committed(who, slot, plan, &answer, "close");
        self.actors[who].handles[slot] = None;
        done
    }

    /// Somebody looks for a file that is not there.
    pub(super) fn looks_for(&mut self, who: usize, doc: Doc) {
        let (process, version) = (self.process(who), self.docs[of(doc)].last());
        if self.docs[of(doc)].current().is_empty() {
            self.book(doc).absent(process, version);
        }
    }

    /// What a save by this actor looks for its base with.
    pub(super) fn question<'q>(&self, who: usize, written: &'q str) -> Question<'q> {
        let by = self.process(who);
        let draft = self.actors[who].draft.iter().filter(|d| d.generation == by.1);
        let beside = draft.map(|d| d.text.clone()).collect();
        Question { by, written, until: u64::MAX, removed: None, beside, own_only: false }
    }

    /// What a text that was written through this handle may have started from (section 4).
    fn bases(&self, who: usize, h: &Handle, written: &str) -> Vec<Choice> {
        let book = &self.books[of(h.doc)];
        let by = self.process(who);
        let texts = &self.docs[of(h.doc)].texts;
        // An edit in place patches a version, unless nothing is left of it.
        let start = h.start.filter(|_| h.anew < written.len());
        let start = start.map(|version| Seen::of(version, texts[version].clone()));
        let found = |seen: &Seen| {
            let uses = book.nearest_of(by, &seen.text, u64::MAX);
            Choice { seen: Some(seen.clone()), uses, by }
        };
        if let Some(base) = &h.base {
            let near = start.as_ref().map_or(base, |start| book.nearer(base, start, written));
            return vec![found(near)];
        }
        let question = Question { removed: h.removed.clone(), ..self.question(who, written) };
        let all = book.choices(&question);
        let Some(start) = start else { return all };
        let nearer = |choice: Choice| match &choice.seen {
            Some(met) if book.nearer(met, &start, written) == met => choice,
            _ => found(&start),
        };
        all.into_iter().map(nearer).collect()
    }

    fn plan(&self, who: usize, slot: usize) -> Plan {
        let Some(h) = &self.actors[who].handles[slot] else { return Plan::Nothing };
        match &h.buffer {
            _ if !h.dirty => Plan::Nothing,
            _ if h.refused => Plan::Sticky,
            Some(buffer) => match judge(h.doc, buffer) {
                Some(text) => Plan::Save(self.bases(who, h, &text), text),
                None => Plan::Refuse(buffer.clone()),
            },
            None => match String::from_utf8(h.fragment.clone()) {
                Ok(text) if !text.contains('\0') => Plan::Append(text),
                _ => Plan::Refuse(h.fragment.clone()),
            },
        }
    }

    /// Whether the save was acknowledged and has changed something.
    fn committed(
        &mut self,
        who: usize,
        slot: usize,
        plan: Plan,
        answer: &Answer<()>,
        call: &str,
    ) -> Verdict<bool> {
        let h = self.actors[who].handles[slot].as_mut().expect("an open handle");
        let (id, doc, base) = (h.id, h.doc, h.base.clone());
        match plan {
            Plan::Nothing => {
                expect(call, answer, 0)?;
                self.check(None)
            }
            Plan::Sticky => {
                expect(call, answer, libc::EIO)?;
                self.check(None)
            }
            Plan::Refuse(text) => {
                expect(call, answer, libc::EIO)?;
                h.refused = true;
                self.refuse(who, Some(id), doc, text);
                self.check(None)
            }
            Plan::Save(choices, text) => {
                expect(call, answer, 0)?;
                self.starts_from(doc, &choices);
                self.believes(self.process(who), doc, &text);
                self.actors[who].memory[of(doc)] = Some(text.clone());
                let what = What::Save(choices, text.clone());
                let changed =
                    self.saved(who, Some(id), Effect { doc, what, may: false, ino: None })?;
                let seen = Seen::of(self.docs[of(doc)].last(), text);
                if let Some(h) = self.handle(who, slot) {
                    h.clean(Some(seen));
                }
                Ok(changed)
            }
            Plan::Append(lines) => {
                expect(call, answer, 0)?;
                self.has_appended(self.process(who), doc, base.as_ref(), &lines);
                let what = What::Appends(vec![lines]);
                let changed =
                    self.saved(who, Some(id), Effect { doc, what, may: false, ino: None })?;
                let seen = self.books[of(doc)].newest_of(self.process(who)).cloned();
                if let Some(h) = self.handle(who, slot) {
                    h.clean(seen);
                }
                Ok(changed)
            }
        }
    }

    /// After a whole-file save the writer has seen what it wrote (section 4).
    pub(super) fn believes(&mut self, by: Process, doc: Doc, text: &str) {
        let seen = Seen { since: usize::MAX, ..Seen::of(usize::MAX, text.to_owned()) };
        self.book(doc).saved(by, seen, false);
    }

    /// After an append it has seen what it had seen before plus its own lines.
    pub(super) fn has_appended(&mut self, by: Process, doc: Doc, base: Option<&Seen>, lines: &str) {
        let book = &self.books[of(doc)];
        let own = book.newest_of(by);
        let met = match (base, own) {
            (Some(base), Some(own)) if base.version > own.version => Some(base),
            (base, own) => own.or(base),
        };
        let uses = met.and_then(|met| book.own(by, met));
        let current = met.is_some_and(|met| met.exact && met.text == self.docs[of(doc)].current());
        let others = if met == own { book.others_of(by) } else { Vec::new() };
        let with_lines = |text: &str| match doc {
            Doc::Missions => text::with_appended(text, lines),
            Doc::Config => {
                let mut keys = text::keys(text).unwrap_or_default();
                let number = |value: &str| value.parse::<u32>().ok();
                let new = lines.lines().filter_map(|l| l.split_once(": "));
                keys.extend(new.map(|(key, value)| (key.to_owned(), number(value).into())));
                text::dump(&keys)
            }
        };
        let since = met.map_or(usize::MAX, |met| met.since);
        let believed = |text: &str, since| Seen {
            version: usize::MAX,
            since,
            text: with_lines(text),
            exact: false,
        };
        let seen = believed(met.map_or("", |met| &met.text), since);
        let others: Vec<Seen> = others.iter().map(|s| believed(&s.text, s.since)).collect();
        let book = self.book(doc);
        book.use_up(uses, by);
        let doubtful = others.len();
        others.into_iter().for_each(|seen| book.saved(by, seen, false));
        book.saved(by, seen, current);
        if doubtful > 0 {
            book.either(doubtful + 1);
        }
    }
}
