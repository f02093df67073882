-- count: add deltas to the counts.
-- batch: queue text, tenant text, state text, tasks integer
INSERT INTO tally (queue, tenant, state, tasks)
VALUES (:queue, :tenant, :state, :tasks);
