//! `instancefs unmount`.

use std::path::{Path, PathBuf};

use super::args::Unmount;
use super::failure::{Failure, Result};
use super::output::note;
use super::target::Target;
use crate::daemon::{leave, lock, users};

/// Runs the command.
pub fn run(args: &Unmount, instance: Option<&Path>) -> Result<()> {
    let not_mounted = |path: &Path| Failure::new(format!("{}: not mounted", path.display()));
    let target = match &args.mountpoint {
        Some(path) => Target::at_or_above(path)?.ok_or_else(|| not_mounted(path))?,
        None => Target::find(None, instance)?,
    };
    // A daemon whose mount somebody else has taken out of the tree lives on while files in it
    // are open.
    let hidden =
        lock::holder(&target.store).and_then(|holder| holder.mountpoint).map(PathBuf::from);
    let Some(mountpoint) = target.mountpoint.filter(|_| target.mounted).or(hidden) else {
        return Err(not_mounted(args.mountpoint.as_deref().unwrap_or(&target.store)));
    };
    // R11: it leaves when asked, whoever is inside.
    let users = users::of(&mountpoint);
    let warnings = leave::unmount(&target.store, &mountpoint, true, args.force)?;
    for (pid, program) in users {
        note(&format!("was still used by {pid} ({program})"));
    }
    for warning in warnings {
        note(&warning);
    }
    Ok(())
}
