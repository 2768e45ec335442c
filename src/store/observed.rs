//! The table of observations: which process has met which version.

use rusqlite::params;

use super::tables::{rev_in, rev_out, view_at};
use super::{Store, StoreError};
use crate::model::{DocId, Rev, Stamp, View};

/// One observation of a version (SEMANTICS, section 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedRow {
    /// Its place among the observations of a boot.
    pub at: u64,
    /// The time.
    pub time: Stamp,
    /// The name under which it was met.
    pub view: View,
    /// The process and its ancestors, in the form that the table says.
    pub chain: Vec<u8>,
    /// User id.
    pub uid: u32,
    /// How it was met.
    pub kind: u8,
    /// Whether a save has started from it.
    pub used: u8,
    /// The revision.
    pub rev: Rev,
    /// The writer's own text, where it is not that of the revision.
    pub text: Option<Vec<u8>>,
    /// There is such a text.
    pub has_text: bool,
}

impl Store {
    /// The observations of this boot, the oldest first. Texts, which may be as long as the documents,
    /// are left out; see [`Store::observation`].
    pub fn observations(&self, boot: &str) -> Result<Vec<ObservedRow>, StoreError> {
        self.observed_where("boot = ?1 ORDER BY at", "NULL", &[&boot])
    }

    /// One of them with its text.
    pub fn observation(
        &self,
        boot: &str,
        doc: DocId,
        at: u64,
    ) -> Result<Option<ObservedRow>, StoreError> {
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        let of: [&dyn rusqlite::ToSql; 3] = [&boot, &doc.as_str(), &at];
        let rows = self.observed_where("boot = ?1 AND doc = ?2 AND at = ?3", "text", &of)?;
        Ok(rows.into_iter().next())
    }

    fn observed_where(
        &self,
        what: &str,
        text: &str,
        of: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<ObservedRow>, StoreError> {
        if self.bare {
            return Ok(Vec::new());
        }
        self.read(|c| {
            let sql = format!(
                "SELECT view, at, time, chain, uid, kind, used, rev, {text}, text IS NOT NULL
                 FROM ifs_observed WHERE {what}"
            );
            let mut stmt = c.prepare_cached(&sql)?;
            let rows = stmt.query_map(of, |r| {
                let Some(view) = view_at(r, 0)? else { return Ok(None) };
                Ok(Some(ObservedRow {
                    view,
                    at: u64::try_from(r.get::<_, i64>(1)?).unwrap_or(0),
                    time: Stamp(r.get(2)?),
                    chain: r.get(3)?,
                    uid: r.get(4)?,
                    kind: r.get(5)?,
                    used: r.get(6)?,
                    rev: rev_in(r.get(7)?),
                    text: r.get(8)?,
                    has_text: r.get(9)?,
                }))
            })?;
            Ok(rows.filter_map(Result::transpose).collect::<Result<_, _>>()?)
        })
    }

    /// Puts observations on record and forgets `gone` (document, `at`), in one commit.
    pub fn save_observed(
        &self,
        boot: &str,
        rows: &[ObservedRow],
        gone: &[(DocId, u64)],
    ) -> Result<(), StoreError> {
        self.gate(|c| {
            // What was moved away and back is put anew.
            let mut drop = c.prepare_cached(
                "DELETE FROM ifs_observed WHERE boot = ?1 AND doc = ?2 AND at = ?3",
            )?;
            for (doc, at) in gone {
                drop.execute(params![boot, doc.as_str(), i64::try_from(*at).unwrap_or(i64::MAX)])?;
            }
            let mut put = c.prepare_cached(
                "INSERT INTO ifs_observed
                 (boot, doc, at, time, view, chain, uid, kind, used, rev, text)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                 ON CONFLICT (boot, doc, at) DO UPDATE SET used = ?9",
            )?;
            for row in rows {
                put.execute(params![
                    boot,
                    row.view.doc().as_str(),
                    i64::try_from(row.at).unwrap_or(i64::MAX),
                    row.time.0,
                    row.view.name(),
                    row.chain,
                    row.uid,
                    row.kind,
                    row.used,
                    rev_out(row.rev),
                    row.text,
                ])?;
            }
            Ok(())
        })
    }

    /// Forgets what was observed before this boot.
    pub fn forget_other_boots(&self, boot: &str) -> Result<(), StoreError> {
        self.gate(|c| {
            c.execute("DELETE FROM ifs_observed WHERE boot <> ?1", [boot])?;
            Ok(())
        })
    }
}
