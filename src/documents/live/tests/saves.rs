use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::*;
use crate::model::{Reason, Stamp};
use crate::store::Retention;

#[test]
fn a_save_is_rows_history_and_the_next_read() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    assert_eq!(live.cached(DOC).rev, Rev(0));
    let first = append(&live, "a\nb\n");
    assert!(first.changed);
    assert_eq!(read(&live), "a\nb\n");
    assert_eq!(text_of(&live.cached(DOC)), "a\nb\n");
    assert_eq!(rows(&other(dir.path())), "a\nb\n");

    let second = whole(&live, &first.version, "a\nc\n");
    assert_eq!(read(&live), "a\nc\n");
    assert_eq!(rows(&other(dir.path())), "a\nc\n");
    let newest = live.store().newest(DOC).unwrap().unwrap();
    assert_eq!(newest.rev, second.version.rev);
    assert_eq!(newest.at, second.version.mtime);
    assert_eq!(newest.actor, actor());
    assert_eq!(newest.base, Some(first.version.rev));
    assert_eq!(newest.summary, "saved");
    assert_eq!(live.store().revision_count(DOC).unwrap(), 2);

    // Equal to what is there: no revision.
    let same = whole(&live, &second.version, "a\nc\n");
    assert!(!same.changed);
    assert_eq!(live.store().revision_count(DOC).unwrap(), 2);
    assert_eq!(live.current(DOC).unwrap().mtime, second.version.mtime);
}

#[test]
fn a_writer_that_has_not_seen_a_line_does_not_remove_it() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    let seen = append(&live, "a\n").version;
    append(&live, "b\n");
    let saved = whole(&live, &seen, "a2\n");
    assert_eq!(read(&live), "b\na2\n");
    assert_eq!(text_of(&saved.believed), "a2\n");
    assert!(saved.believed.belief && saved.believed.rev == saved.version.rev);
}

#[test]
fn every_version_has_a_later_mtime() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let store = Arc::new(Store::open(dir.path(), options()).unwrap());
    let live = Live::open(store, vec![Arc::new(Lines)], Arc::new(Frozen)).unwrap();
    let mut last = live.cached(DOC).mtime;
    for n in 0..5 {
        let now = append(&live, &format!("{n}\n")).version.mtime;
        assert!(now > last);
        last = now;
    }
    drop(live);
    let live = open(dir.path());
    assert_eq!(live.cached(DOC).mtime, last, "kept over a restart");
}

#[test]
fn expect_sha256_is_checked_inside() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    let seen = append(&live, "a\n").version;
    let with = |hash: [u8; 32], text: &'static [u8]| SaveRequest {
        expect_sha256: Some(hash),
        ..request(Some(&seen), Written::Whole(text))
    };
    let hash: [u8; 32] = Sha256::digest(b"a\n").into();
    other(dir.path())
        .execute("INSERT INTO ifs_lines (text) VALUES ('sql' || char(10))", [])
        .unwrap();
    match live.save(with(hash, b"b\n")) {
        Err(SaveError::Refused(r)) => assert_eq!(r.reason, Reason::Expectation),
        _ => panic!("a row of another program was overlooked"),
    }
    assert_eq!(text_of(&live.cached(DOC)), "a\nsql\n", "what was found is kept");
    let hash: [u8; 32] = Sha256::digest(b"a\nsql\n").into();
    live.save(with(hash, b"b\n")).unwrap();
    assert_eq!(read(&live), "sql\nb\n");
}

#[test]
fn a_refused_save_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    let before = append(&live, "a\n").version;
    for text in [vec![0u8; 3], vec![0u8; 100_000]] {
        match live.save(request(Some(&before), Written::Whole(&text))) {
            Err(SaveError::Refused(r)) => assert_eq!(r.line, Some(1)),
            _ => panic!("not refused"),
        }
    }
    assert!(Arc::ptr_eq(&live.current(DOC).unwrap(), &before));
    assert_eq!(live.store().revision_count(DOC).unwrap(), 1);
}

