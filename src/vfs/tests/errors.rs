//! The error table of section 5, and what becomes of refused texts (R7).

use super::*;
use crate::model::Reason;
use crate::store::StoreError;

#[test]
fn refused_content_is_an_error_at_fsync_flush_and_rename() {
    let w = World::new();
    let p = w.stranger("x");
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    p.write(fd, "- \u{e9}\n").unwrap();
    // Beyond what comes in order.
    let o = p.get(fd);
    w.tree.write(&p.who(), o.node, o.fh, 3, b"\xff", 0).unwrap();
    assert_eq!(refused(p.fsync(fd)).reason, Reason::Invalid);
    assert_eq!(refused(p.close(fd)).reason, Reason::Invalid);
    p.save("t", "{bad").unwrap();
    assert_eq!(refused(p.rename("t", "config.json")).reason, Reason::Invalid);
    assert_eq!(w.text(), FIRST);
}

#[test]
fn over_the_size_limit_the_write_fails_and_nothing_of_it_is_saved() {
    let w = World::new();
    let p = w.stranger("x");
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    p.write(fd, "- start\n").unwrap();
    let o = p.get(fd);
    let far = w.tree.write(&p.who(), o.node, o.fh, 1 << 20, b"x", 0);
    assert!(matches!(far, Err(Error::TooBig)));
    assert!(matches!(p.ftruncate(fd, 2 << 20), Err(Error::TooBig)));
    assert_eq!(refused(p.close(fd)).reason, Reason::TooBig);
    assert_eq!(w.docs.count(), 0);
    assert!(w.file("missions.md.refused").unwrap().ends_with("- start\n"));
    let fd = p.open("missions.md", WR | APPEND).unwrap();
    let much = vec![b'x'; (1 << 20) + 1];
    let o = p.get(fd);
    assert!(matches!(w.tree.write(&p.who(), o.node, o.fh, 0, &much, 0), Err(Error::TooBig)));
    p.close(fd).unwrap();
}

#[test]
fn a_full_store_is_an_error_and_the_next_try_can_succeed() {
    let w = World::new();
    let p = w.stranger("x");
    let fd = p.open("missions.md", WR | TRUNC).unwrap();
    p.write(fd, "- c\n").unwrap();
    *w.docs.fail.lock() = Some(StoreError::Full);
    assert!(matches!(p.fsync(fd), Err(Error::Store(StoreError::Full))));
    p.fsync(fd).unwrap();
    assert_eq!(w.docs.count(), 1);
    assert_eq!(w.names(".refused").len(), 0, "the good save took it away");
    p.close(fd).unwrap();
}

#[test]
fn a_locked_database_is_an_error_and_the_text_is_kept() {
    let w = World::new();
    let p = w.stranger("x");
    *w.docs.fail.lock() = Some(StoreError::Busy);
    p.save("t", "- c\n").unwrap();
    assert!(matches!(p.rename("t", "missions.md"), Err(Error::Store(StoreError::Busy))));
    assert!(w.file("missions.md.refused").unwrap().ends_with("- c\n"));
}

#[test]
fn a_read_only_document_fails_at_the_open_before_anything_is_truncated() {
    let w = World::new();
    let p = w.stranger("x");
    for flags in [WR, RW, WR | TRUNC, WR | APPEND] {
        assert!(matches!(p.open("missions-quarantine.md", flags), Err(Error::ReadOnly)));
    }
    p.save("t", "x").unwrap();
    assert!(matches!(p.rename("t", "missions-quarantine.md"), Err(Error::ReadOnly)));
    let set = SetAttr { size: Some(0), ..SetAttr::default() };
    let node = Tree::node_of(View::QuarantineMd);
    assert!(matches!(w.tree.setattr(&p.who(), node, &set), Err(Error::ReadOnly)));
    assert_eq!(p.cat("missions-quarantine.md").unwrap(), "# Quarantine\n");
}

#[test]
fn a_refused_text_has_reason_line_and_hint_on_top() {
    let w = World::new();
    let p = w.stranger("node");
    refused(p.save("config.json", "{\n\"a\": 1"));
    let text = w.file("config.json.refused").unwrap();
    let (head, body) = text.split_at(text.find("{\n").unwrap());
    assert_eq!(body, "{\n\"a\": 1");
    assert!(head.lines().all(|l| l.starts_with("# ")));
    for part in ["refused", "line 2", "fix the JSON", "node", &p.pid.to_string()] {
        assert!(head.contains(part), "{part} in {head}");
    }
}

