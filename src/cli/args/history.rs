//! Arguments of the commands that look at versions.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `log`.
#[derive(Debug, Args)]
#[command(after_help = "\
DOC is missions.md, missions-quarantine.md, config.json, config.yaml, or missions, quarantine,
config, or the path of a managed file below the root, such as outbox.md or journal/a.md; a path of
the file in a mount or a store is as good. The two names of the config have one history. Each
revision names the program, pid and session that made it and the way: mount (a save of the file),
command, sql (rows changed by another program), store (a managed file written behind the mount) or
import (also: what a managed file was before its first save). \"on 12\" is the revision that
the writer had seen. Works with and without a running daemon.

Examples:
  instancefs log
  instancefs log missions.md -n 20
  instancefs log config --since 120 --json | jq -r .program")]
pub struct Log {
    /// Only this document
    pub doc: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// At most so many
    #[arg(short = 'n', value_name = "N")]
    pub limit: Option<usize>,
    /// Only revisions after this one
    #[arg(long, value_name = "REV")]
    pub since: Option<u64>,
}

/// Arguments of `why`.
#[derive(Debug, Args)]
#[command(after_help = "\
The merge base is the version that a writer started from; only what differs from it was applied to
the version that was current. Prints the rule that found it, and, where several versions came into
question, in how many entries (missions, keys with their values, lines) the written text differs
from each and how many entries of each it has. docs/SEMANTICS.md has the rules, under The merge base.

Examples:
  instancefs why 120
  instancefs why 120 --json | jq -r .basis.rule")]
pub struct Why {
    /// The revision, as `log` shows it
    pub rev: u64,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
#[command(after_help = "\
The bytes are exactly those that a read of the file gave then. DOC alone is the current version,
DOC@0 the text of a new store.

Examples:
  instancefs show missions.md
  instancefs show missions.md@120
  instancefs show config.yaml@7 > config.old.yaml")]
pub struct Show {
    /// DOC or DOC@REV
    pub doc: String,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
#[command(after_help = "\
DOC alone compares the newest revision with the one before, DOC@A compares A with the current
version, DOC@A @B compares A with B. Exits 0 whether or not there are differences.

Examples:
  instancefs diff missions.md
  instancefs diff missions.md@120
  instancefs diff config.json@7 @12")]
pub struct Diff {
    /// DOC or DOC@A
    pub doc: String,
    /// The other revision, @B
    pub other: Option<String>,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
The document is then byte for byte what it was in that revision; of the config both names are.
It is one more revision, \"restored from REV\", so it can be undone in the same way. Everything
that was changed after REV is undone by it, also what others commit while the command runs: it
stays in the history. To bring back a part only, take it from `show` and save the file. Goes
through the daemon if there is one.

Examples:
  instancefs restore missions.md@120
  instancefs log missions.md -n 5 && instancefs restore missions.md@118")]
pub struct Restore {
    /// DOC@REV
    pub doc: String,
}

/// Arguments of `blame`.
#[derive(Debug, Args)]
#[command(after_help = "\
A mission that moved to another section was touched by that move. ^ marks lines that are older
than the first revision that was looked at.

Examples:
  instancefs blame missions.md
  instancefs blame missions.md --json | jq -r 'select(.program == \"vim\").text'")]
pub struct Blame {
    /// DOC
    pub doc: String,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Look through the newest N revisions
    #[arg(short = 'n', value_name = "N", default_value_t = 2000)]
    pub limit: usize,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Plans a save of the file's text by somebody who has seen the current version, and saves nothing.
If it would be refused, prints FILE:LINE: reason and a hint and exits 1. The lines on top of a
NAME.refused are left out. Without a name that tells the document, give it with --as.

Examples:
  instancefs check missions.md.refused
  instancefs -C ~/instance check /tmp/new.json --as config.json")]
pub struct Check {
    /// The file; it can lie anywhere
    pub file: PathBuf,
    /// The document that it would be saved as [default: by the name of the file]
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
}

/// Arguments of `wait`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints the number of the newest revision and exits 0 as soon as there is one after REV; at once
if there is one already. Exits 1 when the time is over. With --refused also ends when a save of DOC
is refused while it waits: it prints when, who, why and where the text is, and exits 4.

Examples:
  instancefs wait missions.md
  instancefs wait config --timeout 30 && echo changed
  rev=$(instancefs wait missions.md --since \"$rev\")")]
pub struct Wait {
    /// DOC
    pub doc: String,
    /// The revision that is known [default: the newest one]
    #[arg(long, value_name = "REV")]
    pub since: Option<u64>,
    /// Seconds to wait, fractions allowed [default: no limit]
    #[arg(long, value_name = "S")]
    pub timeout: Option<f64>,
    /// Also end when a save of DOC is refused
    #[arg(long)]
    pub refused: bool,
}

/// Arguments of `watch`.
#[derive(Debug, Args)]
#[command(after_help = "\
One line for each revision, as `log` prints it, also for rows that other programs change, and one,
which begins with `refused`, for each save through the mount that is refused from now on: when, who,
why, and where the text was kept. A revision that met changes by others says in how many places.
With --json each has an `event`, saved, refused or unchanged; `overlaps` is the number of these places,
`overlapping` says which, and `basis` is what the save was compared with. A slow reader misses
nothing. Ends at an unmount, at SIGINT, and when nobody reads any more.

With --lines, what became of the lines of DOC instead: `+ ` and a line that was added, `- ` and one
that was removed, `~ ` and the new words of one that was changed. Each is printed once, whoever
saved and wherever in the text; it goes from revision to revision, so nothing is left out when many
saves come at once. A line that has moved past others is removed and added. With --json: rev, at,
change (added, changed or removed), line, by.

Examples:
  instancefs watch
  instancefs watch --lines missions.md
  instancefs watch missions.md --json | jq --unbuffered -r .summary
  instancefs watch --json | jq --unbuffered -r 'select(.event == \"refused\").message'")]
pub struct Watch {
    /// Only this document
    pub doc: Option<String>,
    /// The lines of DOC that come, change and go
    #[arg(long, requires = "doc")]
    pub lines: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Begin after this revision [default: the newest one]
    #[arg(long, value_name = "REV")]
    pub since: Option<u64>,
}

/// Arguments of `retention`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without options, prints what is kept of each document. What is set here is kept in the store and
counts for the daemon too. The oldest revisions go first, in small steps that hold up no save; a
little more than the limits may stay (64 revisions or an eighth). The current version always
stays.

Examples:
  instancefs retention
  instancefs retention --max-age 30 --max-count 5000
  instancefs retention --max-bytes 200M")]
pub struct Retention {
    /// Keep revisions for so many days
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_age: Option<u64>,
    /// Keep so many revisions of each document
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_count: Option<u64>,
    /// Keep so many bytes of history of each document (K, M and G are understood)
    #[arg(long, value_name = "SIZE")]
    pub max_bytes: Option<String>,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}
