-- Unique tasks. Safe to run twice.

-- Locks of unique tasks (docs/decisions/0025-unique-tasks.md): the task that holds each, and until when it counts after it has
-- started. From `look` on the sweep deletes a lock whose task is not queued.
CREATE TABLE IF NOT EXISTS unique_lock (
    id    BLOB PRIMARY KEY,
    task  BLOB NOT NULL,
    until INTEGER NOT NULL,
    look  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS unique_lock_look ON unique_lock (look);

-- Nodes read the crons in code every second, and there may be very many others.
CREATE INDEX IF NOT EXISTS cron_in_code ON cron (handler) WHERE NOT at_run_time;
