//! Our small tables: documents, names, refusals, files written out, counters.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Store, StoreError};
use crate::model::{Actor, DocId, Reason, Refusal, Rev, Stamp, View};

/// Refusals that are kept, and as many saves that have changed nothing.
const REFUSALS_KEPT: i64 = 1_000;

/// The state of one document in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRow {
    /// Which.
    pub doc: DocId,
    /// Its newest revision.
    pub rev: Rev,
    /// The revision that the rows were last made equal to.
    pub rows_rev: Rev,
    /// The archive of the rows when they equal no revision.
    pub rows: Option<Vec<u8>>,
    /// The mtime of the newest version.
    pub mtime: Stamp,
}

/// What a name looks like apart from its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRow {
    /// Which name.
    pub view: View,
    /// Its inode number.
    pub ino: u64,
    /// Permission bits that were set (`07777`).
    pub mode: Option<u32>,
    /// Owner that was set.
    pub uid: Option<u32>,
    /// Group that was set.
    pub gid: Option<u32>,
    /// Access time that was set.
    pub atime: Option<Stamp>,
    /// Modification time that was set, and the revision for which it holds: a newer version
    /// has its own.
    pub mtime: Option<(Stamp, Rev)>,
}

/// A refused save on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalRow {
    /// Its number; later ones have higher ones.
    pub id: i64,
    /// When.
    pub at: Stamp,
    /// The name that was saved.
    pub view: View,
    /// By whom.
    pub actor: Actor,
    /// Why; [`crate::model::Reason::as_str`].
    pub reason: String,
    /// 1-based line.
    pub line: Option<u32>,
    /// Key path.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// The file beside the document that holds the text, if one could be written.
    pub kept_as: Option<String>,
    /// What the text was compared with; `None`: with nothing.
    pub base: Option<Rev>,
    /// The same writer has saved since, which took the file away.
    pub resolved: bool,
}

/// A refusal to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct KeptRefusal<'r> {
    /// When.
    pub at: Stamp,
    /// The name that was saved.
    pub view: View,
    /// By whom.
    pub actor: &'r Actor,
    /// Why.
    pub refusal: &'r Refusal,
    /// The file beside the document that holds the text, if one could be written.
    pub kept_as: Option<&'r str>,
    /// What the text was compared with; `None`: with nothing.
    pub base: Option<Rev>,
    /// It was to be added at the end.
    pub append: bool,
}

/// A document written out as a plain file at unmount (R11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportRow {
    /// Which.
    pub view: View,
    /// SHA-256 of the text that was written out.
    pub sha256: [u8; 32],
    /// The revision that it was.
    pub rev: Rev,
    /// When.
    pub at: Stamp,
}

pub(super) fn rev_in(n: i64) -> Rev {
    Rev(u64::try_from(n).unwrap_or(0))
}

pub(super) fn rev_out(rev: Rev) -> i64 {
    i64::try_from(rev.0).unwrap_or(i64::MAX)
}

/// Rows with an unknown document or view (of a kind that this version does not have) are left
/// out by their readers.
pub(super) fn view_at(row: &Row<'_>, column: usize) -> Result<Option<View>, rusqlite::Error> {
    let name = row.get_ref(column)?.as_str().unwrap_or_default();
    Ok(Some(name).filter(|n| !n.is_empty()).map(View::on_record))
}

/// The row of a document, `None` when it was never saved.
pub(crate) fn document(conn: &Connection, doc: DocId) -> Result<Option<DocumentRow>, StoreError> {
    let mut stmt =
        conn.prepare_cached("SELECT rev, rows_rev, rows, mtime FROM ifs_documents WHERE doc = ?1")?;
    let row = stmt
        .query_row([doc.as_str()], |r| {
            Ok(DocumentRow {
                doc,
                rev: rev_in(r.get(0)?),
                rows_rev: rev_in(r.get(1)?),
                rows: r.get(2)?,
                mtime: Stamp(r.get(3)?),
            })
        })
        .optional()?;
    Ok(row)
}

/// Writes the row of a document.
pub(crate) fn set_document(conn: &Connection, row: &DocumentRow) -> Result<(), StoreError> {
    let mut stmt = conn.prepare_cached(
        "INSERT INTO ifs_documents (doc, rev, rows_rev, rows, mtime) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (doc) DO UPDATE SET rev = ?2, rows_rev = ?3, rows = ?4, mtime = ?5",
    )?;
    stmt.execute(params![
        row.doc.as_str(),
        rev_out(row.rev),
        rev_out(row.rows_rev),
        row.rows,
        row.mtime.0
    ])?;
    Ok(())
}

