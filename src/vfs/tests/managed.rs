//! Managed files: real names, a document's saves.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;
use crate::documents::files::{Judged, Rules};
use crate::model::{FileId, FileKind};
use crate::vfs::plain::Plain;

/// Markdown in the root, `memory/` and `journal/`, JSON in the root and `events/`.
struct Globs;

impl Rules for Globs {
    fn kind(&self, path: &str) -> Option<FileKind> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let below = |top| dir == top || dir.starts_with(&format!("{top}/"));
        match name.rsplit_once('.')?.1 {
            "md" if name == "outbox.md" || below("journal") => Some(FileKind::Queue),
            "md" if dir.is_empty() || below("memory") => Some(FileKind::Text),
            "json" if dir.is_empty() || dir == "events" => Some(FileKind::Json),
            _ => None,
        }
    }
    fn judge(&self, path: &str) -> Judged {
        Judged { kind: self.kind(path), why: String::new() }
    }
}

fn tree_on(w: &World) -> Tree {
    let parts = Parts {
        documents: w.docs.clone(),
        plain: Arc::new(Plain::new(w.dir.path()).unwrap()),
        processes: w.procs.clone(),
        memory: w.memory.clone(),
        clock: w.clock.clone(),
        rules: Some(Arc::new(Globs)),
    };
    let mut options = Options::new(w.dir.path().to_owned());
    options.size_limit = 1 << 20;
    Tree::new(parts, options).unwrap()
}

fn world() -> World {
    let mut w = World::new();
    let mut docs = FakeDocs::new();
    docs.store = Some(w.dir.path().to_owned());
    w.docs = Arc::new(docs);
    w.uid = rustix::process::geteuid().as_raw();
    w.tree = tree_on(&w);
    w
}

