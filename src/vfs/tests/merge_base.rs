//! Section 4: which version did the writer start from? (The rule itself: `fs::observed::tests`.)

use super::*;
use crate::model::Rule;

const NOW: &str = "# Missions\n\n## Pending\n- a\n- b\n- z\n";

/// `reader` reads, somebody adds a mission, `writer` saves `text`; what had it seen?
fn seen_after(w: &World, reader: P<'_>, writer: P<'_>, text: &str) -> Option<String> {
    reader.cat("missions.md").unwrap();
    w.docs.publish(DocId::Missions, Some(NOW));
    writer.save("missions.md", text).unwrap();
    w.docs.last().seen
}

#[test]
fn the_version_read_through_the_same_handle_comes_first() {
    let w = World::new();
    let p = w.stranger("python");
    let fd = p.open("missions.md", RW).unwrap();
    p.read_on(fd);
    w.docs.publish(DocId::Missions, Some(NOW));
    p.cat("missions.md").unwrap();
    p.ftruncate(fd, 0).unwrap();
    p.seek(fd, 0);
    p.write(fd, "# Missions\n\n## Pending\n- a\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    assert!(w.text().contains("- z"), "what it had not read stays");
    assert!(!w.text().contains("- b"));
}

#[test]
fn the_processs_own_newest_look_counts_however_old_and_from_any_thread() {
    let w = World::new();
    let p = w.stranger("node");
    p.cat("missions.md").unwrap();
    w.docs.publish(DocId::Missions, Some(NOW));
    w.clock.forward(3_600_000);
    let fd = p.open_by(&p.thread(3), "missions.md", WR | TRUNC).unwrap();
    p.write_by(&p.thread(4), fd, b"- entirely new\n").unwrap();
    p.close_by(&p.thread(5), fd).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    assert_eq!(w.docs.count(), 1);
}

#[test]
fn after_a_save_the_writer_has_seen_what_it_wrote() {
    let w = World::new();
    let p = w.stranger("node");
    p.cat("missions.md").unwrap();
    w.docs.publish(DocId::Missions, Some(NOW));
    let mine = format!("{FIRST}- mine\n");
    p.save("missions.md", &mine).unwrap();
    assert!(w.text().contains("- z"));
    p.save("missions.md", "# Missions\n\n## Pending\n- a\n").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(&mine[..]));
    assert!(w.text().contains("- z"), "it has never seen this one");
    assert!(!w.text().contains("- mine"));
}

#[test]
fn a_text_that_was_written_anew_owes_nothing_to_what_was_there() {
    let w = World::new();
    let (p, blind) = (w.stranger("python"), w.stranger("dd"));
    p.append("missions.md", "- mine\n").unwrap();
    for (writer, seen) in [(p, Some("- mine\n")), (blind, None)] {
        let fd = writer.open("missions.md", RW).unwrap();
        let text = "# Missions\n\n## Pending\n- a\n";
        writer.write(fd, &text[..9]).unwrap();
        writer.write(fd, &text[9..]).unwrap();
        writer.ftruncate(fd, text.len() as u64).unwrap();
        writer.close(fd).unwrap();
        assert_eq!(w.docs.last().seen.as_deref(), seen);
        assert!(w.text().contains("- b\n"), "nobody had seen it");
    }
}

#[test]
fn after_an_append_the_writer_has_seen_its_own_lines_besides() {
    let w = World::new();
    let p = w.stranger("bash");
    p.append("missions.md", "- c\n").unwrap();
    assert_eq!(w.docs.last().seen, None);
    p.save("missions.md", "# Missions\n").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some("- c\n"));
    assert!(w.text().contains("- a\n- b\n"));
    assert!(!w.text().contains("- c"));
}

#[test]
fn an_append_adds_to_what_the_kin_have_met() {
    let w = World::new();
    let agent = w.stranger("agent");
    agent.fork("cat").cat("missions.md").unwrap();
    agent.fork("bash").append("missions.md", "- c\n").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    // What the agent takes out then is out, its own line stays.
    agent.fork("tee").save("missions.md", "# Missions\n\n## Pending\n- a\n- c\n").unwrap();
    assert_eq!(w.text(), "# Missions\n\n## Pending\n- a\n- c\n");
}

