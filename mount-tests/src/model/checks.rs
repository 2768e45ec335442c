//! What everybody must find after every call, and at the end.

use super::ops::{Doc, SLOTS};
use super::oracle::{self, Save};
use super::real::Real;
use super::run::{Count, Effect, Run, Verdict, What, of};
use super::state::{Refused, Versions};
use super::text;

/// Ends the lines on top of a `.refused`.
const LAST_LINE: &[u8] = b"the refused text follows this line";

impl<R: Real> Run<R> {
    /// Nothing may be other than the effect has made it; whether that was anything.
    pub(super) fn check(&mut self, effect: Option<Effect>) -> Verdict<bool> {
        let mut changed = false;
        for doc in Doc::ALL {
            let own = effect.as_ref().filter(|e| e.doc == doc);
            changed |=
                self.check_text(doc, own).map_err(|what| format!("{}: {what}", doc.name()))?;
        }
        self.check_rows()?;
        self.check_kept()?;
        Ok(changed)
    }

    fn check_text(&mut self, doc: Doc, effect: Option<&Effect>) -> Verdict<bool> {
        let observed = self.observe(doc);
        let docs = &mut self.docs[of(doc)];
        let (text, stat) = match observed {
            Some((text, stat)) => (text, Some(stat)),
            None => (Vec::new(), None),
        };
        let text = String::from_utf8(text).map_err(|e| e.to_string())?;
        let before = docs.current();
        let changed = text != before;
        if let Some(effect) = effect.filter(|e| changed || !e.may) {
            allowed(docs, effect, &text)?;
        } else if changed {
            return Err(format!("nobody has saved, but\n{before}\nhas become\n{text}"));
        }
        if let Some(stat) = stat {
            if stat.size != text.len() as u64 {
                return Err(format!(
                    "st_size is {}, there are {} bytes (R1)",
                    stat.size,
                    text.len()
                ));
            }
            let renamed = effect.and_then(|e| e.ino);
            if let Some((mtime, ino)) = docs.told {
                if changed && stat.mtime <= mtime {
                    return Err(format!(
                        "a new version has the time {} after {mtime} (R1)",
                        stat.mtime
                    ));
                }
                if !changed && stat.mtime != mtime {
                    return Err(format!(
                        "the time moved to {} from {mtime} without a change (R1)",
                        stat.mtime
                    ));
                }
                if stat.ino != renamed.unwrap_or(ino) {
                    return Err(format!(
                        "the inode number is {}, not {} (R1)",
                        stat.ino,
                        renamed.unwrap_or(ino)
                    ));
                }
            }
            docs.told = Some((stat.mtime, stat.ino));
        } else if docs.told.is_some() {
            return Err("the file is gone".to_owned());
        }
        if changed {
            self.count.saves += 1;
            docs.texts.push(text);
        }
        self.books[of(doc)].settle(docs.last(), docs.current());
        Ok(changed)
    }

    /// R9: the rows say the same as the text, Pending in the same order.
    fn check_rows(&mut self) -> Verdict {
        let items = text::parse(self.docs[of(Doc::Missions)].current())?.items;
        let mut shown: Vec<(String, String)> =
            items.into_iter().map(|i| (i.text, text::SECTIONS[i.section].1.to_owned())).collect();
        let mut rows = self.real.rows();
        let queue = |all: &[(String, String)]| -> Vec<String> {
            all.iter()
                .filter(|(_, state)| state == "pending")
                .map(|(text, _)| text.clone())
                .collect()
        };
        let (there, wanted) = (queue(&rows), queue(&shown));
        rows.sort();
        shown.sort();
        match rows == shown && there == wanted {
            true => Ok(()),
            false => Err(format!(
                "the rows are {rows:?}\nand the text has {shown:?} (R9)\nqueues {there:?}\n{wanted:?}"
            )),
        }
    }

