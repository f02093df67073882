-- What nodes and workers report about themselves and their attempts. SQLite adds no column twice: the version, which is
-- raised in the same transaction, keeps this from being run again.

-- What the node serves, as JSON text.
ALTER TABLE session ADD COLUMN about TEXT NOT NULL DEFAULT '';
-- Its worker processes, as JSON text.
ALTER TABLE session ADD COLUMN workers TEXT NOT NULL DEFAULT '';

-- The output of handlers, one row per attempt with output.
CREATE TABLE IF NOT EXISTS log (
    task  BLOB NOT NULL,
    fence INTEGER NOT NULL,
    text  TEXT NOT NULL,
    PRIMARY KEY (task, fence)
) STRICT, WITHOUT ROWID;

-- The progress of attempts.
CREATE TABLE IF NOT EXISTS progress (
    task    BLOB PRIMARY KEY,
    fence   INTEGER NOT NULL,
    share   REAL CHECK (share BETWEEN 0 AND 1),
    message TEXT,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS handler (
    name       TEXT PRIMARY KEY,
    is_async   INTEGER NOT NULL,
    queue      TEXT NOT NULL,
    parameters TEXT NOT NULL,
    returns    TEXT NOT NULL,
    doc        TEXT NOT NULL,
    template   TEXT NOT NULL,
    seen       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `fired` is the latest nominal time that fired or was skipped. The node that moves it forward fires the cron.
CREATE TABLE IF NOT EXISTS cron (
    name       TEXT PRIMARY KEY,
    handler    TEXT NOT NULL,
    schedule   TEXT NOT NULL,
    timezone   TEXT NOT NULL,
    misfire    TEXT NOT NULL,
    args       TEXT NOT NULL,
    fired      INTEGER,
    paused     INTEGER NOT NULL DEFAULT 0,
    paused_by  TEXT,
    paused_why TEXT
) STRICT, WITHOUT ROWID;
