//! R3 and section 4: a save removes only what its writer has seen.

use mount_tests::{Instance, samples};

const THREE: &str = "## Pending\n- one\n- two\n- three\n\n## Done\n";

fn missions() -> Instance {
    Instance::with(&[("missions.md", THREE), ("config.json", "{\"a\": 1, \"b\": 2}\n")])
}

#[test]
fn lines_that_others_added_since_the_look_stay() {
    let it = missions();
    let mut p = it.python();
    p.run("text = open('missions.md').read()");
    it.append("missions.md", "- added meanwhile");
    it.edit("missions.md", "- three", "- three, edited meanwhile");
    p.run("open('missions.md', 'w').write(text.replace('- two\\n', ''))");
    assert_eq!(it.texts("pending"), ["one", "three, edited meanwhile", "added meanwhile"]);
}

#[test]
fn config_keys_that_others_set_since_the_look_stay() {
    let it = missions();
    let mut p = it.python();
    p.run("data = json.load(open('config.json'))");
    it.sh("jq '.c = 3 | .b = 20' config.json > t && mv t config.json");
    p.run("del data['a']\nopen('config.json', 'w').write(json.dumps(data))");
    assert_eq!(it.sh("jq -Sc . config.json").trim(), "{\"b\":20,\"c\":3}");
}

#[test]
fn a_blind_save_of_missions_only_adds() {
    let it = missions();
    // It has less than half of the first version, so that it says nothing of where it comes from.
    let text = "## Pending\\n- four\\n- two\\n- five\\n- six\\n\\n## Done\\n- one\\n";
    it.stranger(&format!("printf '{text}' > missions.md"));
    assert_eq!(it.texts("pending"), ["one", "two", "three", "four", "five", "six"]);
    assert_eq!(it.texts("done"), [] as [&str; 0], "nothing was moved");
}

#[test]
fn a_blind_save_without_a_header_queues_its_items() {
    let it = missions();
    it.sh("echo '- x' > missions.md");
    assert_eq!(it.texts("pending"), ["one", "two", "three", "x"]);
}

#[test]
fn a_blind_save_of_a_config_sets_keys() {
    let it = missions();
    it.sh("echo '{\"b\": 3, \"new\": true}' > config.json");
    assert_eq!(it.sh("jq -Sc . config.json").trim(), "{\"a\":1,\"b\":3,\"new\":true}");
}

#[test]
fn a_blind_rename_only_adds() {
    let it = missions();
    it.sh("printf '## Pending\\n- from a file\\n' > $SCRATCH/m; cp $SCRATCH/m t; mv t missions.md");
    assert_eq!(it.texts("pending"), ["one", "two", "three", "from a file"]);
}

#[test]
fn rule_1_what_was_read_through_the_same_handle_counts() {
    let it = missions();
    let mut p = it.python();
    p.run("f = open('missions.md', 'r+')\ntext = f.read()");
    it.append("missions.md", "- between");
    p.run("open('missions.md').read()");
    p.run("f.seek(0); f.truncate(); f.write(text.replace('- two\\n', '')); f.close()");
    assert_eq!(it.texts("pending"), ["one", "three", "between"]);
}

#[test]
fn rule_2_what_the_same_process_read_counts_however_long_ago() {
    let it = missions();
    let mut p = it.python();
    p.run("open('missions.md').read()");
    for i in 0..30 {
        it.append("missions.md", &format!("- other {i}"));
    }
    p.run("open('missions.md', 'w').write('## Pending\\n- one\\n\\n## Done\\n')");
    let left = it.texts("pending");
    assert_eq!(left.len(), 31, "the two that it had seen are gone, no other: {left:?}");
    assert!(!left.contains(&"two".to_owned()) && !left.contains(&"three".to_owned()));
}

#[test]
fn rule_2_a_read_in_one_thread_counts_for_a_save_in_another() {
    let it = missions();
    let mut p = it.python();
    p.run(
        "import threading\n\
         def go(f):\n  t = threading.Thread(target=f); t.start(); t.join()\n\
         go(lambda: open('missions.md').read())\n\
         go(lambda: open('missions.md', 'w').write('## Pending\\n- one\\n- three\\n\\n## Done\\n'))",
    );
    assert_eq!(it.texts("pending"), ["one", "three"]);
}

#[test]
fn rule_2_what_a_child_read_counts() {
    let it = missions();
    let mut p = it.python();
    p.run(
        "import subprocess\n\
         t = subprocess.run(['cat', 'missions.md'], capture_output=True, text=True).stdout\n\
         open('missions.md', 'w').write(t.replace('- two\\n', ''))",
    );
    assert_eq!(it.texts("pending"), ["one", "three"]);
}

#[test]
fn rule_3_a_look_by_another_command_of_the_same_shell_counts() {
    let it = missions();
    let mut shell = it.shell();
    shell.run("cat missions.md");
    shell.run("grep -v two missions.md > $SCRATCH/t; cat $SCRATCH/t > missions.md");
    assert_eq!(it.texts("pending"), ["one", "three"]);
    shell.run("grep -v three missions.md > t && mv t missions.md");
    assert_eq!(it.texts("pending"), ["one"]);
}

