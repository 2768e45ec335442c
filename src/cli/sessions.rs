//! `instancefs sessions`.

use std::path::Path;

use serde_json::json;

use super::args::Sessions;
use super::failure::{Failure, Result};
use super::output::{line, raw};
use super::target::Target;
use crate::daemon::leases::Desk;

/// Variables that name a process whose marker counts as the caller's own.
const PARENTS: [&str; 2] = ["INSTANCEFS_SESSION_PARENT_PID", "ATOMIC_AGENT_SESSION_PARENT_PID"];

/// Runs the command.
pub fn run(args: &Sessions, instance: Option<&Path>) -> Result<()> {
    let target = Target::find(None, instance)?;
    let sessions = Desk::look(&target.store)?.sessions()?;
    let own = own();
    let others = sessions.iter().filter(|s| !own.contains(&s.pid)).count();
    if args.json {
        let listed: Vec<_> = sessions
            .iter()
            .map(|s| {
                json!({
                    "pid": s.pid,
                    "program": s.program,
                    "marker": s.marker.to_string_lossy(),
                    "since": s.since.iso(),
                    "own": own.contains(&s.pid),
                })
            })
            .collect();
        raw(format!("{:#}\n", json!({ "sessions": listed, "others": others })));
    } else if !args.others {
        for s in &sessions {
            let own = if own.contains(&s.pid) { "  (own)" } else { "" };
            let marker = s.marker.display();
            line(&format!("{}  {}  since {}  {marker}{own}", s.pid, s.program, s.since.iso()));
        }
    }
    if args.others && others == 0 { Err(Failure::silent()) } else { Ok(()) }
}

/// The processes whose markers are the caller's own: this one, the one that runs it, and those
/// that the environment names.
fn own() -> Vec<u32> {
    let mut own = vec![std::process::id(), std::os::unix::process::parent_id()];
    own.extend(delegated());
    own
}

/// The processes for which the caller speaks; what is no pid is ignored.
pub(super) fn delegated() -> impl Iterator<Item = u32> {
    PARENTS.iter().filter_map(|name| std::env::var(name).ok()?.trim().parse().ok())
}
