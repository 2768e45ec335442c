//! Budgets with many processes: sixteen that append, a thousand that only hold a file open.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::Row;
use super::pairs::{Floor, instance};
use crate::measure::{append, median, micros, missions, resident};

/// A process of this program that does one part, in a session of its own, waiting for a line on
/// its standard input when it is ready.
struct Part {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Part {
    fn start(args: &[&str], path: &Path) -> Part {
        let me = std::env::current_exe().expect("own path");
        let mut command = Command::new(me);
        command.args(args).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: setsid is async-signal-safe.
        unsafe {
            command.pre_exec(|| match libc::setsid() {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let mut child = command.spawn().expect("a part");
        let out = BufReader::new(child.stdout.take().expect("its output"));
        Part { child, out }
    }

    /// Waits until it says that it is ready.
    fn ready(&mut self) {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
    }

    /// Lets it go on.
    fn go(&mut self) {
        drop(self.child.stdin.take());
    }

    /// What it says until it ends.
    fn rest(mut self) -> String {
        let mut text = String::new();
        self.out.read_to_string(&mut text).expect("its output");
        assert!(self.child.wait().expect("its end").success());
        text
    }
}

fn ready_and_wait() {
    println!("ready");
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// The part of one appender: `seconds` long one append after the other to `path`; prints the
/// microseconds of each.
pub fn appender(seconds: f64, path: &Path) {
    ready_and_wait();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut waits = Vec::new();
    let mut i = u64::from(std::process::id()) * 1_000_000;
    while Instant::now() < end {
        waits.push(micros(|| append(path, i)));
        i += 1;
    }
    let text: String = waits.iter().map(|wait| format!("{wait:.1}\n")).collect();
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// The part of one reader: reads `path` once and holds it open until its input ends.
pub fn holder(path: &Path) {
    let mut file = File::open(path).expect("open");
    std::io::copy(&mut file, &mut std::io::sink()).expect("read");
    ready_and_wait();
}

const PROCESSES: usize = 16;

/// All waits of sixteen processes that append for this long, in microseconds.
fn burst(path: &Path, seconds: f64) -> Vec<f64> {
    let time = seconds.to_string();
    let mut parts: Vec<Part> =
        (0..PROCESSES).map(|_| Part::start(&["appender", &time], path)).collect();
    parts.iter_mut().for_each(Part::ready);
    parts.iter_mut().for_each(Part::go);
    let texts: Vec<String> = parts.into_iter().map(Part::rest).collect();
    texts.iter().flat_map(|text| text.lines()).map(|wait| wait.parse().expect("a time")).collect()
}

/// Sixteen processes appending, against the same on the floor.
pub(super) fn appends(seconds: f64) -> Vec<Row> {
    let text = missions(100);
    let it = instance("missions.md", &text);
    let floor = Floor::new(&it, &text);
    let path = it.path("missions.md");
    let (mut ratios, mut waits, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        let (ours, floors) = (burst(&path, seconds), burst(&floor.path, seconds));
        ratios.push(ours.len() as f64 / floors.len() as f64);
        rates.push((ours.len() as f64 / seconds, floors.len() as f64 / seconds));
        waits.extend(ours);
    }
    let appended = it.rows().iter().filter(|(text, _)| text.starts_with("appended ")).count();
    assert_eq!(appended, waits.len(), "every append is there once");
    let ratio = median(ratios);
    let (middle, worst) = (median(waits.clone()), waits.iter().copied().fold(0.0, f64::max));
    vec![
        Row {
            work: "16 processes appending, 100 missions",
            budget: "0.8 x the rate of 16 on the floor",
            measured: format!(
                "{ratio:.2} x ({:.0}/s, {:.0}/s)",
                median(rates.iter().map(|rate| rate.0).collect()),
                median(rates.iter().map(|rate| rate.1).collect())
            ),
            share: 0.8 / ratio,
            because: "an append on the floor is no commit; a revision of its own for each append \
                      takes some 150 µs of processor time, which is what two cores have to share",
        },
        Row {
            work: "the longest wait of the 16",
            budget: "50 x the median wait",
            measured: format!(
                "{:.1} x ({:.1} ms, {:.1} ms)",
                worst / middle,
                worst / 1e3,
                middle / 1e3
            ),
            share: worst / middle / 50.0,
            because: "a checkpoint of the write-ahead log",
        },
    ]
}

const REVISIONS: usize = 100;
const READERS: usize = 10;

/// A thousand processes, ten for each of a hundred revisions, that have read it and hold it.
pub(super) fn readers(_: f64) -> Vec<Row> {
    let it = instance("missions.md", &missions(10_000));
    let path = it.path("missions.md");
    let mut held = Vec::new();
    for revision in 0..REVISIONS {
        append(&path, revision as u64);
        let mut now: Vec<Part> = (0..READERS).map(|_| Part::start(&["holder"], &path)).collect();
        now.iter_mut().for_each(Part::ready);
        held.extend(now);
    }
    let megabytes = resident(it.daemon()) as f64 / 1e6;
    held.iter_mut().for_each(Part::go);
    held.into_iter().for_each(|part| drop(part.rest()));
    vec![Row {
        work: "1,000 idle readers of 100 revisions of 10,000 missions, resident",
        budget: "200 MB",
        measured: format!("{megabytes:.0} MB"),
        share: megabytes / 200.0,
        because: "a revision that is held open keeps its lines in memory",
    }]
}
