//! A `missions-quarantine.md` that some program has written, as rows.

use rusqlite::{Connection, params};

use crate::store::StoreError;

const COUNT: &str = "SELECT count(*) FROM quarantine";
const INSERT: &str =
    "INSERT INTO quarantine (added_at, source, reason, text) VALUES (?1, ?2, ?3, ?4)";

/// Makes rows of the lines `- 🛡️ [when] (source) reason: text`, if there are no rows yet.
/// Answers with the lines that are something else, other than blank ones and headings: 1-based
/// line number and text. `None`: there are rows already, nothing was done.
///
/// Errors: those of the store. To be called inside a transaction.
pub fn import(conn: &Connection, text: &str) -> Result<Option<Vec<(u64, String)>>, StoreError> {
    let there: i64 = conn.query_row(COUNT, [], |r| r.get(0))?;
    if there > 0 {
        return Ok(None);
    }
    let mut insert = conn.prepare(INSERT)?;
    let mut others = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        match parse(line) {
            Some([when, source, reason, text]) => {
                insert.execute(params![when, source, reason, text])?;
            }
            None if line.is_empty() || line.starts_with('#') => {}
            None => others.push((number, line.to_owned())),
        }
    }
    Ok(Some(others))
}

/// When, source, reason and text.
fn parse(line: &str) -> Option<[&str; 4]> {
    let rest = line.strip_prefix("- ")?.trim_start();
    let rest = rest.strip_prefix('🛡')?.trim_start_matches('\u{fe0f}').trim_start();
    let (when, rest) = rest.strip_prefix('[')?.split_once(']')?;
    let (source, rest) = rest.trim_start().strip_prefix('(')?.split_once(')')?;
    let (reason, text) = rest.trim_start().split_once(':')?;
    Some([when.trim(), source.trim(), reason.trim(), text.trim()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_file_and_back() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(include_str!("../../store/migrations/shared.sql")).unwrap();
        let file = "# Quarantine\n\n- 🛡️ [2026-07-01 10:00] (telegram) too long: do: this\n\
                    free text\n- 🛡 [x] () : y\n";
        let others = import(&conn, file).unwrap();
        assert_eq!(others, Some(vec![(4, "free text".to_owned())]));
        let shown = super::super::render(&conn).unwrap();
        assert_eq!(
            shown,
            "# Quarantine\n\n- 🛡️ [2026-07-01 10:00] (telegram) too long: do: this\n\
             - 🛡️ [x] () : y\n"
        );
        assert_eq!(import(&conn, file).unwrap(), None);
        assert_eq!(super::super::render(&conn).unwrap(), shown);
    }
}
