//! What writers have seen, over a restart of the daemon (semantics section 4): an open editor
//! does not become blind.
//!
//! At the start it is only known who has looked. Finding the version takes time, the more the
//! larger the document, and is left until somebody saves whom it concerns.

use std::sync::Arc;

use super::layer::Result;
use super::ports::{Documents, KeptLook, Memory};
use super::processes::{ProcId, Process};
use super::recalled::Recalled;
use super::seen::Kept;
use super::tree::Tree;
use crate::documents::Version;
use crate::model::DocId;

/// Looks go to the store this long after they happened, in nanoseconds.
const KEEP_EVERY: i64 = 1_000_000_000;

/// One row for the newest read of a process and one for its newest save. The program's name is
/// left out: it changes at exec.
fn identity(process: &Process, saved: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(&process.session.to_le_bytes());
    out.push(u8::from(saved));
    for id in std::iter::once(&process.id).chain(&process.ancestors) {
        out.extend_from_slice(&id.pid.to_le_bytes());
        out.extend_from_slice(&id.ident.to_le_bytes());
    }
    out
}

fn identify(bytes: &[u8]) -> Option<(Process, bool)> {
    let (session, rest) = bytes.split_first_chunk::<4>()?;
    let ([saved], rest) = rest.split_first_chunk::<1>()?;
    let mut ids = rest.chunks_exact(12).map(|chunk| {
        let (pid, ident) = chunk.split_first_chunk::<4>()?;
        let pid = u32::from_le_bytes(*pid);
        Some(ProcId { pid, ident: u64::from_le_bytes(ident.try_into().ok()?) })
    });
    let id = ids.next()??;
    let ancestors = ids.collect::<Option<Vec<_>>>()?;
    let session = u32::from_le_bytes(*session);
    let process = Process { id, ancestors, session, program: String::new() };
    Some((process, *saved == 1))
}

impl Tree {
    /// Takes up the records of an earlier daemon.
    pub(super) fn recall_looks(&self) -> Result<()> {
        let (docs, memory) = (Arc::clone(&self.docs), Arc::clone(&self.memory));
        self.seen
            .recalls_with(Box::new(move |doc, identity| find(&*docs, &*memory, doc, identity)));
        for row in self.memory.looks()? {
            if let Some((process, saved)) = identify(&row.identity) {
                self.seen.recall(Recalled {
                    process,
                    view: row.view,
                    saved,
                    identity: row.identity,
                });
            }
        }
        Ok(())
    }

    /// Puts new looks on record, at most once a second unless `now`.
    pub(super) fn keep_looks(&self, at_once: bool) {
        let now = self.now();
        {
            let mut last = self.last_keep.lock();
            if !at_once && !now.due(*last, KEEP_EVERY) {
                return;
            }
            *last = now;
        }
        let (changed, gone) = self.seen.take_changes();
        if changed.is_empty() && gone.is_empty() {
            return;
        }
        let rows: Vec<_> = changed.iter().map(|k| row(k, now)).collect();
        let ids: Vec<(DocId, Vec<u8>)> = gone
            .iter()
            .flat_map(|(doc, process)| [false, true].map(|s| (*doc, identity(process, s))))
            .collect();
        if let Err(e) = self.memory.keep_looks(&rows, &ids) {
            log::warn!("what writers have seen could not be recorded: {e}");
            self.seen.not_kept(&changed, gone);
        }
    }
}

/// The version behind a look on record.
fn find(
    docs: &dyn Documents,
    memory: &dyn Memory,
    doc: DocId,
    identity: &[u8],
) -> Option<Arc<Version>> {
    let row = match memory.look(doc, identity) {
        Ok(row) => row?,
        Err(e) => {
            log::warn!("{}: what a writer has seen cannot be read: {e}", doc.as_str());
            return None;
        }
    };
    let version = match &row.text {
        Some(text) => docs.believe(row.view, text, row.rev).map(Some).map_err(|e| e.to_string()),
        None => docs.at(doc, row.rev).map_err(|e| e.to_string()),
    };
    version.unwrap_or_else(|e| {
        log::debug!("{}: a look at {} is gone: {e}", doc.as_str(), row.rev);
        None
    })
}

fn row(kept: &Kept, at: crate::model::Stamp) -> KeptLook {
    let version = &kept.look.version;
    let text = version.belief.then(|| version.view(kept.look.view).map(|c| c.to_vec())).flatten();
    KeptLook {
        view: kept.look.view,
        identity: identity(&kept.process, kept.saved),
        rev: version.rev,
        text,
        at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_reads_back() {
        let id = |n| ProcId { pid: n, ident: u64::from(n) << 33 };
        let process = Process {
            id: id(7),
            ancestors: vec![id(3), id(2)],
            session: 3,
            program: String::new(),
        };
        assert_eq!(identify(&identity(&process, true)), Some((process, true)));
        assert_eq!(identify(b"short"), None);
    }
}
