//! `instancefs eject`.

use super::args::Eject;
use super::failure::Result;
use super::output::{line, note};
use crate::daemon::{adopt, leave, mounts};

/// Runs the command.
pub fn run(args: &Eject) -> Result<()> {
    let dir = adopt::plain_path(&args.dir)?;
    let mount =
        mounts::at(&dir).map_err(|e| super::Failure::new(format!("{}: {e}", dir.display())))?;
    if let Some(mount) = mount {
        for warning in leave::unmount(&mount.store, &dir, args.force)? {
            note(&warning);
        }
    }
    let ejected = adopt::eject(&dir, args.purge)?;
    for taken in &ejected.taken_in {
        note(&taken.to_string());
    }
    let dir = ejected.dir.display();
    if ejected.already {
        line(&format!("{dir} is an ordinary directory already"));
    } else {
        line(&format!("{dir} is an ordinary directory again"));
    }
    Ok(())
}
