//! What the mount costs: the table of budgets; the same work through the mount, on the disk done
//! safely, in plain SQLite, and through a FUSE file system that does nothing; and plain files.
//!
//! usage: bench [--write] [--only budgets|documents|plain] [--row TEXT] [--seconds S]
//!              [--sizes 10,1000,100000]
//!
//! `--write`: puts what was measured into docs/BENCHMARKS.md, the other parts stay as they are.
//! `--row`: of the budgets only the group of this name.
//!
//! The parties take turns, so that a busy moment hits all of them; a ratio is the median of the
//! ratios of turns that were next to each other. Nothing is fsynced anywhere: a save is
//! committed when its call returns, as each column means it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mount_tests::measure::{
    FEWEST, INSERT, Work, append, bare_database, commit_of, first_answer, interleave, machine,
    median, micros, missions, reading, resident, stating, work,
};
use mount_tests::{Builder, Instance, budgets, floor, plain_load, told};

/// The parts of docs/BENCHMARKS.md with their headings, in their order.
const PARTS: [(&str, &str); 3] =
    [("budgets", "## Budgets\n"), ("documents", "## Documents\n"), ("plain", "## Plain files\n")];

struct Settings {
    write: bool,
    only: Option<String>,
    row: Option<String>,
    seconds: f64,
    sizes: Vec<usize>,
}

fn settings(mut args: impl Iterator<Item = String>) -> Result<Settings, String> {
    let sizes = vec![10, 1_000, 100_000];
    let mut all = Settings { write: false, only: None, row: None, seconds: 1.0, sizes };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--write" => all.write = true,
            "--only" => all.only = Some(value()?),
            "--row" => all.row = Some(value()?),
            "--seconds" => all.seconds = value()?.parse().map_err(|e| format!("{arg}: {e}"))?,
            "--sizes" => {
                all.sizes = value()?
                    .split(',')
                    .map(|n| n.parse().map_err(|e| format!("{arg}: {e}")))
                    .collect::<Result<_, _>>()?;
            }
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    match &all.only {
        Some(only) if PARTS.iter().all(|(name, _)| name != only) => {
            Err(format!("--only {only}: there are budgets, documents and plain"))
        }
        _ => Ok(all),
    }
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        // The processes that the budgets start.
        ["appender", seconds, path] => {
            budgets::appender(
                seconds.parse().map_err(|e| format!("{seconds}: {e}"))?,
                path.as_ref(),
            );
            return Ok(());
        }
        ["holder", path] => {
            budgets::holder(path.as_ref());
            return Ok(());
        }
        _ => (),
    }
    let settings = settings(args.into_iter())?;
    for (name, heading) in PARTS {
        if settings.only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        println!("\n{heading}");
        let part = match name {
            "budgets" => budget_part(&settings),
            "documents" => document_part(&settings),
            _ => plain_part(settings.seconds)?,
        };
        if settings.write {
            write(heading, &part)?;
        }
    }
    Ok(())
}

/// Puts a part in its place in docs/BENCHMARKS.md.
fn write(heading: &str, part: &str) -> Result<(), String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/BENCHMARKS.md");
    let failed = |error| format!("{}: {error}", page.display());
    let old = fs::read_to_string(&page).map_err(failed)?;
    let mut text = String::from(
        "# Benchmarks\n\n\
         Written by `make bench WRITE=1`, each part by itself with `BENCH_ARGS=\"--only budgets\"`,\n\
         `documents` or `plain`.\n",
    );
    for (_, other) in PARTS {
        if other == heading {
            let _ = write!(text, "\n{heading}\n{}\n", part.trim_end());
        } else if let Some(kept) = section(&old, other) {
            let _ = write!(text, "\n{}\n", kept.trim_end());
        }
    }
    fs::write(&page, text).map_err(failed)
}

/// The part of the page under this heading.
fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let from = &page[page.find(heading)?..];
    let rest = &from[heading.len()..];
    Some(&from[..rest.find("\n## ").map_or(from.len(), |end| heading.len() + end)])
}

