//! Tests of orders, and of compare-and-swap against every kind of writer. A document that calls
//! back between the check of the hash and the write shows what can happen there.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::documents::Version;
use crate::documents::live::{Live, SaveError, SaveRequest, Saved};
use crate::model::{Actor, Basis, Reason, Rule, SystemClock, Via};
use crate::store::{DB_NAME, Options, Store};

type Hook = Box<dyn Fn() + Send + Sync>;

/// The config document, with calls where a save is planned (a large one before the transaction)
/// and where the check is done and nothing is written yet.
struct Hooked {
    config: ConfigDocument,
    planning: Mutex<Option<Hook>>,
    between: Mutex<Option<Hook>>,
}

impl Document for Hooked {
    fn id(&self) -> DocId {
        self.config.id()
    }
    fn schema(&self) -> &'static str {
        self.config.schema()
    }
    fn fresh(&self) -> State {
        self.config.fresh()
    }
    fn decode(&self, archive: &[u8]) -> Result<State, String> {
        self.config.decode(archive)
    }
    fn believe(&self, v: View, t: &[u8], near: &State, cx: &Context) -> Result<State, Refusal> {
        self.config.believe(v, t, near, cx)
    }
    fn refresh(
        &self,
        conn: &Connection,
        base: &State,
        last: &State,
        cx: &Context,
    ) -> Result<Refreshed, StoreError> {
        self.config.refresh(conn, base, last, cx)
    }
    fn plan(&self, save: &Save<'_>, cx: &Context) -> Result<Plan, Refusal> {
        let plan = self.config.plan(save, cx);
        if let Some(hook) = self.planning.lock().take() {
            hook();
        }
        plan
    }
    fn apply(
        &self,
        conn: &Connection,
        before: &State,
        after: &State,
        cx: &Context,
    ) -> Result<State, StoreError> {
        if let Some(hook) = self.between.lock().take() {
            hook();
        }
        self.config.apply(conn, before, after, cx)
    }
}

fn open(dir: &Path) -> (Arc<Live>, Arc<Hooked>) {
    let options = Options { patience: Duration::from_secs(60), ..Options::default() };
    let store = Arc::new(Store::open(dir, options).unwrap());
    let config = ConfigDocument::new(Some(dir.to_owned()), None);
    let hooked = Arc::new(Hooked { config, planning: Mutex::new(None), between: Mutex::new(None) });
    let live = Live::open(store, vec![hooked.clone()], Arc::new(SystemClock)).unwrap();
    (Arc::new(live), hooked)
}

fn actor() -> Actor {
    Actor { pid: 7, uid: 8, session: 9, program: "prog".into(), via: Via::Command }
}

fn text_of(live: &Live) -> String {
    let now = live.current(DocId::Config).unwrap();
    String::from_utf8(source_bytes(&now.state).to_vec()).unwrap()
}

fn hash_of(live: &Live) -> [u8; 32] {
    source_sha256(&live.current(DocId::Config).unwrap().state)
}

/// `config set -` of this text, only on that hash.
fn swap(live: &Live, text: &str, hash: [u8; 32]) -> Result<Saved, SaveError> {
    let order = Order {
        edit: Edit::Text { text: text.into(), merge: false },
        expect_sha256: Some(hash),
        version_limit: None,
    };
    run(live, &order)
}

fn run(live: &Live, order: &Order) -> Result<Saved, SaveError> {
    ConfigDocument::new(None, None).carry_out(live, order, &actor()).map(|(saved, _)| saved)
}

/// A save through the mount, by somebody who had seen `seen`.
fn mount_save(live: &Live, seen: &Arc<Version>, text: &str) -> Saved {
    mount_request(live, seen, text, None).unwrap()
}

fn mount_request(
    live: &Live,
    seen: &Arc<Version>,
    text: &str,
    expect_sha256: Option<[u8; 32]>,
) -> Result<Saved, SaveError> {
    live.save(SaveRequest {
        view: View::ConfigJson,
        base: Some(seen.clone()),
        basis: Basis::by(Rule::Own),
        instead_of: None,
        written: Written::Whole(text.as_bytes()),
        actor: Actor { via: Via::Mount, ..actor() },
        under_their_lock: false,
        expect_sha256,
    })
}

fn is_changed(result: Result<Saved, SaveError>) -> bool {
    matches!(result, Err(SaveError::Refused(r)) if r.reason == Reason::Expectation)
}

const FIRST: &str = "{\"a\": 1, \"b\": 1}\n";

fn world() -> (tempfile::TempDir, Arc<Live>, Arc<Hooked>) {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let (live, hooked) = open(dir.path());
    // The hash of nothing: there is no config yet.
    swap(&live, FIRST, Sha256::digest(b"").into()).unwrap();
    assert!(is_changed(swap(&live, FIRST, Sha256::digest(b"").into())), "only once");
    (dir, live, hooked)
}

