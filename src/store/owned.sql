-- Files that belong to processes: live-session markers and leases, and the queue for leases.
-- `boot` is the boot id, `pidns` the inode number of the pid namespace in which `pid` counts,
-- `ident` the inode number of the process's pidfd, unique for the boot. `at`, `born`:
-- nanoseconds since 1970 UTC.

-- `pid` 0: an ordinary file in spite of its name. `token`: the fencing number of a lease.
CREATE TABLE IF NOT EXISTS ifs_owned (
    path BLOB PRIMARY KEY,
    lease INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    born INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    ident INTEGER NOT NULL,
    boot TEXT NOT NULL,
    pidns INTEGER NOT NULL,
    token INTEGER NOT NULL,
    at INTEGER NOT NULL
) WITHOUT ROWID;

-- Who waits for a lease, in the order of `ticket`.
CREATE TABLE IF NOT EXISTS ifs_waiters (
    ticket INTEGER PRIMARY KEY AUTOINCREMENT,
    path BLOB NOT NULL,
    pid INTEGER NOT NULL,
    ident INTEGER NOT NULL,
    boot TEXT NOT NULL,
    pidns INTEGER NOT NULL,
    at INTEGER NOT NULL
);
