//! The saving patterns of coding agents.

use super::Program;

/// In the order of the table.
pub(super) const ALL: &[Program] = &[
    Program::new(
        "agent_temp",
        "`T.tmp.PID.HEX`, `fchmod`, `fsync`, rename, then size and inode",
        "save.py agent_temp",
    ),
    Program::new("agent_temp_node", "the same from Node's threads", "save.js agent_temp"),
    Program::new(
        "agent_in_place",
        "truncating open, write, `fsync`, close, then size",
        "save.js agent_in_place",
    ),
    Program::new(
        "agent_threads",
        "truncating open, one write, close unseen, each on another thread",
        "save.py agent_threads",
    ),
    Program::new(
        "agent_jetbrains",
        "`T___jb_tmp___`, T moved to `T___jb_old___`, rename in, unlink",
        "save.py jetbrains",
    ),
    Program::new(
        "agent_vscode",
        "truncating open, write, `fdatasync`, close, `stat`",
        "save.py vscode",
    ),
    Program::new(
        "agent_gio",
        "`.goutputstream-HEX`, `fsync`, rename, close after it (GLib)",
        "save.py gio",
    ),
];
