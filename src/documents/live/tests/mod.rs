//! Tests of the live documents with a small document of their own.

mod crash;
mod lines;
mod outside;
mod saves;
mod together;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use self::lines::Lines;
use super::*;
use crate::model::{Basis, Rule, Stamp, SystemClock, Via};
use crate::store::{DB_NAME, LOCK_NAME, Options};

const DOC: DocId = DocId::Missions;
const VIEW: View = View::MissionsMd;

struct Frozen;

impl Clock for Frozen {
    fn now(&self) -> Stamp {
        Stamp(1_000)
    }
}

fn options() -> Options {
    Options { patience: Duration::from_millis(300), ..Options::default() }
}

fn new_store(dir: &Path) -> Live {
    drop(Store::create(dir).unwrap());
    open(dir)
}

fn open(dir: &Path) -> Live {
    open_with(dir, options())
}

fn open_with(dir: &Path, options: Options) -> Live {
    let store = Arc::new(Store::open(dir, options).unwrap());
    Live::open(store, vec![Arc::new(Lines)], Arc::new(SystemClock)).unwrap()
}

/// Another program's connection.
fn other(dir: &Path) -> Connection {
    let c = Connection::open(dir.join(DB_NAME)).unwrap();
    c.busy_timeout(Duration::from_secs(5)).unwrap();
    c
}

/// Another program's hold on missions.lock. (An flock belongs to the open file, so a second
/// descriptor of this process is as foreign as another process.)
fn hold_lock(dir: &Path) -> std::fs::File {
    let path = dir.join(LOCK_NAME);
    let f = std::fs::File::options().create(true).append(true).open(path).unwrap();
    rustix::fs::flock(&f, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    f
}

fn actor() -> Actor {
    Actor { pid: 7, uid: 8, session: 9, program: "prog".into(), via: Via::Mount }
}

fn request<'a>(seen: Option<&Arc<Version>>, written: Written<'a>) -> SaveRequest<'a> {
    SaveRequest {
        view: VIEW,
        base: seen.cloned(),
        basis: Basis::by(Rule::Own),
        instead_of: None,
        written,
        actor: actor(),
        under_their_lock: false,
        expect_sha256: None,
    }
}

fn append(live: &Live, text: &str) -> Saved {
    live.save(request(None, Written::Fragment(text.as_bytes()))).unwrap()
}

fn whole(live: &Live, seen: &Arc<Version>, text: &str) -> Saved {
    live.save(request(Some(seen), Written::Whole(text.as_bytes()))).unwrap()
}

fn text_of(version: &Version) -> String {
    String::from_utf8(version.view(VIEW).unwrap().to_vec()).unwrap()
}

fn read(live: &Live) -> String {
    text_of(&live.current(DOC).unwrap())
}

fn rows(conn: &Connection) -> String {
    let mut stmt = conn.prepare("SELECT CAST(text AS TEXT) FROM ifs_lines ORDER BY id").unwrap();
    stmt.query_map([], |r| r.get::<_, String>(0)).unwrap().map(|t| t.unwrap()).collect()
}
