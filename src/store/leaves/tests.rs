//! Leaves of real databases against the rows themselves.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

fn database(page_size: u32) -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(&format!(
        "PRAGMA page_size = {page_size}; CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)"
    ))
    .unwrap();
    conn
}

fn rows(conn: &Connection) -> BTreeMap<i64, String> {
    let mut all = conn.prepare("SELECT id, text FROM t").unwrap();
    let all = all.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
    all.map(Result::unwrap).collect()
}

fn holds(ids: &[Ids], id: i64) -> bool {
    ids.iter().any(|range| range.contains(&id))
}

/// Every row that differs is where the leaves say.
fn check(leaves: &Leaves, before: &BTreeMap<i64, String>, conn: &Connection) -> (Leaves, Touched) {
    let (next, touched) = leaves.again(conn).unwrap().expect("the same table");
    let now = rows(conn);
    for (id, text) in &now {
        if before.get(id) != Some(text) {
            assert!(holds(&touched.now, *id), "{id} is new or changed: {touched:?}");
        }
    }
    for id in before.keys() {
        // What is not read again is there as it was.
        if !holds(&touched.before, *id) {
            assert_eq!(before.get(id), now.get(id), "{id}: {touched:?}");
        }
    }
    // What is read again is not what was kept.
    for id in now.keys().filter(|id| holds(&touched.now, **id)) {
        assert!(!before.contains_key(id) || holds(&touched.before, *id), "{id}: {touched:?}");
    }
    (next, touched)
}

#[test]
fn nothing_changed_touches_nothing() {
    let conn = database(512);
    conn.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         INSERT INTO t SELECT i, 'row number ' || i FROM n",
    )
    .unwrap();
    let leaves = Leaves::read(&conn, "t").unwrap().expect("leaves");
    assert!(leaves.len() > 100, "{}", leaves.len());
    let (_, touched) = leaves.again(&conn).unwrap().unwrap();
    assert_eq!(touched, Touched::default());
    conn.execute("UPDATE t SET text = 'another' WHERE id = 2500", []).unwrap();
    let (_, touched) = leaves.again(&conn).unwrap().unwrap();
    assert_eq!(touched.now.len(), 1);
    let few = touched.now[0].end() - touched.now[0].start();
    assert!(touched.now[0].contains(&2500) && few < 100, "{touched:?}");
}

#[test]
fn a_row_that_goes_on_elsewhere_is_always_read_again() {
    let conn = database(512);
    conn.execute_batch("INSERT INTO t VALUES (1, 'a'), (2, printf('%.*c', 3000, 'x'))").unwrap();
    let leaves = Leaves::read(&conn, "t").unwrap().unwrap();
    let before = rows(&conn);
    // The page with the beginning of the row stays as it is.
    conn.execute("UPDATE t SET text = printf('%.*c', 2999, 'x') || 'y' WHERE id = 2", []).unwrap();
    let (_, touched) = check(&leaves, &before, &conn);
    assert!(holds(&touched.now, 2));
}

#[test]
fn other_kinds_of_tables_have_no_leaves() {
    for table in [
        "t (id INTEGER, text TEXT)",
        "t (id INT PRIMARY KEY, text TEXT)",
        "t (id INTEGER PRIMARY KEY DESC, text TEXT)",
        "t (id INTEGER, text TEXT, PRIMARY KEY (id, text))",
        "t (id INTEGER PRIMARY KEY, text TEXT) WITHOUT ROWID",
        "u (id INTEGER PRIMARY KEY)",
    ] {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(&format!("CREATE TABLE {table}")).unwrap();
        assert!(Leaves::read(&conn, "t").unwrap().is_none(), "{table}");
    }
}

#[test]
fn another_table_of_the_name_has_to_be_read() {
    let conn = database(512);
    conn.execute_batch("INSERT INTO t VALUES (1, 'a')").unwrap();
    let leaves = Leaves::read(&conn, "t").unwrap().unwrap();
    conn.execute_batch("ALTER TABLE t RENAME COLUMN text TO other").unwrap();
    assert!(leaves.again(&conn).unwrap().is_none());
    let leaves = Leaves::read(&conn, "t").unwrap().unwrap();
    conn.execute_batch("DROP TABLE t").unwrap();
    assert!(leaves.again(&conn).unwrap().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_changes(
        rounds in prop::collection::vec(
            prop::collection::vec((0u8..6, 0i64..400, 0usize..700), 1..40), 1..12,
        ),
    ) {
        let conn = database(512);
        let mut leaves = Leaves::read(&conn, "t").unwrap().unwrap();
        let mut before = rows(&conn);
        for round in rounds {
            conn.execute_batch("BEGIN").unwrap();
            for (what, id, size) in round {
                let text = "x".repeat(size);
                match what {
                    0 | 1 => conn.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (id, text)),
                    2 => conn.execute("UPDATE t SET text = ? WHERE id = ?", (text, id)),
                    3 => conn.execute("DELETE FROM t WHERE id BETWEEN ? AND ?", (id, id + 3)),
                    4 => conn.execute("DELETE FROM t WHERE id > ?", (id,)),
                    _ => conn.execute("UPDATE OR IGNORE t SET id = id + 500 WHERE id = ?", [id]),
                }
                .unwrap();
            }
            conn.execute_batch("COMMIT").unwrap();
            let (next, _) = check(&leaves, &before, &conn);
            (leaves, before) = (next, rows(&conn));
        }
    }
}
