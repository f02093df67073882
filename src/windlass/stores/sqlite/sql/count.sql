-- count: add deltas to the counts, with what the time series needs.
-- batch: queue text, tenant text, state text, tasks integer, at integer, arrived integer, waited integer, longest integer
INSERT INTO count_delta (queue, tenant, state, tasks, at, arrived, waited, longest)
VALUES (:queue, :tenant, :state, :tasks, :at, :arrived, :waited, :longest);
