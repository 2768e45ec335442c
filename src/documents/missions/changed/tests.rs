//! Reading some rows comes to the same as reading all of them.

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;
use crate::documents::missions::tests::text_of;
use crate::documents::{DocState, Document, Save, Written};
use crate::model::{Stamp, View};

struct Store {
    conn: Connection,
    doc: Missions,
    state: State,
    now: i64,
    /// How often not everything was read.
    parts: usize,
}

impl Store {
    /// With this many missions, on pages so small that they make a tree.
    fn new(missions: i64) -> Store {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("PRAGMA page_size = 512").unwrap();
        conn.execute_batch(include_str!("../../../store/migrations/shared.sql")).unwrap();
        let states = ["pending", "pending", "pending", "in_progress", "done", "failed"];
        for n in 0..missions {
            let state = states[usize::try_from(n).unwrap() % states.len()];
            let done = (n % 6 > 3).then(|| format!("2026-01-0{}T10:00", 1 + n % 7));
            let sql = "INSERT INTO missions (text, state, sequence, completed_at) VALUES (?,?,?,?)";
            conn.execute(sql, (format!("mission {n}"), state, n * 10, done)).unwrap();
        }
        conn.execute_batch("INSERT INTO ideas (text, sequence) VALUES ('- an idea', 1)").unwrap();
        let doc = Missions::default();
        let state = doc.fresh();
        let mut store = Store { conn, doc, state, now: 1_800_000_000, parts: 0 };
        store.check(true);
        // Now chunks, keys and leaves are known.
        store.check(true);
        store
    }

    fn cx(&mut self) -> Context {
        self.now += 10;
        Context { now: Stamp(self.now * 1_000_000_000) }
    }

    /// Compares with what a kind makes of it that reads everything. `keep`: somebody is shown it.
    fn check(&mut self, keep: bool) {
        let cx = self.cx();
        let whole = Missions::default();
        let want = whole.refresh(&self.conn, &self.state, &self.state, &cx).unwrap();
        self.parts += usize::from(self.part().is_some());
        let got = self.doc.refresh(&self.conn, &self.state, &self.state, &cx).unwrap();
        assert_eq!(text_of(&got.next), text_of(&want.next));
        let (a, b) = (state(&got.next), state(&want.next));
        assert_eq!(a.archive(), b.archive());
        assert_eq!(keys(a), keys(b));
        let gone = |s: &MissionsState| s.vanished.iter().map(|v| v.entry.id).collect::<Vec<_>>();
        assert_eq!(gone(a), gone(b));
        assert_eq!(
            (got.changed, &got.summary, &got.overlaps),
            (want.changed, &want.summary, &want.overlaps)
        );
        if keep {
            self.state = got.next;
        }
    }

    /// What would be read of it, if not everything.
    fn part(&self) -> Option<(usize, usize, usize)> {
        let followed = self.doc.followed.lock();
        let followed = followed.as_ref()?;
        let (_, touched) = followed.leaves.again(&self.conn).unwrap()?;
        let part =
            part(&self.conn, state(&self.state), state(&followed.state), &touched).unwrap()?;
        Some((part.rows.len(), part.items.len(), part.rest))
    }

    fn sql(&self, sql: &str) {
        self.conn.execute_batch(sql).unwrap();
    }

    /// A save through the mount.
    fn save(&mut self, written: Written<'_>) {
        let cx = self.cx();
        let current = self.state.clone();
        let save = Save {
            view: View::MissionsMd,
            seen: Some(&current),
            written,
            current: &current,
            outside_since_seen: false,
            rows: None,
        };
        let next = self.doc.plan(&save, &cx).unwrap().next;
        self.state = self.doc.apply(&self.conn, &current, &next, &cx).unwrap();
    }
}

fn state(state: &State) -> &MissionsState {
    MissionsState::of(state).unwrap()
}

fn keys(s: &MissionsState) -> Vec<Option<super::super::chunk::RowKey>> {
    s.slots.iter().flat_map(|slot| slot.rows.as_ref().unwrap().keys.clone()).collect()
}

#[test]
fn little_is_read_for_a_little_change() {
    let mut store = Store::new(2_000);
    store.sql("INSERT INTO missions (text, state, sequence) VALUES ('new', 'pending', 1000000)");
    let (rows, items, rest) = store.part().expect("leaves");
    assert!(rows < 60 && items < 60 && rest > 1_900, "{rows} {items} {rest}");
    store.check(true);
    assert!(text_of(&store.state).contains("- new\n"));
    store.save(Written::Fragment(b"- one by hand\n"));
    let (rows, ..) = store.part().expect("leaves");
    assert!(rows < 900, "{rows}");
    store.check(true);
}

