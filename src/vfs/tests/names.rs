//! Section 6: unlink, rename-away, exchange, and names that are not for the taking.

use super::*;

#[test]
fn an_unlinked_name_is_free_for_the_session_and_there_for_everybody_else() {
    let w = World::new();
    let sh = w.stranger("bash");
    let rm = sh.fork("rm");
    rm.unlink("missions.md").unwrap();
    rm.exit();
    assert!(matches!(sh.stat("missions.md"), Err(Error::NotFound)));
    assert!(!sh.ls().contains(&"missions.md".to_owned()));
    let other = w.stranger("daemon");
    assert_eq!(other.cat("missions.md").unwrap(), FIRST);
    assert!(other.ls().contains(&"missions.md".to_owned()));
    assert!(matches!(sh.unlink("missions.md"), Err(Error::NotFound)));
    assert_eq!(w.docs.count(), 0, "no row is touched");
}

#[test]
fn the_name_comes_back_after_five_seconds() {
    let w = World::new();
    let p = w.stranger("rm");
    p.unlink("missions.md").unwrap();
    w.clock.forward(4_900);
    assert!(p.stat("missions.md").is_err());
    w.clock.forward(200);
    assert_eq!(p.cat("missions.md").unwrap(), FIRST);
}

#[test]
fn a_created_name_is_a_save_also_with_o_excl() {
    let w = World::new();
    let p = w.stranger("tar");
    assert!(matches!(p.open("missions.md", WR | CREAT | EXCL), Err(Error::Exists)));
    p.cat("missions.md").unwrap();
    p.unlink("missions.md").unwrap();
    let fd = p.open("missions.md", WR | CREAT | EXCL).unwrap();
    assert!(p.stat("missions.md").is_ok());
    p.write(fd, "- a\n- new\n").unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.text(), "- a\n- new\n");
    assert!(p.stat("missions.md").is_ok());
}

#[test]
fn created_and_never_written_is_no_save() {
    let w = World::new();
    let p = w.stranger("x");
    p.unlink("missions.md").unwrap();
    let fd = p.open("missions.md", WR | CREAT | EXCL).unwrap();
    p.close(fd).unwrap();
    assert_eq!(w.names("missions.md"), [""; 0]);
    assert_eq!(p.cat("missions.md").unwrap(), FIRST);
}

#[test]
fn a_document_that_is_not_there_yet_begins_with_its_first_save() {
    let w = World::new();
    w.docs.publish(DocId::Config, None);
    let p = w.stranger("x");
    assert!(matches!(p.stat("config.json"), Err(Error::NotFound)));
    assert!(!p.ls().contains(&"config.json".to_owned()));
    assert!(matches!(p.unlink("config.json"), Err(Error::NotFound)));
    let fd = p.open("config.json", RW | CREAT | TRUNC).unwrap();
    assert_eq!(p.fstat(fd).size, 0);
    assert!(p.stat("config.json").is_ok(), "its creator sees it");
    assert!(w.stranger("q").stat("config.json").is_err());
    p.write(fd, "{\"x\": 1}\n").unwrap();
    p.close(fd).unwrap();
    assert!(w.config().contains("\"x\""));
}

#[test]
fn a_renamed_away_copy_is_a_plain_file_of_that_moment() {
    let w = World::new();
    let p = w.stranger("mv");
    p.rename("missions.md", "old.md").unwrap();
    w.docs.publish(DocId::Missions, Some("- later\n"));
    assert_eq!(w.file("old.md").as_deref(), Some(FIRST));
    assert!(p.stat("missions.md").is_err());
    assert_eq!(w.stranger("q").cat("missions.md").unwrap(), "- later\n");
    assert_eq!(w.names("copy"), [""; 0]);
    let q = w.stranger("q");
    q.save("there", "x").unwrap();
    let away = q.rename2("missions.md", "there", Renaming::NoReplace);
    assert!(matches!(away, Err(Error::Exists)));
    assert!(q.stat("missions.md").is_ok());
    q.rename("missions.md", "there").unwrap();
    assert_eq!(w.file("there").as_deref(), Some("- later\n"));
}

#[test]
fn bringing_back_the_text_always_succeeds_and_changes_nothing() {
    let w = World::new();
    let p = w.stranger("vim");
    p.rename("missions.md", "missions.md~").unwrap();
    p.rename("missions.md~", "missions.md").unwrap();
    assert!(p.stat("missions.md").is_ok());
    // Also when others have saved meanwhile, and when the store would refuse.
    p.rename("missions.md", "missions.md~").unwrap();
    w.docs.publish(DocId::Missions, Some(&format!("{FIRST}- z\n")));
    *w.docs.fail.lock() = Some(crate::store::StoreError::Busy);
    p.rename("missions.md~", "missions.md").unwrap();
    assert_eq!(w.text(), format!("{FIRST}- z\n"));
    assert_eq!(w.docs.count(), 0);
    assert_eq!(w.names("missions.md~"), [""; 0]);
}

