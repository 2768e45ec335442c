//! What the mount costs: the same work through the mount, on the disk done safely, in plain
//! SQLite, and through a FUSE file system that does nothing.
//!
//! usage: bench [--write] [--seconds S] [--sizes 10,1000,100000]
//!
//! Medians of interleaved runs, so that a busy moment hits all columns. Nothing is fsynced
//! anywhere: a save is committed when its call returns, as each column means it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mount_tests::{Builder, Instance, floor, told};

struct Settings {
    write: bool,
    seconds: f64,
    sizes: Vec<usize>,
}

fn settings() -> Result<Settings, String> {
    let mut all = Settings { write: false, seconds: 1.0, sizes: vec![10, 1_000, 100_000] };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--write" => all.write = true,
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
    let mut table = String::from(
        "| missions | work | mount | disk | mount/disk | SQLite | mount/SQLite | floor | mount/floor |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    print!("{table}");
    for &size in &settings.sizes {
        for row in measure(size, settings.seconds) {
            print!("{row}");
            table.push_str(&row);
        }
    }
    let news = news();
    print!("\n{news}");
    if settings.write {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/BENCHMARKS.md");
        fs::write(&page, page_of(&table, &news)).map_err(|e| format!("{}: {e}", page.display()))?;
    }
    Ok(())
}

/// The text of docs/BENCHMARKS.md.
fn page_of(table: &str, news: &str) -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "# Benchmarks\n\n\
         Written by `make bench WRITE=1`: medians in microseconds, from interleaved runs in one\n\
         process, on {cores} cores with Linux {}. Compare the ratios, not the numbers.\n\n\
         * **read**: open, read to the end, close. **stat**: `stat` by path. **append**: open with\n\
         \x20 `O_APPEND`, write one line, close. **save**: open truncating, write the whole text with\n\
         \x20 one line changed, close.\n\
         * **mount**: `missions.md` in a mounted instance with that many missions.\n\
         * **disk**: the same text in a plain file; append and save are done as a careful program\n\
         \x20 does them: `flock`, read, write a temporary, rename.\n\
         * **SQLite**: the least that a save can cost: one row inserted or updated and committed\n\
         \x20 (WAL, `synchronous=NORMAL`).\n\
         * **floor**: a FUSE file system that only answers.\n\n{table}\n{news}",
        kernel.trim()
    )
}

/// How soon a watcher is told of a row that was inserted with SQLite.
fn news() -> String {
    let it = Builder::default().file("missions.md", "## Pending\n- a\n").start();
    let delays = told::delays(&it, 100);
    let millis = |at: usize| delays[at].as_secs_f64() * 1e3;
    format!(
        "A row inserted with SQLite is an inotify event on `missions.md` after {:.1} ms (median of\n\
         {}; nine of ten within {:.1} ms).\n",
        millis(delays.len() / 2),
        delays.len(),
        millis(delays.len() * 9 / 10),
    )
}

/// One piece of work, told the number of its round; `None` where a column has none.
type Work<'a> = Option<Box<dyn FnMut(u64) + 'a>>;

fn measure(size: usize, seconds: f64) -> Vec<String> {
    let mut text = String::from("# Missions\n\n## Pending\n");
    for i in 0..size {
        let _ = writeln!(text, "- mission number {i} of the benchmark");
    }
    text.push_str("\n## In Progress\n\n## Done\n\n## Failed\n");
    let it =
        Builder::default().file("missions.md", &text).watchdog(Duration::from_secs(900)).start();
    let floor_at = it.scratch("floor");
    fs::create_dir(&floor_at).expect("mkdir");
    let session = floor::mount(text.clone().into_bytes(), &floor_at).expect("floor");
    let disk_dir = it.scratch("disk");
    fs::create_dir(&disk_dir).expect("mkdir");
    let disk = disk_dir.join("missions.md");
    fs::write(&disk, &text).expect("write");
    let (mount, floor) = (it.path("missions.md"), floor_at.join(floor::FILE));

    let row = |name: &str, mut columns: Vec<Work<'_>>| {
        let medians = interleave(&mut columns, seconds);
        let mount = medians[0].expect("every work is done on the mount");
        let mut line = format!("| {size} | {name} | {mount:.1}");
        for median in &medians[1..] {
            match median {
                Some(median) => {
                    let _ = write!(line, " | {median:.1} | {:.2}", mount / median);
                }
                None => line.push_str(" | | "),
            }
        }
        line.push_str(" |\n");
        line
    };
    let db = bare_database(&it, size);
    let mut rows = vec![
        row("read", vec![reading(&mount), reading(&disk), None, reading(&floor)]),
        row("stat", vec![stating(&mount), stating(&disk), None, stating(&floor)]),
    ];
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
                db.execute("update missions set text = ?1 where id = 1", [name(i)])
                    .expect("update");
            }),
            work(|i| {
                floors.replace_range(at..at + 7, &name(i));
                fs::write(&floor, &floors).expect("save");
            }),
        ],
    ));
    assert_eq!(fs::read_to_string(&mount).expect("read"), ours, "the last save is there");
    rows.push(row(
        "append",
        vec![
            work(|i| append(&mount, i)),
            work(|i| careful(&disk, |text| text.push_str(&format!("- appended {i}\n")))),
            work(|i| {
                db.execute(
                    "insert into missions(text, state, sequence) values (?1, 'pending', ?2)",
                    (format!("appended {i}"), 1_000_000 + i.cast_signed()),
                )
                .expect("insert");
            }),
            work(|i| append(&floor, i)),
        ],
    ));
    let count = it.rows().iter().filter(|(text, _)| text.starts_with("appended ")).count();
    assert!(count >= FEWEST as usize, "appends are there");
    session.umount_and_join().expect("unmount the floor");
    rows
}

/// Rounds of each measurement; few enough for appends not to change what is measured much.
const FEWEST: u64 = 5;
const MOST: u64 = 500;

/// Median microseconds of each column.
fn interleave(columns: &mut [Work<'_>], seconds: f64) -> Vec<Option<f64>> {
    let mut times = vec![Vec::new(); columns.len()];
    let end = Instant::now() + Duration::from_secs_f64(seconds * columns.len() as f64);
    let mut round = 0;
    while round < FEWEST || (Instant::now() < end && round < MOST) {
        for (work, times) in columns.iter_mut().zip(&mut times) {
            let Some(work) = work else { continue };
            let start = Instant::now();
            work(round);
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        round += 1;
    }
    times
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied()
        })
        .collect()
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

/// A database with the same rows and nothing else.
fn bare_database(it: &Instance, size: usize) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(it.scratch("bare.db")).expect("database");
    db.execute_batch(
        "pragma journal_mode = wal; pragma synchronous = normal;
         create table missions(id integer primary key, text text not null, state text not null,
                               sequence integer not null default 0);
         create index idx on missions(state, sequence); begin;",
    )
    .expect("schema");
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
