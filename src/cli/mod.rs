//! What was typed: arguments, commands, output and exit codes.
//!
//! One file per command; what a command does to a store or a mount is in the daemon's room.

mod adopt;
mod args;
mod blame;
mod check;
mod config;
mod diff;
mod doc;
mod doctor;
mod eject;
mod events;
mod export;
mod failure;
mod follow;
mod import;
mod init;
mod kinds;
mod lines;
mod lock;
mod log;
mod missions;
mod mount;
mod named;
mod output;
mod restore;
mod retention;
mod scratch;
mod sessions;
mod show;
mod status;
mod target;
mod under;
mod unmount;
mod wait;
mod watch;
mod why;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
pub use failure::{Exit, Failure};

/// Runs the command line of this process. Exit codes: 0 done, 1 failure, 2 wrong usage (also
/// from the parser), 3 conflict, 4 a refused save that was waited for.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli).and_then(|()| output::finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn run(cli: &Cli) -> failure::Result<()> {
    // An empty INSTANCEFS_DIR is none.
    let instance = cli.instance.as_deref().filter(|path| !path.is_empty()).map(Path::new);
    match &cli.command {
        Command::Init(args) => init::run(args),
        Command::Mount(args) => mount::run(args),
        Command::Unmount(args) => unmount::run(args, instance),
        Command::Status(args) => status::run(args, instance),
        Command::Doctor(args) => doctor::run(args, instance),
        Command::Adopt(args) => adopt::run(args),
        Command::Eject(args) => eject::run(args),
        Command::Export(args) => export::run(args),
        Command::Log(args) => log::run(args, instance),
        Command::Show(args) => show::run(args, instance),
        Command::Diff(args) => diff::run(args, instance),
        Command::Restore(args) => restore::run(args, instance),
        Command::Blame(args) => blame::run(args, instance),
        Command::Kinds(args) => kinds::run(args, instance),
        Command::Check(args) => check::run(args, instance),
        Command::Why(args) => why::run(args, instance),
        Command::As(args) => named::run(args, instance),
        Command::Wait(args) => wait::run(args, instance),
        Command::Watch(args) => watch::run(args, instance),
        Command::Missions(args) => missions::run(args, instance),
        Command::Config(args) => config::run(args, instance),
        Command::Retention(args) => retention::run(args, instance),
        Command::Sessions(args) => sessions::run(args, instance),
        Command::Lock(args) => lock::run(args, instance),
        Command::Import(args) => import::run(args, instance),
        Command::Scratch(args) => scratch::run(args),
        Command::MarkdownHelp => {
            output::raw(markdown());
            Ok(())
        }
    }
}

/// The reference of all commands, `docs/CLI.md`.
fn markdown() -> String {
    let options = clap_markdown::MarkdownOptions::new()
        .title("instancefs commands".to_owned())
        .show_footer(false);
    fence_examples(&clap_markdown::help_markdown_custom::<Cli>(&options))
}

/// The lines of examples as code, which in a help text are only indented.
fn fence_examples(markdown: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for line in markdown.lines() {
        let example = line.strip_prefix("  ").filter(|_| inside);
        if inside && example.is_none() {
            out.push_str("```\n");
            inside = false;
        }
        out.push_str(example.unwrap_or(line));
        out.push('\n');
        if line == "Examples:" {
            out.push_str("\n```sh\n");
            inside = true;
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let help = command.get_after_help().map(|h| h.to_string()).unwrap_or_default();
            assert!(help.contains("Examples:\n  "), "{}", command.get_name());
        }
    }
}
