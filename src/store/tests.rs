use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::*;
use crate::model::{Actor, Basis, DocId, Overlap, Reason, Refusal, Rev, Rule, Stamp, Via, View};

const DOC: DocId = DocId::Config;

fn new_store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    (dir, store)
}

fn other(dir: &Path) -> Connection {
    Connection::open(dir.join(DB_NAME)).unwrap()
}

fn tables(c: &Connection) -> Vec<String> {
    let mut stmt = c.prepare("SELECT name FROM sqlite_schema ORDER BY name").unwrap();
    stmt.query_map([], |r| r.get(0)).unwrap().map(|n| n.unwrap()).collect()
}

fn actor() -> Actor {
    Actor { pid: 1, uid: 2, session: 3, program: "prög".into(), via: Via::Command }
}

#[test]
fn a_new_store_is_private_and_leaves_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b");
    let store = Store::create(&path).unwrap();
    let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join(DB_NAME)), 0o600);
    assert!(store.created().unwrap() > Stamp(0));
    store.reserve("x", 1).unwrap();
    store.read(|c| Ok(c.query_row("SELECT 1", [], |_| Ok(()))?)).unwrap();
    drop(store);
    let left: Vec<_> = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [DB_NAME], "no WAL is left when everybody has closed");
}

#[test]
fn what_is_no_store_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Store::open(dir.path(), Options::default());
    let unusable = |e: Result<Store, StoreError>, what: &str| match e {
        Err(StoreError::Unusable { reason, path }) => {
            assert!(reason.contains(what), "{reason}");
            assert!(path.ends_with(DB_NAME));
        }
        other => panic!("{other:?}"),
    };
    unusable(open(), "no such database");
    let db = dir.path().join(DB_NAME);
    std::fs::write(&db, "# Missions\n".repeat(1_000)).unwrap();
    unusable(open(), "not an SQLite database");
    std::fs::remove_file(&db).unwrap();
    std::fs::create_dir(&db).unwrap();
    unusable(open(), "not a file");
    std::fs::remove_dir(&db).unwrap();
    other(dir.path()).execute_batch("CREATE TABLE missions (id, title)").unwrap();
    unusable(open(), "missions has no column text");
    assert_eq!(tables(&other(dir.path())), ["missions"]);
}

#[test]
fn a_newer_database_is_refused_untouched() {
    let (dir, store) = new_store();
    drop(store);
    let c = other(dir.path());
    c.execute("UPDATE ifs_meta SET value = 99 WHERE key = 'schema'", []).unwrap();
    match Store::open(dir.path(), Options::default()) {
        Err(StoreError::Newer { found: 99, known: 2, .. }) => {}
        e => panic!("{e:?}"),
    }
}

/// As another program leaves it: some of the tables, another journal mode, its own
/// `user_version`, a table that we do not know.
fn foreign(dir: &Path) {
    other(dir)
        .execute_batch(
            "PRAGMA user_version = 7;
             CREATE TABLE missions (id INTEGER PRIMARY KEY, text TEXT NOT NULL,
                 state TEXT NOT NULL, project TEXT NOT NULL DEFAULT 'default',
                 sequence INTEGER NOT NULL DEFAULT 0, complexity, queued_at, started_at,
                 completed_at TEXT, recovery_count INTEGER NOT NULL DEFAULT 0, extra);
             CREATE TABLE its_own (x);
             INSERT INTO missions (text, state) VALUES ('fix', 'pending');",
        )
        .unwrap();
}

#[test]
fn a_foreign_database_is_taken_over_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    foreign(dir.path());
    let store = Store::create(dir.path()).unwrap();
    let c = other(dir.path());
    let version: i64 = c.query_row("PRAGMA user_version", [], |r| r.get(0)).unwrap();
    assert_eq!(version, 7);
    let text: String =
        c.query_row("SELECT text || coalesce(extra, '') FROM missions", [], |r| r.get(0)).unwrap();
    assert_eq!(text, "fix");
    let all = tables(&c);
    for name in ["its_own", "ci_queue", "quarantine", "ifs_revisions"] {
        assert!(all.iter().any(|t| t == name), "{name}");
    }
    drop(store);
    assert_eq!(tables(&c), all);
    Store::open(dir.path(), Options::default()).unwrap();
    assert_eq!(tables(&c), all, "a second start changes nothing");
}

