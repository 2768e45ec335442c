//! Section 4, the other side: who has seen nothing removes nothing, whatever others have seen.

use mount_tests::trio::{self, CONFIG, MISSIONS, Sample};
use mount_tests::{Instance, eventually};

/// Those of which a blind text removes nothing; a note it replaces.
const KEYED: [Sample; 2] = [MISSIONS, CONFIG];

/// An instance in which an agent has looked at every version, and others have added something.
fn lively() -> Instance {
    let it = trio::files(Instance::builder()).start();
    let look = "cat missions.md config.yaml memory/note.md > /dev/null";
    it.sh(look);
    for sample in &KEYED {
        it.stranger_appends(sample.name, sample.other);
    }
    it.sh(look);
    for sample in &KEYED {
        it.stranger_appends(sample.name, sample.later);
    }
    it.sh(look);
    it
}

/// The text of [`lively`].
fn now(sample: &Sample) -> String {
    sample.with(&sample.with(sample.start, sample.other), sample.later)
}

/// The last line of the blind text.
fn blind_line(sample: &Sample) -> String {
    format!("{}\n", sample.blind.lines().last().expect("a line"))
}

#[test]
fn a_blind_text_of_a_stranger_removes_nothing() {
    for way in [
        r#"cat "$SCRATCH/blind" > "$NAME""#,
        r#"cp "$SCRATCH/blind" "$NAME""#,
        r#"tee < "$SCRATCH/blind" "$NAME""#,
        r#"cp "$SCRATCH/blind" t; mv t "$NAME""#,
        r#"python3 -c 'import os; open(os.environ["NAME"], "w").write(open(os.environ["SCRATCH"] + "/blind").read())'"#,
    ] {
        let it = lively();
        for sample in &KEYED {
            std::fs::write(it.scratch("blind"), sample.blind).expect("write");
            let (code, out) = it.actor().env("NAME", sample.name).orphan(way);
            assert_eq!(code, 0, "{way}: {out}");
            let wanted = sample.with(&now(sample), &blind_line(sample));
            assert_eq!(it.read(sample.name), wanted, "{way}");
        }
    }
}

#[test]
fn a_template_copied_once_more_changes_nothing_that_others_have_only_added_to() {
    let it = lively();
    for _ in 0..2 {
        for sample in &KEYED {
            std::fs::write(it.scratch("template"), sample.start).expect("write");
            it.stranger(&format!("cp $SCRATCH/template {}", sample.name));
            assert_eq!(it.read(sample.name), now(sample));
        }
    }
}

#[test]
fn a_template_that_its_installer_has_copied_before_wipes_nothing() {
    for sample in &KEYED {
        // Here the first version is somebody else's, and the template the second one.
        let first = sample.edited_elsewhere(sample.start);
        let it = Instance::with(&[(sample.name, &first)]);
        std::fs::write(it.scratch("template"), sample.start).expect("write");
        let install = format!("cp $SCRATCH/template {}", sample.name);
        it.stranger_saves(sample.name, sample.start);
        it.stranger_appends(sample.name, sample.other);
        it.sh(&format!("cat {}", sample.name));
        it.stranger(&install);
        assert_eq!(it.read(sample.name), sample.with(sample.start, sample.other));
        // What people have taken out may come back by a copy; what is there stays.
        let before = sample.edited(&sample.with(sample.start, sample.other));
        it.stranger_saves(sample.name, &before);
        it.stranger(&install);
        let after = it.read(sample.name);
        for line in before.lines().filter(|line| !line.contains("max:")) {
            let count = |text: &str| text.lines().filter(|l| *l == line).count();
            assert_eq!(count(&after), count(&before), "{line:?} in\n{after}");
        }
    }
}

#[test]
fn a_polling_daemon_lends_nothing_to_a_blind_child() {
    let it = trio::files(Instance::builder()).start();
    let mut daemon = it.python();
    daemon.run(
        "
import subprocess, threading
versions = set()
def poll():
    while True:
        for name in 'missions.md', 'config.yaml':
            with open(name) as f: versions.add(f.read())
        time.sleep(0.02)
threading.Thread(target=poll, daemon=True).start()
def child(name, text, **kw):
    code = 'import sys; open(sys.argv[1], \"w\").write(sys.argv[2])'
    subprocess.run([sys.executable, '-c', code, name, text], check=True, **kw)
",
    );
    let mut seen = 0;
    let mut polled = |daemon: &mut mount_tests::Python| {
        eventually("the daemon's look", || {
            let count = daemon.int("len(versions)");
            (count >= seen + 2).then(|| seen = count)
        });
    };
    polled(&mut daemon);
    for added in [|s: &Sample| s.other, |s: &Sample| s.later] {
        for sample in &KEYED {
            it.stranger_appends(sample.name, added(sample));
        }
        polled(&mut daemon);
    }
    // One is no rewording of the other, as that would be an edit by the daemon's side.
    let words = ["omega", "unrelated_thing"];
    for (word, session) in words.iter().zip(["start_new_session=True", "start_new_session=False"]) {
        for sample in &KEYED {
            let text = sample.blind.replace("omega", word);
            daemon.run(&format!("child({:?}, {text:?}, {session})", sample.name));
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for sample in &KEYED {
        let wanted = words.iter().fold(now(sample), |text, word| {
            sample.with(&text, &blind_line(sample).replace("omega", word))
        });
        assert_eq!(it.read(sample.name), wanted);
    }
    daemon.run("os.chdir('/')");
}