#[test]
fn a_childs_look_counts_if_the_save_keeps_a_line() {
    for (text, seen) in [("## Pending\n- a\n", Some(FIRST)), ("## Pending\n- x\n", None)] {
        let w = World::new();
        let p = w.stranger("agent");
        let child = p.fork("cat");
        assert_eq!(seen_after(&w, child, p, text).as_deref(), seen, "{text:?}");
    }
}

#[test]
fn the_nearer_of_own_and_childs_look_is_taken() {
    let w = World::new();
    let p = w.stranger("agent");
    p.cat("missions.md").unwrap();
    w.docs.publish(DocId::Missions, Some(NOW));
    p.fork("cat").cat("missions.md").unwrap();
    p.save("missions.md", &format!("{NOW}- x\n")).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(NOW));
    let w = World::new();
    let p = w.stranger("agent");
    p.cat("missions.md").unwrap();
    w.docs.publish(DocId::Missions, Some(NOW));
    p.fork("cat").cat("missions.md").unwrap();
    p.save("missions.md", &format!("{FIRST}- x\n")).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
}

#[test]
fn two_calls_of_one_agent_are_kin_in_whatever_session() {
    for (text, seen) in [("- b\n- x\n", Some(FIRST)), ("- x\n- y\n- z\n", None)] {
        let w = World::new();
        let agent = w.stranger("agent").process();
        let cat = w.spawn("cat", Some(&agent), 0);
        cat.cat("missions.md").unwrap();
        cat.exit();
        w.docs.publish(DocId::Missions, Some(NOW));
        let shell = w.spawn("bash", Some(&agent), 0).process();
        w.spawn("tee", Some(&shell), 0).save("missions.md", text).unwrap();
        assert_eq!(w.docs.last().seen.as_deref(), seen, "{text:?}");
    }
}

#[test]
fn a_config_counts_by_its_keys_and_their_values() {
    for (text, seen) in [("{\"b\": 2}\n", true), ("{\"b\": 3}\n", false), ("{\"c\": 3}\n", false)] {
        let w = World::new();
        let sh = w.stranger("bash");
        sh.fork("cat").cat("config.json").unwrap();
        sh.fork("tee").save("config.json", text).unwrap();
        assert_eq!(w.docs.last().seen.is_some(), seen, "{text:?}");
    }
}

#[test]
fn a_polling_daemon_lends_nothing_to_a_blind_child() {
    let w = World::new();
    let daemon = w.stranger("daemon");
    let agent = daemon.fork("agent");
    assert_eq!(seen_after(&w, daemon, agent, "- x\n- y\n"), None);
    daemon.save("missions.md", "- a\n- saved\n").unwrap();
    daemon.fork("agent").save("missions.md", "- other\n- things\n").unwrap();
    assert_eq!(w.docs.last().seen, None);
    assert_eq!(w.docs.last().basis.rule, Rule::Blind);
}

#[test]
fn strangers_are_judged_by_what_they_write() {
    for (text, rule) in [
        ("# Missions\n\n## Pending\n- a\n- b\n- x\n", Rule::Stranger),
        ("- a\n- x\n- y\n", Rule::Blind),
        (FIRST, Rule::Blind),
    ] {
        let w = World::new();
        w.stranger("cat").cat("missions.md").unwrap();
        w.docs.publish(DocId::Missions, Some(NOW));
        w.stranger("tee").save("missions.md", text).unwrap();
        assert_eq!(w.docs.last().basis.rule, rule, "{text:?}");
        assert!(w.text().contains("- b\n- z\n"), "{text:?}");
    }
}

#[test]
fn a_process_that_cannot_be_told_is_a_stranger_of_its_user() {
    let w = World::new();
    let p = P { w: &w, pid: 0 };
    let who = p.who();
    let node = Tree::node_of(View::MissionsMd);
    let r = w.tree.open(&who, node, RD).unwrap().fh;
    assert_eq!(w.tree.read(&who, node, r, 0, 4096).unwrap(), FIRST.as_bytes());
    let h = w.tree.open(&who, node, WR | TRUNC).unwrap().fh;
    w.tree.write(&who, node, h, 0, b"- b\n", 0).unwrap();
    w.tree.flush(&who, node, h).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST), "half of it is there");
    w.tree.release(node, h).unwrap();
    w.tree.release(node, r).unwrap();
    let h = w.tree.open(&who, node, WR | TRUNC).unwrap().fh;
    w.tree.write(&who, node, h, 0, b"- x\n", 0).unwrap();
    w.tree.flush(&who, node, h).unwrap();
    assert_eq!(w.docs.last().seen, None);
    w.tree.release(node, h).unwrap();
}

