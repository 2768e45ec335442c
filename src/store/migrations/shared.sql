-- The tables that other programs share with us. They are created only where they are
-- missing and never altered: a database that another program made is taken over as it is.
--
-- missions          the task list, one row per mission; `sequence`: lower is earlier;
--                   times are local, YYYY-MM-DDTHH:MM
-- meta              `initialized_at`, `s8_synced`: the file has been imported once
-- ci_queue          lines of the section CI
-- ideas             lines of the section Ideas; `text` has its leading "- "
-- quarantine        what was set aside; the newest 200 are kept by their writer
-- mission_outcomes  results by key; the newest 500 are kept by their writer

CREATE TABLE IF NOT EXISTS missions (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'in_progress', 'done', 'failed')),
    project TEXT NOT NULL DEFAULT 'default',
    sequence INTEGER NOT NULL DEFAULT 0,
    complexity TEXT,
    queued_at TEXT,
    started_at TEXT,
    completed_at TEXT,
    recovery_count INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS idx_missions_state ON missions (state);
CREATE INDEX IF NOT EXISTS idx_missions_project ON missions (project);
CREATE INDEX IF NOT EXISTS idx_missions_pending ON missions (state, sequence);

CREATE TABLE IF NOT EXISTS meta (
    key TEXT PRIMARY KEY,
    value TEXT
);

CREATE TABLE IF NOT EXISTS ci_queue (
    id INTEGER PRIMARY KEY,
    project TEXT NOT NULL DEFAULT '',
    pr_url TEXT NOT NULL,
    branch TEXT,
    full_repo TEXT,
    queued TEXT,
    attempt INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 5,
    sequence INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS idx_ci_pr ON ci_queue (pr_url);

CREATE TABLE IF NOT EXISTS ideas (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL,
    project TEXT NOT NULL DEFAULT 'default',
    added_at TEXT,
    sequence INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS quarantine (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL,
    reason TEXT,
    source TEXT,
    added_at TEXT
);

CREATE TABLE IF NOT EXISTS mission_outcomes (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    status TEXT NOT NULL,
    reason_category TEXT,
    detail TEXT,
    recorded_at TEXT
);
CREATE INDEX IF NOT EXISTS idx_outcomes_key ON mission_outcomes (key);
