//! What is said of a save: `why`, `log`, `user.instancefs.last-save`, and what writers may say
//! themselves: `instancefs as`, `user.instancefs.base`.

use mount_tests::Instance;
use serde_json::Value;

const MISSIONS: &str =
    "# Missions\n\n## Pending\n\n- alpha one\n- beta two\n- gamma three\n\n## Done\n";

fn instance() -> Instance {
    Instance::with(&[("missions.md", MISSIONS), ("config.json", "{\"a\": 1, \"b\": 2}\n")])
}

fn said(it: &Instance, args: &[&str]) -> Value {
    let mut all = vec!["-C", it.store().to_str().expect("path")]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    all.extend(args.iter().map(|a| (*a).to_owned()));
    let ran = it.outside().instancefs(&all).ok();
    let line = ran.lines().next().unwrap_or_default().to_owned();
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

fn newest(it: &Instance) -> Value {
    said(it, &["log", "missions.md", "--json", "-n", "1"])
}

#[test]
fn log_and_why_name_the_merge_base_and_the_rule() {
    let it = instance();
    // One agent: it reads in one call and writes in another, a stranger appends in between.
    let script = "bash -c 'cat missions.md > $SCRATCH/t'; sed -i /beta/d $SCRATCH/t; \
                  while [ ! -e $SCRATCH/go ]; do sleep 0.01; done; \
                  bash -c 'cat $SCRATCH/t > missions.md'";
    let agent = it.actor().spawn_bash(script);
    mount_tests::eventually("the read", || it.scratch("t").exists().then_some(()));
    it.stranger_appends("missions.md", "- delta four\n");
    std::fs::write(it.scratch("go"), "").expect("go");
    agent.wait().ok();
    let revision = newest(&it);
    assert_eq!(revision["basis"]["rule"], "kin", "{revision}");
    assert_eq!(revision["basis"]["others"], 1, "the append: {revision}");
    let rev = revision["rev"].to_string();
    assert_eq!(said(&it, &["why", &rev, "--json"]), revision);
    let store = it.store();
    let run = |args: &[&str]| {
        let mut all = vec!["-C".to_owned(), store.display().to_string()];
        all.extend(args.iter().map(|a| (*a).to_owned()));
        it.outside().instancefs(&all).ok()
    };
    let why = run(&["why", &rev]);
    let base = format!("merge base: revision {}\n", revision["base"]);
    assert!(why.contains(&base) && why.contains("rule: kin: the nearest kin"), "{why}");
    assert!(run(&["log", "-n", "1"]).contains("[kept 1 that the text did not have]"));
    assert!(run(&["blame", "missions.md"]).contains("delta four"));
    let notable = &it.status()["notable_saves"];
    assert_eq!(notable[0]["rev"], revision["rev"], "{notable}");
    it.outside()
        .instancefs(&["-C".as_ref(), store.as_os_str(), "why".as_ref(), "99999".as_ref()])
        .failed();
}

#[test]
fn a_blind_save_and_an_undo_are_called_so() {
    let it = instance();
    it.stranger("echo '- zeta nine' > missions.md");
    assert_eq!(newest(&it)["basis"]["rule"], "blind");
    assert_eq!(newest(&it)["basis"]["others"], 3);
    let it = instance();
    let mut p = it.python();
    p.run("t = open('missions.md').read(); open('missions.md', 'w').write(t.replace('- beta two\\n', ''))");
    let removal = newest(&it)["rev"].clone();
    p.run("import time; time.sleep(1.1); open('missions.md').read()");
    p.run("open('missions.md', 'w').write(t)");
    assert_eq!(it.read("missions.md"), MISSIONS);
    assert_eq!(newest(&it)["base"], removal, "{}", newest(&it));
}

#[test]
fn the_last_save_can_be_asked_for_where_it_was_made() {
    let it = instance();
    let last = "getfattr --only-values -n user.instancefs.last-save";
    let sh = format!(
        "{last} config.json 2>&1 | grep -q 'No such attribute' || exit 7
         python3 -c 'open(\"config.json\", \"w\").write(\"{{bad\")' || true
         {last} config.json; echo
         cat config.json > /dev/null; echo '{{\"a\": 3, \"b\": 2}}' > config.json; {last} config.yaml"
    );
    let out = it.stranger(&sh);
    let all: Vec<Value> = out
        .lines()
        .filter(|l| l.starts_with('{'))
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}")))
        .collect();
    assert_eq!(
        (&all[0]["result"], &all[0]["kept_as"]),
        (&"refused".into(), &"config.json.refused".into())
    );
    assert!(all[0]["message"].is_string() && all[0]["line"] == 1, "{}", all[0]);
    assert_eq!(all[1]["result"], "saved", "{}", all[1]);
    assert!(all[1]["rev"].is_number() && all[1]["basis"]["rule"].is_string(), "{}", all[1]);
}

