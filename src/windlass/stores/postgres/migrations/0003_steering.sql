-- What the autoscaler and people agree on. Safe to run twice.

-- A node's report about its pools, as JSON text, and when it was made.
ALTER TABLE windlass.session ADD COLUMN IF NOT EXISTS report text NOT NULL DEFAULT '';
ALTER TABLE windlass.session ADD COLUMN IF NOT EXISTS reported bigint;

-- Small documents, updated in place (HOT updates). A removed one has no value and keeps its version. `mark` identifies the
-- last write, so that a writer whose answer was lost can find out whether it was committed.
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
