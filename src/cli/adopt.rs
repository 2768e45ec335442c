//! `instancefs adopt`.

use std::time::Duration;

use super::args::Adopt;
use super::failure::Result;
use super::output::{line, note};
use super::{init, mount};
use crate::daemon::adopt;
use crate::daemon::mounts::{self, Liveness};

/// Runs the command.
pub fn run(args: &Adopt) -> Result<()> {
    let dir = adopt::plain_path(&args.dir)?;
    let adopted = adopt::adopt(&dir)?;
    let (dir, store) = (adopted.dir.display(), adopted.store.display());
    match &adopted.imported {
        Some(imported) => {
            line(&format!("{dir} is now a store at {store}"));
            init::report(imported, false);
        }
        None => line(&format!("{dir} is adopted already, its store is {store}")),
    }
    for (pid, program) in &adopted.users {
        note(&format!("process {pid} ({program}) still uses the directory, now at {store}"));
    }
    let mounted = mounts::at(&adopted.dir).ok().flatten().is_some()
        && mounts::probe(&adopted.dir, Duration::from_secs(5)) != Liveness::Dead;
    if args.mount && !mounted {
        mount::mount(&adopted.store, &adopted.dir).map_err(|failure| {
            let more = failure.hint.as_ref().map(|h| format!("{h}; ")).unwrap_or_default();
            failure.hint(format!("{more}`instancefs eject {dir}` puts the directory back"))
        })?;
        line(&format!("mounted at {dir}"));
    } else if !mounted {
        line(&format!("mount it with `instancefs mount {store} {dir}`"));
    }
    Ok(())
}
