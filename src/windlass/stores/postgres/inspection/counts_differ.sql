-- counts_differ: the queues, tenants and states whose deltas do not add up to the rows there are.
SELECT queue || '/' || tenant || '/' || state || ': ' || sum(counted) || ' in the counts, ' || sum(there) || ' rows',
       count(*) OVER ()
  FROM (SELECT queue, tenant, state, tasks AS counted, 0 AS there FROM windlass.tally
         UNION ALL
        SELECT queue, tenant, state, 0, 1 FROM windlass.task) AS both_sides
 GROUP BY queue, tenant, state
HAVING sum(counted) <> sum(there)
 LIMIT 5;
