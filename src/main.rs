//! The `instancefs` program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    instancefs::cli::main()
}
