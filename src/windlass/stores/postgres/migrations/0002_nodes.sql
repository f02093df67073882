-- What nodes and workers report about themselves and their attempts. Safe to run twice.

-- What the node serves, as JSON text.
ALTER TABLE windlass.session ADD COLUMN IF NOT EXISTS about text NOT NULL DEFAULT '';
-- Its worker processes, as JSON text.
ALTER TABLE windlass.session ADD COLUMN IF NOT EXISTS workers text NOT NULL DEFAULT '';

-- The output of handlers, one row per attempt with output.
CREATE TABLE IF NOT EXISTS windlass.log (
    task  uuid NOT NULL,
    fence bigint NOT NULL,
    text  text NOT NULL,
    PRIMARY KEY (task, fence)
);

-- The progress of attempts, outside the hot row of `task`, and updated in place (HOT updates).
CREATE TABLE IF NOT EXISTS windlass.progress (
    task    uuid PRIMARY KEY,
    fence   bigint NOT NULL,
    share   double precision CHECK (share BETWEEN 0 AND 1),
    message text,
    at      bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS windlass.handler (
    name       text COLLATE "C" PRIMARY KEY,
    is_async   boolean NOT NULL,
    queue      text COLLATE "C" NOT NULL,
    parameters text NOT NULL,
    returns    text NOT NULL,
    doc        text NOT NULL,
    template   text NOT NULL,
    seen       bigint NOT NULL
);

-- `fired` is the latest nominal time that fired or was skipped. The node that moves it forward fires the cron.
CREATE TABLE IF NOT EXISTS windlass.cron (
    name       text COLLATE "C" PRIMARY KEY,
    handler    text COLLATE "C" NOT NULL,
    schedule   text NOT NULL,
    timezone   text NOT NULL,
    misfire    text COLLATE "C" NOT NULL,
    args       text NOT NULL,
    fired      bigint,
    paused     boolean NOT NULL DEFAULT false,
    paused_by  text,
    paused_why text
);

-- Return the open partition of a queue. The transaction gets its id first, and a volatile function reads with a new
-- snapshot. So the one who closes a partition knows which transactions to wait for.
CREATE OR REPLACE FUNCTION windlass.open_lot(of_queue text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    AS $$
BEGIN
    PERFORM pg_catalog.pg_current_xact_id();
    RETURN coalesce((SELECT max(number) FROM windlass.lot WHERE queue = of_queue), 0);
END $$;
