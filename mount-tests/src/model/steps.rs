//! What each operation of a sequence does.

use super::base::Observations;
use super::edit;
use super::ops::{Doc, Edit, Edits, Mode, Op, SLOTS, Way, Wrong};
use super::oracle::{RowChange, Seen};
use super::real::Real;
use super::run::{Effect, Run, Verdict, What, expect, of};
use super::text;

/// The slot of operations that open and close a file.
pub(super) const OWN: usize = SLOTS;
pub(super) const CREATE: i32 = libc::O_WRONLY | libc::O_CREAT;

impl<R: Real> Run<R> {
    /// Does one operation.
    ///
    /// # Errors
    /// What is not as it must be.
    pub fn step(&mut self, op: &Op) -> Verdict {
        self.count.operations += 1;
        match op {
            Op::Open { who, slot, doc, mode } => self.open_slot(*who, *slot, *doc, *mode),
            Op::Read { who, slot, size } => self.read(*who, *slot, *size),
            Op::Rewind { who, slot } => {
                self.rewind(*who, *slot);
                Ok(())
            }
            Op::Write { who, slot, edits } => self.write_slot(*who, *slot, edits),
            Op::Patch { who, slot, at, number } => self.patch(*who, *slot, *at, *number),
            Op::Truncate { who, slot } => match self.handle(*who, *slot) {
                Some(h) if h.writes() && !h.appends() => self.truncate(*who, *slot, 0),
                _ => Ok(()),
            },
            Op::Spoil { who, slot, wrong } => self.spoil(*who, *slot, *wrong),
            Op::Fsync { who, slot } => self.fsync(*who, *slot),
            Op::Close { who, slot } => self.close(*who, *slot).map(drop),
            Op::Stat { who, doc } => self.stat(*who, *doc),
            Op::Look { who, doc } => {
                if self.open(*who, OWN, *doc, doc.name(), libc::O_RDONLY)? {
                    self.read_all(*who, OWN)?;
                    self.close(*who, OWN)?;
                }
                Ok(())
            }
            Op::Save { who, doc, way, edits } => self.save(*who, *doc, *way, edits),
            Op::Bad { who, doc, way, wrong } => self.bad(*who, *doc, *way, *wrong),
            Op::Append { who, doc, edits } => self.append(*who, *doc, edits),
            Op::Draft { who, doc, edits } => {
                let text = self.text(*who, *doc, edits);
                self.draft(*who, *doc, &text)
            }
            Op::Publish { who, by } => self.publish(*who, *by).map(drop),
            Op::Unlink { who, doc } => self.unlink(*who, *doc),
            Op::Exit { who } => self.exit(*who),
            Op::Kill { who } => self.kill(*who),
            Op::Sql { edit } => self.sql(*edit),
            Op::Command { number, at } => self.command(*number, *at),
            Op::Rest => self.rest(),
            Op::Remount => self.remount(),
            Op::Term => self.term(),
            Op::Crash => {
                self.real.crash();
                self.crashed();
                self.check(None).map(drop)
            }
            Op::CrashIn { who, doc, way, edits, after } => {
                self.crash_in(*who, *doc, *way, edits, *after)
            }
        }
    }

    /// The text that a program saves: what it has in memory, edited.
    pub(super) fn text(&self, who: usize, doc: Doc, edits: &Edits) -> String {
        let memory = self.actors[who].memory[of(doc)].clone();
        edit::make(doc, &memory.unwrap_or_else(|| edit::blank_sheet(doc)), &edits.0)
    }

    fn open_slot(&mut self, who: usize, slot: usize, doc: Doc, mode: Mode) -> Verdict {
        self.close(who, slot)?;
        if (doc, mode) == (Doc::Config, Mode::Append) {
            return Ok(());
        }
        let flags = match mode {
            Mode::Read => libc::O_RDONLY,
            Mode::Both => libc::O_RDWR,
            Mode::Truncate => CREATE | libc::O_TRUNC,
            Mode::Append => CREATE | libc::O_APPEND,
        };
        if mode == Mode::Append && self.shown(who, doc) != Some(true) {
            return Ok(());
        }
        self.open(who, slot, doc, doc.name(), flags).map(drop)
    }

    fn read_all(&mut self, who: usize, slot: usize) -> Verdict {
        self.rewind(who, slot);
        while self.handle(who, slot).is_some_and(|h| !h.complete && h.own_text().is_none()) {
            self.read(who, slot, 1 << 16)?;
        }
        Ok(())
    }

