//! What must hold for an import from any databases (see [`crate::properties`]).

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::import::{Report, Request, run};
use super::schema::quoted;
use super::view::Reader;
use super::{Database, Part};

/// The other state directory, and perhaps the store, as lines:
///
/// ```text
/// sessions|id=a|status=running     a row; values are NULL, #1, ~1.5, x'00ff' or a text
/// add TABLE COLUMN                 drop TABLE COLUMN
/// endless TABLE                    a view without end in its place
/// version TABLE TEXT               what its database says of its version
/// patch DATABASE OFFSET HEX        bytes of the file, as damage does it
/// cut DATABASE LENGTH              also after a loss of power
/// file NAME HEX                    any file beside them
/// ```
///
/// A database is there when a line names it. The import says in one line each what goes wrong,
/// changes nothing in the source, takes each row of a good one exactly, and no row twice.
pub fn import(input: &[u8]) {
    let parts = crate::properties::parts(input);
    let place = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let [source, store] = ["source", "store"].map(|name| place.path().join(name));
    let mut damaged = false;
    for (dir, script) in [(&source, parts.first()), (&store, parts.get(1))] {
        std::fs::create_dir(dir).unwrap_or_else(|e| panic!("{e}"));
        let script = script.map(|s| String::from_utf8_lossy(s)).unwrap_or_default();
        damaged |= make(dir, &script);
    }
    let before = files(&source);
    let rows_had =
        if damaged { Default::default() } else { Part::ALL.map(|part| table(&store, part)) };
    let request = Request { source: source.clone(), store: store.clone(), dry_run: true };
    let told = run(&request, &mut ());
    let had = files(&store);
    one_line_each(&told);
    assert!(before == files(&source) && had == files(&store), "a dry run changed something");
    let request = Request { dry_run: false, ..request };
    let done = run(&request, &mut ());
    one_line_each(&done);
    assert!(before == files(&source), "the source was changed");
    if !damaged {
        assert_eq!(
            (&told.parts, told.ok()),
            (&done.parts, done.ok()),
            "a dry run says something else"
        );
        all_there(&source, &store, &rows_had, &done);
    }
    let again = run(&request, &mut ());
    if done.ok() && again.ok() {
        assert!(again.parts.iter().all(|p| p.imported == 0), "{:?}", again.parts);
    }
    for (dir, read_only) in [(&source, true), (&store, false)] {
        look(dir, read_only);
    }
    // What was left in a journal has to be taken back before anything can be read.
    if !before.keys().any(|name| name.ends_with("-journal")) {
        let after = files(&source);
        for name in Database::ALL.map(Database::file_name) {
            assert!(before.get(name) == after.get(name), "a view changed {name}");
        }
    }
}

fn one_line_each(report: &Report) {
    for line in report.errors.iter().chain(&report.warnings) {
        assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
    }
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let list = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{e}"));
    list.filter_map(Result::ok)
        .map(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(e.path()).unwrap_or_else(|e| panic!("{e}")))
        })
        .collect()
}

fn named(name: &str) -> Option<Database> {
    let part = Part::ALL.into_iter().find(|p| p.table() == name || p.name() == name);
    let database = Database::ALL.into_iter().find(|d| d.file_name() == name);
    database.or(part.map(Part::database))
}

