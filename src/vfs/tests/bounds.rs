//! What is kept in memory and beside the documents does not grow with the number of programs.

use super::*;
use crate::vfs::processes::Processes;

#[test]
fn what_dead_writers_had_seen_goes_but_for_the_newest_of_a_family() {
    let w = World::new();
    let parent = w.stranger("agent");
    for i in 0..200 {
        let child = parent.fork("worker");
        child.cat("missions.md").unwrap();
        child.append("missions.md", &format!("- by {i}\n")).unwrap();
        w.procs.with(child.process().id.pid, |p| p.alive = false);
    }
    let known = || w.tree.seen.len();
    assert_eq!(known(), 200);
    w.tree.seen.thin(|id| w.procs.alive(id));
    assert_eq!(known(), 16);
    // The newest ones count as before: their parent has seen what they saw.
    parent.save("missions.md", "# Missions\n\n## Pending\n- a\n").unwrap();
    assert!(w.docs.last().seen.is_some_and(|seen| seen.contains("- by 198")));
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
    w.tree.seen.thin(|id| w.procs.alive(id));
    assert_eq!(w.tree.seen.len(), 16 + 1);
    assert!(w.tree.seen.own(living.process().id, DocId::Missions).is_some());
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
