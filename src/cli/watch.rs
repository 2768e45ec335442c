//! `instancefs watch`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::args::Watch;
use super::doc::Doc;
use super::failure::{Failure, Result};
use super::follow::Follower;
use super::log::printed;
use super::output;
use super::target::Target;
use crate::model::{DocId, Rev};

/// Runs the command.
pub fn run(args: &Watch, instance: Option<&Path>) -> Result<()> {
    let doc = args.doc.as_deref().map(|doc| Doc::find(doc, instance)).transpose()?;
    let target = match &doc {
        Some(doc) => doc.target.clone(),
        None => Target::find(None, instance)?,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::new(format!("cannot wait for signals: {e}")))?;
    }
    let id = doc.as_ref().map(|d| d.id);
    let mut follower = Follower::open(&target.store, id.and_then(DocId::file))?;
    let mut last = match args.since.map(Rev).or(doc.and_then(|d| d.rev)) {
        Some(rev) => rev,
        None => follower.newest(id)?,
    };
    while !stop.load(Ordering::Relaxed) && wanted() {
        if print(&mut follower, id, &mut last, args.json)? {
            continue;
        }
        if !follower.pause(Duration::MAX)? {
            while print(&mut follower, id, &mut last, args.json)? {}
            break;
        }
    }
    Ok(())
}

/// Prints what there is after `last`; whether there was anything.
fn print(
    follower: &mut Follower,
    doc: Option<DocId>,
    last: &mut Rev,
    as_json: bool,
) -> Result<bool> {
    let revisions = follower.after(doc, *last)?;
    let mut out = std::io::stdout().lock();
    for revision in &revisions {
        *last = revision.rev;
        if !output::arrived(writeln!(out, "{}", printed(revision, as_json))) {
            break;
        }
    }
    output::finish()?;
    Ok(!revisions.is_empty())
}

/// Whether anybody still reads the output.
fn wanted() -> bool {
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now)) {
        Ok(_) => !fds[0].revents().contains(PollFlags::ERR),
        Err(_) => true,
    }
}
