use std::collections::HashSet;

use rusqlite::Connection;

use super::*;

fn sessions(dir: &std::path::Path, rows: &[(&str, &str)]) -> Connection {
    let db = Connection::open(dir.join("sessions.sqlite")).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE IF NOT EXISTS sessions(id TEXT PRIMARY KEY, status TEXT, updated_at INTEGER)",
    )
    .unwrap();
    for (id, status) in rows {
        db.execute("INSERT INTO sessions VALUES (?1, ?2, 5)", (id, status)).unwrap();
    }
    db
}

/// All names of a directory, read as the kernel does: so many at a time.
fn list(tables: &Tables, part: Part, fh: Fh, take: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    loop {
        let entries = tables.entries(part, fh, at).unwrap();
        if entries.is_empty() {
            return names;
        }
        for entry in entries.into_iter().take(take) {
            at = entry.next;
            names.push(entry.name.into_string().unwrap());
        }
    }
}

#[test]
fn a_big_table_is_listed_in_pages_each_name_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = sessions(dir.path(), &[]);
    db.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         INSERT INTO sessions SELECT 'id-' || i, 'x', i FROM n",
    )
    .unwrap();
    let tables = Tables::new(dir.path(), false);
    for take in [97, PAGE, 1000] {
        let names = list(&tables, Part::Sessions, 1, take);
        assert_eq!(names.len(), 5002, "{take}");
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 5002);
    }
    // From a cookie in the middle, by a handle that has not read what is before it.
    let entries = tables.entries(Part::Sessions, 9, 3000).unwrap();
    let all = list(&tables, Part::Sessions, 1, PAGE);
    assert_eq!(entries[0].name.to_str().unwrap(), all[3000]);
    assert!(entries.len() <= PAGE);
    tables.close_list(1);
    assert!(tables.listings.lock().contains_key(&9) && !tables.listings.lock().contains_key(&1));
}

#[test]
fn a_row_is_found_by_its_name_and_shows_what_is_committed() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!("{}/end", "long/".repeat(100));
    let other = format!("{}/eNd", "long/".repeat(100));
    let db =
        sessions(dir.path(), &[("a/b", "one"), (&long, "long"), (&other, "other"), ("", "none")]);
    let tables = Tables::new(dir.path(), false);
    let text = |id: &str| {
        let name = names::name(&Id::Text(id.into()), ".json");
        let found = tables.find(Part::Sessions, OsStr::new(&name)).unwrap()?;
        assert_eq!(found, Id::Text(id.into()));
        let node = tables.enter(Part::Sessions, found);
        let (text, at) = tables.text(node).unwrap();
        assert_eq!(at, Some(Stamp(5_000_000)));
        assert!(tables.forget(node, 1));
        assert!(tables.known.lock().is_empty());
        Some(serde_json::from_slice::<serde_json::Value>(&text).unwrap()["status"].clone())
    };
    assert_eq!(text("a/b").unwrap(), "one");
    assert_eq!(text(&long).unwrap(), "long");
    assert_eq!(text(&other).unwrap(), "other");
    assert_eq!(text("").unwrap(), "none");
    assert_eq!(text("nobody"), None);
    db.execute("UPDATE sessions SET status = 'two' WHERE id = 'a/b'", []).unwrap();
    assert_eq!(text("a/b").unwrap(), "two");
    let node = tables.enter(Part::Sessions, Id::Text(b"a/b".to_vec()));
    db.execute("DELETE FROM sessions", []).unwrap();
    assert!(matches!(tables.text(node), Err(Error::NotFound)));
}

#[test]
fn a_database_that_is_replaced_or_unused_is_let_go() {
    let dir = tempfile::tempdir().unwrap();
    drop(sessions(dir.path(), &[("a", "old")]));
    let tables = Tables::new(dir.path(), false);
    assert!(!Tables::new(&dir.path().join("none"), false).reader.has(Part::Sessions));
    let names = || list(&tables, Part::Sessions, 1, PAGE);
    assert!(tables.reader.has(Part::Sessions) && !tables.reader.has(Part::Tasks));
    assert_eq!(names(), [".", "..", "a.json"]);
    std::fs::create_dir(dir.path().join("new")).unwrap();
    drop(sessions(&dir.path().join("new"), &[("b", "new")]));
    std::fs::rename(dir.path().join("new/sessions.sqlite"), dir.path().join("sessions.sqlite"))
        .unwrap();
    assert_eq!(names(), [".", "..", "b.json"]);
    // Used since the last call, then not.
    tables.rest();
    assert!(dir.path().join("sessions.sqlite-wal").exists());
    tables.rest();
    assert!(!dir.path().join("sessions.sqlite-wal").exists(), "nothing is left behind");
    std::fs::write(dir.path().join("sessions.sqlite"), "no database at all").unwrap();
    assert!(!tables.reader.has(Part::Sessions));
    assert!(tables.entries(Part::Sessions, 2, 2).is_err());
}

#[test]
fn a_read_only_reader_leaves_the_files_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    drop(sessions(dir.path(), &[("a", "old")]));
    let at = |name: &str| dir.path().join(name);
    let wal = at("sessions.sqlite-wal");
    // Nothing is left where nothing was.
    let tables = Tables::new(dir.path(), true);
    assert!(tables.reader.has(Part::Sessions) && wal.exists());
    tables.close();
    assert!(!wal.exists());
    // What a killed program has left is read and stays where it is.
    let writer = sessions(dir.path(), &[("b", "new")]);
    let files =
        ["sessions.sqlite", "sessions.sqlite-wal"].map(|name| std::fs::read(at(name)).unwrap());
    drop(writer);
    std::fs::write(at("sessions.sqlite"), &files[0]).unwrap();
    std::fs::write(&wal, &files[1]).unwrap();
    for _ in 0..2 {
        assert_eq!(list(&tables, Part::Sessions, 1, PAGE), [".", "..", "a.json", "b.json"]);
        tables.close();
        assert_eq!(std::fs::read(at("sessions.sqlite")).unwrap(), files[0]);
        assert_eq!(std::fs::read(&wal).unwrap(), files[1]);
    }
    let usual = Tables::new(dir.path(), false);
    assert_eq!(list(&usual, Part::Sessions, 1, PAGE).len(), 4);
    usual.close();
    assert!(!wal.exists(), "tidied up");
}

#[test]
fn nodes_are_of_their_own_range_and_tell_what_they_are() {
    for part in Part::ALL {
        assert_eq!(thing(top(part)), Some(Thing::Top(part)));
        assert_eq!(is_dir(top(part)), part != Part::Profile);
        for number in [0, 1, u64::MAX] {
            let node = row_node(part, number);
            assert_eq!(thing(node), Some(Thing::Row(part)));
            assert!(is_table(node) && !is_dir(node));
        }
    }
    for node in [1, 64, 1 << 16, 1 << 48, 1 << 61, 1 << 62, 1 << 62 | 1 << 60] {
        assert!(!is_table(node), "{node}");
    }
}
