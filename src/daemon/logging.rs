//! The daemon's log: a file in the store that cannot grow without end.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::error::{Result, io};
use super::names;

/// The size at which the older half goes, in bytes.
const LIMIT: u64 = 1 << 20;

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
    let _ =
        env_logger::Builder::from_env(filter).target(target).format_timestamp_millis().try_init();
}

/// A file that is appended to, and cut to its newer half when it reaches the limit.
struct BoundedLog {
    file: File,
    path: PathBuf,
    size: u64,
    limit: u64,
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
        Ok(BoundedLog { file, path: path.to_owned(), size, limit })
    }

    /// Keeps the newer half, from the beginning of a line. In place: somebody may follow it.
    fn cut(&mut self) -> std::io::Result<()> {
        let mut reading = File::open(&self.path)?;
        reading.seek(SeekFrom::Start(self.size - self.limit / 2))?;
        let mut newer = Vec::new();
        reading.read_to_end(&mut newer)?;
        let from = newer.iter().position(|b| *b == b'\n').map_or(0, |n| n + 1);
        self.file.set_len(0)?;
        self.file.write_all(&newer[from..])?;
        self.size = (newer.len() - from) as u64;
        Ok(())
    }
}

impl Write for BoundedLog {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        if self.size > self.limit {
            self.cut()?;
        }
        let n = self.file.write(buf)?;
        self.size += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
