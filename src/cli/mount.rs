//! `instancefs mount`.

use std::ffi::OsString;
use std::path::Path;

use super::args::Mount;
use super::failure::{Failure, Result};
use super::output::note;
use crate::daemon::leave;
use crate::daemon::ready::{self, Outcome, Ready};
use crate::daemon::serve::{self, Settings};

/// Runs the command.
pub fn run(args: &Mount) -> Result<()> {
    if args.foreground || args.ready_fd.is_some() {
        return serve(args);
    }
    let settings = settings(args)?;
    // What can be said without a daemon is said here.
    serve::check(&settings)?;
    background(&settings)
}

/// Starts the daemon and waits until the mount answers.
pub fn background(settings: &Settings) -> Result<()> {
    let mut daemon: Vec<OsString> =
        vec!["mount".into(), settings.store.clone().into(), settings.mountpoint.clone().into()];
    if settings.allow_other {
        daemon.push("--allow-other".into());
    }
    if settings.read_only {
        daemon.push("--read-only".into());
    }
    if let Some(limit) = settings.config_version_limit {
        daemon.push(format!("--config-version-limit={limit}").into());
    }
    if !settings.passthrough {
        daemon.push("--no-passthrough".into());
    }
    if settings.strict {
        daemon.push("--strict".into());
    }
    let outcome = ready::start(&daemon, &settings.store);
    if !matches!(outcome, Ok(Outcome::Ready { .. })) {
        // One that was killed on the way could not clean up after itself.
        let _ = leave::detach_dead(&settings.mountpoint);
    }
    match outcome? {
        Outcome::Ready { notes } => {
            notes.iter().for_each(|text| note(text));
            Ok(())
        }
        Outcome::Failed { code, message, hint } => Err(Failure::told(code, message, hint)),
    }
}

/// Is the daemon.
fn serve(args: &Mount) -> Result<()> {
    let mut ready = match args.ready_fd {
        Some(fd) => Ready::through(fd)
            .map_err(|e| Failure::usage(format!("--ready-fd {fd}: not open: {e}")))?,
        None => Ready::nobody(),
    };
    let result = settings(args).and_then(|s| serve::run(&s, &mut ready).map_err(Failure::from));
    if let Err(failure) = &result {
        if ready.awaited() {
            log::error!("{}", failure.message);
        }
        ready.tell(&Outcome::Failed {
            code: failure.exit as u8,
            message: failure.message.clone(),
            hint: failure.hint.clone().unwrap_or_default(),
        });
    }
    result
}

fn settings(args: &Mount) -> Result<Settings> {
    Ok(Settings {
        store: serve::store_path(&args.store)?,
        mountpoint: serve::mountpoint_path(&args.mountpoint)?,
        allow_other: args.allow_other,
        read_only: args.read_only,
        config_version_limit: args.config_version_limit,
        passthrough: !args.no_passthrough,
        strict: args.strict,
    })
}

/// Mounts a store with the ordinary settings.
pub fn mount(store: &Path, mountpoint: &Path) -> Result<()> {
    let settings = Settings {
        store: store.to_owned(),
        mountpoint: mountpoint.to_owned(),
        allow_other: false,
        read_only: false,
        config_version_limit: None,
        passthrough: true,
        strict: false,
    };
    serve::check(&settings)?;
    background(&settings)
}
