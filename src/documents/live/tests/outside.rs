use std::sync::Arc;
use std::time::Instant;

use super::*;

fn insert(conn: &Connection, text: &str) {
    conn.execute("INSERT INTO ifs_lines (text) VALUES (?1)", [format!("{text}\n")]).unwrap();
}

fn count(live: &Live) -> u64 {
    live.store().revision_count(DOC).unwrap()
}

#[test]
fn a_row_is_in_the_very_next_read_a_thousand_times() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let live = Arc::new(open_with(dir.path(), Options::default()));
    let sql = other(dir.path());
    insert(&sql, "row");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    // Saves and reads go on meanwhile, so that the writer is often busy.
    let busy: Vec<_> = (0..2)
        .map(|who| {
            let (live, stop) = (live.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut n = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    if n < 100 && who == 0 {
                        append(&live, &format!("save {n}\n"));
                        n += 1;
                    }
                    read(&live);
                    std::thread::sleep(Duration::from_micros(200));
                }
                n
            })
        })
        .collect();
    for n in 0..1_000 {
        sql.execute("UPDATE ifs_lines SET text = ?1 WHERE id = 1", [format!("row {n}\n")]).unwrap();
        let text = read(&live);
        assert!(text.contains(&format!("row {n}\n")), "round {n}: {text}");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let saved: i32 = busy.into_iter().map(|t| t.join().unwrap()).sum();
    let text = read(&live);
    assert_eq!(text.lines().filter(|l| l.starts_with("save ")).count(), saved as usize);
    assert_eq!(rows(&sql), text);
}

#[test]
fn an_unchanged_document_costs_no_revision_and_no_new_version() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\n");
    let before = live.current(DOC).unwrap();
    assert!(Arc::ptr_eq(&before, &live.current(DOC).unwrap()));
    other(dir.path()).execute("INSERT INTO meta VALUES ('x', 'y')", []).unwrap();
    let after = live.current(DOC).unwrap();
    assert_eq!((after.rev, after.mtime), (before.rev, before.mtime));
    assert_eq!(count(&live), 1);
}

#[test]
fn a_change_seen_while_the_database_is_locked_is_recorded_later_as_the_same_version() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\n");
    let sql = other(dir.path());
    insert(&sql, "sql");
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let seen = live.current(DOC).unwrap();
    assert_eq!(text_of(&seen), "a\nsql\n");
    assert_eq!(count(&live), 1, "nothing could be written");
    assert!(!live.settle().unwrap());
    sql.execute_batch("COMMIT").unwrap();
    assert!(live.settle().unwrap());
    let newest = live.store().newest(DOC).unwrap().unwrap();
    assert_eq!((newest.rev, newest.at), (seen.rev, seen.mtime));
    assert_eq!(newest.actor, Actor::outside());
    assert_eq!(count(&live), 2);
    assert!(Arc::ptr_eq(&live.current(DOC).unwrap(), &seen));
}

#[test]
fn every_version_that_was_shown_is_recorded_however_long_the_database_was_locked() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\n");
    let sql = other(dir.path());
    let mut shown = Vec::new();
    for n in 0..5 {
        insert(&sql, &format!("sql {n}"));
        sql.execute_batch("BEGIN IMMEDIATE").unwrap();
        shown.push(live.current(DOC).unwrap());
        assert_eq!(count(&live), 1, "nothing could be written");
        sql.execute_batch("COMMIT").unwrap();
    }
    append(&live, "b\n");
    let saved = live.current(DOC).unwrap();
    assert_eq!(count(&live), 7);
    for version in &shown {
        let row = live.store().revision(DOC, version.rev).unwrap().unwrap();
        assert_eq!((row.at, row.actor), (version.mtime, Actor::outside()));
        let again = live.at(DOC, version.rev).unwrap().unwrap();
        assert_eq!(text_of(&again), text_of(version));
    }
    // Also for whoever opens the store next, and when there were more than are kept back.
    drop(live);
    let live = open_with(dir.path(), options());
    let again = live.at(DOC, shown[2].rev).unwrap().unwrap();
    assert_eq!(text_of(&again), text_of(&shown[2]));
    assert_eq!(text_of(&live.current(DOC).unwrap()), text_of(&saved));
    for n in 0..100 {
        insert(&sql, &format!("more {n}"));
        sql.execute_batch("BEGIN IMMEDIATE").unwrap();
        live.current(DOC).unwrap();
        sql.execute_batch("COMMIT").unwrap();
    }
    assert!(live.settle().unwrap());
    assert_eq!(count(&live), 7 + 64);
    let newest = live.store().newest(DOC).unwrap().unwrap();
    assert!(newest.summary.len() > 30, "{}", newest.summary);
}