impl World {
    fn put(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn ino(&self, path: &str) -> u64 {
        std::fs::metadata(self.dir.path().join(path)).unwrap().ino()
    }
}

fn file(path: &str) -> View {
    View::File(FileId::of(path))
}

#[test]
fn a_file_that_fits_a_rule_is_a_document_in_any_directory() {
    let w = world();
    w.put("memory/deep/a.md", "one\n");
    w.put("memory/deep/a.txt", "plain\n");
    let p = w.stranger("x");
    let stat = p.stat("memory/deep/a.md").unwrap();
    assert_eq!((stat.size, stat.nlink, stat.ino), (4, 1, w.ino("memory/deep/a.md")));
    let fd = p.open("memory/deep/a.md", RD).unwrap();
    assert_eq!(p.get(fd).node, Tree::node_of(file("memory/deep/a.md")));
    // One version, whatever becomes of the file.
    assert_eq!(p.read_some(fd, 2), "on");
    w.put("memory/deep/a.md", "two\n");
    assert_eq!(p.read_on(fd), "e\n");
    p.close(fd).unwrap();
    assert_eq!(p.cat("memory/deep/a.md").unwrap(), "two\n");
    let fd = p.open("memory/deep/a.txt", RD).unwrap();
    assert!(p.get(fd).node < 1 << 61);
}

#[test]
fn what_no_rule_fits_or_has_two_names_or_is_no_file_is_plain() {
    let w = world();
    w.put("a.md", "x");
    w.put("b.md", "x");
    std::fs::hard_link(w.dir.path().join("b.md"), w.dir.path().join("other")).unwrap();
    std::fs::create_dir(w.dir.path().join("d.md")).unwrap();
    std::os::unix::fs::symlink("a.md", w.dir.path().join("l.md")).unwrap();
    w.put("big.md", &"x".repeat((1 << 20) + 1));
    w.put("a.md.refused", "x");
    w.put("sub/a.md", "x");
    let p = w.stranger("x");
    let node = |name: &str| {
        let (parent, name) = p.at(name);
        w.tree.lookup(&p.who(), parent, &name).unwrap()
    };
    assert!(node("a.md").node >= 1 << 61);
    for name in ["b.md", "d.md", "l.md", "big.md", "a.md.refused", "sub/a.md"] {
        assert!(node(name).node < 1 << 61, "{name}");
    }
    assert_eq!(node("b.md").attr.nlink, 2);
    assert_eq!(node("b.md").entry_ttl, std::time::Duration::ZERO, "it may become managed");
    std::fs::remove_file(w.dir.path().join("other")).unwrap();
    assert!(node("b.md").node >= 1 << 61);
    assert!(matches!(
        w.tree.link(&p.who(), node("a.md").node, ROOT, OsStr::new("l2")),
        Err(Error::NotPermitted)
    ));
    assert!(matches!(
        w.tree.mkdir(&p.who(), ROOT, OsStr::new("a.md"), 0o755, 0),
        Err(Error::Os(rustix::io::Errno::EXIST))
    ));
    w.tree.mkdir(&p.who(), ROOT, OsStr::new("new.md"), 0o755, 0).unwrap();
    w.tree.symlink(&p.who(), ROOT, OsStr::new("s.md"), OsStr::new("a.md")).unwrap();
}

#[test]
fn a_save_is_merged_with_what_others_did_and_keeps_number_and_mode() {
    let w = world();
    w.put("memory/x.md", "a\nb\n");
    let path = w.dir.path().join("memory/x.md");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let number = w.ino("memory/x.md");
    let p = w.stranger("python");
    p.cat("memory/x.md").unwrap();
    w.put("memory/x.md", "a\nb\nother\n");
    p.save("memory/x.md", "a\nB\n").unwrap();
    assert_eq!(w.file("memory/x.md").unwrap(), "a\nother\nB\n");
    let stat = p.stat("memory/x.md").unwrap();
    assert_ne!(w.ino("memory/x.md"), number, "it was replaced");
    assert_eq!((stat.ino, stat.perm, stat.size), (number, 0o600, 10));
    let dir = p.at("memory/x.md").0;
    let listed = p.entries(dir).into_iter().find(|e| e.name == "x.md").unwrap();
    assert_eq!(listed.ino, number);
    // Whoever gets the number that is free now shows another one.
    let again = (0..64).map(|n| format!("f{n}")).find(|name| {
        w.put(name, "");
        w.ino(name) == number
    });
    if let Some(again) = again {
        assert_ne!(p.stat(&again).unwrap().ino, number);
        let listed = p.entries(ROOT).into_iter().find(|e| e.name == again.as_str()).unwrap();
        assert_eq!(listed.ino, p.stat(&again).unwrap().ino);
    }
    let w = World { tree: tree_on(&w), ..w };
    assert_eq!(w.stranger("x").stat("memory/x.md").unwrap().ino, number, "also next time");
}

#[test]
fn chmod_and_times_are_those_of_the_store_s_file() {
    let w = world();
    w.put("x.md", "a\n");
    let p = w.stranger("x");
    let node = Tree::node_of(file("x.md"));
    p.stat("x.md").unwrap();
    let time = crate::model::Stamp(1_000_000_000_000_000_007);
    let set = SetAttr { mode: Some(0o640), mtime: Some(SetTime::To(time)), ..SetAttr::default() };
    w.tree.setattr(&p.who(), node, &set).unwrap();
    let real = std::fs::metadata(w.dir.path().join("x.md")).unwrap();
    assert_eq!(real.mode() & 0o7777, 0o640);
    assert_eq!(p.stat("x.md").unwrap().mtime, time);
    p.append("x.md", "b\n").unwrap();
    assert_eq!(p.stat("x.md").unwrap().perm, 0o640);
    let name = OsStr::new("user.note");
    match w.tree.setxattr(&p.who(), node, name, b"v", XattrFlags::Any) {
        Ok(()) => assert_eq!(w.tree.getxattr(&p.who(), node, name).unwrap(), b"v"),
        // The file system below has none.
        Err(e) => assert!(matches!(e, Error::Os(rustix::io::Errno::OPNOTSUPP)), "{e:?}"),
    }
    let rev = w.tree.getxattr(&p.who(), node, OsStr::new("user.instancefs.rev"));
    assert!(rev.is_ok());
}

#[test]
fn a_created_file_is_there_for_everybody_at_once() {
    let w = world();
    let p = w.stranger("a");
    let fd = p.open("new.md", WR | CREAT | EXCL).unwrap();
    assert_eq!(w.file("new.md").as_deref(), Some(""));
    let q = w.stranger("b");
    assert!(matches!(q.open("new.md", WR | CREAT | EXCL), Err(Error::Exists)));
    assert_eq!(q.stat("new.md").unwrap().size, 0);
    q.append("new.md", "theirs\n").unwrap();
    p.write(fd, "mine\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.file("new.md").unwrap(), "theirs\nmine\n");
    let fd = p.open("none.md", WR | CREAT).unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.file("none.md").as_deref(), Some(""));
}

#[test]
fn a_file_can_be_emptied() {
    let w = world();
    w.put("x.md", "a\n");
    let sh = w.stranger("bash");
    let fd = sh.open("x.md", WR | CREAT | TRUNC).unwrap();
    sh.dup(fd);
    sh.close(fd).unwrap();
    assert_eq!(w.file("x.md").unwrap(), "a\n", "the shell has only moved the descriptor");
    sh.close(fd).unwrap();
    assert_eq!(w.file("x.md").unwrap(), "", "when close returns");
    assert_eq!(w.names("refused"), [""; 0]);
    w.put("x.md", "a\n");
    let fd = sh.open("x.md", WR | TRUNC).unwrap();
    sh.kill();
    let _ = fd;
    assert_eq!(w.file("x.md").unwrap(), "a\n", "who was killed did not finish");
}

#[test]
fn who_empties_a_queue_takes_away_what_was_read_and_no_more() {
    let w = world();
    w.put("outbox.md", "1\n2\n");
    let p = w.stranger("python");
    p.cat("outbox.md").unwrap();
    w.stranger("agent").append("outbox.md", "3\n").unwrap();
    p.save("outbox.md", "").unwrap();
    let fd = p.open("outbox.md", WR | TRUNC).unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.file("outbox.md").unwrap(), "3\n");
    // In a shell another process reads.
    let sh = w.stranger("bash");
    let cat = sh.fork("cat");
    assert_eq!(cat.cat("outbox.md").unwrap(), "3\n");
    cat.exit();
    w.stranger("agent").append("outbox.md", "4\n").unwrap();
    let fd = sh.open("outbox.md", WR | TRUNC).unwrap();
    sh.close(fd).unwrap();
    assert_eq!(w.file("outbox.md").unwrap(), "4\n");
    w.stranger("blind").save("outbox.md", "5\n").unwrap();
    assert_eq!(w.file("outbox.md").unwrap(), "4\n5\n");
}

