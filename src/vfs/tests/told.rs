//! Being told (semantics section 7) and compare-and-swap by extended attributes.

use sha2::{Digest, Sha256};

use super::*;
use crate::model::Reason;
use crate::process::Processes as _;
use crate::store::StoreError;

const SHA256: &str = "user.instancefs.sha256";
const EXPECT: &str = "user.instancefs.expect-sha256";
const NAME: &str = "missions.md";

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|b| format!("{b:02x}")).collect()
}

impl P<'_> {
    fn node(&self, name: &str) -> Node {
        self.w.tree.lookup(&self.who(), ROOT, OsStr::new(name)).unwrap().node
    }

    fn getxattr(&self, name: &str, attr: &str) -> Result<String> {
        let value = self.w.tree.getxattr(&self.who(), self.node(name), OsStr::new(attr))?;
        Ok(String::from_utf8(value).unwrap())
    }

    fn setxattr(&self, name: &str, attr: &str, value: &str) -> Result<()> {
        self.setxattr_with(name, attr, value, XattrFlags::Any)
    }

    fn setxattr_with(&self, name: &str, attr: &str, value: &str, how: XattrFlags) -> Result<()> {
        let (node, attr) = (self.node(name), OsStr::new(attr));
        self.w.tree.setxattr(&self.who(), node, attr, value.as_bytes(), how)
    }

    fn withdraw(&self) -> Result<()> {
        self.w.tree.removexattr(&self.who(), self.node(NAME), OsStr::new(EXPECT))
    }

    fn expect(&self, text: &str) {
        self.setxattr(NAME, EXPECT, &hash(text)).unwrap();
    }

    fn has_news(&self, fd: Fd) -> bool {
        let open = self.get(fd);
        self.w.tree.has_news(open.node, open.fh).unwrap()
    }
}

fn world() -> World {
    let w = World::new();
    w.docs.publish(DocId::Missions, Some(FIRST));
    w.docs.publish(DocId::Config, Some("{}\n"));
    w
}

#[track_caller]
fn outdated<T>(result: Result<T>) {
    assert_eq!(refused(result).reason, Reason::Expectation);
}

#[test]
fn hash_and_revision_are_those_of_the_version_shown() {
    let w = world();
    let p = w.stranger("p");
    assert_eq!(p.getxattr(NAME, SHA256).unwrap(), hash(FIRST));
    let rev: u64 = p.getxattr(NAME, "user.instancefs.rev").unwrap().parse().unwrap();
    w.docs.publish(DocId::Missions, Some("other\n"));
    assert_eq!(p.getxattr(NAME, SHA256).unwrap(), hash("other\n"));
    let later: u64 = p.getxattr(NAME, "user.instancefs.rev").unwrap().parse().unwrap();
    assert!(later > rev);
    let listed = w.tree.listxattr(&p.who(), p.node(NAME)).unwrap();
    assert!(listed.is_empty(), "copies would get what is listed");
}

#[test]
fn what_cannot_be_set_says_so() {
    let w = world();
    let p = w.stranger("p");
    let set = |attr, value: &str| p.setxattr(NAME, attr, value);
    assert!(matches!(set(SHA256, &hash(FIRST)), Err(Error::NotPermitted)));
    assert!(matches!(set("user.instancefs.rev", "1"), Err(Error::NotPermitted)));
    assert!(matches!(set("user.other", "1"), Err(Error::NotSupported)));
    for bad in ["", "12", &hash(FIRST)[1..], &format!("{}g", &hash(FIRST)[1..])] {
        assert!(matches!(set(EXPECT, bad), Err(Error::Invalid)), "{bad}");
    }
    assert!(matches!(p.getxattr(NAME, EXPECT), Err(Error::NoAttribute)));
    assert!(matches!(p.withdraw(), Err(Error::NoAttribute)));
    let with = |how| p.setxattr_with(NAME, EXPECT, &hash(FIRST).to_uppercase(), how);
    assert!(matches!(with(XattrFlags::Replace), Err(Error::NoAttribute)));
    with(XattrFlags::Create).unwrap();
    assert!(matches!(with(XattrFlags::Create), Err(Error::Exists)));
    with(XattrFlags::Replace).unwrap();
    assert_eq!(p.getxattr(NAME, EXPECT).unwrap(), hash(FIRST));
}

