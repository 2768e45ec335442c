//! `instancefs doctor`.

use std::path::Path;

use super::args::Doctor;
use super::failure::{Failure, Result};
use super::output::{count, line, raw};
use super::target::Target;
use crate::daemon::doctor::{Finding, Health, Machine, examine_mounts, examine_store};

/// Runs the command.
pub fn run(args: &Doctor, instance: Option<&Path>) -> Result<()> {
    let store = match args.path.as_deref().or(instance) {
        Some(path) => Some(Target::find(Some(path), None)?.store),
        None => Target::find(None, None).ok().map(|target| target.store),
    };
    let mut findings = Machine::this().examine();
    findings.extend(examine_mounts(store.as_deref()));
    if let Some(store) = &store {
        findings.extend(examine_store(store));
    }
    if args.json {
        let json = serde_json::to_string_pretty(&findings)
            .map_err(|e| Failure::new(format!("no JSON: {e}")))?;
        raw(format!("{json}\n"));
    } else {
        findings.iter().for_each(print);
    }
    match findings.iter().filter(|f| f.health == Health::Bad).count() as u64 {
        0 => Ok(()),
        n => Err(Failure::new(format!("{} found", count(n, "fault")))),
    }
}

fn print(finding: &Finding) {
    let health = match finding.health {
        Health::Good => "ok",
        Health::Limited => "note",
        Health::Bad => "BAD",
    };
    line(&format!("{health:<5} {:<13} {}", finding.what, finding.found));
    if !finding.todo.is_empty() {
        line(&format!("      {:<13} -> {}", "", finding.todo));
    }
}
