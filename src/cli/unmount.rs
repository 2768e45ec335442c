//! `instancefs unmount`.

use std::path::Path;

use super::args::Unmount;
use super::failure::{Failure, Result};
use super::output::note;
use super::target::Target;
use crate::daemon::leave;

/// Runs the command.
pub fn run(args: &Unmount, instance: Option<&Path>) -> Result<()> {
    let target = Target::find(args.mountpoint.as_deref(), instance)?;
    let Some(mountpoint) = target.mountpoint.filter(|_| target.mounted) else {
        return Err(Failure::new(format!("{}: not mounted", target.store.display())));
    };
    for warning in leave::unmount(&target.store, &mountpoint, args.force)? {
        note(&warning);
    }
    Ok(())
}
