//! The reference model next to the core without a mount: the tree over real documents, a real
//! database and real plain files.

mod again;

use mount_tests::model::ops::{Doc, Way};
use mount_tests::model::{ACTORS, Answer, LENGTH, Mix, Op, Real, Stat, replay, sequence};
use rusqlite::Connection;

use super::*;
use crate::documents::config::ConfigDocument;
use crate::documents::live::{Live, SaveRequest};
use crate::documents::missions::Missions;
use crate::documents::{Document, Written};
use crate::model::{Actor, Basis, Rev, Rule, Via};
use crate::store::{self, Store};
use crate::vfs::plain::Plain;

/// A store with its core and with processes that use it.
struct Core {
    w: World,
    live: Arc<Live>,
    pids: Vec<u32>,
    observer: u32,
    fds: HashMap<(usize, usize), Fd>,
    rows: Option<Connection>,
    now: u64,
}

fn open(w: &World) -> Arc<Live> {
    let dir = w.dir.path();
    let store = Arc::new(Store::open(dir, store::Options::default()).unwrap());
    let config = ConfigDocument::new(Some(dir.to_owned()), None);
    let kinds: Vec<Arc<dyn Document>> = vec![Arc::new(Missions::default()), Arc::new(config)];
    Arc::new(Live::open(store, kinds, w.clock.clone()).unwrap())
}

fn tree(w: &World, live: &Arc<Live>) -> Tree {
    let dir = w.dir.path();
    let parts = Parts {
        documents: live.clone(),
        plain: Arc::new(Plain::new(dir).unwrap()),
        processes: w.procs.clone(),
        memory: w.memory.clone(),
        clock: w.clock.clone(),
        rules: None,
    };
    Tree::new(parts, Options::new(dir.to_owned())).unwrap()
}

fn errno(error: &Error) -> i32 {
    match error {
        Error::NotFound => libc::ENOENT,
        Error::Exists => libc::EEXIST,
        Error::Refused(_) => libc::EIO,
        Error::Os(e) => e.raw_os_error(),
        other => panic!("{other:?}"),
    }
}

fn answer<T>(result: Result<T>) -> Answer<T> {
    result.map_err(|e| errno(&e))
}

impl Core {
    fn new() -> Core {
        let mut w = World::new();
        w.uid = rustix::process::geteuid().as_raw();
        drop(Store::create(w.dir.path()).unwrap());
        let live = open(&w);
        w.tree = tree(&w, &live);
        let pids = (0..ACTORS).map(|_| w.stranger("prog").pid).collect();
        let observer = w.stranger("cat").pid;
        Core { w, live, pids, observer, fds: HashMap::new(), rows: None, now: 0 }
    }

    fn p(&self, who: usize) -> P<'_> {
        P { w: &self.w, pid: self.pids[who] }
    }

    fn fd(&self, who: usize, slot: usize) -> Fd {
        self.fds[&(who, slot)]
    }

    /// A new core on the store. Nobody has anything open any more.
    fn again(&mut self) {
        self.live = open(&self.w);
        self.w.tree = tree(&self.w, &self.live);
        self.w.open.lock().clear();
        self.fds.clear();
        self.w.procs.all.lock().values_mut().for_each(|p| p.fds.clear());
    }

    fn database(&mut self) -> &Connection {
        let path = self.w.dir.path().join("missions.db");
        self.rows.get_or_insert_with(|| {
            let db = Connection::open(path).unwrap();
            db.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
            db
        })
    }
}