/// The part about budgets.
fn budget_part(settings: &Settings) -> String {
    let table = budgets::table(settings.seconds, settings.row.as_deref());
    format!(
        "{}\n\n\
         What work on a document may cost, and what it costs here. The figures in brackets are\n\
         medians of each party; ratios and differences are medians over neighbouring turns. **share**:\n\
         measured over allowed, at most 1 where the budget is met.\n\n\
         * **floor**: a FUSE file system that only answers, with as many round trips.\n\
         * The rows about single calls with 100 missions, and the appends with 100,000, have all\n\
         \x20 parties on one core: waking another one takes from 1 to 50 µs, as it happens. They are\n\
         \x20 ratios of work, not of what a program waits; see Documents for that.\n\
         * **commit**: one row inserted and committed by the measuring program itself, with the\n\
         \x20 tables and settings of the store (WAL, `synchronous=NORMAL`).\n\
         * **reading**: open, read to the end, close, through the mount. **parsing**: by `serde_json`\n\
         \x20 in the measuring program.\n\
         * **replace-all writer**: `mount-tests/programs/koan_store.py` in a directory without a\n\
         \x20 mount; both parties are one Python process.\n\n\
         {table}",
        machine(),
    )
}

/// The part about documents beside the budgets.
fn document_part(settings: &Settings) -> String {
    let mut table = String::from(
        "| missions | work | mount | disk | mount/disk | SQLite | mount/SQLite | floor | mount/floor |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    print!("{table}");
    let mut rest = String::from("| missions | what | here |\n|---:|---|---:|\n");
    let mut appends = Vec::new();
    for &size in &settings.sizes {
        let (it, text) = instance(size);
        for (name, row) in side_by_side(&it, size, &text, settings.seconds) {
            print!("{}", row.line);
            table.push_str(&row.line);
            if name == "append" {
                appends.push((size, row.mount));
            }
        }
        rest.push_str(&alone(it, size));
    }
    if let [(least, few), .., (most, many)] = appends[..] {
        let _ = writeln!(rest, "| {most} | append, against {least} missions | {:.2} |", many / few);
    }
    let (middle, late) = news();
    let _ = writeln!(rest, "| 1 | event after an insert with SQLite, median | {middle:.1} ms |");
    let _ = writeln!(rest, "| 1 | the same, nine of ten | {late:.1} ms |");
    print!("\n{rest}");
    page_of(&table, &rest)
}

/// The part about plain files.
fn plain_part(seconds: f64) -> Result<String, String> {
    let table = plain_load::table(seconds).map_err(|e| e.to_string())?;
    print!("{table}");
    Ok(format!(
        "{}\n\n\
         Microseconds per operation, medians; a ratio is the median of the ratios of neighbouring\n\
         turns. **mount**: mounted by root, so the kernel reads and writes itself. **without\n\
         passthrough**: the same with `--no-passthrough`. **bindfs**: Debian's, with its defaults.\n\n\
         {table}",
        machine(),
    ))
}

/// The text of the part about documents.
fn page_of(table: &str, rest: &str) -> String {
    format!(
        "{}\n\n\
         ### Side by side\n\n\
         Medians in microseconds. The parties take turns in one process, and a ratio is the median\n\
         of the ratios of neighbouring turns: compare the ratios, not the numbers.\n\n\
         * **read**: open, read to the end, close. **stat**: `stat` by path. **append**: open with\n\
         \x20 `O_APPEND`, write one line, close. **save**: open truncating, write the whole text with\n\
         \x20 one line changed, close.\n\
         * **mount**: `missions.md` in a mounted instance with that many missions.\n\
         * **disk**: the same text in a plain file; append and save are done as a careful program\n\
         \x20 does them: `flock`, read, write a temporary, rename. With many missions an append to\n\
         \x20 the disk costs by the size of the file, one to the mount does not (below 1 the mount\n\
         \x20 is faster).\n\
         * **SQLite**: the least that a save can cost: one row inserted or updated and committed\n\
         \x20 by the program itself, with the tables and the settings of the store (WAL,\n\
         \x20 `synchronous=NORMAL`). The mount also keeps the history, and asks who the writer is, what\n\
         \x20 it has seen and whether it has closed its last descriptor.\n\
         * **floor**: a FUSE file system that only answers, with as many round trips: what the\n\
         \x20 kernel costs. A whole save on the mount is compared with the text that it replaces,\n\
         \x20 hence the difference at many missions.\n\n{table}\n\
         ### By itself\n\n\
         * **mount to first answer**: `instancefs mount` started, until a first whole read is done.\n\
         * **read after an insert**: another program has inserted one row with SQLite; the next\n\
         \x20 open, read, close. All rows have to be read for that; **rows** is what reading them\n\
         \x20 costs in this process.\n\
         * **resident**: memory of the daemon after all of the above. **idle**: its share of one\n\
         \x20 core while nobody does anything.\n\
         * **event**: how soon a watcher with inotify is told of another program's insert.\n\n{rest}",
        machine(),
    )
}

/// How soon a watcher is told of a row that was inserted with SQLite, in ms: the median and the
/// ninth of ten.
fn news() -> (f64, f64) {
    let it = Builder::default().file("missions.md", "## Pending\n- a\n").start();
    let delays = told::delays(&it, 100);
    let millis = |at: usize| delays[at].as_secs_f64() * 1e3;
    (millis(delays.len() / 2), millis(delays.len() * 9 / 10))
}

fn instance(size: usize) -> (Instance, String) {
    let text = missions(size);
    let limit = Duration::from_secs(900);
    (Builder::default().file("missions.md", &text).watchdog(limit).start(), text)
}

/// What is measured without another party.
fn alone(it: Instance, size: usize) -> String {
    let mut out = String::new();
    let mount = it.path("missions.md");
    let db = it.database();
    let (mut shown, mut rows) = (Vec::new(), Vec::new());
    let mut after_insert = reading(&mount).expect("a reader");
    for round in 0..9 {
        db.execute(INSERT, (format!("foreign {round}"), 2_000_000 + round)).expect("insert");
        shown.push(micros(|| after_insert(0)));
        rows.push(micros(|| every_row(&db)));
    }
    let text = fs::read_to_string(&mount).expect("read");
    assert!(text.contains("- foreign 8\n"), "the insert shows");
    let mut line = |what: &str, value: String| {
        let _ = writeln!(out, "| {size} | {what} | {value} |");
    };
    let (shown, rows) = (median(shown) / 1e3, median(rows) / 1e3);
    line("read after an insert with SQLite", format!("{shown:.1} ms"));
    line("rows", format!("{rows:.1} ms"));
    let daemon = it.daemon();
    line("resident", format!("{} MB", resident(daemon) >> 20));
    // What is due after the work is done by then.
    std::thread::sleep(Duration::from_secs(2));
    let (start, before) = (Instant::now(), cpu(daemon));
    std::thread::sleep(Duration::from_secs(5));
    let used = (cpu(daemon) - before) / start.elapsed().as_secs_f64();
    line("idle", format!("{:.2} %", used * 100.0));
    line("mount to first answer", format!("{:.0} ms", first_answer(&it, 3)));
    out
}

/// Reads all columns of all missions, as one has to in order to find what has changed.
fn every_row(db: &rusqlite::Connection) {
    let columns = "id, sequence, text, state, project, complexity, queued_at, started_at,
                   completed_at, recovery_count";
    let mut select = db.prepare_cached(&format!("select {columns} from missions")).expect("select");
    let mut rows = select.query([]).expect("rows");
    let mut all: Vec<Vec<rusqlite::types::Value>> = Vec::new();
    while let Some(row) = rows.next().expect("row") {
        all.push((0..10).map(|i| row.get(i).expect("column")).collect());
    }
    assert!(!all.is_empty());
}

/// Processor time used so far, in seconds, by all threads.
fn cpu(pid: i32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads").flatten();
    // In nanoseconds, unlike `stat`, which counts in ticks.
    let spent = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    spent.sum::<u64>() as f64 / 1e9
}

struct Measured {
    line: String,
    /// Median microseconds on the mount.
    mount: f64,
}

fn side_by_side(
    it: &Instance,
    size: usize,
    text: &str,
    seconds: f64,
) -> Vec<(&'static str, Measured)> {
    let floor_at = it.scratch("floor");
    fs::create_dir(&floor_at).expect("mkdir");
    let session = floor::mount(text.as_bytes().to_vec(), &floor_at).expect("floor");
    let disk_dir = it.scratch("disk");
    fs::create_dir(&disk_dir).expect("mkdir");
    let disk = disk_dir.join("missions.md");
    fs::write(&disk, text).expect("write");
    let (mount, floor) = (it.path("missions.md"), floor_at.join(floor::FILE));
    let db = bare_database(&it.scratch("bare.db"), size);
    let row =
        |name: &'static str, columns: Vec<Work<'_>>| (name, measured(size, name, columns, seconds));

    let mut rows = vec![
        row("read", vec![reading(&mount), reading(&disk), None, reading(&floor)]),
        row("stat", vec![stating(&mount), stating(&disk), None, stating(&floor)]),
        row(
            "append",
            vec![
                work(|i| append(&mount, i)),
                work(|i| careful(&disk, |text| text.push_str(&format!("- appended {i}\n")))),
                commit_of(&db),
                work(|i| append(&floor, i)),
            ],
        ),
    ];
    let count = it.rows().iter().filter(|(text, _)| text.starts_with("appended ")).count();
    assert!(count >= FEWEST as usize, "appends are there");
    let mut ours = fs::read_to_string(&mount).expect("read");
    let mut floors = ours.clone();
    let at = ours.find("- mission number 0").expect("a mission") + 2;
    let name = |i: u64| format!("{:07}", i % 10_000_000);
    rows.push(row(
        "save",
        vec![
            work(|i| {
                ours.replace_range(at..at + 7, &name(i));
                fs::write(&mount, &ours).expect("save");
            }),
            work(|i| careful(&disk, |text| text.replace_range(at..at + 7, &name(i)))),
            work(|i| {
                let update = "update missions set text = ?1 where id = 1";
                db.prepare_cached(update).expect("update").execute([name(i)]).expect("update");
            }),
            work(|i| {
                floors.replace_range(at..at + 7, &name(i));
                fs::write(&floor, &floors).expect("save");
            }),
        ],
    ));
    assert_eq!(fs::read_to_string(&mount).expect("read"), ours, "the last save is there");
    session.umount_and_join().expect("unmount the floor");
    rows
}

fn measured(size: usize, name: &str, mut columns: Vec<Work<'_>>, seconds: f64) -> Measured {
    let times = interleave(&mut columns, seconds);
    let mount = median(times[0].clone());
    let mut line = format!("| {size} | {name} | {mount:.1}");
    for other in &times[1..] {
        if other.is_empty() {
            line.push_str(" | | ");
            continue;
        }
        let ratios = times[0].iter().zip(other).map(|(mount, other)| mount / other).collect();
        let _ = write!(line, " | {:.1} | {:.2}", median(other.clone()), median(ratios));
    }
    line.push_str(" |\n");
    Measured { line, mount }
}

/// A change of a plain file as a careful program makes it.
fn careful(path: &PathBuf, change: impl FnOnce(&mut String)) {
    let lock = File::create(path.with_extension("lock")).expect("lock file");
    // SAFETY: flock on a descriptor that is open.
    assert_eq!(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) }, 0);
    let mut text = fs::read_to_string(path).expect("read");
    change(&mut text);
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, text).expect("write");
    fs::rename(&temporary, path).expect("rename");
}
