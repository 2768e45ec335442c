//! What plain files cost: the same small work on the disk, in the mount with kernel passthrough
//! and without, and in Debian's `bindfs`, which shows a directory elsewhere and does nothing else.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::measure::median;
use crate::{Instance, detach, is_mounted};

/// Files that a listing shows.
const LISTED: usize = 1000;

/// One kind of work: its name, operations per turn, and one operation.
struct Work {
    name: &'static str,
    times: usize,
    once: fn(&Path, usize) -> io::Result<()>,
}

const WORKS: &[Work] = &[
    Work { name: "create, 1 KiB", times: 100, once: create },
    Work { name: "append, 64 bytes", times: 100, once: append },
    Work { name: "stat", times: 500, once: |dir, _| fs::metadata(dir.join("text")).map(drop) },
    Work { name: "read 64 KiB", times: 100, once: |dir, _| read(&dir.join("text")) },
    Work { name: "list 1000", times: 5, once: list },
    Work { name: "list and stat 1000", times: 2, once: list_and_stat },
    Work { name: "rename", times: 100, once: rename },
    Work { name: "save by rename", times: 50, once: save },
    Work { name: "open, 200 reads of 1 MiB", times: 2, once: read_big },
    Work { name: "open, 200 writes of 1 MiB", times: 2, once: write_big },
];

fn create(dir: &Path, i: usize) -> io::Result<()> {
    let path = dir.join("new").join(i.to_string());
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(&[7; 1024])
}

fn append(dir: &Path, _: usize) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(dir.join("log"))?.write_all(&[b'x'; 64])
}

fn read(path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut buf = vec![0; 1 << 20];
    while file.read(&mut buf)? > 0 {}
    Ok(())
}

fn list(dir: &Path, _: usize) -> io::Result<()> {
    match fs::read_dir(dir.join("many"))?.count() {
        LISTED => Ok(()),
        n => Err(io::Error::other(format!("{n} names"))),
    }
}

fn list_and_stat(dir: &Path, _: usize) -> io::Result<()> {
    fs::read_dir(dir.join("many"))?.try_for_each(|e| fs::symlink_metadata(e?.path()).map(drop))
}

fn rename(dir: &Path, i: usize) -> io::Result<()> {
    let (from, to) = if i.is_multiple_of(2) { ("one", "two") } else { ("two", "one") };
    fs::rename(dir.join(from), dir.join(to))
}

fn save(dir: &Path, i: usize) -> io::Result<()> {
    let temporary = dir.join(format!("saved-{i}"));
    File::create(&temporary)?.write_all(&[b't'; 4096])?;
    fs::rename(temporary, dir.join("saved"))
}

fn read_big(dir: &Path, _: usize) -> io::Result<()> {
    let (file, mut buf) = (File::open(dir.join("big"))?, vec![0; 1 << 20]);
    (0..200).try_for_each(|_| file.read_exact_at(&mut buf, 0))
}

fn write_big(dir: &Path, _: usize) -> io::Result<()> {
    let (file, buf) = (OpenOptions::new().write(true).open(dir.join("big"))?, vec![9; 1 << 20]);
    (0..200).try_for_each(|_| file.write_all_at(&buf, 0))
}

fn prepare(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir.join("many"))?;
    for i in 0..LISTED {
        File::create(dir.join("many").join(format!("file-{i}")))?;
    }
    fs::write(dir.join("text"), vec![b't'; 64 << 10])?;
    fs::write(dir.join("big"), vec![b'b'; 1 << 20])?;
    fs::write(dir.join("one"), "1")
}

/// Microseconds of one operation, over one turn.
fn turn(work: &Work, dir: &Path) -> io::Result<f64> {
    let new = dir.join("new");
    let _ = fs::remove_dir_all(&new);
    fs::create_dir(&new)?;
    let start = Instant::now();
    for i in 0..work.times {
        (work.once)(dir, i)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / work.times as f64)
}

/// A `bindfs` of a directory, taken away at the end.
struct Bound(PathBuf);

impl Bound {
    /// `None`: not installed.
    fn new(it: &Instance) -> Option<Bound> {
        let (from, at) = (it.scratch("bound"), it.scratch("bindfs"));
        fs::create_dir_all(&from).ok()?;
        fs::create_dir_all(&at).ok()?;
        let done = Command::new("bindfs").args([&from, &at]).status();
        (done.is_ok_and(|s| s.success()) && is_mounted(&at)).then_some(Bound(at))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        detach(&self.0);
    }
}

/// A table in Markdown: microseconds per operation, and the ratios of the mount to the others.
/// Each kind of work is repeated for about `seconds`.
///
/// # Errors
/// What an operation failed with.
pub fn table(seconds: f64) -> io::Result<String> {
    let watchdog = Duration::from_secs(24 * 3600);
    let through = Instance::builder().watchdog(watchdog).start();
    let ordinary = Instance::builder().watchdog(watchdog).mount_arg("--no-passthrough").start();
    let bound = Bound::new(&through);
    let mut dirs = vec![through.scratch("disk"), through.path("load"), ordinary.path("load")];
    dirs.extend(bound.as_ref().map(|b| b.0.join("load")));
    for dir in &dirs {
        fs::create_dir(dir)?;
        prepare(dir)?;
    }
    let mut out = String::from(
        "| work | disk | mount | without passthrough | bindfs | mount/disk | mount/bindfs | without/bindfs |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for work in WORKS {
        let mut turns: Vec<Vec<f64>> = Vec::new();
        let start = Instant::now();
        while turns.len() < 5 || start.elapsed().as_secs_f64() < seconds {
            turns.push(dirs.iter().map(|dir| turn(work, dir)).collect::<io::Result<_>>()?);
        }
        let time = |i: usize| median(turns.iter().filter_map(|t| t.get(i).copied()).collect());
        let ratio = |a: usize, b: usize| {
            median(turns.iter().filter_map(|t| Some(t.get(a)? / t.get(b)?)).collect())
        };
        // A column of a party that is not there stays empty.
        let cell = |n: f64, digits: usize| {
            if n.is_nan() { String::new() } else { format!("{n:.digits$}") }
        };
        let _ = writeln!(
            out,
            "| {} | {:.1} | {:.1} | {:.1} | {} | {:.2} | {} | {} |",
            work.name,
            time(0),
            time(1),
            time(2),
            cell(time(3), 1),
            ratio(1, 0),
            cell(ratio(1, 3), 2),
            cell(ratio(2, 3), 2),
        );
    }
    Ok(out)
}
