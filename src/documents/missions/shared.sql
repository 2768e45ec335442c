-- Kōan imports missions.md on top of the rows unless this says that it has been done. Here the
-- file is a view of the rows from the start.
INSERT INTO meta (key, value)
SELECT 'initialized_at', strftime('%Y-%m-%dT%H:%M', 'now', 'localtime')
WHERE NOT EXISTS (SELECT 1 FROM meta WHERE key = 'initialized_at');
