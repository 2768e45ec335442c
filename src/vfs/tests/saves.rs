//! Section 5: when a save is complete. One test for each rule and its exceptions.

use super::*;

const NEW: &str = "# Missions\n\n## Pending\n- a\n- b\n- c\n";

#[test]
fn rule_1_an_edit_in_place_starts_from_the_version_read_through_the_handle() {
    let w = World::new();
    let p = w.stranger("python");
    let fd = p.open("missions.md", RW).unwrap();
    p.read_on(fd);
    w.docs.publish(DocId::Missions, Some("# Missions\n\n## Pending\n- z\n- a\n- b\n"));
    let at = FIRST.find("- b").unwrap() as u64;
    p.seek(fd, at);
    p.write(fd, "- B\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.docs.last().written, FIRST.replace("- b", "- B"));
    assert_eq!(w.docs.last().seen.as_deref(), Some(FIRST));
    assert!(w.text().contains("- z\n- a\n"));
}

#[test]
fn rule_1_an_edit_in_place_without_a_read_starts_from_the_current_version() {
    let w = World::new();
    let p = w.stranger("dd");
    let fd = p.open("missions.md", WR).unwrap();
    let now = "# Missions\n\n## Pending\n- z\n";
    w.docs.publish(DocId::Missions, Some(now));
    p.seek(fd, now.find("- z").unwrap() as u64);
    p.write(fd, "- y\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.docs.last().seen.as_deref(), Some(now));
    assert_eq!(w.text(), now.replace("- z", "- y"));
}

#[test]
fn rule_1_writing_behind_the_end_of_what_was_read_continues_the_current_version() {
    let w = World::new();
    let p = w.stranger("python");
    let fd = p.open("missions.md", RW).unwrap();
    p.read_on(fd);
    let now = format!("{FIRST}- c\n");
    w.docs.publish(DocId::Missions, Some(&now));
    p.seek(fd, p.fstat(fd).size);
    p.write(fd, "- d\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.text(), format!("{now}- d\n"));
}

#[test]
fn rule_2_a_flush_before_any_write_commits_nothing() {
    let w = World::new();
    let p = w.stranger("bash");
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    p.dup(fd);
    p.close(fd).unwrap();
    assert_eq!(w.docs.count(), 0);
    p.write(fd, NEW).unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.docs.count(), 1);
}

#[test]
fn rule_3_a_flush_with_another_descriptor_left_commits_nothing() {
    let w = World::new();
    let p = w.stranger("bash");
    // exec 3> f; echo … >&3; echo … >&3; exec 3>&-
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    for line in ["- one\n", "- two\n"] {
        p.dup(fd);
        p.write(fd, line).unwrap();
        p.close(fd).unwrap();
        assert_eq!(w.docs.count(), 0);
    }
    p.close(fd).unwrap();
    assert_eq!(w.docs.last().written, "- one\n- two\n");
    assert_eq!(w.docs.count(), 1);
}

#[test]
fn rule_3_another_handle_of_the_flusher_is_not_another_descriptor() {
    let w = World::new();
    let p = w.stranger("node");
    let a = p.open("missions.md", WR | TRUNC).unwrap();
    let b = p.open("missions.md", WR | TRUNC).unwrap();
    p.write(a, NEW).unwrap();
    p.close(a).unwrap();
    assert_eq!(w.docs.count(), 1);
    p.write(b, NEW).unwrap();
    p.close(b).unwrap();
}

#[test]
fn rule_3_children_of_a_group_flush_their_parts_and_the_shell_commits() {
    let w = World::new();
    let sh = w.stranger("bash");
    let fd = sh.open("missions.md", WR | TRUNC).unwrap();
    for part in ["# Missions\n\n", "## Pending\n- a\n- b\n- c\n"] {
        let cat = sh.fork("cat");
        cat.write(fd, part).unwrap();
        cat.close(fd).unwrap();
        cat.exit();
    }
    assert_eq!(w.docs.count(), 0);
    sh.close(fd).unwrap();
    assert_eq!(w.docs.last().written, NEW);
    assert_eq!(w.docs.last().actor.program, "bash");
}

#[test]
fn rule_3_a_child_that_closes_what_it_inherited_commits_nothing() {
    let w = World::new();
    let p = w.stranger("python");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, "{\"a\": ").unwrap();
    let child = p.fork("python");
    child.close(fd).unwrap();
    p.write(fd, "7}\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.docs.count(), 1);
    assert!(w.config().contains('7'));
}

#[test]
fn rule_3_when_the_opener_is_gone_the_writers_flush_commits() {
    let w = World::new();
    let sh = w.stranger("bash");
    let fd = sh.open("missions.md", WR | TRUNC).unwrap();
    let slow = sh.fork("slow");
    sh.exit();
    slow.write(fd, NEW).unwrap();
    slow.close(fd).unwrap();
    assert_eq!(w.docs.count(), 1);
}

#[test]
fn rule_3_while_another_writer_still_has_it_nothing_is_committed() {
    let w = World::new();
    let p = w.stranger("server");
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    let child = p.fork("worker");
    p.write(fd, "# Missions\n\n## Pending\n- a\n").unwrap();
    child.write(fd, "- b\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.docs.count(), 0);
    child.close(fd).unwrap();
    assert_eq!(w.docs.count(), 1);
}

#[test]
fn rule_3_fsync_always_commits() {
    let w = World::new();
    let p = w.stranger("nano");
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    p.dup(fd);
    p.write(fd, NEW).unwrap();
    p.fsync(fd).unwrap();
    assert_eq!(w.docs.count(), 1);
    assert_eq!(w.docs.syncs.load(std::sync::atomic::Ordering::SeqCst), 1);
    p.close(fd).unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.docs.count(), 1);
}

#[test]
fn rule_3_what_is_written_after_a_commit_continues_the_same_text() {
    let w = World::new();
    let p = w.stranger("writer");
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    p.write(fd, "- one\n").unwrap();
    p.fsync(fd).unwrap();
    w.stranger("other").append("missions.md", "- middle\n").unwrap();
    p.write(fd, "- two\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.docs.last().written, "- one\n- two\n");
    assert_eq!(w.docs.last().seen.as_deref(), Some("- one\n"));
    for line in ["- a", "- b", "- one", "- two", "- middle"] {
        assert_eq!(w.text().matches(line).count(), 1, "{line}");
    }
}

#[test]
fn rule_4_after_a_refusal_more_text_can_still_win() {
    let w = World::new();
    let p = w.stranger("python");
    p.cat("config.json").unwrap();
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, "{\"a\": 3").unwrap();
    refused(p.fsync(fd));
    assert!(w.file("config.json.refused").unwrap().ends_with("{\"a\": 3"));
    p.write(fd, "}\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.config(), "{\"a\": 3}\n");
    assert_eq!(w.names(".refused"), [""; 0]);
}

#[test]
fn rule_5_release_commits_what_no_flush_did() {
    let w = World::new();
    let p = w.stranger("mmap");
    let fd = p.open("missions.md", RW).unwrap();
    p.read_on(fd);
    let o = p.get(fd);
    // The mapping outlives the descriptor: its page arrives after the flush, from nobody.
    w.tree.flush(&p.who(), o.node, o.fh).unwrap();
    let nobody = Caller { tid: 0, uid: 0, gid: 0 };
    let page = FIRST.replace("- b", "- B");
    w.tree.write(&nobody, o.node, o.fh, 0, page.as_bytes(), 0).unwrap();
    w.tree.release(o.node, o.fh).unwrap();
    assert_eq!(w.text(), page);
}

#[test]
fn rule_6_opened_and_never_written_is_no_save() {
    let w = World::new();
    let p = w.stranger("micro");
    for flags in [WR, RW, WR | APPEND] {
        let fd = p.open("missions.md", flags).unwrap();
        p.close(fd).unwrap();
    }
    assert_eq!(w.docs.count(), 0);
    assert_eq!(w.names("missions.md"), [""; 0]);
}

#[test]
fn rule_7_a_killed_writers_text_is_kept_and_not_saved() {
    let w = World::new();
    let p = w.stranger("cat");
    let pid = p.pid;
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    p.write(fd, "- half of it\n").unwrap();
    p.kill();
    assert_eq!(w.docs.count(), 0);
    assert_eq!(w.file(&format!("missions.md.unsaved-{pid}")).unwrap(), "- half of it\n");
    assert_eq!(w.tree.status().unsaved, 1);
}

#[test]
fn rule_7_an_exit_without_close_is_a_save() {
    let w = World::new();
    let p = w.stranger("prog");
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    p.write(fd, NEW).unwrap();
    p.exit();
    assert_eq!(w.docs.count(), 1);
}

#[test]
fn rule_7_a_killed_child_of_a_group_spoils_the_groups_text() {
    let w = World::new();
    let sh = w.stranger("bash");
    let fd = sh.open("missions.md", WR | TRUNC).unwrap();
    let cat = sh.fork("cat");
    cat.write(fd, "- half\n").unwrap();
    cat.kill();
    assert_eq!(w.docs.count(), 0);
    sh.close(fd).unwrap();
    assert_eq!(w.docs.count(), 0);
    assert_eq!(w.names(".unsaved-").len(), 1);
}

#[test]
fn rule_7_truncated_and_killed_leaves_nothing() {
    let w = World::new();
    let p = w.stranger("sleep");
    p.open("missions.md", WR | TRUNC).unwrap();
    p.kill();
    assert_eq!(w.names("missions.md"), [""; 0]);
    assert_eq!(w.text(), FIRST);
}

#[test]
fn rule_7_a_killed_append_loses_only_its_unfinished_line() {
    let w = World::new();
    let p = w.stranger("logger");
    let fd = p.open("missions.md", WR | APPEND).unwrap();
    p.write(fd, "- whole\n- unfini").unwrap();
    p.kill();
    assert_eq!(w.text(), format!("{FIRST}- whole\n"));
    assert_eq!(w.names("missions.md"), [""; 0]);
}

#[test]
fn rule_8_a_blank_save_is_refused_by_every_route() {
    let w = World::new();
    let p = w.stranger("x");
    let blank = |r| assert_eq!(refused(r).reason, crate::model::Reason::Empty);
    blank(p.save("missions.md", " \n\n"));
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    blank(p.fsync(fd));
    blank(p.close(fd));
    let fd = p.open("missions.md", WR).unwrap();
    p.ftruncate(fd, 0).unwrap();
    blank(p.close(fd));
    p.save("temp", "").unwrap();
    blank(p.rename("temp", "missions.md"));
    assert!(p.stat("temp").is_ok(), "the source stays");
    let set = SetAttr { size: Some(0), ..SetAttr::default() };
    let q = w.stranger("truncate");
    blank(w.tree.setattr(&q.who(), Tree::node_of(View::MissionsMd), &set).map(|_| ()));
    assert_eq!(w.text(), FIRST);
    assert!(w.file("missions.md.refused").unwrap().contains("hint: "));
}

#[test]
fn rule_8_a_redirection_that_writes_nothing_is_refused_at_the_end() {
    let w = World::new();
    let p = w.stranger("bash");
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    p.dup(fd);
    p.close(fd).unwrap();
    assert_eq!(w.names(".refused").len(), 0);
    p.close(fd).unwrap();
    assert!(w.file("missions.md.refused").unwrap().contains("empty or blank"));
    assert_eq!(w.text(), FIRST);
}

#[test]
fn rule_8_headers_without_items_are_a_save() {
    let w = World::new();
    let p = w.stranger("vim");
    p.cat("missions.md").unwrap();
    p.save("missions.md", "# Missions\n\n## Pending\n").unwrap();
    assert_eq!(w.text(), "# Missions\n\n## Pending\n");
}

#[test]
fn rule_9_a_refusal_is_sticky_until_new_bytes_come() {
    let w = World::new();
    let p = w.stranger("cc");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, "{\"bad\"").unwrap();
    p.dup(fd);
    let first = refused(p.fsync(fd));
    assert_eq!(refused(p.fsync(fd)), first);
    assert_eq!(refused(p.close(fd)), first);
    assert_eq!(refused(p.close(fd)), first);
    assert_eq!(w.names(".refused"), ["config.json.refused"], "one text, one file");
    assert_eq!(w.memory.refusals.lock().len(), 1);
}

#[test]
fn rule_10_a_rename_onto_the_name_commits_inside_the_rename() {
    let w = World::new();
    let p = w.stranger("agent");
    p.cat("missions.md").unwrap();
    p.save("t.tmp", NEW).unwrap();
    assert_eq!(w.docs.count(), 0);
    p.rename("t.tmp", "missions.md").unwrap();
    assert_eq!(w.text(), NEW);
    assert!(matches!(p.stat("t.tmp"), Err(Error::NotFound)));
    assert!(p.ls().iter().all(|n| n != "t.tmp"));
    assert_eq!(p.cat("missions.md").unwrap(), NEW);
}

#[test]
fn rule_10_a_refused_source_stays() {
    let w = World::new();
    let p = w.stranger("agent");
    p.save("t.tmp", "{bad").unwrap();
    refused(p.rename("t.tmp", "config.json"));
    assert_eq!(w.file("t.tmp").as_deref(), Some("{bad"));
    assert!(w.file("config.json.refused").unwrap().ends_with("{bad"));
    assert_eq!(w.config(), "{\"a\": 1, \"b\": 2}\n");
}

#[test]
fn rule_10_a_fsynced_source_is_durable_before_it_goes() {
    let w = World::new();
    let p = w.stranger("agent");
    p.cat("missions.md").unwrap();
    let fd = p.open("t.tmp", WR | CREAT | EXCL).unwrap();
    p.write(fd, NEW).unwrap();
    p.fsync(fd).unwrap();
    p.close(fd).unwrap();
    let syncs = || w.docs.syncs.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(syncs(), 0);
    p.rename("t.tmp", "missions.md").unwrap();
    assert_eq!(syncs(), 1);
    p.save("t.tmp", FIRST).unwrap();
    p.rename("t.tmp", "missions.md").unwrap();
    assert_eq!(syncs(), 1, "not fsynced, not asked for");
}

#[test]
fn rule_10_a_source_that_is_still_open_belongs_to_the_document() {
    let w = World::new();
    let p = w.stranger("perl");
    p.cat("missions.md").unwrap();
    let fd = p.open("t.tmp", WR | CREAT | EXCL).unwrap();
    p.write(fd, "# Missions\n\n## Pending\n- a\n- b\n").unwrap();
    p.rename("t.tmp", "missions.md").unwrap();
    p.write(fd, "- c\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.text(), NEW);
    assert_eq!(w.docs.count(), 1, "the first part was the current text");
}

#[test]
fn rule_10_an_open_source_without_a_byte_yet_is_saved_at_its_flush() {
    let w = World::new();
    let p = w.stranger("python");
    p.cat("missions.md").unwrap();
    let fd = p.open("t.tmp", WR | CREAT | EXCL).unwrap();
    p.rename("t.tmp", "missions.md").unwrap();
    assert_eq!(w.text(), FIRST);
    p.write(fd, NEW).unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.text(), NEW);
}

#[test]
fn rule_10_bad_bytes_through_an_open_source_are_refused_at_its_flush() {
    let w = World::new();
    let p = w.stranger("gio");
    let fd = p.open("t.tmp", WR | CREAT | EXCL).unwrap();
    p.write(fd, "{\"a\": 5}").unwrap();
    p.rename("t.tmp", "config.json").unwrap();
    p.write(fd, "}").unwrap();
    refused(p.fsync(fd));
    refused(p.close(fd));
    assert_eq!(w.names(".refused"), ["config.json.refused"]);
    assert!(w.config().contains('5'));
}

#[test]
fn appends_are_fragments_whatever_their_offset() {
    let w = World::new();
    let p = w.stranger("bash");
    let fd = p.open("missions.md", WR | APPEND).unwrap();
    p.write(fd, "- c\n").unwrap();
    w.docs.publish(DocId::Missions, Some("- z\n"));
    p.write(fd, "- d\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.text(), "- z\n- c\n- d\n");
    assert!(!w.docs.last().whole);
}

#[test]
fn an_append_without_a_final_newline_is_whole_at_its_close() {
    let w = World::new();
    w.stranger("printf").append("missions.md", "- c").unwrap();
    assert_eq!(w.text(), format!("{FIRST}- c\n"));
}

#[test]
fn a_long_lived_append_commits_whole_lines_200_ms_after_the_last_write() {
    let w = World::new();
    let p = w.stranger("logger");
    let fd = p.open("missions.md", WR | APPEND).unwrap();
    p.write(fd, "- c\n- d").unwrap();
    w.tree.tick();
    assert_eq!(w.docs.count(), 0);
    w.clock.forward(199);
    w.tree.tick();
    assert_eq!(w.docs.count(), 0);
    w.clock.forward(2);
    w.tree.tick();
    assert_eq!(w.text(), format!("{FIRST}- c\n"));
    w.tree.tick();
    assert_eq!(w.docs.count(), 1);
    p.write(fd, "one\n").unwrap();
    p.fsync(fd).unwrap();
    assert_eq!(w.text(), format!("{FIRST}- c\n- done\n"));
}

#[test]
fn a_childs_flush_of_an_append_commits_whole_lines() {
    let w = World::new();
    let sh = w.stranger("bash");
    let fd = sh.open("missions.md", WR | APPEND).unwrap();
    let child = sh.fork("printf");
    child.write(fd, "- c\n- d").unwrap();
    child.close(fd).unwrap();
    assert_eq!(w.text(), format!("{FIRST}- c\n"));
    sh.write(fd, "ay\n").unwrap();
    sh.close(fd).unwrap();
    assert_eq!(w.text(), format!("{FIRST}- c\n- day\n"));
}

#[test]
fn a_refused_append_does_not_stop_the_next_one() {
    let w = World::new();
    let p = w.stranger("logger");
    let fd = p.open("missions.md", WR | APPEND).unwrap();
    p.write(fd, "- nul\0\n").unwrap();
    refused(p.fsync(fd));
    p.write(fd, "- fine\n").unwrap();
    p.fsync(fd).unwrap();
    assert_eq!(w.text(), format!("{FIRST}- fine\n"));
    p.close(fd).unwrap();
}

#[test]
fn an_o_sync_append_is_durable_with_each_write() {
    let w = World::new();
    let p = w.stranger("logger");
    let fd = p.open("missions.md", WR | APPEND | libc::O_DSYNC).unwrap();
    p.write(fd, "- c\n").unwrap();
    assert_eq!(w.docs.count(), 1);
    assert_eq!(w.docs.syncs.load(std::sync::atomic::Ordering::SeqCst), 1);
    p.close(fd).unwrap();
}

#[test]
fn an_o_sync_rewrite_is_durable_at_its_flush() {
    let w = World::new();
    let p = w.stranger("dd");
    let fd = p.open("missions.md", WR | TRUNC | libc::O_SYNC).unwrap();
    p.write(fd, "- o").unwrap();
    p.write(fd, "ne\n").unwrap();
    assert_eq!(w.docs.count(), 0, "half of a text is nothing to see");
    p.close(fd).unwrap();
    assert_eq!(w.docs.last().written, "- one\n");
    assert_eq!(w.docs.syncs.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[test]
fn a_truncation_by_path_right_after_an_open_is_that_opens() {
    let w = World::new();
    let p = w.stranger("bash");
    let fd = p.open("missions.md", WR).unwrap();
    let set = SetAttr { size: Some(0), ..SetAttr::default() };
    w.tree.setattr(&p.who(), Tree::node_of(View::MissionsMd), &set).unwrap();
    p.write(fd, "- only\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.docs.last().written, "- only\n");
    assert_eq!(w.docs.count(), 1);
}

#[test]
fn a_truncation_by_path_alone_is_a_save() {
    let w = World::new();
    let p = w.stranger("truncate");
    let size = FIRST.find("- b").unwrap() as u64;
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    w.tree.setattr(&p.who(), Tree::node_of(View::MissionsMd), &set).unwrap();
    assert_eq!(w.text(), &FIRST[..size as usize]);
}

#[test]
fn at_the_end_unsaved_texts_are_kept_and_appends_committed() {
    let w = World::new();
    let p = w.stranger("vim");
    let a = p.open("missions.md", WR | TRUNC).unwrap();
    p.write(a, "- half").unwrap();
    let b = p.open("missions.md", WR | APPEND).unwrap();
    p.write(b, "- c").unwrap();
    w.tree.shutdown();
    assert_eq!(w.text(), format!("{FIRST}- c\n"));
    assert_eq!(w.file(&format!("missions.md.unsaved-{}", p.pid)).as_deref(), Some("- half"));
    // Whoever goes on writing is told: nobody would look at that buffer again.
    assert!(p.write(a, " more").is_err());
    assert!(p.write(b, "- d\n").is_err());
    // What the kernel sends afterwards changes nothing, and nobody takes it for a save.
    assert!(p.close(a).is_err());
    p.close(b).unwrap();
    assert_eq!(w.docs.count(), 1);
    assert_eq!(w.names(".unsaved").len(), 1);
}

#[test]
fn copying_into_a_document_is_writing_it() {
    let w = World::new();
    let p = w.stranger("cp");
    p.save("new", NEW).unwrap();
    p.cat("missions.md").unwrap();
    let from = p.open("new", RD).unwrap();
    let to = p.open("missions.md", WR | TRUNC).unwrap();
    let (a, b) = (p.get(from), p.get(to));
    let copy = |at| {
        let long = i64::MAX as u64;
        w.tree.copy_file_range(&p.who(), a.node, a.fh, at, b.node, b.fh, at, long).unwrap()
    };
    assert_eq!(copy(0), NEW.len() as u32);
    assert_eq!(copy(NEW.len() as u64), 0);
    p.close(to).unwrap();
    assert_eq!(w.text(), NEW);
}