#[test]
fn the_next_save_of_the_session_commits_only_while_the_hash_holds() {
    let w = world();
    let p = w.stranger("p");
    let text = p.cat(NAME).unwrap();
    p.expect(&text);
    w.docs.publish(DocId::Missions, Some("# Missions\n\n## Pending\n- other\n"));
    outdated(p.save(NAME, &text.replace("- a", "- mine")));
    assert!(w.text().contains("- other") && !w.text().contains("mine"));
    assert_eq!(w.names("refused").len(), 1);
    // It is used up.
    let text = p.cat(NAME).unwrap();
    p.save(NAME, &text.replace("- other", "- mine")).unwrap();
    assert!(w.text().contains("- mine"));
    p.expect(&w.text());
    p.save(NAME, &w.text().replace("- mine", "- good")).unwrap();
    w.docs.publish(DocId::Missions, Some(FIRST));
    p.save(NAME, &FIRST.replace("- a", "- once only")).unwrap();
}

#[test]
fn a_child_in_the_session_is_guarded_and_a_stranger_is_not() {
    let w = world();
    let shell = w.stranger("bash");
    shell.expect("something else");
    let stranger = w.stranger("p");
    stranger.cat(NAME).unwrap();
    stranger.save(NAME, &FIRST.replace("- a", "- free")).unwrap();
    outdated(shell.fork("cp").save(NAME, "# Missions\n\n## Pending\n- c\n"));
    let config = shell.fork("cp").save("config.json", "{\"a\": 1}\n");
    config.unwrap();
}

#[test]
fn an_expectation_of_a_session_is_over_after_a_minute() {
    let w = world();
    let p = w.stranger("p");
    p.expect("something else");
    w.clock.forward(61_000);
    assert!(matches!(p.getxattr(NAME, EXPECT), Err(Error::NoAttribute)));
    p.cat(NAME).unwrap();
    p.save(NAME, &FIRST.replace("- a", "- late")).unwrap();
}

#[test]
fn a_withdrawn_expectation_guards_nothing() {
    let w = world();
    let p = w.stranger("p");
    p.expect("something else");
    p.withdraw().unwrap();
    p.cat(NAME).unwrap();
    p.save(NAME, &FIRST.replace("- a", "- free")).unwrap();
}

#[test]
fn a_handle_keeps_its_expectation_until_its_save_commits() {
    let w = world();
    let p = w.stranger("p");
    let fd = p.open(NAME, RW).unwrap();
    let text = p.read_on(fd);
    p.expect(&text);
    // Nobody else's business, not even in the session.
    let child = p.fork("child");
    child.save(NAME, &text.replace("- b", "- theirs")).unwrap();
    w.clock.forward(100_000);
    p.seek(fd, 0);
    p.write(fd, &text.replace("- a", "- A")).unwrap();
    outdated(p.fsync(fd));
    p.write(fd, "- more\n").unwrap();
    outdated(p.fsync(fd));
    p.expect(&w.text());
    p.write(fd, "- again\n").unwrap();
    p.fsync(fd).unwrap();
    p.write(fd, "- and again\n").unwrap();
    p.close(fd).unwrap();
    assert!(w.text().contains("- and again"));
}

#[test]
fn a_process_that_only_keeps_a_handle_is_guarded_in_its_rename_too() {
    let w = world();
    let p = w.stranger("p");
    let lock = p.open(NAME, RW).unwrap();
    p.expect("something else");
    p.save("tmp", "# Missions\n\n## Pending\n- new\n").unwrap();
    outdated(p.rename("tmp", NAME));
    assert!(w.file("tmp").is_some(), "the source of a refused rename stays");
    p.close(lock).unwrap();
}

