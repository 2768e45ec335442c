//! The state of an instance as one JSON object: what `status --json` prints and
//! `.instancefs/status.json` shows.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::error::Result;
use super::instance::Instance;
use crate::documents::files::RuleSet;
use crate::documents::live::Live;
use crate::documents::settings::Settings;
use crate::model::{DocId, Rev};
use crate::store::{RefusalRow, Revision, Store};

/// Refusals, overlaps and stale saves that are listed, newest first.
const LISTED: usize = 10;
/// Revisions per document that are searched for overlaps and stale saves.
const SEARCHED: usize = 200;

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
/// what it counts.
pub fn describe(
    dir: &Path,
    live: &Live,
    running: Option<&Running>,
    operations: Value,
) -> Result<Value> {
    let store = live.store();
    let mut documents = Map::new();
    let (mut overlaps, mut stale) = (Vec::new(), Vec::new());
    for doc in DocId::ALL {
        documents.insert(doc.as_str().to_owned(), document(live, store, doc)?);
        for revision in store.revisions(doc, None, SEARCHED)? {
            if !revision.overlaps.is_empty() {
                overlaps.push((revision.rev, self::revision(doc, &revision)));
            }
            if revision.stale {
                stale.push((revision.rev, self::revision(doc, &revision)));
            }
        }
    }
    // Rows that wait for missions.lock are tried again here; what is left waits on.
    let waiting = running.is_some() && !live.settle()?;
    let last: Vec<Value> = store.refusals(LISTED)?.iter().map(refusal).collect();
    Ok(json!({
        "running": running.is_some(),
        "pid": running.map(|r| r.pid),
        "since": running.map(|r| &r.since),
        "version": env!("CARGO_PKG_VERSION"),
        "store": dir.display().to_string(),
        "mountpoint": running.map(|r| r.mountpoint.display().to_string()),
        "read_only": running.is_some_and(|r| r.read_only),
        "documents": documents,
        "refusals": { "count": store.refusal_count()?, "last": last },
        "waiting_rows": waiting,
        "overlaps": newest(overlaps),
        "stale_saves": newest(stale),
        "operations": operations,
        "settings_problem": settings_problem(dir),
    }))
}

/// What is wrong with `instancefs.toml` as it is now.
fn settings_problem(dir: &Path) -> Option<String> {
    let usable = Settings::load(dir).and_then(|settings| RuleSet::new(&settings));
    usable.err().map(|problem| problem.to_string())
}

/// The newest ones of all documents, newest first.
fn newest(mut listed: Vec<(Rev, Value)>) -> Vec<Value> {
    listed.sort_by_key(|(rev, _)| std::cmp::Reverse(*rev));
    listed.into_iter().take(LISTED).map(|(_, value)| value).collect()
}

/// The same of a store that no daemon serves, without changing it.
pub fn describe_idle(dir: &Path) -> Result<Value> {
    let instance = Instance::look(dir)?;
    describe(dir, &instance.live, None, Value::Null)
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
    })
}

fn revision(doc: DocId, revision: &Revision) -> Value {
    json!({
        "at": revision.at.iso(),
        "document": doc.as_str(),
        "rev": revision.rev.0,
        "by": revision.actor.named(),
        "program": revision.actor.program,
        "pid": revision.actor.pid,
        "summary": revision.summary,
        "overlaps": revision.overlaps,
    })
}
