-- Who goes next: fair queues and limits (docs/decisions/0022-who-goes-next.md).

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