    /// R7: exactly the refused texts are kept, and those that were not saved.
    fn check_kept(&mut self) -> Verdict {
        let mut wanted: Vec<(Doc, Vec<u8>)> = Vec::new();
        let mut once: Vec<&Refused> = Vec::new();
        for refused in &self.refused {
            let same = |r: &&&Refused| {
                (r.who, r.generation, r.doc, &r.text)
                    == (refused.who, refused.generation, refused.doc, &refused.text)
            };
            // The same text by the same program is kept once.
            if refused.stays || !once.iter().any(|r| same(&r)) {
                wanted.push((refused.doc, refused.text.clone()));
            }
            if !refused.stays {
                once.push(refused);
            }
        }
        wanted.extend(self.unsaved.iter().cloned());
        wanted.sort_by(|a, b| (of(a.0), &a.1).cmp(&(of(b.0), &b.1)));
        let start = std::time::Instant::now();
        loop {
            let there = self.kept()?;
            if there == wanted {
                return Ok(());
            }
            // The last close of a file arrives a moment after its `close` has returned.
            if self.real.exact() || start.elapsed() > crate::ARRIVES {
                let show = |all: &[(Doc, Vec<u8>)]| -> Vec<String> {
                    all.iter()
                        .map(|(d, t)| format!("{d:?}: {:?}", String::from_utf8_lossy(t)))
                        .collect()
                };
                return Err(format!(
                    "kept should be {:#?}\nbut there are {:#?} (R7)",
                    show(&wanted),
                    show(&there)
                ));
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// The texts that are kept, sorted.
    pub(super) fn kept(&mut self) -> Verdict<Vec<(Doc, Vec<u8>)>> {
        let mut there = Vec::new();
        for (name, content) in self.real.kept() {
            let doc = Doc::ALL.into_iter().find(|d| name.starts_with(d.name()));
            let doc = doc.ok_or_else(|| format!("whose is {name}?"))?;
            let text = if name.contains(".refused") { refused_text(&content) } else { content };
            there.push((doc, text));
        }
        there.sort_by(|a, b| (of(a.0), &a.1).cmp(&(of(b.0), &b.1)));
        Ok(there)
    }

    /// The end of a sequence.
    ///
    /// # Errors
    /// What is not as it must be.
    pub fn end(mut self) -> Verdict<Count> {
        self.check_history()?;
        self.count.sequences += 1;
        Ok(self.count)
    }

    /// At the end: the history has every version, in order, byte for byte (R4).
    fn check_history(&mut self) -> Verdict {
        for doc in Doc::ALL {
            // A change of columns that no text shows is a revision, too.
            let mut history = self.real.history(doc);
            history.dedup();
            let docs = &self.docs[of(doc)];
            let mut rest = history.iter();
            for (version, text) in docs.texts.iter().enumerate().skip(1) {
                let mut later = rest.clone();
                if later.any(|there| there == text.as_bytes()) {
                    rest = later;
                } else if !docs.unrecorded.contains(&version) {
                    return Err(format!(
                        "{}: version {version} is not in the history:\n{text}",
                        doc.name()
                    ));
                }
            }
            let most = docs.texts.len() - 1 + docs.unseen;
            if history.len() > most {
                return Err(format!(
                    "{}: {} versions, {} revisions",
                    doc.name(),
                    most,
                    history.len()
                ));
            }
        }
        Ok(())
    }

    /// The slots of an actor that are open.
    pub(super) fn open_slots(&self, who: usize) -> Vec<usize> {
        (0..=SLOTS).filter(|slot| self.actors[who].handles[*slot].is_some()).collect()
    }
}

/// Whether the effect may have made this of the current version.
fn allowed(docs: &Versions, effect: &Effect, next: &str) -> Verdict {
    let current = docs.current();
    match &effect.what {
        What::Save(possible, written) => {
            let mut first = Ok(());
            for seen in possible.iter().map(|choice| &choice.seen) {
                let from = seen.as_ref().map_or(docs.last(), |s| s.version);
                let since = seen.as_ref().map_or(from, |s| s.since);
                let (seen, between) = (seen.as_ref(), &docs.texts[since..]);
                let rows_changed = docs.by_rows.iter().any(|version| *version > from);
                let doc = effect.doc;
                let save = Save { doc, seen, written, current, between, rows_changed };
                match (save.allows(next), &first) {
                    (Ok(()), _) => return Ok(()),
                    (Err(what), Ok(())) => {
                        let seen = seen.map(|s| &s.text);
                        first = Err(format!(
                            "{what}\nseen: {seen:?}\nwritten: {written:?}\nbefore: {current:?}\nnow: {next:?}"
                        ));
                    }
                    (Err(_), Err(_)) => {}
                }
            }
            first
        }
        What::Appends(all) => oracle::appended(effect.doc, all, current, next),
        What::Row(row) => row.allows(current, next),
        What::Key(line) => oracle::appended(effect.doc, std::slice::from_ref(line), current, next),
        What::Nothing => match next == current {
            true => Ok(()),
            false => Err(format!("nothing was changed, but\n{current}\nhas become\n{next}")),
        },
    }
}

/// The text below the lines on top of a `.refused`.
fn refused_text(content: &[u8]) -> Vec<u8> {
    let at = content.windows(LAST_LINE.len()).position(|w| w == LAST_LINE);
    let Some(at) = at else { return content.to_vec() };
    let line = content[at..].iter().position(|b| *b == b'\n').map_or(content.len(), |n| at + n + 1);
    content[line..].to_vec()
}
