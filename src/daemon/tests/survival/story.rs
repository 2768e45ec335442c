//! What a scenario saved, and whether it was told that it had.

use std::path::Path;

use super::World;
use super::world::Durable;
use crate::vfs::{Error, Result};

/// The names that are looked at, and the lines that are there before.
pub const BASE: [(&str, &[&str]); 6] = [
    ("missions.md", &["m-one.", "m-two.", "m-three."]),
    ("config.json", &["c-one.", "c-two."]),
    ("outbox.md", &["o-one.", "o-two."]),
    ("memory/notes.md", &["n-one.", "n-two."]),
    ("memory/long.md", &["l-one."]),
    ("plain.txt", &["p-one."]),
];

/// One line or key that was saved, or taken out.
#[derive(Debug, Clone)]
pub struct Step {
    pub file: &'static str,
    pub word: String,
    /// It was taken out.
    pub removed: bool,
    /// `None`: it was acknowledged.
    pub failed: Option<String>,
    /// It was acknowledged by an `fsync`.
    pub durable: bool,
    /// What had happened to the files by then, see [`mount_tests::calls::power::Journal::len`].
    pub ended: usize,
}

/// Asked for the number of events so far.
type Count = Box<dyn Fn() -> usize + Send>;

#[derive(Default)]
pub struct Story {
    pub steps: Vec<Step>,
    pub count: Option<Count>,
    /// Words that may be there or not.
    pub loose: Vec<String>,
}

impl Clone for Story {
    fn clone(&self) -> Story {
        Story { steps: self.steps.clone(), count: None, loose: self.loose.clone() }
    }
}

impl Story {
    fn now(&self) -> usize {
        self.count.as_ref().map_or(0, |count| count())
    }

    /// Does something that saves `word`.
    pub fn adds(
        &mut self,
        file: &'static str,
        word: &str,
        durable: Durable,
        work: impl FnOnce(&str) -> Result<()>,
    ) {
        self.step(file, word, false, durable, work);
    }

    /// Does something that takes `word` out.
    pub fn removes(
        &mut self,
        file: &'static str,
        word: &str,
        durable: Durable,
        work: impl FnOnce(&str) -> Result<()>,
    ) {
        self.step(file, word, true, durable, work);
    }

    fn step(
        &mut self,
        file: &'static str,
        word: &str,
        removed: bool,
        durable: Durable,
        work: impl FnOnce(&str) -> Result<()>,
    ) {
        let failed = work(word).err().map(|e| told(&e));
        let (ended, durable) = (self.now(), durable == Durable::Yes);
        let word = word.to_owned();
        self.steps.push(Step { file, word, removed, failed, durable, ended });
    }

    /// Everything is as it has to be when the first `acknowledged` steps were acknowledged as
    /// they say; later ones may have happened or not.
    pub fn check(&self, world: &World, acknowledged: usize, what: &str) {
        for (file, base) in BASE {
            let text = match world.read(900, file) {
                Ok(text) => text,
                Err(e) => panic!("{what}: {file} cannot be read: {e}"),
            };
            let words = words(&text);
            let count = |word: &str| words.iter().filter(|w| **w == word).count();
            let steps: Vec<(usize, &Step)> =
                self.steps.iter().enumerate().filter(|(_, s)| s.file == file).collect();
            for word in base {
                if steps.iter().any(|(_, s)| !s.removed && s.word == *word) {
                    continue;
                }
                let removal = steps.iter().find(|(_, s)| s.removed && s.word == *word);
                let there = count(word);
                match removal {
                    None => assert_eq!(there, 1, "{what}: {word} in {file}:\n{text}"),
                    Some((n, s)) if *n < acknowledged && s.failed.is_none() => {
                        assert_eq!(there, 0, "{what}: {word} was removed from {file}:\n{text}");
                    }
                    Some(_) => assert!(there <= 1, "{what}: {word} twice in {file}:\n{text}"),
                }
            }
            for (n, step) in steps.iter().filter(|(_, s)| !s.removed) {
                let there = count(&step.word);
                let known = *n < acknowledged && step.failed.is_none();
                let fits = if known { there == 1 } else { there <= 1 };
                assert!(fits, "{what}: {there} times in {file}: {step:?}:\n{text}");
            }
            for word in &words {
                let known = base.contains(word)
                    || steps.iter().any(|(_, s)| s.word == *word)
                    || self.loose.iter().any(|w| w == word);
                assert!(known, "{what}: nobody wrote {word:?} in {file}:\n{text}");
            }
        }
    }

    /// Whether the words of the steps from `durable` on are there in the order in which they were
    /// saved, without gaps in one file.
    pub fn check_order(&self, world: &World, what: &str) {
        for (file, _) in BASE {
            let text = world.read(901, file).unwrap();
            let words = words(&text);
            let mut missing: Option<&Step> = None;
            for step in self.steps.iter().filter(|s| s.file == file && s.failed.is_none()) {
                let done = words.contains(&&*step.word) != step.removed;
                match (done, missing) {
                    (true, Some(lost)) => {
                        panic!("{what}: {file} has {step:?} and not {lost:?}:\n{text}")
                    }
                    (false, None) => missing = Some(step),
                    _ => {}
                }
            }
        }
    }

    /// The next saves of every kind work, and are told of from now on.
    pub fn goes_on(&mut self, world: &World, acknowledged: usize, what: &str) {
        for step in self.steps.iter_mut().skip(acknowledged) {
            step.failed.get_or_insert_with(|| "nobody was told".to_owned());
        }
        let before = self.steps.len();
        self.adds("missions.md", &format!("m-next{before}."), Durable::No, |w| {
            world.append(
                910,
                "missions.md",
                &format!(
                    "- {w}
"
                ),
                Durable::No,
            )
        });
        self.adds("config.json", &format!("c-next{before}."), Durable::Yes, |w| {
            let text = world.read(911, "config.json")?;
            world.save(911, "config.json", &with_key(&text, w), Durable::Yes)
        });
        for (file, first) in [("outbox.md", 'o'), ("memory/notes.md", 'n'), ("memory/long.md", 'l')]
        {
            self.adds(file, &format!("{first}-next{before}."), Durable::No, |w| {
                world.append(
                    912,
                    file,
                    &format!(
                        "{w}
"
                    ),
                    Durable::No,
                )
            });
        }
        for step in &self.steps[before..] {
            assert_eq!(step.failed, None, "{what}: the next save: {step:?}");
        }
        self.check(world, self.steps.len(), what);
    }

    /// Whether a text that was not committed is kept for its writer: in a `.refused`, in a
    /// `.unsaved-` or in a temporary file.
    pub fn kept(dir: &Path, word: &str) -> bool {
        std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
            let name = entry.file_name().into_string().unwrap_or_default();
            let of_writer = [".refused", ".unsaved-", ".tmp"].iter().any(|e| name.contains(e));
            let whole = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
            if entry.file_type().is_ok_and(|t| t.is_dir()) && !name.starts_with('.') {
                return Story::kept(&entry.path(), word);
            }
            of_writer && whole(&entry.path()).contains(word)
        })
    }
}

/// What a program would be told, in words.
fn told(e: &Error) -> String {
    format!("{e} [{e:?}]")
}

/// The config with one more key.
pub fn with_key(text: &str, key: &str) -> String {
    let mut all: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
    all.insert(key.to_owned(), 1.into());
    serde_json::to_string_pretty(&all).unwrap() + "\n"
}

/// The words `x-….` of a text.
fn words(text: &str) -> Vec<&str> {
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.');
    let word = |w: &&str| w.len() > 2 && w.as_bytes()[1] == b'-';
    parts.filter(word).collect()
}