#[test]
fn a_drain_through_one_handle_loses_no_append() {
    let w = world();
    w.put("outbox.md", "1\n");
    let p = w.stranger("python");
    let fd = p.open("outbox.md", RW).unwrap();
    p.lock(fd, true);
    assert_eq!(p.read_on(fd), "1\n");
    w.stranger("agent").append("outbox.md", "2\n").unwrap();
    p.seek(fd, 0);
    p.ftruncate(fd, 0).unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.file("outbox.md").unwrap(), "2\n");
}

#[test]
fn unlink_removes_for_everybody_except_what_was_not_read_of_a_queue() {
    let w = world();
    w.put("x.md", "a\n");
    let p = w.stranger("rm");
    p.unlink("x.md").unwrap();
    assert_eq!(w.file("x.md"), None);
    assert!(w.stranger("q").stat("x.md").is_err());
    assert!(p.unlink("x.md").is_err());
    w.put("outbox.md", "1\n");
    p.cat("outbox.md").unwrap();
    w.stranger("agent").append("outbox.md", "2\n").unwrap();
    p.unlink("outbox.md").unwrap();
    assert_eq!(w.file("outbox.md").unwrap(), "2\n");
    assert!(matches!(p.open("outbox.md", WR | CREAT | EXCL), Err(Error::Exists)));
    p.cat("outbox.md").unwrap();
    p.unlink("outbox.md").unwrap();
    assert_eq!(w.file("outbox.md"), None);
}

