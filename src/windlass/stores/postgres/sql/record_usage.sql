-- record_usage: write down attempts of fair queues that have ended.
-- batch: queue text, tenant text, ran bigint, charge bigint, attempts bigint, at bigint
INSERT INTO windlass.usage (queue, tenant, ran, charge, attempts, at)
SELECT * FROM unnest(:queue::text[], :tenant::text[], :ran::bigint[], :charge::bigint[], :attempts::bigint[], :at::bigint[]);
