//! Managed files at their edges: numbers, file systems, watchers, directories that are gone.

use std::collections::HashMap;
use std::time::Duration;

use mount_tests::{Instance, eventually};

/// Files of the instance that show the same number as another one.
fn doubles(it: &Instance) -> Vec<String> {
    let all = it.sh("find . -type f -printf '%i %p\\n'; stat -c '%i %n' *.json *.md */*.md; \
                     ls -i memory | sed 's, *\\([0-9]*\\) ,\\1 ./memory/,'");
    let mut of: HashMap<&str, Vec<&str>> = HashMap::new();
    for (number, path) in all.lines().filter_map(|l| l.split_once(' ')) {
        let paths = of.entry(number).or_default();
        let path = path.trim_start_matches("./");
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    of.into_iter().filter(|(_, p)| p.len() > 1).map(|(n, p)| format!("{n} {p:?}")).collect()
}

#[test]
fn no_two_files_show_one_number() {
    let it = Instance::with(&[("tracker.json", "{}\n"), ("config.json", "{\"a\": 1}\n")]);
    it.sh("mkdir memory; for i in 1 2 3 4 5 6; do echo $i > memory/$i.md; done");
    assert_eq!(doubles(&it), [""; 0]);
    it.sh("cp -r memory other; tar cf t.tar memory; mkdir x; tar xf t.tar -C x; diff -r memory x/memory");
    it.sh("for i in 1 2 3 4; do echo p$i > p$i; done; for i in 1 2; do mv p$i memory/p$i.md; done");
    it.sh("for i in 1 2 3; do echo q > q$i; echo s > memory/s$i.md; done");
    assert_eq!(doubles(&it), [""; 0]);
    it.sh("cp config.json other.json; echo '{\"a\": 2}' > t; stat -c %i t > n; mv t config.json; \
           test $(stat -c %i config.json) = $(cat n); for i in 1 2 3; do echo u > u$i; done");
    assert_eq!(doubles(&it), [""; 0]);
    let numbers = "stat -c '%i %n' memory/* config.json tracker.json";
    let before = it.sh(numbers);
    it.remount();
    assert_eq!(it.sh(numbers), before);
    it.sh("for i in 1 2 3; do echo v > memory/v$i.md; echo w > w$i; done");
    assert_eq!(doubles(&it), [""; 0]);
}

#[test]
fn the_file_system_can_be_asked_for_through_a_managed_file() {
    let it = Instance::with(&[("outbox.md", "a\n"), ("memory/x.md", "a\n")]);
    it.sh("stat -f outbox.md memory/x.md missions.md; df memory/x.md");
    let mut p = it.python();
    p.run("f = open('memory/x.md'); s = os.fstatvfs(f.fileno()); assert s.f_blocks > 0");
}

#[test]
fn a_watcher_of_a_file_that_nobody_has_read_is_told_of_changes_behind_the_mount() {
    let it =
        Instance::with(&[("memory/x.md", "a\n"), ("journal/d/j.md", "a\n"), ("e.json", "{}\n")]);
    let names = ["memory/x.md", "journal/d/j.md", "e.json"];
    let script = format!("exec inotifywait -m --format '%w %e' {} 2>&1", names.join(" "));
    let mut watcher = it.actor().spawn_bash(&script);
    watcher.until("Watches established");
    for name in names {
        let text = std::fs::read_to_string(it.store().join(name)).expect("store");
        std::fs::write(it.store().join(name), format!("{text}\n")).expect("write");
        watcher.until(&format!("{name} MODIFY"));
    }
    // A change of the mode alone is none of the content.
    std::thread::sleep(Duration::from_millis(700));
    let modified = |text: &str| text.lines().filter(|l| *l == "memory/x.md MODIFY").count();
    let before = modified(&watcher.stdout());
    it.sh("chmod 600 memory/x.md");
    watcher.until("memory/x.md ATTRIB");
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(modified(&watcher.stdout()), before);
    watcher.signal(15);
    watcher.wait();
}

#[test]
fn what_is_appended_after_the_directory_is_gone_is_kept() {
    let it = Instance::with(&[("journal/x/y/a.md", "one\n")]);
    let mut p = it.python();
    p.run(
        "f = open('journal/x/y/a.md', 'a', buffering=1); f.write('two\\n'); os.fsync(f.fileno())",
    );
    it.stranger("rm -r journal/x");
    p.run("f.write('three\\n')");
    std::thread::sleep(Duration::from_millis(1200));
    p.attempt("f.write('four\\n'); f.close()").expect_err("there is no place for it");
    drop(p);
    let kept = "journal/a.md.refused";
    eventually("the text is kept", || it.path(kept).exists().then_some(()));
    assert!(it.read(kept).ends_with("\nthree\nfour\n"), "{}", it.read(kept));
    assert_eq!(it.names("journal"), ["a.md.refused"]);
    let refusals = it.status()["refusals"]["count"].as_u64().expect("count");
    assert!((1..=4).contains(&refusals), "{refusals} refusals of two texts");
}

#[test]
fn a_store_whose_mount_is_taken_away_by_force_is_tidy() {
    let it = Instance::with(&[("memory/x.md", "a\n")]);
    let mut p = it.python();
    p.run("f = open('memory/x.md', 'a'); f.write('b\\n'); f.flush(); os.fsync(f.fileno())");
    it.outside().instancefs(&["unmount", &it.mount_point().display().to_string()]).ok();
    eventually("it is unmounted", || (!it.mounted()).then_some(()));
    let text = std::fs::read_to_string(it.store().join("memory/x.md")).expect("store");
    assert_eq!(text, "a\nb\n");
    eventually("nothing is left", || (!it.store().join(".instancefs-swap").exists()).then_some(()));
    drop(p);
}

#[test]
fn files_of_a_directory_that_is_renamed_are_managed_at_once() {
    let it = Instance::with(&[("keep.txt", "")]);
    let event = r#"{"mission": "a", "run_at": "2026-12-01T09:00"}"#;
    it.sh(&format!(
        "mkdir d e; echo '{event}' > e/a.json; echo a > d/a.md; cat d/a.md e/a.json; \
                    mv d journal; mv e events; echo b >> journal/a.md; echo '[1]' > events/a.json; \
                    ls events/a.json.refused"
    ));
    assert_eq!(it.read("events/a.json"), format!("{event}\n"));
    let log = it
        .outside()
        .instancefs(&["-C", &it.store().display().to_string(), "log", "journal/a.md"])
        .ok();
    assert!(log.contains("by bash"), "{log}");
    // And plain again when it goes back.
    it.sh("mv events e; echo '[1]' > e/a.json; mv journal d; echo c >> d/a.md");
    assert_eq!(it.read("e/a.json"), "[1]\n");
    assert_eq!(it.read("d/a.md"), "a\nb\nc\n");
    assert_eq!(it.sh("find . -name '*.refused*'"), "./e/a.json.refused\n");
    // Nothing is removed from a queue by who has not read it.
    it.stranger("mv d journal; truncate -s 0 journal/a.md");
    assert_eq!(it.read("journal/a.md"), "a\nb\nc\n");
}

#[test]
fn the_history_says_who_made_removed_and_renamed_a_file() {
    let it = Instance::with(&[("memory/x.md", "a\n")]);
    let log = |file: &str| {
        let store = it.store().display().to_string();
        it.outside().instancefs(&["-C", &store, "log", file]).ok()
    };
    it.append("memory/x.md", "b");
    it.sh("rm memory/x.md; echo c > memory/x.md; mv memory/x.md memory/y.md; mv memory/y.md y.txt; mv y.txt memory/y.md");
    it.sh("mv memory mind; mv mind memory; mv memory/y.md memory/x.md");
    let strangers = |text: &str| text.matches("another program (store)").count();
    for file in ["memory/x.md", "memory/y.md"] {
        let log = log(file);
        assert_eq!(strangers(&log), 0, "{log}");
        assert!(log.contains("by mv"), "{log}");
    }
    // What was done without the mount is by somebody unknown, and what it was is said.
    it.unmount();
    std::fs::write(it.store().join("memory/x.md"), "c\nd\n").expect("write");
    it.mount();
    assert_eq!(it.read("memory/x.md"), "c\nd\n");
    let line = eventually("it is recorded", || {
        log("memory/x.md").lines().find(|l| l.contains("(store)")).map(str::to_owned)
    });
    assert!(line.ends_with("by another program (store): 1 line added"), "{line}");
}

#[test]
fn check_says_that_a_file_was_broken_behind_the_mount() {
    let it = Instance::fresh();
    it.sh("mkdir events; echo '{\"mission\": \"x\", \"run_at\": \"2026-01-01T00:00:00\"}' > events/a.json");
    let path = it.store().join("events/a.json");
    let check = || it.outside().instancefs(&["check".as_ref(), path.as_os_str()]);
    assert!(check().ok().contains("ok"));
    std::fs::write(&path, "{\"mission\": ").expect("write");
    let said = check().failed().stdout;
    assert!(said.contains("a.json") && said.contains("JSON"), "{said}");
}
