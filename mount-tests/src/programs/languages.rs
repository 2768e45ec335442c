//! What the standard libraries of languages do.

use super::{Broken, Kind, Meanwhile, Program, Style};

/// In the order of the table.
pub(super) const ALL: &[Program] = &[
    Program::new("py_write", "Python `open('w')`", "save.py write"),
    Program::new("py_write_binary", "Python `open('wb')`, one write a line", "save.py lines"),
    Program::new("py_write_read", "Python `open('w+')`, reads it back", "save.py write_read"),
    Program::new("py_read_write", "Python `open('r+')`, truncate after", "save.py read_write"),
    Program::new(
        "py_truncate_first",
        "Python `open('r+')`, truncate first",
        "save.py truncate_first",
    ),
    Program::new("py_append", "Python `open('a')`", "save.py append").style(Style::Append),
    Program::new("py_pathlib", "Python `Path.write_text`", "save.py pathlib"),
    Program::new("py_not_closed", "Python, file never closed", "save.py not_closed"),
    Program::new("py_replace", "Python temporary + `os.replace`", "save.py replace"),
    Program::new("py_tempfile", "Python `tempfile` + `fsync` + `os.replace`", "save.py tempfile"),
    Program::new("py_copy", "Python `shutil.copy`", "save.py copy"),
    Program::new("py_copy2", "Python `shutil.copy2`", "save.py copy2"),
    Program::new("py_move", "Python `shutil.move`", "save.py move"),
    Program::new("py_fileinput", "Python `fileinput(inplace=True)`", "save.py fileinput"),
    Program::new(
        "py_fileinput_backup",
        "Python `fileinput(inplace=True, backup='.bak')`",
        "save.py fileinput_backup",
    )
    .backup("T.bak"),
    Program::new("py_mmap", "Python `mmap`, `flush`", "save.py mmap")
        .kinds(&[Kind::InPlace, Kind::Growing])
        .meanwhile(Meanwhile::Offsets),
    Program::new("py_flock", "Python `flock` around read, `truncate`, write", "save.py flock")
        .meanwhile(Meanwhile::Merged),
    Program::new("node_sync", "Node `writeFileSync`", "save.js sync"),
    Program::new("node_callback", "Node `writeFile`", "save.js callback"),
    Program::new("node_promise", "Node `promises.writeFile`", "save.js promise"),
    Program::new("node_stream", "Node `createWriteStream`", "save.js stream"),
    Program::new("node_append", "Node `appendFileSync`", "save.js append").style(Style::Append),
    Program::new("node_copy", "Node `copyFileSync`", "save.js copy"),
    Program::new("node_rename", "Node temporary + `renameSync`", "save.js rename"),
    Program::new("node_atomic", "Node `write-file-atomic`", "save.js atomic"),
    Program::new("go_write", "Go `os.WriteFile`", "save-go"),
    Program::new("rust_write", "Rust `fs::write`", "save-rust write"),
    Program::new("rust_sync", "Rust `File::create`, `sync_all`", "save-rust sync"),
    Program::new(
        "sqlite_writefile",
        "sqlite3 `writefile()`",
        r#"edit < "$T" > "$N"; pause
        sqlite3 :memory: "select writefile('$T', readfile('$N')) > 0" > /dev/null"#,
    )
    .broken(Broken::Nul),
];