#[test]
fn rule_3_a_look_that_the_save_keeps_nothing_of_does_not_count() {
    let it = missions();
    let mut shell = it.shell();
    shell.run("cat missions.md");
    shell.run("echo '- x' > missions.md");
    assert_eq!(it.texts("pending"), ["one", "two", "three", "x"], "no queue was wiped");
}

#[test]
fn rule_3_a_look_in_another_session_of_the_same_agent_counts() {
    let it = missions();
    it.sh("cat missions.md");
    it.sh("printf '## Pending\\n- one\\n' > missions.md");
    assert_eq!(it.texts("pending"), ["one"]);
}

#[test]
fn after_a_save_the_writer_has_seen_what_it_wrote_not_what_the_merge_made() {
    let it = missions();
    let mut p = it.python();
    p.run("text = open('missions.md').read()");
    it.append("missions.md", "- by another");
    p.run(
        "text = text.replace('- one\\n', '- one, edited\\n')\nopen('missions.md', 'w').write(text)",
    );
    p.run("text = text.replace('- two\\n', '')\nopen('missions.md', 'w').write(text)");
    assert_eq!(it.texts("pending"), ["one, edited", "three", "by another"]);
}

#[test]
fn after_an_append_the_writer_has_seen_what_it_saw_plus_its_own_lines() {
    let it = missions();
    let mut p = it.python();
    p.run("text = open('missions.md').read()");
    it.append("missions.md", "- by another");
    p.run("open('missions.md', 'a').write('- mine\\n')");
    p.run("open('missions.md', 'w').write('## Pending\\n- one\\n- two\\n- three\\n\\n## Done\\n')");
    assert_eq!(
        it.texts("pending"),
        ["one", "two", "three", "by another"],
        "its own line is taken back, the other's stays"
    );
}

#[test]
fn a_renamed_source_counts_as_what_its_writer_had_seen() {
    let it = missions();
    let mut p = it.python();
    p.run("t = open('missions.md').read()\nopen('draft', 'w').write(t.replace('- two\\n', ''))");
    it.append("missions.md", "- after the draft");
    it.sh("mv draft missions.md");
    assert_eq!(it.texts("pending"), ["one", "three", "after the draft"]);
}

#[test]
fn jq_and_mv_in_one_shell_remove_what_they_saw() {
    let it = missions();
    it.sh("jq 'del(.a)' config.json > t && mv t config.json");
    assert_eq!(it.sh("jq -c . config.json").trim(), "{\"b\":2}");
}

#[test]
fn a_dead_process_leaves_its_record_to_its_parents_children() {
    let it = missions();
    let mut shell = it.shell();
    for round in ["one", "two"] {
        shell.run("cat missions.md > $SCRATCH/seen");
        shell.run(&format!("grep -v {round} $SCRATCH/seen > $SCRATCH/next"));
        shell.run("cp $SCRATCH/next missions.md");
    }
    assert_eq!(it.texts("pending"), ["three"]);
}

/// An editor has a document open while the daemon goes and comes back.
fn editor_over_a_restart(restart: impl FnOnce(&Instance)) {
    let it = missions();
    // Its working directory is outside: the old mount is gone for good.
    let mut p = it.outside().python_steps();
    let path = it.path("missions.md");
    p.run(&format!("path = {:?}\ntext = open(path).read()", path.to_str().expect("path")));
    it.append("missions.md", "- before the restart");
    restart(&it);
    it.append("missions.md", "- after the restart");
    p.run("open(path, 'w').write(text.replace('- two\\n', ''))");
    assert_eq!(it.texts("pending"), ["one", "three", "before the restart", "after the restart"]);
}

#[test]
fn a_restart_of_the_daemon_does_not_make_an_open_editor_blind() {
    editor_over_a_restart(Instance::remount);
}

#[test]
fn a_crash_of_the_daemon_does_not_make_an_open_editor_blind() {
    editor_over_a_restart(|it| {
        // What was read in the last moment before a crash may be forgotten.
        std::thread::sleep(std::time::Duration::from_secs(3));
        it.kill_daemon();
        it.mount();
    });
}

#[test]
fn a_blind_edit_in_place_starts_from_the_version_that_it_edits() {
    let it = missions();
    it.sh("printf 'ONE' | dd of=missions.md bs=1 seek=13 conv=notrunc status=none");
    assert_eq!(it.read("missions.md"), THREE.replace("- one", "- ONE"));
    assert_eq!(it.texts("pending"), ["ONE", "two", "three"]);
}

#[test]
fn copying_the_document_away_and_back_is_a_look_and_a_save() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.sh(
        "cp missions.md $SCRATCH/c; sed -i '/second task/d' $SCRATCH/c; cp $SCRATCH/c missions.md",
    );
    assert_eq!(it.count("second task [project:web]"), 0);
    assert_eq!(it.rows().len(), 5);
}
