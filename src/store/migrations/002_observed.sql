-- How the merge base of a revision was found: JSON (model/basis.rs), null for appends and for other
-- programs' changes.
ALTER TABLE ifs_revisions ADD COLUMN basis TEXT;

-- Observations: who has met which version and how (SEMANTICS, section 4). `at` orders them within a
-- boot. `chain`: the process and its ancestors, nearest first, each as pid (4 bytes) and identity (8
-- bytes), little-endian; empty when the process cannot be told. `kind`: 0 read, 1 saved, 2 no file
-- was found. `used`: 1 if a save has started from it,
-- 2 if one by a process that is neither its ancestor nor its descendant has. `text` is the writer's own text where it is not
-- that of the revision.
CREATE TABLE ifs_observed (
    boot TEXT NOT NULL,
    doc TEXT NOT NULL,
    at INTEGER NOT NULL,
    time INTEGER NOT NULL,
    view TEXT NOT NULL,
    chain BLOB NOT NULL,
    uid INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    used INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    text BLOB,
    PRIMARY KEY (boot, doc, at)
) WITHOUT ROWID;
DROP TABLE ifs_seen;

-- The version that a refused text was compared with (null: none), and whether it was an append.
-- `resolved`: the document has been saved by the same writer since.
ALTER TABLE ifs_refusals ADD COLUMN base_rev INTEGER;
ALTER TABLE ifs_refusals ADD COLUMN append INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ifs_refusals ADD COLUMN resolved INTEGER NOT NULL DEFAULT 0;
