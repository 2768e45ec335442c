//! `instancefs missions`.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::doc::Doc;
use super::failure::{Failure, Result};
use super::output::{line, raw};
use crate::documents::missions::{Entry, Mission, MissionsState};

/// Arguments of `missions`.
#[derive(Debug, Args)]
#[command(after_help = "\
The number of a mission stays the same whatever is edited, moved or replaced around it, and is never
given to another one; missions.md does not show it. Missions are listed in the order of the file.

Examples:
  instancefs missions
  instancefs missions --state pending --project web
  instancefs missions 42 --json
  instancefs missions --at 120")]
pub struct Missions {
    /// Only these, by number: 42 or #42
    pub numbers: Vec<String>,
    /// Only those in this state: pending, in_progress, done or failed; can be repeated
    #[arg(long, value_parser = ["pending", "in_progress", "done", "failed"])]
    pub state: Vec<String>,
    /// Only those of this project
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,
    /// As of this revision [default: now]
    #[arg(long, value_name = "REV")]
    pub at: Option<u64>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Missions, instance: Option<&Path>) -> Result<()> {
    let wanted = args.numbers.iter().map(|n| number(n)).collect::<Result<Vec<u64>>>()?;
    let name = args.at.map_or("missions".to_owned(), |rev| format!("missions@{rev}"));
    let doc = Doc::find(&name, instance)?;
    let opened = doc.look()?;
    let version = doc.version(&opened)?;
    let state = MissionsState::of(&version.state)
        .ok_or_else(|| Failure::new("the store has no missions".to_owned()))?;
    let mut found = Vec::new();
    for entry in state.entries() {
        let (Some(mission), Some(of)) = (entry.mission(), entry.section.state()) else { continue };
        let fits = (wanted.is_empty() || wanted.contains(&entry.id))
            && (args.state.is_empty() || args.state.iter().any(|s| s == of))
            && args.project.as_ref().is_none_or(|p| *p == mission.project);
        if !fits {
            continue;
        }
        found.push(entry.id);
        if args.json {
            raw(format!("{}\n", describe(entry, mission, of)));
        } else {
            line(&shown(entry, mission, of));
        }
    }
    match wanted.iter().find(|n| !found.contains(n)) {
        Some(missing) => Err(Failure::new(format!("there is no such mission: #{missing}"))
            .hint("`instancefs log missions.md` tells what became of it")),
        None => Ok(()),
    }
}

fn number(text: &str) -> Result<u64> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    digits.parse().map_err(|_| Failure::usage(format!("{text}: not the number of a mission")))
}

fn describe(entry: &Entry, mission: &Mission, state: &str) -> Value {
    json!({
        "number": entry.id,
        "state": state,
        "text": mission.text,
        "project": mission.project,
        "complexity": mission.complexity,
        "queued": mission.times.queued,
        "started": mission.times.started,
        "completed": mission.times.completed,
        "cause": mission.times.cause,
    })
}

/// The first line of the text; more lines are only counted.
fn shown(entry: &Entry, mission: &Mission, state: &str) -> String {
    let mut lines = mission.text.lines();
    let first = lines.next().unwrap_or_default();
    let more = match lines.count() {
        0 => String::new(),
        n => format!(" (+{n} lines)"),
    };
    format!("{:<6} {state:<12} {first}{more}", format!("#{}", entry.id))
}
