//! `instancefs export`.

use super::args::Export;
use super::failure::Result;
use super::output::{count, line, note};
use super::target::Target;
use crate::daemon::export;

/// Runs the command.
pub fn run(args: &Export) -> Result<()> {
    let target = Target::find(Some(&args.store), None)?;
    let copied = export::export(&target.store, &args.dir)?;
    for warning in &copied.warnings {
        note(warning);
    }
    line(&format!(
        "{} exported to {}: {}, {}",
        target.store.display(),
        args.dir.display(),
        count(copied.files, "file"),
        count(copied.bytes, "byte")
    ));
    Ok(())
}
