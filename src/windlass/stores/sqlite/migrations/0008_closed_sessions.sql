-- Whether a node closed its session, and was not lost. SQLite adds no column twice: the version, which is raised in the
-- same transaction, keeps this from being run again.
ALTER TABLE session ADD COLUMN closed INTEGER NOT NULL DEFAULT 0;
