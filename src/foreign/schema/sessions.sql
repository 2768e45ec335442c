CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  working_dir TEXT NOT NULL,
  status TEXT NOT NULL,
  payload TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  turn_owner TEXT
);
CREATE INDEX idx_sessions_status ON sessions(status);
CREATE INDEX idx_sessions_working_dir ON sessions(working_dir);
CREATE INDEX idx_sessions_updated_id ON sessions(updated_at DESC, id DESC);
