//! `instancefs log`, and how a revision is printed.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::args::Log;
use super::doc::Doc;
use super::events;
use super::failure::{Failure, Result};
use super::output::{arrived, count, shown};
use super::target::Target;
use crate::daemon::{Instance, history};
use crate::model::{Actor, Basis, DocId, Rev, Rule};
use crate::store::{RefusalRow, Revision};

/// Revisions that are read at once.
const PAGE: usize = 500;

/// Runs the command.
pub fn run(args: &Log, instance: Option<&Path>) -> Result<()> {
    let doc = args.doc.as_deref().map(|doc| Doc::find(doc, instance)).transpose()?;
    if doc.as_ref().is_some_and(|d| d.rev.is_some()) {
        let what = "log lists all revisions, without @REV";
        return Err(Failure::usage(what).hint("--since REV lists those after it"));
    }
    let instance = match &doc {
        Some(doc) => doc.look()?,
        None => history::look(&Target::find(None, instance)?.store, None)?,
    };
    let id = doc.map(|d| d.id);
    let since = Rev(args.since.unwrap_or(0));
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut before = None;
    let mut without_effect = without_effect(args, &instance, id)?.into_iter().peekable();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    while left > 0 {
        let page = instance.store.history(id, since, before, left.min(PAGE))?;
        let Some(last) = page.last() else { break };
        before = Some(last.rev);
        left -= page.len();
        for revision in &page {
            while let Some(row) = without_effect.next_if(|row| row.at >= revision.at) {
                if !arrived(writeln!(out, "{}", shown(&events::line(&row)))) {
                    return Ok(());
                }
            }
            if !arrived(writeln!(out, "{}", printed(revision, args.json))) {
                return Ok(());
            }
        }
    }
    arrived(out.flush());
    Ok(())
}

/// Saves that were taken and have changed nothing, newest first; for people only.
fn without_effect(args: &Log, instance: &Instance, id: Option<DocId>) -> Result<Vec<RefusalRow>> {
    if args.json {
        return Ok(Vec::new());
    }
    let mut rows = instance.store.refusals(PAGE)?;
    rows.retain(|r| events::is_unchanged(r) && id.is_none_or(|id| r.view.doc() == id));
    Ok(rows)
}

/// One line for a revision.
pub fn printed(revision: &Revision, as_json: bool) -> String {
    if as_json { json(revision).to_string() } else { shown(&line(revision)) }
}

/// A revision as a JSON object.
pub fn json(r: &Revision) -> Value {
    json!({
        "rev": r.rev.0,
        "document": r.doc.shown(),
        "at": r.at.iso(),
        "program": r.actor.program,
        "pid": r.actor.pid,
        "session": r.actor.session,
        "uid": r.actor.uid,
        "via": r.actor.via.as_str(),
        "base": r.base.map(|b| b.0),
        "summary": r.summary,
        "overlaps": r.overlaps,
        "basis": r.basis,
    })
}

/// Who made it, for people.
pub fn who(actor: &Actor) -> String {
    let program = if actor.program.is_empty() { "?" } else { &actor.program };
    match (actor.pid, actor.session) {
        (0, _) => format!("another program ({})", actor.via.as_str()),
        (pid, 0) => format!("{program} (pid {pid}, {})", actor.via.as_str()),
        (pid, sid) => format!("{program} (pid {pid}, session {sid}, {})", actor.via.as_str()),
    }
}

/// What is worth knowing of how the merge base was found: `blind`, `undo`, what the text did not have.
/// The one place that says it to people.
pub fn notable(basis: &Basis) -> Option<String> {
    let mut said = Vec::new();
    match basis.rule {
        Rule::Blind => said.push("blind".to_owned()),
        Rule::Unlinked => said.push("replaced".to_owned()),
        Rule::Stranger => said.push("base by text alone".to_owned()),
        _ => {}
    }
    if basis.undo {
        said.push("undo".to_owned());
    }
    if basis.others > 0 {
        said.push(format!("kept {} that the text did not have", basis.others));
    }
    (!said.is_empty()).then(|| said.join(", "))
}

fn line(r: &Revision) -> String {
    let mut text = format!("{} {} {} by {}", r.rev, r.at.iso(), r.doc.shown(), who(&r.actor));
    if let Some(base) = r.base {
        text.push_str(&format!(" on {base}"));
    }
    if !r.summary.is_empty() {
        text.push_str(&format!(": {}", r.summary));
    }
    if !r.overlaps.is_empty() {
        let what: Vec<&str> = r.overlaps.iter().map(|o| o.what.as_str()).collect();
        let many = count(what.len() as u64, "overlap");
        text.push_str(&format!(" [{many}: {}]", what.join(", ")));
    }
    if let Some(said) = r.basis.as_ref().and_then(notable) {
        text.push_str(&format!(" [{said}]"));
    }
    text
}
