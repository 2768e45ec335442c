//! `instancefs restore`.

use std::path::Path;

use super::args::Restore;
use super::doc::Doc;
use super::failure::{Failure, Result};
use super::output::line;
use crate::daemon::history::{self, Restored};

/// Runs the command.
pub fn run(args: &Restore, instance: Option<&Path>) -> Result<()> {
    let doc = Doc::find(&args.doc, instance)?;
    let Some(rev) = doc.rev else {
        return Err(Failure::usage(format!("{}: say which revision, DOC@REV", args.doc))
            .hint(format!("`instancefs log {}` lists them", doc.name())));
    };
    let old = doc.at(&doc.look()?, rev)?;
    let view = doc.view_in(&old);
    // A managed file that was not there is removed by going back.
    if doc.id.file().is_none() {
        doc.text(&old)?;
    }
    match history::restore(&doc.target.store, view, rev)? {
        Restored::Done { rev: now, changed: true } => {
            line(&format!("{} restored from {rev}, as revision {now}", doc.name()));
            Ok(())
        }
        Restored::Done { changed: false, .. } => {
            line(&format!("{} is as it was in {rev} already", doc.name()));
            Ok(())
        }
        Restored::Refused(refusal) => {
            let failure = Failure::new(format!("{}: not restored: {refusal}", doc.name()));
            Err(if refusal.hint.is_empty() { failure } else { failure.hint(refusal.hint) })
        }
    }
}
