-- What the autoscaler and people agree on. Safe to run twice.

-- What a node says of its pools, as JSON text, and when it said so.
ALTER TABLE windlass.session ADD COLUMN IF NOT EXISTS report text NOT NULL DEFAULT '';
ALTER TABLE windlass.session ADD COLUMN IF NOT EXISTS reported bigint;

-- Small documents, written again and again in their place (HOT updates). One that was removed has no value, and keeps
-- its version; `mark` is its latest writer's, who may have to look whether a lost answer was a yes.
CREATE TABLE IF NOT EXISTS windlass.control (
    kind    text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    value   text,
    changed bigint NOT NULL,
    mark    uuid NOT NULL,
    PRIMARY KEY (kind, name)
) WITH (fillfactor = 50);

-- What was done or decided, and by whom. `kind` is the first part of the subject.
CREATE TABLE IF NOT EXISTS windlass.audit (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    action  text COLLATE "C" NOT NULL,
    text    text NOT NULL,
    by      text NOT NULL,
    data    text NOT NULL
);
CREATE INDEX IF NOT EXISTS audit_kind ON windlass.audit (kind, number);
CREATE INDEX IF NOT EXISTS audit_subject ON windlass.audit (subject, number);

-- For the oldest wait. By lot, so that what was claimed from a lot that is long empty need not be passed over.
CREATE INDEX IF NOT EXISTS task_oldest ON windlass.task (queue, lot, due) WHERE state = 'runnable';
