//! History: every revision can be named, read and brought back, and whoever wants to know of a
//! new one is told.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use mount_tests::{Instance, Ran, Running, eventually, samples};
use serde_json::Value;

fn run(it: &Instance, args: &[&str]) -> Ran {
    let store = it.store();
    let mut all = vec!["-C".as_ref(), store.as_os_str()];
    all.extend(args.iter().map(std::convert::AsRef::<std::ffi::OsStr>::as_ref));
    it.outside().instancefs(&all)
}

fn log(it: &Instance, doc: &str) -> Vec<Value> {
    let text = run(it, &["log", doc, "--json"]).ok();
    text.lines().map(|l| serde_json::from_str(l).expect("json")).collect()
}

fn newest(it: &Instance, doc: &str) -> u64 {
    log(it, doc).first().and_then(|e| e["rev"].as_u64()).expect("a revision")
}

#[test]
fn any_of_200_revisions_comes_back_byte_for_byte_and_names_its_maker() {
    let it = Instance::builder()
        .file("missions.md", samples::MISSIONS)
        .watchdog(Duration::from_secs(300))
        .start();
    let mut texts: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut makers: HashMap<u64, (String, u32)> = HashMap::new();
    let mut note = |it: &Instance, program: &str, pid: u32| {
        let rev = newest(it, "missions.md");
        texts.insert(rev, it.bytes("missions.md"));
        makers.insert(rev, (program.to_owned(), pid));
    };
    let mut python = it.python();
    let mut shell = it.shell();
    for n in 0..50 {
        python.run(&format!(
            "t = open('missions.md').read()\nopen('missions.md','w').write(t.replace('## Pending\\n', '## Pending\\n- python {n}\\n', 1))"
        ));
        note(&it, "python3", python.pid());
        shell.run(&format!("echo '- shell {n}' >> missions.md"));
        note(&it, "bash", shell.pid());
        let sed = it
            .actor()
            .spawn("sed", &["-i", &format!("s/- shell {n}$/- sed {n}  /"), "missions.md"]);
        let pid = sed.pid();
        sed.wait().ok();
        note(&it, "sed", pid);
        let db = it.database();
        db.execute(
            "update missions set text = ?1 where text = ?2",
            [format!("sql {n}"), format!("python {n}")],
        )
        .expect("sql");
        note(&it, "", 0);
    }
    assert_eq!(texts.len(), 200);
    for entry in log(&it, "missions.md") {
        let rev = entry["rev"].as_u64().expect("rev");
        let Some((program, pid)) = makers.get(&rev) else { continue };
        let named = entry["program"].as_str().expect("program");
        assert!(named.starts_with(program.as_str()), "{entry}, made by {program}");
        assert_eq!(entry["pid"], *pid, "{entry}");
        assert_eq!(entry["via"], if program.is_empty() { "sql" } else { "mount" });
    }
    let mut revs: Vec<u64> = texts.keys().copied().collect();
    revs.sort_unstable();
    for (n, rev) in revs.iter().enumerate() {
        let name = format!("missions.md@{rev}");
        assert_eq!(run(&it, &["show", &name]).ok().as_bytes(), texts[rev], "{name}");
        let past = format!(".instancefs/history/missions.md/{rev:06}.md");
        assert_eq!(it.bytes(&past), texts[rev], "{past}");
        // Back and forth, so that each restore has something to do.
        if n % 2 == 0 {
            let other = revs[revs.len() - 1 - n];
            for rev in [other, *rev] {
                run(&it, &["restore", &format!("missions.md@{rev}")]).ok();
                assert_eq!(it.bytes("missions.md"), texts[&rev], "restored {rev}");
            }
        }
    }
    let last = &log(&it, "missions.md")[0];
    assert_eq!(
        (last["program"].as_str(), last["via"].as_str()),
        (Some("instancefs"), Some("command"))
    );
    assert!(last["summary"].as_str().expect("summary").starts_with("restored from "), "{last}");
}

#[test]
fn restore_and_appends_at_the_same_time() {
    let it = Instance::with(&[("missions.md", "## Pending\n- first\n\n## Done\n")]);
    let rev = newest(&it, "missions");
    let first = it.bytes("missions.md");
    it.append("missions.md", "- second");
    let appender =
        it.actor().spawn_bash("for i in $(seq 60); do echo \"- app $i\" >> missions.md; done");
    let mut made = Vec::new();
    for _ in 0..10 {
        run(&it, &["restore", &format!("missions.md@{rev}")]).ok();
        made.push(log(&it, "missions"));
    }
    appender.wait().ok();
    let restored: Vec<u64> = log(&it, "missions")
        .iter()
        .filter(|e| e["via"] == "command")
        .map(|e| e["rev"].as_u64().expect("rev"))
        .collect();
    assert!(!restored.is_empty());
    for rev in restored {
        assert_eq!(run(&it, &["show", &format!("missions@{rev}")]).ok().as_bytes(), first);
    }
    // What was undone is in the history: every append made a revision.
    let appends = log(&it, "missions").iter().filter(|e| e["program"] == "bash").count();
    assert_eq!(appends, 61);
}

