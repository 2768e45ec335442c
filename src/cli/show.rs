//! `instancefs show`.

use std::path::Path;

use super::args::Show;
use super::doc::Doc;
use super::failure::Result;
use super::output;
use crate::daemon::history;

/// Runs the command.
pub fn run(args: &Show, instance: Option<&Path>) -> Result<()> {
    let doc = Doc::parse(&args.doc)?;
    let instance = history::look(&doc.target(instance)?.store)?;
    let version = doc.version(&instance)?;
    output::raw(doc.text(&version)?);
    Ok(())
}
