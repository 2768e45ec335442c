//! Runs a program of the matrix in a directory, be it in a mount or not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Broken, Doc, Kind, Program, Style};
use crate::{Actor, programs_dir};

/// The longest that one save may take, editors on a busy machine included.
const SAVE_LIMIT: Duration = Duration::from_secs(40);

/// The exit code of `pty_drive.py` when an editor does something unexpected.
const LOST: i32 = 70;

/// One edit to be made.
#[derive(Debug, Clone)]
pub struct Job {
    /// The document.
    pub doc: Doc,
    /// The word that goes.
    pub old: String,
    /// The word that comes; `\x00` in it stands for a NUL byte.
    pub new: String,
    /// The line of programs that append.
    pub line: String,
    /// The number of bytes that programs which shorten a file take from its end.
    pub cut: usize,
}

impl Job {
    /// An edit of this kind in a document that is `text` now.
    pub fn new(program: &Program, doc: Doc, kind: Kind, text: &str, number: u32) -> Job {
        let (old, new) = match program.style {
            Style::Replace | Style::Json => doc.words(kind, text),
            Style::Append | Style::Cut => ("", ""),
        };
        Job { doc, old: old.into(), new: new.into(), line: doc.line(number), cut: doc.cut(text) }
    }

    /// An edit after which the document is invalid, and what tells that text apart.
    pub fn invalid(broken: Broken, doc: Doc, text: &str) -> (Job, &'static str) {
        let (old, new, sign) = match (doc, broken) {
            (Doc::Missions, Broken::Header) => ("## Pending", "## Pendng", "## Pendng"),
            (Doc::Missions, _) => (doc.word(text), "mid\\x00dle", "mid\0dle"),
            (Doc::Json | Doc::Yaml, _) => (doc.word(text), "mid\"dle", "mid\"dle"),
        };
        (Job { doc, old: old.into(), new: new.into(), line: String::new(), cut: 0 }, sign)
    }
}

/// What a program did.
#[derive(Debug)]
pub struct Saved {
    /// Its exit code, 128 and more for a signal.
    pub code: i32,
    /// The first line of what it said, paths and numbers of processes taken out.
    pub said: String,
    /// Everything that it said.
    pub all: String,
}

/// A directory in which programs save files.
pub struct Place {
    actor: Actor,
    dir: PathBuf,
    scratch: PathBuf,
}

impl Place {
    /// A place: `actor` works in `dir`; `scratch` is a directory for temporary files that is
    /// on another file system.
    pub fn new(actor: Actor, dir: &Path, scratch: &Path) -> Place {
        std::fs::create_dir_all(scratch).expect("mkdir");
        let actor = actor
            .limit(SAVE_LIMIT)
            .env("SCRATCH", scratch)
            .env("PROGRAMS", programs_dir())
            .env("INSTALLED", installed())
            .env("NODE_PATH", installed().join("node_modules"))
            .env("BUILT", built());
        Place { actor, dir: dir.into(), scratch: scratch.into() }
    }

    fn mark(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Lets a program make an edit. `between` runs after the program has read the file and
    /// before it saves.
    #[track_caller]
    pub fn save(&self, program: &Program, job: &Job, between: impl FnOnce()) -> Saved {
        for name in ["seen", "go", "n", "rescued", "said"] {
            let _ = std::fs::remove_file(self.mark(name));
        }
        let actor = self
            .actor
            .clone()
            .env("T", job.doc.name())
            .env("OLD", &job.old)
            .env("NEW", &job.new)
            .env("LINE", &job.line)
            .env("CUT", job.cut.to_string());
        let script = format!(". \"$PROGRAMS/prelude.sh\"\n{}", program.script);
        // Nobody's kin: what the programs before it have read and saved says nothing about it.
        let running = actor.spawn_orphan(&script);
        let end = std::time::Instant::now() + SAVE_LIMIT;
        while !self.mark("seen").exists() && !running.ended() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        if !self.mark("seen").exists() {
            let (_, out, err) = running.wait();
            panic!("{} never came to its pause:\n{out}{err}", program.id);
        }
        between();
        std::fs::write(self.mark("go"), "").expect("go");
        let saved = self.told(running.wait());
        assert_ne!(saved.code, LOST, "{}: {}", program.id, saved.all);
        saved
    }

    fn told(&self, (code, out, err): (i32, String, String)) -> Saved {
        // An editor without a terminal has no other place for its words.
        let said = std::fs::read_to_string(self.mark("said")).unwrap_or_default();
        let all = format!("{said}{err}{out}");
        let said = all.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let mut said = said.to_owned();
        for dir in [&self.scratch, &self.dir, &programs_dir()] {
            let dir = dir.to_string_lossy();
            said = said.replace(&format!("{dir}/"), "").replace(&*dir, ".");
        }
        Saved { code, said, all }
    }

    /// What the program itself still has of its text: its source, or what an editor could
    /// write elsewhere after its save had failed.
    pub fn own_copies(&self) -> Vec<(&'static str, Vec<u8>)> {
        [("its source", "n"), ("its buffer", "rescued")]
            .into_iter()
            .filter_map(|(what, name)| Some((what, std::fs::read(self.mark(name)).ok()?)))
            .collect()
    }
}

/// Where `scripts/programs.sh` puts what no package manager installs: `INSTANCEFS_PROGRAMS`,
/// else `programs` in the build directory.
pub fn installed() -> PathBuf {
    if let Some(dir) = std::env::var_os("INSTANCEFS_PROGRAMS") {
        return dir.into();
    }
    let profile = built();
    profile.parent().expect("the build directory").join("programs")
}

/// Where the build puts binaries: beside the `deps` of the running test.
fn built() -> PathBuf {
    let me = std::env::current_exe().expect("own path");
    let dir = me.parent().expect("own directory");
    if dir.ends_with("deps") { dir.parent().expect("profile directory").into() } else { dir.into() }
}