    /// Writes a whole text over whatever the handle holds.
    fn overwrite(&mut self, who: usize, slot: usize, text: &[u8]) -> Verdict {
        let empty = self.handle(who, slot).is_some_and(|h| h.only_truncated);
        if !text.is_empty() {
            // In two pieces: what is there in between is nobody's business.
            let (a, b) = text.split_at(text.len() / 3);
            self.write(who, slot, 0, a)?;
            self.write(who, slot, a.len() as u64, b)?;
        }
        if empty && !text.is_empty() {
            return Ok(());
        }
        self.truncate(who, slot, text.len() as u64)
    }

    fn write_slot(&mut self, who: usize, slot: usize, edits: &Edits) -> Verdict {
        let Some(h) = self.handle(who, slot).filter(|h| h.writes()) else { return Ok(()) };
        let (doc, appends) = (h.doc, h.appends());
        let read = h.complete.then(|| String::from_utf8_lossy(&h.got).into_owned());
        if appends {
            let lines = edit::appended(doc, &edits.0, None, false);
            if lines.is_empty() {
                return Ok(());
            }
            self.write(who, slot, 0, lines.as_bytes())?;
            return self.rests(who, slot);
        }
        if let Some(read) = read {
            self.actors[who].memory[of(doc)] = Some(read);
        }
        let text = self.text(who, doc, edits);
        self.overwrite(who, slot, text.as_bytes())
    }

    /// Where time does not stand still an append that is left alone is committed by and by.
    fn rests(&mut self, who: usize, slot: usize) -> Verdict {
        if self.real.exact() {
            return Ok(());
        }
        self.appends_rest(&[(who, slot)])
    }

    /// These handles have been left alone for long enough: their whole lines are committed.
    pub(super) fn appends_rest(&mut self, handles: &[(usize, usize)]) -> Verdict {
        let doc = Doc::Missions;
        let before = self.docs[of(doc)].current().to_owned();
        let mut all = Vec::new();
        for (who, slot) in handles {
            let h = self.handle(*who, *slot).expect("an append handle");
            let (id, bytes) = (h.id, h.fragment.clone());
            if bytes.contains(&0) {
                h.refused = true;
                self.refuse(*who, Some(id), doc, bytes);
            } else {
                all.push((*who, *slot, String::from_utf8(bytes).map_err(|e| e.to_string())?));
            }
        }
        if all.is_empty() {
            self.kept_at_rest();
            return self.check(None).map(drop);
        }
        let start = std::time::Instant::now();
        let there =
            |r: &mut Self| r.real.observe(doc).is_some_and(|(now, _)| now != before.as_bytes());
        while !self.real.exact() && start.elapsed() < crate::ARRIVES && !there(self) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        all.iter().for_each(|(who, ..)| self.forgive(*who, doc));
        for (who, slot, lines) in &all {
            let base = self.handle(*who, *slot).and_then(|h| h.base.clone());
            self.has_appended(self.process(*who), doc, base.as_ref(), lines);
        }
        self.kept_at_rest();
        let lines = all.iter().map(|(.., lines)| lines.clone()).collect();
        self.check(Some(Effect { doc, what: What::Appends(lines), may: false, ino: None }))?;
        self.docs[of(doc)].unseen += all.len() - 1;
        for (who, slot, _) in all {
            let seen = self.books[of(doc)].newest_of(self.process(who)).cloned();
            if let Some(h) = self.handle(who, slot) {
                h.clean(seen);
            }
        }
        Ok(())
    }

    /// Where time stands still what is known is put on record when it goes on, and only then.
    fn kept_at_rest(&mut self) {
        if self.real.exact() {
            self.books.iter_mut().for_each(Observations::keep);
        }
    }

    /// The append handles with something in them that a rest commits.
    pub(super) fn resting(&self) -> Vec<(usize, usize)> {
        let all = (0..self.actors.len()).flat_map(|who| (0..SLOTS).map(move |slot| (who, slot)));
        all.filter(|(who, slot)| {
            let h = self.actors[*who].handles[*slot].as_ref();
            h.is_some_and(|h| h.appends() && h.dirty && !h.refused)
        })
        .collect()
    }

    fn patch(&mut self, who: usize, slot: usize, at: usize, number: u32) -> Verdict {
        let missions = self.docs[of(Doc::Missions)].texts.clone();
        let current = self.docs[of(Doc::Missions)].last();
        let Some(h) = self.handle(who, slot) else { return Ok(()) };
        let in_place = h.doc == Doc::Missions && h.reads() && h.writes() && !h.only_truncated;
        if !in_place {
            return Ok(());
        }
        let text = match &h.buffer {
            Some(own) => String::from_utf8_lossy(own).into_owned(),
            None => missions[h.reading.unwrap_or(current)].clone(),
        };
        let starts: Vec<usize> = text.match_indices("\n- m").map(|(at, _)| at + 3).collect();
        if starts.is_empty() {
            return Ok(());
        }
        let start = starts[at % starts.len()];
        let Some(blank) = text[start..].find(' ') else { return Ok(()) };
        let word = &text::mission(number)[text::mission(number).len() - 6..];
        self.write(who, slot, (start + blank + 1) as u64, word.as_bytes())
    }

