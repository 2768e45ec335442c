//! Prints the table of docs/SAVES.md from the rows that the last run of the matrix has left;
//! with `INSTANCEFS_WRITE_DOCS=1` it also puts it into the document.

use std::path::Path;
use std::process::ExitCode;

const BEGIN: &str = "<!-- table -->\n";
const END: &str = "<!-- end of the table -->\n";

fn main() -> ExitCode {
    let table = mount_tests::programs::table::markdown();
    print!("{table}");
    if std::env::var_os("INSTANCEFS_WRITE_DOCS").is_none_or(|value| value != "1") {
        return ExitCode::SUCCESS;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/SAVES.md");
    match write(&path, &table) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

fn write(path: &Path, table: &str) -> std::io::Result<()> {
    let old = std::fs::read_to_string(path)?;
    let parts = old.split_once(BEGIN).and_then(|(head, rest)| {
        rest.split_once(END).map(|(_, tail)| format!("{head}{BEGIN}{table}\n{END}{tail}"))
    });
    std::fs::write(path, parts.ok_or_else(|| std::io::Error::other("no place for the table"))?)
}