#[test]
fn wait_and_watch_see_a_row_inserted_with_sqlite3() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS), ("config.json", "{\"a\": 1}\n")]);
    let (store, since) = (it.store(), newest(&it, "missions").to_string());
    let start = |args: &[&str]| {
        let mut all = vec!["-C", store.to_str().expect("path")];
        all.extend(args);
        it.outside().spawn(mount_tests::instancefs(), &all)
    };
    let mut watch = start(&["watch", "--json"]);
    let mut missions = start(&["watch", "missions.md", "--since", &since]);
    let wait = start(&["wait", "missions.md", "--since", &since, "--timeout", "20"]);
    let other = start(&["wait", "config.json", "--timeout", "2"]);
    std::thread::sleep(Duration::from_millis(300));
    it.sh("sqlite3 -cmd '.timeout 10000' missions.db \"insert into missions(text,state,sequence) values('from sql','pending',99)\"");
    let rev = wait.wait().ok();
    let entry = eventually("the row in watch", || {
        let text = watch.stdout();
        let line = text.lines().find(|l| l.contains("\"sql\""))?.to_owned();
        serde_json::from_str::<Value>(&line).ok()
    });
    assert_eq!(entry["rev"].to_string(), rev.trim());
    missions.until(&format!("{} ", rev.trim()));
    other.wait().exits(1);
    // Saves of all kinds follow, in order, each once.
    for n in 0..20 {
        it.append("missions.md", &format!("- line {n}"));
    }
    it.sh("jq '.a=2' config.json > config.tmp && mv config.tmp config.json");
    let revs = eventually("all revisions", || {
        let text = watch.stdout();
        let revs: Vec<u64> = text
            .lines()
            .filter_map(|l| serde_json::from_str::<Value>(l).ok()?["rev"].as_u64())
            .collect();
        (revs.len() >= 22).then_some(revs)
    });
    assert_eq!(revs.len(), 22);
    assert!(revs.windows(2).all(|w| w[0] < w[1]), "{revs:?}");
    watch.signal(libc::SIGINT);
    watch.wait().ok();
    it.unmount();
    missions.wait().ok();
}

#[test]
fn a_watcher_that_reads_nothing_holds_nobody_up() {
    let it = Instance::with(&[("missions.md", "## Pending\n- a\n")]);
    let store = it.store();
    let watch = it
        .outside()
        .spawn(mount_tests::instancefs(), &["-C".as_ref(), store.as_os_str(), "watch".as_ref()]);
    std::thread::sleep(Duration::from_millis(300));
    watch.signal(libc::SIGSTOP);
    for n in 0..50 {
        it.append("missions.md", &format!("- {n}"));
    }
    watch.signal(libc::SIGCONT);
    let mut watch = watch;
    eventually("all of them", || (watch.stdout().lines().count() == 50).then_some(()));
    let head = it.outside().spawn_bash(&format!(
        "{} -C {} watch | head -n 1",
        mount_tests::instancefs().display(),
        store.display()
    ));
    std::thread::sleep(Duration::from_millis(300));
    it.append("missions.md", "- one more");
    it.append("missions.md", "- and another");
    assert_eq!(head.wait().ok().lines().count(), 1);
    watch.signal(libc::SIGINT);
    watch.wait().ok();
}

/// `instancefs watch --lines DOC`, once it has begun.
fn watch_lines(it: &Instance, doc: &str) -> Running {
    let store = it.store();
    let since = run(it, &["log", doc, "-n", "1", "--json"]).ok();
    let since: Value = serde_json::from_str(since.trim()).expect("a revision");
    let since = since["rev"].to_string();
    let all = ["-C", store.to_str().expect("path"), "watch", "--lines", doc, "--since", &since];
    it.outside().spawn(mount_tests::instancefs(), &all)
}