#[test]
fn a_read_does_not_wait_for_a_save_that_waits_for_another_program() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let patience = Duration::from_secs(20);
    let live = Arc::new(open_with(dir.path(), Options { patience, ..options() }));
    append(&live, "a\n");
    let sql = other(dir.path());
    insert(&sql, "sql");
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let saver = {
        let live = live.clone();
        std::thread::spawn(move || append(&live, "save\n"))
    };
    while !live.store().is_waiting() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let started = Instant::now();
    let seen = live.current(DOC).unwrap();
    assert_eq!(text_of(&seen), "a\nsql\n");
    assert!(Arc::ptr_eq(&live.current(DOC).unwrap(), &seen));
    assert!(started.elapsed() < Duration::from_secs(5));
    sql.execute_batch("COMMIT").unwrap();
    let saved = saver.join().unwrap();
    assert_eq!(read(&live), "a\nsql\nsave\n");
    assert!(saved.version.mtime > seen.mtime && saved.version.rev > seen.rev);
    assert_eq!(count(&live), 3);
}

#[test]
fn a_database_that_stays_locked_fails_the_save() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\n");
    let sql = other(dir.path());
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let failed = live.save(request(None, Written::Fragment(b"b\n")));
    assert!(matches!(failed, Err(SaveError::Store(StoreError::Busy))), "{failed:?}");
    sql.execute_batch("COMMIT").unwrap();
    append(&live, "c\n");
    assert_eq!(read(&live), "a\nc\n");
}

#[test]
fn rows_wait_for_missions_lock_and_survive_a_replace_all() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\n");
    let sql = other(dir.path());
    let lock = hold_lock(dir.path());
    let waiting = append(&live, "mine\n");
    assert_eq!(read(&live), "a\nmine\n");
    assert_eq!(rows(&sql), "a\n", "the rows are theirs while they hold the lock");
    assert!(!live.settle().unwrap());

    sql.execute_batch(
        "BEGIN IMMEDIATE; DELETE FROM ifs_lines;
         INSERT INTO ifs_lines (text) VALUES ('a' || char(10)), ('theirs' || char(10)); COMMIT",
    )
    .unwrap();
    assert_eq!(read(&live), "a\nmine\ntheirs\n");
    let seen = live.current(DOC).unwrap();
    assert!(seen.rev > waiting.version.rev);
    // Another restart in this state: nothing doubles, nothing is lost.
    drop(live);
    let live = open(dir.path());
    assert_eq!(read(&live), "a\nmine\ntheirs\n");
    assert_eq!(live.cached(DOC).rev, seen.rev);
    append(&live, "more\n");
    assert_eq!(rows(&sql), "a\ntheirs\n");
    drop(lock);
    assert!(live.settle().unwrap());
    assert_eq!(read(&live), "a\nmine\ntheirs\nmore\n");
    let mut got: Vec<String> = rows(&sql).lines().map(str::to_owned).collect();
    got.sort();
    assert_eq!(got, ["a", "mine", "more", "theirs"]);
    assert_eq!(live.current(DOC).unwrap().rev, live.store().newest(DOC).unwrap().unwrap().rev);
}

/// The holder of the lock deletes and inserts in transactions of their own: nobody sees what is
/// between, neither a reader nor a save.
#[test]
fn a_replace_all_in_steps_is_seen_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\nb\n");
    let sql = other(dir.path());
    let lock = hold_lock(dir.path());
    sql.execute("DELETE FROM ifs_lines", []).unwrap();
    assert_eq!(read(&live), "a\nb\n");
    append(&live, "mine\n");
    assert_eq!(read(&live), "a\nb\nmine\n");
    insert(&sql, "a");
    assert_eq!(read(&live), "a\nb\nmine\n");
    insert(&sql, "b");
    insert(&sql, "c");
    assert_eq!(read(&live), "a\nb\nmine\nc\n", "nothing is gone any more");
    sql.execute("DELETE FROM ifs_lines WHERE text = 'c' || char(10)", []).unwrap();
    drop(lock);
    assert_eq!(read(&live), "a\nb\nmine\n", "shown when the lock is free");
    assert!(live.settle().unwrap());
    assert_eq!(rows(&sql), "a\nb\nmine\n");
}

