//! Which instance a command means: `-C PATH`, `INSTANCEFS_DIR`, or the nearest store or mount
//! at or above the current directory.

use std::path::{Path, PathBuf};

use super::failure::{Failure, Result};
use crate::daemon::{self, mounts};

/// An instance that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its store, absolute and without symlinks.
    pub store: PathBuf,
    /// Where it is mounted, or (an adopted directory) would be.
    pub mountpoint: Option<PathBuf>,
    /// It is in the table of mounts; whether it answers is another question.
    pub mounted: bool,
}

impl Target {
    /// The instance meant by an argument, else by `-C`, else by the current directory.
    pub fn find(argument: Option<&Path>, global: Option<&Path>) -> Result<Target> {
        match argument.or(global) {
            Some(path) => Target::at_or_above(path)?.ok_or_else(|| {
                let message = format!("{}: no store and no mount of instancefs", path.display());
                Failure::new(message).hint(
                    "`instancefs init` makes a store, `adopt` turns an existing directory into one",
                )
            }),
            None => {
                let here = std::env::current_dir()
                    .map_err(|e| Failure::new(format!("the current directory: {e}")))?;
                Target::at_or_above(&here)?.ok_or_else(|| {
                    Failure::new(format!(
                        "{}: no store and no mount at or above it",
                        here.display()
                    ))
                    .hint("give one with -C PATH or INSTANCEFS_DIR")
                })
            }
        }
    }

    /// The nearest instance at or above `path`; a path that does not exist is an error.
    pub fn at_or_above(path: &Path) -> Result<Option<Target>> {
        let failed = |e: std::io::Error| Failure::new(format!("{}: {e}", path.display()));
        // The table of mounts first: a dead mount must not be touched.
        let typed = std::path::absolute(path).map_err(failed)?;
        if let Some(mount) = mounts::containing(&typed).map_err(failed)? {
            return Ok(Some(Target::mounted(mount)));
        }
        let real = mounts::resolve(path).map_err(failed)?;
        if let Some(mount) = mounts::containing(&real).map_err(failed)? {
            return Ok(Some(Target::mounted(mount)));
        }
        for dir in real.ancestors() {
            if daemon::is_marked(dir) || daemon::is_store(dir) {
                return Ok(Some(Target::of_store(dir).map_err(failed)?));
            }
            // An adopted directory that is not mounted: empty, its store beside it.
            let beside = daemon::adopt::store_beside(dir);
            if daemon::is_store(&beside) {
                let mut target = Target::of_store(&beside).map_err(failed)?;
                target.mountpoint.get_or_insert_with(|| dir.to_owned());
                return Ok(Some(target));
            }
        }
        Ok(None)
    }

    fn mounted(mount: mounts::OurMount) -> Target {
        Target { store: mount.store, mountpoint: Some(mount.mountpoint), mounted: true }
    }

    fn of_store(store: &Path) -> std::io::Result<Target> {
        let mount = mounts::of_store(store)?.pop();
        let mounted = mount.is_some();
        let mountpoint = mount.map(|m| m.mountpoint);
        Ok(Target { store: store.to_owned(), mountpoint, mounted })
    }
}
