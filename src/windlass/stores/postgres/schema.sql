-- The tables of Windlass after all migrations, for reading. A test compares a database built from this file with one
-- built from the migrations.
--
-- Times are microseconds since 1970, UTC.
--
-- `task` is narrow, because it is the only table that changes while tasks run. `body` has what callers wrote, `result` what
-- handlers returned, `attempt` the errors. A transaction locks rows in one statement and in id order
-- (docs/architecture/stores.md). There are no foreign keys: each would cost a lock on the parent for every row.

CREATE FUNCTION windlass.clock(given bigint) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $$;

CREATE TABLE windlass.meta (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch bigint NOT NULL DEFAULT 0
);
INSERT INTO windlass.meta DEFAULT VALUES;

CREATE TABLE windlass.task (
    id               uuid PRIMARY KEY,
    queue            text COLLATE "C" NOT NULL,
    tenant           text COLLATE "C" NOT NULL,
    state            text COLLATE "C" NOT NULL CHECK (state IN (
                         'waiting', 'scheduled', 'runnable', 'leased', 'retrying',
                         'completed', 'failed', 'cancelled', 'expired')),
    band             bigint NOT NULL,
    rank             bigint NOT NULL,
    tie              bigint NOT NULL,
    due              bigint NOT NULL,
    expires          bigint,
    waiting          integer NOT NULL CHECK (waiting >= 0),
    on_failure       text COLLATE "C" NOT NULL,
    fence            bigint NOT NULL DEFAULT 0,
    session          uuid,
    claimed          bigint,
    finished         bigint,
    attempts         integer NOT NULL DEFAULT 0,
    crashes          integer NOT NULL DEFAULT 0,
    losses           integer NOT NULL DEFAULT 0,
    generation       integer NOT NULL DEFAULT 0,
    cancel_requested boolean NOT NULL DEFAULT false,
    cancel_by        bigint,
    reason           text,
    lot              bigint NOT NULL DEFAULT 0,
    kind             bigint NOT NULL,
    error_group      text COLLATE "C", -- Of a failed task: the fingerprint of its last error.
    CONSTRAINT leased_by_somebody CHECK (state <> 'leased' OR (session IS NOT NULL AND claimed IS NOT NULL)),
    CONSTRAINT finished_at_the_end CHECK
        ((finished IS NOT NULL) = (state IN ('completed', 'failed', 'cancelled', 'expired'))),
    CONSTRAINT runs_after_its_prerequisites CHECK (waiting = 0 OR state IN ('waiting', 'failed', 'cancelled', 'expired'))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

-- Each index contains only the rows that are searched for, so finished tasks are in none but the last.
CREATE INDEX task_runnable ON windlass.task (queue, lot, band, rank, tie, id) WHERE state = 'runnable';
-- For claims that skip kinds of tasks (docs/decisions/0013-what-a-claim-can-see.md).
CREATE INDEX task_kind ON windlass.task (queue, lot, kind, band, rank, tie, id) WHERE state = 'runnable';
-- For the longest wait. By partition, so that dead entries of empty partitions need not be skipped.
CREATE INDEX task_oldest ON windlass.task (queue, lot, due) WHERE state = 'runnable';
CREATE INDEX task_due ON windlass.task (due) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX task_held ON windlass.task (session) WHERE state = 'leased';
CREATE INDEX task_cancel_by ON windlass.task (cancel_by) WHERE cancel_by IS NOT NULL;
CREATE INDEX task_expires ON windlass.task (expires) WHERE expires IS NOT NULL AND finished IS NULL;
CREATE INDEX task_failed ON windlass.task (finished, id) WHERE state = 'failed';
CREATE INDEX task_finished ON windlass.task (finished, id) WHERE finished IS NOT NULL;

CREATE TABLE windlass.body (
    id          uuid PRIMARY KEY,
    handler     text COLLATE "C" NOT NULL,
    args        text NOT NULL,
    rules       text,
    workflow    text COLLATE "C",
    workflow_tenant text COLLATE "C",
    key         text COLLATE "C",
    fingerprint uuid,
    priority    integer NOT NULL,
    deadline    bigint,
    first_due   bigint NOT NULL,
    submitted   bigint NOT NULL,
    CONSTRAINT tenant_of_its_workflow CHECK ((workflow IS NULL) = (workflow_tenant IS NULL))
);
CREATE INDEX body_submitted ON windlass.body (submitted, id);
-- `workflow_tenant` repeats the tenant, only for tasks of a workflow. The first index has the steps of a workflow in submit
-- order. The second lists workflows, newest first, with one lookup per (submitted, workflow, tenant).
CREATE INDEX body_workflow ON windlass.body (workflow, workflow_tenant, submitted, id) WHERE workflow IS NOT NULL;
CREATE INDEX body_workflow_newest ON windlass.body (submitted, workflow, workflow_tenant) WHERE workflow IS NOT NULL;

CREATE TABLE windlass.result (
    id    uuid PRIMARY KEY,
    value text NOT NULL
);

-- Attempts that did not complete. A completed one is in the task itself.
CREATE TABLE windlass.attempt (
    task    uuid NOT NULL,
    fence   bigint NOT NULL,
    session uuid NOT NULL,
    started bigint NOT NULL,
    ended   bigint NOT NULL,
    state   text COLLATE "C" NOT NULL,
    error   text,
    PRIMARY KEY (task, fence)
);

-- Every end of a task looks for unresolved edges with `edge_open`, which contains only those. So resolved edges of a parent
-- with very many children need not be skipped, and no statistics make a scan of the whole table seem cheaper
-- (docs/decisions/0013-what-a-claim-can-see.md). The price is that resolving an edge updates all its indexes.
CREATE TABLE windlass.edge (
    child    uuid NOT NULL,
    parent   uuid NOT NULL,
    resolved boolean NOT NULL,
    PRIMARY KEY (child, parent)
) WITH (fillfactor = 80);
CREATE INDEX edge_parent ON windlass.edge (parent, child);
CREATE INDEX edge_open ON windlass.edge (parent, child) WHERE NOT resolved;

-- Ended tasks with unresolved edges. Edges up to the child `after` are resolved.
CREATE TABLE windlass.ended (
    parent uuid PRIMARY KEY,
    how    text COLLATE "C" NOT NULL,
    after  uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'
);

-- Tasks submitted in a caller's transaction. Their prerequisites may have ended while it was open.
CREATE TABLE windlass.joining (
    child uuid PRIMARY KEY
);

-- Operations on more tasks than one transaction handles (docs/decisions/0012-bulk-operations.md): their tasks, recorded
-- before anything is changed, and the stage of each. Once an operation is decided, any sweep can complete it.
CREATE TABLE windlass.bulk (
    id      uuid PRIMARY KEY,
    action    text COLLATE "C" NOT NULL CHECK (action IN ('retry', 'cancel', 'drop')),
    decided boolean NOT NULL DEFAULT false,
    reason  text,
    grace   bigint,
    expires bigint NOT NULL
);

CREATE TABLE windlass.bulk_task (
    bulk   uuid NOT NULL,
    task   uuid NOT NULL,
    chosen boolean NOT NULL,
    stage  text COLLATE "C" NOT NULL CHECK (stage IN ('walk', 'found', 'in', 'out', 'left', 'done', 'announced')),
    PRIMARY KEY (bulk, task)
);
CREATE INDEX bulk_task_stage ON windlass.bulk_task (bulk, stage, task);
CREATE INDEX bulk_task_task ON windlass.bulk_task (task);

-- Claim partitions. While a long transaction blocks vacuum, entries of claimed tasks stay at the head of `task_runnable`,
-- and every claim has to skip them. So runnable tasks are kept in partitions: when the head of the open one gets slow, a
-- new one is opened, and in a closed one claims look only behind its mark (docs/decisions/0004-a-pinned-horizon.md). A
-- queue without a row has one open partition, number 0.
CREATE TABLE windlass.lot (
    queue         text COLLATE "C" NOT NULL,
    number        bigint NOT NULL,
    band          bigint NOT NULL DEFAULT -9223372036854775808,
    rank          bigint NOT NULL DEFAULT -9223372036854775808,
    tie           bigint NOT NULL DEFAULT -9223372036854775808,
    id            uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    closed_before xid8,
    PRIMARY KEY (queue, number)
);

CREATE TABLE windlass.session (
    id      uuid PRIMARY KEY,
    node    text NOT NULL,
    ttl     bigint NOT NULL,
    renewed bigint NOT NULL,
    boot    text NOT NULL,
    lost    boolean NOT NULL DEFAULT false,
    about   text NOT NULL DEFAULT '',
    workers text NOT NULL DEFAULT '',
    report  text NOT NULL DEFAULT '',
    reported bigint
) WITH (fillfactor = 50);

CREATE TABLE windlass.workflow (
    id          uuid PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    sealed      boolean NOT NULL,
    forward     bigint,
    check_later boolean NOT NULL DEFAULT false
);
CREATE INDEX workflow_check_later ON windlass.workflow (id) WHERE check_later;

CREATE TABLE windlass.placeholder (
    id       uuid PRIMARY KEY,
    workflow uuid NOT NULL,
    expires  bigint NOT NULL
);
CREATE INDEX placeholder_workflow ON windlass.placeholder (workflow);
CREATE INDEX placeholder_expires ON windlass.placeholder (expires);

CREATE TABLE windlass.queue (
    name        text COLLATE "C" PRIMARY KEY,
    strategy    text COLLATE "C" NOT NULL,
    horizon     bigint NOT NULL,
    step        bigint NOT NULL,
    paused      boolean NOT NULL,
    paused_by   text,
    paused_why  text,
    max_waiting integer,
    max_leased  integer,
    weight      integer NOT NULL,
    fair        boolean NOT NULL
);

-- Counts are sums of appended deltas, so that transactions never wait for each other here. The sweep folds them.
-- Deltas that the time series counts have more columns: when they happened (`at`), the number of new tasks (`arrived`), and
-- how long started tasks had waited in total and at most. Folding moves these to `series`.
CREATE TABLE windlass.count_delta (
    queue   text COLLATE "C" NOT NULL,
    tenant  text COLLATE "C" NOT NULL,
    state   text COLLATE "C" NOT NULL,
    tasks   bigint NOT NULL,
    at      bigint,
    arrived bigint,
    waited  bigint,
    longest bigint
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The time series: one second per row, older ones one minute (docs/decisions/0015-time-series-from-count-deltas.md). Rows
-- are only appended and removed; readers add up several rows of one queue and time.
CREATE TABLE windlass.series (
    queue     text COLLATE "C" NOT NULL,
    width     bigint NOT NULL,
    at        bigint NOT NULL,
    arrived   bigint NOT NULL,
    started   bigint NOT NULL,
    completed bigint NOT NULL,
    failed    bigint NOT NULL,
    retried   bigint NOT NULL,
    waited    bigint NOT NULL,
    longest   bigint NOT NULL
);
CREATE INDEX series_at ON windlass.series (width, at);
CREATE INDEX series_queue ON windlass.series (queue, width, at);

-- The output of handlers, one row per attempt with output.
CREATE TABLE windlass.log (
    task  uuid NOT NULL,
    fence bigint NOT NULL,
    text  text NOT NULL,
    PRIMARY KEY (task, fence)
);

-- The progress of attempts, outside the hot row of `task`, and updated in place (HOT updates).
CREATE TABLE windlass.progress (
    task    uuid PRIMARY KEY,
    fence   bigint NOT NULL,
    share   double precision CHECK (share BETWEEN 0 AND 1),
    message text,
    at      bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE windlass.handler (
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
CREATE TABLE windlass.cron (
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

-- Small documents, updated in place (HOT updates). A removed one has no value and keeps its version. `mark` identifies the
-- last write, so that a writer whose answer was lost can find out whether it was committed.
CREATE TABLE windlass.control (
    kind    text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    value   text,
    changed bigint NOT NULL,
    mark    uuid NOT NULL,
    PRIMARY KEY (kind, name)
) WITH (fillfactor = 50);

-- What was done or decided, and by whom. `kind` is the first part of the subject.
CREATE TABLE windlass.audit (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    action  text COLLATE "C" NOT NULL,
    text    text NOT NULL,
    by      text NOT NULL,
    data    text NOT NULL
);
CREATE INDEX audit_kind ON windlass.audit (kind, number);
CREATE INDEX audit_subject ON windlass.audit (subject, number);

-- Return the open partition of a queue. The transaction gets its id first, and a volatile function reads with a new
-- snapshot. So the one who closes a partition knows which transactions to wait for.
CREATE FUNCTION windlass.open_lot(of_queue text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    AS $$
BEGIN
    PERFORM pg_catalog.pg_current_xact_id();
    RETURN coalesce((SELECT max(number) FROM windlass.lot WHERE queue = of_queue), 0);
END $$;