    fn wrong(&self, who: usize, doc: Doc, wrong: Wrong) -> Vec<u8> {
        match (wrong, doc) {
            (Wrong::Empty, _) => Vec::new(),
            (Wrong::Blank, _) => b"\n  \n".to_vec(),
            (Wrong::Broken, Doc::Missions) => {
                [self.text(who, doc, &Edits::default()).as_bytes(), b"\0\n"].concat()
            }
            (Wrong::Broken, Doc::Config) => b"{\n  \"k1\": ,\n}\n".to_vec(),
        }
    }

    fn spoil(&mut self, who: usize, slot: usize, wrong: Wrong) -> Verdict {
        let Some(h) = self.handle(who, slot).filter(|h| h.writes()) else { return Ok(()) };
        let (doc, appends) = (h.doc, h.appends());
        if appends {
            self.write(who, slot, 0, b"- x\0\n")?;
            return self.rests(who, slot);
        }
        let text = self.wrong(who, doc, wrong);
        self.overwrite(who, slot, &text)
    }

    fn stat(&mut self, who: usize, doc: Doc) -> Verdict {
        let Some(shown) = self.shown(who, doc) else { return Ok(()) };
        self.looks_for(who, doc);
        let answer = self.real.stat(who, doc.name());
        expect("stat", &answer, if shown { 0 } else { libc::ENOENT })?;
        let Ok(stat) = answer else { return Ok(()) };
        let docs = &self.docs[of(doc)];
        let (current, last) = (docs.current().len() as u64, docs.last());
        let mut own = Vec::new();
        for h in self.actors[who].handles.iter_mut().flatten().filter(|h| h.doc == doc) {
            if h.dirty && h.touched {
                own.push(
                    h.buffer.as_ref().map_or(current + h.fragment.len() as u64, |b| b.len() as u64),
                );
            } else if h.reads() && !h.dirty {
                h.told = Some(last);
            }
        }
        let right = if own.is_empty() { stat.size == current } else { own.contains(&stat.size) };
        match right {
            true => Ok(()),
            false => Err(format!(
                "stat tells a size of {}, not {current} or one of {own:?} (R1)",
                stat.size
            )),
        }
    }

    /// Saves whatever the program has in memory. Knows how each way goes when the name is not there.
    fn save(&mut self, who: usize, doc: Doc, way: Way, edits: &Edits) -> Verdict {
        let Some(shown) = self.shown(who, doc) else { return Ok(()) };
        match way {
            Way::Keep if shown => {
                if !self.open(who, OWN, doc, doc.name(), libc::O_RDWR)? {
                    return Ok(());
                }
                self.read_all(who, OWN)?;
                let text = self.text(who, doc, edits);
                self.overwrite(who, OWN, text.as_bytes())?;
                self.close(who, OWN).map(drop)
            }
            Way::Rename => {
                let text = self.text(who, doc, edits);
                self.draft(who, doc, &text)?;
                self.publish(who, who).map(drop)
            }
            way => {
                let text = self.text(who, doc, edits);
                self.put(who, doc, way, text.as_bytes())
            }
        }
    }

    /// Writes a text under the name.
    fn put(&mut self, who: usize, doc: Doc, way: Way, text: &[u8]) -> Verdict {
        let Some(shown) = self.shown(who, doc) else { return Ok(()) };
        let backup = format!("{}~", doc.name());
        let flags = match way {
            Way::Truncate => CREATE | libc::O_TRUNC,
            Way::Unlink => {
                self.unlink(who, doc)?;
                CREATE | libc::O_EXCL
            }
            Way::Backup if shown => {
                let answer = self.real.rename(who, doc.name(), &backup);
                expect("rename away", &answer, 0)?;
                self.removes(who, doc);
                self.check(None)?;
                CREATE
            }
            Way::Keep if shown => libc::O_RDWR,
            _ => CREATE,
        };
        if !self.open(who, OWN, doc, doc.name(), flags)? {
            return Ok(());
        }
        if !(text.is_empty() && self.handle(who, OWN).is_some_and(|h| h.only_truncated)) {
            self.overwrite(who, OWN, text)?;
        }
        if way == Way::Backup {
            self.fsync(who, OWN)?;
        }
        self.close(who, OWN)?;
        if way == Way::Backup && shown {
            expect("unlink of the backup", &self.real.unlink(who, &backup), 0)?;
            self.check(None)?;
        }
        Ok(())
    }