#[test]
fn a_foreign_database_opened_read_only_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    foreign(dir.path());
    let bytes = || std::fs::read(dir.path().join(DB_NAME)).unwrap();
    let before = bytes();
    let options = Options { read_only: true, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    assert!(store.bare() && store.read_only());
    assert_eq!(store.created().unwrap(), Stamp(0));
    assert_eq!(store.revisions(DOC, None, 9).unwrap(), []);
    assert_eq!(store.revision_count(DOC).unwrap(), 0);
    assert_eq!(store.names().unwrap(), []);
    assert_eq!(store.observations("boot").unwrap(), []);
    assert_eq!(store.refusal_count().unwrap(), 0);
    assert!(store.reserve("x", 1).is_err());
    store.maintain(Stamp(0)).unwrap();
    drop(store);
    assert!(bytes() == before);
}

#[test]
fn the_gate_rolls_back_on_errors_and_panics() {
    let (dir, store) = new_store();
    let put = |c: &Connection, k: &str| c.execute("INSERT INTO meta VALUES (?1, '')", [k]);
    let failed = store.gate(|c| {
        put(c, "a")?;
        Ok(c.execute_batch("no such statement")?)
    });
    assert!(matches!(failed, Err(StoreError::Sqlite(_))));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.gate(|c| -> Result<(), StoreError> {
            put(c, "b")?;
            panic!("inside")
        })
    }));
    assert!(panicked.is_err());
    store.gate(|c| Ok(put(c, "c")?)).unwrap();
    let keys: String = other(dir.path())
        .query_row("SELECT group_concat(key) FROM meta", [], |r| r.get(0))
        .unwrap();
    assert_eq!(keys, "c");
}

#[test]
fn a_look_tells_others_commits_from_our_own() {
    let (dir, store) = new_store();
    let settle = || match store.look().unwrap() {
        Look::Changed(mut idle) => {
            idle.snapshot(|_| Ok(true)).unwrap();
            true
        }
        Look::Same => false,
        Look::Busy { .. } => panic!("nobody is at work"),
    };
    assert!(settle(), "never compared");
    assert!(!settle());
    store.reserve("x", 1).unwrap();
    assert!(!settle(), "our own commit");
    let c = other(dir.path());
    c.execute("INSERT INTO meta VALUES ('k', 'v')", []).unwrap();
    assert!(settle());
    assert!(!settle());

    // While the writer is at work, a reader's glance tells the same.
    let gate = store.begin(Wait::Never, false).unwrap();
    assert!(!gate.outside_change());
    let known = || matches!(store.look().unwrap(), Look::Busy { known: true });
    let before = known();
    drop(gate);
    store.reserve("x", 1).unwrap();
    let gate = store.begin(Wait::Never, false).unwrap();
    assert!(known(), "told at the last commit; before: {before}");
    drop(gate);
    c.execute("DELETE FROM meta", []).unwrap();
    let gate = store.begin(Wait::Never, false).unwrap();
    assert!(gate.outside_change());
    assert!(!known());
}

#[test]
fn syncing_is_asked_for_once() {
    let (_dir, store) = new_store();
    assert!(!store.is_dirty());
    store.reserve("x", 1).unwrap();
    assert!(store.is_dirty());
    store.sync().unwrap();
    assert!(!store.is_dirty());
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..20 {
                    store.reserve("x", 1).unwrap();
                    store.sync().unwrap();
                }
            });
        }
    });
    assert!(!store.is_dirty());
    assert_eq!(store.reserve("x", 1).unwrap(), 82);
}

