-- counts_by_state: how many tasks there are, by the counts.
SELECT state, sum(tasks) FROM windlass.tally GROUP BY state HAVING sum(tasks) > 0 ORDER BY state;