impl Store {
    /// When the store was made; it is the mtime of documents that were never saved.
    pub fn created(&self) -> Result<Stamp, StoreError> {
        if self.bare {
            return Ok(Stamp(0));
        }
        self.read(|c| {
            let at: Option<i64> = c
                .query_row("SELECT value FROM ifs_meta WHERE key = 'created'", [], |r| r.get(0))
                .optional()?;
            Ok(Stamp(at.unwrap_or(0)))
        })
    }

    /// Reserves `count` numbers of the series `name`: the first of them. Numbers start at 1,
    /// only grow and are never given twice, whatever happens to the process.
    pub fn reserve(&self, name: &str, count: u64) -> Result<u64, StoreError> {
        self.gate(|c| {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let next: i64 = c.query_row(
                "INSERT INTO ifs_meta (key, value) VALUES ('number:' || ?1, 1 + ?2)
                 ON CONFLICT (key) DO UPDATE SET value = value + ?2 RETURNING value",
                params![name, count],
                |r| r.get(0),
            )?;
            Ok(u64::try_from(next - count).unwrap_or(1))
        })
    }

    /// All names on record.
    pub fn names(&self) -> Result<Vec<NameRow>, StoreError> {
        self.rows_of(
            "SELECT view, ino, mode, uid, gid, atime, mtime, mtime_rev FROM ifs_names",
            |r| {
                let Some(view) = view_at(r, 0)? else { return Ok(None) };
                let mtime: Option<i64> = r.get(6)?;
                let mtime_rev: Option<i64> = r.get(7)?;
                Ok(Some(NameRow {
                    view,
                    ino: r.get::<_, i64>(1)? as u64,
                    mode: r.get(2)?,
                    uid: r.get(3)?,
                    gid: r.get(4)?,
                    atime: r.get::<_, Option<i64>>(5)?.map(Stamp),
                    mtime: mtime.map(|t| (Stamp(t), rev_in(mtime_rev.unwrap_or(0)))),
                }))
            },
        )
    }