#[test]
fn a_change_is_not_kept_back_for_ever_nor_from_the_holder() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\nb\n");
    let sql = other(dir.path());
    let _lock = hold_lock(dir.path());
    sql.execute("DELETE FROM ifs_lines WHERE id = 1", []).unwrap();
    assert_eq!(read(&live), "a\nb\n");
    assert!(!live.settle().unwrap());
    std::thread::sleep(Duration::from_millis(1_100));
    live.settle().unwrap();
    assert_eq!(text_of(&live.cached(DOC)), "b\n");
    assert!(live.settle().unwrap());
    sql.execute("DELETE FROM ifs_lines", []).unwrap();
    assert_eq!(read(&live), "b\n");
    let own = SaveRequest { under_their_lock: true, ..request(None, Written::Fragment(b"c\n")) };
    live.save(own).unwrap();
    assert_eq!(text_of(&live.cached(DOC)), "c\n");
    assert_eq!(rows(&sql), "c\n");
}

#[test]
fn waiting_rows_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\n");
    let lock = hold_lock(dir.path());
    append(&live, "mine\n");
    drop(live);
    let sql = other(dir.path());
    insert(&sql, "theirs");
    let live = open(dir.path());
    assert_eq!(read(&live), "a\nmine\ntheirs\n");
    drop(lock);
    append(&live, "b\n");
    assert_eq!(rows(&sql), "a\ntheirs\nmine\nb\n");
}

#[test]
fn a_saver_that_holds_the_lock_commits_under_it() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    let _lock = hold_lock(dir.path());
    let sql = other(dir.path());
    let under = SaveRequest { under_their_lock: true, ..request(None, Written::Fragment(b"a\n")) };
    let saved = live.save(under).unwrap();
    assert_eq!(rows(&sql), "a\n");
    drop(live);
    let live = open(dir.path());
    assert_eq!(live.cached(DOC).rev, saved.version.rev, "the rows are the newest revision");
    assert!(live.settle().unwrap());
}

/// A removal needs that the remover has seen it: rows that appear while somebody holds the lock
/// would go with the next replace-all of what was read before.
#[test]
fn what_waits_does_not_become_rows_by_a_save_of_the_holder() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "old\n");
    let lock = hold_lock(dir.path());
    append(&live, "waits\n");
    let sql = other(dir.path());
    let under = |written| SaveRequest { under_their_lock: true, ..request(None, written) };
    live.save(under(Written::Fragment(b"own\n"))).unwrap();
    assert_eq!(rows(&sql), "old\nown\n");
    assert_eq!(read(&live), "old\nwaits\nown\n");
    drop(live);
    let live = open(dir.path());
    assert_eq!(read(&live), "old\nwaits\nown\n", "after a restart as before it");
    // All rows again, from what it read at first.
    sql.execute_batch("BEGIN; DELETE FROM ifs_lines; INSERT INTO ifs_lines (id, text) VALUES (1, 'old\n'), (71, 'theirs\n'); COMMIT").unwrap();
    assert_eq!(read(&live), "old\nwaits\ntheirs\n");
    live.save(under(Written::Fragment(b"more\n"))).unwrap();
    drop(lock);
    while !live.settle().unwrap() {}
    let text = read(&live);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&text), ["more", "old", "theirs", "waits"]);
    assert_eq!(sorted(&rows(&sql)), sorted(&text));
}

