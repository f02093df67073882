-- What the autoscaler and people agree on. SQLite adds no column twice: the version, which is raised in the same
-- transaction, keeps this from being run again.

-- A node's report about its pools, as JSON text, and when it was made.
ALTER TABLE session ADD COLUMN report TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN reported INTEGER;

-- Small documents. A removed one has no value and keeps its version.
CREATE TABLE IF NOT EXISTS control (
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    version INTEGER NOT NULL,
    value   TEXT,
    changed INTEGER NOT NULL,
    mark    BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- What was done or decided, and by whom. `kind` is the first part of the subject. Numbers are never reused.
CREATE TABLE IF NOT EXISTS audit (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    subject TEXT NOT NULL,
    action  TEXT NOT NULL,
    text    TEXT NOT NULL,
    by      TEXT NOT NULL,
    data    TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS audit_kind ON audit (kind, number);
CREATE INDEX IF NOT EXISTS audit_subject ON audit (subject, number);
