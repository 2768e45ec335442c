//! R1.

use super::*;

#[test]
fn a_read_is_one_version_taken_at_the_first_read() {
    let w = World::new();
    let p = w.stranger("reader");
    let fd = p.open("missions.md", RD).unwrap();
    let v2 = w.docs.publish(DocId::Missions, Some("- one\n- two\n"));
    assert_eq!(p.read_some(fd, 4), "- on");
    w.docs.publish(DocId::Missions, Some("xxxxxxxxxxxxxxxxxxxxxx"));
    assert_eq!(p.read_some(fd, 100), "e\n- two\n");
    assert_eq!(p.pread(fd, 0, 100).unwrap(), "- one\n- two\n");
    assert_eq!(v2.rev.0, 4);
}

#[test]
fn after_end_of_file_the_next_read_moves_on() {
    let w = World::new();
    let p = w.stranger("tail");
    let fd = p.open("missions.md", RD).unwrap();
    assert_eq!(p.read_on(fd), FIRST);
    w.docs.publish(DocId::Missions, Some(&format!("{FIRST}- c\n")));
    assert_eq!(p.read_on(fd), "- c\n");
}

#[test]
fn a_second_end_of_file_brings_no_piece_of_another_version() {
    let w = World::new();
    let p = w.stranger("pyyaml");
    let fd = p.open("missions.md", RD).unwrap();
    assert_eq!(p.read_on(fd), FIRST);
    w.docs.publish(DocId::Missions, Some("- something else, and longer than what was read\n"));
    assert_eq!(p.read_on(fd), "");
    // A look that comes later does move on, and so does one from the beginning.
    w.clock.forward(1_000);
    assert_eq!(p.read_on(fd).len(), 48 - FIRST.len());
    w.docs.publish(DocId::Missions, Some("- third\n"));
    assert_eq!(p.pread(fd, 0, 100).unwrap(), "- third\n");
}

#[test]
fn a_short_read_is_not_yet_the_end() {
    let w = World::new();
    let p = w.stranger("cat");
    let fd = p.open("missions.md", RD).unwrap();
    assert_eq!(p.read_some(fd, 4096), FIRST);
    w.docs.publish(DocId::Missions, Some(&format!("{FIRST}- c\n")));
    assert_eq!(p.read_some(fd, 4096), "");
}

#[test]
fn a_version_that_nobody_asked_for_is_not_kept_for_the_first_read() {
    let w = World::new();
    let p = w.stranger("editor");
    let early = p.open("missions.md", RD).unwrap();
    // Calls that are answered with attributes, without anybody's having asked for them.
    let fd = p.open("missions.md", WR | CREAT | TRUNC).unwrap();
    p.write(fd, "- mine\n- and more\n").unwrap();
    p.ftruncate(fd, 7).unwrap();
    p.close(fd).unwrap();
    let now = w.text();
    assert!(now.contains("- mine"));
    assert_eq!(p.read_on(early), now);
}

/// `open` as the kernel does it: it asks for the attributes first, to check permissions.
fn open_checked(p: P<'_>, name: &str, flags: i32) -> Fd {
    let (parent, file) = p.at(name);
    let node = p.w.tree.lookup(&p.who(), parent, &file).unwrap().node;
    p.w.tree.getattr(&p.who(), node, None).unwrap();
    let fh = p.w.tree.open(&p.who(), node, flags).unwrap().fh;
    let fd = p.w.number();
    p.w.open.lock().insert(fd, Open { node, fh, flags, offset: 0, count: 0 });
    p.attach(fd, node, flags);
    fd
}

