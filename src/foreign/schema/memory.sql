CREATE TABLE schema_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO schema_meta (key, value) VALUES ('version', '9');

CREATE TABLE memories (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  content TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  source TEXT NOT NULL,
  session_id TEXT,
  working_dir TEXT,
  tags TEXT,
  recall_count INTEGER NOT NULL DEFAULT 0,
  last_recalled_at INTEGER,
  consolidating_at INTEGER,
  consolidated_into INTEGER,
  vote_score REAL NOT NULL DEFAULT 0.0
);
CREATE INDEX idx_memories_working_dir ON memories(working_dir);
CREATE INDEX idx_memories_updated ON memories(updated_at DESC);
CREATE INDEX idx_memories_consolidated ON memories(consolidated_into);
CREATE INDEX idx_memories_vote_score ON memories(vote_score);

CREATE VIRTUAL TABLE memories_fts USING fts5(
  content, content='memories', content_rowid='id', tokenize='porter unicode61'
);
CREATE TRIGGER memories_ai AFTER INSERT ON memories BEGIN
  INSERT INTO memories_fts(rowid, content) VALUES (new.id, new.content);
END;
CREATE TRIGGER memories_ad AFTER DELETE ON memories BEGIN
  INSERT INTO memories_fts(memories_fts, rowid, content) VALUES ('delete', old.id, old.content);
END;
CREATE TRIGGER memories_au AFTER UPDATE ON memories BEGIN
  INSERT INTO memories_fts(memories_fts, rowid, content) VALUES ('delete', old.id, old.content);
  INSERT INTO memories_fts(rowid, content) VALUES (new.id, new.content);
END;

CREATE TABLE profile_facts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 1,
  keywords TEXT,
  valid_from INTEGER NOT NULL,
  superseded_by INTEGER,
  supersedes INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  vote_score REAL NOT NULL DEFAULT 0.0
);
CREATE UNIQUE INDEX idx_profile_active_key ON profile_facts(key) WHERE superseded_by IS NULL;
CREATE INDEX idx_profile_chain ON profile_facts(superseded_by);

-- Never filled by an import, but a program that finds this version expects them.
CREATE TABLE memory_embeddings (
  memory_id INTEGER NOT NULL REFERENCES memories(id) ON DELETE CASCADE,
  model TEXT NOT NULL,
  dim INTEGER NOT NULL,
  embedding BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (memory_id, model)
);
CREATE INDEX idx_memory_embeddings_model ON memory_embeddings(model);
CREATE TABLE memory_links (
  from_id INTEGER NOT NULL REFERENCES memories(id) ON DELETE CASCADE,
  to_id INTEGER NOT NULL REFERENCES memories(id) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  weight REAL NOT NULL DEFAULT 1.0,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (from_id, to_id, kind)
);
CREATE INDEX idx_memory_links_to ON memory_links(to_id);
CREATE INDEX idx_memory_links_kind ON memory_links(kind);
CREATE TABLE lessons (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  activation TEXT NOT NULL,
  principle TEXT NOT NULL,
  tags TEXT,
  status TEXT NOT NULL DEFAULT 'active',
  success_count INTEGER NOT NULL DEFAULT 0,
  failure_count INTEGER NOT NULL DEFAULT 0,
  parent_ids TEXT NOT NULL,
  working_dir TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  deprecated_at INTEGER,
  vote_score REAL NOT NULL DEFAULT 0.0
);
CREATE INDEX idx_lessons_status ON lessons(status);
CREATE INDEX idx_lessons_updated_at ON lessons(updated_at);
CREATE INDEX idx_lessons_vote_score ON lessons(vote_score);
CREATE VIRTUAL TABLE lessons_fts USING fts5(
  activation, principle, tags, content='lessons', content_rowid='id', tokenize='porter unicode61'
);
CREATE TRIGGER lessons_ai AFTER INSERT ON lessons BEGIN
  INSERT INTO lessons_fts(rowid, activation, principle, tags)
  VALUES (new.id, new.activation, new.principle, coalesce(new.tags, ''));
END;
CREATE TRIGGER lessons_ad AFTER DELETE ON lessons BEGIN
  INSERT INTO lessons_fts(lessons_fts, rowid, activation, principle, tags)
  VALUES ('delete', old.id, old.activation, old.principle, coalesce(old.tags, ''));
END;
CREATE TRIGGER lessons_au AFTER UPDATE ON lessons BEGIN
  INSERT INTO lessons_fts(lessons_fts, rowid, activation, principle, tags)
  VALUES ('delete', old.id, old.activation, old.principle, coalesce(old.tags, ''));
  INSERT INTO lessons_fts(rowid, activation, principle, tags)
  VALUES (new.id, new.activation, new.principle, coalesce(new.tags, ''));
END;
CREATE TABLE vote_events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  target_id INTEGER NOT NULL,
  direction INTEGER NOT NULL,
  session_id TEXT,
  turn_index INTEGER,
  created_at INTEGER NOT NULL
);
CREATE INDEX idx_vote_events_created ON vote_events(created_at);
CREATE INDEX idx_vote_events_target ON vote_events(kind, target_id);
