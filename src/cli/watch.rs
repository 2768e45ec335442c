//! `instancefs watch`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::args::Watch;
use super::doc::Doc;
use super::events::{self, Event};
use super::failure::{Failure, Result};
use super::follow::Follower;
use super::lines::Lines;
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
    let follower = Follower::open(&target.store, id.and_then(DocId::file))?;
    let since = args.since.map(Rev);
    let (show, last) = match doc {
        Some(doc) if args.lines => {
            let (lines, last) = Lines::open(doc, since, &follower, args.json)?;
            (Show::Lines(Box::new(lines)), last)
        }
        doc => {
            let last = match since.or(doc.and_then(|d| d.rev)) {
                Some(rev) => rev,
                None => follower.newest(id)?,
            };
            (Show::Events { json: args.json }, last)
        }
    };
    let mut watching = Watching { follower, doc: id, last, show };
    while !stop.load(Ordering::Relaxed) && wanted() {
        if watching.print()? {
            continue;
        }
        if !watching.follower.pause(Duration::MAX)? {
            while watching.print()? {}
            break;
        }
    }
    Ok(())
}

/// What is printed.
enum Show {
    /// A line for each revision and each refused save.
    Events { json: bool },
    /// A line for each line of the document that comes, changes or goes.
    Lines(Box<Lines>),
}

struct Watching {
    follower: Follower,
    doc: Option<DocId>,
    last: Rev,
    show: Show,
}

impl Watching {
    /// Prints what there is after `last`; whether there was anything.
    fn print(&mut self) -> Result<bool> {
        let revisions = self.follower.after(self.doc, self.last)?;
        let refusals = match self.show {
            Show::Events { .. } => self.follower.refusals(self.doc)?,
            Show::Lines(_) => Vec::new(),
        };
        self.last = revisions.last().map_or(self.last, |r| r.rev);
        let events = events::in_order(revisions, refusals);
        let mut out = std::io::stdout().lock();
        'printing: for event in &events {
            let lines = match (&mut self.show, event) {
                (Show::Events { json }, event) => vec![event.printed(*json)],
                (Show::Lines(lines), Event::Saved(revision)) => {
                    lines.of(revision, &self.follower)?
                }
                (Show::Lines(_), Event::Refused(_)) => continue,
            };
            for line in lines {
                if !output::arrived(writeln!(out, "{line}")) {
                    break 'printing;
                }
            }
        }
        output::finish()?;
        Ok(!events.is_empty())
    }
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
