//! `adopt` on whole instances as Kōan leaves them.

use std::path::{Path, PathBuf};

use mount_tests::{Instance, Ran, eventually, programs_dir};

use super::koan::{FRENCH, database};

/// What else stands in an instance.
const FILES: &[(&str, &str)] = &[
    ("config.yaml", "# bot\ninterval: 60   # seconds\ntools:\n  - git\n"),
    ("outbox.md", "une réponse\n"),
    ("soul.md", "# Soul\n"),
    ("memory/summary.md", "- learned\n"),
    ("memory/projects/k/learnings.md", "- more\n"),
    ("journal/2026-07-01/k.md", "### 09:00\nstarted\n"),
    ("journal/pending.md", "half a thought"),
    ("events/tomorrow.json", "{\"mission\": \"x\", \"run_at\": \"2026-07-02T09:00\"}\n"),
    ("hooks/post_mission.py", "def run(ctx):\n    pass\n"),
    ("recurring.json", "[]\n"),
    (".koan-status", "idle"),
    (".mission-tracker.json", "{\"n\": 3}"),
    (".gitignore", "missions.db*\nmissions.lock\n"),
];

/// A directory with these files, adopted and mounted; unmounted when the test ends.
struct Adopted {
    it: Instance,
    dir: PathBuf,
}

impl Adopted {
    fn prepare(missions: Option<&str>, db: Option<&[u8]>) -> Adopted {
        let it = Instance::builder().unmounted().start();
        let dir = it.scratch("koan");
        for (name, text) in FILES {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
            std::fs::write(path, text).expect("write");
        }
        if let Some(text) = missions {
            std::fs::write(dir.join("missions.md"), text).expect("write");
        }
        if let Some(db) = db {
            std::fs::write(dir.join("missions.db"), db).expect("write");
            std::fs::write(dir.join("missions.lock"), "").expect("write");
        }
        Adopted { it, dir }
    }

    /// Which of the two was written last.
    fn newer(&self, newer: &str, older: &str) {
        let script = format!(
            "touch -d '2026-07-01 10:00' koan/{older}; touch -d '2026-07-02 10:00' koan/{newer}"
        );
        self.it.outside().bash(&script).ok();
    }

    fn adopt(&self) -> String {
        let args = ["adopt".as_ref(), self.dir.as_os_str(), "--mount".as_ref()];
        let said = self.it.outside().instancefs(&args).ok();
        assert!(mount_tests::is_mounted(&self.dir), "{said}");
        said
    }

    fn eject(&self) -> Ran {
        self.it.outside().instancefs(&["eject".as_ref(), self.dir.as_os_str()])
    }

    fn sql(&self, query: &str) -> String {
        self.it.outside().bash(&format!("sqlite3 koan/missions.db \"{query}\"")).ok()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.dir.join("missions.md")).expect("read")
    }

    fn check_files(&self) {
        for (name, text) in FILES {
            let now = std::fs::read_to_string(self.dir.join(name)).expect(name);
            assert_eq!(now, *text, "{name}");
        }
    }

    /// A step of the stand-in.
    fn koan(&self, code: &str) {
        let program = format!("import koan_store as koan\n{code}");
        let actor = self.it.actor().within(&self.dir).env("PYTHONPATH", programs_dir());
        actor.python(&program, &[]).ok();
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if mount_tests::is_mounted(&self.dir) {
            let args = ["unmount".as_ref(), self.dir.as_os_str()];
            let _ = self.it.outside().instancefs(&args);
        }
        if mount_tests::is_mounted(&self.dir) {
            mount_tests::detach(Path::new(&self.dir));
        }
    }
}

#[test]
fn a_file_with_french_headers_blocks_fences_ci_and_ideas_is_taken_whole() {
    let initialised = database(&["initialized_at"], &[]);
    for db in [None, Some(&b""[..]), Some(&database(&[], &[])[..]), Some(&initialised[..])] {
        let bot = Adopted::prepare(Some(FRENCH), db);
        let said = bot.adopt();
        assert_eq!(bot.text(), FRENCH, "{said}");
        bot.check_files();
        assert_eq!(
            bot.sql("select state, count(*) from missions group by state order by state"),
            "done|1\nfailed|1\nin_progress|1\npending|4\n"
        );
        assert_eq!(
            bot.sql("select count(*) from ci_queue; select text from ideas"),
            "1\n- an idea\n"
        );
        // It works on it, and goes on without us.
        bot.koan(
            "koan.insert('.', 'la suite')\nkoan.move('.', 'une tâche [projet:koi]', 'in_progress')",
        );
        let text = bot.text();
        for line in [
            "## En attente\n",
            "## En cours\n",
            "- la suite",
            "- a line that is none of CI's\n",
            "## Done\n- fenced\n```\n",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line:?} in {text}");
        }
        bot.eject().ok();
        assert_eq!(bot.text(), text);
        bot.check_files();
        assert_eq!(bot.sql("select count(*) from missions"), "8\n");
    }
}