use sha2::{Digest, Sha256};

/// Between the check and the write: another program's SQL is kept out, and finds the database
/// free, with the swap in it, right afterwards.
#[test]
fn sql_cannot_slip_in_between_the_check_and_the_write() {
    let (dir, live, hooked) = world();
    let other = Connection::open(dir.path().join(DB_NAME)).unwrap();
    other.busy_timeout(Duration::ZERO).unwrap();
    let other = Arc::new(Mutex::new(other));
    let tried = Arc::new(AtomicBool::new(false));
    let (sql, done) = (other.clone(), tried.clone());
    *hooked.between.lock() = Some(Box::new(move || {
        let sql = sql.lock();
        let theirs = sql.execute("UPDATE ifs_config SET text = '{\"theirs\": 1}'", []);
        let code = theirs.unwrap_err().sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::DatabaseBusy));
        done.store(true, Ordering::SeqCst);
    }));
    let before = hash_of(&live);
    swap(&live, "{\"a\": 2, \"b\": 1}\n", before).unwrap();
    assert!(tried.load(Ordering::SeqCst));
    assert_eq!(text_of(&live), "{\"a\": 2, \"b\": 1}\n");
    other.lock().execute("UPDATE ifs_config SET text = '{\"theirs\": 1}'", []).unwrap();
    assert!(is_changed(swap(&live, "{}\n", before)));
    assert_eq!(text_of(&live), "{\"theirs\": 1}");
}

/// Saves through the mount and by other processes that begin at that point come after it, and
/// merge with it.
#[test]
fn saves_that_begin_in_between_come_afterwards() {
    let (dir, live, hooked) = world();
    let (second, _) = open(dir.path());
    let seen = live.current(DocId::Config).unwrap();
    let threads = Arc::new(Mutex::new(Vec::new()));
    let finished = Arc::new(AtomicBool::new(false));
    let (live2, started, over) = (live.clone(), threads.clone(), finished.clone());
    *hooked.between.lock() = Some(Box::new(move || {
        for (live, text) in [
            (live2.clone(), "{\"a\": 1, \"b\": 1, \"mount\": 1}\n"),
            (second.clone(), "{\"a\": 1, \"b\": 1, \"other\": 1}\n"),
        ] {
            let (seen, over) = (seen.clone(), over.clone());
            started.lock().push(thread::spawn(move || {
                let saved = mount_save(&live, &seen, text);
                over.store(true, Ordering::SeqCst);
                saved.version.rev
            }));
        }
        // However long they are given here, they do not get through.
        thread::sleep(Duration::from_millis(50));
        assert!(!over.load(Ordering::SeqCst));
    }));
    let before = hash_of(&live);
    let mine = swap(&live, "{\"a\": 2, \"b\": 1}\n", before).unwrap();
    for t in std::mem::take(&mut *threads.lock()) {
        assert!(t.join().unwrap() > mine.version.rev);
    }
    let on_record = live.store().revision(DocId::Config, mine.version.rev).unwrap().unwrap();
    assert_eq!(on_record.base.map(|b| b.0), Some(mine.version.rev.0 - 1), "nothing in between");
    let now = live.current(DocId::Config).unwrap();
    let (_, text) = ConfigState::of(&now.state).source().unwrap();
    for part in ["\"a\": 2", "\"mount\": 1", "\"other\": 1"] {
        assert!(text.contains(part), "{text}");
    }
}

/// The same for the guard of a save through the mount (the extended attribute), of texts that
/// are planned before the gate is open, too.
#[test]
fn a_guarded_save_through_the_mount_holds_in_the_same_way() {
    let (dir, live, hooked) = world();
    let (second, _) = open(dir.path());
    for (round, size) in [10, 40_000].into_iter().enumerate() {
        let seen = live.current(DocId::Config).unwrap();
        let now = text_of(&live);
        let pad = "x".repeat(size);
        let mine = format!("{{\"round\": {round}, \"pad\": \"{pad}\"}}");
        let (second, old) = (second.clone(), seen.clone());
        let thread = Arc::new(Mutex::new(None));
        let started = thread.clone();
        *hooked.between.lock() = Some(Box::new(move || {
            let (live, seen) = (second.clone(), old.clone());
            let text = now.replacen('{', "{\"slipped\": 1, ", 1);
            *started.lock() = Some(thread::spawn(move || mount_save(&live, &seen, &text)));
        }));
        let hash: [u8; 32] = Sha256::digest(seen.view(View::ConfigJson).unwrap().to_vec()).into();
        let saved = mount_request(&live, &seen, &mine, Some(hash)).unwrap();
        assert!(saved.version.view(View::ConfigJson).unwrap().equals(mine.as_bytes()));
        let after = thread.lock().take().unwrap().join().unwrap();
        assert!(after.version.rev > saved.version.rev);
        assert!(is_changed(mount_request(&live, &seen, "{\"late\": 1}", Some(hash))));
        let plain = "{\"a\": 1}";
        let now = live.current(DocId::Config).unwrap();
        mount_save(&live, &now, plain);
    }
}