#[test]
fn a_program_that_never_looks_leaves_the_text_beside_the_document() {
    let w = World::new();
    let p = w.stranger("bash");
    let fd = p.open("config.json", WR | TRUNC).unwrap();
    p.write(fd, "{\"bad\": \n").unwrap();
    p.exit();
    assert!(w.file("config.json.refused").unwrap().ends_with("{\"bad\": \n"));
}

#[test]
fn several_refusals_get_numbers_and_equal_ones_one_file() {
    let w = World::new();
    let (p, q) = (w.stranger("node"), w.stranger("python"));
    refused(p.save("config.json", "{1"));
    refused(p.save("config.json", "{1"));
    refused(p.save("config.json", "{2"));
    refused(q.save("config.json", "{1"));
    let names =
        ["config.json.refused", "config.json.refused-2", "config.json.refused-3"].map(String::from);
    assert_eq!(w.names(".refused"), names);
    assert_eq!(w.tree.status().refused, 4);
}

#[test]
fn the_next_good_save_by_the_same_program_removes_what_it_caused() {
    let w = World::new();
    let (p, q) = (w.stranger("node"), w.stranger("python"));
    refused(p.save("config.json", "{1"));
    refused(q.save("config.json", "{2"));
    p.save("config.json", "{\"a\": 1, \"b\": 2}\n").unwrap();
    assert_eq!(w.names(".refused").len(), 2, "nothing was changed");
    p.append("missions.md", "- c\n").unwrap();
    assert_eq!(w.names(".refused").len(), 2, "another document");
    p.save("config.json", "{\"a\": 4}\n").unwrap();
    assert_eq!(w.names(".refused"), ["config.json.refused-2"]);
}

#[test]
fn a_refused_file_that_somebody_edited_stays() {
    let w = World::new();
    let p = w.stranger("node");
    refused(p.save("config.json", "{1"));
    std::fs::write(w.dir.path().join("config.json.refused"), "being repaired").unwrap();
    p.save("config.json", "{\"a\": 4}\n").unwrap();
    assert_eq!(w.file("config.json.refused").as_deref(), Some("being repaired"));
}

#[test]
fn refusals_are_counted_recorded_and_told() {
    let w = World::new();
    let p = w.stranger("node");
    refused(p.save("config.json", "{1"));
    let status = w.tree.status();
    assert_eq!(status.refused, 1);
    assert_eq!(status.refusals[0].program, "node");
    assert_eq!(status.refusals[0].kept_as.as_deref(), Some("config.json.refused"));
    assert_eq!(w.memory.refusals.lock()[0].0, View::ConfigJson);
    let dir = w.tree.lookup(&p.who(), ROOT, OsStr::new(".instancefs")).unwrap().node;
    let file = w.tree.lookup(&p.who(), dir, OsStr::new("status.json")).unwrap().node;
    let fh = w.tree.open(&p.who(), file, RD).unwrap().fh;
    let text = w.tree.read(&p.who(), file, fh, 0, 1 << 16).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json["refused"], 1);
    w.tree.release(file, fh).unwrap();
}

#[test]
fn unknown_attributes_are_not_supported_and_security_is_absent() {
    let w = World::new();
    let p = w.stranger("cp");
    let node = Tree::node_of(View::MissionsMd);
    let get = |name: &str| w.tree.getxattr(&p.who(), node, OsStr::new(name));
    assert!(matches!(get("security.capability"), Err(Error::NoAttribute)));
    assert!(matches!(get("system.posix_acl_access"), Err(Error::NoAttribute)));
    assert!(matches!(get("user.x"), Err(Error::NotSupported)));
    let set = w.tree.setxattr(&p.who(), node, OsStr::new("user.x"), b"1", XattrFlags::Any);
    assert!(matches!(set, Err(Error::NotSupported)));
    assert_eq!(w.tree.listxattr(&p.who(), node).unwrap(), b"");
}

#[test]
fn space_can_be_reserved_but_no_hole_be_punched() {
    let w = World::new();
    let p = w.stranger("kate");
    let fd = p.open("missions.md", RW).unwrap();
    let o = p.get(fd);
    let call = |len, mode| w.tree.fallocate(&p.who(), o.node, o.fh, 0, len, mode);
    call(4096, libc::FALLOC_FL_KEEP_SIZE).unwrap();
    call(4, 0).unwrap();
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    assert!(matches!(call(4, punch), Err(Error::NotSupported)));
    assert!(matches!(call(2 << 20, 0), Err(Error::TooBig)));
    p.close(fd).unwrap();
    assert_eq!(w.docs.count(), 0);
}
