//! `instancefs retention`.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::args::Retention;
use super::failure::{Failure, Result};
use super::output::{line, raw};
use super::target::Target;
use crate::model::{Clock, DocId, SystemClock};
use crate::store::{Options, Store};

const DAY: u64 = 24 * 3600;

/// Runs the command.
pub fn run(args: &Retention, instance: Option<&Path>) -> Result<()> {
    let max_bytes = args.max_bytes.as_deref().map(size).transpose()?;
    let store = Target::find(None, instance)?.store;
    let change = args.max_age.is_some() || args.max_count.is_some() || max_bytes.is_some();
    let store = Store::open(&store, Options { read_only: !change, ..Options::default() })?;
    let mut kept = store.retention()?;
    if change {
        if let Some(days) = args.max_age {
            kept.max_age = Duration::from_secs(days.saturating_mul(DAY));
        }
        kept.max_count = args.max_count.unwrap_or(kept.max_count);
        kept.max_bytes = max_bytes.unwrap_or(kept.max_bytes);
        store.set_retention(&kept)?;
        let now = SystemClock.now();
        for file in store.files_on_record()? {
            store.maintain_file(file, now)?;
        }
        store.maintain(now)?;
    }
    let days = kept.max_age.as_secs() / DAY;
    let mut revisions = serde_json::Map::new();
    for doc in DocId::ALL {
        let span = store.span(doc)?;
        revisions.insert(
            doc.as_str().to_owned(),
            json!({
                "count": span.map_or(0, |s| s.count),
                "oldest": span.map(|s| s.oldest.0),
                "newest": span.map(|s| s.newest.0),
            }),
        );
    }
    if args.json {
        let all = json!({
            "max_age_days": days,
            "max_count": kept.max_count,
            "max_bytes": kept.max_bytes,
            "revisions": revisions,
        });
        raw(format!("{all:#}\n"));
        return Ok(());
    }
    line(&format!("max age     {days} days"));
    line(&format!("max count   {} revisions of each document", kept.max_count));
    line(&format!("max bytes   {} of each document", kept.max_bytes));
    for (name, span) in &revisions {
        if span["count"] != 0 {
            let (count, from, to) = (&span["count"], &span["oldest"], &span["newest"]);
            line(&format!("{name:<11} {count} revisions, {from} to {to}"));
        }
    }
    Ok(())
}

/// A size in bytes; `K`, `M`, `G`, also with `iB` or `B`, are powers of 1,024.
fn size(text: &str) -> Result<u64> {
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        _ => None,
    };
    let bytes = shift.and_then(|s| number.parse::<u64>().ok()?.checked_mul(1 << s));
    let wrong = || Failure::usage(format!("{text}: not a size, such as 80M"));
    bytes.filter(|b| *b > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("80M").unwrap(), 80 << 20);
        assert_eq!((size("1024").unwrap(), size("2 KiB").unwrap()), (1024, 2048));
        for bad in ["", "0", "M", "-1", "1T", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