#[test]
fn what_the_kernel_asks_for_before_an_open_pins_nothing() {
    let w = World::new();
    let p = w.stranger("python");
    let unread = open_checked(p, "missions.md", RD);
    let again = open_checked(p, "missions.md", RD);
    w.docs.publish(DocId::Missions, Some("- new\n"));
    assert_eq!(p.read_on(unread), "- new\n");
    // What `stat` has told before that open counts, by name or by descriptor.
    let asked: [&dyn Fn(); 2] =
        [&|| drop(p.stat("missions.md")), &|| assert_ne!(p.fstat(again).size, 0)];
    for (n, ask) in asked.into_iter().enumerate() {
        let pinned = open_checked(p, "missions.md", RD);
        let told = w.text();
        ask();
        w.docs.publish(DocId::Missions, Some(&format!("- newer {n}\n")));
        let other = open_checked(p, "missions.md", RD);
        assert_eq!(p.read_on(pinned), told);
        assert_eq!(p.read_on(other), w.text());
    }
}

#[test]
fn a_process_reads_the_version_that_it_was_told_the_size_of() {
    let w = World::new();
    let p = w.stranger("rsync");
    let fd = p.open("missions.md", RD).unwrap();
    let size = p.fstat(fd).size;
    w.docs.publish(DocId::Missions, Some("- much longer than before, so that a size tells\n"));
    assert_eq!(p.read_on(fd).len() as u64, size);
    // A stat by somebody else changes nothing.
    let q = w.stranger("other");
    let fd = q.open("missions.md", RD).unwrap();
    p.stat("missions.md").unwrap();
    w.docs.publish(DocId::Missions, Some("- new\n"));
    assert_eq!(q.read_on(fd), "- new\n");
}

#[test]
fn a_lock_holder_reads_what_is_current_whatever_it_was_told() {
    let w = World::new();
    let p = w.stranger("locker");
    let fd = p.open("missions.md", RW).unwrap();
    p.fstat(fd);
    w.docs.publish(DocId::Missions, Some("- new\n"));
    p.lock(fd, true);
    assert_eq!(p.read_on(fd), "- new\n");
}

#[test]
fn a_lock_holder_gets_what_others_wrote_under_their_lock() {
    let w = World::new();
    let (p, q) = (w.stranger("p"), w.stranger("q"));
    let a = p.open("config.json", RW).unwrap();
    p.lock(a, true);
    p.read_on(a);
    p.ftruncate(a, 0).unwrap();
    p.seek(a, 0);
    p.write(a, "{\"a\": 2, \"b\": 2}\n").unwrap();
    p.lock(a, false);
    let b = q.open("config.json", RW).unwrap();
    // Without a lock it is just another uncommitted handle.
    let r = w.stranger("r");
    assert_eq!(r.cat("config.json").unwrap(), "{\"a\": 1, \"b\": 2}\n");
    q.lock(b, true);
    assert_eq!(q.read_on(b), "{\"a\": 2, \"b\": 2}\n");
    assert_eq!(w.docs.count(), 1);
    p.close(a).unwrap();
    assert_eq!(w.docs.count(), 1, "nothing was left to commit");
}

#[test]
fn a_long_lived_locked_counter_loses_nothing() {
    let w = World::new();
    w.docs.publish(DocId::Config, Some("{\"n\":0}\n"));
    let ps = [w.stranger("p"), w.stranger("q"), w.stranger("r")];
    let fds = ps.map(|p| p.open("config.json", RW).unwrap());
    // Past 9, where the text grows, and past 99.
    for _ in 0..40 {
        for (p, fd) in ps.iter().zip(fds) {
            p.lock(fd, true);
            // As a program in C would: exactly the size, never to the end of file.
            let size = p.fstat(fd).size as u32;
            let text = p.pread(fd, 0, size).unwrap();
            assert!(text.ends_with("}\n"), "{text:?}");
            let n: u32 = text.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
            let text = format!("{{\"n\":{}}}\n", n + 1);
            p.seek(fd, 0);
            p.write(fd, &text).unwrap();
            p.ftruncate(fd, text.len() as u64).unwrap();
            p.lock(fd, false);
        }
    }
    for (p, fd) in ps.iter().zip(fds) {
        p.close(fd).unwrap();
    }
    assert_eq!(w.config(), "{\"n\":120}\n");
}

