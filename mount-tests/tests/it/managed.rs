//! Managed files: real names, and saves that are whole, validated and merged.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use mount_tests::{Instance, eventually};

const EIO: i32 = 5;

const EVENT: &str = "{\"mission\": \"- report\", \"run_at\": \"2026-12-01T09:00\"}\n";

#[test]
fn a_cut_or_wrong_file_is_refused_and_never_reset() {
    let rules = "[\n  {\"every\": \"1d\", \"mission\": \"a\"},\n  {\"every\": \"2d\", \"mission\": \"b\"}\n]\n";
    let it = Instance::with(&[("recurring.json", rules), ("events/e.json", EVENT)]);
    let mut p = it.python();
    p.run("n = os.path.getsize('recurring.json')");
    assert_eq!(p.errno("os.truncate('recurring.json', n - 10)"), EIO);
    assert_eq!(p.errno("f = open('recurring.json', 'r+'); f.truncate(n - 10); f.close()"), EIO);
    it.sh("! { head -c -10 recurring.json > cut && mv cut recurring.json 2> told; }; grep -q 'Input/output' told");
    it.sh("! dd if=/dev/zero of=recurring.json bs=1 count=3 conv=notrunc 2> told");
    assert_eq!(it.read("recurring.json"), rules);
    assert_eq!(p.errno("f = open('events/e.json', 'w'); f.write('[1]'); f.close()"), EIO);
    assert_eq!(it.read("events/e.json"), EVENT);
    assert!(it.read("events/e.json.refused").ends_with("\n[1]"));
    assert_eq!(p.errno("f = open('events/new.json', 'w'); f.write('[1]'); f.close()"), EIO);
    eventually("no empty file", || (!it.path("events/new.json").exists()).then_some(()));
    let store = std::fs::read_to_string(it.store().join("recurring.json")).expect("store");
    assert_eq!(store, rules, "the store's file is the same");
}

#[test]
fn a_config_saved_in_two_writes_is_read_whole_in_between() {
    let it = Instance::with(&[("config.yaml", "a: 1\nb: 2\n")]);
    let mut p = it.python();
    p.run("f = open('config.yaml', 'w'); f.write('a: 7\\n'); f.flush()");
    assert_eq!(it.read("config.yaml"), "a: 1\nb: 2\n");
    p.run("f.write('b: 2\\n'); f.close()");
    assert_eq!(it.read("config.yaml"), "a: 7\nb: 2\n");
    let it = Instance::with(&[("projects.yaml", "a: 1 # one\nb: 2\n")]);
    let mut p = it.python();
    p.run("f = open('projects.yaml', 'w'); f.write('a: 7 # one\\n'); f.flush()");
    assert_eq!(it.read("projects.yaml"), "a: 1 # one\nb: 2\n");
    p.run("f.write('b: 2\\n'); f.close()");
    assert_eq!(it.read("projects.yaml"), "a: 7 # one\nb: 2\n");
}

#[test]
fn two_programs_that_update_one_tracker_lose_nothing() {
    let it = Instance::with(&[("tracker.json", "{\"seen\": {}}\n")]);
    let program = "
import json, os, sys
name, rename = sys.argv[1], sys.argv[2] == 'rename'
for n in range(40):
    data = json.load(open('tracker.json'))
    data['seen'][f'{name}{n}'] = n
    data[name] = n
    target = f'.{name}.tmp' if rename else 'tracker.json'
    with open(target, 'w') as f:
        json.dump(data, f, indent=1)
    if rename:
        os.replace(target, 'tracker.json')
";
    let run = |name: &str, how: &str| it.actor().spawn("python3", &["-c", program, name, how]);
    let all = [run("a", "in place"), run("b", "rename"), run("c", "in place")];
    for one in all {
        one.wait().ok();
    }
    let now: serde_json::Value = serde_json::from_str(&it.read("tracker.json")).expect("json");
    assert_eq!(now["seen"].as_object().map(|o| o.len()), Some(120));
    assert_eq!((&now["a"], &now["b"], &now["c"]), (&39.into(), &39.into(), &39.into()));
    assert_eq!(it.kept(), Vec::<String>::new());
}

