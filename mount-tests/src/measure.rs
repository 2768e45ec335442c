//! Taking times side by side: the parties take turns in one process, so that a busy moment hits
//! all of them, and a ratio is the median of the ratios of turns that were next to each other.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Instance;

/// One piece of work, told the number of its round; `None` where a column has none.
pub type Work<'a> = Option<Box<dyn FnMut(u64) + 'a>>;

/// Rounds of each measurement; few enough for appends not to change what is measured much.
pub const FEWEST: u64 = 5;
/// The most rounds of each measurement.
pub const MOST: u64 = 500;

/// Makes it a column's work.
pub fn work<'a>(one: impl FnMut(u64) + 'a) -> Work<'a> {
    Some(Box::new(one))
}

/// Microseconds of each column, by round; about `seconds` for each column.
pub fn interleave(columns: &mut [Work<'_>], seconds: f64) -> Vec<Vec<f64>> {
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

/// Microseconds that the work takes.
pub fn micros(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6
}

/// The middle one.
///
/// # Panics
/// When there is none.
pub fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Opens, reads to the end, closes.
pub fn reading(path: &Path) -> Work<'_> {
    let mut buffer = Vec::new();
    work(move |_| {
        buffer.clear();
        File::open(path).and_then(|mut file| file.read_to_end(&mut buffer)).expect("read");
    })
}

/// Asks for the attributes by path.
pub fn stating(path: &Path) -> Work<'_> {
    work(move |_| {
        path.metadata().expect("stat");
    })
}

/// Opens for appending, writes one line, closes.
pub fn append(path: &Path, i: u64) {
    let mut file = File::options().append(true).open(path).expect("open");
    file.write_all(format!("- appended {i}\n").as_bytes()).expect("append");
}

/// A task list with this many pending missions.
pub fn missions(size: usize) -> String {
    let mut text = String::from("# Missions\n\n## Pending\n");
    for i in 0..size {
        text.push_str(&format!("- mission number {i} of the benchmark\n"));
    }
    text.push_str("\n## In Progress\n\n## Done\n\n## Failed\n");
    text
}

/// The statement that inserts one mission: text, sequence.
pub const INSERT: &str = "insert into missions(text, state, sequence) values (?1, 'pending', ?2)";

/// The tables of Kōan's schema with their indexes, as the store has them.
const SHARED: &str = include_str!("../../src/store/migrations/shared.sql");

/// A database of its own with this many missions and nothing else, with the settings of the
/// store.
pub fn bare_database(path: &Path, size: usize) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(path).expect("database");
    db.execute_batch(
        "pragma journal_mode = wal; pragma synchronous = normal; pragma wal_autocheckpoint = 16000;",
    )
    .expect("settings");
    db.execute_batch(SHARED).expect("schema");
    db.execute_batch("begin").expect("begin");
    for i in 0..size {
        db.execute(INSERT, (format!("mission number {i} of the benchmark"), i as i64))
            .expect("insert");
    }
    db.execute_batch("commit").expect("commit");
    db
}

/// One row inserted and committed.
pub fn commit_of(db: &rusqlite::Connection) -> Work<'_> {
    work(move |i| {
        let mut insert = db.prepare_cached(INSERT).expect("insert");
        let sequence = 1_000_000 + i.cast_signed();
        insert.execute((format!("appended {i}"), sequence)).expect("insert");
    })
}

/// Keeps this thread, and all threads and processes that it starts, on one core: how long it takes
/// to wake another core depends on what else the machine does, and is many times the work.
pub struct OneCore(libc::cpu_set_t);

impl OneCore {
    /// From now on until it is dropped.
    ///
    /// # Panics
    /// When the kernel does not say which cores there are.
    pub fn start() -> OneCore {
        // SAFETY: a cpu_set_t is plain bits, for which zero is the empty set, and both calls get
        // its address and size.
        unsafe {
            let mut all: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            assert_eq!(libc::sched_getaffinity(0, size, &raw mut all), 0, "cores");
            let last = (0..size * 8).rfind(|core| libc::CPU_ISSET(*core, &all)).expect("a core");
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(last, &mut one);
            assert_eq!(libc::sched_setaffinity(0, size, &raw const one), 0, "one core");
            OneCore(all)
        }
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        // SAFETY: the set that the kernel gave.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.0) };
    }
}

/// Resident memory of a process in bytes.
pub fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("VmRSS");
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
}

/// Milliseconds from the start of `instancefs mount` to the end of a first whole read, the
/// median of some times.
pub fn first_answer(it: &Instance, rounds: usize) -> f64 {
    let path = it.path("missions.md");
    let firsts = (0..rounds).map(|_| {
        it.unmount();
        micros(|| {
            it.mount();
            let mut text = Vec::new();
            File::open(&path).and_then(|mut file| file.read_to_end(&mut text)).expect("read");
        })
    });
    median(firsts.collect()) / 1e3
}

/// What it was measured on, as a sentence.
pub fn machine() -> String {
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
