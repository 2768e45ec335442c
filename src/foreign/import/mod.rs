//! Takes the rows of another state directory into the databases of a store.
//!
//! Sessions and tasks come by id, notes by content, the profile by key; what the target has
//! already always wins, so a second run imports nothing. Each part is one `BEGIN IMMEDIATE`
//! transaction in the target, and a part that fails leaves the others alone.

mod rows;
mod target;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use self::target::Target;
use super::error::{Result, io, sql};
use super::{Database, Part, schema, snapshot};

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Request {
    /// The other state directory. It is only read.
    pub source: PathBuf,
    /// The store.
    pub store: PathBuf,
    /// Only say what would be done: it is done to a private copy.
    pub dry_run: bool,
}

/// What became of the rows of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Rows that are new in the target.
    pub imported: u64,
    /// Rows that the target had, or that it cannot hold.
    pub skipped: u64,
}

/// What an import did.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of [`Part::ALL`].
    pub parts: [Counts; 4],
    /// What the person should know, one line each.
    pub warnings: Vec<String>,
    /// Why parts failed, one line each: a part that failed has changed nothing.
    pub errors: Vec<String>,
}

impl Report {
    /// A report of a run that could not begin.
    pub fn failed(error: impl Into<String>) -> Report {
        Report { errors: vec![error.into()], ..Report::default() }
    }

    /// Whether every part is in.
    pub fn ok(&self) -> bool {
        self.errors.is_empty()
    }

    /// What became of one part.
    pub fn counts(&self, part: Part) -> Counts {
        self.parts[position(part)]
    }
}

fn position(part: Part) -> usize {
    Part::ALL.iter().position(|p| *p == part).unwrap_or(0)
}

/// Is told how far an import is.
pub trait Progress {
    /// Waits for whoever writes to the target.
    fn waiting(&mut self, part: Part);
    /// So many rows of so many have been looked at.
    fn done(&mut self, part: Part, rows: u64, of: u64);
}

/// Tells nobody.
impl Progress for () {
    fn waiting(&mut self, _part: Part) {}
    fn done(&mut self, _part: Part, _rows: u64, _of: u64) {}
}

/// Runs an import. Everything that goes wrong is in the report.
pub fn run(request: &Request, progress: &mut dyn Progress) -> Report {
    let mut report = Report::default();
    match request.source.metadata() {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Report::failed(format!("{}: not a directory", request.source.display())),
        Err(e) => return Report::failed(format!("{}: {e}", request.source.display())),
    }
    let private = match tempfile::Builder::new().prefix("instancefs-import-").tempdir() {
        Ok(private) => private,
        Err(e) => return Report::failed(format!("no place for a private copy: {e}")),
    };
    for database in Database::ALL {
        one(request, database, private.path(), progress, &mut report);
    }
    report
}

/// One database with its parts.
fn one(
    request: &Request,
    database: Database,
    private: &Path,
    progress: &mut dyn Progress,
    report: &mut Report,
) {
    let names: Vec<&str> = database.parts().map(Part::name).collect();
    let from = request.source.join(database.file_name());
    let copy = private.join(database.file_name());
    let source = match open_source(request, database, &from, &copy) {
        Ok(Some(source)) => source,
        Ok(None) => {
            report.warnings.push(format!(
                "{}: no such database; no {} imported",
                from.display(),
                names.join(" and no ")
            ));
            return;
        }
        Err(e) => {
            report.errors.push(format!("{}: {e}", names.join(", ")));
            return;
        }
    };
    let target = if request.dry_run {
        let copy = private.join(format!("target-{}", database.file_name()));
        let store = request.store.join(database.file_name());
        snapshot::take(&store, &copy).map(|_| copy)
    } else {
        Ok(request.store.join(database.file_name()))
    };
    let mut target = match target.and_then(|path| Target::open(&path, database)) {
        Ok(target) => target,
        Err(e) => {
            report.errors.push(format!("{}: {e}", names.join(", ")));
            return;
        }
    };
    for part in database.parts() {
        match rows::import(&source, &from, &mut target, part, progress) {
            Ok(done) => {
                report.parts[position(part)] = done.counts;
                report.warnings.extend(done.warnings);
            }
            Err(e) => report.errors.push(format!("{}: {e}", part.name())),
        }
    }
}

/// Opens a private copy of a source database. `None`: there is none.
fn open_source(
    request: &Request,
    database: Database,
    from: &Path,
    copy: &Path,
) -> Result<Option<Connection>> {
    let store = request.store.join(database.file_name());
    if let (Ok(a), Ok(b)) = (from.metadata(), store.metadata())
        && (a.dev(), a.ino()) == (b.dev(), b.ino())
    {
        return Err(super::error::unusable(from, "is the database of the store itself"));
    }
    if !snapshot::take(from, copy)? {
        return Ok(None);
    }
    let failed = sql(from);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(copy, flags).map_err(&failed)?;
    conn.pragma_update(None, "trusted_schema", false).map_err(&failed)?;
    // The first read takes in what is in the -wal or -journal.
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(&failed)?;
    conn.pragma_update(None, "query_only", true).map_err(&failed)?;
    schema::check_version(&conn, from, database)?;
    Ok(Some(conn))
}

/// Makes an empty private file unless there is one. It belongs to the directory's owner, also when
/// root makes it: his programs are to use it.
fn make_private(path: &Path) -> Result<bool> {
    use std::os::unix::fs::OpenOptionsExt;
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => {
            let parent = path.parent().map(Path::metadata);
            if let (true, Some(Ok(dir))) = (rustix::process::geteuid().is_root(), parent) {
                std::os::unix::fs::fchown(&file, Some(dir.uid()), Some(dir.gid()))
                    .map_err(io(path))?;
            }
            Ok(true)
        }
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(io(path)(e)),
    }
}