#[test]
fn missions_lock_is_ours_or_theirs_or_free() {
    let (dir, store) = new_store();
    let theirs = || store.missions_lock_is_theirs().unwrap();
    assert!(!theirs());
    let ours = store.try_missions_lock().unwrap();
    assert!(ours.is_some() && !theirs());
    assert!(store.try_missions_lock().unwrap().is_none());
    drop(ours);
    assert!(!theirs());
    let file = std::fs::File::open(dir.path().join(LOCK_NAME)).unwrap();
    use rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&file, NonBlockingLockExclusive).unwrap();
    assert!(theirs());
    assert!(store.try_missions_lock().unwrap().is_none());
    drop(file);
    assert!(store.try_missions_lock().unwrap().is_some());
}

#[test]
fn numbers_are_given_once() {
    let (dir, store) = new_store();
    assert_eq!(store.reserve("ino", 10).unwrap(), 1);
    assert_eq!(store.reserve("ino", 5).unwrap(), 11);
    assert_eq!(store.reserve("other", 1).unwrap(), 1);
    drop(store);
    let store = Store::open(dir.path(), Options::default()).unwrap();
    assert_eq!(store.reserve("ino", 1).unwrap(), 16);
}

#[test]
fn small_tables_give_back_what_they_got() {
    let (_dir, store) = new_store();
    let name = NameRow {
        view: View::ConfigYaml,
        ino: u64::MAX,
        mode: Some(0o640),
        uid: None,
        gid: Some(5),
        atime: Some(Stamp(-1)),
        mtime: Some((Stamp(7), Rev(3))),
    };
    store.save_name(&NameRow { ino: 1, ..name.clone() }).unwrap();
    store.save_name(&name).unwrap();
    assert_eq!(store.names().unwrap(), [name]);

    let observed = |at: u64, text: Option<&[u8]>| ObservedRow {
        at,
        time: Stamp(5),
        view: View::ConfigJson,
        chain: vec![1, 0, 255],
        uid: 1000,
        kind: 1,
        used: 0,
        rev: Rev(4),
        text: text.map(<[u8]>::to_vec),
        has_text: text.is_some(),
    };
    let (a, b, c) = (observed(10, None), observed(20, Some(b"\0x")), observed(5, None));
    store.save_observed("boot", &[a.clone(), b.clone(), c.clone()], &[]).unwrap();
    store.save_observed("old", std::slice::from_ref(&a), &[]).unwrap();
    let used = ObservedRow { used: 1, ..b.clone() };
    store.save_observed("boot", std::slice::from_ref(&used), &[(DOC, a.at)]).unwrap();
    let without = ObservedRow { text: None, ..used.clone() };
    assert_eq!(store.observations("boot").unwrap(), [c, without], "the oldest first");
    assert_eq!(store.observation("boot", DOC, b.at).unwrap(), Some(used));
    assert_eq!(store.observation("boot", DOC, a.at).unwrap(), None);
    assert_eq!(store.observations("old").unwrap(), [a]);
    store.forget_other_boots("boot").unwrap();
    assert_eq!(store.observations("old").unwrap(), []);
    assert_eq!(store.observations("boot").unwrap().len(), 2);

    let export = ExportRow { view: View::MissionsMd, sha256: [9; 32], rev: Rev(2), at: Stamp(3) };
    store.set_export(&export).unwrap();
    store.set_export(&ExportRow { view: View::ConfigJson, ..export.clone() }).unwrap();
    store.clear_export(View::ConfigJson).unwrap();
    assert_eq!(store.exports().unwrap(), [export]);
}

