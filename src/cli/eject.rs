//! `instancefs eject`.

use super::args::Eject;
use super::failure::{Failure, Result};
use super::output::{line, note};
use crate::daemon::{adopt, leave, mounts};

/// Runs the command.
pub fn run(args: &Eject) -> Result<()> {
    let dir = adopt::plain_path(&args.dir)?;
    let mount = mounts::at(&dir).map_err(|e| Failure::new(format!("{}: {e}", dir.display())))?;
    if let Some(mount) = mount {
        if mount.store != adopt::store_beside(&dir) {
            let (dir, store) = (dir.display(), mount.store.display());
            return Err(Failure::new(format!("{dir}: shows {store}, which adopt did not make"))
                .hint(format!(
                    "after `instancefs unmount {dir}`, {store} is an ordinary directory"
                )));
        }
        for warning in leave::unmount(&mount.store, &dir, args.force, args.force)? {
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