#[test]
fn a_reused_pid_is_another_process() {
    let w = World::new();
    let p = w.stranger("old");
    p.cat("missions.md").unwrap();
    w.procs.with(p.pid, |proc| proc.process.id.ident += 1);
    p.save("missions.md", "- q\n").unwrap();
    assert_eq!(w.docs.last().seen, None);
}

#[test]
fn the_writer_of_a_renamed_source_counts_as_of_its_writing() {
    let w = World::new();
    let sh = w.stranger("bash");
    // jq '.a=1' config.json > tmp; then somebody else changes it, and mv.
    let jq = sh.fork("jq");
    let out = jq.open("tmp", WR | CREAT | TRUNC).unwrap();
    jq.cat("config.json").unwrap();
    jq.write(out, "{\"a\": 9}\n").unwrap();
    jq.close(out).unwrap();
    w.docs.publish(DocId::Config, Some("{\"a\":1,\"b\":2,\"z\":3}\n"));
    jq.cat("config.json").unwrap();
    jq.exit();
    sh.fork("mv").rename("tmp", "config.json").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some("{\"a\": 1, \"b\": 2}\n"));
    assert_eq!(w.config(), "{\"a\":9,\"z\":3}\n");
}

#[test]
fn a_source_whose_writer_saw_nothing_is_judged_by_the_renamer() {
    let w = World::new();
    std::fs::write(w.dir.path().join("tmp"), "- a\n- x\n").unwrap();
    let p = w.stranger("mover");
    p.cat("missions.md").unwrap();
    p.stat("tmp").unwrap();
    p.rename("tmp", "missions.md").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
}

#[test]
fn a_save_nearer_to_an_older_read_started_from_that_one() {
    let w = World::new();
    let p = w.stranger("dashboard");
    p.cat("missions.md").unwrap();
    w.docs.publish(DocId::Missions, Some(NOW));
    p.cat("missions.md").unwrap();
    p.save("missions.md", &format!("{FIRST}- posted\n")).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    assert_eq!(w.docs.last().basis.candidates.len(), 2);
    assert!(w.text().contains("- z\n- posted\n"));
    p.cat("missions.md").unwrap();
    let now = w.text();
    p.save("missions.md", &format!("{now}- more\n")).unwrap();
    assert_eq!(w.docs.last().seen, Some(now));
}

#[test]
fn an_open_editor_is_not_blind_after_a_restart_of_the_daemon() {
    let mut w = World::new();
    let (reader, saver) = (w.stranger("vim").pid, w.stranger("emacs").pid);
    P { w: &w, pid: reader }.cat("missions.md").unwrap();
    w.docs.publish(DocId::Missions, Some(NOW));
    let mine = "# Missions\n\n## Pending\n- own\n";
    P { w: &w, pid: saver }.save("missions.md", mine).unwrap();
    w.clock.forward(1500);
    w.tree.tick();
    w.restart();
    let (reader, saver) = (P { w: &w, pid: reader }, P { w: &w, pid: saver });
    reader.save("missions.md", "- x\n").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    saver.save("missions.md", "- y\n").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(mine));
}

#[test]
fn a_look_that_could_not_be_kept_is_kept_at_the_next_occasion() {
    let mut w = World::new();
    let pid = w.stranger("vim").pid;
    P { w: &w, pid }.cat("missions.md").unwrap();
    w.memory.busy.store(true, std::sync::atomic::Ordering::SeqCst);
    for _ in 0..2 {
        w.clock.forward(1500);
        w.tree.tick();
    }
    w.restart();
    w.docs.publish(DocId::Missions, Some(NOW));
    P { w: &w, pid }.save("missions.md", "- x\n").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
}

