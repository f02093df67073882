-- count: add deltas to the counts.
-- batch: queue text, tenant text, state text, tasks bigint
INSERT INTO windlass.tally (queue, tenant, state, tasks)
SELECT * FROM unnest(:queue::text[], :tenant::text[], :state::text[], :tasks::bigint[]);
