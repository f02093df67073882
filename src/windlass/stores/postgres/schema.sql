-- The tables of Windlass after all migrations, for reading. A test compares a database built from this file with one
-- built from the migrations.
--
-- Times are microseconds since 1970, UTC.
--
-- `task` has what callers wrote, `runnable`, `leased` and `completed` what changes while tasks run, `result` what handlers
-- returned, `attempt` the errors. A transaction locks rows in one statement and in id order
-- (docs/architecture/stores.md). There are no foreign keys: each would cost a lock on the parent for every row.

CREATE FUNCTION windlass.clock(given bigint) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $$;

-- Return the fence of the next lease of a task, as core.fence.next_fence does.
CREATE FUNCTION windlass.next_fence(fence bigint, epoch bigint, submitted bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT greatest(fence, (epoch << 40) + submitted / 10000) + 1 $$;

CREATE TABLE windlass.meta (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch    bigint NOT NULL DEFAULT 0,
    settings bigint NOT NULL DEFAULT 0 -- Grows with every change of a limit or of the settings of a tenant.
);
INSERT INTO windlass.meta DEFAULT VALUES;

-- One row per task, with what its caller wrote, and its state unless that changes often. The state `queued` means that the
-- task was made runnable: it is then in one of the tables `runnable`, `leased` and `completed`, and the hot path moves it
-- from each to the next without writing this row (docs/decisions/0019-one-table-per-hot-state.md). `fence`, `session` and
-- `claimed` are those of the latest lease that did not complete.
CREATE TABLE windlass.task (
    id               uuid PRIMARY KEY,
    queue            text COLLATE "C" NOT NULL,
    tenant           text COLLATE "C" NOT NULL,
    state            text COLLATE "C" NOT NULL CHECK (state IN (
                         'waiting', 'scheduled', 'queued', 'retrying', 'failed', 'cancelled', 'expired')),
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
    handler          text COLLATE "C" NOT NULL,
    args             text NOT NULL,
    rules            text,
    workflow         text COLLATE "C",
    workflow_tenant  text COLLATE "C",
    key              text COLLATE "C",
    fingerprint      uuid,
    priority         integer NOT NULL,
    deadline         bigint,
    first_due        bigint NOT NULL,
    submitted        bigint NOT NULL,
    wait             text, -- What it waits for instead of running a handler, as JSON.
    CONSTRAINT finished_at_the_end CHECK ((finished IS NOT NULL) = (state IN ('failed', 'cancelled', 'expired'))),
    CONSTRAINT runs_after_its_prerequisites CHECK
        (waiting = 0 OR state IN ('waiting', 'failed', 'cancelled', 'expired')),
    CONSTRAINT tenant_of_its_workflow CHECK ((workflow IS NULL) = (workflow_tenant IS NULL))
) WITH (fillfactor = 95, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

CREATE INDEX task_submitted ON windlass.task (submitted, id);
CREATE INDEX task_due ON windlass.task (due) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX task_cancel_by ON windlass.task (cancel_by) WHERE cancel_by IS NOT NULL;
CREATE INDEX task_expires ON windlass.task (expires)
    WHERE expires IS NOT NULL AND state IN ('waiting', 'scheduled', 'retrying');
CREATE INDEX task_failed ON windlass.task (finished, id) WHERE state = 'failed';
CREATE INDEX task_finished ON windlass.task (finished, id) WHERE state IN ('cancelled', 'expired');
-- `workflow_tenant` repeats the tenant, only for tasks of a workflow. The first index has the steps of a workflow in submit
-- order. The second lists workflows, newest first, with one lookup per (submitted, workflow, tenant).
CREATE INDEX task_workflow ON windlass.task (workflow, workflow_tenant, submitted, id) WHERE workflow IS NOT NULL;
CREATE INDEX task_workflow_newest ON windlass.task (submitted, workflow, workflow_tenant) WHERE workflow IS NOT NULL;

-- The tasks that can be claimed, with what the choice needs.
CREATE TABLE windlass.runnable (
    queue   text COLLATE "C" NOT NULL,
    lot     bigint NOT NULL DEFAULT 0,
    band    bigint NOT NULL,
    rank    bigint NOT NULL,
    tie     bigint NOT NULL,
    id      uuid NOT NULL,
    kind    bigint NOT NULL,
    due     bigint NOT NULL,
    expires bigint,
    PRIMARY KEY (queue, lot, band, rank, tie, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
-- These two indexes have all tasks that are not in lanes. Only statements that repeat the condition can use them, so that
-- none looks up a task through a part of their columns: an empty table makes all indexes look equally good.
-- For claims that skip kinds of tasks (docs/decisions/0013-what-a-claim-can-see.md). `lot > -1` does not imply `lot >= 0`
-- for the planner, so these claims cannot use `runnable_oldest`, which is smaller.
CREATE INDEX runnable_of_kind ON windlass.runnable (queue, lot, kind, band, rank, tie, id) WHERE lot > -1;
-- For the longest wait. By partition, so that dead entries of empty partitions need not be skipped.
CREATE INDEX runnable_oldest ON windlass.runnable (queue, lot, due) WHERE lot >= 0;
-- The same for lanes, which have negative numbers (docs/decisions/0022-who-goes-next.md). The conditions mean the same and
-- are written differently, so that a statement can use only the index that it means.
CREATE INDEX runnable_lane_kind ON windlass.runnable (queue, lot, kind, band, rank, tie, id) WHERE lot < 0;
CREATE INDEX runnable_lane_oldest ON windlass.runnable (queue, due) WHERE lot <= -1;
CREATE INDEX runnable_expires ON windlass.runnable (expires) WHERE expires IS NOT NULL;

-- The leases. An index by session is missing on purpose: it would tempt the planner to read all leases of a session to
-- find one task. The table has as many rows as tasks are running, so the sweep of a lost session reads it all.
CREATE TABLE windlass.leased (
    id               uuid PRIMARY KEY,
    fence            bigint NOT NULL,
    session          uuid NOT NULL,
    claimed          bigint NOT NULL,
    queue            text COLLATE "C" NOT NULL,
    tenant           text COLLATE "C" NOT NULL,
    handler          text COLLATE "C" NOT NULL,
    limit_key        text COLLATE "C",
    limited          boolean NOT NULL DEFAULT false, -- Counted for limits.
    charge           bigint, -- In a fair queue, what was charged to the tenant.
    cancel_requested boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE INDEX leased_cancelling ON windlass.leased (session) WHERE cancel_requested;
CREATE INDEX leased_limited ON windlass.leased (queue, tenant, handler, limit_key) WHERE limited;

CREATE TABLE windlass.completed (
    id       uuid PRIMARY KEY,
    fence    bigint NOT NULL,
    session  uuid NOT NULL,
    claimed  bigint NOT NULL,
    finished bigint NOT NULL
);
CREATE INDEX completed_finished ON windlass.completed (finished);

-- Every task as it is now. Statements look it up by id.
CREATE VIEW windlass.current_task AS
SELECT t.id, t.queue, t.tenant,
       CASE WHEN t.state <> 'queued' THEN t.state WHEN l.id IS NOT NULL THEN 'leased' COLLATE "C"
            WHEN c.id IS NOT NULL THEN 'completed' COLLATE "C" ELSE 'runnable' COLLATE "C" END AS state,
       t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure,
       coalesce(l.fence, c.fence, t.fence) AS fence, coalesce(l.session, c.session, t.session) AS session,
       coalesce(l.claimed, c.claimed, t.claimed) AS claimed, coalesce(c.finished, t.finished) AS finished,
       CASE WHEN c.id IS NULL THEN t.attempts ELSE t.attempts + 1 END AS attempts, t.crashes, t.losses, t.generation,
       t.cancel_requested, t.cancel_by, CASE WHEN c.id IS NULL THEN t.reason END AS reason, t.error_group,
       t.handler, t.args, t.rules, t.workflow, t.workflow_tenant, t.key, t.fingerprint, t.priority, t.deadline,
       t.first_due, t.submitted, t.wait
  FROM windlass.task AS t
  LEFT JOIN windlass.leased AS l ON l.id = t.id
  LEFT JOIN windlass.completed AS c ON c.id = t.id;

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

-- Claim partitions. While a long transaction blocks vacuum, entries of claimed tasks stay at the head of `runnable`,
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
    reported bigint,
    closed  boolean NOT NULL DEFAULT false
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
    name         text COLLATE "C" PRIMARY KEY,
    strategy     text COLLATE "C" NOT NULL,
    horizon      bigint NOT NULL,
    step         bigint NOT NULL,
    paused       boolean NOT NULL,
    paused_by    text,
    paused_why   text,
    paused_until bigint,
    max_waiting  integer,
    weight       integer NOT NULL,
    fair         boolean NOT NULL
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

-- The progress of attempts, outside the hot rows, and updated in place (HOT updates).
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

-- `fired` is the latest nominal time that fired or was skipped. The node that moves it forward fires the cron. `due` is when
-- a cron that was created at run time fires next; crons in code have none. `version` grows with every change.
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
    paused_why text,
    queue       text COLLATE "C",
    tenant      text COLLATE "C",
    priority    integer,
    starts      bigint,
    ends        bigint,
    at_run_time boolean NOT NULL DEFAULT false,
    version     bigint NOT NULL DEFAULT 0,
    due         bigint
);
CREATE INDEX cron_due ON windlass.cron (due) WHERE at_run_time AND NOT paused;
CREATE INDEX cron_in_code ON windlass.cron (handler) WHERE NOT at_run_time;

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

-- What the tenants have used of fair queues (`core.fairness.Account`). The row of the queue itself has no tenant. Claims find
-- active tenants by their charge, and the others by their lanes.
CREATE TABLE windlass.account (
    queue   text COLLATE "C" NOT NULL,
    tenant  text COLLATE "C" NOT NULL,
    charged bigint NOT NULL,
    highest bigint NOT NULL,
    mean    bigint NOT NULL,
    minute  double precision NOT NULL,
    hour    double precision NOT NULL,
    at      bigint NOT NULL,
    active  boolean NOT NULL,
    PRIMARY KEY (queue, tenant)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX account_turn ON windlass.account (queue, charged, tenant) WHERE active;
CREATE INDEX account_idle ON windlass.account (at) WHERE NOT active;

-- Attempts of fair queues that have ended. The next claim adds them to the accounts.
CREATE TABLE windlass.usage (
    queue    text COLLATE "C" NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    ran      bigint NOT NULL,
    charge   bigint NOT NULL,
    attempts bigint NOT NULL,
    at       bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX usage_queue ON windlass.usage (queue);

-- Scopes of limits in which a lease has ended. The next claim under limits looks at the tasks again that they held back.
CREATE TABLE windlass.freed (
    queue     text COLLATE "C" NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    handler   text COLLATE "C" NOT NULL,
    limit_key text COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Lanes of tasks that a limit held back, by the name of the limit. Claims look at a lane from `ready` on; without it, when
-- a lease in the scope of the limit has ended. The name is empty for a queue that was fair: its lanes are to be emptied.
CREATE TABLE windlass.parked (
    queue  text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    lot    bigint NOT NULL,
    ready  bigint,
    PRIMARY KEY (queue, tenant, name)
) WITH (fillfactor = 50);
CREATE INDEX parked_ready ON windlass.parked (queue, ready, tenant, name) WHERE ready IS NOT NULL;
-- The conditions are always true. Only a statement that repeats one can use its index: a name and a queue may have very many
-- lanes.
CREATE INDEX parked_name ON windlass.parked (name) WHERE lot < 0;
CREATE INDEX parked_lot ON windlass.parked (queue, lot) WHERE lot <= -1;

-- Rates: when the bucket of a limit is full again.
CREATE TABLE windlass.bucket (
    name    text COLLATE "C" PRIMARY KEY,
    full_at bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX bucket_full ON windlass.bucket (full_at);

-- Return the lane of a tenant in fair queues, as stores.sql.lanes.lane_of does.
CREATE FUNCTION windlass.lane(of_tenant text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT -1 - ('x' || left(encode(sha256(convert_to(of_tenant, 'UTF8')), 'hex'), 15))::bit(60)::bigint $$;

-- Return the partition for a new runnable task: the lane of its tenant in a fair queue, else the open partition. As
-- `open_lot`, it gets a transaction id first.
CREATE FUNCTION windlass.lot_of(of_queue text, of_tenant text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    AS $$
BEGIN
    PERFORM pg_catalog.pg_current_xact_id();
    RETURN CASE WHEN EXISTS (SELECT FROM windlass.queue WHERE name = of_queue AND fair) THEN windlass.lane(of_tenant)
                ELSE coalesce((SELECT max(number) FROM windlass.lot WHERE queue = of_queue), 0) END;
END $$;

-- Locks of unique tasks (docs/decisions/0025-unique-tasks.md): the task that holds each, and until when it counts after it has
-- started. From `look` on the sweep deletes a lock whose task has completed or is gone.
CREATE TABLE windlass.unique_lock (
    id    uuid PRIMARY KEY,
    task  uuid NOT NULL,
    until bigint NOT NULL,
    look  bigint NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX unique_lock_look ON windlass.unique_lock (look);
