//! `instancefs show`.

use std::path::Path;

use super::args::Show;
use super::doc::Doc;
use super::failure::Result;
use super::output;

/// Runs the command.
pub fn run(args: &Show, instance: Option<&Path>) -> Result<()> {
    let doc = Doc::find(&args.doc, instance)?;
    let instance = doc.look()?;
    let version = doc.version(&instance)?;
    output::raw(doc.text(&version)?);
    Ok(())
}
