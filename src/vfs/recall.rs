//! What writers have seen, over a restart of the daemon (semantics section 4): an open editor
//! does not become blind.

use super::layer::Result;
use super::ports::KeptLook;
use super::processes::{ProcId, Process};
use super::seen::Kept;
use super::tree::Tree;
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
        for row in self.memory.looks()? {
            let Some((process, saved)) = identify(&row.identity) else { continue };
            // A look counts for its process and for relatives of it. When it and its ancestors
            // are gone, nobody is left who is one.
            let mut family = std::iter::once(&process.id).chain(&process.ancestors);
            if !family.any(|id| self.procs.alive(*id)) {
                continue;
            }
            let doc = row.view.doc();
            let version = match &row.text {
                Some(text) => {
                    self.docs.believe(row.view, text, row.rev).map(Some).map_err(|e| e.to_string())
                }
                None => self.docs.at(doc, row.rev).map_err(|e| e.to_string()),
            };
            match version {
                Ok(Some(version)) => self.seen.recall(&process, row.view, &version, saved),
                Ok(None) => log::debug!("{}: revision {} is pruned", doc.as_str(), row.rev),
                Err(e) => log::debug!("{}: a look at {} is gone: {e}", doc.as_str(), row.rev),
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
        let gone: Vec<(DocId, Vec<u8>)> = gone
            .into_iter()
            .flat_map(|(doc, process)| [false, true].map(|s| (doc, identity(&process, s))))
            .collect();
        if let Err(e) = self.memory.keep_looks(&rows, &gone) {
            log::warn!("what writers have seen could not be recorded: {e}");
        }
    }
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
