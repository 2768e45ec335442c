//! One program of the matrix on a real mount.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mount_tests::Instance;
use mount_tests::programs::table::{Outcome, Row};
use mount_tests::programs::{
    Broken, Doc, Job, Kind, Meanwhile, Place, Program, Style, by_id, same_json,
};
use rusqlite::OpenFlags;

use crate::disk::Disk;

/// The most that all saves of one program may take on a busy machine.
const ROW_LIMIT: Duration = Duration::from_secs(300);

/// One mount with documents, and one program that works in it.
struct Bench {
    it: Instance,
    place: Place,
    program: Program,
    names: Vec<String>,
    number: u32,
}

/// All saves of one program, good and bad.
pub fn row(id: &str) {
    let program = by_id(id);
    let mut row = Row::new(&program);
    let mut failed = Vec::new();
    // The two names of the config are one text: each needs a store that was made from it.
    for docs in [&[Doc::Missions, Doc::Json][..], &[Doc::Yaml][..]] {
        let docs: Vec<Doc> =
            docs.iter().copied().filter(|doc| program.docs.contains(doc)).collect();
        if docs.is_empty() {
            continue;
        }
        let mut bench = Bench::new(program, &docs);
        for &doc in &docs {
            // One document's failure hides no other's.
            let checks = catch_unwind(AssertUnwindSafe(|| bench.all(doc)));
            match checks {
                Ok(outcome) => row.outcomes.extend(outcome),
                Err(_) => {
                    failed.push(doc.name());
                    bench.take_left();
                }
            }
        }
    }
    assert!(failed.is_empty(), "{id}: {failed:?}, see above");
    row.leave();
}

impl Bench {
    fn new(program: Program, docs: &[Doc]) -> Bench {
        let builder = Instance::builder().watchdog(ROW_LIMIT);
        let it = docs.iter().fold(builder, |b, doc| b.file(doc.name(), doc.text())).start();
        let place = Place::new(it.actor(), &it.mount_point(), &it.scratch(""));
        let names = it.names(".");
        Bench { it, place, program, names, number: 0 }
    }

    fn all(&mut self, doc: Doc) -> Option<Outcome> {
        for &kind in self.program.kinds {
            self.alone(doc, kind);
        }
        if self.program.meanwhile != Meanwhile::Blind {
            self.shorten(doc);
            self.renew(doc);
            for &kind in self.program.kinds {
                self.meanwhile(doc, kind);
            }
        }
        (self.program.broken != Broken::Never).then(|| self.invalid(doc))
    }

    fn job(&mut self, doc: Doc, kind: Kind, text: &str) -> Job {
        self.number += 1;
        Job::new(&self.program, doc, kind, text, self.number)
    }

    /// Makes room for one more round of edits by programs that cannot shorten a file.
    fn shorten(&self, doc: Doc) {
        let text = self.it.read(doc.name());
        let (from, to) = doc.way_back(&text);
        if from != to {
            self.it.edit(doc.name(), from, to);
        }
    }

    /// Makes the document one that it has never been, so that no edit brings an old version back:
    /// whoever removes a file and puts an old version there means that no other change stays.
    fn renew(&self, doc: Doc) {
        let (text, sign) = doc.stranger(&self.it.read(doc.name()), 0);
        self.change(doc, &text, &sign);
    }

    /// Somebody else's change, after which the document is `text`.
    fn change(&self, doc: Doc, text: &str, sign: &str) {
        match doc {
            Doc::Json => {
                let tail = text.trim_end().lines().rev().nth(1).unwrap_or_default();
                self.it.edit(doc.name(), "\n}\n", &format!(",\n{tail}\n}}\n"));
            }
            Doc::Missions | Doc::Yaml => self.it.append(doc.name(), sign),
        }
        assert_eq!(self.it.read(doc.name()), text, "the other change itself");
    }

    fn revisions(&self, doc: Doc) -> u32 {
        let path = self.it.store().join("missions.db");
        let db = rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .expect("database");
        db.busy_timeout(Duration::from_secs(10)).expect("busy timeout");
        let count = "select count(*) from ifs_revisions where doc = ?1";
        db.query_row(count, [doc.table_name()], |row| row.get(0)).expect("count")
    }

    /// Names that the save has left behind.
    fn left(&self) -> Vec<String> {
        let mut names = self.it.names(".");
        names.retain(|name| !self.names.contains(name));
        names
    }

    fn remove(&self, names: &[String]) {
        for name in names {
            self.it.actor().run("rm", &["-rf", "--", name]).ok();
        }
    }

    fn take_left(&self) -> Vec<String> {
        let left = self.left();
        self.remove(&left);
        left
    }

    fn backup(&self, doc: Doc) -> Option<String> {
        self.program.backup.map(|name| name.replacen('T', doc.name(), 1))
    }

    fn what(&self, doc: Doc, kind: Kind) -> String {
        format!("{}, {}, {}", self.program.title, doc.name(), kind.name())
    }

