//! `instancefs show`.

use std::io::ErrorKind;
use std::path::Path;

use super::args::Show;
use super::doc::Doc;
use super::failure::{Failure, Result};
use super::output;
use crate::daemon::history;

/// Runs the command.
pub fn run(args: &Show, instance: Option<&Path>) -> Result<()> {
    let doc = Doc::parse(&args.doc)?;
    let instance = history::look(&doc.target(instance)?.store)?;
    let version = doc.version(&instance)?;
    match output::bytes(&doc.text(&version)?) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {e}")))
        }
        _ => Ok(()),
    }
}
