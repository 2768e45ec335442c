//! What the tree asks of its memory (`vfs::ports`), answered by the store.

use std::sync::Arc;

use super::watching::News;
use crate::model::{Actor, DocId, Refusal, Stamp, View};
use crate::store::{NameRow, SeenRow, Store, StoreError};
use crate::vfs::ports::{KeptLook, KeptName, Memory};

type Answer<T> = std::result::Result<T, StoreError>;

/// What outlives the daemon, in the store.
pub struct StoreMemory {
    store: Arc<Store>,
    /// Looks count for one boot of the machine: process ids start over with the next.
    boot: String,
    /// Who is told when a refusal is on record.
    news: Option<Arc<News>>,
}

impl StoreMemory {
    /// The memory of this boot; what was seen in earlier ones is forgotten.
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

fn kept_look(row: SeenRow) -> KeptLook {
    let SeenRow { view, identity, rev, text, at } = row;
    KeptLook { view, identity, rev, text, at }
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

    fn looks(&self) -> Answer<Vec<KeptLook>> {
        Ok(self.store.seen(&self.boot)?.into_iter().map(kept_look).collect())
    }

    fn look(&self, doc: DocId, identity: &[u8]) -> Answer<Option<KeptLook>> {
        Ok(self.store.seen_by(&self.boot, doc, identity)?.map(kept_look))
    }

    fn keep_looks(&self, rows: &[KeptLook], gone: &[(DocId, Vec<u8>)]) -> Answer<()> {
        let row = |look: &KeptLook| SeenRow {
            view: look.view,
            identity: look.identity.clone(),
            rev: look.rev,
            text: look.text.clone(),
            at: look.at,
        };
        let rows: Vec<SeenRow> = rows.iter().map(row).collect();
        self.store.save_seen(&self.boot, &rows, gone)
    }

    fn record_refusal(
        &self,
        at: Stamp,
        view: View,
        actor: &Actor,
        refusal: &Refusal,
        kept_as: Option<&str>,
    ) -> Answer<()> {
        self.store.record_refusal(at, view, actor, refusal, kept_as)?;
        if let Some(news) = &self.news {
            news.tell();
        }
        Ok(())
    }
}