#[test]
fn what_is_written_to_a_queue_after_its_lines_were_removed_is_new() {
    for (by_kin, at_once) in [(false, false), (true, false), (false, true), (true, true)] {
        let w = world();
        w.put("outbox.md", "1\n2\n");
        let p = w.stranger("shell");
        p.cat("outbox.md").unwrap();
        let other = w.stranger("agent");
        other.append("outbox.md", "3\n").unwrap();
        p.unlink("outbox.md").unwrap();
        assert_eq!(w.file("outbox.md").unwrap(), "3\n");
        other.append("outbox.md", "5\n").unwrap();
        let writer = if by_kin { p.fork("cat") } else { p };
        if !at_once {
            w.clock.forward(6_000);
        }
        writer.save("outbox.md", "1\n2\n4\n").unwrap();
        let what = format!("by kin {by_kin}, at once {at_once}");
        assert_eq!(w.file("outbox.md").unwrap(), "3\n5\n1\n2\n4\n", "{what}");
        writer.save("outbox.md", "1\n2\n").unwrap();
        assert_eq!(w.file("outbox.md").unwrap(), "3\n5\n1\n2\n", "{what}: 4 is taken out");
    }
}

#[test]
fn what_others_removed_from_a_queue_does_not_come_back_with_what_is_made_anew() {
    for renamed in [false, true] {
        let w = world();
        w.put("outbox.md", "1\n2\n");
        let p = w.stranger("tool");
        p.cat("outbox.md").unwrap();
        let other = w.stranger("sender");
        other.cat("outbox.md").unwrap();
        other.save("outbox.md", "1\n3\n").unwrap();
        p.unlink("outbox.md").unwrap();
        assert_eq!(w.file("outbox.md").unwrap(), "3\n");
        if renamed {
            p.save("tmp", "1\n2\n4\n").unwrap();
            p.rename("tmp", "outbox.md").unwrap();
        } else {
            p.save("outbox.md", "1\n2\n4\n").unwrap();
        }
        assert_eq!(w.file("outbox.md").unwrap(), "1\n3\n4\n", "renamed: {renamed}");
    }
}

#[test]
fn handles_on_a_removed_file_go_on() {
    let w = world();
    w.put("x.md", "a\nb\n");
    let (p, q) = (w.stranger("reader"), w.stranger("rm"));
    let before = p.open("x.md", RD).unwrap();
    let late = p.open("x.md", RD).unwrap();
    assert_eq!(p.read_some(before, 2), "a\n");
    let log = p.open("x.md", WR | APPEND).unwrap();
    let own = q.open("x.md", RW).unwrap();
    q.unlink("x.md").unwrap();
    assert_eq!(p.read_on(before), "b\n");
    assert_eq!(p.pread(before, 0, 99).unwrap(), "a\nb\n");
    assert_eq!(p.read_on(late), "a\nb\n", "also when it had read nothing yet");
    assert_eq!((p.fstat(late).nlink, p.fstat(late).size), (0, 4));
    // The remover's own handle ends with it, an append is for whatever has the name.
    q.write(own, "scratch").unwrap();
    q.close(own).unwrap();
    assert_eq!(w.file("x.md"), None);
    p.write(log, "line\n").unwrap();
    p.fsync(log).unwrap();
    assert_eq!(w.file("x.md").unwrap(), "line\n");
    p.close(log).unwrap();
}

#[test]
fn an_append_handle_goes_on_when_the_file_is_replaced_or_moved_away() {
    let w = world();
    w.put("outbox.md", "1\n");
    let log = w.stranger("logger");
    let fd = log.open("outbox.md", WR | APPEND).unwrap();
    let ed = w.stranger("editor");
    ed.cat("outbox.md").unwrap();
    ed.save("tmp", "1\nedited\n").unwrap();
    ed.rename("tmp", "outbox.md").unwrap();
    log.write(fd, "2\n").unwrap();
    log.fsync(fd).unwrap();
    assert_eq!(w.file("outbox.md").unwrap(), "1\nedited\n2\n");
    ed.rename("outbox.md", "outbox.sending").unwrap();
    assert_eq!(w.file("outbox.md"), None);
    log.write(fd, "3\n").unwrap();
    log.fsync(fd).unwrap();
    assert_eq!(w.file("outbox.md").unwrap(), "3\n");
    assert_eq!(ed.cat("outbox.sending").unwrap(), "1\nedited\n2\n");
    ed.unlink("outbox.sending").unwrap();
    ed.rename("outbox.md", "outbox.sending").unwrap();
    ed.unlink("outbox.sending").unwrap();
    assert_eq!(log.fstat(fd).nlink, 0, "it can be asked for all the time");
    log.close(fd).unwrap();
}