#[test]
fn watch_tells_of_each_line_once_whoever_saves_in_a_burst() {
    let it = Instance::with(&[
        ("missions.md", "## Pending\n- first\n\n## Done\n"),
        ("config.json", "{\n  \"a\": 1\n}\n"),
        ("memory/a.md", "# a\n- one\n"),
    ]);
    it.stranger_appends("memory/a.md", "- two\n");
    it.append("missions.md", "- second");
    let mut missions = watch_lines(&it, "missions.md");
    let mut note = watch_lines(&it, "memory/a.md");
    let mut config = watch_lines(&it, "config.yaml");
    it.sh("for p in 1 2 3; do \
             (for n in $(seq 20); do echo \"- of $p: number $n\" >> missions.md; done) & \
           done; \
           for n in $(seq 20); do \
             sqlite3 -cmd '.timeout 10000' missions.db \"insert into missions(text,state,sequence) \
               values('row $n','pending',1000 + $n)\"; \
           done; wait");
    it.edit("missions.md", "- first", "- above the end\n- first");
    it.edit("missions.md", "- second", "- second one");
    let mut expected: Vec<String> = (1..=3)
        .flat_map(|p| (1..=20).map(move |n| format!("+ - of {p}: number {n}")))
        .chain((1..=20).map(|n| format!("+ - row {n}")))
        .collect();
    expected.extend(["+ - above the end".to_owned(), "~ - second one".to_owned()]);
    expected.sort();
    eventually("the last line", || missions.stdout().contains("- second one\n").then_some(()));
    let mut told: Vec<String> = missions.stdout().lines().map(str::to_owned).collect();
    told.sort();
    assert_eq!(told, expected);
    it.sh("cat memory/a.md > /dev/null; printf '# a\\n- two\\n- three \\033[31m\\n' > memory/a.md");
    it.sh("mv memory/a.md memory/gone.txt");
    note.until("- # a\n");
    assert_eq!(
        note.stdout(),
        "- - one\n+ - three \\x1b[31m\n- # a\n- - two\n- - three \\x1b[31m\n"
    );
    it.edit("config.json", "1", "2");
    config.until("~ a: 2\n");
}

#[test]
fn watch_and_wait_tell_of_refused_saves_and_of_overlaps() {
    let it = Instance::with(&[
        ("missions.md", "## Pending\n- a\n- b\n"),
        ("config.json", "{\n  \"a\": 1\n}\n"),
        ("memory/a.md", "# a\n"),
    ]);
    let store = it.store();
    let start = |args: &[&str]| {
        let mut all = vec!["-C", store.to_str().expect("path")];
        all.extend(args);
        it.outside().spawn(mount_tests::instancefs(), &all)
    };
    let mut everything = start(&["watch"]);
    let mut objects = start(&["watch", "--json"]);
    let mut config = start(&["watch", "config"]);
    let both = start(&["wait", "config", "--refused", "--timeout", "30"]);
    let version = start(&["wait", "config", "--timeout", "30"]);
    let other = start(&["wait", "missions.md", "--refused", "--timeout", "30"]);
    std::thread::sleep(Duration::from_millis(500));
    it.sh("echo '{\"a\": }' > config.json || true; cat config.json.refused > $SCRATCH/kept");
    let said = both.wait().exits(4).stdout;
    assert!(
        said.starts_with("refused 20") && said.contains(" config.json by bash (pid "),
        "{said}"
    );
    assert!(
        said.contains("line 1: ") && said.ends_with("text is in config.json.refused\n"),
        "{said}"
    );
    everything.until(&said);
    config.until(&said);
    // It waits for a version, and now there is one.
    it.edit("config.json", "1", "2");
    let rev = version.wait().ok();
    everything.until(&format!("\n{} ", rev.trim()));
    // Two change one line.
    let mut shell = it.shell();
    shell.run("sed 's/- a/- a one/' missions.md > $SCRATCH/one");
    it.edit("missions.md", "- a\n", "- a two\n");
    let second = other.wait().ok();
    shell.run("cat $SCRATCH/one > missions.md");
    everything.until(" [1 overlap: ");
    let all = eventually("the overlap", || {
        let text = objects.stdout();
        text.contains("\"overlaps\":1").then_some(text)
    });
    let all: Vec<Value> =
        all.lines().map(|l| serde_json::from_str(l).expect("an object")).collect();
    let kinds: Vec<&str> = all.iter().map(|e| e["event"].as_str().expect("an event")).collect();
    assert_eq!(kinds, ["refused", "saved", "saved", "saved"]);
    let refused = &all[0];
    assert_eq!(refused["kept_as"], "config.json.refused");
    assert_eq!((&refused["document"], &refused["file"]), (&"config".into(), &"config.json".into()));
    assert!(refused["reason"].is_string() && refused["message"].is_string(), "{refused}");
    let last = &all[3];
    assert_eq!(last["overlapping"].as_array().map(Vec::len), Some(1), "{last}");
    assert_eq!(
        (&all[2]["overlaps"], &all[2]["rev"].to_string()),
        (&0.into(), &second.trim().into())
    );
    // Another command of the shell had read the first revision.
    assert_eq!((&last["base"], &last["basis"]["rule"]), (&1.into(), &"kin".into()), "{last}");
    assert!(!config.stdout().contains("missions"), "{}", config.stdout());
}

