//! `instancefs why`.

use std::path::Path;

use super::args::Why;
use super::failure::{Failure, Result};
use super::log::{json, printed};
use super::output::line;
use super::target::Target;
use crate::daemon::history;
use crate::model::{Candidate, Rev, Rule};
use crate::store::Revision;

/// Runs the command.
pub fn run(args: &Why, instance: Option<&Path>) -> Result<()> {
    let instance = history::look(&Target::find(None, instance)?.store, None)?;
    let before = Rev(args.rev.saturating_add(1));
    let page = instance.store.history(None, Rev(0), Some(before), 1)?;
    let Some(revision) = page.into_iter().find(|r| r.rev == Rev(args.rev)) else {
        return Err(Failure::new(format!("there is no revision {}", args.rev))
            .hint("`instancefs log` lists them"));
    };
    if args.json {
        line(&json(&revision).to_string());
        return Ok(());
    }
    line(&printed(&revision, false));
    match revision.base {
        Some(base) => line(&format!("merge base: revision {base}")),
        None => line("merge base: none"),
    }
    let rule = revision.basis.as_ref().map_or_else(|| unsaid(&revision), |b| b.rule);
    line(&format!("rule: {}: {}", rule.as_str(), rule.explained()));
    let Some(basis) = &revision.basis else { return Ok(()) };
    if basis.undo {
        line("undo: the text is an older version, written back");
    }
    if basis.others > 0 {
        line(&format!("kept: {} entries that the text did not have", basis.others));
    }
    if !basis.candidates.is_empty() {
        line("candidates, the one met last first:");
    }
    for candidate in &basis.candidates {
        line(&described(candidate));
    }
    Ok(())
}

/// Of a revision without a record: an append, or another program's change.
fn unsaid(revision: &Revision) -> Rule {
    use crate::model::Via;
    match revision.actor.via {
        Via::Mount => Rule::Append,
        Via::Command => Rule::Command,
        Via::Sql | Via::Store | Via::Import => Rule::Outside,
    }
}

fn described(candidate: &Candidate) -> String {
    let Candidate { rev, own_text, distance, kept } = candidate;
    let what = match own_text {
        true => format!("a text that its writer had at revision {rev}"),
        false => format!("revision {rev}"),
    };
    format!("  {what}: {distance} entries differ, {kept} are in the text")
}
