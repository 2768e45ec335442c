//! Times.

/// Nanoseconds since 1970-01-01T00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub i64);

impl Stamp {
    /// Whole seconds and the nanoseconds within the second.
    pub fn parts(self) -> (i64, u32) {
        (self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000) as u32)
    }

    /// From whole seconds and nanoseconds.
    pub fn from_parts(seconds: i64, nanos: u32) -> Stamp {
        Stamp(seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos)))
    }

    /// Whether more than `nanos` have passed since `last`. A clock that was set back says so too:
    /// what waits must not wait for the clock to come there again.
    pub fn due(self, last: Stamp, nanos: i64) -> bool {
        !(0..nanos).contains(&self.0.saturating_sub(last.0))
    }

    /// Local time to the minute, `YYYY-MM-DDTHH:MM`, as the rows of missions have it.
    pub fn local_minute(self) -> String {
        self.zoned().map(|z| z.strftime("%Y-%m-%dT%H:%M").to_string()).unwrap_or_default()
    }

    /// Local time to the second with offset, for people and `--json`.
    pub fn iso(self) -> String {
        self.zoned().map(|z| z.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()).unwrap_or_default()
    }

    fn zoned(self) -> Option<jiff::Zoned> {
        let t = jiff::Timestamp::from_nanosecond(i128::from(self.0)).ok()?;
        Some(t.to_zoned(jiff::tz::TimeZone::system()))
    }
}

/// Where the time comes from; tests bring their own.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Stamp;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Stamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Stamp(since.map(|d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)).unwrap_or(0))
    }
}
