//! What the mount costs: the same work through the mount, on the disk done safely, in plain
//! SQLite, and through a FUSE file system that does nothing.
//!
//! usage: bench [--write] [--plain] [--seconds S] [--sizes 10,1000,100000]
//!
//! `--plain`: only the part about plain files.
//!
//! The parties take turns, so that a busy moment hits all of them; a ratio is the median of the
//! ratios of turns that were next to each other. Nothing is fsynced anywhere: a save is
//! committed when its call returns, as each column means it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mount_tests::{Builder, Instance, floor, plain_load, told};

/// Where the part about plain files begins in docs/BENCHMARKS.md; it is the last one.
const PLAIN: &str = "## Plain files\n";

struct Settings {
    write: bool,
    plain: bool,
    seconds: f64,
    sizes: Vec<usize>,
}

fn settings() -> Result<Settings, String> {
    let mut all =
        Settings { write: false, plain: false, seconds: 1.0, sizes: vec![10, 1_000, 100_000] };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--write" => all.write = true,
            "--plain" => all.plain = true,
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
    Ok(all)
}

fn main() -> Result<(), String> {
    let settings = settings()?;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/BENCHMARKS.md");
    if settings.plain {
        let part = plain_part(settings.seconds)?;
        if settings.write {
            let text = fs::read_to_string(&page).map_err(|e| e.to_string())?;
            let before = text.split(PLAIN).next().unwrap_or_default().trim_end();
            fs::write(&page, format!("{before}\n\n{part}")).map_err(|e| e.to_string())?;
        }
        return Ok(());
    }
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
    let part = plain_part(settings.seconds)?;
    if settings.write {
        let text = format!("{}\n{part}", page_of(&table, &rest));
        fs::write(&page, text).map_err(|e| format!("{}: {e}", page.display()))?;
    }
    Ok(())
}

/// The part about plain files.
fn plain_part(seconds: f64) -> Result<String, String> {
    let table = plain_load::table(seconds).map_err(|e| e.to_string())?;
    print!("{table}");
    Ok(format!(
        "{PLAIN}\n\
         {}\n\n\
         Microseconds per operation, medians; a ratio is the median of the ratios of neighbouring\n\
         turns. **mount**: mounted by root, so the kernel reads and writes itself. **without\n\
         passthrough**: the same with `--no-passthrough`. **bindfs**: Debian's, with its defaults.\n\n\
         {table}",
        machine(),
    ))
}

/// The text of docs/BENCHMARKS.md without that part.
fn page_of(table: &str, rest: &str) -> String {
    format!(
        "# Benchmarks\n\n\
         Written by `make bench WRITE=1`. {}\n\n\
         ## Side by side\n\n\
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
         ## By itself\n\n\
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

/// What it was measured on.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg");
    format!(
        "Measured on {cores} cores ({}) with Linux {},\nload {} at the end of the run.",
        model.map_or("unknown", |m| m.1.trim()),
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or("unknown"),
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
    let mut text = String::from("# Missions\n\n## Pending\n");
    for i in 0..size {
        let _ = writeln!(text, "- mission number {i} of the benchmark");
    }
    text.push_str("\n## In Progress\n\n## Done\n\n## Failed\n");
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
        let insert = "insert into missions(text, state, sequence) values (?1, 'pending', ?2)";
        db.execute(insert, (format!("foreign {round}"), 2_000_000 + round)).expect("insert");
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
    let mut firsts = Vec::new();
    for _ in 0..3 {
        it.unmount();
        firsts.push(micros(|| {
            it.mount();
            reading(&mount).expect("a reader")(0);
        }));
    }
    line("mount to first answer", format!("{:.0} ms", median(firsts) / 1e3));
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

/// Resident memory in bytes.
fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("VmRSS");
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
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

/// One piece of work, told the number of its round; `None` where a column has none.
type Work<'a> = Option<Box<dyn FnMut(u64) + 'a>>;

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
    let db = bare_database(it, size);
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
                work(|i| {
                    let insert =
                        "insert into missions(text, state, sequence) values (?1, 'pending', ?2)";
                    let mut insert = db.prepare_cached(insert).expect("insert");
                    let sequence = 1_000_000 + i.cast_signed();
                    insert.execute((format!("appended {i}"), sequence)).expect("insert");
                }),
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

/// Rounds of each measurement; few enough for appends not to change what is measured much.
const FEWEST: u64 = 5;
const MOST: u64 = 500;

/// Microseconds of each column, by round.
fn interleave(columns: &mut [Work<'_>], seconds: f64) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::new(); columns.len()];
    let end = Instant::now() + Duration::from_secs_f64(seconds * columns.len() as f64);
    let mut round = 0;
    while round < FEWEST || (Instant::now() < end && round < MOST) {
        for (work, times) in columns.iter_mut().zip(&mut times) {
            if let Some(work) = work {
                times.push(micros(|| work(round)));
            }
        }
        round += 1;
    }
    times
}

fn micros(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn work<'a>(one: impl FnMut(u64) + 'a) -> Work<'a> {
    Some(Box::new(one))
}

fn reading(path: &Path) -> Work<'_> {
    let mut buffer = Vec::new();
    work(move |_| {
        buffer.clear();
        File::open(path).and_then(|mut file| file.read_to_end(&mut buffer)).expect("read");
    })
}

fn stating(path: &Path) -> Work<'_> {
    work(move |_| {
        path.metadata().expect("stat");
    })
}

fn append(path: &Path, i: u64) {
    let mut file = File::options().append(true).open(path).expect("open");
    file.write_all(format!("- appended {i}\n").as_bytes()).expect("append");
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

/// The tables of Kōan's schema with their indexes, as the store has them.
const SHARED: &str = include_str!("../../../src/store/migrations/shared.sql");

/// A database with the same rows and nothing else, with the settings of the store.
fn bare_database(it: &Instance, size: usize) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(it.scratch("bare.db")).expect("database");
    db.execute_batch(
        "pragma journal_mode = wal; pragma synchronous = normal; pragma wal_autocheckpoint = 16000;",
    )
    .expect("settings");
    db.execute_batch(SHARED).expect("schema");
    db.execute_batch("begin").expect("begin");
    for i in 0..size {
        db.execute(
            "insert into missions(text, state, sequence) values (?1, 'pending', ?2)",
            (format!("mission number {i} of the benchmark"), i as i64),
        )
        .expect("insert");
    }
    db.execute_batch("commit").expect("commit");
    db
}
