//! `instancefs blame`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::args::Blame;
use super::doc::Doc;
use super::failure::{Failure, Result};
use super::log::who;
use super::output::{arrived, shown};
use crate::model::Rev;
use crate::store::Revision;
use crate::vfs::ports::Documents;

/// Runs the command.
pub fn run(args: &Blame, instance: Option<&Path>) -> Result<()> {
    let doc = Doc::find(&args.doc, instance)?;
    if doc.rev.is_some() {
        return Err(Failure::usage("blame is about the current version, without @REV"));
    }
    let instance = doc.look()?;
    let current = instance.documents.current(doc.id)?;
    doc.text(&current)?;
    let view = doc.view_in(&current);
    let lines = instance.documents.blame(view, args.limit)?;
    let mut revisions: HashMap<Rev, Option<Revision>> = HashMap::new();
    for line in &lines {
        if let Entry::Vacant(entry) = revisions.entry(line.rev) {
            entry.insert(instance.store.revision(doc.id, line.rev)?);
        }
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (n, line) in lines.iter().enumerate() {
        let revision = revisions.get(&line.rev).and_then(Option::as_ref);
        let text = String::from_utf8_lossy(&line.text);
        let text = text.trim_end_matches(['\n', '\r']);
        let printed = if args.json {
            json!({
                "line": n + 1,
                "rev": line.rev.0,
                "older": line.older,
                "at": revision.map(|r| r.at.iso()),
                "program": revision.map(|r| &r.actor.program),
                "pid": revision.map(|r| r.actor.pid),
                "via": revision.map(|r| r.actor.via.as_str()),
                "text": text,
            })
            .to_string()
        } else {
            let mark = if line.older { "^" } else { "" };
            let by =
                revision.map_or_else(String::new, |r| format!("{} {}", r.at.iso(), who(&r.actor)));
            shown(&format!("{mark}{} {by} {}) {text}", line.rev, n + 1))
        };
        if !arrived(writeln!(out, "{printed}")) {
            return Ok(());
        }
    }
    arrived(out.flush());
    Ok(())
}
