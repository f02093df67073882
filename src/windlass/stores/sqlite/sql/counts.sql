-- counts: return the number of tasks by queue, tenant and state.
SELECT queue, tenant, state, sum(tasks)
  FROM count_delta
 GROUP BY queue, tenant, state
HAVING sum(tasks) <> 0
 ORDER BY queue, tenant, state;
