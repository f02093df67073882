-- Whether a node closed its session, and was not lost. Safe to run twice.
ALTER TABLE windlass.session ADD COLUMN IF NOT EXISTS closed boolean NOT NULL DEFAULT false;
