//! Budgets of the daemon by itself.

use super::Row;
use super::pairs::instance;
use crate::measure::{append, first_answer, missions};

const REVISIONS: u32 = 10_000;

/// From `instancefs mount` to the end of the first read.
pub(super) fn mount(_: f64) -> Vec<Row> {
    let it = instance("missions.md", &missions(100_000));
    let path = it.path("missions.md");
    (0..REVISIONS).for_each(|i| append(&path, i.into()));
    let millis = first_answer(&it, 5);
    let count: i64 = it
        .database()
        .query_row("select count(*) from missions", [], |row| row.get(0))
        .expect("a count");
    assert_eq!(count, 100_000 + i64::from(REVISIONS), "all appends are there");
    vec![Row {
        work: "mount to first answer, 100,000 missions, 10,000 revisions",
        budget: "300 ms",
        measured: format!("{millis:.0} ms"),
        share: millis / 300.0,
        because: "all rows are read and compared with what was shown last",
    }]
}