#[test]
fn the_lock_is_not_held_while_another_write_lock_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let live = Arc::new(new_store(dir.path()));
    let sql = other(dir.path());
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let saver = {
        let live = live.clone();
        std::thread::spawn(move || live.save(request(None, Written::Fragment(b"a\n"))).is_ok())
    };
    while !live.store().is_waiting() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The other program may take it now: within a few tries, between two of the saver's.
    let got = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        live.store().try_missions_lock().unwrap().is_some()
    });
    assert!(got);
    sql.execute_batch("COMMIT").unwrap();
    assert!(saver.join().unwrap());
}

#[test]
fn what_others_did_since_the_writer_looked_is_told_to_the_plan() {
    let dir = tempfile::tempdir().unwrap();
    let live = new_store(dir.path());
    append(&live, "a\n");
    assert_eq!(live.shown.read().slots[0].outside, Rev(0));
    insert(&other(dir.path()), "sql");
    let seen = live.current(DOC).unwrap();
    assert_eq!(live.shown.read().slots[0].outside, seen.rev);
    append(&live, "b\n");
    drop(live);
    let live = open(dir.path());
    assert_eq!(live.shown.read().slots[0].outside, seen.rev, "known after a restart");
}

/// Savers, another program's inserts, another one that replaces all rows in steps under the
/// lock, and readers, all at once.
#[test]
fn everything_at_once_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::create(dir.path()).unwrap());
    let live = &open_with(dir.path(), Options::default());
    let path = dir.path();
    let done = &std::sync::atomic::AtomicBool::new(false);
    let finished = || done.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|s| {
        let mut writers = Vec::new();
        for who in 0..3 {
            writers.push(s.spawn(move || {
                for n in 0..25 {
                    let line = format!("saver {who} {n}\n");
                    append(live, &line);
                    assert!(text_of(&live.cached(DOC)).contains(&line), "{line}");
                }
            }));
        }
        writers.push(s.spawn(move || {
            let sql = other(path);
            for n in 0..25 {
                // As its own rules ask: under the lock, as every writer of rows.
                let lock = wait_for_lock(path);
                insert(&sql, &format!("sql {n}"));
                assert!(read(live).contains(&format!("sql {n}\n")));
                drop(lock);
            }
        }));
        writers.push(s.spawn(move || {
            let sql = other(path);
            for n in 0..10 {
                let lock = wait_for_lock(path);
                let all = rows(&sql);
                sql.execute("DELETE FROM ifs_lines", []).unwrap();
                sql.execute_batch("BEGIN IMMEDIATE").unwrap();
                all.lines().for_each(|line| insert(&sql, line));
                insert(&sql, &format!("replacer {n}"));
                sql.execute_batch("COMMIT").unwrap();
                drop(lock);
                std::thread::sleep(Duration::from_millis(5));
            }
        }));
        for _ in 0..2 {
            s.spawn(move || {
                let mut last = live.current(DOC).unwrap();
                while !finished() {
                    let now = live.current(DOC).unwrap();
                    assert!(now.rev >= last.rev && now.mtime >= last.mtime);
                    let lines = text_of(&now).lines().count();
                    assert!(lines >= text_of(&last).lines().count(), "nothing ever goes");
                    last = now;
                }
            });
        }
        s.spawn(move || {
            while !finished() {
                live.settle().unwrap();
                live.maintain().unwrap();
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    while !live.settle().unwrap() {}
    let text = read(live);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort();
    let mut want: Vec<String> = (0..3)
        .flat_map(|who| (0..25).map(move |n| format!("saver {who} {n}")))
        .chain((0..25).map(|n| format!("sql {n}")))
        .chain((0..10).map(|n| format!("replacer {n}")))
        .collect();
    want.sort();
    assert_eq!(lines, want);
    let stored = rows(&other(dir.path()));
    let mut stored: Vec<&str> = stored.lines().collect();
    stored.sort();
    assert_eq!(stored, want);
    let newest = live.store().newest(DOC).unwrap().unwrap();
    assert_eq!(newest.rev, live.cached(DOC).rev);
    assert_eq!(live.store().archive(DOC, newest.rev).unwrap().unwrap(), text.as_bytes());
}

fn wait_for_lock(dir: &Path) -> std::fs::File {
    let path = dir.join(LOCK_NAME);
    let f = std::fs::File::options().create(true).append(true).open(path).unwrap();
    rustix::fs::flock(&f, rustix::fs::FlockOperation::LockExclusive).unwrap();
    f
}