#[test]
fn a_queue_that_was_moved_away_can_be_brought_back_and_loses_nothing() {
    let w = world();
    w.put("outbox.md", "1\n");
    let p = w.stranger("drain");
    p.rename("outbox.md", "outbox.sending").unwrap();
    p.rename("outbox.sending", "outbox.md").unwrap();
    assert_eq!(w.file("outbox.md").unwrap(), "1\n");
    p.rename("outbox.md", "outbox.sending").unwrap();
    w.stranger("agent").append("outbox.md", "2\n").unwrap();
    p.rename("outbox.sending", "outbox.md").unwrap();
    assert_eq!(w.file("outbox.md").unwrap(), "2\n1\n");
    assert_eq!(w.file("outbox.sending"), None);
}

#[test]
fn an_edited_copy_knows_what_it_is_a_copy_of() {
    let w = world();
    w.put("journal/q.md", "1\n");
    let (sh, from, to) = {
        let sh = w.stranger("bash");
        let cat = sh.fork("cat");
        let from = cat.open("journal/q.md", RD).unwrap();
        let to = cat.open("journal/new", WR | CREAT | TRUNC).unwrap();
        let (a, b) = (cat.get(from), cat.get(to));
        let who = cat.who();
        assert_eq!(w.tree.copy_file_range(&who, a.node, a.fh, 0, b.node, b.fh, 0, 99).unwrap(), 2);
        (sh, (cat, from), (cat, to))
    };
    from.0.close(from.1).unwrap();
    to.0.close(to.1).unwrap();
    to.0.exit();
    w.stranger("agent").append("journal/q.md", "2\n").unwrap();
    sh.append("journal/new", "edited\n").unwrap();
    sh.rename("journal/new", "journal/q.md").unwrap();
    assert_eq!(w.file("journal/q.md").unwrap(), "1\n2\nedited\n");
    // Unchanged it changes nothing.
    let o = sh.open("journal/q.md", RD).unwrap();
    let n = sh.open("journal/new", WR | CREAT).unwrap();
    let (a, b) = (sh.get(o), sh.get(n));
    w.tree.copy_file_range(&sh.who(), a.node, a.fh, 0, b.node, b.fh, 0, 99).unwrap();
    sh.close(n).unwrap();
    sh.close(o).unwrap();
    w.stranger("agent").append("journal/q.md", "3\n").unwrap();
    sh.rename("journal/new", "journal/q.md").unwrap();
    assert_eq!(w.file("journal/q.md").unwrap(), "1\n2\nedited\n3\n");
}

#[test]
fn a_rename_onto_the_name_is_a_save_in_any_directory() {
    let w = world();
    w.put("events/e.json", "{}\n");
    let p = w.stranger("jq");
    p.cat("events/e.json").unwrap();
    p.save("events/e.tmp", "[1").unwrap();
    let number = w.ino("events/e.tmp");
    assert_eq!(
        refused(p.rename("events/e.tmp", "events/e.json")).reason,
        crate::model::Reason::Invalid
    );
    assert_eq!(w.file("events/e.json").unwrap(), "{}\n");
    assert!(w.file("events/e.json.refused").unwrap().ends_with("[1"));
    assert!(w.file("events/e.tmp").is_some(), "the source stays");
    p.save("events/e.tmp", "{\"a\": 1}\n").unwrap();
    p.rename("events/e.tmp", "events/e.json").unwrap();
    assert_eq!(w.file("events/e.json").unwrap(), "{\"a\": 1}\n");
    assert_eq!(w.file("events/e.tmp"), None);
    assert_eq!(w.file("events/e.json.refused"), None, "forgiven");
    assert_eq!(p.stat("events/e.json").unwrap().ino, number);
    // A new name too, with the mode of the renamed file.
    p.save("events/n.tmp", "{}").unwrap();
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(w.dir.path().join("events/n.tmp"), mode).unwrap();
    p.rename("events/n.tmp", "events/n.json").unwrap();
    assert_eq!(p.stat("events/n.json").unwrap().perm, 0o600);
    p.save("events/n.tmp", "[").unwrap();
    assert_eq!(
        refused(p.rename("events/n.tmp", "events/bad.json")).reason,
        crate::model::Reason::Invalid
    );
    assert_eq!(w.file("events/bad.json"), None);
}

