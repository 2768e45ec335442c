//! The tables of the three databases: versions, columns, and how a missing one is made.
//!
//! `tasks.sqlite` and `memory.sqlite` say their version in `schema_meta`, row `version`;
//! `sessions.sqlite` has none, but a `user_version` is heeded everywhere.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::error::{Result, sql, unusable};
use super::{Database, ForeignError};

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// A row must have a value for it.
    pub not_null: bool,
    /// The value that it has by default, in SQL.
    pub default: Option<String>,
}

impl Column {
    /// A row must have a value for it, and nothing supplies one.
    pub fn required(&self) -> bool {
        self.not_null && self.default.is_none()
    }
}

/// The newest schema version of a database that is known here.
pub fn known_version(database: Database) -> i64 {
    match database {
        Database::Sessions => 1,
        Database::Tasks => 3,
        Database::Memory => 10,
    }
}

/// The schema version that a database says it has; 0 when it says nothing.
///
/// Errors: [`ForeignError::Unusable`] when what it says is no number.
pub fn version(conn: &Connection, path: &Path) -> Result<i64> {
    let failed = sql(path);
    let mut found: i64 =
        conn.query_row("PRAGMA user_version", [], |r| r.get(0)).map_err(&failed)?;
    if columns(conn, path, "schema_meta")?.is_empty() {
        return Ok(found);
    }
    let mut select = conn
        .prepare(
            "SELECT CAST(value AS TEXT) FROM schema_meta WHERE key IN ('version', 'schema_version')",
        )
        .map_err(&failed)?;
    let mut rows = select.query([]).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        let text = match row.get_ref(0).map_err(&failed)? {
            ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).trim().to_owned(),
            _ => String::new(),
        };
        let number = text
            .parse()
            .map_err(|_| unusable(path, format!("its schema version is {text:?}, no number")))?;
        found = found.max(number);
    }
    Ok(found)
}

/// Fails with [`ForeignError::Newer`] when the database is newer than what is known.
pub fn check_version(conn: &Connection, path: &Path, database: Database) -> Result<()> {
    let (found, known) = (version(conn, path)?, known_version(database));
    if found > known {
        return Err(ForeignError::Newer { path: path.to_owned(), found, known });
    }
    Ok(())
}

/// The columns of a table in their order; none when there is no such table. A view of that name, or
/// a virtual table, is none: what reads it may never come to an end.
pub fn columns(conn: &Connection, path: &Path, table: &str) -> Result<Vec<Column>> {
    let failed = sql(path);
    let mut select = conn
        .prepare(
            "SELECT name, \"notnull\" = 1 AND pk = 0, dflt_value FROM pragma_table_info(?1)
             WHERE EXISTS (SELECT 1 FROM pragma_table_list WHERE schema = 'main'
               AND name = ?1 COLLATE NOCASE AND type = 'table')",
        )
        .map_err(&failed)?;
    let rows = select
        .query_map([table], |r| {
            Ok(Column { name: r.get(0)?, not_null: r.get(1)?, default: r.get(2)? })
        })
        .map_err(&failed)?;
    rows.collect::<std::result::Result<_, _>>().map_err(&failed)
}

/// Makes the tables in a database that has none at all. The caller is in a transaction.
pub fn create_if_empty(conn: &Connection, path: &Path, database: Database) -> Result<()> {
    let failed = sql(path);
    let any = conn
        .query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(()))
        .optional()
        .map_err(&failed)?;
    if any.is_some() {
        return Ok(());
    }
    conn.execute_batch(match database {
        Database::Sessions => include_str!("schema/sessions.sql"),
        Database::Tasks => include_str!("schema/tasks.sql"),
        Database::Memory => include_str!("schema/memory.sql"),
    })
    .map_err(&failed)
}

/// A name in an SQL text.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_made_once_and_is_known() {
        let path = Path::new("x");
        for database in Database::ALL {
            let conn = Connection::open_in_memory().unwrap();
            create_if_empty(&conn, path, database).unwrap();
            create_if_empty(&conn, path, database).unwrap();
            check_version(&conn, path, database).unwrap();
            for part in database.parts() {
                assert!(!columns(&conn, path, part.table()).unwrap().is_empty());
            }
        }
    }

    #[test]
    fn a_view_is_no_table() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE VIEW sessions AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
               SELECT x AS id FROM c;
             CREATE VIRTUAL TABLE memories USING fts5(content);
             CREATE TABLE TASKS(id);",
        )
        .unwrap();
        let count = |table| columns(&conn, Path::new("x"), table).unwrap().len();
        assert_eq!((count("sessions"), count("memories"), count("tasks")), (0, 0, 1));
    }

    #[test]
    fn versions_are_read_wherever_they_are_said() {
        let path = Path::new("x");
        let conn = Connection::open_in_memory().unwrap();
        assert_eq!(version(&conn, path).unwrap(), 0);
        conn.execute_batch("PRAGMA user_version = 4").unwrap();
        assert_eq!(version(&conn, path).unwrap(), 4);
        conn.execute_batch(
            "CREATE TABLE schema_meta(key, value); INSERT INTO schema_meta VALUES('version', 7)",
        )
        .unwrap();
        assert_eq!(version(&conn, path).unwrap(), 7);
        assert!(matches!(
            check_version(&conn, path, Database::Tasks),
            Err(ForeignError::Newer { found: 7, known: 3, .. })
        ));
        conn.execute_batch("UPDATE schema_meta SET value = 'seven'").unwrap();
        assert!(matches!(version(&conn, path), Err(ForeignError::Unusable { .. })));
    }
}
