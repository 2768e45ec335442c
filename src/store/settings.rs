//! Settings that are kept in the store itself: how much history is kept.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::{Retention, Store, StoreError};

const AGE: &str = "retention:age-s";
const COUNT: &str = "retention:count";
const BYTES: &str = "retention:bytes";
const OURS: &str = "database_is_ours";

impl Store {
    /// How much history is kept: what was set in the store, else what the store was opened
    /// with.
    pub fn retention(&self) -> Result<Retention, StoreError> {
        let mut retention = self.options.retention;
        if self.bare {
            return Ok(retention);
        }
        self.read(|c| {
            let mut stmt = c.prepare_cached("SELECT value FROM ifs_meta WHERE key = ?1")?;
            let mut value = |key: &str| -> Result<Option<u64>, StoreError> {
                let n: Option<i64> = stmt.query_row([key], |r| r.get(0)).optional()?;
                Ok(n.and_then(|n| u64::try_from(n).ok()))
            };
            if let Some(seconds) = value(AGE)? {
                retention.max_age = Duration::from_secs(seconds);
            }
            if let Some(count) = value(COUNT)? {
                retention.max_count = count;
            }
            if let Some(bytes) = value(BYTES)? {
                retention.max_bytes = bytes;
            }
            Ok(retention)
        })
    }

    /// Notes that the database was made by instancefs, for whoever removes it one day.
    pub fn claim(&self) -> Result<(), StoreError> {
        self.gate(|c| {
            c.execute("INSERT OR IGNORE INTO ifs_meta (key, value) VALUES (?1, 1)", [OURS])?;
            Ok(())
        })
    }

    /// Whether [`Store::claim`] was called for this database.
    pub fn claimed(&self) -> Result<bool, StoreError> {
        if self.bare {
            return Ok(false);
        }
        self.read(|c| {
            let mut stmt = c.prepare_cached("SELECT 1 FROM ifs_meta WHERE key = ?1")?;
            Ok(stmt.exists([OURS])?)
        })
    }

    /// Sets how much history is kept. The next [`Store::maintain`], by whichever process, goes
    /// by it.
    pub fn set_retention(&self, retention: &Retention) -> Result<(), StoreError> {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.gate(|c| {
            let mut put = c.prepare_cached(
                "INSERT INTO ifs_meta (key, value) VALUES (?1, ?2)
                 ON CONFLICT (key) DO UPDATE SET value = ?2",
            )?;
            put.execute(params![AGE, number(retention.max_age.as_secs())])?;
            put.execute(params![COUNT, number(retention.max_count)])?;
            put.execute(params![BYTES, number(retention.max_bytes)])?;
            Ok(())
        })
    }
}