    /// Puts a name on record, in place of what was there.
    pub fn save_name(&self, row: &NameRow) -> Result<(), StoreError> {
        self.gate(|c| {
            c.prepare_cached(
                "INSERT OR REPLACE INTO ifs_names
                 (view, ino, mode, uid, gid, atime, mtime, mtime_rev)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                row.view.name(),
                row.ino as i64,
                row.mode,
                row.uid,
                row.gid,
                row.atime.map(|t| t.0),
                row.mtime.map(|(t, _)| t.0),
                row.mtime.map(|(_, rev)| rev_out(rev)),
            ])?;
            Ok(())
        })
    }

    /// Takes a name off the record.
    pub fn forget_name(&self, view: View) -> Result<(), StoreError> {
        self.gate(|c| {
            c.prepare_cached("DELETE FROM ifs_names WHERE view = ?1")?.execute([view.name()])?;
            Ok(())
        })
    }

    /// Puts a refusal on record.
    pub fn record_refusal(&self, refusal: &KeptRefusal<'_>) -> Result<(), StoreError> {
        let KeptRefusal { at, view, actor, refusal, kept_as, base, append } = *refusal;
        self.gate(|c| {
            c.prepare_cached(
                "INSERT INTO ifs_refusals (at, view, pid, uid, session, program, reason, line,
                 key, message, hint, kept_as, base_rev, append)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?
            .execute(params![
                at.0,
                view.name(),
                actor.pid,
                actor.uid,
                actor.session,
                actor.program,
                refusal.reason.as_str(),
                refusal.line,
                refusal.key,
                refusal.message,
                refusal.hint,
                kept_as,
                base.map(rev_out),
                append,
            ])?;
            // What changed nothing may come every minute, and takes no place from a refusal.
            c.prepare_cached(
                "DELETE FROM ifs_refusals WHERE (reason = 'unchanged') = (?1 = 'unchanged') AND id NOT IN
                 (SELECT id FROM ifs_refusals WHERE (reason = 'unchanged') = (?1 = 'unchanged')
                  ORDER BY id DESC LIMIT ?2)",
            )?
            .execute(params![refusal.reason.as_str(), REFUSALS_KEPT])?;
            if refusal.reason == Reason::Unchanged {
                return Ok(());
            }
            c.prepare_cached(
                "INSERT INTO ifs_meta (key, value) VALUES ('refusals', 1)
                 ON CONFLICT (key) DO UPDATE SET value = value + 1",
            )?
            .execute([])?;
            Ok(())
        })
    }

    /// The texts in these files need nobody's attention any more.
    pub fn resolve_refusals(&self, kept_as: &[String]) -> Result<(), StoreError> {
        self.gate(|c| {
            let mut resolve =
                c.prepare_cached("UPDATE ifs_refusals SET resolved = 1 WHERE kept_as = ?1")?;
            for name in kept_as {
                resolve.execute([name])?;
            }
            Ok(())
        })
    }

    /// The newest refusals, newest first.
    pub fn refusals(&self, limit: usize) -> Result<Vec<RefusalRow>, StoreError> {
        self.refusals_where("TRUE ORDER BY id DESC", limit)
    }

    /// Those that are not settled, the newest first.
    pub fn open_refusals(&self, limit: usize) -> Result<Vec<RefusalRow>, StoreError> {
        self.refusals_where("NOT resolved AND reason <> 'unchanged' ORDER BY id DESC", limit)
    }

    /// Those with higher numbers than this one, the oldest first.
    pub fn refusals_after(&self, id: i64, limit: usize) -> Result<Vec<RefusalRow>, StoreError> {
        self.refusals_where(&format!("id > {id} ORDER BY id"), limit)
    }

    fn refusals_where(&self, which: &str, limit: usize) -> Result<Vec<RefusalRow>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = format!(
            "SELECT at, view, pid, uid, session, program, reason, line, key, message, hint,
             kept_as, base_rev, resolved, id FROM ifs_refusals WHERE {which} LIMIT {limit}"
        );
        self.rows_of(&sql, |r| {
            let Some(view) = view_at(r, 1)? else { return Ok(None) };
            Ok(Some(RefusalRow {
                id: r.get(14)?,
                at: Stamp(r.get(0)?),
                view,
                actor: Actor {
                    pid: r.get(2)?,
                    uid: r.get(3)?,
                    session: r.get(4)?,
                    program: r.get(5)?,
                    via: crate::model::Via::Mount,
                },
                reason: r.get(6)?,
                line: r.get(7)?,
                key: r.get(8)?,
                message: r.get(9)?,
                hint: r.get(10)?,
                kept_as: r.get(11)?,
                base: r.get::<_, Option<i64>>(12)?.map(rev_in),
                resolved: r.get(13)?,
            }))
        })
    }

    /// How many refusals there ever were.
    pub fn refusal_count(&self) -> Result<u64, StoreError> {
        let counts = self.rows_of("SELECT value FROM ifs_meta WHERE key = 'refusals'", |r| {
            Ok(Some(r.get::<_, i64>(0)?))
        })?;
        Ok(counts.first().map_or(0, |n| u64::try_from(*n).unwrap_or(0)))
    }

    /// The files that were written out at the last unmount.
    pub fn exports(&self) -> Result<Vec<ExportRow>, StoreError> {
        self.rows_of("SELECT view, sha256, rev, at FROM ifs_exports", |r| {
            let Some(view) = view_at(r, 0)? else { return Ok(None) };
            Ok(Some(ExportRow {
                view,
                sha256: r.get(1)?,
                rev: rev_in(r.get(2)?),
                at: Stamp(r.get(3)?),
            }))
        })
    }

    /// Puts a written-out file on record.
    pub fn set_export(&self, row: &ExportRow) -> Result<(), StoreError> {
        self.gate(|c| {
            c.execute(
                "INSERT OR REPLACE INTO ifs_exports (view, sha256, rev, at)
                 VALUES (?1, ?2, ?3, ?4)",
                params![row.view.name(), row.sha256, rev_out(row.rev), row.at.0],
            )?;
            Ok(())
        })
    }

    /// Forgets a written-out file (it was taken in again).
    pub fn clear_export(&self, view: View) -> Result<(), StoreError> {
        self.gate(|c| {
            c.execute("DELETE FROM ifs_exports WHERE view = ?1", [view.name()])?;
            Ok(())
        })
    }

    /// All rows of a query without parameters; `None` leaves one out.
    fn rows_of<T>(
        &self,
        sql: &str,
        f: impl Fn(&Row<'_>) -> Result<Option<T>, rusqlite::Error>,
    ) -> Result<Vec<T>, StoreError> {
        if self.bare {
            return Ok(Vec::new());
        }
        self.read(|c| {
            let mut stmt = c.prepare_cached(sql)?;
            let rows = stmt.query_map([], |r| f(r))?;
            Ok(rows.filter_map(Result::transpose).collect::<Result<_, _>>()?)
        })
    }
}
