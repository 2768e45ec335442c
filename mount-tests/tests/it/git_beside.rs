//! To remove a file and to make it anew is to replace it, where nothing says that its writer has
//! seen less: git in a second terminal, archives, copies that remove first. And what git leaves
//! of a merge that it cannot do.

use mount_tests::trio::{ALL, Sample, files};
use mount_tests::{Instance, Shell};

/// Where the second terminal is.
#[derive(Debug, Clone, Copy)]
enum Terminal {
    /// Another session of the parent that the first one has.
    Beside,
    /// The same, and the person looks at what has changed before anything else.
    BesideLooking,
    /// A pseudo terminal below process 1.
    Elsewhere,
}

impl Terminal {
    #[track_caller]
    fn run(self, it: &Instance, command: &str) -> String {
        match self {
            Terminal::Beside => it.sh(command),
            Terminal::BesideLooking => it.sh(&format!("git diff > /dev/null; {command}")),
            Terminal::Elsewhere => {
                let (code, out) =
                    it.actor().env("TYPED", command).orphan(r#"script -qec "$TYPED" /dev/null"#);
                assert_eq!(code, 0, "{command}\n{out}");
                out
            }
        }
    }
}

/// The files are older than the index will be: git reads those of the same second once more, to
/// be sure, so that what it has seen would be a matter of luck.
fn age(it: &Instance) {
    it.stranger("touch -d '1 hour ago' missions.md config.yaml memory/note.md");
}

/// A repository in the mount whose first commit has the three files; the terminal that made it.
fn repository() -> (Instance, Shell) {
    let it = files(Instance::builder()).start();
    age(&it);
    let mut first = it.shell();
    first.run(
        "git init -q -b main . && git add missions.md config.yaml memory/note.md && git commit -qm one",
    );
    (it, first)
}

/// Other programs append to the files and rewrite them.
fn others_change(it: &Instance) {
    for sample in &ALL {
        it.stranger_appends(sample.name, sample.other);
        it.stranger_saves(sample.name, &changed(sample));
    }
}

/// What [`others_change`] makes of a file.
fn changed(sample: &Sample) -> String {
    sample.with(&sample.edited_elsewhere(sample.start), sample.other)
}

/// A clone beside the mount with a commit that edits every file.
fn clone_with_an_edit(it: &Instance) {
    it.outside().bash("git clone -q ../mount clone").ok();
    for sample in &ALL {
        let text = sample.edited(sample.start);
        std::fs::write(it.scratch("clone").join(sample.name), text).expect("write");
    }
    it.outside().bash("cd clone && git commit -qam two").ok();
}

/// The work tree is as committed, and the files have these texts.
#[track_caller]
fn clean(it: &Instance, what: &str, wanted: impl Fn(&Sample) -> String) {
    let mut wrong = String::new();
    for sample in &ALL {
        let name = sample.name;
        let (wanted, got) = (wanted(sample), it.read(name));
        if wanted != got {
            wrong += &format!("{name}: wanted\n{wanted}-- got\n{got}--\n");
        }
        let committed = it.stranger(&format!("git show HEAD:{name}"));
        if committed != got {
            wrong += &format!("{name} is not as committed\n");
        }
    }
    let status = it.stranger("git status --porcelain --untracked-files=no");
    assert!(wrong.is_empty() && status.is_empty(), "{what}\n{wrong}{status}");
}

fn checkout(terminal: Terminal) {
    for command in ["git checkout -q -- .", "git restore ."] {
        let (it, _first) = repository();
        others_change(&it);
        terminal.run(&it, command);
        clean(&it, command, |sample| sample.start.to_owned());
    }
}

fn reset(terminal: Terminal) {
    let (it, _first) = repository();
    others_change(&it);
    terminal.run(&it, "git reset -q --hard");
    clean(&it, "git reset --hard", |sample| sample.start.to_owned());
}

fn branch(terminal: Terminal) {
    let (it, mut first) = repository();
    others_change(&it);
    age(&it);
    first.run("git checkout -qb topic && git commit -qam two");
    clean(&it, "git commit", changed);
    terminal.run(&it, "git checkout -q main");
    clean(&it, "git checkout main", |sample| sample.start.to_owned());
    terminal.run(&it, "git checkout -q topic");
    clean(&it, "git checkout topic", changed);
}

fn stash(terminal: Terminal) {
    let (it, _first) = repository();
    others_change(&it);
    terminal.run(&it, "git stash -q");
    clean(&it, "git stash", |sample| sample.start.to_owned());
    terminal.run(&it, "git stash pop -q");
    for sample in &ALL {
        assert_eq!(it.read(sample.name), changed(sample), "git stash pop");
    }
    assert_eq!(it.stranger("git status --porcelain --untracked-files=no").lines().count(), 3);
    assert_eq!(it.stranger("git stash list"), "");
}

fn merge(terminal: Terminal) {
    let (it, mut first) = repository();
    clone_with_an_edit(&it);
    it.outside().bash("cd clone && git push -q origin HEAD:topic").ok();
    others_change(&it);
    age(&it);
    first.run("git commit -qam theirs");
    terminal.run(&it, "git merge -q topic -m merged");
    clean(&it, "git merge", |sample| sample.edited(&changed(sample)));
}

fn pull(terminal: Terminal) {
    let (it, _first) = repository();
    clone_with_an_edit(&it);
    terminal.run(&it, "git pull -q --ff-only $SCRATCH/clone main");
    clean(&it, "git pull", |sample| sample.edited(sample.start));
    // Once more, with changes of others that the person looks at and throws away.
    for sample in &ALL {
        let file = it.scratch("clone").join(sample.name);
        std::fs::write(file, changed(sample)).expect("write");
        it.stranger_appends(sample.name, sample.later);
    }
    it.outside().bash("cd clone && git commit -qam three").ok();
    terminal.run(
        &it,
        "git diff > /dev/null; git checkout -q -- . && git pull -q --ff-only $SCRATCH/clone main",
    );
    clean(&it, "git checkout and pull", changed);
}

macro_rules! in_a_second_terminal {
    ($($name:ident)*) => {
        mod beside { $(#[test] fn $name() { super::$name(super::Terminal::Beside); })* }
        mod beside_after_a_look {
            $(#[test] fn $name() { super::$name(super::Terminal::BesideLooking); })*
        }
        mod elsewhere { $(#[test] fn $name() { super::$name(super::Terminal::Elsewhere); })* }
    };
}

in_a_second_terminal! { checkout reset branch stash merge pull }

/// The two sides of a merge that git cannot do, by name: the line that both change.
const CONFLICTS: [(&str, &str, &str, [&str; 2]); 3] = [
    ("missions.md", ALL[0].start, "gamma three", ["gamma three, ours", "gamma three, theirs"]),
    ("config.yaml", ALL[1].start, "max: 3", ["max: 33", "max: 44"]),
    ("config.json", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "\"b\": 2", ["\"b\": 33", "\"b\": 44"]),
];

/// The save is refused as an unresolved merge, with both sides kept; the document is as before.
#[track_caller]
fn unresolved(it: &Instance, name: &str, before: &str, sides: [&str; 2]) {
    assert_eq!(it.read(name), before, "{name}");
    let refused = it.refused(name);
    for side in sides {
        assert!(refused.contains(side), "{side:?} in {refused}");
    }
    for marker in ["\n<<<<<<< ", "\n=======\n", "\n>>>>>>> "] {
        assert!(refused.contains(marker), "{marker:?} in {refused}");
    }
    let (reason, _) = refused.split_once("<<<<<<< ").expect("a marker");
    let reason = reason.to_lowercase();
    assert!(reason.contains("unresolved merge") || reason.contains("conflict marker"), "{refused}");
}

#[test]
fn a_git_merge_with_a_conflict_is_refused_as_unresolved() {
    for (name, start, word, sides) in CONFLICTS {
        let it = Instance::with(&[(name, start)]);
        let mut first = it.shell();
        first.run(&format!("git init -q -b main . && git add {name} && git commit -qm one"));
        it.outside().bash("git clone -q ../mount clone").ok();
        let theirs = start.replace(word, sides[1]);
        std::fs::write(it.scratch("clone").join(name), theirs).expect("write");
        it.outside().bash("cd clone && git commit -qam two && git push -q origin HEAD:topic").ok();
        let ours = start.replace(word, sides[0]);
        it.stranger_saves(name, &ours);
        first.run("git commit -qam ours");
        it.sh("! git merge -q topic -m merged");
        unresolved(&it, name, &ours, sides);
        // The person goes back; a git that was told of the refusal has not begun to merge.
        it.sh("if [ -e .git/MERGE_HEAD ]; then git merge --abort; else git reset -q --hard; fi");
        assert_eq!(it.read(name), ours, "{name}");
        assert_eq!(it.stranger("git status --porcelain --untracked-files=no"), "", "{name}");
    }
}

#[test]
fn conflict_markers_are_refused_by_whatever_way_they_come() {
    for (name, start, word, sides) in CONFLICTS {
        let line = start.lines().find(|line| line.contains(word)).expect("the line");
        let [ours, theirs] = sides.map(|side| line.replace(word, side));
        let plain = format!("<<<<<<< HEAD\n{ours}\n=======\n{theirs}\n>>>>>>> topic");
        let diff3 = format!(
            "<<<<<<< HEAD\n{ours}\n||||||| 1234567\n{line}\n=======\n{theirs}\n>>>>>>> topic"
        );
        for markers in [plain, diff3] {
            for way in ["cp $SCRATCH/n", "install $SCRATCH/n", "mv $SCRATCH/n", "tee < $SCRATCH/n"]
            {
                let it = Instance::with(&[(name, start)]);
                std::fs::write(it.scratch("n"), start.replace(line, &markers)).expect("write");
                // Whoever listens is told.
                it.sh(&format!("cat {name}; ! {way} {name}"));
                unresolved(&it, name, start, sides);
            }
        }
    }
}

/// Other programs have appended; an agent that has never looked puts another text in its place by
/// these tool calls, each in a session of its own. `$N` has the new text, `$T` is the file.
#[track_caller]
fn puts(calls: &[&str]) {
    let it = files(Instance::builder()).start();
    let mut wrong = String::new();
    for sample in &ALL {
        it.stranger_appends(sample.name, sample.other);
        let new = it.scratch("new").join(sample.name);
        std::fs::create_dir_all(new.parent().expect("parent")).expect("mkdir");
        let wanted = sample.edited(sample.start);
        std::fs::write(&new, &wanted).expect("write");
        let archives = "tar cf ../a.tar -- \"$T\"
            python3 -c 'import sys, zipfile; zipfile.ZipFile(\"../a.zip\", \"w\").write(sys.argv[1])' \"$T\"";
        it.outside().env("T", sample.name).bash(&format!("cd new\n{archives}")).ok();
        for call in calls {
            it.actor().env("T", sample.name).env("N", &new).bash(call).ok();
        }
        let got = it.read(sample.name);
        if wanted != got {
            wrong += &format!("{}: wanted\n{wanted}-- got\n{got}--\n", sample.name);
        }
    }
    assert!(wrong.is_empty(), "{calls:?}\n{wrong}");
    assert_eq!(it.kept(), Vec::<String>::new());
}

macro_rules! puts {
    ($($name:ident: $calls:expr)*) => { mod puts { $(#[test] fn $name() { super::puts(&$calls); })* } };
}

puts! {
    tar: ["tar xf $SCRATCH/a.tar"]
    unzip: ["unzip -qo $SCRATCH/a.zip"]
    cp_remove_destination: [r#"cp --remove-destination "$N" "$T""#]
    install: [r#"install -m 644 "$N" "$T""#]
    mv_from_another_file_system: [r#"mv "$N" "$T""#]
    mv_from_memory: [r#"d=$(mktemp -d /dev/shm/instancefs-test-XXXXXX); mv "$N" $d/n; mv $d/n "$T"; rmdir $d"#]
    rm_and_cat_in_one_call: [r#"rm "$T"; cat "$N" > "$T""#]
    rm_and_cat_in_two_calls: [r#"rm "$T""#, r#"cat "$N" > "$T""#]
    rm_and_python_in_two_calls: [r#"rm "$T""#, r#"python3 -c 'import os; open(os.environ["T"], "x").write(open(os.environ["N"]).read())'"#]
}
