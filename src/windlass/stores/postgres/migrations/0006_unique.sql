-- Unique tasks. Safe to run twice.

-- Locks of unique tasks (docs/decisions/0025-unique-tasks.md): the task that holds each, and until when it counts after it has
-- started. From `look` on the sweep deletes a lock whose task is not queued.
CREATE TABLE IF NOT EXISTS windlass.unique_lock (
    id    uuid PRIMARY KEY,
    task  uuid NOT NULL,
    until bigint NOT NULL,
    look  bigint NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX IF NOT EXISTS unique_lock_look ON windlass.unique_lock (look);

-- Nodes read the crons in code every second, and there may be very many others.
CREATE INDEX IF NOT EXISTS cron_in_code ON windlass.cron (handler) WHERE NOT at_run_time;
