-- The tables of Windlass after all migrations, for reading. A test compares a database built from this file with one
-- built from the migrations.
--
-- Times are microseconds since 1970, UTC. Ids are 16 bytes.
--
-- `task` has what callers wrote, `runnable`, `leased` and `completed` what changes while tasks run, `result` what handlers
-- returned, `attempt` the errors. There are no foreign keys: each would cost a lookup for every row.

CREATE TABLE meta (
    one      INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    epoch    INTEGER NOT NULL DEFAULT 0,
    settings INTEGER NOT NULL DEFAULT 0 -- Grows with every change of a limit or of the settings of a tenant.
) STRICT;
INSERT INTO meta DEFAULT VALUES;

-- One row per task, with what its caller wrote, and its state unless that changes often. The state `queued` means that the
-- task was made runnable: it is then in one of the tables `runnable`, `leased` and `completed`, and the hot path moves it
-- from each to the next without writing this row (docs/decisions/0019-one-table-per-hot-state.md). `fence`, `session` and
-- `claimed` are those of the latest lease that did not complete.
-- `task` and `edge` are stored in the order of their batches, not by id: ids of tasks with keys are hashes, so the tasks
-- of one batch would each be on another page (docs/decisions/0034-rows-in-submit-order.md).
CREATE TABLE task (
    id               BLOB PRIMARY KEY NOT NULL,
    queue            TEXT NOT NULL,
    tenant           TEXT NOT NULL,
    state            TEXT NOT NULL CHECK (state IN (
                         'waiting', 'scheduled', 'queued', 'retrying', 'failed', 'cancelled', 'expired')),
    band             INTEGER NOT NULL,
    rank             INTEGER NOT NULL,
    tie              INTEGER NOT NULL,
    due              INTEGER NOT NULL,
    expires          INTEGER,
    waiting          INTEGER NOT NULL CHECK (waiting >= 0),
    on_failure       TEXT NOT NULL,
    fence            INTEGER NOT NULL DEFAULT 0,
    session          BLOB,
    claimed          INTEGER,
    finished         INTEGER,
    attempts         INTEGER NOT NULL DEFAULT 0,
    crashes          INTEGER NOT NULL DEFAULT 0,
    losses           INTEGER NOT NULL DEFAULT 0,
    generation       INTEGER NOT NULL DEFAULT 0,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    cancel_by        INTEGER,
    reason           TEXT,
    lot              INTEGER NOT NULL DEFAULT 0,
    kind             INTEGER NOT NULL,
    error_group      TEXT, -- Of a failed task: the fingerprint of its last error.
    handler          TEXT NOT NULL,
    args             TEXT NOT NULL,
    rules            TEXT,
    workflow         TEXT,
    workflow_tenant  TEXT,
    key              TEXT,
    fingerprint      BLOB,
    priority         INTEGER NOT NULL,
    deadline         INTEGER,
    first_due        INTEGER NOT NULL,
    submitted        INTEGER NOT NULL,
    wait             TEXT, -- What it waits for instead of running a handler, as JSON.
    CONSTRAINT finished_at_the_end CHECK ((finished IS NOT NULL) = (state IN ('failed', 'cancelled', 'expired'))),
    CONSTRAINT runs_after_its_prerequisites CHECK
        (waiting = 0 OR state IN ('waiting', 'failed', 'cancelled', 'expired')),
    CONSTRAINT tenant_of_its_workflow CHECK ((workflow IS NULL) = (workflow_tenant IS NULL))
) STRICT;

CREATE INDEX task_submitted ON task (submitted, id);
CREATE INDEX task_due ON task (due) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX task_cancel_by ON task (cancel_by) WHERE cancel_by IS NOT NULL;
CREATE INDEX task_expires ON task (expires)
    WHERE expires IS NOT NULL AND state IN ('waiting', 'scheduled', 'retrying');
CREATE INDEX task_failed ON task (finished, id) WHERE state = 'failed';
CREATE INDEX task_finished ON task (finished, id) WHERE state IN ('cancelled', 'expired');
-- `workflow_tenant` repeats the tenant, only for tasks of a workflow. The first index has the steps of a workflow in submit
-- order. The second lists workflows, newest first, with one lookup per (submitted, workflow, tenant).
CREATE INDEX task_workflow ON task (workflow, workflow_tenant, submitted, id) WHERE workflow IS NOT NULL;
CREATE INDEX task_workflow_newest ON task (submitted, workflow, workflow_tenant) WHERE workflow IS NOT NULL;

