//! Appends that commit together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

const EACH: usize = 8;

/// `live` with a leader that waits for `blocker` and others that wait for the leader.
fn waiting<'s>(
    scope: &'s thread::Scope<'s, '_>,
    live: &'s Live,
    lines: &'s [String],
) -> Vec<thread::ScopedJoinHandle<'s, Result<Saved, SaveError>>> {
    let eventually = |what: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(20);
        while !what() {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(2));
        }
    };
    let save = |n: usize| {
        let text: &'s str = &lines[n];
        scope.spawn(move || live.save(request(None, Written::Fragment(text.as_bytes()))))
    };
    let mut all = vec![save(0)];
    eventually(&|| live.store().is_waiting());
    for n in 1..lines.len() {
        all.push(save(n));
        // In this order.
        eventually(&|| live.group.waiting() == n);
    }
    all
}

fn patient(dir: &Path, patience: Duration) -> Live {
    drop(Store::create(dir).unwrap());
    open_with(dir, Options { patience, ..Options::default() })
}

#[test]
fn appends_that_wait_are_one_transaction_and_a_revision_each() {
    let dir = tempfile::tempdir().unwrap();
    let live = Arc::new(patient(dir.path(), Duration::from_secs(30)));
    // In one transaction the last of them is current when the first is told.
    let early = Arc::new(AtomicUsize::new(0));
    let (weak, count) = (Arc::downgrade(&live), Arc::clone(&early));
    live.set_listener(Arc::new(move |published| {
        let current = weak.upgrade().map(|live| live.cached(DOC).rev);
        count.fetch_add(usize::from(current > Some(published.version.rev)), Ordering::Relaxed);
    }));
    let blocker = other(dir.path());
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let lines: Vec<String> = (0..EACH).map(|n| format!("line {n}\n")).collect();
    let saved: Vec<Saved> = thread::scope(|scope| {
        let all = waiting(scope, &live, &lines);
        blocker.execute_batch("COMMIT").unwrap();
        all.into_iter().map(|t| t.join().unwrap().unwrap()).collect()
    });
    assert_eq!(read(&live), lines.concat());
    assert_eq!(rows(&blocker), lines.concat());
    assert_eq!(live.store().revision_count(DOC).unwrap(), EACH as u64);
    assert!(saved.is_sorted_by_key(|s| s.version.rev));
    for (n, saved) in saved.iter().enumerate() {
        assert_eq!(text_of(&saved.version), lines[..=n].concat());
        assert!(saved.changed);
    }
    assert_eq!(early.load(Ordering::Relaxed), EACH - 1);
    assert_eq!(live.group.waiting(), 0);
}

#[test]
fn each_waits_for_the_database_no_longer_than_it_would_alone() {
    let dir = tempfile::tempdir().unwrap();
    let live = patient(dir.path(), Duration::from_millis(300));
    let blocker = other(dir.path());
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let lines: Vec<String> = (0..EACH).map(|n| format!("line {n}\n")).collect();
    let failed: Vec<_> = thread::scope(|scope| {
        let all = waiting(scope, &live, &lines);
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let busy = |e: &Result<Saved, SaveError>| matches!(e, Err(SaveError::Store(StoreError::Busy)));
    assert!(failed.iter().all(busy));
    blocker.execute_batch("COMMIT").unwrap();
    // Nothing is led by one that is gone.
    append(&live, "after\n");
    assert_eq!(read(&live), "after\n");
}

#[test]
fn where_the_others_fail_each_is_tried_alone() {
    let dir = tempfile::tempdir().unwrap();
    let live = patient(dir.path(), Duration::from_secs(30));
    let blocker = other(dir.path());
    blocker
        .execute_batch(
            "CREATE TRIGGER no BEFORE INSERT ON ifs_lines WHEN CAST(NEW.text AS TEXT) LIKE '%3%'
             BEGIN SELECT RAISE(ABORT, 'on purpose'); END;
             BEGIN IMMEDIATE",
        )
        .unwrap();
    let lines: Vec<String> = (0..EACH).map(|n| format!("line {n}\n")).collect();
    let saved: Vec<_> = thread::scope(|scope| {
        let all = waiting(scope, &live, &lines);
        blocker.execute_batch("COMMIT").unwrap();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let failed: Vec<usize> = (0..EACH).filter(|n| saved[*n].is_err()).collect();
    assert_eq!(failed, [3]);
    let mut shown: Vec<String> = read(&live).lines().map(|l| format!("{l}\n")).collect();
    shown.sort();
    let kept: Vec<String> = lines.iter().filter(|l| !l.contains('3')).cloned().collect();
    assert_eq!(shown, kept);
}
