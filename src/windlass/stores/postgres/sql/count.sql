-- count: add deltas to the counts, with what the time series needs.
-- batch: queue text, tenant text, state text, tasks bigint, at bigint, arrived bigint, waited bigint, longest bigint
INSERT INTO windlass.count_delta (queue, tenant, state, tasks, at, arrived, waited, longest)
SELECT * FROM unnest(:queue::text[], :tenant::text[], :state::text[], :tasks::bigint[], :at::bigint[],
                     :arrived::bigint[], :waited::bigint[], :longest::bigint[]);
