//! `instancefs unmount`.

use std::path::Path;

use super::args::Unmount;
use super::failure::{Failure, Result};
use super::output::note;
use super::target::Target;
use crate::daemon::leave;

/// Runs the command.
pub fn run(args: &Unmount, instance: Option<&Path>) -> Result<()> {
    let not_mounted = |path: &Path| Failure::new(format!("{}: not mounted", path.display()));
    let target = match &args.mountpoint {
        Some(path) => Target::at_or_above(path)?.ok_or_else(|| not_mounted(path))?,
        None => Target::find(None, instance)?,
    };
    let Some(mountpoint) = target.mountpoint.filter(|_| target.mounted) else {
        return Err(not_mounted(args.mountpoint.as_deref().unwrap_or(&target.store)));
    };
    for warning in leave::unmount(&target.store, &mountpoint, args.force)? {
        note(&warning);
    }
    Ok(())
}