/// Somebody commits when the order is planned on the right hash and the transaction has not begun.
#[test]
fn a_commit_just_before_the_transaction_makes_the_hash_another_one() {
    let (dir, live, _) = world();
    let (second, _) = open(dir.path());
    let config = ConfigDocument::new(None, None);
    let text = |text: &str| Edit::Text { text: text.into(), merge: false };
    let order = |edit: Edit, expect: bool| Order {
        edit,
        expect_sha256: expect.then(|| hash_of(&live)),
        version_limit: None,
    };
    let theirs = |text: &'static str| {
        let second = &second;
        move || {
            let seen = second.current(DocId::Config).unwrap();
            mount_save(second, &seen, text);
        }
    };
    let mine = order(text("{\"mine\": 1}"), true);
    let done = config.carry_out_after(&live, &mine, &actor(), theirs("{\"theirs\": 1}"));
    assert!(is_changed(done.map(|(saved, _)| saved)));
    assert_eq!(text_of(&live), "{\"theirs\": 1}", "nothing is written");
    // One key without a hash is set in what is there then.
    let mine = order(Edit::Set { key: "mine".into(), json: "1".into() }, false);
    config.carry_out_after(&live, &mine, &actor(), theirs("{\"theirs\": 2}")).unwrap();
    assert_eq!(text_of(&live), "{\"theirs\": 2, \"mine\": 1}");
    // And nothing is there to take out any more.
    let mine = order(Edit::Unset { key: "mine".into() }, false);
    let done = config.carry_out_after(&live, &mine, &actor(), theirs("{\"theirs\": 3}"));
    assert!(matches!(done, Err(SaveError::Refused(_))));
    assert_eq!(text_of(&live), "{\"theirs\": 3}");
}

/// The same for the guard of a large save, which is planned before the transaction, too.
#[test]
fn a_commit_while_a_guarded_save_is_planned_refuses_it() {
    let (dir, live, hooked) = world();
    let (second, _) = open(dir.path());
    let seen = live.current(DocId::Config).unwrap();
    let hash: [u8; 32] = Sha256::digest(FIRST).into();
    *hooked.planning.lock() = Some(Box::new(move || {
        let seen = second.current(DocId::Config).unwrap();
        mount_save(&second, &seen, "{\"theirs\": 1}");
    }));
    let mine = format!("{{\"mine\": \"{}\"}}", "x".repeat(40_000));
    assert!(is_changed(mount_request(&live, &seen, &mine, Some(hash))));
    assert_eq!(text_of(&live), "{\"theirs\": 1}");
}

/// Whoever wrote, in whatever way: the hash is another one and nothing is written.
#[test]
fn every_writer_makes_the_hash_another_one() {
    let (dir, live, _) = world();
    let (second, _) = open(dir.path());
    let sql = Connection::open(dir.path().join(DB_NAME)).unwrap();
    sql.busy_timeout(Duration::from_secs(10)).unwrap();
    type Write<'a> = Box<dyn Fn() + 'a>;
    let writers: Vec<Write<'_>> = vec![
        Box::new(|| {
            let seen = live.current(DocId::Config).unwrap();
            mount_save(&live, &seen, "{\"mount\": 1}");
        }),
        Box::new(|| {
            let seen = second.current(DocId::Config).unwrap();
            mount_save(&second, &seen, "{\"second\": 1}");
        }),
        Box::new(|| {
            sql.execute("UPDATE ifs_config SET text = '{\"sql\": 1}'", []).unwrap();
        }),
        Box::new(|| {
            let set = Edit::Set { key: "k".into(), json: "1".into() };
            run(&second, &Order { edit: set, expect_sha256: None, version_limit: None }).unwrap();
        }),
    ];
    for write in &writers {
        let hash = hash_of(&live);
        write();
        let (before, rev) = (text_of(&live), live.current(DocId::Config).unwrap().rev);
        assert!(is_changed(swap(&live, "{\"mine\": 1}", hash)));
        // A text that would be refused anyway is not looked at then.
        assert!(is_changed(swap(&live, "{", hash)));
        assert_eq!(text_of(&live), before);
        assert_eq!(live.current(DocId::Config).unwrap().rev, rev, "nothing was written");
        swap(&live, "{\"mine\": 1}", hash_of(&live)).unwrap();
        assert_eq!(text_of(&live), "{\"mine\": 1}");
    }
}