#[test]
fn a_row_that_comes_back_to_what_it_was_is_noticed() {
    let mut store = Store::new(600);
    let text = text_of(&store.state).replace("- mission 300\n", "- mission 300, edited\n");
    store.save(Written::Whole(text.as_bytes()));
    // Byte for byte what the leaf held when it was looked at.
    store.sql("UPDATE missions SET text = 'mission 300' WHERE text = 'mission 300, edited'");
    store.check(true);
    assert!(text_of(&store.state).contains("- mission 300\n"));
}

#[test]
fn a_version_that_nobody_was_shown_is_no_base() {
    let mut store = Store::new(600);
    store.sql("DELETE FROM missions WHERE id BETWEEN 100 AND 130");
    store.check(false);
    store.sql("INSERT INTO missions (text, state, sequence) VALUES ('new', 'done', 7)");
    store.check(false);
    store.check(true);
    assert!(!text_of(&store.state).contains("- mission 100\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_changes(
        size in 60i64..700,
        steps in prop::collection::vec((0u8..21, 0i64..700, any::<bool>(), any::<bool>()), 1..30),
    ) {
        let mut store = Store::new(size);
        for (what, id, look, keep) in steps {
            let now = store.now;
            if (11..=12).contains(&what) {
                // A save looks first.
                store.check(true);
            }
            match what {
                0 => store.sql(&format!(
                    "INSERT INTO missions (text, state, sequence) VALUES ('new {id}', 'pending', {})",
                    id * 10 + 5,
                )),
                1 => store.sql(&format!(
                    "INSERT INTO missions (text, state, completed_at) VALUES
                     ('ready {id}', 'done', '2026-01-0{}T11:00')", 1 + id % 7,
                )),
                2 => store.sql(&format!("DELETE FROM missions WHERE id BETWEEN {id} AND {}", id + 2)),
                3 => store.sql(&format!("UPDATE missions SET text = text || '!' WHERE id = {id}")),
                4 => store.sql(&format!(
                    "UPDATE missions SET state = 'done', completed_at = '2026-02-01T{now}'
                     WHERE id = {id}",
                )),
                5 => store.sql(&format!("UPDATE missions SET sequence = {} WHERE id = {id}", id * 7)),
                6 => store.sql(&format!("UPDATE missions SET project = 'p{id}' WHERE id = {id}")),
                7 => store.sql(&format!("UPDATE OR IGNORE missions SET id = id + 5000 WHERE id = {id}")),
                8 => store.sql(
                    "CREATE TABLE t AS SELECT * FROM missions; DELETE FROM missions;
                     INSERT INTO missions SELECT id + 9000, text, state, project, sequence,
                     complexity, queued_at, started_at, completed_at, recovery_count FROM t;
                     DROP TABLE t",
                ),
                9 => store.sql(&format!(
                    "INSERT INTO ideas (text, sequence) VALUES ('- idea {id}', {id})"
                )),
                10 => store.sql(&format!("UPDATE missions SET sequence = sequence + 1 WHERE id > {id}")),
                11 => store.save(Written::Fragment(format!("- mine {id}\n").as_bytes())),
                12 => {
                    let text = text_of(&store.state);
                    let text = text.replacen(&format!("- mission {id}\n"), "", 1);
                    store.save(Written::Whole(text.as_bytes()));
                }
                13 => store.sql(&format!(
                    "UPDATE missions SET text = 'twin' WHERE id BETWEEN {id} AND {}", id + 4
                )),
                14 => store.sql(&format!(
                    "UPDATE missions SET text = 'long {id} ' || hex(zeroblob(900)) WHERE id = {id}"
                )),
                // Only in the pages in which such a row goes on.
                15 => store.sql("UPDATE missions SET text = text || 'x' WHERE length(text) > 900"),
                16 => store.sql("VACUUM"),
                17 => store.sql(&format!("CREATE INDEX IF NOT EXISTS i{id} ON missions(text)")),
                18 => store.sql(&format!(
                    "CREATE TABLE t AS SELECT * FROM missions WHERE id = {id};
                     DELETE FROM missions WHERE id = {id};
                     UPDATE t SET sequence = sequence + 15, state = 'pending';
                     INSERT INTO missions SELECT * FROM t; DROP TABLE t"
                )),
                19 => {
                    // A commit of ours that comes to nothing.
                    store.check(true);
                    let before = store.state.clone();
                    store.sql("BEGIN");
                    store.save(Written::Fragment(format!("- lost {id}\n").as_bytes()));
                    if keep {
                        store.check(true);
                    }
                    store.sql("ROLLBACK");
                    store.state = before;
                }
                20 => store.sql(&format!("DELETE FROM missions WHERE id > {}", id / 2 + 50)),
                _ => unreachable!(),
            }
            if look {
                store.check(keep);
            }
        }
        store.check(true);
    }
}