#[test]
fn a_save_that_changes_nothing_though_its_text_is_another_one_is_told() {
    let it = Instance::with(&[("config.yaml", "version: 2\na: 1\nb: 2\n")]);
    let mut p = it.python();
    p.run("t = open('config.yaml').read(); open('config.yaml', 'w').write('version: 1\\na: 1\\n')");
    assert_eq!(it.read("config.yaml"), "version: 2\na: 1\nb: 2\n");
    let out =
        it.outside().instancefs(&["-C".as_ref(), it.store().as_os_str(), "log".as_ref()]).ok();
    assert!(out.contains("has changed nothing"), "{out}");
    assert_eq!(it.status()["refusals"]["count"], 0);
}

#[test]
fn processes_under_one_name_are_one_writer() {
    let it = instance();
    let named = |script: &str| {
        format!("{} as planner -- bash -c '{script}'", mount_tests::instancefs().display())
    };
    it.stranger(&named("cat missions.md > /dev/null"));
    it.stranger(&named("echo \"- omega ten\" > missions.md"));
    assert_eq!(it.read("missions.md"), "- omega ten\n", "as if one process had read and written");
    assert_eq!(newest(&it)["basis"]["rule"], "own");
    let it = instance();
    it.stranger(&named("cat missions.md > /dev/null"));
    it.stranger("echo '- omega ten' > missions.md");
    assert!(it.read("missions.md").contains("- beta two\n"), "somebody else is not");
    let failed = it.outside().instancefs(&["as", "x", "--", "true"]).failed();
    assert!(failed.stderr.contains("hint") || !failed.stderr.is_empty());
}

#[test]
fn a_handle_can_name_its_base() {
    let it = instance();
    it.stranger_appends("missions.md", "- delta four\n");
    let rev = newest(&it)["rev"].as_u64().expect("a revision");
    it.stranger_appends("missions.md", "- epsilon five\n");
    let program = format!(
        "import os
f = os.open('missions.md', os.O_WRONLY | os.O_TRUNC)
os.setxattr(f, 'user.instancefs.base', b'{rev}')
assert os.getxattr(f, 'user.instancefs.base') == b'{rev}'
os.write(f, b'## Pending\\n- omega ten\\n')
os.close(f)
"
    );
    std::fs::write(it.scratch("p.py"), program).expect("program");
    it.stranger("python3 $SCRATCH/p.py");
    let mut texts = it.texts("pending");
    texts.sort();
    assert_eq!(texts, ["epsilon five", "omega ten"], "what came later stays");
    it.stranger("! setfattr -n user.instancefs.base -v 1 missions.md 2> /dev/null");
}

#[test]
fn a_refused_text_is_saved_again_on_what_it_was_compared_with() {
    let it = instance();
    it.stranger(
        "cat config.json > /dev/null; printf '{\"a\": 5,\\n \"b\": }\\n' > config.json; true",
    );
    it.stranger_appends("config.yaml", "c: 3\n");
    it.stranger("sed 's/\"b\": /\"b\": 7/' config.json.refused > $SCRATCH/fixed; cat $SCRATCH/fixed > config.json");
    let now: Value = serde_json::from_str(&it.read("config.json")).expect("JSON");
    assert_eq!(
        now,
        serde_json::json!({"a": 5, "b": 7, "c": 3}),
        "on the version that it was made of"
    );
    // An append is added, not taken for the whole.
    it.stranger("printf -- '- ok\\n- bad \\xff\\n' >> missions.md; true");
    it.stranger("LC_ALL=C sed 's/ \\xff//' missions.md.refused > $SCRATCH/fixed; cp $SCRATCH/fixed missions.md");
    assert_eq!(it.texts("pending"), ["alpha one", "beta two", "gamma three", "ok", "bad"]);
}

#[test]
fn what_a_command_changes_its_caller_has_met() {
    let it = instance();
    let run = mount_tests::instancefs().display().to_string();
    let out = it.stranger(&format!(
        "cat missions.md > $SCRATCH/old
         grep -v beta $SCRATCH/old > missions.md
         {run} restore missions.md@1
         grep -v beta $SCRATCH/old > missions.md"
    ));
    assert!(out.contains("restored"), "{out}");
    assert!(
        !it.read("missions.md").contains("beta"),
        "the second one counts from the restored text"
    );
}