impl Real for Core {
    fn exact(&self) -> bool {
        true
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn open(&mut self, who: usize, slot: usize, name: &str, flags: i32) -> Answer<()> {
        let fd = answer(self.p(who).open(name, flags))?;
        self.fds.insert((who, slot), fd);
        Ok(())
    }

    fn read(&mut self, who: usize, slot: usize, offset: u64, size: usize) -> Answer<Vec<u8>> {
        let text = self.p(who).pread(self.fd(who, slot), offset, size as u32);
        answer(text.map(String::into_bytes))
    }

    fn write(&mut self, who: usize, slot: usize, offset: u64, bytes: &[u8]) -> Answer<()> {
        let (p, fd) = (self.p(who), self.fd(who, slot));
        p.seek(fd, offset);
        answer(p.write_by(&p.who(), fd, bytes))
    }

    fn truncate(&mut self, who: usize, slot: usize, size: u64) -> Answer<()> {
        answer(self.p(who).ftruncate(self.fd(who, slot), size))
    }

    fn fsync(&mut self, who: usize, slot: usize) -> Answer<()> {
        answer(self.p(who).fsync(self.fd(who, slot)))
    }

    fn close(&mut self, who: usize, slot: usize) -> Answer<()> {
        let fd = self.fds.remove(&(who, slot)).unwrap();
        answer(self.p(who).close(fd))
    }

    fn rename(&mut self, who: usize, from: &str, to: &str) -> Answer<()> {
        answer(self.p(who).rename(from, to))
    }

    fn unlink(&mut self, who: usize, name: &str) -> Answer<()> {
        answer(self.p(who).unlink(name))
    }

    fn stat(&mut self, who: usize, name: &str) -> Answer<Stat> {
        let attr = answer(self.p(who).stat(name))?;
        Ok(Stat { size: attr.size, mtime: i128::from(attr.mtime.0), ino: attr.ino })
    }

    fn exit(&mut self, who: usize) {
        self.p(who).exit();
        self.pids[who] = self.w.stranger("prog").pid;
    }

    fn kill(&mut self, who: usize) {
        self.p(who).kill();
        self.fds.retain(|(of, _), _| *of != who);
        self.pids[who] = self.w.stranger("prog").pid;
    }

    fn observe(&mut self, doc: Doc) -> Option<(Vec<u8>, Stat)> {
        let p = P { w: &self.w, pid: self.observer };
        let attr = match p.stat(doc.name()) {
            Err(Error::NotFound) => return None,
            attr => attr.unwrap(),
        };
        let stat = Stat { size: attr.size, mtime: i128::from(attr.mtime.0), ino: attr.ino };
        Some((p.cat(doc.name()).unwrap().into_bytes(), stat))
    }

    fn rows(&mut self) -> Vec<(String, String)> {
        let sql = "SELECT text, state FROM missions ORDER BY sequence, id";
        let mut select = self.database().prepare_cached(sql).unwrap();
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(|row| row.unwrap()).collect()
    }

    fn sql(&mut self, statement: &str) {
        self.database().execute(statement, []).unwrap();
    }

    fn command(&mut self, key: &str, value: u32) {
        let view = View::ConfigJson;
        let seen = self.live.current(DocId::Config).unwrap();
        let mut keys: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(&seen.view(view).unwrap().to_vec()).unwrap();
        keys.insert(key.to_owned(), value.into());
        let text = serde_json::to_string(&keys).unwrap();
        let request = SaveRequest {
            view,
            base: Some(seen),
            basis: Basis::by(Rule::Command),
            instead_of: None,
            written: Written::Whole(text.as_bytes()),
            actor: Actor::this_process(Via::Command),
            under_their_lock: false,
            expect_sha256: None,
        };
        self.live.save(request).unwrap();
    }

    fn kept(&mut self) -> Vec<(String, Vec<u8>)> {
        let names = [".refused", ".unsaved-"].into_iter().flat_map(|part| self.w.names(part));
        let read = |name: &String| std::fs::read(self.w.dir.path().join(name)).unwrap();
        names.map(|name| (name.clone(), read(&name))).collect()
    }

    fn history(&mut self, doc: Doc) -> Vec<Vec<u8>> {
        let view = match doc {
            Doc::Missions => View::MissionsMd,
            Doc::Config => View::ConfigJson,
        };
        let numbers = self.live.store().numbers(view.doc(), Rev(0), usize::MAX >> 1).unwrap();
        let text = |(rev, _)| self.live.text_at(view, rev).unwrap().unwrap().to_vec();
        numbers.into_iter().map(text).collect()
    }

    fn rest(&mut self) {
        self.now += 2_500;
        self.w.clock.forward(2_500);
        self.w.tree.tick();
    }

    fn remount(&mut self) -> Vec<(Doc, Vec<u8>)> {
        self.w.tree.shutdown();
        self.again();
        Vec::new()
    }

    fn term(&mut self) {
        self.w.tree.shutdown();
        self.again();
    }

    /// What is on the disk at this moment is all that there is afterwards.
    fn crash(&mut self) {
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(self.w.dir.path()).unwrap() {
            let entry = entry.unwrap();
            // SQLite makes the index of its log anew, as it does after a power loss.
            if !entry.file_name().to_string_lossy().ends_with("-shm") {
                std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
            }
        }
        self.rows = None;
        self.w.dir = dir;
        self.again();
    }

    fn crash_in(&mut self, who: usize, name: &str, way: Option<Way>, text: &str, _: u64) -> bool {
        let p = self.p(who);
        match way {
            None => p.append(name, text).unwrap(),
            Some(Way::Rename) => {
                p.save("new", text).unwrap();
                p.rename("new", name).unwrap();
            }
            Some(_) => p.save(name, text).unwrap(),
        }
        self.crash();
        true
    }
}

/// Does a sequence again that has failed once.
#[track_caller]
fn again(ops: &[Op]) {
    if let Err(what) = replay(Core::new(), ops) {
        panic!("{what}");
    }
}

/// Each seed of its own sequence; `MODEL_SEED=N` tries those from N on, `MODEL_SEEDS=N` so many times
/// as many. All are tried, so that one run tells all that is wrong.
fn sequences(seeds: std::ops::Range<u64>) {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |n| n.parse().unwrap());
    let (from, times) = (number("MODEL_SEED", 0), number("MODEL_SEEDS", 1));
    let mix = Mix { ends: [15, 15, 25, 10], rests: 30 };
    let wrong: Vec<String> = (seeds.start * times..seeds.end * times)
        .filter_map(|seed| sequence(from + seed, LENGTH, &mix, Core::new).err())
        .collect();
    assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn sequences_keep_the_promises_1() {
    sequences(0..70);
}

#[test]
fn sequences_keep_the_promises_2() {
    sequences(70..140);
}

#[test]
fn sequences_keep_the_promises_3() {
    sequences(140..210);
}
