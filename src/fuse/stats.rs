//! How often each operation was asked for and how long it took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! operations {
    ($($variant:ident $name:literal,)*) => {
        /// An operation of the FUSE protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs)]
        pub enum Op { $($variant,)* }

        impl Op {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Op] = &[$(Op::$variant,)*];

            /// The name in `status`.
            pub fn name(self) -> &'static str {
                match self { $(Op::$variant => $name,)* }
            }
        }
    };
}

operations! {
    Lookup "lookup", Forget "forget", GetAttr "getattr", SetAttr "setattr",
    ReadLink "readlink", MkNod "mknod", MkDir "mkdir", Unlink "unlink", RmDir "rmdir",
    Symlink "symlink", Rename "rename", Link "link", Open "open", Create "create",
    Read "read", Write "write", Flush "flush", Release "release", Fsync "fsync",
    OpenDir "opendir", ReadDir "readdir", ReleaseDir "releasedir", FsyncDir "fsyncdir",
    StatFs "statfs", SetXattr "setxattr", GetXattr "getxattr", ListXattr "listxattr",
    RemoveXattr "removexattr", Access "access", Fallocate "fallocate", Lseek "lseek",
    CopyFileRange "copy_file_range", Poll "poll",
}

/// Powers of two of microseconds: the last bucket takes everything from 2^22 us (4 s) on.
const BUCKETS: usize = 24;

#[derive(Default)]
struct Row {
    count: AtomicU64,
    errors: AtomicU64,
    nanos: AtomicU64,
    max_nanos: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The counters of one mount.
pub struct Stats {
    rows: Vec<Row>,
    panics: AtomicU64,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats { rows: Op::ALL.iter().map(|_| Row::default()).collect(), panics: AtomicU64::new(0) }
    }
}

/// What is known about one operation.
#[derive(Debug, Clone, Copy)]
pub struct OpStat {
    /// Which.
    pub op: Op,
    /// How often it was asked for.
    pub count: u64,
    /// How often it failed.
    pub errors: u64,
    /// Time spent in all of them.
    pub total: Duration,
    /// The longest.
    pub max: Duration,
    /// Half of them took at most this long (to a power of two).
    pub p50: Duration,
    /// 99 of 100 took at most this long (to a power of two).
    pub p99: Duration,
}

impl Stats {
    pub(super) fn record(&self, op: Op, took: Duration, failed: bool) {
        let Some(row) = self.rows.get(op as usize) else { return };
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        row.count.fetch_add(1, Ordering::Relaxed);
        row.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
        row.nanos.fetch_add(nanos, Ordering::Relaxed);
        row.max_nanos.fetch_max(nanos, Ordering::Relaxed);
        let bucket = (u64::BITS - (nanos / 1000).leading_zeros()) as usize;
        row.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// How many handlers panicked (each answered `EIO`).
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// One row for each operation that was asked for.
    pub fn snapshot(&self) -> Vec<OpStat> {
        let rows = Op::ALL.iter().zip(&self.rows);
        rows.filter_map(|(&op, row)| row.stat(op)).collect()
    }
}

impl Row {
    fn stat(&self, op: Op) -> Option<OpStat> {
        let count = self.count.load(Ordering::Relaxed);
        if count == 0 {
            return None;
        }
        Some(OpStat {
            op,
            count,
            errors: self.errors.load(Ordering::Relaxed),
            total: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
            max: Duration::from_nanos(self.max_nanos.load(Ordering::Relaxed)),
            p50: self.percentile(50),
            p99: self.percentile(99),
        })
    }

    fn percentile(&self, percent: u64) -> Duration {
        let counts: Vec<u64> = self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).collect();
        let wanted = (counts.iter().sum::<u64>() * percent).div_ceil(100);
        let mut sum = 0;
        let at = counts.iter().position(|n| {
            sum += n;
            sum >= wanted
        });
        Duration::from_micros(1 << at.unwrap_or(BUCKETS - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_percentiles() {
        let stats = Stats::default();
        for i in 0..100 {
            let slow = if i == 99 { 50_000 } else { 3 };
            stats.record(Op::Read, Duration::from_micros(slow), i % 10 == 0);
        }
        let rows = stats.snapshot();
        assert_eq!(rows.len(), 1);
        let row = rows[0];
        assert_eq!((row.op, row.count, row.errors), (Op::Read, 100, 10));
        assert_eq!(row.p50, Duration::from_micros(4));
        assert_eq!(row.p99, Duration::from_micros(4));
        assert_eq!(row.max, Duration::from_micros(50_000));
    }

    #[test]
    fn numbers_are_positions() {
        for (i, op) in Op::ALL.iter().enumerate() {
            assert_eq!(*op as usize, i);
        }
    }
}
