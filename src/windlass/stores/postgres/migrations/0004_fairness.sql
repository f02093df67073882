-- Who goes next: fair queues and limits (docs/decisions/0022-who-goes-next.md). Safe to run twice.

-- What the tenants have used of fair queues (`core.fairness.Account`). The row of the queue itself has no tenant. Claims find
-- active tenants by their charge, and the others by their lanes.
CREATE TABLE IF NOT EXISTS windlass.account (
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
CREATE INDEX IF NOT EXISTS account_turn ON windlass.account (queue, charged, tenant) WHERE active;
CREATE INDEX IF NOT EXISTS account_idle ON windlass.account (at) WHERE NOT active;

-- Attempts of fair queues that have ended. The next claim adds them to the accounts.
CREATE TABLE IF NOT EXISTS windlass.usage (
    queue    text COLLATE "C" NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    ran      bigint NOT NULL,
    charge   bigint NOT NULL,
    attempts bigint NOT NULL,
    at       bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX IF NOT EXISTS usage_queue ON windlass.usage (queue);

-- Scopes of limits in which a lease has ended. The next claim under limits looks at the tasks again that they held back.
CREATE TABLE IF NOT EXISTS windlass.freed (
    queue     text COLLATE "C" NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    handler   text COLLATE "C" NOT NULL,
    limit_key text COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Lanes of tasks that a limit held back, by the name of the limit. Claims look at a lane from `ready` on; without it, when
-- a lease in the scope of the limit has ended. The name is empty for a queue that was fair: its lanes are to be emptied.
CREATE TABLE IF NOT EXISTS windlass.parked (
    queue  text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    lot    bigint NOT NULL,
    ready  bigint,
    PRIMARY KEY (queue, tenant, name)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS parked_ready ON windlass.parked (queue, ready, tenant, name) WHERE ready IS NOT NULL;
-- The conditions are always true. Only a statement that repeats one can use its index: a name and a queue may have very many
-- lanes.
CREATE INDEX IF NOT EXISTS parked_name ON windlass.parked (name) WHERE lot < 0;
CREATE INDEX IF NOT EXISTS parked_lot ON windlass.parked (queue, lot) WHERE lot <= -1;

-- Rates: when the bucket of a limit is full again.
CREATE TABLE IF NOT EXISTS windlass.bucket (
    name    text COLLATE "C" PRIMARY KEY,
    full_at bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS bucket_full ON windlass.bucket (full_at);

-- Return the lane of a tenant in fair queues, as stores.sql.lanes.lane_of does.
CREATE OR REPLACE FUNCTION windlass.lane(of_tenant text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT -1 - ('x' || left(encode(sha256(convert_to(of_tenant, 'UTF8')), 'hex'), 15))::bit(60)::bigint $$;

-- Return the partition for a new runnable task: the lane of its tenant in a fair queue, else the open partition. As
-- `open_lot`, it gets a transaction id first.
CREATE OR REPLACE FUNCTION windlass.lot_of(of_queue text, of_tenant text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    AS $$
BEGIN
    PERFORM pg_catalog.pg_current_xact_id();
    RETURN CASE WHEN EXISTS (SELECT FROM windlass.queue WHERE name = of_queue AND fair) THEN windlass.lane(of_tenant)
                ELSE coalesce((SELECT max(number) FROM windlass.lot WHERE queue = of_queue), 0) END;
END $$;
