//! The rows in Kōan's schema (missions-format section 1). They are untrusted input: any type
//! in any column is read as something that can be shown.

use std::cmp::Ordering;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row as SqlRow, params};

use super::chunk::RowKey;
use super::entry::{Ci, Idea, Kind, Mission, Section};
use super::marker::Markers;
use crate::store::leaves::Ids;

const READ_MISSIONS: &str = "SELECT id, sequence, text, state, project, complexity, queued_at, \
     started_at, completed_at, recovery_count FROM missions";
const READ_MISSIONS_OF: &str = "SELECT id, sequence, text, state, project, complexity, queued_at, \
     started_at, completed_at, recovery_count FROM missions WHERE id BETWEEN ?1 AND ?2";
const READ_CI: &str = "SELECT id, sequence, project, pr_url, branch, full_repo, queued, attempt, \
     max_attempts FROM ci_queue";
const READ_IDEAS: &str = "SELECT id, sequence, text, project, added_at FROM ideas";
const INSERT_MISSION: &str = "INSERT INTO missions (sequence, text, state, project, complexity, \
     queued_at, started_at, completed_at, recovery_count) VALUES (?,?,?,?,?,?,?,?,?)";
const INSERT_CI: &str = "INSERT INTO ci_queue (sequence, project, pr_url, branch, full_repo, \
     queued, attempt, max_attempts) VALUES (?,?,?,?,?,?,?,?)";
const INSERT_IDEA: &str = "INSERT INTO ideas (sequence, text, project, added_at) VALUES (?,?,?,?)";
const UPDATE_MISSION: &str = "UPDATE missions SET sequence=?, text=?, state=?, project=?, \
     complexity=?, queued_at=?, started_at=?, completed_at=?, recovery_count=? WHERE id=?";
const UPDATE_CI: &str = "UPDATE ci_queue SET sequence=?, project=?, pr_url=?, branch=?, \
     full_repo=?, queued=?, attempt=?, max_attempts=? WHERE id=?";
const UPDATE_IDEA: &str = "UPDATE ideas SET sequence=?, text=?, project=?, added_at=? WHERE id=?";

/// A row of one of the three tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Sequence and id.
    pub key: RowKey,
    /// The section that shows it.
    pub section: Section,
    /// Its columns.
    pub kind: Kind,
}

/// Kōan has imported the file once: it shares the database (missions-format section 3).
pub fn shared_with_koan(conn: &Connection) -> rusqlite::Result<bool> {
    let mut q = conn.prepare_cached("SELECT 1 FROM meta WHERE key = 's8_synced'")?;
    q.exists([])
}

/// When it was finished.
pub fn completed(kind: &Kind) -> Option<&str> {
    match kind {
        Kind::Mission(m) => m.times.completed.as_deref(),
        _ => None,
    }
}

/// The order of finished missions: the newest first.
pub fn by_completion(a: (Option<&str>, RowKey), b: (Option<&str>, RowKey)) -> Ordering {
    b.cmp(&a)
}

/// All rows by section, each section in the order in which it is shown.
pub fn read(conn: &Connection) -> rusqlite::Result<Vec<Row>> {
    let mut out = others(conn)?;
    let mut q = conn.prepare_cached(READ_MISSIONS)?;
    for row in q.query_map([], mission)? {
        out.push(row?);
    }
    sort(&mut out);
    Ok(out)
}

/// The same without the missions whose ids are in none of these ranges, which ascend.
pub fn read_some(conn: &Connection, ids: &[Ids]) -> rusqlite::Result<Vec<Row>> {
    let mut out = others(conn)?;
    let mut q = conn.prepare_cached(READ_MISSIONS_OF)?;
    for ids in ids {
        for row in q.query_map([ids.start(), ids.end()], mission)? {
            out.push(row?);
        }
    }
    sort(&mut out);
    Ok(out)
}

/// Rows that are no missions.
fn others(conn: &Connection) -> rusqlite::Result<Vec<Row>> {
    let mut out = Vec::new();
    for (sql, of) in [(READ_CI, ci as fn(&SqlRow<'_>) -> rusqlite::Result<Row>), (READ_IDEAS, idea)]
    {
        let mut q = conn.prepare_cached(sql)?;
        for row in q.query_map([], of)? {
            out.push(row?);
        }
    }
    Ok(out)
}

fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| {
        let finished = matches!(a.section, Section::Done | Section::Failed);
        a.section.cmp(&b.section).then_with(|| match finished {
            true => by_completion((completed(&a.kind), a.key), (completed(&b.kind), b.key)),
            false => a.key.cmp(&b.key),
        })
    });
}

fn text(row: &SqlRow<'_>, i: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(i)? {
        ValueRef::Null => None,
        ValueRef::Integer(n) => Some(n.to_string()),
        ValueRef::Real(n) => Some(n.to_string()),
        ValueRef::Text(t) | ValueRef::Blob(t) => Some(String::from_utf8_lossy(t).into_owned()),
    })
}