#[test]
fn of_two_writers_that_make_the_same_of_one_version_one_is_first() {
    let w = world();
    let next = FIRST.replace("- a", "- counted");
    let (p, q) = (w.stranger("p"), w.stranger("q"));
    for x in [p, q] {
        x.cat(NAME).unwrap();
        x.expect(FIRST);
        x.save(&format!("tmp{}", x.pid), &next).unwrap();
    }
    p.rename(&format!("tmp{}", p.pid), NAME).unwrap();
    outdated(q.rename(&format!("tmp{}", q.pid), NAME));
    let fd = q.open(NAME, WR | TRUNC).unwrap();
    q.expect(FIRST);
    q.write(fd, &next).unwrap();
    outdated(q.close(fd));
}

#[test]
fn who_knows_the_hash_has_seen_the_version() {
    let w = world();
    let p = w.stranger("p");
    p.expect(FIRST);
    p.save(NAME, "# Missions\n\n## Pending\n- only\n").unwrap();
    assert_eq!(w.text(), "# Missions\n\n## Pending\n- only\n");
}

#[test]
fn a_failing_store_uses_up_nothing() {
    let w = world();
    let p = w.stranger("p");
    p.cat(NAME).unwrap();
    p.expect("something else");
    let fd = p.open(NAME, WR | TRUNC).unwrap();
    p.write(fd, &FIRST.replace("- a", "- A")).unwrap();
    *w.docs.fail.lock() = Some(StoreError::Busy);
    assert!(matches!(p.fsync(fd), Err(Error::Store(_))));
    outdated(p.fsync(fd));
}

#[test]
fn a_handle_has_news_until_it_has_read_them() {
    let w = world();
    let p = w.stranger("p");
    let fd = p.open(NAME, RD).unwrap();
    assert!(!p.has_news(fd), "what was there at the open is no news");
    w.docs.publish(DocId::Missions, Some("second\n"));
    assert!(p.has_news(fd));
    assert_eq!(p.read_on(fd), "second\n");
    assert!(!p.has_news(fd));
    w.docs.publish(DocId::Missions, Some("second\nthird\n"));
    assert!(p.has_news(fd) && p.has_news(fd));
    assert_eq!(p.read_on(fd), "third\n");
    assert!(!p.has_news(fd));
}

#[test]
fn a_writer_is_not_told_of_its_own_save() {
    let w = world();
    let p = w.stranger("p");
    let fd = p.open(NAME, RW).unwrap();
    p.read_on(fd);
    p.seek(fd, 0);
    p.write(fd, &FIRST.replace("- a", "- A")).unwrap();
    p.fsync(fd).unwrap();
    assert!(!p.has_news(fd));
    w.docs.publish(DocId::Missions, Some("other\n"));
    assert!(p.has_news(fd));
}

#[test]
fn the_daemon_touching_a_document_changes_nothing() {
    let w = world();
    let own = w.procs.own_pid();
    *w.next.lock() = own - 1;
    let daemon = w.stranger("instancefs");
    assert_eq!(daemon.pid, own);
    let p = w.stranger("p");
    let fd = p.open(NAME, RW).unwrap();
    p.read_some(fd, 5);
    let before = p.fstat(fd);
    w.docs.publish(DocId::Missions, Some("other\n"));
    let mtime = p.stat(NAME).unwrap().mtime;
    w.clock.forward(1_000);
    for atime in [None, Some(SetTime::Now)] {
        let set = SetAttr { atime, mtime: Some(SetTime::Now), ..SetAttr::default() };
        let (attr, _) = w.tree.setattr(&daemon.who(), p.node(NAME), &set).unwrap();
        assert_eq!(attr.mtime, mtime);
    }
    let after = p.stat(NAME).unwrap();
    assert_eq!((after.mtime, after.atime), (mtime, mtime));
    assert_ne!(before.mtime, mtime);
    assert_eq!(p.read_on(fd), FIRST[5..], "the handle goes on with its version");
    assert!(w.docs.saves.lock().is_empty());
    // An explicit utimens by anybody else is honoured (R1).
    let set = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
    w.tree.setattr(&p.who(), p.node(NAME), &set).unwrap();
    assert_ne!(p.stat(NAME).unwrap().mtime, mtime);
}