#[test]
fn a_document_cannot_be_linked_or_replaced_by_another_kind() {
    let w = World::new();
    let p = w.stranger("ln");
    let who = p.who();
    let name = OsStr::new("missions.md");
    let node = Tree::node_of(View::MissionsMd);
    assert!(matches!(w.tree.link(&who, node, ROOT, OsStr::new("l")), Err(Error::NotPermitted)));
    assert!(matches!(w.tree.mkdir(&who, ROOT, name, 0o755, 0), Err(Error::Exists)));
    assert!(matches!(w.tree.mknod(&who, ROOT, name, 0o644, 0, 0), Err(Error::Exists)));
    assert!(matches!(w.tree.symlink(&who, ROOT, name, OsStr::new("x")), Err(Error::Exists)));
    p.save("f", "- x\n").unwrap();
    let f = w.tree.lookup(&who, ROOT, OsStr::new("f")).unwrap().node;
    assert!(matches!(w.tree.link(&who, f, ROOT, name), Err(Error::Exists)));
    assert!(matches!(w.tree.rmdir(&who, ROOT, name), Err(Error::NotDirectory)));
    w.tree.mkdir(&who, ROOT, OsStr::new("d"), 0o755, 0).unwrap();
    assert!(matches!(p.rename("d", "missions.md"), Err(Error::NotDirectory)));
    w.tree.symlink(&who, ROOT, OsStr::new("s"), OsStr::new("f")).unwrap();
    assert!(matches!(p.rename("s", "missions.md"), Err(Error::NotPermitted)));
}

#[test]
fn exchange_saves_the_other_file_and_leaves_the_old_version_there() {
    for swapped in [false, true] {
        let w = World::new();
        let p = w.stranger("x");
        p.cat("missions.md").unwrap();
        p.save("other", "- a\n- new\n").unwrap();
        let (a, b) = if swapped { ("missions.md", "other") } else { ("other", "missions.md") };
        p.rename2(a, b, Renaming::Exchange).unwrap();
        assert_eq!(w.text(), "- a\n- new\n");
        assert_eq!(w.file("other").as_deref(), Some(FIRST));
        p.save("other", "\n").unwrap();
        refused(p.rename2(a, b, Renaming::Exchange));
        assert_eq!(w.file("other").as_deref(), Some("\n"));
    }
}

#[test]
fn noreplace_onto_a_document_says_that_it_exists() {
    let w = World::new();
    let p = w.stranger("mv");
    p.save("t", "- a\n- t\n").unwrap();
    let onto = p.rename2("t", "missions.md", Renaming::NoReplace);
    assert!(matches!(onto, Err(Error::Exists)));
    p.unlink("missions.md").unwrap();
    p.rename2("t", "missions.md", Renaming::NoReplace).unwrap();
    assert!(w.text().contains("- t"));
    assert!(p.stat("missions.md").is_ok());
    let odd = p.rename2("missions.md", "x", Renaming::Other(4));
    assert!(matches!(odd, Err(Error::Invalid)));
}

#[test]
fn one_document_renamed_onto_another_is_a_save_there() {
    let w = World::new();
    let p = w.stranger("mv");
    p.rename("config.json", "config.json").unwrap();
    refused(p.rename("missions.md", "config.json"));
    assert!(p.stat("missions.md").is_ok());
    p.rename("config.json", "missions.md").unwrap();
    assert!(p.stat("config.json").is_err());
    assert!(w.text().contains("\"a\": 1"));
}

#[test]
fn modes_and_times_are_kept_and_a_renamed_temporary_does_not_change_them() {
    let w = World::new();
    let p = w.stranger("rsync");
    let node = Tree::node_of(View::MissionsMd);
    let before = p.stat("missions.md").unwrap();
    let set = |who: Caller, set: SetAttr| w.tree.setattr(&who, node, &set).map(|(a, _)| a);
    let owner = Caller { uid: before.uid, ..p.who() };
    let stranger = Caller { uid: 4242, ..p.who() };
    let mode = SetAttr { mode: Some(0o640), ..SetAttr::default() };
    assert_eq!(set(owner, mode).unwrap().perm, 0o640);
    assert!(matches!(set(stranger, mode), Err(Error::NotPermitted)));
    let same = SetAttr { uid: Some(before.uid), gid: Some(before.gid), ..SetAttr::default() };
    set(stranger, same).unwrap();
    let other = SetAttr { uid: Some(before.uid + 1), ..SetAttr::default() };
    assert!(matches!(set(stranger, other), Err(Error::NotPermitted)));
    p.save("t", "- a\n- t\n").unwrap();
    p.rename("t", "missions.md").unwrap();
    assert_eq!(p.stat("missions.md").unwrap().perm, 0o640);
    assert_eq!(p.stat("missions.md").unwrap().nlink, 1);
}

