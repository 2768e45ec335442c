//! What is judged at the start, and how ends of processes are told.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::SystemTime;

use super::content::look;
use super::table::Made;
use super::*;
use crate::store::ProcessRow;

/// A pid that no process has: the largest that the kernel can give is lower.
const NOBODY: u32 = 1 << 30;

fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().unwrap()
}

fn ended(mut child: Child) -> u32 {
    child.kill().unwrap();
    child.wait().unwrap();
    child.id()
}

struct World {
    dir: tempfile::TempDir,
    store: Arc<Store>,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::create(dir.path()).unwrap());
        World { dir, store }
    }

    fn load(&self) -> Owned {
        Owned::load(Arc::clone(&self.store), Names::default(), false).unwrap()
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn age(&self, name: &str) {
        let file = fs::File::options().write(true).open(self.dir.path().join(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
    }

    fn there(&self, name: &str) -> bool {
        self.dir.path().join(name).exists()
    }

    /// A file as somebody makes it through the mount: made, written, closed.
    fn make(&self, owned: &Owned, name: &str, maker: u32, text: &str) {
        self.put(name, "");
        let path = Path::new(name);
        let kind = owned.kind(path).unwrap();
        let id = look(owned.root.as_fd(), path).unwrap().id;
        let maker = Owner::of_pid(maker).map(Arc::new);
        let made = Made { maker, foreign: false, exclusive: true };
        owned.lock().made(path, kind, id, made);
        self.put(name, text);
        let found = look(owned.root.as_fd(), path).unwrap();
        owned.lock().settle(path, &found);
        owned.persist(Wait::Patiently);
    }

    fn token(owned: &Owned, name: &str) -> u64 {
        owned.lock().get(Path::new(name)).map_or(0, |e| e.token)
    }
}

#[test]
fn what_is_there_at_the_start_is_judged() {
    let w = World::new();
    let me = std::process::id();
    let dead = ended(sleeper());
    w.put("scheduler.lock", &dead.to_string());
    w.put("telegram.lock", &format!("{{\"pid\": {me}}}"));
    w.put("telegram-old.lock", &me.to_string());
    w.age("telegram-old.lock");
    w.put("discord.lock", "[[package]]\n");
    w.put("discord-empty.lock", "");
    w.age("discord-empty.lock");
    w.put("uv.lock", &dead.to_string());
    for name in [me.to_string(), dead.to_string(), format!("{dead}.tmp"), "readme".to_owned()] {
        w.put(&format!("sessions.live/{name}"), name.trim_end_matches(".tmp"));
    }
    w.put(&format!("models/sessions/{NOBODY}"), &NOBODY.to_string());
    let owned = w.load();
    let gone = ["scheduler.lock", "telegram-old.lock", "discord-empty.lock"];
    for name in gone {
        assert!(!w.there(name), "{name}");
    }
    assert!(!w.there(&format!("sessions.live/{dead}")));
    assert!(!w.there(&format!("models/sessions/{NOBODY}")));
    for name in ["telegram.lock", "discord.lock", "uv.lock", "sessions.live/readme"] {
        assert!(w.there(name), "{name}");
    }
    assert!(w.there(&format!("sessions.live/{dead}.tmp")));
    assert!(w.there(&format!("sessions.live/{me}")));
    let table = owned.lock();
    let held = |name: &str| table.get(Path::new(name)).unwrap().held_against(None);
    assert!(held("telegram.lock"));
    assert!(!held("discord.lock"));
}

#[test]
fn a_lease_of_a_living_process_keeps_its_number_over_a_restart() {
    let w = World::new();
    let child = sleeper();
    let owned = w.load();
    w.make(&owned, "scheduler.lock", child.id(), "");
    let token = World::token(&owned, "scheduler.lock");
    assert!(token > 0);
    drop(owned);
    let owned = w.load();
    assert!(owned.lock().get(Path::new("scheduler.lock")).unwrap().held_against(None));
    assert_eq!(World::token(&owned, "scheduler.lock"), token);
    w.make(&owned, "telegram.lock", child.id(), "");
    assert!(World::token(&owned, "telegram.lock") > token, "numbers only grow");
    drop(owned);
    ended(child);
    drop(w.load());
    assert!(!w.there("scheduler.lock"));
    assert_eq!(w.store.owned().unwrap(), [], "nothing is left on record");
}

#[test]
fn a_number_that_was_given_to_another_process_keeps_nothing_alive() {
    let w = World::new();
    let child = sleeper();
    let owned = w.load();
    let marker = format!("sessions.live/{}", child.id());
    w.make(&owned, "scheduler.lock", child.id(), &child.id().to_string());
    w.make(&owned, &marker, child.id(), &child.id().to_string());
    drop(owned);
    let mut rows = w.store.owned().unwrap();
    assert_eq!(rows.len(), 2);
    for row in &mut rows {
        row.owner = ProcessRow { ident: row.owner.ident - 1, ..row.owner.clone() };
    }
    w.store.keep_owned(&rows, &[], Wait::Patiently).unwrap();
    drop(w.load());
    assert!(!w.there("scheduler.lock") && !w.there(&marker));
    ended(child);
}

#[test]
fn the_content_says_whose_a_lease_is() {
    let w = World::new();
    let (child, other) = (sleeper(), sleeper());
    let owned = w.load();
    let owner = |text: &str| {
        w.make(&owned, "telegram.lock", child.id(), text);
        let table = owned.lock();
        let entry = table.get(Path::new("telegram.lock")).unwrap();
        (entry.owner.as_ref().map(|o| o.pid), entry.is_over())
    };
    assert_eq!(owner(""), (Some(child.id()), false));
    assert_eq!(owner(&child.id().to_string()), (Some(child.id()), false));
    assert_eq!(owner(&format!("{{\"pid\":{}}}", other.id())), (Some(other.id()), false));
    assert_eq!(owner("version = 1"), (None, false));
    assert_eq!(owner(&NOBODY.to_string()), (None, true));
    ended(child);
    ended(other);
}

#[test]
fn the_end_of_an_owner_is_told_once_and_then_it_is_over() {
    let w = World::new();
    let child = sleeper();
    let owned = Arc::new(w.load());
    w.make(&owned, "scheduler.lock", child.id(), "");
    let waiting = Arc::clone(&owned);
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        loop {
            let over = waiting.wait();
            if over.is_empty() {
                break;
            }
            tell.send(over).unwrap();
        }
    });
    owned.wake();
    ended(child);
    let over = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(over, [Path::new("scheduler.lock")]);
    assert!(w.there("scheduler.lock"), "whoever was told takes it away");
    for _ in 0..2000 {
        owned.tick();
        if !w.there("scheduler.lock") {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!w.there("scheduler.lock"), "or the tick does");
    owned.close();
    thread.join().unwrap();
    assert!(told.try_recv().is_err(), "told once");
}

#[test]
fn a_process_that_is_younger_than_the_file_does_not_own_it() {
    let w = World::new();
    let child = sleeper();
    let owned = w.load();
    // Put there behind the mount's back, found by a lookup.
    w.put("scheduler.lock", &child.id().to_string());
    w.age("scheduler.lock");
    let path = Path::new("scheduler.lock");
    let found = look(owned.root.as_fd(), path).unwrap();
    owned.lock().found(path, Kind::Lease, &found, &owned.here);
    assert_eq!(owned.wait(), [path]);
    ended(child);
}

#[test]
fn what_is_closed_twice_is_no_surer() {
    let w = World::new();
    let (maker, named) = (sleeper(), sleeper());
    let owned = w.load();
    w.make(&owned, "scheduler.lock", maker.id(), &named.id().to_string());
    let path = Path::new("scheduler.lock");
    let unsure = || owned.lock().get(path).unwrap().unsure.is_some();
    assert!(unsure());
    let found = look(owned.root.as_fd(), path).unwrap();
    owned.lock().settle(path, &found);
    assert!(unsure());
    owned.make_sure();
    assert!(!unsure());
    assert!(!owned.lock().get(path).unwrap().is_over());
    ended(maker);
    ended(named);
}

#[test]
fn a_read_only_mount_removes_nothing() {
    let w = World::new();
    w.put("scheduler.lock", &NOBODY.to_string());
    let owned = Owned::load(Arc::clone(&w.store), Names::default(), true).unwrap();
    owned.tick();
    assert!(w.there("scheduler.lock"));
    assert!(owned.lock().get(Path::new("scheduler.lock")).unwrap().is_over(), "but shows it not");
}
