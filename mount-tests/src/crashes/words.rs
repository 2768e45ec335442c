//! Which words were saved, and whether they are there.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// What is known of a word.
#[derive(Debug, Clone, Copy, Default)]
struct Word {
    /// When it was acknowledged, in nanoseconds of the monotonic clock.
    acknowledged: Option<u64>,
    /// When by an `fsync`.
    synced: Option<u64>,
}

/// All words of an instance.
#[derive(Debug, Default)]
pub struct Words {
    all: HashMap<String, Word>,
    /// How far each log has been read.
    read: HashMap<String, usize>,
}

/// The monotonic clock, in nanoseconds.
pub fn now() -> u64 {
    // SAFETY: the call fills a structure of its own size.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// The files that words are saved in, by a word's first letter.
const FILES: [(char, &str); 4] =
    [('m', "missions.md"), ('c', "config.json"), ('o', "outbox.md"), ('n', "memory/notes.md")];

impl Words {
    /// A save of it was begun.
    pub fn tried(&mut self, word: &str) {
        self.all.entry(word.to_owned()).or_default();
    }

    /// Its save was acknowledged.
    pub fn acknowledge(&mut self, word: &str) {
        self.all.entry(word.to_owned()).or_default().acknowledged = Some(now());
    }

    /// How many saves were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.all.values().filter(|w| w.acknowledged.is_some()).count() as u64
    }

    /// Reads what the workers' logs in a directory say more; how many lines.
    pub fn read(&mut self, dir: &Path) -> usize {
        let mut lines = 0;
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with("words-") {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let done = self.read.entry(name).or_default();
            // The last line may be on its way.
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            for line in text.get(*done..whole).unwrap_or_default().lines() {
                lines += 1;
                let mut parts = line.split(' ');
                let (Some(what), Some(time), Some(word)) =
                    (parts.next(), parts.next(), parts.next())
                else {
                    continue;
                };
                let word = self.all.entry(word.to_owned()).or_default();
                let time = time.parse().ok();
                match what {
                    "a" => word.acknowledged = time,
                    "f" => (word.acknowledged, word.synced) = (time, time),
                    _ => {}
                }
            }
            *done = whole.max(*done);
        }
        lines
    }

    /// Every acknowledged word is there once, in a store whose power went at a time (`u64::MAX`:
    /// it did not) those that were synced by then; others are there once or not at all, and
    /// nothing that nobody wrote. The database is sound.
    pub fn check(&self, mount: &Path, store: &Path, power: u64) -> Result<(), String> {
        let mut there: HashMap<String, usize> = HashMap::new();
        for (letter, file) in FILES {
            let text =
                std::fs::read_to_string(mount.join(file)).map_err(|e| format!("{file}: {e}"))?;
            let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.');
            for word in parts.filter(|w| w.starts_with(letter) && w.contains('-')) {
                *there.entry(word.to_owned()).or_default() += 1;
            }
        }
        let mut wrong = Vec::new();
        for (word, known) in &self.all {
            let count = there.get(word).copied().unwrap_or(0);
            let promised = match power {
                u64::MAX => known.acknowledged.is_some(),
                time => known.synced.is_some_and(|synced| synced < time),
            };
            if count > 1 || (promised && count != 1) {
                wrong.push(format!("{word} is there {count} times ({known:?}, power {power})"));
            }
        }
        let unknown = there.keys().filter(|word| !self.all.contains_key(*word));
        wrong.extend(unknown.map(|word| format!("nobody wrote {word:?}")));
        let sound = || -> rusqlite::Result<String> {
            let db = rusqlite::Connection::open(store.join("missions.db"))?;
            db.busy_timeout(Duration::from_secs(10))?;
            db.query_row("pragma integrity_check", [], |row| row.get(0))
        };
        match sound() {
            Ok(answer) if answer == "ok" => {}
            other => wrong.push(format!("integrity check: {other:?}")),
        }
        wrong.truncate(20);
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}