#[test]
fn refusals_are_counted_and_the_newest_kept() {
    let (_dir, store) = new_store();
    let why = Refusal::new(Reason::Schema, "too large").at_line(3).at_key("a.b").hint("halve it");
    let record = |at: i64, kept_as: Option<&str>| {
        let refusal = KeptRefusal {
            at: Stamp(at),
            view: View::ConfigJson,
            actor: &actor(),
            refusal: &why,
            kept_as,
            base: Some(Rev(7)),
            append: false,
        };
        store.record_refusal(&refusal).unwrap();
    };
    for n in 0..3 {
        record(n, Some("config.json.refused"));
    }
    let newest = &store.refusals(2).unwrap()[0];
    assert_eq!(newest.at, Stamp(2));
    assert_eq!((newest.actor.pid, newest.actor.program.as_str()), (1, "prög"));
    assert_eq!((newest.line, newest.key.as_deref()), (Some(3), Some("a.b")));
    assert_eq!((newest.reason.as_str(), newest.message.as_str()), ("schema", "too large"));
    assert_eq!(newest.kept_as.as_deref(), Some("config.json.refused"));
    assert_eq!((newest.base, newest.resolved), (Some(Rev(7)), false));
    store.resolve_refusals(&["config.json.refused".to_owned()]).unwrap();
    assert!(store.refusals(3).unwrap().iter().all(|r| r.resolved));
    // What has changed nothing takes no place from them, nor they from it.
    let nothing = Refusal::new(Reason::Unchanged, "has changed nothing");
    let unchanged = KeptRefusal {
        at: Stamp(3),
        view: View::ConfigJson,
        actor: &actor(),
        refusal: &nothing,
        kept_as: None,
        base: None,
        append: false,
    };
    store.record_refusal(&unchanged).unwrap();
    for n in 4..1_004 {
        record(n, None);
    }
    let all = store.refusals(2_000).unwrap();
    let of = |reason: &str| -> Vec<i64> {
        all.iter().filter(|r| r.reason == reason).map(|r| r.at.0).collect()
    };
    assert_eq!(of("unchanged"), [3]);
    assert_eq!((of("schema").len(), of("schema").last()), (1_000, Some(&4)));
    assert_eq!(store.refusal_count().unwrap(), 1_003);
    assert_eq!(store.open_refusals(2_000).unwrap().len(), 1_000);
}

fn record(store: &Store, at: i64, old: &[Arc<[u8]>], new: &[Arc<[u8]>]) -> Rev {
    store.gate(|c| Ok(record_in(c, at, old, new))).unwrap()
}

fn record_in(c: &Connection, at: i64, old: &[Arc<[u8]>], new: &[Arc<[u8]>]) -> Rev {
    let (old, new): (Vec<_>, Vec<_>) = (old.iter().collect(), new.iter().collect());
    let delta = delta::between(&old, &new);
    let overlaps = [Overlap { what: "a".into(), earlier: "1".into(), later: "2".into() }];
    let revision = NewRevision {
        doc: DOC,
        rev: None,
        at: Stamp(at),
        actor: &actor(),
        base: None,
        basis: &Basis::by(Rule::Kin),
        summary: "s",
        overlaps: &overlaps,
        delta: &delta,
    };
    let rev = ledger::insert(c, &revision).unwrap();
    let row = DocumentRow { doc: DOC, rev, rows_rev: rev, rows: None, mtime: Stamp(at) };
    ledger::set_document(c, &row).unwrap();
    rev
}

#[test]
fn revisions_are_listed_newest_first() {
    let (_dir, store) = new_store();
    let text: Vec<Arc<[u8]>> = (0..5u8).map(|n| Arc::from(vec![n; 10])).collect();
    let revs: Vec<Rev> =
        (0..5).map(|n| record(&store, n as i64, &text[..n], &text[..=n])).collect();
    let list = store.revisions(DOC, Some(revs[3]), 2).unwrap();
    assert_eq!(list.iter().map(|r| r.rev).collect::<Vec<_>>(), [revs[2], revs[1]]);
    assert_eq!(list[0].actor, actor());
    assert_eq!((list[0].basis.clone(), list[0].base), (Some(Basis::by(Rule::Kin)), None));
    assert_eq!(list[0].overlaps[0].later, "2");
    assert_eq!(store.newest(DOC).unwrap().unwrap().rev, revs[4]);
    assert_eq!(store.revision(DocId::Missions, revs[4]).unwrap(), None);
    assert_eq!(store.archive(DOC, revs[1]).unwrap().unwrap(), text[..2].concat());
    assert_eq!(store.archive(DocId::Missions, revs[1]).unwrap(), None);
}