#[test]
fn the_hidden_directory_shows_every_revision() {
    let it = Instance::with(&[
        ("missions.md", "## Pending\n- a\n"),
        ("config.yaml", samples::CONFIG_YAML),
    ]);
    it.actor()
        .python("for i in range(1200): open('missions.md','a').write(f'- line {i}\\n')", &[])
        .ok();
    let dir = it.path(".instancefs/history");
    let entries = it.names(".instancefs/history");
    assert_eq!(
        entries,
        [
            "config",
            "config.json",
            "config.yaml",
            "missions",
            "missions-quarantine.md",
            "missions.md",
            "quarantine"
        ]
    );
    let revs: Vec<u64> =
        log(&it, "missions").iter().rev().map(|e| e["rev"].as_u64().expect("rev")).collect();
    let names: Vec<String> = revs.iter().map(|r| format!("{r:06}.md")).collect();
    assert_eq!(it.names(".instancefs/history/missions.md").len(), names.len());
    assert_eq!(it.names(".instancefs/history/missions/."), names, "by the document's name too");
    let newest = dir.join("missions.md").join(names.last().expect("name"));
    let meta = newest.metadata().expect("stat");
    assert_eq!(meta.len(), it.bytes("missions.md").len() as u64);
    assert_eq!(std::fs::read(&newest).expect("read"), it.bytes("missions.md"));
    assert_eq!(meta.mode() & 0o7777, 0o444);
    let age = SystemTime::now().duration_since(meta.modified().expect("mtime")).expect("past");
    assert!(age < Duration::from_secs(60), "{age:?}");
    let same = it.path("missions.md").metadata().expect("stat");
    assert_eq!((meta.mtime(), meta.mtime_nsec()), (same.mtime(), same.mtime_nsec()));
    assert!(std::fs::write(&newest, "x").is_err());
    assert!(std::fs::remove_file(&newest).is_err());
    assert!(std::fs::write(dir.join("missions.md/new"), "x").is_err());
    let none = std::fs::read(dir.join("missions.md/999999.md")).expect_err("no such revision");
    assert_eq!(none.raw_os_error(), Some(libc::ENOENT));
    for (name, doc) in [("config.yaml", "yaml"), ("config.json", "json")] {
        let rev = log(&it, "config")[0]["rev"].as_u64().expect("rev");
        assert_eq!(it.bytes(&format!(".instancefs/history/{name}/{rev:06}.{doc}")), it.bytes(name));
    }
    // Not in the way of those who crawl.
    assert!(!it.sh("find . -name '000*'").contains("000"));
    // What retention takes away is gone here too.
    run(&it, &["retention", "--max-count", "10"]).ok();
    let left = it.names(".instancefs/history/missions.md");
    assert!(left.len() < 120, "{}", left.len());
    let gone = std::fs::metadata(dir.join("missions.md").join(&names[0]));
    let written_out = left.contains(&names[0]);
    assert_eq!(gone.is_err(), !written_out);
    let gone = std::fs::metadata(dir.join("missions.md").join(&names[1])).expect_err("gone");
    assert_eq!(gone.raw_os_error(), Some(libc::ENOENT));
    it.append("missions.md", "- after");
    it.remount();
    assert!(it.read("missions.md").ends_with("- after\n"));
}

#[test]
fn status_lists_refusals_and_overlaps_with_their_makers() {
    let it = Instance::with(&[
        ("missions.md", "## Pending\n- a\n- b\n"),
        ("config.json", "{\"a\": 1}\n"),
    ]);
    it.actor().bash("echo '{bad' > config.json").failed();
    let mut p = it.python();
    p.run("t = open('missions.md').read()");
    it.stranger_saves("missions.md", "## Pending\n- a by another\n- b\n");
    p.run("open('missions.md','w').write(t.replace('- a\\n', '- a by python\\n'))");
    let status = it.status();
    let refusal = &status["refusals"]["last"][0];
    assert_eq!(
        (refusal["file"].as_str(), refusal["program"].as_str()),
        (Some("config.json"), Some("bash"))
    );
    assert!(refusal["at"].is_string() && refusal["message"].is_string(), "{refusal}");
    let overlap = &status["overlaps"][0];
    assert_eq!(overlap["document"], "missions");
    assert!(overlap["program"].as_str().expect("program").starts_with("python"), "{overlap}");
    assert_eq!(overlap["pid"], p.pid());
    let text = run(&it, &["status"]).ok();
    assert!(text.contains("refusals:") && text.contains("overlaps:"), "{text}");
    let kept = refusal["kept_as"].as_str().expect("kept");
    let path = it.path(kept);
    let check = it.outside().instancefs(&["check".as_ref(), path.as_os_str()]).exits(1);
    assert!(check.stdout.contains(&format!("{kept}:")), "{}", check.stdout);
}