#[test]
fn large_saves_are_planned_again_when_something_came_between() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let live = Arc::new(open_with(dir.path(), Options::default()));
    let big: String = (0..400).map(|n| format!("line {n} {}\n", "x".repeat(60))).collect();
    let seen = append(&live, &big).version;
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let (live, seen) = (live.clone(), seen.clone());
            let text = format!("{big}new {n}\n");
            std::thread::spawn(move || whole(&live, &seen, &text))
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    let text = read(&live);
    assert!((0..4).all(|n| text.contains(&format!("\nnew {n}\n"))));
    assert!(rows(&other(dir.path())) == text);
}

#[test]
fn the_listener_hears_every_version_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let to = heard.clone();
    live.set_listener(Arc::new(move |p| {
        to.lock().push((p.before, p.version.rev, p.actor.via));
    }));
    let a = append(&live, "a\n").version.rev;
    other(dir.path()).execute("INSERT INTO ifs_lines (text) VALUES ('s')", []).unwrap();
    let b = append(&live, "b\n").version.rev;
    let heard = heard.lock();
    assert_eq!(heard[0], (Rev(0), a, Via::Mount));
    assert_eq!(heard[1].2, Via::Sql);
    assert_eq!(heard[2], (heard[1].1, b, Via::Mount));
    assert_eq!(heard.len(), 3);
}

#[test]
fn check_tells_what_a_save_would_do() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\n");
    assert!(!live.check(VIEW, b"a\n").unwrap().changed);
    let checked = live.check(VIEW, b"b\n").unwrap();
    assert!(checked.changed);
    assert_eq!(checked.next.view(VIEW).unwrap().to_vec(), b"b\n");
    assert!(matches!(live.check(VIEW, b"\0"), Err(SaveError::Refused(_))));
    assert_eq!(read(&live), "a\n");
    assert!(matches!(live.check(View::ConfigJson, b"{}"), Err(SaveError::Refused(_))));
}

/// Two hundred versions come back byte for byte, with a whole archive between, and after the
/// oldest ones have been forgotten the others still do.
#[test]
fn every_kept_revision_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    let mut texts = Vec::new();
    let mut seen = live.cached(DOC);
    for n in 0..200usize {
        let mut lines: Vec<String> = text_of(&seen).lines().map(|l| format!("{l}\n")).collect();
        lines.truncate(30);
        if n % 3 == 0 && !lines.is_empty() {
            lines.remove(n % lines.len());
        }
        lines.push(format!("line {n} {}\n", "x".repeat(n)));
        seen = whole(&live, &seen, &lines.concat()).version;
        texts.push((seen.rev, seen.mtime, text_of(&seen)));
        if n == 150 {
            live.maintain().unwrap();
        }
    }
    drop(live);

    let kept = |live: &Live| {
        let there = |(rev, mtime, text): &&(Rev, Stamp, String)| {
            let Some(version) = live.at(DOC, *rev).unwrap() else { return false };
            assert_eq!(&text_of(&version), text, "revision {rev}");
            assert_eq!(version.mtime, *mtime);
            true
        };
        let kept: Vec<Rev> = texts.iter().filter(there).map(|t| t.0).collect();
        assert_eq!(kept.len() as u64, live.store().revision_count(DOC).unwrap());
        kept
    };
    assert_eq!(kept(&open(dir.path())).len(), 200);

    let retention = Retention { max_count: 10, ..Retention::default() };
    let live = open_with(dir.path(), Options { retention, ..options() });
    live.maintain().unwrap();
    drop(live);
    let left = kept(&open(dir.path()));
    assert_eq!(left, texts[150..].iter().map(|t| t.0).collect::<Vec<_>>());
}

#[test]
fn beliefs_and_old_versions_come_back_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    let first = append(&live, "a\n").version;
    let second = append(&live, "b\n").version;
    drop(live);
    let live = open(dir.path());
    assert_eq!(text_of(&live.at(DOC, first.rev).unwrap().unwrap()), "a\n");
    assert_eq!(text_of(&live.at(DOC, second.rev).unwrap().unwrap()), "a\nb\n");
    assert!(live.at(DOC, Rev(99)).unwrap().is_none());
    let fresh = live.at(DOC, Rev(0)).unwrap().unwrap();
    assert_eq!(text_of(&fresh), "");
    let belief = live.believe(VIEW, b"a\nmine\n", first.rev).unwrap();
    assert!(belief.belief && belief.rev == first.rev);
    whole(&live, &belief, "a\n");
    assert_eq!(read(&live), "a\nb\n");
}