#[test]
fn a_damaged_history_is_an_error_with_a_place() {
    let (dir, store) = new_store();
    let text: Vec<Arc<[u8]>> = vec![Arc::from(&b"abc"[..]), Arc::from(&b"def"[..])];
    let first = record(&store, 1, &[], &text[..1]);
    let second = record(&store, 2, &text[..1], &text);
    other(dir.path())
        .execute("DELETE FROM ifs_revisions WHERE rev = ?1", [first.0 as i64])
        .unwrap();
    match store.archive(DOC, second) {
        Err(StoreError::History { rev, reason, .. }) => {
            assert_eq!(rev, second.0);
            assert!(reason.contains("3 bytes"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

/// The defaults hold ten thousand saves of a document of 1 MB in less than 100 MB, and
/// a rewrite of everything each time does not break them.
#[test]
fn the_history_stays_within_its_bounds() {
    let (dir, store) = new_store();
    let line = |n: usize| Arc::from(format!("{n:>999}\n").as_bytes());
    let mut text: Vec<Arc<[u8]>> = (0..1_000).map(line).collect();
    let mut first = record(&store, 0, &[], &text);
    for part in 0..20usize {
        let mut save = |c: &Connection, n: usize| {
            let old = text.clone();
            text[n * 7 % 1_000] = line(n);
            record_in(c, n as i64, &old, &text);
        };
        let numbers = part * 500..part * 500 + 500;
        store
            .gate(|c| {
                numbers.for_each(|n| save(c, n));
                Ok(())
            })
            .unwrap();
        store.maintain(Stamp(0)).unwrap();
    }
    let size = || {
        let c = other(dir.path());
        let get = |sql: &str| c.query_row(sql, [], |r| r.get::<_, i64>(0)).unwrap();
        (get("PRAGMA page_count") - get("PRAGMA freelist_count")) * get("PRAGMA page_size")
    };
    assert_eq!(store.revision_count(DOC).unwrap(), 10_001);
    assert!(size() < 100 << 20, "{}", size());
    assert_eq!(store.archive(DOC, first).unwrap().unwrap().len(), 1_000_000);
    for n in 0..120usize {
        let old = std::mem::take(&mut text);
        text = (0..1_000).map(|_| Arc::from(vec![n as u8; 1_000])).collect();
        first = record(&store, 10_000 + n as i64, &old, &text);
        if n % 10 == 0 {
            store.maintain(Stamp(10_000)).unwrap();
        }
    }
    store.maintain(Stamp(10_000)).unwrap();
    assert!(size() < 100 << 20, "{}", size());
    let kept = store.revision_count(DOC).unwrap();
    assert!((20..120).contains(&kept), "{kept}");
    assert!(store.archive(DOC, first).unwrap().unwrap() == text.concat());
    let oldest = store.revisions(DOC, None, 1_000).unwrap().pop().unwrap().rev;
    assert_eq!(store.archive(DOC, oldest).unwrap().unwrap().len(), 1_000_000);
}

#[test]
fn old_revisions_go_but_not_those_that_are_needed() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let retention = Retention { max_age: Duration::from_nanos(10), ..Retention::default() };
    let options = Options { retention, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    let mut text: Vec<Arc<[u8]>> = Vec::new();
    let mut revs = Vec::new();
    let mut written_out = Vec::new();
    for n in 0..200 {
        let old = text.clone();
        text.insert(0, Arc::from(vec![b'a' + (n % 20) as u8; 50]));
        text.truncate(20);
        revs.push(record(&store, n, &old, &text));
        if n == 100 {
            written_out = text.concat();
        }
        if n == 70 || n == 150 {
            store.maintain(Stamp(0)).unwrap();
        }
    }
    let sha256 = [0; 32];
    let out = ExportRow { view: View::ConfigJson, sha256, rev: revs[100], at: Stamp(0) };
    store.set_export(&out).unwrap();
    store.maintain(Stamp(10_000)).unwrap();
    let left: Vec<Rev> = store.numbers(DOC, Rev(0), 999).unwrap().iter().map(|r| r.0).collect();
    assert_eq!(left[0], revs[100], "what a file was written out from stays");
    assert_eq!(left[1..], revs[150..]);
    assert!(store.archive(DOC, revs[100]).unwrap().unwrap() == written_out);
    let mut walked = Vec::new();
    let mut last = Vec::new();
    store
        .walk(DOC, revs[100], |rev, bytes| {
            walked.push(rev);
            last = bytes;
            true
        })
        .unwrap();
    assert_eq!(walked, left, "over the gap");
    assert!(last == text.concat());
    let mut cursor = None;
    for rev in &left {
        let from = store.archive_from(&mut cursor, DOC, *rev).unwrap();
        assert!(from == store.archive(DOC, *rev).unwrap(), "{rev}");
    }
    store.clear_export(View::ConfigJson).unwrap();
    store.maintain(Stamp(10_000)).unwrap();
    assert_eq!(store.revisions(DOC, None, 999).unwrap().pop().unwrap().rev, revs[150]);
    assert!(store.archive(DOC, revs[199]).unwrap().unwrap() == text.concat());
    assert_eq!(store.archive(DOC, revs[100]).unwrap(), None);
}

#[test]
fn limits_that_are_set_count_for_whoever_maintains() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    assert_eq!(store.retention().unwrap(), Retention::default());
    let mut text: Vec<Arc<[u8]>> = Vec::new();
    let mut revs = Vec::new();
    for n in 0..300 {
        let old = text.clone();
        text.push(Arc::from(vec![n as u8; 10]));
        revs.push(record(&store, n, &old, &text));
    }
    let few = Retention { max_count: 10, ..Retention::default() };
    store.set_retention(&few).unwrap();
    let other = Store::open(dir.path(), Options::default()).unwrap();
    assert_eq!(other.retention().unwrap(), few);
    other.maintain(Stamp(0)).unwrap();
    let left = store.numbers(DOC, Rev(0), 999).unwrap();
    assert_eq!(left.len(), 10, "a whole archive was made at the edge");
    assert!(store.span(DOC).unwrap().unwrap().pruned);
    for (rev, _) in &left {
        let n = revs.iter().position(|r| r == rev).unwrap();
        assert!(store.archive(DOC, *rev).unwrap().unwrap() == text[..=n].concat());
    }
    assert_eq!(store.made(DOC, revs[0]).unwrap(), None);
    // Then the cut is at the whole archive that the first maintenance left, not at the edge.
    for n in 0..20 {
        let old = text.clone();
        text.push(Arc::from(vec![n as u8; 10]));
        record(&store, n, &old, &text);
    }
    other.maintain(Stamp(0)).unwrap();
    assert_eq!(store.revision_count(DOC).unwrap(), 21);
}

#[test]
fn a_turn_gets_the_missions_lock_when_others_let_go_and_gives_it_to_the_next_try() {
    use rustix::fs::FlockOperation::LockExclusive;
    let (dir, store) = new_store();
    store.try_missions_lock().unwrap();
    let path = dir.path().join(LOCK_NAME);
    let theirs = std::fs::File::open(&path).unwrap();
    rustix::fs::flock(&theirs, LockExclusive).unwrap();
    let turn = store.turn();
    let waiter = std::thread::spawn(move || turn.wait().map(|()| turn));
    // Another file in its place: the queue moves there.
    let aside = dir.path().join("new");
    let newer = std::fs::File::create(&aside).unwrap();
    rustix::fs::flock(&newer, LockExclusive).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    drop(theirs);
    assert!(store.missions_lock_is_theirs().unwrap());
    drop(newer);
    let turn = waiter.join().unwrap().unwrap();
    assert!(!store.missions_lock_is_theirs().unwrap());
    let taken = store.try_missions_lock().unwrap();
    assert!(taken.is_some(), "what was waited for is there for the next one");
    drop(taken);
    drop(turn);
    let turn = store.turn();
    turn.wait().unwrap();
    drop(turn);
    let free = std::fs::File::open(&path).unwrap();
    rustix::fs::flock(&free, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
}