#[test]
fn an_editor_that_renames_the_file_away_and_writes_it_anew_keeps_all_of_its_text() {
    let w = world();
    w.put("memory/x.md", "a\nb\n");
    let vim = w.stranger("vim");
    vim.cat("memory/x.md").unwrap();
    vim.rename("memory/x.md", "memory/x.md~").unwrap();
    let fd = vim.open("memory/x.md", WR | CREAT).unwrap();
    vim.write(fd, "a\nB\n").unwrap();
    vim.fsync(fd).unwrap();
    vim.close(fd).unwrap();
    vim.unlink("memory/x.md~").unwrap();
    assert_eq!(w.file("memory/x.md").unwrap(), "a\nB\n");
}

#[test]
fn between_managed_names_the_file_moves_with_its_readers_knowledge() {
    let w = world();
    w.put("memory/x.md", "a\nb\n");
    let p = w.stranger("p");
    p.cat("memory/x.md").unwrap();
    let fd = p.open("memory/x.md", RW).unwrap();
    let number = p.stat("memory/x.md").unwrap().ino;
    p.append("memory/x.md", "c\n").unwrap();
    w.stranger("mv").rename("memory/x.md", "memory/y.md").unwrap();
    assert_eq!(w.file("memory/x.md"), None);
    assert_eq!(w.file("memory/y.md").unwrap(), "a\nb\nc\n");
    assert_eq!(p.stat("memory/y.md").unwrap().ino, number);
    assert_eq!(p.fstat(fd).ino, number);
    // It knows all of it and may take lines away.
    p.save("memory/y.md", "b\n").unwrap();
    assert_eq!(w.file("memory/y.md").unwrap(), "b\n");
    assert_eq!(p.read_on(fd), "a\nb\nc\n", "the one that it was told the size of");
    assert_eq!(p.read_on(fd), "");
    p.seek(fd, 0);
    assert_eq!(p.read_on(fd), "b\n");
    p.close(fd).unwrap();
}

#[test]
fn a_managed_temporary_can_be_renamed_onto_a_managed_file() {
    let w = world();
    w.put("state.json", "{\"a\": 1}\n");
    let p = w.stranger("python");
    p.cat("state.json").unwrap();
    let fd = p.open("tmp1.json", WR | CREAT | EXCL).unwrap();
    p.write(fd, "{\"a\": 2}\n").unwrap();
    p.rename("tmp1.json", "state.json").unwrap();
    assert_eq!(w.file("state.json").unwrap(), "{\"a\": 2}\n");
    assert_eq!(w.file("tmp1.json"), None);
    p.close(fd).unwrap();
    assert_eq!(w.names("tmp1"), [""; 0]);
    // And onto a document.
    p.cat("config.json").unwrap();
    p.save("tmp2.json", "{\"a\": 7, \"b\": 2}\n").unwrap();
    p.rename("tmp2.json", "config.json").unwrap();
    assert_eq!(w.config(), "{\"a\": 7, \"b\": 2}\n");
    assert_eq!(w.names("tmp2"), [""; 0]);
}

#[test]
fn a_renamed_directory_takes_its_managed_files_along() {
    let w = world();
    w.put("memory/old/x.md", "a\nb\n");
    let p = w.stranger("p");
    p.cat("memory/old/x.md").unwrap();
    p.append("memory/old/x.md", "c\n").unwrap();
    let number = p.stat("memory/old/x.md").unwrap().ino;
    let log = p.open("memory/old/x.md", WR | APPEND).unwrap();
    let read = p.open("memory/old/x.md", RD).unwrap();
    w.stranger("mv").rename("memory/old", "memory/new").unwrap();
    assert_eq!(p.stat("memory/new/x.md").unwrap().ino, number);
    assert_eq!(p.fstat(log).ino, number);
    p.write(log, "d\n").unwrap();
    p.close(log).unwrap();
    assert_eq!(w.file("memory/new/x.md").unwrap(), "a\nb\nc\nd\n");
    assert_eq!(p.read_on(read), "a\nb\nc\n", "what it was told the size of");
    p.save("memory/new/x.md", "d\n").unwrap();
    assert_eq!(w.file("memory/new/x.md").unwrap(), "d\n");
    assert!(w.tree.rmdir(&p.who(), p.at("memory/x").0, OsStr::new("new")).is_err());
}

