//! `instancefs as`: a command whose processes are one writer.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;

use clap::Args;

use super::failure::{Failure, Result};
use super::target::Target;
use crate::daemon::name_writer;

/// Arguments of `as`.
#[derive(Debug, Args)]
#[command(after_help = "\
What CMD and the processes below it read and save counts as read and saved by one writer, together
with that of every other command that is run under the same NAME by the same user, wherever it hangs
in the tree of processes. For agents whose tool calls have nothing in common, such as those of
several containers or connections. It holds until CMD ends or the mount does. The instance is that of
-C, or the one at or above the current directory, which has to be mounted. Exits as CMD does; 127
when there is no such command.

Examples:
  instancefs as planner -- bash -c 'cat missions.md'
  instancefs -C ~/instance as planner -- python3 edit.py")]
pub struct As {
    /// Who it is, any text
    pub name: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Runs the command. Returns only when it cannot be started.
pub fn run(args: &As, instance: Option<&Path>) -> Result<()> {
    let target = Target::find(None, instance)?;
    if !name_writer(&target.store, &args.name)? {
        return Err(Failure::new(format!("{}: not mounted", target.store.display()))
            .hint("`instancefs mount` shows it; only a mount knows writers"));
    }
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::usage("no command"));
    };
    let error = std::process::Command::new(program).args(rest).exec();
    super::output::note(&format!("{}: {error}", Path::new(program).display()));
    std::process::exit(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 });
}
