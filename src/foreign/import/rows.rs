//! The rules of the parts, row by row.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Row, Statement, TransactionBehavior};
use sha2::{Digest, Sha256};

use super::target::Target;
use super::{Counts, Progress};
use crate::foreign::Part;
use crate::foreign::error::{Result, sql, unusable};
use crate::foreign::schema::{self, quoted};
use crate::model::{Clock, SystemClock};

/// What an interrupted turn leaves in a session's payload, as the program itself writes it.
const INTERRUPTED: &str = "turn interrupted: the agent stopped before it finished";
/// Statuses of a session in which some process works on it.
const LIVE: [&[u8]; 3] = [b"running", b"awaiting_approval", b"awaiting_llm"];
/// What is carried of a note, and of a fact of the profile; of sessions and tasks it is all but
/// what tells who works on them.
const NOTE: [&str; 7] =
    ["content", "created_at", "updated_at", "source", "session_id", "working_dir", "tags"];
const FACT: [&str; 7] =
    ["key", "value", "pinned", "keywords", "valid_from", "created_at", "updated_at"];
/// Values, in SQL, of columns that say nothing about what a row is for.
const INSTEAD: [(Part, &str, &str); 5] = [
    (Part::Sessions, "working_dir", "''"),
    (Part::Sessions, "payload", "'{}'"),
    (Part::Tasks, "origin", "'import'"),
    (Part::Tasks, "max_attempts", "1"),
    (Part::Notes, "source", "'import'"),
];
/// Rows between two words about the progress.
const STEP: u64 = 500;
/// Rows that are named one by one when something is wrong with them.
const NAMED: u64 = 5;

/// What became of a part.
pub(super) struct Done {
    pub(super) counts: Counts,
    pub(super) warnings: Vec<String>,
}

/// Imports a part in one transaction. `from` names the source in messages.
pub(super) fn import(
    source: &Connection,
    from: &Path,
    target: &mut Target,
    part: Part,
    progress: &mut dyn Progress,
) -> Result<Done> {
    let mut warnings = Vec::new();
    let theirs = names(source, from, part)?;
    if theirs.is_empty() {
        let none =
            format!("{}: no table {}; no {} imported", from.display(), part.table(), part.name());
        return Ok(Done { counts: Counts::default(), warnings: vec![none] });
    }
    progress.waiting(part);
    let path = target.path.clone();
    let failed = sql(&path);
    let database = target.database;
    let tx =
        target.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    schema::create_if_empty(&tx, &path, database)?;
    // Another program may have changed the schema while it was waited for.
    schema::check_version(&tx, &path, database)?;
    let plan = Plan::of(&tx, &path, from, part, &theirs)?;
    let counts = {
        let mut copy =
            Copy { source, from, target: &tx, path: &path, plan, warnings: &mut warnings, odd: 0 };
        copy.all(progress)?
    };
    tx.commit().map_err(&failed)?;
    Ok(Done { counts, warnings })
}

fn names(conn: &Connection, path: &Path, part: Part) -> Result<Vec<String>> {
    Ok(schema::columns(conn, path, part.table())?.into_iter().map(|c| c.name).collect())
}

/// Which column comes from where.
struct Plan {
    part: Part,
    /// Columns that both sides have. Their values are the parameters of the insertion.
    carried: Vec<String>,
    /// What is inserted, in SQL: column and value.
    inserted: Vec<(String, String)>,
}

