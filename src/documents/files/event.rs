//! What an event file must say: which mission is to be queued, and when.

use crate::documents::config::Value;
use crate::documents::config::keyed::Reading;
use crate::model::{Reason, Refusal};

/// Refuses an event that no scheduler could run.
pub(super) fn check(text: &Reading<'_>) -> Result<(), Refusal> {
    let refuse = |key: &str, message: String, hint: &str| {
        Refusal::new(Reason::Invalid, message).at_key(key).at_line(text.line_of(key)).hint(hint)
    };
    let value = text.value();
    if !matches!(value, Value::Map(_)) {
        return Err(Refusal::new(
            Reason::Invalid,
            format!("an event is an object, this is of type {}", value.type_name()),
        )
        .at_line(text.line_of(""))
        .hint(EXAMPLE));
    }
    match value.entry("mission") {
        Some(Value::Str(m)) if !m.trim().is_empty() => {}
        Some(Value::Str(_)) => return Err(refuse("mission", "is empty".into(), EXAMPLE)),
        Some(other) => {
            let message = format!("must be a text, this is of type {}", other.type_name());
            return Err(refuse("mission", message, EXAMPLE));
        }
        None => return Err(refuse("mission", "is missing".into(), EXAMPLE)),
    }
    match value.entry("run_at") {
        Some(Value::Str(t)) if readable(t) => Ok(()),
        Some(Value::Str(t)) => {
            let short: String = t.chars().take(60).collect();
            Err(refuse("run_at", format!("{short:?} is no date with a time"), TIMES))
        }
        Some(other) => {
            let message = format!(
                "must be a text with a date and a time, this is of type {}",
                other.type_name()
            );
            Err(refuse("run_at", message, TIMES))
        }
        None => Err(refuse("run_at", "is missing".into(), TIMES)),
    }
}

const EXAMPLE: &str =
    "write an object such as {\"mission\": \"- weekly report\", \"run_at\": \"2026-07-01T09:00\"}";
const TIMES: &str = "write it as 2026-07-01T09:00, with seconds and a zone (Z, +02:00) if wanted";

/// Whether it is a date with a time (ISO 8601, extended or basic), with or without seconds and
/// zone: what Python's `datetime.fromisoformat` and JavaScript's `Date` read alike.
fn readable(text: &str) -> bool {
    let text = text.trim();
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let Ok(date) = date.parse::<jiff::civil::Date>() else { return false };
    let (clock, zone) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, ""),
    };
    // The date is known to be one; a clock is read with it, so that a bare hour is not.
    let clock = clock.trim_end();
    clock.len() >= 4
        && clock.bytes().all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.' | b','))
        && format!("{date}T{clock}").parse::<jiff::civil::DateTime>().is_ok()
        && zone_is_one(zone)
}

fn zone_is_one(zone: &str) -> bool {
    let digits = match zone.as_bytes() {
        [] | [b'Z' | b'z'] => return true,
        [b'+' | b'-', rest @ ..] => rest,
        _ => return false,
    };
    let number = |two: &[u8]| match two {
        [a, b] if a.is_ascii_digit() && b.is_ascii_digit() => Some((a - b'0') * 10 + b - b'0'),
        _ => None,
    };
    let (hours, minutes) = match digits {
        [h @ .., b':', m1, m2] if h.len() == 2 => (number(h), number(&[*m1, *m2])),
        [h1, h2, m1, m2] => (number(&[*h1, *h2]), number(&[*m1, *m2])),
        [h1, h2] => (number(&[*h1, *h2]), Some(0)),
        _ => return false,
    };
    matches!((hours, minutes), (Some(h), Some(m)) if h <= 23 && m <= 59)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_they_are_written() {
        for good in [
            "2026-07-01T09:00",
            "2026-07-01 09:00",
            "2026-07-01T09:00:30",
            "2026-07-01T09:00:30.123456",
            "2026-07-01T09:00Z",
            "2026-07-01T09:00:00+02:00",
            "2026-07-01T09:00:00+0200",
            "2026-07-01 09:00:00 +02:00",
            "2026-07-01T09:00:00-07",
            "2026-12-31T23:59:59.999Z",
            "20260701T090000Z",
            " 2026-07-01T09:00 ",
        ] {
            assert!(readable(good), "{good}");
        }
        for bad in [
            "",
            "tomorrow",
            "2026-07-01",
            "09:00",
            "2026-13-01T09:00",
            "2026-02-30T09:00",
            "2026-07-01T25:00",
            "2026-07-01T09:61",
            "2026-07-01T",
            "2026-07-01T9",
            "1782900000",
            "2026-07-01T09:00+99:00",
            "2026-07-01T09:00[Europe/Paris]",
            "2026-07-01T09:00 noon",
        ] {
            assert!(!readable(bad), "{bad}");
        }
    }
}
