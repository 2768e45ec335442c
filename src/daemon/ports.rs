//! What the tree asks of its memory (`vfs::ports`), answered by the store.

use std::sync::Arc;

use super::watching::News;
use crate::fs::observed::{Changes, Kind, Stored, Used, Who};
use crate::model::{DocId, View};
use crate::store::{NameRow, ObservedRow, Store, StoreError};
use crate::vfs::ports::{KeptName, KeptRefusal, Memory};

type Answer<T> = std::result::Result<T, StoreError>;

/// What outlives the daemon, in the store.
pub struct StoreMemory {
    store: Arc<Store>,
    /// Observations count for one boot of the machine: process ids start over with the next.
    boot: String,
    /// Who is told when a refusal is on record.
    news: Option<Arc<News>>,
}

impl StoreMemory {
    /// The memory of this boot; what was observed in earlier ones is forgotten.
    pub fn new(store: Arc<Store>) -> Answer<StoreMemory> {
        let path = "/proc/sys/kernel/random/boot_id";
        let boot = std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        store.forget_other_boots(&boot)?;
        Ok(StoreMemory { store, boot, news: None })
    }

    /// The same; refusals are told.
    pub fn telling(mut self, news: Arc<News>) -> StoreMemory {
        self.news = Some(news);
        self
    }
}

fn stored(row: ObservedRow) -> Stored {
    Stored {
        at: row.at,
        when: row.time,
        who: Who::from_bytes(&row.chain, row.uid),
        kind: Kind::of_code(row.kind),
        view: row.view,
        used: Used::of_code(row.used),
        rev: row.rev,
        text: row.text,
        has_text: row.has_text,
    }
}

impl Memory for StoreMemory {
    fn names(&self) -> Answer<Vec<KeptName>> {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let kept = |row: NameRow| {
            let usual = if row.view.read_only() { 0o444 } else { 0o644 };
            KeptName {
                view: row.view,
                ino: row.ino,
                mode: row.mode.and_then(|m| u16::try_from(m & 0o7777).ok()).unwrap_or(usual),
                uid: row.uid.unwrap_or(uid),
                gid: row.gid.unwrap_or(gid),
                atime: row.atime,
                mtime: row.mtime,
            }
        };
        Ok(self.store.names()?.into_iter().map(kept).collect())
    }

    fn keep_name(&self, name: &KeptName) -> Answer<()> {
        self.store.save_name(&NameRow {
            view: name.view,
            ino: name.ino,
            mode: Some(u32::from(name.mode)),
            uid: Some(name.uid),
            gid: Some(name.gid),
            atime: name.atime,
            mtime: name.mtime,
        })
    }

    fn forget_name(&self, view: View) -> Answer<()> {
        self.store.forget_name(view)
    }

    fn observations(&self) -> Answer<Vec<Stored>> {
        Ok(self.store.observations(&self.boot)?.into_iter().map(stored).collect())
    }

    fn observation(&self, doc: DocId, at: u64) -> Answer<Option<Stored>> {
        Ok(self.store.observation(&self.boot, doc, at)?.map(stored))
    }

    fn keep_observations(&self, changes: &Changes) -> Answer<()> {
        let row = |o: &Stored| ObservedRow {
            at: o.at,
            time: o.when,
            view: o.view,
            chain: o.who.to_bytes(),
            uid: o.who.uid,
            kind: o.kind.code(),
            used: o.used.code(),
            rev: o.rev,
            text: o.text.clone(),
            has_text: o.has_text,
        };
        let rows: Vec<ObservedRow> = changes.put.iter().map(row).collect();
        self.store.save_observed(&self.boot, &rows, &changes.gone)
    }

    fn record_refusal(&self, refusal: &KeptRefusal<'_>) -> Answer<()> {
        self.store.record_refusal(refusal)?;
        if let Some(news) = &self.news {
            news.tell();
        }
        Ok(())
    }

    fn resolve_refusals(&self, kept_as: &[String]) -> Answer<()> {
        self.store.resolve_refusals(kept_as)
    }
}
