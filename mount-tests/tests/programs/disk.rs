//! The drivers themselves, in an ordinary directory: what a program saves there is what it must
//! save in a mount.

use mount_tests::Actor;
use mount_tests::programs::{Doc, Job, Kind, Place, Program, Style, by_id, same_json};

/// An ordinary directory with one document and a scratch directory on another file system.
pub struct Disk {
    _dirs: (tempfile::TempDir, tempfile::TempDir),
    dir: std::path::PathBuf,
    place: Place,
}

impl Disk {
    /// A directory on the disk.
    pub fn new() -> Disk {
        let dir = tempfile::tempdir_in("/var/tmp").expect("directory");
        let other = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
        let scratch = tempfile::tempdir_in(other).expect("directory");
        let actor = Actor::new(dir.path(), scratch.path());
        let place = Place::new(actor, dir.path(), scratch.path());
        Disk { dir: dir.path().to_path_buf(), _dirs: (dir, scratch), place }
    }

    /// What a program makes of this text.
    #[track_caller]
    pub fn save(&self, program: &Program, job: &Job, text: &str) -> String {
        let path = self.dir.join(job.doc.name());
        std::fs::write(&path, text).expect("write");
        let saved = self.place.save(program, job, || {});
        assert_eq!(saved.code, 0, "{}: {}", program.id, saved.all);
        std::fs::read_to_string(&path).expect("read")
    }

    /// Removes the document, and gives the names that are left then.
    pub fn left(&self, doc: Doc) -> Vec<String> {
        std::fs::remove_file(self.dir.join(doc.name())).expect("remove");
        let names = self.dir.read_dir().expect("directory").flatten();
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// One edit of each kind by one program in an ordinary directory, each in another document.
pub fn saves(id: &str) {
    let program = by_id(id);
    let disk = Disk::new();
    let rounds = Doc::ALL.into_iter().zip(Kind::ALL);
    let mut done = 0;
    for (doc, kind) in rounds.filter(|(doc, _)| program.docs.contains(doc)) {
        let kind = if program.kinds.contains(&kind) { kind } else { program.kinds[0] };
        let mut text = doc.text();
        if kind == Kind::Shrinking && program.style == Style::Replace {
            let longer = Job::new(&program, doc, Kind::Growing, &text, 0);
            text = text.replacen(&longer.old, &longer.new, 1);
        }
        let job = Job::new(&program, doc, kind, &text, 1);
        let what = format!("{id} {} {}", doc.name(), kind.name());
        let (got, want) = (disk.save(&program, &job, &text), program.after(&text, &job));
        match program.style {
            Style::Json => assert!(same_json(&got, &want), "{what}:\n{got}"),
            _ => assert_eq!(got, want, "{what}"),
        }
        let mut left = disk.left(doc);
        if let Some(name) = program.backup.map(|name| name.replacen('T', doc.name(), 1)) {
            assert!(left.contains(&name), "{what}: no backup {name} in {left:?}");
            left.retain(|one| *one != name);
            std::fs::remove_file(disk.dir.join(name)).expect("remove");
        }
        assert_eq!(left, Vec::<String>::new(), "left behind by {what}");
        done += 1;
    }
    assert_eq!(done, program.docs.len());
}
