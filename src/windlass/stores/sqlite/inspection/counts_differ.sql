-- counts_differ: return the queues, tenants and states whose counts differ from the rows.
SELECT queue || '/' || tenant || '/' || state || ': ' || sum(counted) || ' in the counts, ' || sum(there) || ' rows',
       count(*) OVER ()
  FROM (SELECT queue, tenant, state, tasks AS counted, 0 AS there FROM count_delta
         UNION ALL
        SELECT queue, tenant, state, 0, 1 FROM current_task) AS both_sides
 GROUP BY queue, tenant, state
HAVING sum(counted) <> sum(there)
 LIMIT 5;