/// Makes the databases that a script says; whether it damages one.
fn make(dir: &Path, script: &str) -> bool {
    let mut open: [Option<Connection>; 3] = Default::default();
    let mut damage = Vec::new();
    let mut damaged = false;
    for line in script.lines().take(64) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["patch" | "cut" | "file", name, ..] => {
                if let Some(database) = named(name) {
                    connection(dir, database, &mut open);
                }
                damage.push(words);
            }
            ["add", table, column] => {
                let column = quoted(column);
                alter(dir, table, &format!("ADD COLUMN {column}"), &mut open);
            }
            ["drop", table, column] => {
                let column = quoted(column);
                alter(dir, table, &format!("DROP COLUMN {column}"), &mut open);
            }
            ["endless", table] => {
                let Some(database) = named(table) else { continue };
                let name = quoted(table);
                let sql = format!(
                    "DROP TABLE IF EXISTS {name}; CREATE VIEW {name} AS
                     WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
                     SELECT x AS id, x AS content, x AS key, x AS created_at FROM c"
                );
                let _ = connection(dir, database, &mut open).execute_batch(&sql);
                damaged = true;
            }
            ["version", table, ref text @ ..] => {
                let Some(database) = named(table) else { continue };
                let conn = connection(dir, database, &mut open);
                let set = "INSERT OR REPLACE INTO schema_meta(key, value) VALUES ('version', ?1)";
                let _ = conn.execute(set, [text.join(" ")]);
            }
            _ => row(dir, line, &mut open),
        }
    }
    drop(open);
    damaged |= !damage.is_empty();
    for words in damage {
        harm(dir, &words);
    }
    damaged
}

fn connection<'o>(
    dir: &Path,
    database: Database,
    open: &'o mut [Option<Connection>; 3],
) -> &'o Connection {
    let at = Database::ALL.iter().position(|d| *d == database).unwrap_or(0);
    open[at].get_or_insert_with(|| {
        let path = dir.join(database.file_name());
        let conn = Connection::open(&path).unwrap_or_else(|e| panic!("{e}"));
        let fast =
            "PRAGMA page_size = 1024; PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY";
        conn.execute_batch(fast).unwrap_or_else(|e| panic!("{e}"));
        super::schema::create_if_empty(&conn, &path, database).unwrap_or_else(|e| panic!("{e}"));
        conn
    })
}

fn alter(dir: &Path, table: &str, how: &str, open: &mut [Option<Connection>; 3]) {
    let Some(database) = named(table) else { return };
    // What SQLite does not take is left out.
    let sql = format!("ALTER TABLE {} {how}", quoted(table));
    let _ = connection(dir, database, open).execute_batch(&sql);
}

fn row(dir: &Path, line: &str, open: &mut [Option<Connection>; 3]) {
    let mut cells = line.split('|');
    let table = cells.next().unwrap_or_default();
    let Some(database) = named(table).filter(|d| d.file_name() != table) else { return };
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for cell in cells {
        let Some((name, text)) = cell.split_once('=') else { continue };
        names.push(quoted(name));
        values.push(cell_value(text));
    }
    let marks = vec!["?"; names.len()].join(", ");
    let sql = format!("INSERT INTO {} ({}) VALUES ({marks})", quoted(table), names.join(", "));
    let conn = connection(dir, database, open);
    if let Ok(mut insert) = conn.prepare(&sql) {
        let _ = insert.execute(rusqlite::params_from_iter(values));
    }
}

fn cell_value(text: &str) -> Value {
    match text.split_at_checked(1) {
        _ if text == "NULL" => Value::Null,
        Some(("#", n)) => n.parse().map_or(Value::Null, Value::Integer),
        Some(("~", x)) => x.parse().map_or(Value::Null, Value::Real),
        Some(("x", hex)) if hex.starts_with('\'') => Value::Blob(bytes(hex)),
        _ => Value::Text(text.replace("\\n", "\n")),
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|c| c.to_digit(16)).map(|d| d.to_le_bytes()[0]).collect();
    digits.chunks_exact(2).map(|two| two[0] * 16 + two[1]).collect()
}

fn harm(dir: &Path, words: &[&str]) {
    let (name, number) = (words[1], words.get(2).copied().unwrap_or_default());
    let name = named(name).map_or(name, |d| d.file_name());
    if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') || name.len() > 100 {
        return;
    }
    let path = dir.join(name);
    let mut content = std::fs::read(&path).unwrap_or_default();
    match (words[0], number.parse::<usize>()) {
        ("cut", Ok(len)) => content.truncate(len),
        ("patch", Ok(at)) if at < content.len() => {
            for (b, new) in content[at..].iter_mut().zip(bytes(&words[3..].concat())) {
                *b = new;
            }
        }
        ("file", _) => content = bytes(&words[2..].concat()),
        _ => return,
    }
    let _ = std::fs::write(&path, content);
}

