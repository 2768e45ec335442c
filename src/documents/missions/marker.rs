//! Markers and tags of an item (missions-format section 4).

/// Times and cause that the end of an item shows. Times are `YYYY-MM-DDTHH:MM`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Markers {
    /// `⏳`
    pub queued: Option<String>,
    /// `▶`
    pub started: Option<String>,
    /// `✅` or `❌`
    pub completed: Option<String>,
    /// `[cause]` behind `❌`
    pub cause: Option<String>,
}

const QUEUED: char = '⏳';
const STARTED: char = '▶';
const DONE: char = '✅';
const FAILED: char = '❌';

/// Splits the last line of an item into its text and its trailing, well-formed markers. What
/// is not well formed or out of order is text.
pub fn split(line: &str) -> (&str, Markers) {
    let mut rest = line.trim_end();
    let mut found = Markers::default();
    if !rest.ends_with([')', ']']) {
        return (rest, found);
    }
    // What may still come, reading from the right: 3 finished, 2 started, 1 queued.
    let mut allowed = 3;
    while allowed > 0 {
        let Some((before, glyph, time, cause)) = last_marker(rest) else { break };
        let rank = match glyph {
            QUEUED => 1,
            STARTED => 2,
            _ => 3,
        };
        if rank > allowed || (cause.is_some() && glyph != FAILED) {
            break;
        }
        match rank {
            1 => found.queued = Some(time),
            2 => found.started = Some(time),
            _ => (found.completed, found.cause) = (Some(time), cause.map(str::to_owned)),
        }
        rest = before.trim_end();
        allowed = rank - 1;
    }
    (rest, found)
}

/// Text before it, glyph, normalised time, cause.
fn last_marker(line: &str) -> Option<(&str, char, String, Option<&str>)> {
    let (body, cause) = match line.strip_suffix(']') {
        Some(inner) => {
            let open = inner.rfind('[')?;
            (inner[..open].trim_end(), Some(&inner[open + 1..]))
        }
        None => (line, None),
    };
    let inner = body.strip_suffix(')')?;
    let open = inner.rfind('(')?;
    let time = time(&inner[open + 1..])?;
    let before = inner[..open].trim_end();
    let before = before.strip_suffix('\u{fe0f}').unwrap_or(before).trim_end();
    let glyph = before.chars().next_back()?;
    if ![QUEUED, STARTED, DONE, FAILED].contains(&glyph) {
        return None;
    }
    Some((&before[..before.len() - glyph.len_utf8()], glyph, time, cause))
}

/// A time in one of the accepted spellings as `YYYY-MM-DDTHH:MM`.
pub fn time(s: &str) -> Option<String> {
    let s = s.trim();
    let cut = s.find(['T', 't', ' '])?;
    let (date, clock) = (&s[..cut], s[cut + 1..].trim());
    let mut d = date.split('-');
    let (y, mo, da) = (d.next()?, number(d.next()?, 1, 12)?, number(d.next()?, 1, 31)?);
    let mut c = clock.split(':');
    let (h, mi) = (number(c.next()?, 0, 23)?, two_digits(c.next()?)?);
    if let Some(seconds) = c.next() {
        two_digits(seconds.split('.').next()?)?;
    }
    let year_ok = y.len() == 4 && y.bytes().all(|b| b.is_ascii_digit());
    if !year_ok || d.next().is_some() || c.next().is_some() {
        return None;
    }
    Some(format!("{y}-{mo:02}-{da:02}T{h:02}:{mi:02}"))
}

fn number(s: &str, low: u32, high: u32) -> Option<u32> {
    let digits = (1..=2).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
    s.parse().ok().filter(|n| digits && (low..=high).contains(n))
}

fn two_digits(s: &str) -> Option<u32> {
    (s.len() == 2).then(|| number(s, 0, 59)).flatten()
}

/// The markers as Kōan writes them, each with a blank before it. `failed` chooses `❌`. A time
/// that would not read back as one (another program's column) is not shown: it would become
/// text with the next edit of its line.
pub fn render(m: &Markers, failed: bool) -> String {
    let mut out = String::new();
    let shown = |t: &&String| time(t).is_some();
    if let Some(t) = m.queued.as_ref().filter(shown) {
        out.push_str(&format!(" {QUEUED}({t})"));
    }
    if let Some(t) = m.started.as_ref().filter(shown) {
        out.push_str(&format!(" {STARTED}({t})"));
    }
    if let Some(t) = m.completed.as_ref().filter(shown) {
        let glyph = if failed { FAILED } else { DONE };
        out.push_str(&format!(" {glyph} ({})", t.replacen('T', " ", 1)));
        if let (true, Some(cause)) = (failed, &m.cause) {
            out.push_str(&format!(" [{cause}]"));
        }
    }
    out
}

