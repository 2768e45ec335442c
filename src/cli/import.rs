//! `instancefs import`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::failure::{Failure, Result};
use super::output::{count, line, note, raw, shown};
use super::target::Target;
use crate::foreign::Part;
use crate::foreign::import::{self, Progress, Report, Request};

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  instancefs import atomic-desktop --source ~/.atomic-desktop
  instancefs -C ~/instance import atomic-desktop --source /mnt/old --dry-run")]
pub struct Import {
    /// From which program
    #[command(subcommand)]
    pub from: From,
}

/// The programs whose state can be taken in.
#[derive(Debug, Subcommand)]
pub enum From {
    /// Merge sessions, tasks, notes and profile of another state directory into this one
    AtomicDesktop(AtomicDesktop),
}

/// Arguments of `import atomic-desktop`.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads sessions.sqlite, tasks.sqlite and memory.sqlite of DIR, also while a program works with
them, and never writes there. What the store has already stays: sessions and tasks are known by
id, notes by their text, facts of the profile by key; so a second run imports nothing. A session
that was running arrives as cancelled, a running task as pending. Works with and without a running
mount, and waits for programs that are writing. The four parts are independent: one that fails
leaves the others alone, and has changed nothing. Exits 0 if all went well.

Examples:
  instancefs import atomic-desktop --source ~/.atomic-desktop
  instancefs import atomic-desktop --source ~/.atomic-desktop --json | jq .parts")]
pub struct AtomicDesktop {
    /// The other state directory
    #[arg(long, value_name = "DIR")]
    pub source: PathBuf,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Only say what would be imported
    #[arg(long)]
    pub dry_run: bool,
}

/// Runs the command.
pub fn run(args: &Import, instance: Option<&Path>) -> Result<()> {
    let From::AtomicDesktop(args) = &args.from;
    let report = match Target::find(None, instance) {
        Ok(target) => {
            let request =
                Request { source: args.source.clone(), store: target.store, dry_run: args.dry_run };
            let mut meter = Meter::default();
            let report = import::run(&request, &mut meter);
            meter.clear();
            report
        }
        Err(failure) if args.json => Report::failed(failure.message),
        Err(failure) => return Err(failure),
    };
    if args.json {
        raw(format!("{}\n", described(&report)));
        return if report.ok() { Ok(()) } else { Err(Failure::silent()) };
    }
    for warning in &report.warnings {
        note(warning);
    }
    let done = if args.dry_run { "would be imported" } else { "imported" };
    for part in Part::ALL {
        let counts = report.counts(part);
        line(&format!(
            "{:<9} {} {done}, {} skipped",
            part.name(),
            counts.imported,
            count(counts.skipped, "row")
        ));
    }
    match error(&report) {
        None => Ok(()),
        Some(error) => Err(Failure::new(error)),
    }
}

fn error(report: &Report) -> Option<String> {
    (!report.ok()).then(|| report.errors.join("; "))
}

fn described(report: &Report) -> Value {
    let parts: Map<String, Value> = Part::ALL
        .into_iter()
        .map(|part| {
            let counts = report.counts(part);
            let value = json!({ "imported": counts.imported, "skipped": counts.skipped });
            (part.name().to_owned(), value)
        })
        .collect();
    json!({
        "ok": report.ok(),
        "parts": parts,
        "warnings": report.warnings,
        "error": error(report),
    })
}

/// Time between two changes of the line on the terminal.
const EVERY: Duration = Duration::from_millis(100);

/// One line on a terminal that says how far it is; nothing elsewhere.
#[derive(Default)]
struct Meter {
    last: Option<(Part, Instant)>,
}

impl Meter {
    fn show(&mut self, part: Part, text: &str) {
        let mut err = std::io::stderr().lock();
        if err.is_terminal() {
            let _ = write!(err, "\r\x1b[K{}: {}", part.name(), shown(text));
            let _ = err.flush();
            self.last = Some((part, Instant::now()));
        }
    }

    fn clear(&mut self) {
        if self.last.take().is_some() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Progress for Meter {
    fn waiting(&mut self, part: Part) {
        self.show(part, "waiting for the database");
    }

    fn done(&mut self, part: Part, rows: u64, of: u64) {
        let soon = self.last.is_some_and(|(p, at)| p == part && at.elapsed() < EVERY);
        if rows == 0 || rows == of || !soon {
            self.show(part, &format!("{rows} of {of} rows"));
        }
    }
}
