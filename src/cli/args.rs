//! What can be typed. Nothing here is resolved: paths are as given, `target.rs` finds out
//! what they mean.

mod history;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use history::{Blame, Check, Diff, Log, Restore, Retention, Show, Wait, Watch, Why};

/// Mounts an agent's instance directory so that missions.md and config.json are live views
/// of SQLite and every save is one validated, merged transaction.
#[derive(Debug, Parser)]
#[command(
    name = "instancefs",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  instancefs adopt ~/agent/instance --mount    an existing directory, in place
  instancefs init ~/state                      a new store
  instancefs mount ~/state ~/instance          show it
  echo '- fix login' >> ~/instance/missions.md
  instancefs status ~/instance
  instancefs unmount ~/instance

Exit codes: 0 done, 1 failure, 2 wrong usage, 3 conflict (somebody else has it)."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// The instance: a store, a mount, or a path in one of them [default: the nearest one at
    /// or above the current directory]
    #[arg(short = 'C', global = true, value_name = "PATH", env = "INSTANCEFS_DIR")]
    pub instance: Option<OsString>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a new store, with what a directory holds if wanted
    Init(Init),
    /// Show a store as a directory
    Mount(Mount),
    /// Take a mount away; the store is then an ordinary directory
    Unmount(Unmount),
    /// Say what is mounted, how it is, and what was refused
    Status(Status),
    /// Check the machine, the mounts and a store, and say what to do
    Doctor(Doctor),
    /// Turn an existing instance directory into a store, in place
    Adopt(Adopt),
    /// Turn an adopted directory back into an ordinary one
    Eject(Eject),
    /// Copy an instance into an ordinary directory
    Export(Export),
    /// List the revisions, newest first
    Log(Log),
    /// Print a document as it is or was
    Show(Show),
    /// Compare two revisions of a document
    Diff(Diff),
    /// Bring an older version back, as a new revision
    Restore(Restore),
    /// Say for each line which revision and program last touched it
    Blame(Blame),
    /// Say whether a file could be saved as a document, and if not, why
    Check(Check),
    /// Say which files are documents, managed or plain, and why
    Kinds(super::kinds::Kinds),
    /// Say how the merge base of a revision was found
    Why(Why),
    /// Run a command as one writer with all others of a name
    As(super::named::As),
    /// Wait for the next version of a document
    Wait(Wait),
    /// Print every revision when it is made
    Watch(Watch),
    /// List the missions with their numbers
    Missions(super::missions::Missions),
    /// Read and change the config
    Config(super::config::Config),
    /// Show or set how much history is kept
    Retention(Retention),
    /// List who is at work, or say whether somebody else is
    Sessions(Sessions),
    /// Take and look at leases: locks that end with their process
    Lock(Lock),
    /// Take in the databases of another state directory
    Import(super::import::Import),
    /// Private places for temporary files that do not outlive their process
    Scratch(super::scratch::Scratch),
    /// Print the reference of all commands as Markdown
    #[command(hide = true)]
    MarkdownHelp,
}

/// Arguments of `init`.
#[derive(Debug, Args)]
#[command(after_help = "\
missions.md, missions-quarantine.md, config.json and config.yaml are read once and become
documents; a missions.db of Kōan's schema is taken over as it is. Everything else is copied
with modes, times, links and attributes. DIR is only read. The answer counts what was taken
in and lists every line that is kept as layout because it is no mission. An interrupted run
can be repeated.

Examples:
  instancefs init ~/state
  instancefs init ~/state --from ~/agent/instance")]
pub struct Init {
    /// The new store: a directory that does not exist or is empty
    pub store: PathBuf,
    /// Take in what is in this directory
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
}

/// Arguments of `mount`.
#[derive(Debug, Args)]
#[command(after_help = "\
Returns 0 when the mount answers. Otherwise nothing is left mounted. A dead mount of ours at
that place is cleaned away first. One daemon serves a store: a second one is told the pid of
the first and exits 3. SIGTERM and SIGINT unmount and write the documents out. The log is
.instancefs-log in the store; INSTANCEFS_LOG=debug, warn ... sets how much is in it.

Examples:
  instancefs mount ~/state ~/instance
  instancefs mount ~/state ~/instance --foreground    for a service manager
  sudo instancefs mount /srv/state /srv/instance --allow-other")]
pub struct Mount {
    /// The store
    pub store: PathBuf,
    /// An existing, empty directory
    pub mountpoint: PathBuf,
    /// Stay in the foreground and log to standard error
    #[arg(long, short = 'f')]
    pub foreground: bool,
    /// Other users may enter; the kernel checks permissions
    #[arg(long)]
    pub allow_other: bool,
    /// Nothing can be changed through the mount
    #[arg(long)]
    pub read_only: bool,
    /// Refuse a config whose `version` is newer than this one and the stored one [default: no
    /// limit]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub config_version_limit: Option<i64>,
    /// Show at once, not within a second, what others change in the store behind the mount;
    /// costs speed
    #[arg(long)]
    pub strict: bool,
    /// Let all reading and writing of plain files come to the daemon; otherwise, as root, the
    /// kernel does it without asking
    #[arg(long)]
    pub no_passthrough: bool,
    /// Say through this descriptor how the start ended
    #[arg(long, hide = true, value_name = "FD")]
    pub ready_fd: Option<i32>,
}

/// Arguments of `unmount`.
#[derive(Debug, Args)]
#[command(after_help = "\
Waits until the daemon has written the documents out and ended. Programs that still use the
mount are named; what they have not saved is kept as NAME.unsaved-PID. A dead mount is cleaned
away.