#[test]
fn texts_merge_by_line_with_what_others_did_meanwhile() {
    let it = Instance::with(&[("memory/deep/x.md", "one\ntwo\nthree\n")]);
    let mut p = it.python();
    p.run("t = open('memory/deep/x.md').read()");
    it.edit("memory/deep/x.md", "three", "THREE");
    p.run("f = open('memory/deep/x.md', 'w'); f.write(t.replace('one', 'ONE')); f.close()");
    assert_eq!(it.read("memory/deep/x.md"), "ONE\ntwo\nTHREE\n");
    // Also with what was done to the store behind the mount.
    p.run("t = open('memory/deep/x.md').read()");
    std::fs::write(it.store().join("memory/deep/x.md"), "ONE\ntwo\nthree!\n").expect("write");
    p.run("f = open('memory/deep/x.md', 'w'); f.write(t.replace('two', 'TWO')); f.close()");
    assert_eq!(it.read("memory/deep/x.md"), "ONE\nTWO\nthree!\n");
}

#[test]
fn a_line_put_in_the_place_of_one_that_is_reworded_stays() {
    let it = Instance::with(&[("memory/x.md", "# Notes\n\nfilter whistle\ncastle ember\n")]);
    let mut p = it.python();
    p.run("t = open('memory/x.md').read()");
    it.edit("memory/x.md", "filter whistle", "mango lagoon");
    p.run("t = t.replace('filter whistle', 'filter whistle, twice')\nf = open('memory/x.md', 'w'); f.write(t); f.close()");
    let text = it.read("memory/x.md");
    assert_eq!(text, "# Notes\n\nmango lagoon\nfilter whistle, twice\ncastle ember\n");
    // And where the other one rewords what the writer replaces.
    it.edit("memory/x.md", "castle ember", "castle ember, thrice");
    p.run("f = open('memory/x.md', 'w'); f.write(t.replace('castle ember', 'violet oyster')); f.close()");
    let text = it.read("memory/x.md");
    for line in ["mango lagoon", "filter whistle, twice", "castle ember, thrice", "violet oyster"] {
        assert_eq!(text.matches(line).count(), 1, "{line}: {text}");
    }
}

#[test]
fn every_way_to_save_reads_back_as_it_was_saved() {
    let files: [(&str, &str, &str, &str); 4] = [
        ("memory/x.md", "# Notes\n\nalpha\nbeta\n", "alpha", "gamma"),
        ("outbox.md", "alpha\nbeta\n", "alpha", "gamma"),
        ("journal/a/b.md", "alpha\nbeta\n", "alpha", "gamma"),
        ("tracker.json", "{\"alpha\": 1, \"beta\": 2}\n", "1", "7"),
    ];
    let ways = [
        "sed -i 's/OLD/NEW/' FILE",
        "sed 's/OLD/NEW/' FILE > FILE.tmp && mv FILE.tmp FILE",
        "sed -i.bak 's/OLD/NEW/' FILE && rm FILE.bak",
        "perl -pi -e 's/OLD/NEW/' FILE",
        "t=$(sed 's/OLD/NEW/' FILE; echo .); printf %s \"${t%.}\" > FILE",
        "cp FILE copy; sed -i 's/OLD/NEW/' copy; cat copy > FILE",
        "cp FILE copy; sed -i 's/OLD/NEW/' copy; cp copy FILE",
        "cp FILE copy; sed -i 's/OLD/NEW/' copy; cat FILE > /dev/null; mv copy FILE",
        "cp FILE copy; sed -i 's/OLD/NEW/' copy; cat FILE > /dev/null; install -m 644 copy FILE",
        "vim -es -c '%s/OLD/NEW/' -c wq FILE < /dev/null",
        "python3 -c \"t = open('FILE').read(); open('FILE', 'w').write(t.replace('OLD', 'NEW', 1))\"",
        "python3 -c \"f = open('FILE', 'r+'); t = f.read(); f.seek(0); f.write(t.replace('OLD', 'NEW', 1)); f.truncate(); f.close()\"",
        "python3 -c \"import os; t = open('FILE').read(); f = open('FILE.t', 'w'); f.write(t.replace('OLD', 'NEW', 1)); f.flush(); os.fsync(f.fileno()); f.close(); os.replace('FILE.t', 'FILE')\"",
        "node -e \"const fs = require('fs'); fs.writeFileSync('FILE', fs.readFileSync('FILE', 'utf8').replace('OLD', 'NEW'))\"",
        "node -e \"const fs = require('fs'); fs.writeFileSync('FILE.t', fs.readFileSync('FILE', 'utf8').replace('OLD', 'NEW')); fs.renameSync('FILE.t', 'FILE')\"",
    ];
    for (name, text, old, new) in files {
        let it = Instance::with(&[(name, text)]);
        let want = text.replacen(old, new, 1);
        for way in ways {
            std::fs::write(it.store().join(name), text).expect("write");
            assert_eq!(it.read(name), text);
            let script = way.replace("OLD", old).replace("NEW", new).replace("FILE", name);
            it.sh(&script);
            assert_eq!(it.read(name), want, "{script}");
            let store = std::fs::read_to_string(it.store().join(name)).expect("store");
            assert_eq!(store, want, "in the store: {script}");
        }
        if name.ends_with(".json") {
            it.sh("jq -c '.alpha = 9' tracker.json > tmp.json && mv tmp.json tracker.json");
            assert_eq!(it.read(name), "{\"alpha\":9,\"beta\":2}\n");
            it.sh("jq -c '.alpha = 8' tracker.json > tracker.json");
            assert_eq!(it.read(name), "{\"alpha\":8,\"beta\":2}\n");
        }
        assert_eq!(it.sh("find . -name '*.refused*' -o -name '*.unsaved-*'"), "");
    }
}