    fn bad(&mut self, who: usize, doc: Doc, way: Way, wrong: Wrong) -> Verdict {
        let text = self.wrong(who, doc, wrong);
        match way {
            Way::Rename => {
                let text = String::from_utf8(text).map_err(|e| e.to_string())?;
                self.draft(who, doc, &text)?;
                self.publish(who, who).map(drop)
            }
            way => self.put(who, doc, way, &text),
        }
    }

    fn append(&mut self, who: usize, doc: Doc, edits: &Edits) -> Verdict {
        let known = text::parse(self.docs[of(Doc::Missions)].current())?.items;
        let known = known.first().map(|item| item.text.clone());
        let lines = edit::appended(doc, &edits.0, known.as_deref(), true);
        let there = match doc {
            Doc::Missions => self.shown(who, doc) == Some(true),
            Doc::Config => !self.docs[of(doc)].current().is_empty(),
        };
        if lines.is_empty() || !there {
            return Ok(());
        }
        let name = match doc {
            Doc::Missions => doc.name(),
            Doc::Config => "config.yaml",
        };
        self.open(who, OWN, doc, name, CREATE | libc::O_APPEND)?;
        self.write(who, OWN, 0, lines.as_bytes())?;
        self.close(who, OWN).map(drop)
    }

    fn unlink(&mut self, who: usize, doc: Doc) -> Verdict {
        let Some(shown) = self.shown(who, doc) else { return Ok(()) };
        let answer = self.real.unlink(who, doc.name());
        expect("unlink", &answer, if shown { 0 } else { libc::ENOENT })?;
        if shown {
            self.removes(who, doc);
        }
        self.check(None).map(drop)
    }

    fn removes(&mut self, who: usize, doc: Doc) {
        let docs = &self.docs[of(doc)];
        let there = Seen::of(docs.last(), docs.current().to_owned());
        self.actors[who].removed[of(doc)] = Some((self.real.now(), there));
    }

    fn sql(&mut self, change: Edit) -> Verdict {
        let items = text::parse(self.docs[of(Doc::Missions)].current())?.items;
        let single: Vec<_> = items
            .iter()
            .filter(|i| items.iter().filter(|j| j.number == i.number).count() == 1)
            .collect();
        let nth = |at: usize| (!single.is_empty()).then(|| single[at % single.len()]);
        let row = |text: &str| format!("WHERE text = '{text}'");
        let (row, statement) = match change {
            Edit::Add { number, .. } => {
                let text = text::mission(number);
                let next = "(SELECT coalesce(max(sequence), 0) + 1 FROM missions)";
                let statement = format!(
                    "INSERT INTO missions (text, state, sequence) VALUES ('{text}', 'pending', {next})"
                );
                (RowChange { number, now: Some((Some(text), Some(0))) }, statement)
            }
            Edit::Alter { number, at } => {
                let Some(item) = nth(at) else { return Ok(()) };
                let text = text::edited(&item.text, number);
                let statement = format!("UPDATE missions SET text = '{text}' {}", row(&item.text));
                (RowChange { number: item.number, now: Some((Some(text), None)) }, statement)
            }
            Edit::Drop { at } => {
                let Some(item) = nth(at) else { return Ok(()) };
                let statement = format!("DELETE FROM missions {}", row(&item.text));
                (RowChange { number: item.number, now: None }, statement)
            }
            Edit::Move { at, section, .. } => {
                let Some(item) = nth(at) else { return Ok(()) };
                let state = text::SECTIONS[section % 4].1;
                let statement =
                    format!("UPDATE missions SET state = '{state}' {}", row(&item.text));
                (RowChange { number: item.number, now: Some((None, Some(section % 4))) }, statement)
            }
            Edit::Note { at, .. } => {
                let Some(item) = nth(at) else { return Ok(()) };
                let first = "(SELECT min(sequence) - 1 FROM missions)";
                let statement =
                    format!("UPDATE missions SET sequence = {first} {}", row(&item.text));
                (RowChange { number: item.number, now: Some((None, None)) }, statement)
            }
            Edit::Unnote { .. } => return Ok(()),
        };
        self.count.rows += 1;
        self.real.sql(&statement);
        let doc = Doc::Missions;
        if self.check(Some(Effect { doc, what: What::Row(row), may: false, ino: None }))? {
            let version = self.docs[of(doc)].last();
            self.docs[of(doc)].by_rows.push(version);
        }
        Ok(())
    }

    fn command(&mut self, number: u32, at: usize) -> Verdict {
        let doc = Doc::Config;
        if self.docs[of(doc)].current().is_empty() {
            return Ok(());
        }
        self.real.command(&format!("k{at}"), number);
        let what = What::Key(format!("k{at}: {number}\n"));
        self.check(Some(Effect { doc, what, may: false, ino: None })).map(drop)
    }
}