    /// A save that nobody disturbs: the bytes of the program, one revision, nothing left.
    fn alone(&mut self, doc: Doc, kind: Kind) {
        let what = self.what(doc, kind);
        let before = self.it.read(doc.name());
        let revisions = self.revisions(doc);
        let job = self.job(doc, kind, &before);
        let saved = self.place.save(&self.program, &job, || {});
        assert_eq!(saved.code, 0, "{what}: {}", saved.all);
        let after = self.it.read(doc.name());
        let wanted = if self.program.style == Style::Json && self.program.on_disk {
            Disk::new().save(&self.program, &job, &before)
        } else {
            self.program.after(&before, &job)
        };
        if self.program.style == Style::Json && !self.program.on_disk {
            assert!(same_json(&after, &wanted), "{what}\n{after}");
        } else {
            assert!(after == wanted, "{what}\n{}", difference(&wanted, &after));
        }
        assert_eq!(self.revisions(doc), revisions + 1, "revisions by {what}");
        assert_eq!(self.take_left(), Vec::from_iter(self.backup(doc)), "left behind by {what}");
    }

    /// A save during which somebody else changes the document between the program's read and
    /// its write.
    fn meanwhile(&mut self, doc: Doc, kind: Kind) {
        let what = format!("{}, with another change meanwhile", self.what(doc, kind));
        let before = self.it.read(doc.name());
        let revisions = self.revisions(doc);
        let job = self.job(doc, kind, &before);
        let (theirs, sign) = doc.stranger(&before, self.number);
        std::fs::write(self.it.scratch("changed"), "").expect("write");
        let saved = self.place.save(&self.program, &job, || {
            self.change(doc, &theirs, &sign);
        });
        std::fs::remove_file(self.it.scratch("changed")).expect("remove");
        let after = self.it.read(doc.name());
        assert_eq!(after.matches(sign.trim()).count(), 1, "{what}: the other change\n{after}");
        if self.program.meanwhile == Meanwhile::Offsets && !after.contains(&job.new) {
            self.refused_and_kept(&what, &saved.all, saved.code, &job.new);
            assert!(after == theirs, "{what}\n{}", difference(&theirs, &after));
            self.it.edit(doc.name(), &job.old, &job.new);
            return;
        }
        assert_eq!(saved.code, 0, "{what}: {}", saved.all);
        let wanted = self.program.after(&theirs, &job);
        match (self.program.meanwhile, self.program.style) {
            (Meanwhile::Offsets, _) => assert!(after.contains(&job.new), "{what}\n{after}"),
            (_, Style::Json) => assert!(same_json(&after, &wanted), "{what}\n{after}"),
            _ => assert!(after == wanted, "{what}\n{}", difference(&wanted, &after)),
        }
        assert_eq!(self.revisions(doc), revisions + 2, "revisions by {what}");
        // nano makes no backup of a text that it has not loaded.
        let mut left = self.take_left();
        left.retain(|name| Some(name) != self.backup(doc).as_ref());
        assert_eq!(left, Vec::<String>::new(), "left behind by {what}");
    }

    #[track_caller]
    fn refused_and_kept(&self, what: &str, said: &str, code: i32, sign: &str) {
        let left = self.left();
        let kept = left.iter().any(|name| {
            name.contains(".refused") && contains(&self.it.bytes(name), sign.as_bytes())
        });
        assert!(code != 0 || kept, "{what}: neither told nor kept: {said}{left:?}");
        self.remove(&left);
    }

    /// A save that is no valid document: the old version stays, the program is told or its
    /// text is kept.
    fn invalid(&mut self, doc: Doc) -> Outcome {
        let what = format!("{}, {}, an invalid save", self.program.title, doc.name());
        let before = self.it.read(doc.name());
        let revisions = self.revisions(doc);
        let (job, sign) = Job::invalid(self.program.broken, doc, &before);
        let saved = self.place.save(&self.program, &job, || {});
        let after = self.it.read(doc.name());
        assert!(after == before, "{what}: {}\n{}", saved.all, difference(&before, &after));
        assert_eq!(self.revisions(doc), revisions, "revisions by {what}");
        let left = self.left();
        let mut kept: Vec<String> = Vec::new();
        for name in &left {
            let path = self.it.path(name);
            if path.is_file() && contains(&self.it.bytes(name), sign.as_bytes()) {
                kept.push(name.replacen(doc.name(), "T", 1));
            }
        }
        kept.sort();
        for (place, text) in self.place.own_copies() {
            if contains(&text, sign.as_bytes()) {
                kept.push(place.to_owned());
            }
        }
        let told = saved.code != 0;
        assert!(told || kept.iter().any(|name| name.contains(".refused")), "{what}: {}", saved.all);
        self.remove(&left);
        Outcome { document: doc.name().into(), code: saved.code, said: saved.said, kept }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The first line in which two texts differ, with the lengths of both.
fn difference(wanted: &str, got: &str) -> String {
    let lines = wanted.lines().zip(got.lines()).enumerate();
    let first = lines.into_iter().find(|(_, (one, other))| one != other);
    let (at, (one, other)) = first.unwrap_or((0, ("", "")));
    let (long, short) = (wanted.lines().count(), got.lines().count());
    format!(
        "line {}: wanted {one:?}, got {other:?}; {long} lines wanted, {short} got, last {:?}",
        at + 1,
        got.lines().last()
    )
}
