-- The source text of the config, the truth for other programs too.
CREATE TABLE IF NOT EXISTS ifs_config (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    form TEXT NOT NULL CHECK (form IN ('json', 'yaml')),
    text TEXT NOT NULL
);