impl Plan {
    fn of(
        target: &Connection,
        path: &Path,
        from: &Path,
        part: Part,
        theirs: &[String],
    ) -> Result<Plan> {
        let ours = schema::columns(target, path, part.table())?;
        if ours.is_empty() {
            let reason = format!("no table {}; start the program that owns it once", part.table());
            return Err(unusable(path, reason));
        }
        let wanted = |name: &str| match part {
            Part::Sessions => name != "turn_owner",
            Part::Tasks => name != "run_owner",
            Part::Notes => NOTE.contains(&name),
            Part::Profile => FACT.contains(&name),
        };
        let carried: Vec<String> = theirs
            .iter()
            .filter(|name| wanted(name) && ours.iter().any(|c| c.name == **name))
            .cloned()
            .collect();
        let key = key(part);
        if !carried.iter().any(|c| c == key) {
            return Err(unusable(from, format!("{} has no column {key}", part.table())));
        }
        let now = SystemClock.now().0 / 1_000_000;
        let mut inserted = Vec::new();
        for column in &ours {
            let own = carried.iter().position(|c| *c == column.name);
            if own.is_none() && !column.required() {
                continue;
            }
            let mut values: Vec<String> =
                own.map(|at| format!("?{}", at + 1)).into_iter().collect();
            // A row that has no value there is as one of a source that has no such column.
            if column.not_null && column.name != key {
                values.extend(instead(part, column, &carried, now));
            }
            let value = match values.len() {
                0 => {
                    let reason = format!(
                        "{} has no column {}, without which the store takes no row",
                        part.table(),
                        column.name
                    );
                    return Err(unusable(from, reason));
                }
                1 => values.remove(0),
                _ => format!("coalesce({})", values.join(", ")),
            };
            inserted.push((column.name.clone(), value));
        }
        Ok(Plan { part, carried, inserted })
    }

    /// The rows of the source that count.
    fn filter(&self, theirs: &Connection, from: &Path) -> Result<&'static str> {
        let history = names(theirs, from, self.part)?.iter().any(|c| c == "superseded_by");
        Ok(if self.part == Part::Profile && history { " WHERE superseded_by IS NULL" } else { "" })
    }

    fn insert(&self) -> String {
        let columns: Vec<String> = self.inserted.iter().map(|(c, _)| quoted(c)).collect();
        let values: Vec<&str> = self.inserted.iter().map(|(_, v)| v.as_str()).collect();
        let rule = match self.part {
            Part::Sessions | Part::Tasks => " ON CONFLICT(id) DO NOTHING",
            Part::Notes | Part::Profile => "",
        };
        let table = quoted(self.part.table());
        format!("INSERT INTO {table} ({}) VALUES ({}){rule}", columns.join(", "), values.join(", "))
    }
}

/// What stands, in SQL, for a value that a row must have and the source does not know: what the
/// column has by default, of times the row's other times and at last `now` (milliseconds), and
/// what says the least where that is harmless. Nothing for a status or a text: without those a
/// row means nothing.
fn instead(part: Part, column: &schema::Column, carried: &[String], now: i64) -> Vec<String> {
    if let Some(default) = &column.default {
        return vec![format!("({default})")];
    }
    let times: &[&str] = match column.name.as_str() {
        "created_at" | "valid_from" => &["created_at", "valid_from", "updated_at"],
        "updated_at" => &["updated_at", "created_at", "valid_from"],
        other => {
            let known = INSTEAD.iter().find(|(of, name, _)| *of == part && *name == other);
            return known.map(|(_, _, value)| (*value).to_owned()).into_iter().collect();
        }
    };
    let others = times.iter().filter(|name| **name != column.name);
    let at = others.filter_map(|name| carried.iter().position(|c| c == name));
    at.map(|at| format!("?{}", at + 1)).chain([now.to_string()]).collect()
}

/// The column by which a row is known in the target.
fn key(part: Part) -> &'static str {
    match part {
        Part::Sessions | Part::Tasks => "id",
        Part::Notes => "content",
        Part::Profile => "key",
    }
}

struct Copy<'a> {
    source: &'a Connection,
    from: &'a Path,
    target: &'a Connection,
    path: &'a Path,
    plan: Plan,
    warnings: &'a mut Vec<String>,
    /// Sessions whose payload could not say that their turn was cut off.
    odd: u64,
}

