//! Budgets of one process's calls, in turns with the floor, a commit, or a reading.

use std::cell::RefCell;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fuser::BackgroundSession;

use super::Row;
use crate::measure::{
    INSERT, OneCore, append, bare_database, commit_of, interleave, median, missions, reading,
    stating, work,
};
use crate::{Builder, Instance, floor};

/// An instance with this file in it.
pub(super) fn instance(name: &str, text: &str) -> Instance {
    Builder::default().file(name, text).watchdog(Duration::from_secs(900)).start()
}

/// A floor that shows this text, unmounted at the end.
pub(super) struct Floor {
    session: Option<BackgroundSession>,
    pub path: PathBuf,
}

impl Floor {
    pub fn new(it: &Instance, text: &str) -> Floor {
        let at = it.scratch("floor");
        fs::create_dir(&at).expect("mkdir");
        let session = floor::mount(text.as_bytes().to_vec(), &at).expect("floor");
        Floor { session: Some(session), path: at.join(floor::FILE) }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            eprintln!("unmount the floor: {error}");
        }
    }
}

/// The median of what `of` gives for the neighbours of each round.
fn each<const N: usize>(times: &[Vec<f64>], of: impl Fn([f64; N]) -> f64) -> f64 {
    median((0..times[0].len()).map(|round| of(std::array::from_fn(|i| times[i][round]))).collect())
}

fn middle(times: &[f64]) -> f64 {
    median(times.to_vec())
}

/// `stat`, reading and appending with 100 missions.
pub(super) fn hundred(seconds: f64) -> Vec<Row> {
    let _one = OneCore::start();
    let text = missions(100);
    let it = instance("missions.md", &text);
    let floor = Floor::new(&it, &text);
    let path = it.path("missions.md");
    let against_floor = |work, times: Vec<Vec<f64>>, because| {
        let ratio = each(&times, |[mount, floor]| mount / floor);
        Row {
            work,
            budget: "1.3 x floor",
            measured: format!(
                "{ratio:.2} x floor ({:.0} µs, {:.0} µs)",
                middle(&times[0]),
                middle(&times[1])
            ),
            share: ratio / 1.3,
            because,
        }
    };
    let stats = interleave(&mut [stating(&path), stating(&floor.path)], seconds);
    let reads = interleave(&mut [reading(&path), reading(&floor.path)], seconds);
    let db = bare_database(&it.scratch("bare.db"), 100);
    let appends = interleave(
        &mut [work(|i| append(&path, i)), work(|i| append(&floor.path, i)), commit_of(&db)],
        seconds,
    );
    let commits = each(&appends, |[mount, floor, commit]| (mount - floor) / commit);
    let share = each(&appends, |[mount, floor, commit]| mount / (floor + 1.5 * commit));
    vec![
        against_floor("stat, 100 missions", stats, LOOPS),
        against_floor("open, read, close, 100 missions", reads, LOOPS),
        Row {
            work: "append one line (open, write, close), 100 missions",
            budget: "floor + 1.5 x commit",
            measured: format!(
                "floor + {commits:.1} x commit ({:.0} µs, {:.0} µs, {:.0} µs)",
                middle(&appends[0]),
                middle(&appends[1]),
                middle(&appends[2])
            ),
            share,
            because: APPEND,
        },
    ]
}

const LOOPS: &str = "the daemon's own part is about 1 µs a call (`instancefs status --json` counts it); the \
    floor has one event loop, the daemon several, so that a slow disk or a commit holds up nobody, \
    and each request wakes another thread than the one that has answered the last";
const APPEND: &str = "the transaction writes eight pages where the bare one writes four (the mission, its \
    revision, the document's record), and the line is parsed, numbered and archived; \
    docs/ARCHITECTURE.md has the shares";

/// Appending with 100,000 missions against appending with 100.
pub(super) fn appends(seconds: f64) -> Vec<Row> {
    let _one = OneCore::start();
    let (few, many) =
        (instance("missions.md", &missions(100)), instance("missions.md", &missions(100_000)));
    let (few_at, many_at) = (few.path("missions.md"), many.path("missions.md"));
    // The first one after the mount also reads what is there.
    append(&few_at, 0);
    append(&many_at, 0);
    let times =
        interleave(&mut [work(|i| append(&many_at, i)), work(|i| append(&few_at, i))], seconds);
    let ratio = each(&times, |[many, few]| many / few);
    vec![Row {
        work: "the same, 100,000 missions",
        budget: "1.2 x that with 100",
        measured: format!(
            "{ratio:.2} x ({:.0} µs, {:.0} µs)",
            middle(&times[0]),
            middle(&times[1])
        ),
        share: ratio / 1.2,
        because: "the indexes of the shared tables are larger, so a commit writes colder pages",
    }]
}