fn number(row: &SqlRow<'_>, i: usize) -> rusqlite::Result<i64> {
    Ok(match row.get_ref(i)? {
        ValueRef::Integer(n) => n,
        ValueRef::Real(n) => n as i64,
        ValueRef::Text(t) => String::from_utf8_lossy(t).trim().parse().unwrap_or(0),
        ValueRef::Null | ValueRef::Blob(_) => 0,
    })
}

fn key(row: &SqlRow<'_>) -> rusqlite::Result<RowKey> {
    Ok(RowKey { id: number(row, 0)?, sequence: number(row, 1)? })
}

fn mission(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    let m = Mission {
        text: text(row, 2)?.unwrap_or_default(),
        project: text(row, 4)?.unwrap_or_default(),
        complexity: text(row, 5)?,
        times: Markers {
            queued: text(row, 6)?,
            started: text(row, 7)?,
            completed: text(row, 8)?,
            cause: None,
        },
        recoveries: number(row, 9)?,
    };
    let section = match row.get_ref(3)? {
        ValueRef::Text(state) | ValueRef::Blob(state) => {
            Section::of_state(std::str::from_utf8(state).unwrap_or_default())
        }
        _ => Section::of_state(""),
    };
    Ok(Row { key: key(row)?, section, kind: Kind::Mission(Box::new(m)) })
}

fn ci(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    let ci = Ci {
        project: text(row, 2)?.unwrap_or_default(),
        url: text(row, 3)?.unwrap_or_default(),
        branch: text(row, 4)?,
        repo: text(row, 5)?,
        queued: text(row, 6)?,
        attempt: number(row, 7)?,
        max_attempts: number(row, 8)?,
    };
    Ok(Row { key: key(row)?, section: Section::Ci, kind: Kind::Ci(Box::new(ci)) })
}

fn idea(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    let idea = Idea {
        text: text(row, 2)?.unwrap_or_default(),
        project: text(row, 3)?.unwrap_or_default(),
        added: text(row, 4)?,
    };
    Ok(Row { key: key(row)?, section: Section::Ideas, kind: Kind::Idea(Box::new(idea)) })
}

/// Inserts a row and returns its id.
pub fn insert(
    conn: &Connection,
    kind: &Kind,
    section: Section,
    sequence: i64,
) -> rusqlite::Result<RowKey> {
    write(conn, kind, section, sequence, None)?;
    Ok(RowKey { sequence, id: conn.last_insert_rowid() })
}

/// Makes the row with this id equal to the entry. Inserts it when it is gone.
pub fn update(
    conn: &Connection,
    kind: &Kind,
    section: Section,
    key: RowKey,
) -> rusqlite::Result<RowKey> {
    if write(conn, kind, section, key.sequence, Some(key.id))? == 0 {
        return insert(conn, kind, section, key.sequence);
    }
    Ok(key)
}

fn write(
    conn: &Connection,
    kind: &Kind,
    section: Section,
    sequence: i64,
    id: Option<i64>,
) -> rusqlite::Result<usize> {
    let run = |insert: &str, update: &str, values: &[&dyn rusqlite::ToSql]| {
        let mut q = conn.prepare_cached(if id.is_some() { update } else { insert })?;
        let mut values = values.to_vec();
        if let Some(id) = &id {
            values.push(id);
        }
        q.execute(&values[..])
    };
    match kind {
        Kind::Mission(m) => run(
            INSERT_MISSION,
            UPDATE_MISSION,
            &[
                &sequence,
                &m.text,
                &section.state().unwrap_or("pending"),
                &m.project,
                &m.complexity,
                &m.times.queued,
                &m.times.started,
                &m.times.completed,
                &m.recoveries,
            ],
        ),
        Kind::Ci(c) => run(
            INSERT_CI,
            UPDATE_CI,
            &[
                &sequence,
                &c.project,
                &c.url,
                &c.branch,
                &c.repo,
                &c.queued,
                &c.attempt,
                &c.max_attempts,
            ],
        ),
        Kind::Idea(i) => run(INSERT_IDEA, UPDATE_IDEA, &[&sequence, &i.text, &i.project, &i.added]),
        Kind::Layout | Kind::Header => Ok(0),
    }
}

/// Removes a row.
pub fn delete(conn: &Connection, section: Section, id: i64) -> rusqlite::Result<()> {
    let sql = match section {
        Section::Ci => "DELETE FROM ci_queue WHERE id=?",
        Section::Ideas => "DELETE FROM ideas WHERE id=?",
        _ => "DELETE FROM missions WHERE id=?",
    };
    conn.prepare_cached(sql)?.execute(params![id])?;
    Ok(())
}

/// Gives a row another sequence.
pub fn set_sequence(conn: &Connection, section: Section, key: RowKey) -> rusqlite::Result<()> {
    let sql = match section {
        Section::Ci => "UPDATE ci_queue SET sequence=? WHERE id=?",
        Section::Ideas => "UPDATE ideas SET sequence=? WHERE id=?",
        _ => "UPDATE missions SET sequence=? WHERE id=?",
    };
    conn.prepare_cached(sql)?.execute(params![key.sequence, key.id])?;
    Ok(())
}