-- The tasks that can be claimed, with what the choice needs. `lot` is 0, or the negative number of a lane
-- (docs/decisions/0022-who-goes-next.md).
CREATE TABLE runnable (
    queue   TEXT NOT NULL,
    lot     INTEGER NOT NULL DEFAULT 0,
    band    INTEGER NOT NULL,
    rank    INTEGER NOT NULL,
    tie     INTEGER NOT NULL,
    id      BLOB NOT NULL,
    kind    INTEGER NOT NULL,
    due     INTEGER NOT NULL,
    expires INTEGER,
    PRIMARY KEY (queue, lot, band, rank, tie, id)
) STRICT, WITHOUT ROWID;
-- For claims that skip kinds of tasks (docs/decisions/0013-what-a-claim-can-see.md).
CREATE INDEX runnable_kind ON runnable (queue, lot, kind, band, rank, tie, id);
-- For the longest wait.
CREATE INDEX runnable_oldest ON runnable (queue, due);
CREATE INDEX runnable_expires ON runnable (expires) WHERE expires IS NOT NULL;

-- The leases. The table has as many rows as tasks are running, so it needs no index by session.
CREATE TABLE leased (
    id               BLOB PRIMARY KEY,
    fence            INTEGER NOT NULL,
    session          BLOB NOT NULL,
    claimed          INTEGER NOT NULL,
    queue            TEXT NOT NULL,
    tenant           TEXT NOT NULL,
    handler          TEXT NOT NULL,
    limit_key        TEXT,
    limited          INTEGER NOT NULL DEFAULT 0, -- Counted for limits.
    charge           INTEGER, -- In a fair queue, what was charged to the tenant.
    cancel_requested INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX leased_cancelling ON leased (session) WHERE cancel_requested;
CREATE INDEX leased_limited ON leased (queue, tenant, handler, limit_key) WHERE limited;

CREATE TABLE completed (
    id       BLOB PRIMARY KEY,
    fence    INTEGER NOT NULL,
    session  BLOB NOT NULL,
    claimed  INTEGER NOT NULL,
    finished INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX completed_finished ON completed (finished, id);

-- Every task as it is now. Statements look it up by id.
CREATE VIEW current_task AS
SELECT t.id, t.queue, t.tenant,
       CASE WHEN t.state <> 'queued' THEN t.state WHEN l.id IS NOT NULL THEN 'leased'
            WHEN c.id IS NOT NULL THEN 'completed' ELSE 'runnable' END AS state,
       t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure,
       coalesce(l.fence, c.fence, t.fence) AS fence, coalesce(l.session, c.session, t.session) AS session,
       coalesce(l.claimed, c.claimed, t.claimed) AS claimed, coalesce(c.finished, t.finished) AS finished,
       CASE WHEN c.id IS NULL THEN t.attempts ELSE t.attempts + 1 END AS attempts, t.crashes, t.losses, t.generation,
       t.cancel_requested, t.cancel_by, CASE WHEN c.id IS NULL THEN t.reason END AS reason, t.error_group,
       t.handler, t.args, t.rules, t.workflow, t.workflow_tenant, t.key, t.fingerprint, t.priority, t.deadline,
       t.first_due, t.submitted, t.wait
  FROM task AS t
  LEFT JOIN leased AS l ON l.id = t.id
  LEFT JOIN completed AS c ON c.id = t.id;

CREATE TABLE result (
    id    BLOB PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Attempts that did not complete. A completed one is in the task itself.
CREATE TABLE attempt (
    task    BLOB NOT NULL,
    fence   INTEGER NOT NULL,
    session BLOB NOT NULL,
    started INTEGER NOT NULL,
    ended   INTEGER NOT NULL,
    state   TEXT NOT NULL,
    error   TEXT,
    PRIMARY KEY (task, fence)
) STRICT, WITHOUT ROWID;

CREATE TABLE edge (
    child    BLOB NOT NULL,
    parent   BLOB NOT NULL,
    resolved INTEGER NOT NULL,
    PRIMARY KEY (child, parent)
) STRICT;
CREATE INDEX edge_parent ON edge (parent, child);

-- Ended tasks with unresolved edges. Edges up to the child `after` are resolved.
CREATE TABLE ended (
    parent BLOB PRIMARY KEY,
    how    TEXT NOT NULL,
    after  BLOB NOT NULL DEFAULT x'00000000000000000000000000000000'
) STRICT, WITHOUT ROWID;

-- Tasks submitted in a caller's transaction. Their prerequisites may have ended while it was open.
CREATE TABLE joining (
    child BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Operations on more tasks than one transaction handles (docs/decisions/0012-bulk-operations.md): their tasks, recorded
-- before anything is changed, and the stage of each. Once an operation is decided, any sweep can complete it.
CREATE TABLE bulk (
    id      BLOB PRIMARY KEY,
    action    TEXT NOT NULL CHECK (action IN ('retry', 'cancel', 'drop')),
    decided INTEGER NOT NULL DEFAULT 0,
    reason  TEXT,
    grace   INTEGER,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE bulk_task (
    bulk   BLOB NOT NULL,
    task   BLOB NOT NULL,
    chosen INTEGER NOT NULL,
    stage  TEXT NOT NULL CHECK (stage IN ('walk', 'found', 'in', 'out', 'left', 'done', 'announced')),
    PRIMARY KEY (bulk, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX bulk_task_stage ON bulk_task (bulk, stage, task);
CREATE INDEX bulk_task_task ON bulk_task (task);

CREATE TABLE session (
    id      BLOB PRIMARY KEY,
    node    TEXT NOT NULL,
    ttl     INTEGER NOT NULL,
    renewed INTEGER NOT NULL,
    boot    TEXT NOT NULL,
    lost    INTEGER NOT NULL DEFAULT 0,
    about   TEXT NOT NULL DEFAULT '',
    workers TEXT NOT NULL DEFAULT '',
    report  TEXT NOT NULL DEFAULT '',
    reported INTEGER,
    closed  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow (
    id          BLOB PRIMARY KEY,
    tenant      TEXT NOT NULL,
    name        TEXT NOT NULL,
    sealed      INTEGER NOT NULL,
    forward     INTEGER,
    check_later INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX workflow_check_later ON workflow (id) WHERE check_later;

CREATE TABLE placeholder (
    id       BLOB PRIMARY KEY,
    workflow BLOB NOT NULL,
    expires  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX placeholder_workflow ON placeholder (workflow);
CREATE INDEX placeholder_expires ON placeholder (expires);

CREATE TABLE queue (
    name         TEXT PRIMARY KEY,
    strategy     TEXT NOT NULL,
    horizon      INTEGER NOT NULL,
    step         INTEGER NOT NULL,
    paused       INTEGER NOT NULL,
    paused_by    TEXT,
    paused_why   TEXT,
    paused_until INTEGER,
    max_waiting  INTEGER,
    weight       INTEGER NOT NULL,
    fair         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Counts are sums of appended deltas, which the sweep folds, as on PostgreSQL.
-- Deltas that the time series counts have more columns: when they happened (`at`), the number of new tasks (`arrived`), and
-- how long started tasks had waited in total and at most. Folding moves these to `series`.
CREATE TABLE count_delta (
    queue   TEXT NOT NULL,
    tenant  TEXT NOT NULL,
    state   TEXT NOT NULL,
    tasks   INTEGER NOT NULL,
    at      INTEGER,
    arrived INTEGER,
    waited  INTEGER,
    longest INTEGER
) STRICT;

-- The time series, as on PostgreSQL.
CREATE TABLE series (
    queue     TEXT NOT NULL,
    width     INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    arrived   INTEGER NOT NULL,
    started   INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    retried   INTEGER NOT NULL,
    waited    INTEGER NOT NULL,
    longest   INTEGER NOT NULL
) STRICT;
CREATE INDEX series_at ON series (width, at);
CREATE INDEX series_queue ON series (queue, width, at);

-- The output of handlers, one row per attempt with output.
CREATE TABLE log (
    task  BLOB NOT NULL,
    fence INTEGER NOT NULL,
    text  TEXT NOT NULL,
    PRIMARY KEY (task, fence)
) STRICT, WITHOUT ROWID;

-- The progress of attempts.
CREATE TABLE progress (
    task    BLOB PRIMARY KEY,
    fence   INTEGER NOT NULL,
    share   REAL CHECK (share BETWEEN 0 AND 1),
    message TEXT,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE handler (
    name       TEXT PRIMARY KEY,
    is_async   INTEGER NOT NULL,
    queue      TEXT NOT NULL,
    parameters TEXT NOT NULL,
    returns    TEXT NOT NULL,
    doc        TEXT NOT NULL,
    template   TEXT NOT NULL,
    seen       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `fired` is the latest nominal time that fired or was skipped. The node that moves it forward fires the cron. `due` is when
-- a cron that was created at run time fires next; crons in code have none. `version` grows with every change.
CREATE TABLE cron (
    name       TEXT PRIMARY KEY,
    handler    TEXT NOT NULL,
    schedule   TEXT NOT NULL,
    timezone   TEXT NOT NULL,
    misfire    TEXT NOT NULL,
    args       TEXT NOT NULL,
    fired      INTEGER,
    paused     INTEGER NOT NULL DEFAULT 0,
    paused_by  TEXT,
    paused_why TEXT,
    queue       TEXT,
    tenant      TEXT,
    priority    INTEGER,
    starts      INTEGER,
    ends        INTEGER,
    at_run_time INTEGER NOT NULL DEFAULT 0,
    version     INTEGER NOT NULL DEFAULT 0,
    due         INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX cron_due ON cron (due) WHERE at_run_time AND NOT paused;
CREATE INDEX cron_in_code ON cron (handler) WHERE NOT at_run_time;

-- Small documents. A removed one has no value and keeps its version.
CREATE TABLE control (
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    version INTEGER NOT NULL,
    value   TEXT,
    changed INTEGER NOT NULL,
    mark    BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- What was done or decided, and by whom. `kind` is the first part of the subject. Numbers are never reused.
CREATE TABLE audit (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    subject TEXT NOT NULL,
    action  TEXT NOT NULL,
    text    TEXT NOT NULL,
    by      TEXT NOT NULL,
    data    TEXT NOT NULL
) STRICT;
CREATE INDEX audit_kind ON audit (kind, number);
CREATE INDEX audit_subject ON audit (subject, number);

-- What the tenants have used of fair queues (`core.fairness.Account`). The row of the queue itself has no tenant. Claims find
-- active tenants by their charge, and the others by their lanes.
CREATE TABLE account (
    queue   TEXT NOT NULL,
    tenant  TEXT NOT NULL,
    charged INTEGER NOT NULL,
    highest INTEGER NOT NULL,
    mean    INTEGER NOT NULL,
    minute  REAL NOT NULL,
    hour    REAL NOT NULL,
    at      INTEGER NOT NULL,
    active  INTEGER NOT NULL,
    PRIMARY KEY (queue, tenant)
) STRICT, WITHOUT ROWID;
CREATE INDEX account_turn ON account (queue, charged, tenant) WHERE active;
CREATE INDEX account_idle ON account (at) WHERE NOT active;

-- Attempts of fair queues that have ended. The next claim adds them to the accounts.
CREATE TABLE usage (
    queue    TEXT NOT NULL,
    tenant   TEXT NOT NULL,
    ran      INTEGER NOT NULL,
    charge   INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    at       INTEGER NOT NULL
) STRICT;
CREATE INDEX usage_queue ON usage (queue);

-- Scopes of limits in which a lease has ended. The next claim under limits looks at the tasks again that they held back.
CREATE TABLE freed (
    queue     TEXT NOT NULL,
    tenant    TEXT NOT NULL,
    handler   TEXT NOT NULL,
    limit_key TEXT
) STRICT;

-- Lanes of tasks that a limit held back, by the name of the limit. Claims look at a lane from `ready` on; without it, when
-- a lease in the scope of the limit has ended. The name is empty for a queue that was fair: its lanes are to be emptied.
CREATE TABLE parked (
    queue  TEXT NOT NULL,
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    lot    INTEGER NOT NULL,
    ready  INTEGER,
    PRIMARY KEY (queue, tenant, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX parked_ready ON parked (queue, ready, tenant, name) WHERE ready IS NOT NULL;
CREATE INDEX parked_name ON parked (name);
CREATE INDEX parked_lot ON parked (queue, lot);

-- Rates: when the bucket of a limit is full again.
CREATE TABLE bucket (
    name    TEXT PRIMARY KEY,
    full_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX bucket_full ON bucket (full_at);

-- Locks of unique tasks (docs/decisions/0025-unique-tasks.md): the task that holds each, and until when it counts after it has
-- started. From `look` on the sweep deletes a lock whose task has completed or is gone.
CREATE TABLE unique_lock (
    id    BLOB PRIMARY KEY,
    task  BLOB NOT NULL,
    until INTEGER NOT NULL,
    look  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX unique_lock_look ON unique_lock (look);
