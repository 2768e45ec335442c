-- The tables that are ours. All have the prefix `ifs_`. Times (`at`, `mtime`, `atime`) are
-- nanoseconds since 1970 UTC. `doc` is a DocId name, `view` a file name.

-- Keys: `schema` (number of the last migration), `created` (time), `refusals` (how many
-- there ever were), `number:NAME` (the next number of a series, see Store::reserve).
CREATE TABLE ifs_meta (
    key TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;

-- One row per document that was ever saved. `rev`: its newest revision. `rows_rev`: the
-- revision that its rows were last made equal to, older than `rev` only while rows wait for
-- missions.lock. `rows`: the archive of the rows as they are when they equal no revision
-- (another program changed them during that wait), else null.
CREATE TABLE ifs_documents (
    doc TEXT PRIMARY KEY,
    rev INTEGER NOT NULL,
    rows_rev INTEGER NOT NULL,
    rows BLOB,
    mtime INTEGER NOT NULL
) WITHOUT ROWID;

-- The history. `at` is also the mtime of that version. `base_rev`: what the writer had seen,
-- null: nothing. `via`: mount, command, sql, import. `overlaps`: JSON array of
-- {what, earlier, later}, null: none. `delta`: from the archive of the document's revision
-- before to this one (format: delta.rs), from nothing for the first one.
CREATE TABLE ifs_revisions (
    rev INTEGER PRIMARY KEY AUTOINCREMENT,
    doc TEXT NOT NULL,
    at INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    session INTEGER NOT NULL,
    program TEXT NOT NULL,
    via TEXT NOT NULL,
    base_rev INTEGER,
    stale INTEGER NOT NULL DEFAULT 0,
    summary TEXT NOT NULL,
    overlaps TEXT,
    delta BLOB NOT NULL
);
CREATE UNIQUE INDEX ifs_revisions_doc ON ifs_revisions (doc, rev);

-- Whole archives now and then, so that a revision is found by few deltas.
CREATE TABLE ifs_keyframes (
    rev INTEGER PRIMARY KEY,
    doc TEXT NOT NULL,
    archive BLOB NOT NULL
);
CREATE INDEX ifs_keyframes_doc ON ifs_keyframes (doc, rev);

-- What a name looks like apart from its content. Null: not set, the default stands.
CREATE TABLE ifs_names (
    view TEXT PRIMARY KEY,
    ino INTEGER NOT NULL,
    mode INTEGER,
    uid INTEGER,
    gid INTEGER,
    atime INTEGER,
    mtime INTEGER,
    mtime_rev INTEGER
) WITHOUT ROWID;

-- What each process has seen (semantics section 4). `identity` is opaque here; `text` is the
-- writer's own text where it is not that of the revision.
CREATE TABLE ifs_seen (
    doc TEXT NOT NULL,
    boot TEXT NOT NULL,
    identity BLOB NOT NULL,
    view TEXT NOT NULL,
    rev INTEGER NOT NULL,
    text BLOB,
    at INTEGER NOT NULL,
    PRIMARY KEY (doc, boot, identity)
) WITHOUT ROWID;

-- Refused saves, the newest 1,000.
CREATE TABLE ifs_refusals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    view TEXT NOT NULL,
    pid INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    session INTEGER NOT NULL,
    program TEXT NOT NULL,
    reason TEXT NOT NULL,
    line INTEGER,
    key TEXT,
    message TEXT NOT NULL,
    hint TEXT NOT NULL,
    kept_as TEXT
);

-- The files that stand in the store while it is not mounted (R11): what was written out.
CREATE TABLE ifs_exports (
    view TEXT PRIMARY KEY,
    sha256 BLOB NOT NULL,
    rev INTEGER NOT NULL,
    at INTEGER NOT NULL
) WITHOUT ROWID;
