//! The state of an instance as one JSON object: what `status --json` prints and
//! `.instancefs/status.json` shows.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::error::Result;
use super::instance::Instance;
use super::leases::Desk;
use crate::documents::files::RuleSet;
use crate::documents::live::Live;
use crate::documents::managed::ManagedFiles;
use crate::documents::settings::Settings;
use crate::model::{Basis, Clock, DocId, Rev, Stamp, SystemClock};
use crate::store::{RefusalRow, Revision, Store};
use crate::vfs::both::Both;
use crate::vfs::owned::Living;

/// Refusals and overlaps that are listed, newest first.
const LISTED: usize = 10;
/// Revisions per document that are searched for overlaps and notable saves.
const SEARCHED: usize = 200;

/// A day, in nanoseconds.
const DAY: i64 = 24 * 3600 * 1_000_000_000;

/// A save of the last day that somebody may want to look at: an undo, or one after which there is more
/// than its text had.
fn is_notable(revision: &Revision, since: Stamp) -> bool {
    let notable = |b: &Basis| b.undo || b.others > 0;
    revision.at >= since && revision.basis.as_ref().is_some_and(notable)
}

/// The serving process.
#[derive(Debug, Clone)]
pub struct Running {
    /// Its pid.
    pub pid: u32,
    /// Since when, local time with offset.
    pub since: String,
    /// Where the store is mounted.
    pub mountpoint: PathBuf,
    /// The mount lets nothing be changed.
    pub read_only: bool,
}

/// Describes an instance. `running`: the daemon, when it is the one that asks; `operations`:
/// what it counts; `living`: the leases and sessions of now.
pub fn describe(
    dir: &Path,
    all: &Both,
    running: Option<&Running>,
    operations: Value,
    living: Living,
) -> Result<Value> {
    let live = &all.live;
    let store = live.store();
    let mut documents = Map::new();
    let mut newest = store.history(None, Rev(0), None, SEARCHED)?;
    newest.retain(|r| r.doc.file().is_some());
    for doc in DocId::ALL {
        documents.insert(doc.as_str().to_owned(), document(live, store, doc)?);
        newest.extend(store.revisions(doc, None, SEARCHED)?);
    }
    newest.sort_by_key(|r| std::cmp::Reverse(r.rev));
    let day_ago = Stamp(SystemClock.now().0 - DAY);
    let listed = |which: &dyn Fn(&Revision) -> bool| -> Vec<Value> {
        newest.iter().filter(|r| which(r)).take(LISTED).map(revision).collect()
    };
    // Rows that wait for missions.lock are tried again here; what is left waits on.
    let waiting = running.is_some() && !live.settle()?;
    // A text whose file somebody has taken away is settled as well.
    let open = |r: &&RefusalRow| r.kept_as.as_ref().is_none_or(|name| dir.join(name).exists());
    let refusals = store.open_refusals(SEARCHED)?;
    let last: Vec<Value> = refusals.iter().filter(open).take(LISTED).map(refusal).collect();
    Ok(json!({
        "running": running.is_some(),
        "pid": running.map(|r| r.pid),
        "since": running.map(|r| &r.since),
        "version": env!("CARGO_PKG_VERSION"),
        "store": dir.display().to_string(),
        "mountpoint": running.map(|r| r.mountpoint.display().to_string()),
        "read_only": running.is_some_and(|r| r.read_only),
        "documents": documents,
        "managed_files": managed(&all.managed)?,
        "refusals": { "count": store.refusal_count()?, "last": last },
        "waiting_rows": waiting,
        "leases": living.leases,
        "sessions": living.markers,
        "overlaps": listed(&|r| !r.overlaps.is_empty()),
        "notable_saves": listed(&|r| is_notable(r, day_ago)),
        "operations": operations,
        "settings_problem": settings_problem(dir),
    }))
}

/// What is wrong with `instancefs.toml` as it is now.
fn settings_problem(dir: &Path) -> Option<String> {
    let usable = Settings::load(dir).and_then(|settings| RuleSet::new(&settings));
    usable.err().map(|problem| problem.to_string())
}

/// How many managed files have a history and how many are in use.
fn managed(files: &ManagedFiles) -> Result<Value> {
    let counts = files.counts();
    Ok(json!({
        "with_history": files.on_record()?.len(),
        "looked_at": counts.known,
        "in_memory": counts.in_memory,
        "bytes_in_memory": counts.bytes,
        "not_on_record_yet": counts.unrecorded,
    }))
}

/// The same of a store that no daemon serves, without changing it.
pub fn describe_idle(dir: &Path) -> Result<Value> {
    let instance = Instance::look(dir)?;
    let living = Desk::look(dir)?.living()?;
    describe(dir, &instance.documents, None, Value::Null, living)
}

fn document(live: &Live, store: &Store, doc: DocId) -> Result<Value> {
    let version = live.current(doc)?;
    let names: Vec<Value> = doc
        .views()
        .filter_map(|view| {
            let content = version.view(view)?;
            Some(json!({ "name": view.name(), "bytes": content.len() }))
        })
        .collect();
    let mut out = json!({
        "rev": version.rev.0,
        "revisions": store.revision_count(doc)?,
        "changed": version.mtime.iso(),
        "files": names,
    });
    let counts = store.row_counts()?;
    match doc {
        DocId::Missions => {
            out["counts"] = json!({
                "pending": counts.pending,
                "in_progress": counts.in_progress,
                "done": counts.done,
                "failed": counts.failed,
                "ci": counts.ci,
                "ideas": counts.ideas,
            });
        }
        DocId::Quarantine => out["counts"] = json!({ "lines": counts.quarantine }),
        DocId::Config | DocId::File(_) => {}
    }
    Ok(out)
}

fn refusal(row: &RefusalRow) -> Value {
    json!({
        "at": row.at.iso(),
        "file": row.view.name(),
        "by": row.actor.named(),
        "program": row.actor.program,
        "pid": row.actor.pid,
        "reason": row.reason,
        "line": row.line,
        "key": row.key,
        "message": row.message,
        "hint": row.hint,
        "kept_as": row.kept_as,
        "base": row.base.map(|rev| rev.0),
    })
}

fn revision(revision: &Revision) -> Value {
    json!({
        "at": revision.at.iso(),
        "document": revision.doc.shown(),
        "rev": revision.rev.0,
        "by": revision.actor.named(),
        "program": revision.actor.program,
        "pid": revision.actor.pid,
        "summary": revision.summary,
        "overlaps": revision.overlaps,
        "basis": revision.basis,
    })
}