/// Whatever is in them, rows are shown or an error says why not.
fn look(dir: &Path, read_only: bool) {
    let reader = Reader::new(dir, read_only);
    for part in Part::ALL {
        if !reader.has(part) {
            continue;
        }
        let said = |e: super::ForeignError| {
            assert!(!e.to_string().contains('\n'), "{e}");
        };
        if part == Part::Profile {
            reader.facts().map(drop).unwrap_or_else(said);
            continue;
        }
        match reader.ids(part, None, 10) {
            Ok(ids) => {
                ids.iter().for_each(|id| reader.row(part, id).map(drop).unwrap_or_else(said))
            }
            Err(e) => said(e),
        }
    }
    reader.close();
}

/// A row as its columns.
type Cells = BTreeMap<String, Value>;

fn table(dir: &Path, part: Part) -> Vec<Cells> {
    let path = dir.join(part.database().file_name());
    if !path.exists() {
        return Vec::new();
    }
    let conn = Connection::open(&path).unwrap_or_else(|e| panic!("{e}"));
    let sql = format!("SELECT * FROM {}", quoted(part.table()));
    let mut select = conn.prepare(&sql).unwrap_or_else(|e| panic!("{e}"));
    let names: Vec<String> = select.column_names().map(str::to_owned).collect();
    let rows = select.query_map([], |row| {
        let cells = names.iter().enumerate().map(|(i, name)| Ok((name.clone(), row.get(i)?)));
        cells.collect::<rusqlite::Result<Cells>>()
    });
    rows.and_then(Iterator::collect).unwrap_or_else(|e| panic!("{e}"))
}

/// Every row was looked at, and those that came are as they were.
fn all_there(source: &Path, store: &Path, had: &[Vec<Cells>; 4], done: &Report) {
    for (part, had) in Part::ALL.into_iter().zip(had) {
        let theirs = table(source, part);
        let theirs: Vec<Cells> = theirs
            .into_iter()
            .filter(|r| {
                part != Part::Profile || r.get("superseded_by").is_none_or(|v| *v == Value::Null)
            })
            .collect();
        let counts = done.counts(part);
        let failed = done.errors.iter().any(|e| e.starts_with(part.name()) || e.contains(", "));
        if failed {
            continue;
        }
        assert_eq!(counts.imported + counts.skipped, theirs.len() as u64, "{}", part.name());
        let key = match part {
            Part::Sessions | Part::Tasks => "id",
            Part::Notes => "content",
            Part::Profile => "key",
        };
        let ours = table(store, part);
        for row in &theirs {
            let Some(id) = row.get(key).filter(|v| **v != Value::Null) else { continue };
            let found = ours.iter().find(|r| r.get(key) == Some(id));
            assert!(found.is_some() || counts.skipped > 0, "{id:?} is lost");
            let count = |rows: &[Cells]| rows.iter().filter(|r| r.get(key) == Some(id)).count();
            // Facts that hold no more may have the key too.
            let once = part == Part::Profile || count(&ours) <= count(had).max(1);
            assert!(once, "{id:?} came more than once");
        }
        if counts.skipped == 0 {
            let carried =
                ["created_at", "updated_at", "working_dir", "user_message", "tags", "value"];
            for row in &theirs {
                let found = ours.iter().find(|r| r.get(key) == row.get(key));
                for name in carried {
                    let (was, is) = (row.get(name), found.and_then(|r| r.get(name)));
                    if let (Some(was), Some(is)) = (was, is)
                        && *was != Value::Null
                    {
                        assert_eq!(was, is, "{name}");
                    }
                }
            }
        }
    }
}