/// The project of an item: the first `[project:NAME]` or `[projet:NAME]`, else a
/// `### project:NAME` first line, else `default`.
pub fn project(text: &str) -> String {
    let tagged = tag(text, &["project:", "projet:"], |b| {
        b.is_ascii_alphanumeric() || b == b'_' || b == b'.' || b == b'-'
    });
    if let Some(name) = tagged {
        return name.to_owned();
    }
    let first = text.lines().next().unwrap_or_default();
    let heading = first.trim().strip_prefix("### ").map(str::trim).and_then(|h| {
        let name = strip_prefix_any_case(h, "project:")?.split_whitespace().next()?;
        let ok = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        ok.then(|| name.to_owned())
    });
    heading.unwrap_or_else(|| "default".to_owned())
}

/// The value of the first `[complexity:…]` with one of the four known values.
pub fn complexity(text: &str) -> Option<String> {
    let value = tag(text, &["complexity:"], |b| b.is_ascii_alphabetic())?.to_ascii_lowercase();
    ["trivial", "simple", "medium", "complex"].contains(&value.as_str()).then_some(value)
}

fn tag<'t>(text: &'t str, names: &[&str], allowed: fn(u8) -> bool) -> Option<&'t str> {
    text.match_indices('[').find_map(|(at, _)| {
        let inner = &text[at + 1..];
        names.iter().find_map(|name| {
            let value = strip_prefix_any_case(inner, name)?;
            let end = value.find(']')?;
            let value = &value[..end];
            (!value.is_empty() && value.bytes().all(allowed)).then_some(value)
        })
    })
}

fn strip_prefix_any_case<'t>(s: &'t str, prefix: &str) -> Option<&'t str> {
    let head = s.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &s[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_well_formed_markers_only() {
        let (text, m) =
            split("fix x ⏳(2026-07-01T09:00) ▶(2026-07-01T09:05) ✅ (2026-07-01 10:00)");
        assert_eq!(text, "fix x");
        assert_eq!(m.queued.as_deref(), Some("2026-07-01T09:00"));
        assert_eq!(m.started.as_deref(), Some("2026-07-01T09:05"));
        assert_eq!(m.completed.as_deref(), Some("2026-07-01T10:00"));

        let (text, m) = split("fix x▶\u{fe0f} ( 2026-7-1 9:05:33 )  ");
        assert_eq!((text, m.started.as_deref()), ("fix x", Some("2026-07-01T09:05")));

        let (text, m) = split("x ❌ (2026-07-01 10:00) [timeout]");
        assert_eq!((text, m.cause.as_deref()), ("x", Some("timeout")));

        for kept in [
            "x ⏳(soon)",
            "x ⏳(2026-13-01T09:00)",
            "x ✅ (2026-07-01 10:00) and more",
            "x [y]",
            "x (2026-07-01 10:00)",
            "x ✅ (2026-07-01 10:00) [timeout]",
        ] {
            assert_eq!(split(kept), (kept, Markers::default()));
        }
        // Out of order: only the last one is a marker.
        let (text, m) = split("x ▶(2026-07-01T09:05) ⏳(2026-07-01T09:00)");
        assert_eq!(text, "x ▶(2026-07-01T09:05)");
        assert!(m.queued.is_some() && m.started.is_none());
    }

    #[test]
    fn renders_what_it_reads() {
        let line = "x ⏳(2026-07-01T09:00) ❌ (2026-07-01 10:00) [no disk]";
        let (text, m) = split(line);
        assert_eq!(format!("{text}{}", render(&m, true)), line);
    }

    #[test]
    fn tags() {
        assert_eq!(project("[Project:k-1] x [project:b]"), "k-1");
        assert_eq!(project("x [projet:béta] [projet:b.c]"), "b.c");
        assert_eq!(project("### project:koan\n- a"), "koan");
        assert_eq!(project("x"), "default");
        assert_eq!(complexity("[complexity:Medium] x").as_deref(), Some("medium"));
        assert_eq!(complexity("[complexity:huge] x"), None);
    }
}