#[test]
fn exchanging_saves_both_ways() {
    let w = world();
    w.put("a.md", "a\n");
    w.put("b.md", "b\n");
    w.put("plain", "p\n");
    let p = w.stranger("x");
    p.rename2("a.md", "b.md", Renaming::Exchange).unwrap();
    assert_eq!((w.file("a.md").unwrap(), w.file("b.md").unwrap()), ("b\n".into(), "a\n".into()));
    p.cat("a.md").unwrap();
    p.rename2("a.md", "plain", Renaming::Exchange).unwrap();
    assert_eq!((w.file("a.md").unwrap(), w.file("plain").unwrap()), ("p\n".into(), "b\n".into()));
    assert!(matches!(p.rename2("plain", "b.md", Renaming::NoReplace), Err(Error::Exists)));
    p.rename2("plain", "c.md", Renaming::NoReplace).unwrap();
    assert_eq!(p.cat("c.md").unwrap(), "b\n");
}

#[test]
fn nothing_is_kept_of_files_that_the_kernel_has_forgotten() {
    let w = world();
    let p = w.stranger("find");
    // Very many small files are remembered, of large ones so many that they fit.
    let large = "x".repeat((1 << 20) - 1) + "\n";
    for n in 0..300 {
        w.put(&format!("memory/{n}.md"), if n < 200 { "x\n" } else { &large });
        p.cat(&format!("memory/{n}.md")).unwrap();
    }
    w.tree.observed.thin(|_| true);
    let met = w.tree.observed.files(|_| true);
    assert!(met.len() <= 64 && met.contains(&FileId::of("memory/299.md")), "{}", met.len());
    w.put("memory/0.md", "x\n");
    p.cat("memory/0.md").unwrap();
    w.tree.observed.thin(|_| true);
    assert!(w.tree.observed.files(|_| true).contains(&FileId::of("memory/0.md")));
}

#[test]
fn the_history_shows_managed_files_by_their_path() {
    let w = world();
    let p = w.stranger("x");
    w.put("memory/deep/a.md", "one\n");
    w.put("memory/b.md", "b\n");
    p.cat("memory/deep/a.md").unwrap();
    p.cat("memory/b.md").unwrap();
    p.append("memory/deep/a.md", "two\n").unwrap();
    let top = ".instancefs/history";
    let names = |path: &str| {
        let (parent, name) = p.at(path);
        let node = w.tree.lookup(&p.who(), parent, &name).unwrap().node;
        let mut names: Vec<String> =
            p.entries(node).into_iter().map(|e| e.name.into_string().unwrap()).collect();
        names.retain(|n| n != "." && n != "..");
        names
    };
    assert!(names(top).contains(&"memory".to_owned()));
    assert_eq!(names(&format!("{top}/memory")), ["b.md", "deep"]);
    assert_eq!(names(&format!("{top}/memory/deep")), ["a.md"]);
    let revisions = names(&format!("{top}/memory/deep/a.md"));
    assert_eq!(revisions.len(), 2);
    let path = format!("{top}/memory/deep/a.md/{}", revisions[1]);
    assert_eq!(p.cat(&path).unwrap(), "one\ntwo\n");
    assert!(matches!(p.open(&path, WR), Err(Error::ReadOnly)));
    assert!(p.stat(&format!("{top}/memory/deep/none.md")).is_err());
}

