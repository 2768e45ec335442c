//! `instancefs init`.

use super::args::Init;
use super::failure::Result;
use super::output::{count, line, note};
use crate::daemon::import::{self, How, Imported};

/// Runs the command.
pub fn run(args: &Init) -> Result<()> {
    match import::init(&args.store, args.from.as_deref())? {
        Some(imported) => {
            line(&format!("store {} made", args.store.display()));
            report(&imported, args.from.is_some());
        }
        None => line(&format!("{} is a store already, nothing to do", args.store.display())),
    }
    Ok(())
}

/// Says what was taken in.
pub fn report(imported: &Imported, copied: bool) {
    if imported.database {
        line("missions.db: taken over as it is");
    }
    for file in &imported.files {
        let name = file.view.name();
        let size = count(file.bytes, "byte");
        line(&match &file.how {
            How::Taken => format!("{name}: taken in, {size}"),
            How::Merged => format!("{name}: newer than missions.db, merged with it"),
            How::Older(kept) => {
                format!("{name}: older than missions.db, not taken in, its text is in {kept}")
            }
            How::Partly(kept) => {
                format!("{name}: taken in but for some lines, its whole text is in {kept}")
            }
            How::Same => format!("{name}: taken in, says what is there already"),
            How::Empty => format!("{name}: empty, nothing to take in"),
        });
    }
    for file in &imported.files {
        if let Some(target) = &file.link {
            let (name, target) = (file.view.name(), target.display());
            note(&format!("{name} was a symlink to {target}; it becomes a file of its own"));
        }
    }
    if !imported.layout.is_empty() {
        let lines = count(imported.layout.len() as u64, "line");
        line(&format!("missions.md: {lines} kept as layout, no missions:"));
        for (number, text) in &imported.layout {
            line(&format!("  line {number}: {text}"));
        }
    }
    let n = &imported.rows;
    line(&format!(
        "missions: {} pending, {} in progress, {} done, {} failed, {} CI, {} ideas, {} in \
         quarantine",
        n.pending, n.in_progress, n.done, n.failed, n.ci, n.ideas, n.quarantine
    ));
    if copied {
        let c = &imported.copied;
        line(&format!(
            "copied: {}, {}, {}, {}",
            count(c.files, "file"),
            if c.directories == 1 {
                "1 directory".to_owned()
            } else {
                format!("{} directories", c.directories)
            },
            count(c.symlinks, "symlink"),
            count(c.bytes, "byte"),
        ));
    }
    for warning in &imported.copied.warnings {
        note(warning);
    }
}
