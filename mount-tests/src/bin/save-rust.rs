//! Saves the file `$T` with `$OLD` replaced by `$NEW` by the calls that Rust programs use:
//! `write` is `std::fs::write`, whose close nobody sees, `sync` asks for the disk.

use std::io::Write;
use std::process::{Command, ExitCode};

fn save(way: &str) -> std::io::Result<()> {
    let env = |name: &str| std::env::var(name).map_err(std::io::Error::other);
    let name = env("T")?;
    let text = std::fs::read_to_string(&name)?;
    Command::new("pause").status()?;
    let text = text.replacen(&env("OLD")?, &env("NEW")?.replace("\\x00", "\0"), 1);
    if way == "write" {
        return std::fs::write(&name, text);
    }
    let mut file = std::fs::File::create(&name)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn main() -> ExitCode {
    let way = std::env::args().nth(1).unwrap_or_default();
    match save(&way) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
