-- Crons that are created at run time. Safe to run twice.

-- `due` is when a cron that was created at run time fires next; crons in code have none. `version` grows with every change.
ALTER TABLE windlass.cron ADD COLUMN IF NOT EXISTS queue text COLLATE "C";
ALTER TABLE windlass.cron ADD COLUMN IF NOT EXISTS tenant text COLLATE "C";
ALTER TABLE windlass.cron ADD COLUMN IF NOT EXISTS priority integer;
ALTER TABLE windlass.cron ADD COLUMN IF NOT EXISTS starts bigint;
ALTER TABLE windlass.cron ADD COLUMN IF NOT EXISTS ends bigint;
ALTER TABLE windlass.cron ADD COLUMN IF NOT EXISTS at_run_time boolean NOT NULL DEFAULT false;
ALTER TABLE windlass.cron ADD COLUMN IF NOT EXISTS version bigint NOT NULL DEFAULT 0;
ALTER TABLE windlass.cron ADD COLUMN IF NOT EXISTS due bigint;
CREATE INDEX IF NOT EXISTS cron_due ON windlass.cron (due) WHERE at_run_time AND NOT paused;