#[test]
fn a_refused_text_of_a_new_file_leaves_no_empty_one() {
    let w = world();
    w.put("events/other", "");
    let p = w.stranger("echo");
    assert!(p.save("events/e.json", "[1").is_err());
    assert_eq!(w.file("events/e.json"), None);
    assert!(w.file("events/e.json.refused").unwrap().ends_with("[1"));
    // Not when it is somebody else's by now.
    let fd = p.open("events/f.json", WR | CREAT).unwrap();
    p.write(fd, "[1").unwrap();
    let q = w.stranger("other").open("events/f.json", RD).unwrap();
    assert!(p.close(fd).is_err());
    assert_eq!(w.file("events/f.json").as_deref(), Some(""));
    let _ = q;
}

#[test]
fn exchanged_directories_exchange_what_is_open_in_them() {
    let w = world();
    w.put("memory/a/x.md", "a\n");
    w.put("memory/b/x.md", "b\n");
    let p = w.stranger("p");
    p.append("memory/a/x.md", "a2\n").unwrap();
    p.append("memory/b/x.md", "b2\n").unwrap();
    let (a, b) = (p.stat("memory/a/x.md").unwrap().ino, p.stat("memory/b/x.md").unwrap().ino);
    let log = p.open("memory/a/x.md", WR | APPEND).unwrap();
    p.rename2("memory/a", "memory/b", Renaming::Exchange).unwrap();
    assert_eq!(p.stat("memory/b/x.md").unwrap().ino, a);
    assert_eq!(p.stat("memory/a/x.md").unwrap().ino, b);
    p.write(log, "a3\n").unwrap();
    p.close(log).unwrap();
    assert_eq!(w.file("memory/b/x.md").unwrap(), "a\na2\na3\n");
    assert_eq!(w.file("memory/a/x.md").unwrap(), "b\nb2\n");
}

#[test]
fn a_refused_text_is_kept_under_a_name_that_fits() {
    let w = world();
    let name = format!("{}.json", "\u{e9}".repeat(124));
    let p = w.stranger("x");
    assert!(p.save(&name, "[1").is_err());
    assert!(p.save(&name, "[2").is_err());
    assert_eq!(w.names(".refused").len(), 2);
}

#[test]
fn a_file_that_goes_between_lookup_and_open_is_looked_up_again_or_appended_to() {
    let w = world();
    w.put("outbox.md", "1\n");
    let p = w.stranger("x");
    p.stat("outbox.md").unwrap();
    let node = Tree::node_of(file("outbox.md"));
    std::fs::remove_file(w.dir.path().join("outbox.md")).unwrap();
    for flags in [RD, WR, RW, WR | TRUNC] {
        let opened = w.tree.open(&p.who(), node, flags);
        assert!(matches!(opened, Err(Error::Os(rustix::io::Errno::STALE))), "{flags}");
    }
    assert_eq!(w.tree.getattr(&p.who(), node, None).unwrap().0.nlink, 0, "asked before an open");
    let opened = w.tree.open(&p.who(), node, WR | APPEND).unwrap();
    w.tree.getattr(&p.who(), node, None).unwrap();
    w.tree.write(&p.who(), node, opened.fh, 0, b"2\n", WR | APPEND).unwrap();
    w.tree.flush(&p.who(), node, opened.fh).unwrap();
    w.tree.release(node, opened.fh).unwrap();
    assert_eq!(w.file("outbox.md").unwrap(), "2\n");
}

#[test]
fn a_managed_file_is_judged_by_its_kind_as_it_comes() {
    let w = world();
    w.put("state.json", "{\"a\": 1}\n");
    w.put("memory/note.md", "one\n");
    w.put("broken.json", "{broken\n");
    let p = w.stranger("bash");
    refused(p.save("state.json", "{\"a\": x}\n"));
    assert_eq!(w.names(".refused"), ["state.json.refused"]);
    p.save("state.json", "[1, 2]\n").unwrap();
    assert_eq!(w.names(".refused"), [""; 0]);
    // Texts take anything.
    let fd = p.open("outbox.md", WR | CREAT | TRUNC).unwrap();
    p.write(fd, "{bad").unwrap();
    p.close(fd).unwrap();
    // What is there, broken behind the mount, is not refused before it differs.
    let fd = p.open("broken.json", WR | TRUNC).unwrap();
    p.cat("broken.json").unwrap();
    p.write(fd, "{broken").unwrap();
    refused(p.write(fd, " even more\n"));
    refused(p.close(fd));
}