fn order(edit: Edit, current: &State) -> Result<(String, Vec<String>), Refusal> {
    let order = Order { edit, expect_sha256: None, version_limit: None };
    let (plan, notes) = ConfigDocument::new(None, None).order(&order, current)?;
    Ok((String::from_utf8(source_bytes(&plan.next).to_vec()).unwrap(), notes))
}

fn text(text: &str, merge: bool) -> Edit {
    Edit::Text { text: text.into(), merge }
}

#[test]
fn a_text_replaces_or_merges() {
    let yaml: State = Arc::new(ConfigState::read(Form::Yaml, "a: 1 # one\nb: 2 # two\n").unwrap());
    let done = |edit: Edit| order(edit, &yaml).unwrap().0;
    assert_eq!(done(text("{\"a\": 5}", false)), "a: 5 # one\n");
    assert_eq!(done(text("{\"a\": 5}", true)), "a: 5 # one\nb: 2 # two\n");
    assert_eq!(done(text("b: 3\n", false)), "b: 3\n");
    assert_eq!(order(text("{b: 3}\n", false), &yaml).unwrap_err().reason, Reason::Invalid);
    let flow: State = Arc::new(ConfigState::read(Form::Yaml, "{a: 1}\n").unwrap());
    assert_eq!(order(text("{b: 3}\n", false), &flow).unwrap().0, "{b: 3}\n");
    let json: State = Arc::new(ConfigState::read(Form::Json, "{\"a\": 1, \"b\": 2}").unwrap());
    assert_eq!(order(text("a: 5\n", false), &json).unwrap().0, "{\"a\": 5}");
    for (bad, line) in [("{\"a\": 1,}", 1), ("{\"a\":\n NaN}", 2), ("{\"a\": 1, \"a\": 2}", 1)] {
        let r = order(text(bad, false), &json).unwrap_err();
        assert_eq!((r.reason, r.line), (Reason::Invalid, Some(line)), "{bad}");
    }
    assert_eq!(order(text(" \n", false), &json).unwrap_err().reason, Reason::Empty);
    // A new store takes the form of the text.
    let fresh: State = Arc::new(ConfigState::none());
    assert_eq!(order(text("a: 1 # c\n", false), &fresh).unwrap().0, "a: 1 # c\n");
    assert_eq!(order(text("{\"a\":1}", false), &fresh).unwrap().0, "{\"a\":1}");
    // A person who replaces all means it, whether or not there is a version; that stays.
    let old: State = Arc::new(ConfigState::read(Form::Json, "{\"version\": 3, \"a\": 1}").unwrap());
    let (now, notes) = order(text("{\"b\": 1}", false), &old).unwrap();
    assert_eq!((now.as_str(), notes.len()), ("{\"version\": 3, \"b\": 1}", 0));
    let (now, notes) = order(text("{\"version\": 2, \"b\": 1}", false), &old).unwrap();
    assert!(now.contains("\"a\": 1") && notes.len() == 1, "{now} {notes:?}");
}

#[test]
fn values_are_json_or_strings() {
    for (typed, json) in [
        ("5", "5"),
        (" 1.50 ", "1.50"),
        ("true", "true"),
        ("null", "null"),
        ("[1, 2]", "[1, 2]"),
        ("\"x\"", "\"x\""),
        ("hello", "\"hello\""),
        ("012", "\"012\""),
        ("", "\"\""),
        ("1, \"b\": 2", "\"1, \\\"b\\\": 2\""),
        ("{\"a\": 1, \"a\": 2}", "\"{\\\"a\\\": 1, \\\"a\\\": 2}\""),
        ("yes", "\"yes\""),
    ] {
        assert_eq!(value_json(typed, false), json, "{typed}");
    }
    assert_eq!(value_json("5", true), "\"5\"");
    assert_eq!(value_json("\"x\"", true), "\"\\\"x\\\"\"");
}

#[test]
fn keys_are_set_and_refused_with_a_reason() {
    let cur: State = Arc::new(ConfigState::read(Form::Json, "{\"a\": 1, \"t\": []}").unwrap());
    let set = |key: &str, json: &str| Edit::Set { key: key.into(), json: json.into() };
    assert_eq!(
        order(set("b.c", "1.50"), &cur).unwrap().0,
        "{\"a\": 1, \"t\": [], \"b\": {\"c\": 1.50}}"
    );
    for (edit, word) in [
        (set("a.b", "1"), "key of a number"),
        (set("t[1]", "1"), "0 elements"),
        (set("", "{}"), ""),
        (Edit::Unset { key: "x.y".into() }, "no such key"),
        (set("a", &format!("{}1{}", "[".repeat(200), "]".repeat(200))), "no JSON"),
    ] {
        match order(edit.clone(), &cur) {
            Ok(_) if word.is_empty() => {}
            Ok((now, _)) => panic!("{edit:?}: {now}"),
            Err(r) => assert!(r.to_string().contains(word) && r.line.is_none(), "{r}"),
        }
    }
}
