//! The daemon's log: a file in the store that cannot grow without end.
//!
//! What others have named goes through it, so a record is always one line without anything that a
//! terminal would obey. While the store takes nothing, as when it is full, the newest records wait
//! in memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::error::{Result, io};
use super::names;
use crate::model::shown;

/// The size at which the older half goes, in bytes.
const LIMIT: u64 = 4 << 20;
/// Records that wait for the store, in bytes.
const WAITING: usize = 64 << 10;

/// Sends the log of this process to standard error.
pub fn to_stderr() {
    install(env_logger::Target::Stderr);
}

/// Sends the log of this process, panics included, to the store's log file.
pub fn to_store(store: &Path) -> Result<()> {
    let log = BoundedLog::open(&store.join(names::LOG), LIMIT)?;
    install(env_logger::Target::Pipe(Box::new(log)));
    std::panic::set_hook(Box::new(|info| log::error!("panic: {info}")));
    Ok(())
}

/// `INSTANCEFS_LOG` chooses what is logged, in the syntax of `RUST_LOG`; `info` by default.
fn install(target: env_logger::Target) {
    let filter = env_logger::Env::new().filter_or("INSTANCEFS_LOG", "info,fuser=warn");
    // A second call (tests) finds a logger in place and leaves it.
    let _ = env_logger::Builder::from_env(filter).target(target).format(line).try_init();
}

fn line(out: &mut env_logger::fmt::Formatter, record: &log::Record<'_>) -> std::io::Result<()> {
    let (at, level, room) = (out.timestamp_millis(), record.level(), record.target());
    writeln!(out, "[{at} {level:<5} {room}] {}", shown(&record.args().to_string()))
}

/// A file that is appended to, and cut to its newer half when it reaches the limit.
struct BoundedLog {
    file: File,
    size: u64,
    limit: u64,
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
}

impl BoundedLog {
    fn open(path: &Path, limit: u64) -> Result<BoundedLog> {
        let file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(io(path, "cannot open"))?;
        let size = file.metadata().map_err(io(path, "cannot look at"))?.len();
        Ok(BoundedLog { file, size, limit, waiting: VecDeque::new(), waiting_bytes: 0 })
    }

    /// Keeps the newer half, from the beginning of a line. In place: somebody may follow it. By the
    /// descriptor: another file may have the name.
    fn cut(&mut self) -> std::io::Result<()> {
        let len = self.file.metadata()?.len();
        let keep = len.min(self.limit / 2);
        let mut newer = vec![0; usize::try_from(keep).unwrap_or(0)];
        self.file.read_exact_at(&mut newer, len - keep)?;
        let from = newer.iter().position(|b| *b == b'\n').map_or(0, |n| n + 1);
        self.file.set_len(0)?;
        self.file.write_all(&newer[from..])?;
        self.size = (newer.len() - from) as u64;
        Ok(())
    }

    fn put(&mut self, record: &[u8]) -> std::io::Result<()> {
        if self.size > self.limit {
            self.cut()?;
        }
        self.file.write_all(record)?;
        self.size += record.len() as u64;
        Ok(())
    }

    fn wait(&mut self, record: &[u8]) {
        self.waiting_bytes += record.len();
        self.waiting.push_back(record.to_vec());
        while self.waiting_bytes > WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.waiting_bytes -= oldest.len();
        }
    }
}

impl Write for BoundedLog {
    /// Takes everything: a record that cannot be written waits, and nobody would hear an error.
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        while let Some(oldest) = self.waiting.pop_front() {
            if self.put(&oldest).is_err() {
                self.waiting.push_front(oldest);
                self.wait(buf);
                return Ok(buf.len());
            }
            self.waiting_bytes -= oldest.len();
        }
        if self.put(buf).is_err() {
            self.wait(buf);
        }
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_waits_in_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = BoundedLog::open(&path, 1 << 20).unwrap();
        let good = std::mem::replace(&mut log.file, File::open(&path).unwrap());
        for i in 0..10_000 {
            log.write_all(format!("line {i}\n").as_bytes()).unwrap();
        }
        assert!(log.waiting_bytes <= WAITING && log.waiting_bytes > WAITING / 2);
        log.file = good;
        log.write_all(b"after\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("line 9998\nline 9999\nafter\n"), "{text}");
        assert_eq!((log.waiting_bytes, log.waiting.len()), (0, 0));
    }

    #[test]
    fn another_file_of_that_name_is_neither_read_nor_written() {
        let dir = tempfile::tempdir().unwrap();
        let (path, secret) = (dir.path().join("log"), dir.path().join("secret"));
        std::fs::write(&secret, "precious\n".repeat(200)).unwrap();
        let mut log = BoundedLog::open(&path, 1000).unwrap();
        log.write_all(b"mine\n").unwrap();
        std::fs::rename(&path, dir.path().join("away")).unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        (0..300).for_each(|_| log.write_all(b"mine\n").unwrap());
        let away = std::fs::read_to_string(dir.path().join("away")).unwrap();
        assert!(away.lines().all(|l| l == "mine") && away.len() < 1100);
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "precious\n".repeat(200));
    }

    #[test]
    fn stays_under_its_limit_and_keeps_the_newest_lines_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for round in 0..3 {
            let mut log = BoundedLog::open(&path, 1000).unwrap();
            for i in 0..100 {
                writeln!(log, "round {round} line {i:03}").unwrap();
            }
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() < 1100, "{}", text.len());
        assert!(text.ends_with("round 2 line 099\n"));
        assert!(text.lines().all(|l| l.len() == "round 0 line 000".len()), "{text}");
        assert!(text.lines().count() > 20);
    }
}