#[test]
fn the_writing_handle_reads_what_it_has_written_and_nobody_else_does() {
    let w = World::new();
    let p = w.stranger("python");
    let fd = p.open("missions.md", RW | TRUNC).unwrap();
    assert_eq!(p.pread(fd, 0, 100).unwrap(), "");
    p.write(fd, "- mine\n").unwrap();
    assert_eq!(p.pread(fd, 0, 100).unwrap(), "- mine\n");
    assert_eq!(p.cat("missions.md").unwrap(), FIRST);
    assert_eq!(w.stranger("q").cat("missions.md").unwrap(), FIRST);
    p.close(fd).unwrap();
}

#[test]
fn only_a_process_that_wrote_is_told_its_buffers_size() {
    let w = World::new();
    let (p, q) = (w.stranger("p"), w.stranger("q"));
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    assert_eq!(p.stat("missions.md").unwrap().size, FIRST.len() as u64, "only truncated");
    p.write(fd, "- mine\n").unwrap();
    assert_eq!(p.stat("missions.md").unwrap().size, 7);
    assert_eq!(q.stat("missions.md").unwrap().size, FIRST.len() as u64);
    p.close(fd).unwrap();
    assert_eq!(p.stat("missions.md").unwrap().size, w.text().len() as u64);
}

#[test]
fn mtime_moves_with_the_content_and_utimens_is_honoured() {
    let w = World::new();
    let p = w.stranger("touch");
    let before = p.stat("missions.md").unwrap();
    assert_eq!(p.stat("missions.md").unwrap(), before);
    let node = Tree::node_of(View::MissionsMd);
    let time = crate::model::Stamp(5);
    let set = SetAttr { mtime: Some(SetTime::To(time)), ..SetAttr::default() };
    w.tree.setattr(&p.who(), node, &set).unwrap();
    assert_eq!(p.stat("missions.md").unwrap().mtime, time);
    p.append("missions.md", "- c\n").unwrap();
    assert!(p.stat("missions.md").unwrap().mtime > before.mtime);
}

#[test]
fn the_daemons_own_touch_changes_nothing() {
    let w = World::new();
    let p = w.stranger("x");
    let before = p.stat("missions.md").unwrap();
    let mut me = p.process();
    me.id.pid = 999_999;
    w.procs.all.lock().insert(
        999_999,
        FakeProc { process: me, alive: true, exit: Exit::No, fds: Vec::new(), holds: Vec::new() },
    );
    let who = Caller { tid: 9_999_990, uid: 0, gid: 0 };
    let set = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
    w.tree.setattr(&who, Tree::node_of(View::MissionsMd), &set).unwrap();
    assert_eq!(p.stat("missions.md").unwrap(), before);
    assert_eq!(w.docs.count(), 0);
}

#[test]
fn numbers_and_modes_survive_a_remount() {
    let mut w = World::new();
    let p = w.stranger("chmod");
    let pid = p.pid;
    let node = Tree::node_of(View::MissionsMd);
    let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    w.tree.setattr(&Caller { uid: 0, ..p.who() }, node, &set).unwrap();
    p.save("new", &format!("{FIRST}- c\n")).unwrap();
    let ino = p.stat("new").unwrap().ino;
    p.rename("new", "missions.md").unwrap();
    let before = p.stat("missions.md").unwrap();
    assert_eq!(before.ino, ino, "the renamed file's number");
    w.restart();
    let after = P { w: &w, pid }.stat("missions.md").unwrap();
    assert_eq!((after.ino, after.perm), (ino, 0o600));
}

#[test]
fn seek_finds_data_up_to_the_end_and_the_hole_there() {
    let w = World::new();
    let p = w.stranger("cp");
    let fd = p.open("missions.md", RD).unwrap();
    let o = p.get(fd);
    let size = FIRST.len() as i64;
    let seek = |at, whence| w.tree.lseek(&p.who(), o.node, o.fh, at, whence);
    assert_eq!(seek(3, libc::SEEK_DATA).unwrap(), 3);
    assert_eq!(seek(3, libc::SEEK_HOLE).unwrap(), size);
    assert!(matches!(seek(size, libc::SEEK_DATA), Err(Error::Os(rustix::io::Errno::NXIO))));
}
