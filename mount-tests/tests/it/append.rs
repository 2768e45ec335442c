//! R5: appending adds.

use mount_tests::{Instance, eventually, samples};

#[test]
fn an_appended_item_is_queued_at_the_end_of_pending() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.sh("echo '- fix login' >> missions.md");
    let told = it
        .sh("sqlite3 -cmd '.timeout 10000' missions.db 'select text,state from missions order by sequence desc limit 1'");
    assert_eq!(told, "fix login|pending\n");
    let text = it.read("missions.md");
    let (at, next) = (text.find("- fix login\n"), text.find("## In Progress"));
    assert!(at.is_some() && at < next, "in the Pending section:\n{text}");
    assert_eq!(text.replace("- fix login\n", ""), samples::MISSIONS, "nothing else moved");
}

#[test]
fn a_bare_line_does_the_same() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.sh("echo 'fix login' >> missions.md");
    assert_eq!(it.texts("pending").last().map(String::as_str), Some("fix login"));
    it.sh("printf 'no newline' >> missions.md");
    assert_eq!(it.texts("pending").last().map(String::as_str), Some("no newline"));
}

#[test]
fn an_append_queues_whatever_section_the_file_ends_with() {
    for last in ["## Done\n- d\n", "## Failed\n- f\n", "## Notes\ntext\n", "## Pending\n- p\n", ""]
    {
        let it = Instance::with(&[("missions.md", &format!("# M\n\n## Pending\n- a\n\n{last}"))]);
        it.sh("echo '- new' >> missions.md");
        assert_eq!(it.texts("pending").last().map(String::as_str), Some("new"), "{last:?}");
    }
}

#[test]
fn an_append_to_a_fresh_store_works() {
    let it = Instance::fresh();
    it.sh("echo '- first ever' >> missions.md");
    assert_eq!(it.texts("pending"), ["first ever"]);
    assert!(it.read("missions.md").contains("## Pending\n- first ever\n"));
}

#[test]
fn an_appended_header_counts_within_the_append() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    it.sh("printf '## Done\\n- was done elsewhere\\n' >> missions.md");
    assert!(it.texts("done").contains(&"was done elsewhere".to_owned()));
}

#[test]
fn equal_appends_are_two_missions() {
    let it = Instance::fresh();
    it.sh("echo '- twice' >> missions.md; echo '- twice' >> missions.md");
    assert_eq!(it.count("twice"), 2);
}

#[test]
fn appends_of_many_processes_are_all_kept_whole_and_in_their_order() {
    let it = Instance::fresh();
    let script = "for i in $(seq 40); do echo \"- w$0 n$i\" >> missions.md || exit 1; done";
    let all: Vec<_> =
        (0..6).map(|w| it.actor().spawn("bash", &["-c", script, &w.to_string()])).collect();
    for one in all {
        one.wait().ok();
    }
    let texts = it.texts("pending");
    assert_eq!(texts.len(), 240);
    for w in 0..6 {
        let own: Vec<&str> =
            texts.iter().map(String::as_str).filter(|t| t.starts_with(&format!("w{w} "))).collect();
        let want: Vec<String> = (1..=40).map(|i| format!("w{w} n{i}")).collect();
        assert_eq!(own, want, "writer {w}");
    }
}

#[test]
fn an_append_handle_survives_a_replacement_of_the_file() {
    let it = Instance::fresh();
    let mut p = it.python();
    p.run("f = open('missions.md', 'a')\nf.write('- before\\n')\nf.flush()\nos.fsync(f.fileno())");
    it.sh("sed 's/# Missions/# My missions/' missions.md > t; mv t missions.md");
    p.run("f.write('- after\\n')\nf.close()");
    assert_eq!(it.texts("pending"), ["before", "after"]);
    assert!(it.read("missions.md").contains("# My missions"));
}

#[test]
fn a_long_lived_append_handle_commits_whole_lines_by_itself() {
    let it = Instance::fresh();
    let mut p = it.python();
    p.run("fd = os.open('missions.md', os.O_WRONLY|os.O_APPEND)\nos.write(fd, b'- whole line\\n- half a l')");
    eventually("the whole line", || (it.count("whole line") == 1).then_some(()));
    assert_eq!(it.texts("pending"), ["whole line"]);
    p.run("os.write(fd, b'ine\\n')");
    eventually("the second line", || (it.count("half a line") == 1).then_some(()));
    p.kill();
    assert_eq!(it.texts("pending"), ["whole line", "half a line"]);
}

#[test]
fn killing_an_appender_loses_only_its_unfinished_line() {
    let it = Instance::fresh();
    let mut p = it.python();
    p.run("fd = os.open('missions.md', os.O_WRONLY|os.O_APPEND)\nos.write(fd, b'- done\\n- never fin')");
    p.kill();
    eventually("the finished line", || (it.texts("pending") == ["done"]).then_some(()));
    assert!(!it.read("missions.md").contains("never fin"));
}

#[test]
fn the_offset_of_an_appending_write_is_ignored() {
    let it = Instance::with(&[("missions.md", samples::MISSIONS)]);
    let mut p = it.python();
    p.run("fd = os.open('missions.md', os.O_RDWR|os.O_APPEND)\nos.lseek(fd, 0, 0)\nos.write(fd, b'- at the end\\n')\nos.close(fd)");
    assert_eq!(it.count("at the end"), 1);
    assert_eq!(it.rows().len(), 7);
}

#[test]
fn a_yaml_append_sets_a_key() {
    let it = Instance::with(&[("config.yaml", samples::CONFIG_YAML)]);
    it.sh("echo 'added: yes please' >> config.yaml");
    assert_eq!(it.sh("jq -r .added config.json").trim(), "yes please");
    assert!(it.read("config.yaml").starts_with(samples::CONFIG_YAML));
    it.sh("echo 'max_parallel: 4' >> config.yaml");
    assert_eq!(it.sh("jq .max_parallel config.json").trim(), "4");
    assert_eq!(it.read("config.yaml").matches("max_parallel").count(), 1);
}

#[test]
fn tee_a_and_node_append_add() {
    let it = Instance::fresh();
    it.sh("echo '- by tee' | tee -a missions.md >/dev/null");
    it.actor().node("require('fs').appendFileSync('missions.md', '- by node\\n')", &[]).ok();
    it.actor().python("open('missions.md','a').write('- by python\\n')", &[]).ok();
    assert_eq!(it.texts("pending"), ["by tee", "by node", "by python"]);
}