#[test]
fn what_was_read_before_a_restart_counts_beside_what_was_read_after_it() {
    let mut w = World::new();
    let pid = w.stranger("dashboard").pid;
    P { w: &w, pid }.cat("missions.md").unwrap();
    w.clock.forward(1500);
    w.tree.tick();
    w.restart();
    w.docs.publish(DocId::Missions, Some(NOW));
    let p = P { w: &w, pid };
    p.cat("missions.md").unwrap();
    // The newer look takes the place of the older one on record.
    w.clock.forward(1500);
    w.tree.tick();
    p.save("missions.md", &format!("{FIRST}- posted\n")).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    assert_eq!(w.docs.last().basis.candidates.len(), 2);
}

#[test]
fn a_name_that_was_renamed_away_and_made_anew_is_replaced() {
    let w = World::new();
    let p = w.stranger("fileinput");
    p.rename("missions.md", "missions.md.bak").unwrap();
    p.save("missions.md", "- x\n").unwrap();
    assert_eq!(w.docs.last().basis.rule, Rule::Unlinked);
    assert_eq!(w.text(), "- x\n");
    // What has come meanwhile, and nobody has met, stays.
    let w = World::new();
    let p = w.stranger("fileinput");
    p.rename("missions.md", "missions.md.bak").unwrap();
    assert_eq!(p.cat("missions.md.bak").unwrap(), FIRST);
    w.docs.publish(DocId::Missions, Some(NOW));
    p.save("missions.md", "- b\n- x\n").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    assert_eq!(w.text(), "- b\n- z\n- x\n");
}

#[test]
fn who_holds_missions_lock_saves_under_it() {
    let w = World::new();
    let lock = std::fs::File::create(w.dir.path().join("missions.lock")).unwrap();
    let koan = w.stranger("koan");
    let child = koan.fork("python");
    child.append("missions.md", "- free\n").unwrap();
    assert!(!w.docs.last().under_their_lock);
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    w.procs.with(koan.pid, |p| p.holds = vec![1]);
    child.append("missions.md", "- held\n").unwrap();
    assert!(w.docs.last().under_their_lock);
    w.stranger("other").append("missions.md", "- other\n").unwrap();
    assert!(!w.docs.last().under_their_lock);
}

#[test]
fn a_copy_made_by_the_kernel_is_no_look_but_reading_it_is() {
    let w = World::new();
    let p = w.stranger("emacs");
    let from = p.open("missions.md", RD).unwrap();
    let to = p.open("copy", WR | CREAT).unwrap();
    let (a, b) = (p.get(from), p.get(to));
    let size = FIRST.len() as u32;
    let copied = w.tree.copy_file_range(&p.who(), a.node, a.fh, 0, b.node, b.fh, 0, 1 << 40);
    assert_eq!(copied.unwrap(), size);
    assert_eq!(w.file("copy").as_deref(), Some(FIRST));
    p.close(to).unwrap();
    p.save("missions.md", "- x\n").unwrap();
    assert_eq!(w.docs.last().seen, None);
    let q = w.stranger("editor");
    assert_eq!(q.cat("copy").unwrap(), FIRST);
    q.save("missions.md", "- y\n").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
}

#[test]
fn a_read_for_a_backup_is_no_look() {
    let w = World::new();
    let p = w.stranger("vim");
    p.cat("missions.md").unwrap();
    w.docs.publish(DocId::Missions, Some(NOW));
    p.save("missions.md~", &p.cat("missions.md").unwrap()).unwrap();
    p.save("missions.md", &format!("{FIRST}- mine\n")).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    assert!(w.text().contains("- z\n- mine\n"));
}

#[test]
fn what_a_writer_has_saved_it_knows_wherever_else_it_put_the_text() {
    let w = World::new();
    let p = w.stranger("agent");
    p.cat("missions.md").unwrap();
    let text = format!("{FIRST}- c\n");
    p.save("missions.md", &text).unwrap();
    p.save("copy", &text).unwrap();
    // In its lines nearer to what it had read at first.
    let edited = format!("{FIRST}- c, edited\n");
    p.save("missions.md", &edited).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(&text[..]));
    assert_eq!(w.text(), edited);
}
