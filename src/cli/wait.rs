//! `instancefs wait`.

use std::path::Path;
use std::time::{Duration, Instant};

use super::args::Wait;
use super::doc::Doc;
use super::events;
use super::failure::{Exit, Failure, Result};
use super::follow::Follower;
use super::output::line;
use crate::model::Rev;

/// Runs the command.
pub fn run(args: &Wait, instance: Option<&Path>) -> Result<()> {
    let doc = Doc::find(&args.doc, instance)?;
    let limit = match args.timeout {
        None => None,
        Some(s) => Some(
            Duration::try_from_secs_f64(s)
                .map_err(|_| Failure::usage(format!("--timeout {s}: not a time in seconds")))?,
        ),
    };
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut follower = Follower::open(&doc.target.store, doc.id.file())?;
    let since = match args.since.map(Rev).or(doc.rev) {
        Some(rev) => rev,
        None => follower.newest(Some(doc.id))?,
    };
    loop {
        let mut newest = since;
        while let Some(last) = follower.after(Some(doc.id), newest)?.last() {
            newest = last.rev;
        }
        if newest != since {
            line(&newest.to_string());
            return Ok(());
        }
        if args.refused
            && let Some(refusal) =
                follower.refusals(Some(doc.id))?.iter().find(|r| !events::is_unchanged(r))
        {
            line(&events::line(refusal));
            return Err(Failure { exit: Exit::Refused, ..Failure::silent() });
        }
        let left = until.map_or(Duration::MAX, |t| t.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            let limit = limit.unwrap_or_default().as_secs_f64();
            let what = format!("no new version of {} in {limit} s", doc.name());
            return Err(Failure::new(what));
        }
        if !follower.pause(left)? {
            return Err(Failure::new("the daemon ended before there was a new version"));
        }
    }
}
