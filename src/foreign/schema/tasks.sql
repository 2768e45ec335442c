CREATE TABLE schema_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO schema_meta (key, value) VALUES ('version', '3');
CREATE TABLE tasks (
  id TEXT PRIMARY KEY,
  session_id TEXT,
  user_message TEXT NOT NULL,
  max_steps INTEGER,
  status TEXT NOT NULL,
  origin TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  last_error TEXT,
  last_error_cat TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  started_at INTEGER,
  completed_at INTEGER,
  schedule_kind TEXT,
  schedule_value TEXT,
  scheduled_for INTEGER,
  recurring INTEGER NOT NULL DEFAULT 0,
  last_scheduled_at INTEGER,
  trigger_source TEXT,
  notify TEXT,
  run_owner TEXT
);
CREATE INDEX idx_tasks_status_updated ON tasks(status, updated_at);
CREATE INDEX idx_tasks_session ON tasks(session_id);
CREATE INDEX idx_tasks_pending_created ON tasks(status, created_at) WHERE status = 'pending';
CREATE INDEX idx_tasks_due ON tasks(status, scheduled_for) WHERE status = 'pending';