#[test]
fn a_document_that_was_not_there_belongs_to_whoever_makes_it() {
    for rename in [false, true] {
        let mut w = World::new();
        w.docs.publish(DocId::Config, None);
        w.uid = 4242;
        let p = w.stranger("agent");
        if rename {
            p.save("t", "{\"b\": 2}\n").unwrap();
            let real = p.stat("t").unwrap();
            p.rename("t", "config.json").unwrap();
            let made = p.stat("config.json").unwrap();
            assert_eq!((made.uid, made.gid, made.perm), (real.uid, real.gid, real.perm));
            continue;
        }
        let name = OsStr::new("config.json");
        let make = |mode, umask| w.tree.create(&p.who(), ROOT, name, mode, umask, WR | CREAT);
        let made = make(0o666, 0o27).unwrap();
        assert_eq!((made.entry.attr.uid, made.entry.attr.perm), (4242, 0o640));
        // Somebody else meanwhile only takes part.
        let other = Caller { uid: 4343, gid: 4343, ..w.stranger("other").who() };
        let opened = w.tree.create(&other, ROOT, name, 0o666, 0, WR | CREAT).unwrap();
        assert_eq!((opened.entry.attr.uid, opened.entry.attr.perm), (4242, 0o640));
        p.save("config.json", "{\"b\": 2}\n").unwrap();
        let yaml = p.stat("config.yaml").unwrap();
        assert_eq!((yaml.uid, yaml.gid, yaml.perm), (4242, 4242, 0o640));
        // From now on it is there: who removes it and makes it anew has made no new one.
        p.unlink("config.json").unwrap();
        let again = w.tree.create(&other, ROOT, name, 0o600, 0, WR | CREAT).unwrap();
        assert_eq!((again.entry.attr.uid, again.entry.attr.perm), (4242, 0o640));
    }
}

#[test]
fn the_documents_number_is_no_other_files() {
    let w = World::new();
    let p = w.stranger("agent");
    let mut last = p.stat("missions.md").unwrap().ino;
    for i in 0..20 {
        p.save("t", &format!("{FIRST}- {i}\n")).unwrap();
        let ino = p.stat("t").unwrap().ino;
        assert_ne!(ino, last);
        p.rename("t", "missions.md").unwrap();
        assert_eq!(p.stat("missions.md").unwrap().ino, ino);
        last = ino;
    }
}

#[test]
fn databases_are_links_into_the_store_and_cannot_be_replaced() {
    let w = World::new();
    for name in ["missions.db", "missions.db-wal", "missions.db-shm", ".instancefs.log"] {
        std::fs::write(w.dir.path().join(name), "x").unwrap();
    }
    let p = w.stranger("sqlite3");
    let who = p.who();
    for name in ["missions.db", "missions.lock"] {
        let entry = w.tree.lookup(&who, ROOT, OsStr::new(name)).unwrap();
        assert_eq!(entry.attr.kind, FileType::Symlink);
        assert_eq!(w.tree.readlink(&who, entry.node).unwrap(), w.dir.path().join(name));
        assert!(matches!(p.unlink(name), Err(Error::NotPermitted)));
        assert!(matches!(p.rename(name, "x"), Err(Error::NotPermitted)));
        p.save("t", "x").unwrap();
        assert!(matches!(p.rename("t", name), Err(Error::NotPermitted)));
    }
    for name in ["missions.db-wal", "missions.db-shm", "missions.db-journal", ".instancefs.log"] {
        assert!(matches!(p.stat(name), Err(Error::NotFound)), "{name}");
        assert!(matches!(p.rename("t", name), Err(Error::NotPermitted)), "{name}");
        assert!(matches!(p.open(name, WR | CREAT), Err(Error::NotPermitted)), "{name}");
    }
    let names = p.ls();
    assert!(names.contains(&"missions.db".to_owned()));
    assert!(names.iter().all(|n| !n.contains("-wal") && !n.starts_with(".instancefs")));
}

