//! What is kept in memory and beside the documents does not grow with the number of programs.

use super::*;
use crate::process::Processes;
use crate::vfs::budget::Held;

#[test]
fn what_dead_writers_had_met_goes_but_for_the_newest_versions() {
    let w = World::new();
    let parent = w.stranger("agent");
    for i in 0..200 {
        let child = parent.fork("worker");
        child.cat("missions.md").unwrap();
        child.append("missions.md", &format!("- by {i}\n")).unwrap();
        w.procs.with(child.process().id.pid, |p| p.alive = false);
    }
    let known = || w.tree.observed.len();
    assert_eq!(known(), 400, "a read and a save each");
    w.tree.observed.thin(|id| w.procs.alive(id));
    assert!(known() <= 2 * 64, "{}", known());
    // The newest ones count as before: their parent has met what they met.
    let text = w.text().replace("- b\n", "");
    parent.save("missions.md", &text).unwrap();
    assert!(w.docs.last().seen.is_some_and(|seen| seen.contains("- by 199")));
    assert_eq!(w.text(), text);
}

#[test]
fn strangers_leave_no_more_than_some_records() {
    let w = World::new();
    for _ in 0..300 {
        let one = w.stranger("one");
        one.cat("missions.md").unwrap();
        w.procs.with(one.process().id.pid, |p| p.alive = false);
    }
    let living = w.stranger("editor");
    living.cat("missions.md").unwrap();
    w.tree.observed.thin(|id| w.procs.alive(id));
    assert_eq!(w.tree.observed.len(), 16 + 1);
    let living = w.tree.observed.who(Some(&living.process()), w.uid);
    assert!(w.tree.observed.own_newest(&living, DocId::Missions).is_some());
}

#[test]
fn the_oldest_refused_text_of_a_program_makes_room_for_its_newest() {
    let w = World::new();
    let person = w.stranger("vim");
    person.save("config.json", "{person").unwrap_err();
    for i in 0..150 {
        w.stranger("loop").save("config.json", &format!("{{bad {i}")).unwrap_err();
    }
    let names = w.names(".refused");
    assert_eq!(names.len(), 100);
    let all: Vec<String> = names.iter().filter_map(|n| w.file(n)).collect();
    let has = |what: &str| all.iter().any(|text| text.ends_with(what));
    assert!(has("{person"), "another program's stays");
    assert!(has("{bad 149") && has("{bad 51") && !has("{bad 50"));
}

#[test]
fn what_one_call_has_met_does_not_go_for_the_sake_of_others() {
    let w = World::new();
    let parent = w.stranger("agent");
    let cat = parent.fork("cat");
    cat.cat("missions.md").unwrap();
    cat.exit();
    for _ in 0..40 {
        // Each in a session of its own.
        let worker = w.spawn("worker", Some(&parent.process()), 0);
        worker.cat("missions.md").unwrap();
        worker.exit();
    }
    w.tree.observed.thin(|id| w.procs.alive(id));
    assert!(w.tree.observed.len() < 64);
    w.docs.publish(DocId::Missions, Some("# Missions\n\n## Pending\n- a\n- b\n- z\n"));
    parent.fork("tee").save("missions.md", "- b\n- x\n").unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
}

#[test]
fn a_text_of_which_nothing_found_room_is_refused_at_close() {
    let w = World::new();
    let mut all: [Held; 16] = Default::default();
    for held in &mut all {
        w.tree.buffers.hold(held, 1 << 20).unwrap();
    }
    let p = w.stranger("program");
    let fd = p.open("missions.md", RW).unwrap();
    p.write(fd, "# Missions\n- mine\n").unwrap_err();
    let closed = p.close(fd);
    assert!(matches!(closed, Err(Error::Refused(_))), "{closed:?}");
    assert_eq!(w.names(".refused").len(), 1);
    assert_eq!(w.text(), FIRST);
    drop(all);
    assert_eq!(w.tree.buffers.taken(), 0);
}

#[test]
fn what_is_saved_takes_no_room_in_handles_that_append() {
    let w = World::new();
    let p = w.stranger("logger");
    let fd = p.open("missions.md", WR | APPEND).unwrap();
    p.write(fd, "- one\n").unwrap();
    assert_eq!(w.tree.buffers.taken(), 6);
    p.fsync(fd).unwrap();
    assert!(w.text().contains("- one\n"));
    assert_eq!(w.tree.buffers.taken(), 0);
    p.close(fd).unwrap();
}
