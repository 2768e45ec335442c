//! The row of the config.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::tree::Form;
use crate::store::StoreError;

/// Makes the table where it is missing.
pub fn migrate(conn: &Connection) -> Result<(), StoreError> {
    Ok(conn.execute_batch(include_str!("rows.sql"))?)
}

/// The row as it stands there, whoever wrote it.
pub(super) struct Row {
    /// Name of the form; anything, also when it is no text.
    pub form: Vec<u8>,
    /// The text; anything.
    pub text: Vec<u8>,
}

impl Row {
    /// Whether the row holds this source.
    pub fn is(&self, source: Option<(Form, &str)>) -> bool {
        source.is_some_and(|(form, text)| {
            self.form == form.as_str().as_bytes() && self.text == text.as_bytes()
        })
    }
}

fn bytes(value: ValueRef<'_>) -> Vec<u8> {
    match value {
        ValueRef::Null => Vec::new(),
        ValueRef::Integer(n) => n.to_string().into_bytes(),
        ValueRef::Real(x) => x.to_string().into_bytes(),
        ValueRef::Text(b) | ValueRef::Blob(b) => b.to_vec(),
    }
}

/// Reads the row; `None` when there is no config.
pub(super) fn load(conn: &Connection) -> Result<Option<Row>, StoreError> {
    let mut stmt = conn.prepare_cached("SELECT form, text FROM ifs_config WHERE id = 1")?;
    let row = stmt
        .query_row([], |r| Ok(Row { form: bytes(r.get_ref(0)?), text: bytes(r.get_ref(1)?) }))
        .optional()?;
    Ok(row)
}

/// Writes the row, or takes it out.
pub(super) fn save(conn: &Connection, source: Option<(Form, &str)>) -> Result<(), StoreError> {
    match source {
        Some((form, text)) => conn
            .prepare_cached("INSERT OR REPLACE INTO ifs_config(id, form, text) VALUES(1, ?1, ?2)")?
            .execute(params![form.as_str(), text])?,
        None => conn.prepare_cached("DELETE FROM ifs_config WHERE id = 1")?.execute([])?,
    };
    Ok(())
}