impl Copy<'_> {
    fn all(&mut self, progress: &mut dyn Progress) -> Result<Counts> {
        let (theirs, ours) = (sql(self.from), sql(self.path));
        let part = self.plan.part;
        let filter = self.plan.filter(self.source, self.from)?;
        let table = quoted(part.table());
        let total: i64 = self
            .source
            .query_row(&format!("SELECT count(*) FROM {table}{filter}"), [], |r| r.get(0))
            .map_err(&theirs)?;
        let total = u64::try_from(total).unwrap_or(0);
        let columns: Vec<String> = self.plan.carried.iter().map(|c| quoted(c)).collect();
        let mut select = self
            .source
            .prepare(&format!("SELECT {} FROM {table}{filter}", columns.join(", ")))
            .map_err(&theirs)?;
        let mut insert = self.target.prepare(&self.plan.insert()).map_err(&ours)?;
        let mut known = self.known()?;
        let key = self.at(key(part)).unwrap_or(0);
        let mut counts = Counts::default();
        let (mut looked, mut bad) = (0, 0);
        progress.done(part, 0, total);
        let mut rows = select.query([]).map_err(&theirs)?;
        while let Some(row) = rows.next().map_err(&theirs)? {
            let fresh = match &known {
                Some(known) => !known.contains(&hash(row.get_ref(key).map_err(&theirs)?)),
                None => true,
            };
            let taken = if fresh { self.insert(&mut insert, row)? } else { Taken::There };
            match taken {
                Taken::In => {
                    counts.imported += 1;
                    if let Some(known) = &mut known {
                        known.insert(hash(row.get_ref(key).map_err(&theirs)?));
                    }
                }
                Taken::There => counts.skipped += 1,
                Taken::Bad(why) => {
                    counts.skipped += 1;
                    bad += 1;
                    if bad <= NAMED {
                        let which = shown(row.get_ref(key).map_err(&theirs)?);
                        self.warnings.push(format!("{} {which}: left out: {why}", part.name()));
                    }
                }
            }
            looked += 1;
            if looked % STEP == 0 {
                progress.done(part, looked, total.max(looked));
            }
        }
        if self.odd > NAMED {
            let more = self.odd - NAMED;
            self.warnings.push(format!("{more} more sessions whose payload stays as it is"));
        }
        if bad > NAMED {
            self.warnings.push(format!("{}: {} more left out", part.name(), bad - NAMED));
        }
        progress.done(part, looked, looked);
        Ok(counts)
    }

    fn at(&self, column: &str) -> Option<usize> {
        self.plan.carried.iter().position(|c| c == column)
    }

    /// What the target has already, where a unique index does not say it.
    fn known(&self) -> Result<Option<HashSet<[u8; 32]>>> {
        let text = match self.plan.part {
            Part::Sessions | Part::Tasks => return Ok(None),
            Part::Notes => "SELECT content FROM memories",
            Part::Profile => "SELECT key FROM profile_facts",
        };
        let failed = sql(self.path);
        let mut select = self.target.prepare(text).map_err(&failed)?;
        let mut rows = select.query([]).map_err(&failed)?;
        let mut known = HashSet::new();
        while let Some(row) = rows.next().map_err(&failed)? {
            known.insert(hash(row.get_ref(0).map_err(&failed)?));
        }
        Ok(Some(known))
    }

    fn insert(&mut self, insert: &mut Statement<'_>, row: &Row<'_>) -> Result<Taken> {
        let (theirs, ours) = (sql(self.from), sql(self.path));
        let key = self.at(key(self.plan.part)).unwrap_or(0);
        if matches!(row.get_ref(key).map_err(&theirs)?, ValueRef::Null) {
            return Ok(Taken::Bad(format!("it has no {}", self.plan.carried[key])));
        }
        let changed = self.changed(row)?;
        for at in 0..self.plan.carried.len() {
            let value = match changed.get(&at) {
                Some(Some(text)) => ValueRef::Text(text.as_bytes()),
                Some(None) => ValueRef::Null,
                None => row.get_ref(at).map_err(&theirs)?,
            };
            insert.raw_bind_parameter(at + 1, ToSqlOutput::Borrowed(value)).map_err(&ours)?;
        }
        match insert.raw_execute() {
            Ok(0) => Ok(Taken::There),
            Ok(_) => Ok(Taken::In),
            // The statement is undone, the transaction goes on.
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                Ok(Taken::Bad(e.to_string()))
            }
            Err(e) => Err(ours(e)),
        }
    }

    /// Values that do not arrive as they are, by their place in `carried`.
    fn changed(&mut self, row: &Row<'_>) -> Result<HashMap<usize, Option<String>>> {
        let failed = sql(self.from);
        let mut changed = HashMap::new();
        let Some(at) = self.at("status") else { return Ok(changed) };
        let ValueRef::Text(status) = row.get_ref(at).map_err(&failed)? else { return Ok(changed) };
        match self.plan.part {
            Part::Sessions if LIVE.contains(&status) => {
                changed.insert(at, Some("cancelled".to_owned()));
                if let Some(at) = self.at("payload") {
                    let payload = row.get_ref(at).map_err(&failed)?;
                    match self.interrupted(payload)? {
                        Some(payload) => {
                            changed.insert(at, Some(payload));
                        }
                        None => {
                            let id = self.at("id").map(|id| row.get_ref(id).map(shown));
                            let id = id.transpose().map_err(&failed)?.unwrap_or_default();
                            self.odd += 1;
                            if self.odd <= NAMED {
                                self.warnings.push(format!(
                                    "session {id}: its payload is no JSON object and stays as it is"
                                ));
                            }
                        }
                    }
                }
            }
            Part::Tasks if status == b"running" => {
                changed.insert(at, Some("pending".to_owned()));
                if let Some(at) = self.at("started_at") {
                    changed.insert(at, None);
                }
            }
            _ => {}
        }
        Ok(changed)
    }

    /// The payload of a session whose turn was cut off; `None` when it is no JSON object.
    fn interrupted(&self, payload: ValueRef<'_>) -> Result<Option<String>> {
        self.source
            .prepare_cached(
                "SELECT CASE WHEN json_valid(?1) THEN CASE WHEN json_type(?1) = 'object' THEN
                   json_set(?1, '$.status', 'cancelled', '$.lastError', ?2) END END",
            )
            .and_then(|mut select| {
                let payload = match payload {
                    ValueRef::Null => ValueRef::Text(b"{}"),
                    payload => payload,
                };
                let payload = ToSqlOutput::Borrowed(payload);
                select.query_row((payload, INTERRUPTED), |r| r.get(0))
            })
            .map_err(sql(self.from))
    }
}

/// What became of a row.
enum Taken {
    In,
    There,
    Bad(String),
}

/// A value, told apart from every other one.
fn hash(value: ValueRef<'_>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    let (kind, bytes): (u8, Vec<u8>) = match value {
        ValueRef::Text(bytes) => {
            hasher.update([3]);
            hasher.update(bytes);
            return hasher.finalize().into();
        }
        ValueRef::Blob(bytes) => (4, bytes.to_vec()),
        ValueRef::Null => (0, Vec::new()),
        ValueRef::Integer(n) => (1, n.to_le_bytes().to_vec()),
        ValueRef::Real(x) => (2, x.to_le_bytes().to_vec()),
    };
    hasher.update([kind]);
    hasher.update(bytes);
    hasher.finalize().into()
}

/// A value in a message.
fn shown(value: ValueRef<'_>) -> String {
    /// Characters of a key that a message shows.
    const SHOWN: usize = 60;
    match value {
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).chars().take(SHOWN).collect(),
        ValueRef::Integer(n) => n.to_string(),
        ValueRef::Real(x) => x.to_string(),
        ValueRef::Blob(_) => "(bytes)".to_owned(),
        ValueRef::Null => "(none)".to_owned(),
    }
}
