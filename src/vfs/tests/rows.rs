//! Views of rows, read while the rows change.

use rusqlite::Connection;

use super::*;

/// A task whose message is as long as this.
fn set(db: &Connection, length: usize) {
    let message = "x".repeat(length);
    db.execute("INSERT OR REPLACE INTO tasks VALUES ('t', ?1, 5)", [message]).unwrap();
}

fn tasks(w: &World) -> Connection {
    let db = Connection::open(w.dir.path().join("tasks.sqlite")).unwrap();
    db.execute_batch("CREATE TABLE tasks(id TEXT PRIMARY KEY, message TEXT, updated_at INTEGER)")
        .unwrap();
    set(&db, 100);
    db
}

fn node(w: &World, who: &Caller) -> Node {
    let dir = w.tree.lookup(who, ROOT, OsStr::new("tasks")).unwrap().node;
    w.tree.lookup(who, dir, OsStr::new("t.json")).unwrap().node
}

#[test]
fn who_was_told_a_size_reads_that_version() {
    let w = World::new();
    let db = tasks(&w);
    let (p, other) = (w.stranger("node"), w.stranger("ls"));
    let who = p.who();
    let node = node(&w, &who);
    for length in [3, 200, 40] {
        let fh = w.tree.open(&who, node, RD).unwrap().fh;
        set(&db, length);
        let told = w.tree.getattr(&p.thread(1), node, None).unwrap().0.size;
        set(&db, 1);
        w.tree.getattr(&other.who(), node, None).unwrap();
        let text = w.tree.read(&who, node, fh, 0, 65536).unwrap();
        assert_eq!(text.len() as u64, told);
        assert!(text.ends_with(b"}\n"), "{length}");
        w.tree.release(node, fh).unwrap();
        // Once it reads it stays with its version.
        let fh = w.tree.open(&who, node, RD).unwrap().fh;
        let begin = w.tree.read(&who, node, fh, 0, 5).unwrap();
        set(&db, 9);
        w.tree.getattr(&who, node, None).unwrap();
        let rest = w.tree.read(&who, node, fh, 5, 65536).unwrap();
        let whole: serde_json::Value = serde_json::from_slice(&[begin, rest].concat()).unwrap();
        assert_eq!(whole["message"], "x");
        // Its last byte has been read, and the size is asked for: `tail` reads so.
        let told = w.tree.getattr(&who, node, None).unwrap().0.size;
        assert_eq!(w.tree.read(&who, node, fh, 0, 65536).unwrap().len() as u64, told);
        w.tree.release(node, fh).unwrap();
    }
}

#[test]
fn after_the_end_of_file_a_handle_goes_on_with_the_current_version() {
    let w = World::new();
    let db = tasks(&w);
    let who = w.stranger("tail").who();
    let node = node(&w, &who);
    let fh = w.tree.open(&who, node, RD).unwrap().fh;
    let read = |at: usize| w.tree.read(&who, node, fh, at as u64, 65536).unwrap();
    let first = read(0);
    set(&db, 150);
    assert!(read(first.len()).is_empty(), "the end of the version that is being read");
    let second = read(0);
    assert_eq!(second.len(), first.len() + 50);
    assert!(read(second.len()).is_empty());
    // What was deleted meanwhile is as it was, as with any file that is open.
    db.execute("DELETE FROM tasks", []).unwrap();
    assert_eq!(read(0), second);
    assert_eq!(w.tree.getattr(&who, node, None).unwrap().0.size, second.len() as u64);
    w.tree.release(node, fh).unwrap();
    assert!(matches!(w.tree.getattr(&who, node, None), Err(Error::NotFound)));
}