#[test]
fn numbers_stay_over_saves_and_remounts_and_are_nobody_else_s() {
    let it = Instance::with(&[("memory/x.md", "a\nb\n")]);
    let of = |it: &Instance| it.path("memory/x.md").metadata().expect("stat").ino();
    let number = of(&it);
    for n in 0..5 {
        it.edit("memory/x.md", "a", &format!("{n} a"));
        it.sh(&format!("echo plain > memory/plain{n}; echo plain > root{n}"));
        assert_eq!(of(&it), number);
    }
    let listed = "ls -i memory; ls -i; stat -c '%i %n' memory/* root*";
    let all = it.sh(listed);
    let with = |all: &str| {
        let number = number.to_string();
        let lines = all.lines().map(str::trim).filter(|l| l.split(' ').next() == Some(&number));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(with(&all), [format!("{number} x.md"), format!("{number} memory/x.md")], "{all}");
    it.remount();
    assert_eq!(of(&it), number);
    assert_eq!(with(&it.sh(listed)).len(), 2);
    // A renamed file brings its own.
    it.sh("cat memory/x.md > memory/t; stat -c %i memory/t > n; mv memory/t memory/x.md");
    assert_eq!(of(&it).to_string(), it.read("n").trim());
}

#[test]
fn mode_owner_times_and_attributes_are_the_file_s_and_survive_saves() {
    let it = Instance::with(&[("memory/x.md", "a\n")]);
    let path = it.path("memory/x.md");
    it.sh("chmod 640 memory/x.md; touch -d '2020-01-02 03:04:05.5' memory/x.md");
    assert_eq!(it.sh("stat -c '%a %y' memory/x.md"), "640 2020-01-02 03:04:05.500000000 +0000\n");
    let attributes = it.actor().bash("setfattr -n user.note -v kept memory/x.md").code() == Some(0);
    it.edit("memory/x.md", "a", "b");
    it.append("memory/x.md", "c");
    let now = path.metadata().expect("stat");
    assert_eq!((now.permissions().mode() & 0o7777, now.nlink()), (0o640, 1));
    assert!(it.sh("stat -c %y memory/x.md").as_str() > "2026");
    if attributes {
        assert_eq!(it.sh("getfattr --only-values -n user.note memory/x.md"), "kept");
        assert!(it.sh("getfattr -d memory/x.md").contains("user.note"));
    }
    it.sh("umask 077; echo x > memory/private.md");
    assert_eq!(it.sh("stat -c %a memory/private.md"), "600\n");
    it.sh("umask 022; echo x > memory/public; chmod 604 memory/public; mv memory/public memory/new.md");
    assert_eq!(it.sh("stat -c %a memory/new.md"), "604\n");
}

#[test]
fn names_are_real_for_everybody() {
    let it = Instance::fresh();
    let mut p = it.python();
    p.run("os.mkdir('memory'); f = open('memory/a.md', 'x')");
    assert_eq!(it.read("memory/a.md"), "", "there at the open");
    let mut q = it.python();
    assert_eq!(q.errno("open('memory/a.md', 'x')"), 17);
    p.run("f.write('text\\n'); f.close()");
    assert_eq!(it.read("memory/a.md"), "text\n");
    it.sh("rm memory/a.md; ! test -e memory/a.md; touch memory/a.md; test -e memory/a.md");
    assert!(it.store().join("memory/a.md").exists());
    assert_eq!(q.errno("os.rmdir('memory')"), 39);
    assert_eq!(q.errno("os.link('memory/a.md', 'memory/other')"), 1);
    assert_eq!(q.errno("os.mkdir('memory/a.md')"), 17);
    it.sh("rm memory/a.md; mkdir memory/a.md; rmdir memory/a.md; ln -s b.md memory/a.md; rm memory/a.md");
    it.sh("echo x > memory/b.md; mv memory/b.md memory/c.txt; echo y > memory/c.txt; mv memory/c.txt memory/b.md");
    assert_eq!(it.read("memory/b.md"), "y\n");
    it.sh("mv -n memory/b.md memory/d.md; test ! -e memory/b.md; rmdir memory 2> /dev/null || rm -r memory");
    assert!(!it.store().join("memory").exists());
}

#[test]
fn a_renamed_directory_takes_open_files_along() {
    let it = Instance::with(&[("memory/old/x.md", "a\n")]);
    let mut p = it.python();
    p.run("t = open('memory/old/x.md').read(); f = open('memory/old/x.md', 'a'); r = open('memory/old/x.md', 'r+')");
    it.sh("mv memory/old memory/new");
    p.run("f.write('b\\n'); f.close()");
    assert_eq!(it.read("memory/new/x.md"), "a\nb\n");
    p.run("r.seek(0, 2); r.write('c\\n'); r.close()");
    assert_eq!(it.read("memory/new/x.md"), "a\nb\nc\n");
    p.run("f = open('memory/new/x.md', 'w'); f.write('A\\n'); f.close()");
    assert_eq!(
        it.read("memory/new/x.md"),
        "A\n",
        "what it read and wrote under the old name counts"
    );
    assert!(!it.path("memory/old").exists());
}

#[test]
fn open_handles_on_a_removed_file_go_on() {
    let it = Instance::with(&[("memory/x.md", "a\nb\n")]);
    let mut p = it.python();
    p.run("r = open('memory/x.md'); f = open('memory/x.md', 'r+')");
    p.run("os.unlink('memory/x.md')");
    assert_eq!(p.text("r.read()"), "a\nb\n");
    p.run("f.write('mine'); f.flush(); f.seek(0)");
    assert_eq!(p.text("f.read()"), "mine");
    p.run("f.close()");
    assert!(!it.path("memory/x.md").exists(), "what the remover had open ends with it");
}

#[test]
fn locks_stay_when_the_file_is_replaced() {
    let it = Instance::with(&[("memory/x.md", "a\n")]);
    let (mut p, mut q) = (it.python(), it.python());
    p.run("f = open('memory/x.md', 'r+'); fcntl.flock(f, fcntl.LOCK_EX)");
    it.edit("memory/x.md", "a", "b");
    it.sh("sed -i s/b/c/ memory/x.md");
    q.run("g = open('memory/x.md', 'r+')");
    assert_eq!(q.errno("fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)"), 11);
    q.begin("fcntl.flock(g, fcntl.LOCK_EX)");
    assert!(q.blocks_for(std::time::Duration::from_millis(300)));
    p.kill();
    q.finish().expect("the lock is free with its holder's death");
    assert_eq!(q.text("g.read()"), "c\n");
    let mut r = it.python();
    r.run("h = open('memory/x.md', 'r+')");
    q.run("fcntl.lockf(g, fcntl.LOCK_EX)");
    assert_eq!(r.errno("fcntl.lockf(h, fcntl.LOCK_EX | fcntl.LOCK_NB)"), 11);
    q.run("g.close()");
    r.run("fcntl.lockf(h, fcntl.LOCK_EX | fcntl.LOCK_NB)");
}

#[test]
fn programs_that_count_under_a_lock_on_the_file_miss_nothing() {
    let it = Instance::with(&[("memory/count.md", "0\n")]);
    let program = "
import fcntl
for _ in range(25):
    with open('memory/count.md', 'r+') as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        n = int(f.read())
        f.seek(0)
        f.write(f'{n + 1}\\n')
        f.truncate()
";
    let all: Vec<_> = (0..6).map(|_| it.actor().spawn("python3", &["-c", program])).collect();
    for one in all {
        one.wait().ok();
    }
    assert_eq!(it.read("memory/count.md"), "150\n");
}

#[test]
fn the_rules_can_be_changed_while_it_is_mounted() {
    let it = Instance::with(&[("notes/a.md", "a\n")]);
    let mut p = it.python();
    p.run("t = open('notes/a.md').read()");
    it.sh("printf '[files]\\n\"notes/*.md\" = \"text\"\\n' > instancefs.toml");
    eventually("the rule", || {
        it.outside()
            .bash(&format!("getfattr -n user.instancefs.rev '{}'", it.path("notes/a.md").display()))
            .stdout
            .contains("user.instancefs.rev")
            .then_some(())
    });
    let mut reader = it.python();
    reader.run("f = open('notes/a.md')");
    p.run("t = open('notes/a.md').read()");
    it.append("notes/a.md", "b");
    p.run("f = open('notes/a.md', 'w'); f.write(t.replace('a', 'A')); f.close()");
    assert_eq!(it.read("notes/a.md"), "A\nb\n");
    it.sh("rm instancefs.toml");
    eventually("no rule", || {
        let told = it.actor().bash("getfattr -n user.instancefs.rev notes/a.md");
        (!told.stdout.contains("user.instancefs.rev")).then_some(())
    });
    assert_eq!(reader.text("f.read()"), "A\nb\n", "an open handle stays what it is");
}

#[test]
fn the_history_has_managed_files_by_path() {
    let it = Instance::with(&[("memory/deep/x.md", "one\n")]);
    it.edit("memory/deep/x.md", "one", "two");
    it.edit("memory/deep/x.md", "two", "three");
    it.sh("rm memory/deep/x.md");
    let dir = ".instancefs/history/memory/deep/x.md";
    let texts = it.sh(&format!("cat $(ls -d {dir}/*)  2> /dev/null; true"));
    assert_eq!(texts, "one\ntwo\nthree\n");
    assert!(it.sh("ls -R .instancefs/history/memory").contains("x.md"));
}

#[test]
fn unmounted_the_store_has_the_files_and_what_was_changed_there_is_merged() {
    let it = Instance::with(&[("memory/x.md", "a\nb\n")]);
    it.edit("memory/x.md", "a", "A");
    let mut p = it.python();
    p.run("t = open('memory/x.md').read()");
    it.unmount();
    let store = it.store().join("memory/x.md");
    assert_eq!(std::fs::read_to_string(&store).expect("read"), "A\nb\n");
    std::fs::write(&store, "A\nb\nunder\n").expect("write");
    it.mount();
    assert_eq!(it.read("memory/x.md"), "A\nb\nunder\n");
    it.edit("memory/x.md", "b", "B");
    assert_eq!(it.read("memory/x.md"), "A\nB\nunder\n");
}

#[test]
fn a_watcher_and_tail_see_what_is_appended() {
    let it = Instance::with(&[("journal/a.md", "one\n")]);
    let mut tail = it.actor().spawn("tail", &["-n", "+1", "-f", "journal/a.md"]);
    tail.until("one");
    it.append("journal/a.md", "two");
    tail.until("two");
    it.sh("cat journal/a.md > journal/t; echo three >> journal/t; mv journal/t journal/a.md");
    it.append("journal/a.md", "four");
    tail.until("four");
    tail.signal(15);
    tail.wait();
}
