-- Crons that are created at run time. SQLite adds no column twice: the version, which is raised in the same transaction,
-- keeps this from being run again.

-- `due` is when a cron that was created at run time fires next; crons in code have none. `version` grows with every change.
ALTER TABLE cron ADD COLUMN queue TEXT;
ALTER TABLE cron ADD COLUMN tenant TEXT;
ALTER TABLE cron ADD COLUMN priority INTEGER;
ALTER TABLE cron ADD COLUMN starts INTEGER;
ALTER TABLE cron ADD COLUMN ends INTEGER;
ALTER TABLE cron ADD COLUMN at_run_time INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cron ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cron ADD COLUMN due INTEGER;
CREATE INDEX IF NOT EXISTS cron_due ON cron (due) WHERE at_run_time AND NOT paused;