/// A whole save with one line changed, and how many rows it writes.
pub(super) fn save(seconds: f64) -> Vec<Row> {
    let text = missions(10_000);
    let it = instance("missions.md", &text);
    let floor = Floor::new(&it, &text);
    let path = it.path("missions.md");
    let at = text.find("- mission number 5000 ").expect("a mission") + 2;
    let changed = |text: &mut String, i: u64| {
        text.replace_range(at..at + 7, &format!("{:07}", i % 10_000_000));
    };
    let texts = RefCell::new(text);
    let saving = |path: &Path, i| {
        let mut text = texts.borrow_mut();
        changed(&mut text, i);
        fs::write(path, text.as_bytes()).expect("save");
    };
    let times = interleave(
        &mut [work(|i| saving(&path, i)), work(|i| saving(&floor.path, i)), reading(&path)],
        seconds,
    );
    assert_eq!(fs::read_to_string(&path).expect("read"), *texts.borrow(), "the save is there");
    let reads = each(&times, |[mount, floor, read]| (mount - floor) / read);
    let rows = rows_written(&it, || saving(&path, 9_999_999));
    vec![
        Row {
            work: "save the whole file with one line changed, 10,000 missions",
            budget: "floor + 10 x reading it",
            measured: format!(
                "floor + {reads:.1} x reading ({:.0} µs, {:.0} µs, {:.0} µs)",
                middle(&times[0]),
                middle(&times[1]),
                middle(&times[2])
            ),
            share: each(&times, |[mount, floor, read]| mount / (floor + 10.0 * read)),
            because: "the text is compared line by line with what its writer has seen",
        },
        Row {
            work: "rows of missions that this save writes",
            budget: "1",
            measured: rows.to_string(),
            share: rows as f64,
            because: "more rows than the changed one were written",
        },
    ]
}

/// How many rows of `missions` are inserted, updated or deleted during the work, by whom ever.
fn rows_written(it: &Instance, work: impl FnOnce()) -> i64 {
    let db = it.database();
    let trigger = |what: &str| {
        format!(
            "create trigger bench_{what} after {what} on missions
             begin update bench_rows set n = n + 1; end;"
        )
    };
    let events = ["insert", "update", "delete"];
    let made: String = events.iter().map(|what| trigger(what)).collect();
    let setup = format!("create table bench_rows(n); insert into bench_rows values (0); {made}");
    db.execute_batch(&setup).expect("triggers");
    work();
    let rows = db.query_row("select n from bench_rows", [], |row| row.get(0)).expect("a count");
    let drops: String = events.iter().map(|what| format!("drop trigger bench_{what};")).collect();
    db.execute_batch(&format!("{drops} drop table bench_rows")).expect("triggers");
    rows
}

/// Bytes per second that reading it all after a change must reach beyond the floor.
const CAT: f64 = 500e6;

/// Reading 100,000 missions after a change.
pub(super) fn cat(seconds: f64) -> Vec<Row> {
    let text = missions(100_000);
    let it = instance("missions.md", &text);
    let floor = Floor::new(&it, &text);
    let path = it.path("missions.md");
    let db = it.database();
    let insert = |i: u64| {
        db.execute(INSERT, (format!("inserted {i}"), 2_000_000 + i.cast_signed())).expect("insert");
    };
    let row = |what, because, change: &dyn Fn(u64)| {
        let times =
            interleave(&mut [reading(&path), reading(&floor.path), work(change)], seconds * 2.0);
        let bytes = path.metadata().expect("stat").len() as f64;
        let beyond = each(&times, |[mount, floor, _]| mount - floor);
        let rate = if beyond > 0.0 { bytes / beyond } else { f64::INFINITY };
        Row {
            work: what,
            budget: "500 MB/s beyond the floor",
            measured: if rate.is_finite() {
                format!("{rate:.0} MB/s ({beyond:.0} µs more for {:.1} MB)", bytes / 1e6)
            } else {
                format!("no slower than the floor ({:.1} MB)", bytes / 1e6)
            },
            share: beyond.max(0.0) / (bytes / CAT * 1e6),
            because,
        }
    };
    let appended = |i: u64| append(&path, i);
    vec![
        row(
            "cat of 100,000 missions after an append through the mount",
            "the text is put together anew",
            &appended,
        ),
        row(
            "cat of 100,000 missions after another program's insert with SQLite",
            "all rows have to be read in order to find the changed ones",
            &insert,
        ),
    ]
}

/// One of 5,000 keys of a config.json changed.
pub(super) fn config(seconds: f64) -> Vec<Row> {
    let mut text = String::from("{\n");
    for i in 0..5_000 {
        let end = if i == 4_999 { "" } else { "," };
        text.push_str(&match i % 3 {
            0 => format!("  \"key-{i:04}\": {:07}{end}\n", 1_000_000 + i),
            1 => format!("  \"key-{i:04}\": \"a value of number {i}\"{end}\n"),
            _ => format!("  \"key-{i:04}\": [true, {i}]{end}\n"),
        });
    }
    text.push_str("}\n");
    let it = instance("config.json", &text);
    let floor = Floor::new(&it, &text);
    let path = it.path("config.json");
    let at = text.find("\"key-3000\": ").expect("a key") + 12;
    let texts = RefCell::new(text);
    let saving = |path: &Path, i: u64| {
        let mut text = texts.borrow_mut();
        text.replace_range(at..at + 7, &format!("{:07}", 2_000_000 + i % 1_000_000));
        fs::write(path, text.as_bytes()).expect("save");
    };
    let times = interleave(
        &mut [
            work(|i| saving(&path, i)),
            work(|i| saving(&floor.path, i)),
            work(|_| {
                let text = texts.borrow();
                black_box(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"));
            }),
        ],
        seconds,
    );
    assert_eq!(fs::read_to_string(&path).expect("read"), *texts.borrow(), "the save is there");
    let parsings = each(&times, |[mount, floor, parse]| (mount - floor) / parse);
    vec![Row {
        work: "config.json with 5,000 keys: change one through the mount",
        budget: "floor + 3 x parsing it",
        measured: format!(
            "floor + {parsings:.1} x parsing ({:.0} µs, {:.0} µs, {:.0} µs)",
            middle(&times[0]),
            middle(&times[1]),
            middle(&times[2])
        ),
        share: each(&times, |[mount, floor, parse]| mount / (floor + 3.0 * parse)),
        because: "the text is parsed with the places of its keys, compared and checked as well",
    }]
}