Examples:
  instancefs unmount ~/instance
  instancefs unmount ~/instance --force    also when the daemon does not answer")]
pub struct Unmount {
    /// The mount point, or the store [default: as -C]
    pub mountpoint: Option<PathBuf>,
    /// Also when the daemon does not answer: the mount is taken away without it
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Works with and without a running daemon.

Examples:
  instancefs status
  instancefs status ~/instance --json | jq .documents")]
pub struct Status {
    /// A store, a mount, or a path in one of them [default: as -C]
    pub path: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Looks at the FUSE device, fusermount3, /etc/fuse.conf, our mounts on this machine, and the store
if there is one: permissions, unfinished commands, free space, the whole database. Nothing is
changed. Exits 1 when something does not work.

Examples:
  instancefs doctor
  instancefs doctor ~/instance
  instancefs doctor --json | jq '.[] | select(.health != \"good\")'")]
pub struct Doctor {
    /// A store, a mount, or a path in one of them [default: as -C, else only the machine]
    pub path: Option<PathBuf>,
    /// One JSON array of {what, health, found, todo}
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `adopt`.
#[derive(Debug, Args)]
#[command(after_help = "\
DIR becomes DIR.store and an empty DIR takes its place as the mount point. The swap is one
rename, and everything before it only adds files, so an interrupted run loses nothing and can
be repeated. Programs that work in DIR should be stopped first: they would go on in DIR.store.

Examples:
  instancefs adopt ~/agent/instance --mount
  instancefs adopt ~/agent/instance && instancefs mount ~/agent/instance.store ~/agent/instance")]
pub struct Adopt {
    /// An existing instance directory
    pub dir: PathBuf,
    /// Mount it right away
    #[arg(long)]
    pub mount: bool,
}

/// Arguments of `eject`.
#[derive(Debug, Args)]
#[command(after_help = "\
The documents are written out, DIR.store takes the place of the empty DIR in one rename, and
our private files go. An interrupted run can be repeated. missions.db stays: it holds the rows
for programs that use it, and in tables that begin with ifs_ the history, so that a later
adopt goes on where it was. With --purge those tables go, and missions.db too if it was made
by instancefs.

Examples:
  instancefs eject ~/agent/instance
  instancefs eject ~/agent/instance --purge")]
pub struct Eject {
    /// The mount point that adopt made
    pub dir: PathBuf,
    /// Remove our tables, and the database if it is ours
    #[arg(long)]
    pub purge: bool,
    /// Also while programs use the mount
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Works with and without a running mount. The copy is one state of the database, with the
documents written out as they are in it.

Examples:
  instancefs export ~/state /backup/instance-today
  instancefs export ~/instance /backup/instance-today    a mount is as good")]
pub struct Export {
    /// The store, a mount, or a path in one of them
    pub store: PathBuf,
    /// The copy: a directory that does not exist or is empty
    pub dir: PathBuf,
}

/// Arguments of `sessions`.
#[derive(Debug, Args)]
#[command(after_help = "\
A session is a process with a marker: a file named by its pid in models/sessions/ or
sessions.live/. Markers of processes that have ended do not count and go. The marker of the
program that runs this command, and that of the process INSTANCEFS_SESSION_PARENT_PID (or
ATOMIC_AGENT_SESSION_PARENT_PID) names, is its own. Works with and without a mount.

Examples:
  instancefs sessions
  instancefs sessions --json | jq -r '.sessions[].pid'
  instancefs sessions --others && echo 'somebody else is at work'")]
pub struct Sessions {
    /// Print nothing; exit 0 if somebody else has a live session, else 1
    #[arg(long)]
    pub others: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `lock`.
#[derive(Debug, Args)]
#[command(after_help = "\
A lease is a lock file that belongs to a process and is gone when the process has ended, however
it ended. NAME is relative to the instance. Programs take the same leases by creating the file
exclusively, in the mount or with these commands. Each lease has a number that only grows:
INSTANCEFS_LOCK_TOKEN for the command that runs under it, and the attribute
user.instancefs.token of the file. Works with and without a mount.

Examples:
  instancefs lock run scheduler.lock -- ./scheduler
  instancefs lock try telegram.lock -- ./bot || echo 'somebody else answers'
  instancefs lock ls")]
pub struct Lock {
    /// What to do.
    #[command(subcommand)]
    pub what: LockWhat,
}

/// The commands of `lock`.
#[derive(Debug, Subcommand)]
pub enum LockWhat {
    /// Wait for a lease, run a command under it, give it back
    ///
    /// Who came first is served first. Exits with the code of the command (128 + N when signal N
    /// ended it, 127 when there is none). Signals are passed on to the command; when this process
    /// is killed, so is the command.
    Run {
        /// The lease
        name: PathBuf,
        /// The command
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Take a lease if it is free, else exit 3
    ///
    /// Without a command the lease belongs to the process that runs this one, until that ends or
    /// removes the file. Nobody who waits is overtaken.
    Try {
        /// The lease
        name: PathBuf,
        /// Run this under the lease, and give it back
        #[arg(last = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Wait until nobody holds a lease, without taking it
    Wait {
        /// The lease
        name: PathBuf,
        /// Seconds to wait, fractions allowed; exit 1 when they are over [default: no limit]
        #[arg(long, value_name = "S")]
        timeout: Option<f64>,
    },
    /// List who holds which lease, and who waits
    Ls {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Say who leads: the holder of telegram.lock, else that of scheduler.lock
    ///
    /// Exits 0 if that is the process that runs this command or its parent, 1 if nobody leads, 3
    /// if somebody else does.
    Leader {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}