#[test]
fn documents_shadow_the_stores_files_and_the_rest_is_listed_once() {
    let w = World::new();
    for name in ["missions.md", "config.json", "journal", "x", "y", "z"] {
        std::fs::write(w.dir.path().join(name), "store").unwrap();
    }
    let p = w.stranger("ls");
    let mut names = p.ls();
    names.sort();
    let expected = [
        ".",
        "..",
        "config.json",
        "config.yaml",
        "journal",
        "missions-quarantine.md",
        "missions.md",
        "x",
        "y",
        "z",
    ];
    assert_eq!(names, expected);
    assert_eq!(p.cat("missions.md").unwrap(), FIRST);
    assert_eq!(p.cat("x").unwrap(), "store");
}

#[test]
fn the_hidden_directory_is_entered_by_name_and_read_only() {
    let w = World::new();
    let p = w.stranger("cat");
    let who = p.who();
    let dir = w.tree.lookup(&who, ROOT, OsStr::new(".instancefs")).unwrap();
    assert_eq!(dir.attr.kind, FileType::Directory);
    let fh = w.tree.opendir(&who, dir.node, 0).unwrap().fh;
    let names: Vec<_> = w.tree.readdir(&who, dir.node, fh, 0).unwrap();
    assert_eq!(names.len(), 5);
    w.tree.releasedir(dir.node, fh);
    let name = OsStr::new("new");
    assert!(matches!(w.tree.create(&who, dir.node, name, 0, 0, WR | CREAT), Err(Error::ReadOnly)));
    let readme = w.tree.lookup(&who, dir.node, OsStr::new("README")).unwrap();
    assert!(matches!(w.tree.open(&who, readme.node, WR), Err(Error::ReadOnly)));
    let fh = w.tree.open(&who, readme.node, RD).unwrap().fh;
    let text = w.tree.read(&who, readme.node, fh, 0, 65536).unwrap();
    assert_eq!(text.len() as u64, readme.attr.size);
    assert!(matches!(
        w.tree.rmdir(&who, ROOT, OsStr::new(".instancefs")),
        Err(Error::NotPermitted)
    ));
    assert!(matches!(w.tree.lookup(&who, dir.node, name), Err(Error::NotFound)));
}

#[test]
fn the_history_is_read_page_by_page_whatever_is_added_meanwhile() {
    let w = World::new();
    let p = w.stranger("ls");
    let who = p.who();
    let mut dir = ROOT;
    for name in [".instancefs", "history", "missions.md"] {
        dir = w.tree.lookup(&who, dir, OsStr::new(name)).unwrap().node;
    }
    let line = |n: usize| {
        w.docs.publish(DocId::Missions, Some(&format!("## Pending\n- {n}\n")));
    };
    (0..1_500).for_each(line);
    let fh = w.tree.opendir(&who, dir, 0).unwrap().fh;
    let (mut names, mut offset) = (Vec::new(), 0);
    loop {
        let page = w.tree.readdir(&who, dir, fh, offset).unwrap();
        // The kernel takes what fits its buffer and goes on from the last one that did.
        let Some(last) = page.iter().take(100).next_back() else { break };
        offset = last.next;
        names.extend(page.iter().take(100).map(|e| e.name.clone()));
        if names.len() < 1_000 {
            line(names.len() + 10_000);
        }
    }
    w.tree.releasedir(dir, fh);
    assert!(names.len() > 1_500, "{}", names.len());
    assert!(names[2..].is_sorted() && names[0] == "." && names[1] == "..");
    let last = w.tree.lookup(&who, dir, names.last().unwrap()).unwrap();
    let fh = w.tree.open(&who, last.node, RD).unwrap().fh;
    let text = w.tree.read(&who, last.node, fh, 0, 65536).unwrap();
    assert_eq!(text.len() as u64, last.attr.size);
    assert!(matches!(w.tree.open(&who, last.node, WR), Err(Error::ReadOnly)));
    w.tree.release(last.node, fh).unwrap();
    w.tree.forget(last.node, 1);
    let missing = w.tree.lookup(&who, dir, OsStr::new("999999.md"));
    assert!(matches!(missing, Err(Error::NotFound)));
}

#[test]
fn every_view_has_a_node_of_its_own() {
    let nodes: std::collections::HashSet<_> = View::ALL.into_iter().map(Tree::node_of).collect();
    assert_eq!(nodes.len(), View::ALL.len());
    let w = World::new();
    let p = w.stranger("ls");
    for view in View::ALL {
        let entry = w.tree.lookup(&p.who(), ROOT, OsStr::new(view_name(view))).unwrap();
        assert_eq!(entry.node, Tree::node_of(view));
        assert_eq!((entry.attr_ttl, entry.entry_ttl), Default::default());
    }
    assert!(matches!(w.tree.getattr(&p.who(), 5, None), Err(Error::NotFound)));
}