#[test]
fn a_file_that_is_newer_than_the_rows_is_merged_as_by_somebody_who_saw_nothing() {
    let rows = [("kept", "done"), ("queued", "pending"), ("running", "in_progress")];
    let db = database(&["initialized_at", "s8_synced"], &rows);
    let file = "# Missions\n\n## Pending\n- by hand\n- running\n\n## Done\n- queued\n";
    let bot = Adopted::prepare(Some(file), Some(&db));
    bot.newer("missions.md", "missions.db");
    let said = bot.adopt();
    assert!(said.contains("newer"), "{said}");
    // It adds. What is there stays as and where it is.
    let got = bot.sql("select state, text from missions order by text");
    assert_eq!(got, "pending|by hand\ndone|kept\npending|queued\nin_progress|running\n");
    bot.check_files();
    assert!(bot.it.outside().bash("ls koan").ok().lines().all(|n| !n.contains("older")));
}

#[test]
fn a_file_that_is_older_than_the_rows_is_kept_beside() {
    let db = database(&["initialized_at", "s8_synced"], &[("queued", "pending")]);
    let file = "# Missions\n\n## Pending\n- long gone\n";
    let bot = Adopted::prepare(Some(file), Some(&db));
    bot.newer("missions.db", "missions.md");
    let said = bot.adopt();
    assert!(said.contains("missions.md.older"), "{said}");
    assert_eq!(bot.sql("select text from missions"), "queued\n");
    assert_eq!(bot.it.outside().bash("cat koan/missions.md.older").ok(), file);
    assert!(bot.text().contains("- queued\n") && !bot.text().contains("long gone"));
}

#[test]
fn rows_without_a_file_and_neither_are_instances_too() {
    let db = database(&["initialized_at"], &[("queued", "pending")]);
    let bot = Adopted::prepare(None, Some(&db));
    bot.adopt();
    assert!(bot.text().contains("- queued\n"));
    let bot = Adopted::prepare(None, None);
    bot.adopt();
    assert!(bot.text().contains("## Pending\n"));
    bot.koan("koan.insert('.', 'first')");
    assert!(bot.text().contains("- first"));
}

#[test]
fn a_quarantine_file_becomes_rows_and_one_beside_rows_stays_out() {
    let line = "- 🛡️ [2026-07-01 09:00] (telegram) injection: rm -rf\n";
    let bot = Adopted::prepare(Some(FRENCH), None);
    std::fs::write(
        bot.dir.join("missions-quarantine.md"),
        format!("# Quarantine\n\n{line}not a row\n"),
    )
    .expect("write");
    bot.adopt();
    assert_eq!(
        bot.sql("select reason, source, text from quarantine"),
        "injection|telegram|rm -rf\n"
    );
    let shown = std::fs::read_to_string(bot.dir.join("missions-quarantine.md")).expect("read");
    assert!(shown.ends_with(line), "{shown}");
    let kept = bot.it.outside().bash("cat koan/missions-quarantine.md.before").ok();
    assert!(kept.contains("not a row\n"), "{kept}");
}

#[test]
fn an_instance_in_use_is_adopted_with_what_its_programs_do_meanwhile() {
    let db = database(&["initialized_at", "s8_synced"], &[("queued", "pending")]);
    let bot = Adopted::prepare(Some("# Missions\n\n## CI\n\n## Pending\n- queued\n"), Some(&db));
    bot.newer("missions.md", "missions.db");
    // Another program has the database open with rows that are still in its WAL.
    let mut open = bot.it.actor().within(&bot.dir).python_steps();
    open.run("import sqlite3\ndb = sqlite3.connect('missions.db'); db.execute('pragma journal_mode=wal')");
    open.run("db.execute(\"insert into missions(text, state, sequence) values ('in the wal', 'pending', 2)\"); db.commit()");
    bot.adopt();
    assert!(bot.text().contains("- in the wal\n"), "{}", bot.text());
    // It goes on with the same file, which is the store's now.
    open.run("db.execute(\"insert into missions(text, state, sequence) values ('later', 'pending', 3)\"); db.commit()");
    eventually("its row", || bot.text().contains("- later\n").then_some(()));
}
